"""A sample of a table's blocks, read whole: what the choice of synopses is made by.

Row groups are drawn, never rows of them: a block of which some values are left out has gaps that are not there. They
are spread evenly over the table's files, so that neighbours which are alike do not stand for all.

Partitions may be of several kinds, and few of one kind. So a file of each (of up to :data:`MOST_LOOKED_AT`) has its
footer looked at: rows in a row group, and how far apart the least and the greatest value of a column are. Partitions
that look alike are a stratum, and each stratum has its blocks in the sample, however small it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidestep.advisor.synopses.clustering import complete_linkage
from sidestep.predicate.types import DataType
from sidestep.store.location import Location, open_file
from sidestep.store.parquet.leaf import leaves_of, reading_of
from sidestep.store.snapshot import DataFile, Partition, Snapshot
from sidestep.synopsis.values.codes import Codes, Coding, codes_of, common_prefix, shared_prefix
from sidestep.synopsis.values.forms import Form, stored_form

MOST_BLOCKS = 32
MOST_ROWS = 2_000_000
FEWEST_BLOCKS = 8
"""Blocks that are taken however many rows they have: fewer would say nothing about how blocks differ."""
MOST_LOOKED_AT = 256
"""Partitions that have a footer looked at, at most."""
MOST_STRATA = 8
ENOUGH = 4
"""Blocks of a stratum that are drawn, if rows allow."""

MOST_WIDE = 8
"""Blocks that are looked at for being far wider than others, at most."""
FAR_WIDER = 4.0
"""How many times as wide as the median they are."""
MOST_SPANS = 20_000
"""Statistics of a footer that are looked at for it, at most."""

Look = tuple[float, ...]
"""What a footer says of a partition, on scales where partitions that differ by less than 1 are alike."""


@dataclass(frozen=True, slots=True)
class SampledBlock:
    """A row group of a file, or what could be a block by itself of it."""

    file: DataFile
    row_group: int
    rows: int
    begin: int = 0
    """Where its rows begin in the row group."""

    def split(self, rows: int | None, most: int) -> list[SampledBlock]:
        """At most ``most`` blocks of ``rows`` rows each, spread over this one; itself if it is not twice as large."""
        if rows is None or self.rows < 2 * rows:
            return [self]
        return [replace(self, rows=rows, begin=at * rows) for at in _spread(self.rows // rows, most)]


@dataclass(frozen=True, eq=False)
class BlockSample:
    """Some blocks of a table, and how many they stand for."""

    root: Location
    blocks: tuple[SampledBlock, ...]
    of_blocks: int
    """How many blocks the table has; an estimate, unless every file was opened."""
    partitions: Mapping[Partition, int] = field(default_factory=dict)
    """The table's partitions in order, with the number of files of each."""
    looks: Mapping[Partition, Look] = field(default_factory=dict)
    """What the footers of partitions say, as far as they were looked at."""
    listed: tuple[SampledBlock, ...] = ()
    """All blocks of the files that were opened."""
    spans: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    """How far apart the least and the greatest value of a column are in each of those; NaN where that is not known."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        return np.array([block.rows for block in self.blocks], dtype=np.int64)

    def first(self, count: int) -> BlockSample:
        """The same with only some of the blocks."""
        spread = _spread(len(self.blocks), count)
        return replace(self, blocks=tuple(self.blocks[at] for at in spread))

    def with_wide(self, column: str, most: int = MOST_WIDE) -> tuple[BlockSample, npt.NDArray[np.float64]]:
        """The same with some more of the blocks that are far wider in a column than most, and what each stands for.

        Few blocks may be wide, such as those where one run of keys ends and another begins. But queries read those
        again and again, and a few blocks spread over the table are likely to have none of them.
        """
        spans = self.spans.get(column, np.zeros(0))
        known = bool(np.isfinite(spans).any())
        wide: list[int] = np.flatnonzero(spans > FAR_WIDER * np.nanmedian(spans)).tolist() if known else []
        if not len(wide):
            return self, np.full(len(self.blocks), self.of_blocks / max(1, len(self.blocks)))
        of_wide = {self.listed[at] for at in wide}
        more = [block for at in _spread(len(wide), most) if (block := self.listed[wide[at]]) not in self.blocks]
        blocks = (*self.blocks, *more)
        is_wide = np.array([block in of_wide for block in blocks])
        share = len(wide) / len(self.listed)
        stands_for = np.where(is_wide, share / max(1, is_wide.sum()), (1 - share) / max(1, (~is_wide).sum()))
        return replace(self, blocks=blocks), self.of_blocks * stands_for

    def codes(self, columns: Mapping[str, DataType]) -> dict[str, tuple[Coding, list[Codes]]]:
        """The ascending, distinct codes of each block in each column.

        A column that some block cannot be read of as Spark would, or whose type has no order, is left out.
        """
        values = self.values({name: type for name, type in columns.items() if stored_form(type) is not None})
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            coded = pool.map(lambda name: _code(columns[name], values[name]), values)
            by_name = dict(zip(values, coded, strict=True))
        return {name: (coding, codes) for name, (coding, codes) in by_name.items() if codes is not None}

    def compact_columns(self, columns: Collection[str], per_row: float, besides: int) -> list[str]:
        """Those of the columns that take no more bytes in each of the blocks than so many a row, and some besides."""
        compact = list(columns)
        for block in self.blocks:
            try:
                with open_file(self.root.child(block.file.path)) as stream:
                    group = pq.ParquetFile(stream).metadata.row_group(block.row_group)
            except (pa.ArrowException, OSError, ValueError):
                return []
            chunks = (group.column(at) for at in range(group.num_columns))
            sizes = {chunk.path_in_schema: chunk.total_compressed_size for chunk in chunks}
            most = per_row * group.num_rows + besides
            compact = [name for name in compact if sizes.get(name, most + 1) <= most]
        return compact

    def first_values(self, columns: Collection[str], rows: int) -> dict[str, pa.Array]:
        """The values that so many rows of the first block begin with, in each column that can be read."""
        block = self.blocks[0]
        try:
            with open_file(self.root.child(block.file.path)) as stream:
                parquet = pq.ParquetFile(stream)
                there = [name for name in columns if name in parquet.schema_arrow.names]
                batches = parquet.iter_batches(rows, row_groups=[block.row_group], columns=there, use_threads=False)
                batch = next(iter(batches), None)
        except (pa.ArrowException, OSError, ValueError):
            return {}
        if batch is None:
            return {}
        found = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
        return {
            name: values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
            for name, values in found.items()
        }

    def values(self, columns: Mapping[str, DataType]) -> dict[str, list[pa.Array]]:
        """The distinct values of each block in each column, NULL among them.

        A column that some block cannot be read of as Spark would is left out.
        """
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            groups = [
                list(group) for _, group in groupby(self.blocks, key=lambda each: (each.file.path, each.row_group))
            ]
            read = list(chain.from_iterable(pool.map(lambda group: self._values(group, columns), groups)))
        whole = [name for name in columns if all(name in values for values in read)]
        return {name: [values[name] for values in read] for name in whole}

    def _values(self, blocks: Sequence[SampledBlock], columns: Mapping[str, DataType]) -> list[dict[str, pa.Array]]:
        """The distinct values of blocks of one row group, NULL among them; without columns that Spark would convert."""
        file, row_group = blocks[0].file, blocks[0].row_group
        try:
            with open_file(self.root.child(file.path)) as stream:
                parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
                leaves = leaves_of(parquet)
                wanted = [
                    name
                    for name, type in columns.items()
                    if (leaf := leaves.get(name)) is not None and reading_of(leaf, type) is not None
                ]
                of_blocks: list[dict[str, pa.Array]] = [{} for _ in blocks]
                for name in wanted:
                    # One at a time: a row group of a wide table need not fit into memory as a whole.
                    column = parquet.read_row_group(row_group, columns=[name], use_threads=False).column(0)
                    if pa.types.is_dictionary(column.type):
                        column = column.cast(column.type.value_type)
                    for block, values in zip(blocks, of_blocks, strict=True):
                        values[name] = pc.unique(column.slice(block.begin, block.rows))
                return of_blocks
        except (pa.ArrowException, OSError, ValueError):
            return [{} for _ in blocks]  # the job that indexes the file will say what is wrong with it


def sample_blocks(
    snapshot: Snapshot,
    files: Sequence[DataFile] | None = None,
    most: int = MOST_BLOCKS,
    most_rows: int = MOST_ROWS,
    *,
    columns: Collection[str] = (),
    keys: Collection[str] = (),
    block_rows: int | None = None,
) -> BlockSample:
    """At most ``most`` blocks of about ``most_rows`` rows together, spread over the table's files or some of them.

    With partitions, each kind of them has its blocks; ``columns`` are those that make the difference. ``keys`` are the
    columns of which it is to be known how wide blocks are. ``block_rows``
    is for a table that is to have blocks of that size: there, as many consecutive rows stand for a block.
    """
    listed = snapshot.files if files is None else tuple(files)
    partitions: dict[Partition, list[DataFile]] = {}
    for file in listed:
        partitions.setdefault(file.partition, []).append(file)
    opened = _files_to_open(listed, list(partitions.values()), most)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda file: _footer(snapshot.root, file, columns, keys), opened))
    footers = [(blocks, look) for blocks, look, _ in read]
    listed_blocks = tuple(block for blocks, _ in footers for block in blocks)
    every = np.concatenate([np.zeros((0, len(keys))), *(spans for *_, spans in read)])
    if block_rows is not None:
        every = every[:0]
    pieces = [piece for blocks, _ in footers for block in blocks for piece in block.split(block_rows, most)]
    whole = sum(block.rows for blocks, _ in footers for block in blocks)
    scale = len(listed) / max(1, sum(bool(blocks) for blocks, _ in footers))
    rows = sum(block.rows for block in pieces)
    wanted = most if rows <= most_rows else min(most, max(FEWEST_BLOCKS, len(pieces) * most_rows // rows))
    looks = {file.partition: look for file, (blocks, look) in zip(opened, footers, strict=True) if blocks}
    return BlockSample(
        snapshot.root,
        _draw(pieces, wanted, looks),
        round(scale * (len(pieces) if block_rows is None else max(len(pieces), whole / block_rows))),
        {partition: len(held) for partition, held in partitions.items()},
        looks,
        listed_blocks,
        {name: every[:, at] for at, name in enumerate(keys) if len(every)},
    )


def _files_to_open(listed: Sequence[DataFile], partitions: Sequence[Sequence[DataFile]], most: int) -> list[DataFile]:
    """Files spread over the table: with partitions, one of each, and more if those are few."""
    firsts = [partitions[at][len(partitions[at]) // 2] for at in _spread(len(partitions), MOST_LOOKED_AT)]
    chosen = {file.path for file in firsts} if len(partitions) > 1 else set()
    chosen |= {listed[at].path for at in _spread(len(listed), max(0, most - len(chosen)))}
    return [file for file in listed if file.path in chosen]


def _draw(blocks: Sequence[SampledBlock], wanted: int, looks: Mapping[Partition, Look]) -> tuple[SampledBlock, ...]:
    """Blocks spread over all, and over each stratum of partitions by itself if there are several."""
    strata = dict(zip(looks, complete_linkage(list(looks.values()), MOST_STRATA), strict=True))
    count = len(set(strata.values()))
    least = max(2, min(ENOUGH, wanted // max(1, count)))
    chosen: list[int] = []
    for stratum in range(count):
        places = [at for at, block in enumerate(blocks) if strata[block.file.partition] == stratum]
        share = max(least, round(wanted * len(places) / len(blocks))) if count > 1 else wanted
        chosen += [places[at] for at in _spread(len(places), share)]
    return tuple(blocks[at] for at in sorted(chosen))


def _footer(
    root: Location, file: DataFile, columns: Collection[str], keys: Collection[str]
) -> tuple[list[SampledBlock], Look, npt.NDArray[np.float64]]:
    """The blocks of a file, what its partition looks like, and how wide each block is in each of the keys."""
    try:
        with open_file(root.child(file.path)) as stream:
            footer = pq.ParquetFile(stream).metadata
    except (pa.ArrowException, OSError, ValueError):
        return [], (), np.zeros((0, len(keys)))
    counts = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    blocks = [SampledBlock(file, at, rows) for at, rows in enumerate(counts) if rows]
    look = _footer_scales(footer, max(blocks, key=lambda block: block.rows), columns) if blocks else ()
    return blocks, look, _key_spans(footer, blocks, keys)


def _key_spans(
    footer: pq.FileMetaData, blocks: Sequence[SampledBlock], keys: Collection[str]
) -> npt.NDArray[np.float64]:
    """How far apart a block's least and greatest value are, as far as they are whole numbers: NaN elsewhere."""
    spans = np.full((len(blocks), len(keys)), np.nan)
    if not blocks or not keys or len(blocks) * len(keys) > MOST_SPANS:
        return spans
    first = footer.row_group(0)
    place = {first.column(at).path_in_schema: at for at in range(first.num_columns)}
    for row, block in enumerate(blocks):
        group = footer.row_group(block.row_group)
        for at, name in enumerate(keys):
            statistics = group.column(place[name]).statistics if name in place else None
            if statistics is not None and statistics.has_min_max and isinstance(statistics.min_raw, int):
                spans[row, at] = _span(statistics)
    return spans


