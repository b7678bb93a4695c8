"""Small tables, row by row: no row is denied a value that it has, and files that changed say nothing."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate import Column, IntervalSet, Null, Within
from sidestep.predicate.types import DOUBLE, INTEGER, STRING, DataType, Value
from sidestep.store import locate, read_snapshot
from sidestep.store.index.small_table import SmallTable
from sidestep.store.index.table_index import open_index
from sidestep.store.parquet.rows import row_catalog
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis import kept_blocks

COLUMNS: dict[str, DataType] = {"i": INTEGER, "s": STRING, "d": DOUBLE}
SCHEMA = pa.schema([("i", pa.int32()), ("s", pa.string()), ("d", pa.float64())])
MOST = 1_000
_numbers = count()

rows_of_table = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.text(max_size=40),
        st.none() | st.floats(),
    ),
    min_size=1,
    max_size=12,
)


def write(folder: Path, rows: list[tuple[object, ...]], group: int = 5, name: str = "f") -> Path:
    folder.mkdir(exist_ok=True)
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=group)
    return folder


def small(folder: Path) -> SmallTable:
    update_index(read_snapshot(folder), COLUMNS)
    return SmallTable(locate(folder), open_index(locate(folder)))


def point(type: DataType, value: Value) -> IntervalSet:
    if isinstance(value, float) and value != value:
        return IntervalSet.at_least(type, float("inf"), closed=False)
    return IntervalSet.point(type, value)


@settings(max_examples=40)
@given(rows=rows_of_table)
def test_no_row_is_denied_its_value(tmp_path, rows):
    folder = write(tmp_path / f"t{next(_numbers)}", rows)
    catalog = row_catalog(locate(folder), read_snapshot(folder).files, COLUMNS)
    assert catalog is not None
    assert catalog.blocks == len(rows)
    for place, (name, type) in enumerate(COLUMNS.items()):
        for number, row in enumerate(rows):
            value = row[place]
            atom = Null(Column(name, type)) if value is None else Within(Column(name, type), point(type, value))
            assert kept_blocks(catalog, atom)[number], (name, value)


def test_a_value_finds_its_rows_alone(tmp_path):
    folder = write(tmp_path / "t", [(n, f"name {n}", n / 4) for n in range(100)])
    catalog = small(folder).catalog({"i": INTEGER, "s": STRING}, MOST)
    assert catalog is not None
    for name, type, value in (("i", INTEGER, 42), ("s", STRING, "name 42")):
        kept = kept_blocks(catalog, Within(Column(name, type), IntervalSet.point(type, value)))
        assert kept.nonzero()[0].tolist() == [42]


def test_what_is_not_small_or_has_changed_says_nothing(tmp_path):
    many = write(tmp_path / "many", [(n, "", 0.0) for n in range(MOST + 1)], 2_000)
    assert small(many).catalog(COLUMNS, MOST) is None
    for number in range(5):
        write(tmp_path / "files", [(number, "", 0.0)], name=f"f{number}")
    assert small(tmp_path / "files").catalog(COLUMNS, MOST) is None
    table = small(write(tmp_path / "t", [(1, "a", 0.0)]))
    write(tmp_path / "t", [(2, "a", 0.0)])
    os.utime(tmp_path / "t" / "f.parquet", (1, 1))
    assert table.catalog(COLUMNS, MOST) is None
    gone = small(write(tmp_path / "gone", [(1, "a", 0.0)]))
    (tmp_path / "gone" / "f.parquet").unlink()
    assert gone.catalog(COLUMNS, MOST) is None


def test_a_catalog_is_made_once(tmp_path):
    table = small(write(tmp_path / "t", [(1, "a", 0.0)]))
    assert table.catalog({"i": INTEGER}, MOST) is table.catalog({"i": INTEGER}, MOST)
    assert table.catalog({}, MOST) is None
