"""A small laid-out table and what its life is checked against: its rows, and the same queries with skipping off."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sidestep
from sidestep.predicate import DOUBLE, LONG, STRING, column, compare
from sidestep.spark.table.load import load
from sidestep.store import locate, open_index, read_snapshot
from sidestep.store.snapshots.groups import has_groups
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.grouped import Laid, load_groups, parts_of
from tests.spark.tables import rows_of, switched_off

Row = dict[str, Any]
COLORS = ("red", "green", "blue", None)
ARROW = pa.schema([("id", pa.int64()), ("month", pa.int64()), ("color", pa.string()), ("price", pa.float64())])
RED = Feature((compare(column("color", STRING), "=", "red"),), weight=5)
CHEAP_BLUE = Feature(
    (compare(column("color", STRING), "=", "blue"), compare(column("price", DOUBLE), "<", 10.0)), weight=3
)
LATE = Feature((compare(column("id", LONG), ">=", 300),), weight=2)
FEATURES = FeatureSet("living", (RED, CHEAP_BLUE))
OTHERS = FeatureSet("living", (LATE, RED))
MIN_SIZE = 20
CONDITIONS = (
    "color = 'red'",
    "color = 'red' AND month = 2",
    "color = 'blue' AND price < 5",
    "color IS NULL",
    "NOT (color = 'red')",
    "month >= 2 AND price > 50",
    "id IN (3, 77, 250, 1001)",
    "id >= 300 AND color = 'red'",
    "color IN ('red', 'purple') OR price < 1",
)
FEWER = ("color = 'red' AND month = 2", "id IN (3, 77, 250, 1001)", "color = 'purple' OR price < 1")
"""Of tables in column groups, a query on each condition is one on several tables."""


def made(first: int, count: int) -> list[Row]:
    """Rows whose colors, months and prices are mixed, with NULLs among them."""
    return [
        {
            "id": i,
            "month": i * 7 % 4,
            "color": COLORS[i * 5 % 13 % 4],
            "price": None if i % 17 == 0 else i * 3 % 101 / 1,
        }
        for i in range(first, first + count)
    ]


def arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=ARROW)


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame(arrow(rows))


def new_table(spark: SparkSession, root: Path, rows: Sequence[Row], **options: Any) -> Path:
    """A Delta table of some files, laid out in place by month."""
    for part in range(3):
        write_deltalake(str(root), arrow(rows[part::3]), mode="append")
    load(spark, str(root), features=FEATURES, by="month", min_size=MIN_SIZE, **options)
    return root


GROUPS = (
    Laid(("month", "color"), FEATURES),
    Laid(("id",), order=("price",)),
    Laid(("price",), FeatureSet("living", (CHEAP_BLUE,)), order=("id",)),
)
"""Groups that know columns of each other, by zone maps, by features and by their order."""


def new_groups(spark: SparkSession, root: Path, rows: Sequence[Row], unit_rows: int = 150) -> Path:
    """The same rows in column groups."""
    source = root.with_name(f"{root.name}-source")
    for part in range(3):
        write_deltalake(str(source), arrow(rows[part::3]), mode="append")
    return load_groups(
        spark, source, root, GROUPS, filtered=("color", "price", "id"), min_size=MIN_SIZE, unit_rows=unit_rows
    )


def contents(rows: Iterable[Row]) -> list[str]:
    return sorted(repr(tuple(row[name] for name in ARROW.names)) for row in rows)


def check(spark: SparkSession, root: Path, rows: Sequence[Row]) -> None:
    """The table holds exactly these rows; for Spark, for other readers, and in every query with skipping on and off."""
    expected = contents(rows)
    seen = sidestep.read(spark, str(root))
    assert seen.columns == ARROW.names
    assert contents(row.asDict() for row in seen.collect()) == expected
    if has_groups(locate(root)):
        assert contents(parts_of(root)) == expected
    else:
        assert contents(DeltaTable(str(root)).to_pyarrow_table(columns=ARROW.names).to_pylist()) == expected
    skipping = rows_of(_answers(spark, root))
    with switched_off(spark):
        assert skipping == rows_of(_answers(spark, root))


def _answers(spark: SparkSession, root: Path) -> DataFrame:
    """Each condition on a scan of its own, in one query: many small ones take their time."""
    asked = FEWER if has_groups(locate(root)) else CONDITIONS
    scans = [sidestep.read(spark, str(root)).where(condition) for condition in asked]
    tagged = [rows.withColumn("condition", f.lit(number)) for number, rows in enumerate(scans)]
    together = functools.reduce(DataFrame.unionAll, tagged)
    # Column groups are joined by tables of rows in memory, which one task had better not have all of.
    return together if has_groups(locate(root)) else together.coalesce(1)


def paths(root: Path) -> set[str]:
    return {file.path for file in read_snapshot(root).files}


def units(root: Path) -> dict[str, str | None]:
    """What each current file was organized as; None also for files that the index does not know."""
    snapshot, index = read_snapshot(root), open_index(root)
    positions = index.positions(snapshot.files).tolist()
    return {file.path: index.units[at] if at >= 0 else None for file, at in zip(snapshot.files, positions, strict=True)}


def blocks_of(root: Path) -> dict[int, frozenset[int]]:
    """The rows, by id, of each block of a table all of whose files carry block ids."""
    table = DeltaTable(str(root)).to_pyarrow_table(columns=["id", "_block"]).to_pylist()
    found: dict[int, set[int]] = {}
    for row in table:
        found.setdefault(row["_block"], set()).add(row["id"])
    return {block: frozenset(ids) for block, ids in found.items()}