def _footer_scales(footer: pq.FileMetaData, block: SampledBlock, columns: Collection[str]) -> Look:
    """Rows in a block, and how sparse each column's values are at least: on logarithmic scales."""
    group = footer.row_group(block.row_group)
    chunks = (group.column(at) for at in range(group.num_columns))
    spans = {chunk.path_in_schema: _span(chunk.statistics) for chunk in chunks if chunk.path_in_schema in columns}
    sparse = (max(0.0, math.log2(spans.get(name, 0) + 1) - math.log2(block.rows)) for name in columns)
    return (row_scale(block.rows), *map(sparsity_scale, sparse))


def _span(statistics: pq.Statistics | None) -> int:
    if statistics is None or not statistics.has_min_max:
        return 0
    low, high = statistics.min_raw, statistics.max_raw
    whole = isinstance(low, int) and isinstance(high, int)
    return max(0, high - low) if whole else 0


def row_scale(rows: float) -> float:
    """Blocks of four times the rows are not alike."""
    return math.log2(max(rows, 1.0)) / 2


def sparsity_scale(powers: float) -> float:
    """Nor are blocks whose values are 64 times as far apart."""
    return powers / 6


def _spread(length: int, count: int) -> list[int]:
    """Positions spread over a sequence.

    >>> _spread(10, 4), _spread(3, 5)
    ([1, 3, 6, 8], [0, 1, 2])
    """
    if count >= length:
        return list(range(length))
    return [(2 * at + 1) * length // (2 * count) for at in range(count)]


def _code(type: DataType, blocks: Sequence[pa.Array]) -> tuple[Coding, list[Codes] | None]:
    coding = Coding(type)
    if coding.form is Form.BYTES:
        held = [shared_prefix(values) for values in blocks if values.null_count < len(values)]
        coding = Coding(type, common_prefix(held))
    codes = [codes_of(values, coding) for values in blocks]
    if any(each is None for each in codes):
        return coding, None
    return coding, [np.unique(each) for each in codes if each is not None]
