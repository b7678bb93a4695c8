"""Rows into block files: each block one row group, with its id in the hidden column and its union vector in the index.

This runs in Spark's Python workers, on rows that arrive sorted by file and group, and holds one block at a time. What a
block's union vector says is worked out from the very rows that were written, never from the plan of the layout: a bit
is 0 only if no row that went into the file has it. Its other synopses are made of the same rows while they are at hand.
Rows may come with columns that are not written: the index then says of a block what its rows hold in those as well.

A file has a unique name and is not part of the table until it is committed. A task that fails or is run twice leaves a
file that no one refers to.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.layout import block_sizes, to_bytes
from sidestep.layout.pages import ANY_ORDER, PAGE_ROWS, PageOrder
from sidestep.layout.placement import FilePlan
from sidestep.layout.vectors import Words, words_for
from sidestep.predicate import DataType
from sidestep.predicate.types import FLOATING
from sidestep.store.block_column import BLOCK
from sidestep.store.location import Location, locate, make_folder, stat
from sidestep.store.parquet.blocks import block_summaries, with_layout, zone_map_columns
from sidestep.store.parquet.buckets import Bucketing, bucket_of
from sidestep.store.parquet.delta_stats import delta_stats
from sidestep.store.parquet.encodings import Encodings, choose_encodings
from sidestep.store.snapshot import DataFile, Partition
from sidestep.store.snapshots.folder import NULL_PARTITION
from sidestep.synopsis.build import BuildPlan, block_synopses, index_columns
from sidestep.synopsis.values.summary import ColumnSummary, summarize

RESERVED = "_sidestep_"
"""How the columns begin that rows carry on their way to a block, and that no table may have."""
FILE = f"{RESERVED}file"
GROUP = f"{RESERVED}group"
_UNSAFE = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 32)}
_OWN_NAME = re.compile(r"part-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(_\d{5,}\.c000)?\.zstd\.parquet")
_chosen: dict[tuple[str, str, int], Encodings] = {}
"""The encodings that this process has chosen for the table it writes."""
Key = tuple[tuple[int, tuple[str | None, ...]], int]
"""((file, partition values), group) of a row."""


@dataclass(frozen=True, slots=True)
class BlockTarget:
    """What the files of one run have in common."""

    root: str
    """The table's folder."""
    schema: pa.Schema
    """What the files hold: the table's columns but for the partition columns and the hidden one."""
    columns: Mapping[str, DataType]
    """The columns that get zone maps, whether files hold them or not."""
    min_size: int
    features: int = 0
    """How many features there are."""
    features_id: str | None = None
    partition_columns: tuple[str, ...] = ()
    making: BuildPlan = field(default_factory=BuildPlan)
    """What blocks get beside zone maps."""
    block: str = BLOCK
    """What the hidden column of block ids is called."""
    spark_version: str = field(kw_only=True)
    """Whose dates and instants these are: readers shift those of old writers."""
    beside: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Columns that rows come with and files do not hold: blocks get zone maps and other synopses of them."""
    bucketing: Bucketing | None = None
    """Where each file is to hold one unit, and to have the number of its bucket in its name."""
    pages: PageOrder = ANY_ORDER
    """How rows are sorted within their block."""
    counter: str | None = None
    """A column that counts rows as they came, by which blocks may be sorted to be small."""

    @property
    def held(self) -> dict[str, DataType]:
        """The columns with zone maps that files hold."""
        return {name: type for name, type in self.columns.items() if name not in self.beside.names}

    @property
    def words(self) -> tuple[str, ...]:
        return word_names(self.features)

    @property
    def partition_texts(self) -> tuple[str, ...]:
        return tuple(f"{RESERVED}p{number}" for number in range(len(self.partition_columns)))


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file as it is on disk, with all that a commit and the index need to know."""

    path: str
    """Relative to the table's folder."""
    size: int
    modified: int
    rows: int
    blocks: int
    partition: Partition
    stats: str
    """The statistics for the Delta log, as JSON."""
    index: pa.Table = field(compare=False, repr=False)
    """Its index rows."""

    @property
    def data_file(self) -> DataFile:
        return DataFile(self.path, self.size, self.modified, self.partition)


