"""Row groups passed over inside files: by the ids of blocks, only where every file that is read has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import sidestep
from sidestep.prune import conditions
from sidestep.prune.explain.explanation import Amounts
from tests.spark.laidout import lay_out
from tests.spark.tables import checked_read, rows_of, settings, switched_off

ROWS = 10


def block(number: int) -> pa.Table:
    """Ten rows whose k and name say which block they are of, and whose five is five."""
    ids = range(ROWS * number, ROWS * number + ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([number] * ROWS, pa.int32()),
            "name": [f"n{number:04d}"] * ROWS,
            "five": pa.array([5] * ROWS, pa.int32()),
        }
    )


@pytest.fixture
def table(spark, tmp_path):
    """Three files of four blocks each."""
    root = lay_out(tmp_path / "t", [[block(4 * file + at) for at in range(4)] for file in range(3)])
    sidestep.index(spark, root)
    return root


def read(spark, root, condition, **options):
    """How many rows match, and files and rows that the scan read."""
    matching, scanned = checked_read(spark, root, condition, **options)
    return matching, scanned.files, scanned.rows


def test_the_column_of_ids_is_not_shown(spark, enabled, table):
    assert sidestep.read(spark, table).columns == ["id", "k", "name", "five"]
    assert len(sidestep.read(spark, table).where("k = 3").collect()[0]) == 4


def test_blocks_of_a_file_are_passed_over(spark, enabled, table):
    assert read(spark, table, "k = 5") == (10, 1, 10)
    assert read(spark, table, "k IN (1, 5, 6)") == (30, 2, 30)
    assert read(spark, table, "k >= 6") == (60, 2, 60)
    assert read(spark, table, "k = 99") == (0, 0, 0)
    assert read(spark, table, "name LIKE 'n0003%' AND id > 31") == (8, 1, 10)


def test_blocks_are_told_by_id_not_by_what_parquet_knows_of_the_condition(spark, enabled, table):
    """Parquet's own filters cannot compare two columns."""
    assert read(spark, table, "k = five") == (10, 1, 10)
    assert read(spark, table, "k < five") == (50, 2, 50)
    with switched_off(spark):
        df = sidestep.read(spark, table).where("k = five")
        assert sidestep.metrics(df).rows == 120
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        assert read(spark, table, "k = five") == (10, 1, 40), "without pushdown whole files are read"
    finally:
        spark.conf.unset("spark.sql.parquet.filterPushdown")


def test_everything_of_a_file_is_read_without_a_condition_on_ids(spark, enabled, table):
    df = sidestep.read(spark, table).where("k < 4")
    rows_of(df)
    assert "_block" not in df._jdf.queryExecution().optimizedPlan().toString().split("Relation")[0]
    assert read(spark, table, "k < 4") == (40, 1, 40)


def test_blocks_are_passed_over_in_joins_and_subqueries(spark, enabled, table):
    sidestep.read(spark, table).createOrReplaceTempView("laid")
    text = """SELECT a.id, b.name FROM laid a JOIN laid b ON a.id = b.id + 10
              WHERE a.k = 5 AND b.k IN (4, 7) AND a.id > (SELECT min(id) FROM laid WHERE k = 2)"""
    with switched_off(spark):
        expected = rows_of(spark.sql(text))
    df = spark.sql(text)
    assert rows_of(df) == expected
    assert len(expected) == 10
    # Of b's two blocks one has no partner in a: an induced predicate passes it over as well.
    assert sorted(scan.rows for scan in sidestep.metrics(df).scans) == [10, 10, 10]
    with settings(spark, spark__sidestep__induced="false"):
        df = spark.sql(text)
        assert rows_of(df) == expected
    assert sorted(scan.rows for scan in sidestep.metrics(df).scans) == [10, 10, 20]


def test_many_blocks_in_many_places(spark, enabled, tmp_path, monkeypatch):
    """As many runs of ids as there are ranges are told apart; of more, those with the least between them are not."""
    monkeypatch.setattr(conditions, "MOST_RANGES", 16)
    root = lay_out(tmp_path / "many", [[block(number) for number in range(64)]])
    sidestep.index(spark, root)
    fourth = ", ".join(str(number) for number in range(1, 64, 4))
    assert read(spark, root, f"k IN ({fourth})") == (160, 1, 160)
    odd = ", ".join(str(number) for number in range(1, 64, 2))
    assert read(spark, root, f"k IN ({odd})") == (320, 1, 320), "what ranges leave, the filter's own statistics tell"
    rng = np.random.default_rng(3)
    some = sorted(rng.choice(64, 21, replace=False).tolist())
    condition = f"k IN ({', '.join(map(str, some))}) AND name > 'n'"
    assert read(spark, root, condition) == (210, 1, 210)


