"""A sample of a table's blocks, read whole: what the choice of synopses is made by.

Row groups are drawn, never rows of them: a block of which some values are left out has gaps that are not there. They
are spread evenly over the table's files, so that neighbours which are alike do not stand for all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidestep.predicate.types import DataType
from sidestep.store.datafile import DataFile, Snapshot
from sidestep.store.files import Location, open_file
from sidestep.store.leaf import leaves_of, reading_of
from sidestep.synopsis.codes import Codes, Coding, codes_of, common_prefix, shared_prefix
from sidestep.synopsis.stored import Form, stored_form

MOST_BLOCKS = 32
MOST_ROWS = 2_000_000
FEWEST_BLOCKS = 8
"""So many are taken however many rows they have: fewer would say nothing about how blocks differ."""


@dataclass(frozen=True, slots=True)
class SampledBlock:
    """A row group of a file."""

    file: DataFile
    row_group: int
    rows: int


@dataclass(frozen=True, eq=False)
class BlockSample:
    """Some blocks of a table, and how many they stand for."""

    root: Location
    blocks: tuple[SampledBlock, ...]
    of_blocks: int
    """How many blocks the table has; an estimate, unless every file was opened."""
    of_rows: int

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        return np.array([block.rows for block in self.blocks], dtype=np.int64)

    def first(self, count: int) -> BlockSample:
        """The same with only some of the blocks."""
        spread = _spread(len(self.blocks), count)
        return BlockSample(self.root, tuple(self.blocks[at] for at in spread), self.of_blocks, self.of_rows)

    def codes(self, columns: Mapping[str, DataType]) -> dict[str, tuple[Coding, list[Codes]]]:
        """The ascending, distinct codes of each block in each column.

        A column that some block cannot be read of as Spark would, or whose type has no order, is left out.
        """
        usable = {name: type for name, type in columns.items() if stored_form(type) is not None}
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            read = list(pool.map(lambda block: self._values(block, usable), self.blocks))
            whole = [name for name in usable if all(name in values for values in read)]

            def coded(name: str) -> tuple[Coding, list[Codes] | None]:
                return _coded(usable[name], [values[name] for values in read])

            found = dict(zip(whole, pool.map(coded, whole), strict=True))
        return {name: (coding, codes) for name, (coding, codes) in found.items() if codes is not None}

    def _values(self, block: SampledBlock, columns: Mapping[str, DataType]) -> dict[str, pa.Array]:
        """The distinct values of a block, NULL among them; without columns that Spark would convert."""
        try:
            with open_file(self.root.child(block.file.path)) as stream:
                parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
                leaves = leaves_of(parquet)
                wanted = [
                    name
                    for name, type in columns.items()
                    if (leaf := leaves.get(name)) is not None and reading_of(leaf, type) is not None
                ]
                found = {}
                for name in wanted:
                    # One at a time: a row group of a wide table need not fit into memory as a whole.
                    column = parquet.read_row_group(block.row_group, columns=[name], use_threads=False).column(0)
                    if pa.types.is_dictionary(column.type):
                        column = column.cast(column.type.value_type)
                    found[name] = pc.unique(column)
                return found
        except (pa.ArrowException, OSError, ValueError):
            return {}  # the job that indexes the file will say what is wrong with it


def sample_blocks(
    snapshot: Snapshot, files: Sequence[DataFile] | None = None, most: int = MOST_BLOCKS, most_rows: int = MOST_ROWS
) -> BlockSample:
    """Blocks spread over the table's files (or over some of them), at most so many and about so many rows."""
    listed = snapshot.files if files is None else tuple(files)
    opened = [listed[at] for at in _spread(len(listed), most)]
    with ThreadPoolExecutor(8) as pool:
        footers = list(pool.map(lambda file: _row_groups(snapshot.root, file), opened))
    found = [SampledBlock(*group) for groups in footers for group in groups]
    scale = len(listed) / max(1, sum(bool(groups) for groups in footers))
    rows = sum(block.rows for block in found)
    wanted = most if rows <= most_rows else min(most, max(FEWEST_BLOCKS, len(found) * most_rows // rows))
    drawn = tuple(found[at] for at in _spread(len(found), wanted))
    return BlockSample(snapshot.root, drawn, round(len(found) * scale), round(rows * scale))


def _row_groups(root: Location, file: DataFile) -> list[tuple[DataFile, int, int]]:
    try:
        with open_file(root.child(file.path)) as stream:
            footer = pq.ParquetFile(stream).metadata
    except (pa.ArrowException, OSError, ValueError):
        return []
    counts = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    return [(file, at, rows) for at, rows in enumerate(counts) if rows]


def _spread(length: int, count: int) -> list[int]:
    """Positions spread over a sequence.

    >>> _spread(10, 4), _spread(3, 5)
    ([1, 3, 6, 8], [0, 1, 2])
    """
    if count >= length:
        return list(range(length))
    return [(2 * at + 1) * length // (2 * count) for at in range(count)]


def _coded(type: DataType, blocks: Sequence[pa.Array]) -> tuple[Coding, list[Codes] | None]:
    coding = Coding(type)
    if coding.form is Form.BYTES:
        held = [shared_prefix(values) for values in blocks if values.null_count < len(values)]
        coding = Coding(type, common_prefix(held))
    codes = [codes_of(values, coding) for values in blocks]
    if any(each is None for each in codes):
        return coding, None
    return coding, [np.unique(each) for each in codes if each is not None]