def word_names(features: int) -> tuple[str, ...]:
    """The columns that hold feature vectors of ``features`` bits."""
    return tuple(map(word_name, range(words_for(features))))


def word_name(number: int) -> str:
    """The column that holds one of the words of a feature vector."""
    return f"{RESERVED}v{number}"


def write_blocks(
    batches: Iterable[pa.RecordBatch], target: BlockTarget, plans: Sequence[FilePlan]
) -> Iterator[WrittenFile]:
    """Write sorted rows into files of blocks.

    Contract: rows are sorted by FILE (a position in ``plans``), then by partition values, then by GROUP. A block never
    spans two groups. A group whose size is planned is cut by :func:`sidestep.layout.block_sizes`; any other is cut as
    it comes: when twice ``min_size`` rows have gathered, the first ``min_size`` are a block. New partition values begin
    a new file. Block ids count up from the plan's first, or from the first of each group.
    """
    file: _OpenFile | None = None
    for batch in batches:
        for start, end, key in _runs(batch, target):
            if file is None or file.key[0] != key[0]:
                if file is not None:
                    yield file.finish()
                number, partition = key[0]
                follows = file is not None and file.key[0][0] == number
                first = file.next_block if follows and file is not None else plans[number].first_block
                file = _OpenFile(target, plans[number], first, key, partition, _unit_at(batch, start, target))
            file.add(batch, start, end, key)
    if file is not None:
        yield file.finish()