def test_a_foreign_append_is_read_whole_and_costs_the_others_nothing(spark, enabled, table):
    """Its rows have no block, so none can be told by its id: row groups are then told by their place in the file."""
    write_deltalake(table, block(5).slice(0, 3), mode="append", schema_mode="merge")
    assert read(spark, table, "k = five") == (13, 2, 13)
    found = sidestep.explain(sidestep.read(spark, table).where("k = five"))
    assert (found.scans[0].by_block, found.scans[0].in_part, found.scans[0].unknown_files) == (False, True, 1)
    sidestep.index(spark, table)
    assert read(spark, table, "k = five") == (13, 2, 13), "known by its zone map now, but still without a block"
    assert read(spark, table, "k < five") == (50, 2, 50), "where the foreign file is skipped, blocks are told by id"
    found = sidestep.explain(sidestep.read(spark, table).where("k = five"))
    assert (found.scans[0].by_block, found.scans[0].in_part, found.scans[0].files_without_ids) == (False, True, 0)


def test_foreign_updates_copy_ids_and_lose_nothing(spark, enabled, table):
    DeltaTable(table).update(predicate="k = 5", updates={"k": "0"})
    assert read(spark, table, "k = 0")[0] == 20
    sidestep.index(spark, table)
    assert read(spark, table, "k = 0")[0] == 20
    DeltaTable(table).optimize.compact()
    assert read(spark, table, "k = 0")[0] == 20
    sidestep.index(spark, table)
    assert read(spark, table, "k = 0")[0] == 20
    DeltaTable(table).delete("id % 3 = 0")
    assert read(spark, table, "k = 0")[0] == 13
    sidestep.index(spark, table)
    for number in range(12):
        read(spark, table, f"k = {number}")


def test_old_versions_are_read_by_their_own_files(spark, enabled, table):
    DeltaTable(table).update(predicate="k = 5", updates={"k": "0"})
    assert read(spark, table, "k = 5", version=0) == (10, 1, 10)


def test_read_as_a_folder_of_parquet_files_only_files_are_skipped(spark, enabled, table):
    """Spark's own listing may be older than the files: ids are trusted only where a log says what there is."""
    df = spark.read.parquet(table).where("k = 5")
    assert df.count() == 10
    assert "_block" in df.columns
    assert sidestep.metrics(df).files == 1


def test_a_column_that_a_user_calls_the_same_is_the_users(spark, enabled, tmp_path):
    root = str(tmp_path / "own")
    mine = pa.table({"id": pa.array(range(6), pa.int64()), "_block": pa.array([1, 1, 1, 2, 2, 2], pa.int32())})
    write_deltalake(root, mine)
    sidestep.index(spark, root)
    assert sidestep.read(spark, root).columns == ["id", "_block"]
    assert read(spark, root, "id < 3 AND _block = 1")[0] == 3
    assert read(spark, root, "_block = 3") == (0, 0, 0)


def test_what_is_told_adds_up(spark, enabled, table):
    found = sidestep.explain(sidestep.read(spark, table).where("k IN (1, 5, 6)")).scans[0]
    assert found.files == Amounts(3, 2)
    assert found.row_groups == Amounts(12, 3)
    assert found.rows == Amounts(120, 30)
    assert found.bytes is not None
    assert found.bytes.kept < found.bytes.total / 3
    assert found.by_block
    assert "_block" not in str(sidestep.explain(sidestep.read(spark, table).where("k IN (1, 5, 6)")))
    assert "skips 1 file (9 row groups)" in str(sidestep.explain(sidestep.read(spark, table).where("k IN (1, 5, 6)")))


def test_exchanges_are_still_reused(spark, enabled, table):
    sidestep.read(spark, table).createOrReplaceTempView("laid")
    counts = "(SELECT k, count(*) c FROM laid WHERE k < 6 GROUP BY k)"
    df = spark.sql(f"SELECT * FROM {counts} a JOIN {counts} b ON a.c = b.c")
    rows_of(df)
    assert "ReusedExchange" in df._jdf.queryExecution().executedPlan().toString()
