"""Small tables, row by row: no row is denied a value that it has, and files that changed say nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate import Column, IntervalSet, Null, Within
from sidestep.predicate.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    Value,
    decimal_type,
)
from sidestep.store import locate, read_snapshot
from sidestep.store.index.small_table import SmallTable
from sidestep.store.index.table_index import open_index
from sidestep.store.parquet.rows import row_catalog, row_columns
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis import kept_blocks

COLUMNS: dict[str, DataType] = {
    "i": INTEGER,
    "s": STRING,
    "d": DOUBLE,
    "day": DATE,
    "at": TIMESTAMP,
    "price": decimal_type(9, 2),
    "yes": BOOLEAN,
}
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(9, 2)),
        ("yes", pa.bool_()),
    ]
)
NOTHING = (None, None, None, None)
"""Of the columns after the first three."""
MOST = 1_000
_numbers = count()

rows_of_table = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.text(max_size=40),
        st.none() | st.floats(),
        st.none() | st.dates(),
        st.none() | st.datetimes().map(lambda at: at.replace(tzinfo=UTC)),
        st.none() | st.decimals(-(10**6), 10**6, places=2),
        st.none() | st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def write(folder: Path, rows: Sequence[tuple[object, ...]], group: int = 5, name: str = "f") -> Path:
    folder.mkdir(exist_ok=True)
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=group)
    return folder


def small(folder: Path) -> SmallTable:
    update_index(read_snapshot(folder), COLUMNS)
    return SmallTable(locate(folder), open_index(locate(folder)))


def value_of(value: object) -> Value:
    """A value as predicates have it: days and microseconds since 1970."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value  # type: ignore[return-value]


def point(type: DataType, value: Value) -> IntervalSet:
    if isinstance(value, float) and value != value:
        return IntervalSet.at_least(type, float("inf"), closed=False)
    return IntervalSet.point(type, value)


@settings(max_examples=40)
@given(rows=rows_of_table)
def test_no_row_is_denied_its_value(tmp_path, rows):
    folder = write(tmp_path / f"t{next(_numbers)}", rows)
    made = row_columns(locate(folder), read_snapshot(folder).files, COLUMNS)
    assert made is not None
    catalog = row_catalog(COLUMNS, made, len(rows))
    for place, (name, type) in enumerate(COLUMNS.items()):
        for number, row in enumerate(rows):
            value = row[place]
            atom = (
                Null(Column(name, type)) if value is None else Within(Column(name, type), point(type, value_of(value)))
            )
            assert kept_blocks(catalog, atom)[number], (name, value)


def test_a_value_finds_its_rows_alone(tmp_path):
    folder = write(
        tmp_path / "t", [(n, f"name {n}", n / 4, date(2020, 1, 1) + timedelta(n), None, None, None) for n in range(100)]
    )
    table = small(folder)
    assert table.catalog({"i": INTEGER}, MOST) is not None
    catalog = table.catalog({"s": STRING, "d": DOUBLE, "day": DATE}, MOST)
    assert catalog is not None
    asked = (
        ("i", INTEGER, 42),
        ("s", STRING, "name 42"),
        ("d", DOUBLE, 10.5),
        ("day", DATE, value_of(date(2020, 2, 12))),
    )
    for name, type, value in asked:
        kept = kept_blocks(catalog, Within(Column(name, type), IntervalSet.point(type, value)))
        assert kept.nonzero()[0].tolist() == [42]


def test_what_is_not_small_or_has_changed_says_nothing(tmp_path):
    many = write(tmp_path / "many", [(n, "", 0.0, *NOTHING) for n in range(MOST + 1)], 2_000)
    assert small(many).catalog(COLUMNS, MOST) is None
    for number in range(9):
        write(tmp_path / "files", [(number, "", 0.0, *NOTHING)], name=f"f{number}")
    assert small(tmp_path / "files").catalog(COLUMNS, MOST) is None
    table = small(write(tmp_path / "t", [(1, "a", 0.0, *NOTHING)]))
    write(tmp_path / "t", [(2, "a", 0.0, *NOTHING)])
    os.utime(tmp_path / "t" / "f.parquet", (1, 1))
    assert table.catalog(COLUMNS, MOST) is None
    gone = small(write(tmp_path / "gone", [(1, "a", 0.0, *NOTHING)]))
    (tmp_path / "gone" / "f.parquet").unlink()
    assert gone.catalog(COLUMNS, MOST) is None


def test_a_catalog_is_made_once(tmp_path):
    table = small(write(tmp_path / "t", [(1, "a", 0.0, *NOTHING)]))
    assert table.catalog({"i": INTEGER}, MOST) is table.catalog({"i": INTEGER}, MOST)
    assert table.catalog({}, MOST) is None


def test_a_column_may_be_asked_for_as_another_type(tmp_path):
    """Sessions differ in what they make of a column: what is known of one reading says nothing of another."""
    table = small(write(tmp_path / "t", [(1, "a", math.nan, *NOTHING), (None, None, None, *NOTHING)]))
    for type in (DOUBLE, LONG, DOUBLE):
        catalog = table.catalog({"d": type, "i": INTEGER}, MOST)
        assert catalog is not None
        is_null = kept_blocks(catalog, Null(Column("d", type))).tolist()
        assert is_null == ([False, True] if type == DOUBLE else [True, True])


def test_many_rows_are_read_by_column(tmp_path):
    """A calendar of two centuries takes no more than moments, also where its texts are long or its numbers broken."""
    rows = [
        (n, f"{'long ' * 8}{n % 12}", n % 7 / 2, date(1900, 1, 1) + timedelta(n), *NOTHING[1:]) for n in range(70_000)
    ]
    folder = write(tmp_path / "t", rows, 30_000)
    catalog = small(folder).catalog(COLUMNS, 100_000)
    assert catalog is not None
    for name, type, value, left in (("i", INTEGER, 69_999, 1), ("d", DOUBLE, 1.5, 10_000), ("day", DATE, 0, 1)):
        assert kept_blocks(catalog, Within(Column(name, type), IntervalSet.point(type, value))).sum() == left