def _runs(batch: pa.RecordBatch, target: BlockTarget) -> Iterator[tuple[int, int, Key]]:
    """The stretches of a batch whose rows go to one group of one file."""
    if not batch.num_rows:
        return
    files, groups = (batch.column(name).to_numpy(zero_copy_only=False) for name in (FILE, GROUP))
    if batch.column(GROUP).null_count or batch.column(FILE).null_count:
        raise SidestepError("Rows came that the layout does not know: the table changed while it was read. Try again.")
    changed = (np.diff(files) != 0) | (np.diff(groups) != 0)
    texts = [batch.column(name) for name in target.partition_texts]
    for text in texts:
        codes = text.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        changed |= np.diff(codes) != 0
    starts = [0, *(np.flatnonzero(changed) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(starts):
        partition = tuple(text[start].as_py() for text in texts)
        yield start, end, ((int(files[start]), partition), int(groups[start]))


def _unit_at(batch: pa.RecordBatch, row: int, target: BlockTarget) -> int | None:
    """The unit that a file is to hold whose first row this is."""
    return None if target.bucketing is None else batch.column(target.bucketing.column)[row].as_py()


class _OpenFile:
    """A file that is being written: the rows of the next block so far, and what the index will say of earlier ones."""

    def __init__(
        self,
        target: BlockTarget,
        plan: FilePlan,
        first_block: int,
        key: Key,
        partition: tuple[str | None, ...],
        unit: int | None = None,
    ) -> None:
        self.target, self.plan, self.key, self.next_block, self.unit = target, plan, key, first_block, unit
        self.partition: Partition = tuple(zip(target.partition_columns, partition, strict=True))
        self.making = target.making.at(self.partition)
        self.schema = target.schema
        buckets = None if target.bucketing is None else target.bucketing.buckets
        self.path = _new_path(self.partition, None if buckets is None or unit is None else bucket_of(unit, buckets))
        self.rows = 0
        self.unions: list[Words] = []
        self.synopses: dict[str, list[dict[str, Any]]] = {name: [] for name in self._columns_with_synopses()}
        floating = (name for name, type in target.held.items() if type.kind in FLOATING and name in target.schema.names)
        beside = (name for name in target.columns if name not in target.held)
        self.zones: dict[str, list[ColumnSummary]] = {name: [] for name in (*floating, *beside)}
        """What each block has in the columns that the file says nothing of: those of floats, and those not in it."""
        self.groups = 0
        self._gathered: list[pa.RecordBatch] = []
        self._count = 0
        self._sizes: list[int] | None = None
        self._begin_group()

    def _columns_with_synopses(self) -> Iterator[str]:
        for name, type in self.target.columns.items():
            if self.making.recipe(name, type):
                yield name

    def _begin_group(self) -> None:
        """Know the sizes of the blocks to come, last first, where the plan knows them."""
        if self.plan.groups is None:
            return
        if self.groups >= len(self.plan.groups):
            raise _table_changed()
        self._sizes = list(reversed(block_sizes(self.plan.groups[self.groups], self.target.min_size)))
        if self.plan.ids is not None:
            self.next_block = self.plan.ids[self.groups]
        self.groups += 1

    def add(self, batch: pa.RecordBatch, start: int, end: int, key: Key) -> None:
        if key != self.key:
            self._end_group()
            self.key = key
            self._begin_group()
        self._gathered.append(batch.slice(start, end - start))
        self._count += end - start
        while (size := self._ready()) is not None:
            self._write(size)

    def _ready(self) -> int | None:
        """The size of the next block, if its rows are all there."""
        if self._sizes is None:
            return self.target.min_size if self._count >= 2 * self.target.min_size else None
        if not self._sizes:
            if self._count:
                raise _table_changed()
            return None
        return self._sizes[-1] if self._count >= self._sizes[-1] else None

    def _end_group(self) -> None:
        if self._sizes is None:
            if self._count:
                self._write(self._count)
        elif self._sizes or self._count:
            raise _table_changed()

    def _write(self, size: int) -> None:
        """Write the first rows that were gathered as a block."""
        table = pa.Table.from_batches(self._gathered)
        block, rest = table.slice(0, size), table.slice(size)
        self._gathered = rest.to_batches() if rest.num_rows else []
        self._count = rest.num_rows
        union = [np.bitwise_or.reduce(block[name].to_numpy().view(np.uint64)) for name in self.target.words]
        self.unions.append(np.array(union, np.uint64))
        columns = [_cast(block[one.name], one) for one in self.schema]
        columns.append(pa.array(np.full(size, self.next_block, np.int32)))
        written = pa.Table.from_arrays(columns, schema=self.schema.append(pa.field(self.target.block, pa.int32())))
        self._check_unit(written)
        beside = {one.name: _cast(block[one.name], one) for one in self.target.beside}
        for name, zones in self.zones.items():
            values = beside[name] if name in beside else written[name]
            zones.append(summarize(values, self.target.columns[name]))
        for name, made in self.synopses.items():
            values = beside[name] if name in beside else written[name]
            made.append(block_synopses(name, self.target.columns[name], values, self.making))
        with self._writing():
            if not self.rows:
                self._open(written)
            self._writer.write_table(self._encodings(written).arrange(written), row_group_size=size)
        self.rows += size
        self.next_block += 1
        if self._sizes is not None:
            self._sizes.pop()

    def _check_unit(self, block: pa.Table) -> None:
        """Whoever reads a bucket relies on its name, so a file with rows of another must never come to be."""
        if self.target.bucketing is not None:
            units = pc.min_max(block[self.target.bucketing.column])
            if self.unit is None or (units["min"].as_py(), units["max"].as_py()) != (self.unit, self.unit):
                raise SidestepError(f"Rows of several units came for one file of {self.target.root}.")

    def _open(self, first: pa.Table) -> None:
        location = self._location
        make_folder(location.parent)
        self._stream = location.filesystem.open_output_stream(location.path)
        page_rows = PAGE_ROWS if self.target.min_size > PAGE_ROWS else None
        self._writer = self._encodings(first).writer(self._stream, first.schema, page_rows=page_rows)
        # Without it a session may shift old dates: the values are Spark's own, in its calendar.
        self._writer.add_key_value_metadata({"org.apache.spark.version": self.target.spark_version})

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SidestepError(
                f"Cannot write {self._location.uri}: {error}. The table is as it was; make room, or make its folder "
                "writable, and try again."
            ) from error

    def _encodings(self, sample: pa.Table) -> Encodings:
        """Chosen by the first block that this process meets: the others of the table will be much like it."""
        key = (self.target.root, f"{self.schema}\n{self.target.block}\n{self.target.pages}", self.target.min_size)
        if key not in _chosen:
            _chosen.clear()
            _chosen[key] = choose_encodings(sample, self.target.block, self.target.counter, self.target.pages)
        return _chosen[key]

    @property
    def _location(self) -> Location:
        return locate(self.target.root).child(self.path)

    def finish(self) -> WrittenFile:
        """Close the file and look at it once more: what the index says of it comes from the file itself."""
        self._end_group()
        if self.plan.groups is not None and self.groups != len(self.plan.groups):
            raise _table_changed()
        with self._writing():
            self._writer.close()
            self._stream.close()
        status = stat(self._location)
        if status is None:
            raise SidestepError(f"{self._location.uri} was written and is gone: does something clean up that folder?")
        file = DataFile(self.path, status.size, status.modified, self.partition)
        root, block = locate(self.target.root), self.target.block
        told = {name: type for name, type in self.target.held.items() if name not in self.zones}
        index = block_summaries(root, file, told, log_times=True, block=block)
        if index is None or len(index) != len(self.unions):
            raise SidestepError(f"{self._location.uri} is not as it was written: does another program write there?")
        for name, zones in self.zones.items():
            for column, arrow in zone_map_columns(name, self.target.columns[name]).items():
                part = column.partition(":")[0]
                index = index.append_column(column, pa.array([getattr(zone, part) for zone in zones], arrow))
        for name, made in self.synopses.items():
            for column, array in index_columns(name, self.target.columns[name], made, self.making).items():
                index = index.append_column(column, array)
        vectors = to_bytes(np.stack(self.unions), self.target.features) if self.target.features else None
        index = with_layout(
            index, vectors or [None] * len(self.unions), self.target.features_id if vectors else None, self.plan.unit
        )
        stats = delta_stats(index, self.target.held)
        return WrittenFile(
            self.path, file.size, file.modified, self.rows, len(self.unions), self.partition, stats, index
        )


def _table_changed() -> SidestepError:
    """The error for rows that do not fit the plan made of the same table."""
    return SidestepError("Rows came or went while the table was read: it was changed. Try again.")


def _cast(column: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
    return column if column.type == wanted.type else column.cast(wanted.type)


def _new_path(partition: Partition, bucket: int | None = None) -> str:
    folders = [f"{_escape(name)}={NULL_PARTITION if value is None else _escape(value)}" for name, value in partition]
    # Spark takes the digits after the last underscore before a dot for the number of a bucket.
    ending = "" if bucket is None else f"_{bucket:05d}.c000"
    return "/".join([*folders, f"part-{uuid.uuid4()}{ending}.zstd.parquet"])


def is_block_file(path: str) -> bool:
    """Whether a file has a name that only this writer gives.

    >>> is_block_file("day=1/part-4f9a1c0e-0000-4000-8000-00000000000a.zstd.parquet"), is_block_file("part-0.parquet")
    (True, False)
    """
    return _OWN_NAME.fullmatch(path.rpartition("/")[2]) is not None


def _escape(text: str) -> str:
    """A name or value as Spark writes it into the name of a folder."""
    return "".join(f"%{ord(char):02X}" if char in _UNSAFE else char for char in text)
