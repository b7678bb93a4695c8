"""Loading tables: the rows stay the same, their arrangement is the workload's, and queries read less."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import sidestep
import sidestep.store
from sidestep.layout.tree import MOST_DEPTH, Cut
from sidestep.predicate import DATE, INTEGER, LONG, STRING, Comparison, column, compare, one_of
from sidestep.predicate.nodes import Column, Literal, Op
from sidestep.spark.organize.featurize import no_features
from sidestep.spark.organize.units import LEAF, with_leaves
from sidestep.spark.table.load import load
from sidestep.store import open_index
from sidestep.store.index.table_index import TableIndex
from sidestep.store.location import locate
from sidestep.store.sidecars.layout import LayoutSpec, load_layout
from sidestep.workload import Feature, FeatureSet
from tests.spark.tables import rows_of, settings

KIND, DAY, AMOUNT = column("kind", STRING), column("day", DATE), column("amount", INTEGER)
FEATURES = FeatureSet(
    "sales",
    (
        Feature((one_of(KIND, ["shoes", "it's"]),), weight=10),
        Feature((compare(AMOUNT, "<", 10),), weight=5),
        Feature((compare(KIND, "=", "hats"), compare(AMOUNT, ">=", 50)), weight=3),
    ),
)
QUERIES = {
    "kind = 'shoes'": lambda row: row["kind"] == "shoes",
    "amount < 5": lambda row: row["amount"] is not None and row["amount"] < 5,
    "kind = 'hats' AND amount = 70": lambda row: row["kind"] == "hats" and row["amount"] == 70,
    "kind IN ('shoes', 'it\\'s') AND day < DATE '2020-01-20'": (
        lambda row: row["kind"] in ("shoes", "it's") and row["day"] < datetime.date(2020, 1, 20)
    ),
}


def sales(rows: int, seed: int = 0) -> pa.Table:
    draw = random.Random(seed)
    kinds = ["shoes", "it's", "hats", "coats", None]
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "kind": pa.array([draw.choice(kinds) for _ in range(rows)], pa.string()),
            "amount": pa.array([draw.choice([None, *range(100)]) for _ in range(rows)], pa.int32()),
            "day": pa.array([18_262 + draw.randrange(60) for _ in range(rows)], pa.int32()).cast(pa.date32()),
        }
    )


def folder_of(path: Path, tables: Sequence[pa.Table]) -> str:
    path.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, path / f"part-{number}.parquet")
    return str(path)


def index_of(path: str) -> TableIndex:
    return open_index(path)


def check_blocks(path: str, features: FeatureSet, min_size: int) -> None:
    """The index says of each block what is in it: its id, its rows, and the features that some row satisfies."""
    index = index_of(path)
    found = {}
    for file in DeltaTable(path).file_uris():
        parquet = pq.ParquetFile(file.removeprefix("file://"))
        for group in range(parquet.num_row_groups):
            rows = parquet.read_row_group(group)
            (block,) = set(rows["_block"].to_pylist())
            bits = [any(_holds(row, at) for row in rows.to_pylist()) for at in range(len(features))]
            found[block] = (len(rows), bits)
    assert len(found) == index.map.blocks, "no id is given twice"
    (vectors,) = index.union_vectors()
    for at, block in enumerate(index.block_ids.tolist()):
        rows, bits = found[block]
        assert index.map.rows[at] == rows < 2 * min_size
        words = vectors.words[:, at]
        assert [bool(int(words[j // 64]) >> (j % 64) & 1) for j in range(len(features))] == bits


def _holds(row: dict[str, Any], feature: int) -> bool:
    kind, amount = row["kind"], row["amount"]
    return [
        kind in ("shoes", "it's"),
        amount is not None and amount < 10,
        kind == "hats" and amount is not None and amount >= 50,
    ][feature]


def test_a_folder_is_laid_out_as_a_delta_table(spark, enabled, tmp_path):
    table = sales(4_000)
    source = folder_of(tmp_path / "sales", [table.slice(0, 1_000), table.slice(1_000)])
    target = str(tmp_path / "out")
    seen: list[Any] = []
    report = load(
        spark,
        source,
        target,
        features=FEATURES,
        by="trunc(day, 'MONTH')",
        min_size=100,
        order=["day"],
        progress=seen.append,
    )
    assert (report.rows, report.units, report.files, report.version) == (4_000, 2, 2, 0)
    active = spark.sparkContext._jvm.org.apache.spark.sql.classic.SparkSession.getActiveSession().get()
    assert active.sessionUUID() == spark._jsparkSession.sessionUUID(), (
        "the session that works for it is not left behind"
    )
    assert {stage.name for stage in report.stages} == {
        "analyze",
        "choose",
        "featurize and reduce",
        "partition",
        "shuffle and write",
        "index",
        "commit",
    }
    assert {step.stage for step in seen} == {stage.name for stage in report.stages}
    assert (seen[-1].stage, max(step.done for step in seen)) == ("commit", 4_000)
    assert "3 features used, 0 left out" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["blocks"] == report.blocks
    laid_out = sidestep.read(spark, target)
    assert laid_out.columns == table.column_names
    assert rows_of(laid_out) == rows_of(spark.read.parquet(source))
    check_blocks(target, FEATURES, 100)
    assert set(index_of(target).units) == {'["2020-01-01"]', '["2020-02-01"]'}
    for query, holds in QUERIES.items():
        answer = laid_out.where(query)
        expected = [row for row in table.to_pylist() if holds(row)]
        assert sorted(row["id"] for row in answer.collect()) == [row["id"] for row in expected]
        read = sidestep.metrics(answer).scans
        assert sum(scan.rows for scan in read) < 3_000, query


def test_a_delta_table_is_laid_out_in_place_and_again(spark, tmp_path):
    path = str(tmp_path / "sales")
    write_deltalake(path, sales(1_000))
    first = load(spark, path, features=FEATURES, min_size=50, order=["day"])
    assert (first.version, first.units, first.rows) == (1, 1, 1_000)
    assert load_layout(locate(path).child("_sidestep")) == first.spec
    ids = index_of(path).block_ids
    write_deltalake(path, sales(300, seed=1), mode="append", schema_mode="merge")
    again = load(spark, path)
    assert (again.version, again.rows) == (3, 1_300)
    assert (again.spec.min_size, again.spec.order, again.features) == (50, ("day",), first.features)
    live = index_of(path)
    snapshot = DeltaTable(path)
    assert len(snapshot.file_uris()) == again.files == 1
    fresh = live.block_ids[live.map.file_of_block == live.positions(sidestep.store.read_snapshot(path).files)[0]]
    assert fresh.min() > ids.max(), "ids are never used again"
    rows = sidestep.read(spark, path)
    assert rows.columns == ["id", "kind", "amount", "day"]
    assert sorted(row["id"] for row in rows.collect()) == sorted([*range(1_000), *range(300)])
    old = sidestep.read(spark, path, version=0)
    assert old.count() == 1_000


def test_files_that_others_append_meanwhile_stay(spark, tmp_path, monkeypatch):
    path = str(tmp_path / "sales")
    write_deltalake(path, sales(200))
    module = import_module("sidestep.spark.table.state")

    def organize(*args: Any, **options: Any) -> Any:
        done = real(*args, **options)
        write_deltalake(path, sales(50, seed=2), mode="append")
        return done

    real = module.organize
    monkeypatch.setattr(module, "organize", organize)
    report = load(spark, path, features=FEATURES, min_size=50)
    assert (report.rows, report.version) == (200, 2)
    assert sidestep.read(spark, path).count() == 250
    assert len(DeltaTable(path).file_uris()) == report.files + 1


def test_a_load_that_lost_its_files_starts_again(spark, tmp_path, monkeypatch):
    path = str(tmp_path / "sales")
    write_deltalake(path, sales(200))
    module = import_module("sidestep.spark.table.state")
    calls: list[Any] = []

    def organize(*args: Any, **options: Any) -> Any:
        done = real(*args, **options)
        if not calls:
            DeltaTable(path).delete("id < 100")
        calls.append(done)
        return done

    real = module.organize
    monkeypatch.setattr(module, "organize", organize)
    report = load(spark, path, features=FEATURES, min_size=50)
    assert (report.rows, len(calls)) == (100, 2)
    assert sidestep.read(spark, path).count() == 100
    on_disk = {file.name for file in Path(path).glob("part-*.zstd.parquet")}
    assert on_disk >= {file.path for file in calls[1].files}
    assert not on_disk & {file.path for file in calls[0].files}, "what was not committed is gone"


def test_units_lie_within_partitions(spark, tmp_path):
    path = str(tmp_path / "sales")
    table = sales(900)
    region = pa.array([[None, "eu/1", "us"][number % 3] for number in range(900)])
    write_deltalake(path, table.append_column("region", region), partition_by=["region"])
    report = load(spark, path, features=FEATURES, by="trunc(day, 'MONTH')", min_size=40)
    assert (report.units, report.files) == (6, 6)
    snapshot = sidestep.store.read_snapshot(path)
    assert snapshot.partition_columns == ("region",)
    assert {dict(file.partition)["region"] for file in snapshot.files} == {None, "eu/1", "us"}
    units = {json.loads(unit or "null")[0] for unit in index_of(path).units if unit}
    assert units == {None, "eu/1", "us"}
    rows = sidestep.read(spark, path)
    assert rows.where("region = 'eu/1'").count() == rows.where("region IS NULL").count() == 300
    assert sorted(row["id"] for row in rows.collect()) == list(range(900))


def test_units_without_a_wish_are_slices_in_natural_order(spark, tmp_path):
    table = sales(1_000)
    source = folder_of(tmp_path / "sales", [table.slice(0, 300), table.slice(300, 50), table.slice(350)])
    target = str(tmp_path / "out")
    report = load(spark, source, target, unit_rows=250, min_size=100)
    assert (report.units, report.files) == (4, 4)
    for file in DeltaTable(target).file_uris():
        ids = sorted(pq.read_table(file.removeprefix("file://"))["id"].to_pylist())
        assert ids == list(range(ids[0], ids[0] + 250)), "rows that came together stay together"
    labels = {json.loads(unit)[0] for unit in index_of(target).units if unit}
    assert len({label.rpartition("-")[0] for label in labels}) == 1


def test_a_unit_of_many_bytes_becomes_several_files_and_so_does_a_group(spark, tmp_path):
    source = folder_of(tmp_path / "sales", [sales(2_000)])
    size = sum(file.stat().st_size for file in Path(source).iterdir())
    report = load(spark, source, str(tmp_path / "a"), features=FEATURES, min_size=50, file_bytes=size // 4)
    assert 3 <= report.files <= 6
    assert report.units == 1
    check_blocks(str(tmp_path / "a"), FEATURES, 50)
    plain = load(spark, source, str(tmp_path / "b"), min_size=50, file_bytes=size // 4)
    assert plain.files == 5
    assert plain.blocks >= 36
    for target in ("a", "b"):
        rows = sidestep.read(spark, str(tmp_path / target))
        assert rows_of(rows) == rows_of(spark.read.parquet(source))


def test_zones_other_than_utc_and_units_of_timestamps(spark, tmp_path):
    source = folder_of(tmp_path / "sales", [sales(500)])
    with settings(spark, spark__sql__session__timeZone="America/New_York"):
        report = load(
            spark, source, str(tmp_path / "out"), features=FEATURES, by="date_trunc('MONTH', day)", min_size=50
        )
        assert report.units == 2
        assert rows_of(sidestep.read(spark, str(tmp_path / "out"))) == rows_of(spark.read.parquet(source))


def test_an_index_kept_elsewhere(spark, tmp_path):
    source = folder_of(tmp_path / "sales", [sales(300)])
    target, indexes = str(tmp_path / "out"), str(tmp_path / "indexes")
    load(spark, source, target, features=FEATURES, min_size=50, index_dir=indexes)
    assert not (tmp_path / "out" / "_sidestep").exists()
    assert sidestep.status(spark, target, index_dir=indexes).blocks > 1
    with sidestep.enable(spark, index_dir=indexes):
        answer = sidestep.read(spark, target).where("kind = 'shoes'")
        answer.collect()
        assert sum(scan.rows for scan in sidestep.metrics(answer).scans) < 300


def test_no_row_with_nan_is_lost_to_readers_that_know_nothing_of_it(spark, tmp_path):
    """Spark has NaN greater than all else, and statistics of a file leave it out: Spark would pass over it."""
    x = "CASE WHEN id % 10 = 3 THEN double('NaN') ELSE id / 1000.0D END"
    rows = spark.sql(f"SELECT id, x, float(x) AS f, struct(x AS y) AS s FROM (SELECT id, {x} AS x FROM range(200))")
    rows.coalesce(1).write.parquet(str(tmp_path / "source"))
    sidestep.load(spark, str(tmp_path / "source"), str(tmp_path / "laid"), order=["id"], min_size=20)
    for name in ("x", "f", "s.y"):
        for where, count in ((f"{name} > 0.8", 20), (f"{name} = double('NaN')", 20), (f"{name} < 0.0095", 9)):
            assert sidestep.read(spark, str(tmp_path / "laid")).where(where).count() == count, where
            with sidestep.enable(spark):
                read = sidestep.read(spark, str(tmp_path / "laid")).where(where)
                assert read.count() == count, where
    with sidestep.enable(spark):
        (scan,) = sidestep.explain(sidestep.read(spark, str(tmp_path / "laid")).where("x < 0.01")).scans
        assert scan.row_groups is not None
        assert scan.row_groups.kept == 1


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_small_tables(spark, tmp_path, rows):
    source = folder_of(tmp_path / "sales", [sales(rows)])
    if rows:
        with pytest.warns(sidestep.SidestepWarning, match="fewer than one block of min_size=100"):
            report = load(spark, source, str(tmp_path / "out"), features=FEATURES, min_size=100)
    else:
        report = load(spark, source, str(tmp_path / "out"), features=FEATURES, min_size=100)
    assert (report.rows, report.blocks, report.files) == (rows, min(rows, 1), min(rows, 1))
    assert rows_of(sidestep.read(spark, str(tmp_path / "out"))) == rows_of(spark.read.parquet(source))


def test_partition_folders_become_columns(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(60).selectExpr("id", "id % 3 AS p", "id AS q").write.partitionBy("p").parquet(path)
    report = load(spark, path, str(tmp_path / "out"), by="p", min_size=5, order=["q"])
    assert (report.units, report.blocks) == (3, 12)
    assert rows_of(sidestep.read(spark, str(tmp_path / "out"))) == rows_of(spark.read.parquet(path))


def test_one_distinct_vector_is_cut_along_the_order(spark, tmp_path):
    table = sales(1_000).set_column(1, "kind", pa.array(["coats"] * 1_000))
    source = folder_of(tmp_path / "sales", [table])
    features = FeatureSet("sales", (Feature((compare(KIND, "=", "shoes"),)),))
    report = load(spark, source, str(tmp_path / "out"), features=features, min_size=100, order=["id"])
    assert (report.vectors, report.blocks) == (1, 10)
    index = index_of(str(tmp_path / "out"))
    zones = index.stored_arrays("id", index.columns["id"])
    assert zones is not None
    lows = sorted(zones["lower:id"].to_pylist())
    assert lows == list(range(0, 1_000, 100))
    assert np.array_equal(index.map.rows, [100] * 10)


@pytest.mark.parametrize("kind", [pa.decimal128(7, 2), pa.decimal128(18, 18), pa.decimal128(30, 4)], ids=str)
def test_blocks_along_decimals_follow_their_values(spark, tmp_path, kind):
    draw = random.Random(1)
    most = 10 ** min(kind.precision, 18) - 1
    numbers = [draw.randint(-most, most) for _ in range(297)] + [None, most, -most]
    values = [None if number is None else Decimal(number).scaleb(-kind.scale) for number in numbers]
    draw.shuffle(values)
    table = pa.table({"price": pa.array(values, kind), "kind": ["shoes"] * 300})
    limit = "spark.sql.execution.arrow.maxBytesPerBatch"
    before = spark.conf.get(limit)
    features = FeatureSet("sales", (Feature((compare(KIND, "=", "shoes"),)),))
    load(
        spark,
        folder_of(tmp_path / "source", [table]),
        str(tmp_path / "out"),
        features=features,
        min_size=30,
        order=["price"],
    )
    assert spark.conf.get(limit) == before
    (file,) = (tmp_path / "out").glob("*.parquet")
    written = pq.ParquetFile(file)
    blocks = [written.read_row_group(number)["price"].to_pylist() for number in range(written.num_row_groups)]
    assert len(blocks) == 10
    assert None in blocks[0]
    bounds = [
        (min(known), max(known)) for known in ([value for value in block if value is not None] for block in blocks)
    ]
    assert bounds == sorted(bounds), "NULL first, then negative values"
    assert all(before[1] <= after[0] for before, after in pairwise(bounds))


def test_trees_are_interpreted(spark):
    """Compiled, a tree of hundreds of cuts would be more code than a Java method may have."""

    def tree(low: int, high: int) -> Cut | None:
        middle = (low + high) // 2
        test = Comparison(Op.GE, Column("id", LONG), Literal(middle, LONG))
        return Cut(test, tree(low, middle), tree(middle, high)) if high - low > 1 else None

    spec = LayoutSpec(tree=tree(0, 512))
    placed = with_leaves(spark.range(1_000), spec, no_features("t"))
    executed = placed._jdf.queryExecution().executedPlan().toString().splitlines()
    assert any("zip_with" in line for line in executed)
    assert not any("*(" in line and "zip_with" in line for line in executed)
    counts = {row[LEAF]: row["count"] for row in placed.groupBy(LEAF).count().collect()}
    assert counts == {leaf: 1 if leaf < 511 else 489 for leaf in range(512)}


def test_a_deep_tree_is_evaluated(spark):
    deep = None
    for cut in range(MOST_DEPTH, 0, -1):
        deep = Cut(Comparison(Op.GE, Column("id", LONG), Literal(cut, LONG)), None, deep)
    placed = with_leaves(spark.range(MOST_DEPTH + 1), LayoutSpec(tree=deep), no_features("t"))
    assert [row[LEAF] for row in placed.orderBy("id").collect()] == list(range(MOST_DEPTH + 1))
