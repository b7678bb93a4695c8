"""Merges: what becomes of every row, and how little of the table is read and written for it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as f

import sidestep
from sidestep.errors import SidestepError, UnsupportedTable
from sidestep.spark.change import changes
from sidestep.spark.table.state import commit_files
from sidestep.store import read_snapshot
from tests.faults.kills import in_long_runs
from tests.spark.living import ARROW, arrow, check, contents, frame, made, new_table, paths
from tests.spark.merging import MATCHED, NOT_MATCHED, ONS, Ambiguous, merged, random_source, random_steps, run
from tests.spark.tables import data_files

pytestmark = pytest.mark.spark
ROWS = made(0, 120)
KEYS = "target.id = source.id"


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    return new_table(spark, tmp_path_factory.mktemp("merge") / "table", ROWS)


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


@pytest.fixture(scope="module")
def ordered(spark, tmp_path_factory):
    """A Delta table of another writer, indexed: ten files of 100 ids each."""
    root = tmp_path_factory.mktemp("ordered") / "table"
    for start in range(0, 1000, 100):
        write_deltalake(str(root), arrow(made(start, 100)), mode="append")
    sidestep.index(spark, str(root))
    return root


@pytest.fixture
def sorted_table(ordered, tmp_path):
    return shutil.copytree(ordered, tmp_path / "sorted")


def stored(root):
    return contents(DeltaTable(str(root)).to_pyarrow_table(columns=ARROW.names).to_pylist())


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=in_long_runs) for seed in range(4, 14))])
def test_random_merges_are_what_row_by_row_gives(spark, enabled, root, tmp_path, seed):
    choose = random.Random(seed)
    table, rows = root, list(ROWS)
    if seed % 3 == 0:
        table = tmp_path / "plain"
        rows = [*ROWS, {"id": None, "month": 1, "color": "red", "price": 1.0}]
        for part in range(3):
            write_deltalake(str(table), arrow(rows[part::3]), mode="append")
    for _ in range(2):
        source, steps, (text, on) = random_source(choose, made), random_steps(choose), choose.choice(ONS)
        try:
            expected, counts = merged(rows, source, on, steps)
        except Ambiguous:
            before = read_snapshot(table)
            with pytest.raises(SidestepError, match="more than one row of the source"):
                run(spark, table, frame(spark, source), text, steps)
            assert read_snapshot(table) == before
            continue
        report = run(spark, table, frame(spark, source), text, steps)
        assert stored(table) == contents(expected)
        told = {"update": report.rows_updated, "delete": report.rows_deleted, "insert": report.rows_inserted}
        assert told == counts
        rows = expected
    if table == root:
        check(spark, table, rows)


def test_a_small_batch_reads_and_rewrites_only_what_it_touches(spark, sorted_table):
    batch = frame(spark, [{**row, "price": -1.0} for row in made(310, 5)] + made(5000, 2))
    before = paths(sorted_table)
    report = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_update().when_not_matched_insert().run()
    assert (report.rows_updated, report.rows_deleted, report.rows_inserted) == (5, 0, 2)
    assert (report.files, report.files_looked_at, report.files_rewritten) == (10, 1, 1)
    sizes = {file.path: file.size for file in read_snapshot(sorted_table, 9).files}
    (gone,) = before - paths(sorted_table)
    assert (report.bytes, report.bytes_looked_at, report.bytes_rewritten) == (sum(sizes.values()), *[sizes[gone]] * 2)
    assert report.bytes_read == 2 * sizes[gone] < report.bytes / 4
    assert report.rewritten_per_row[0] == 100 / 5
    assert any("7 values" in reason for reason in report.reasons)
    assert report.to_dict()["bytes_read"] == report.bytes_read
    assert "1 were looked at" in str(report)


def test_what_is_looked_at_is_what_spark_reads(spark, sorted_table):
    """All other files may be gone, and the merge goes through."""
    batch = frame(spark, made(310, 5))
    for file in read_snapshot(sorted_table).files:
        ids = pa.parquet.read_table(sorted_table / file.path)["id"].to_pylist()
        if 310 not in ids:
            (sorted_table / file.path).unlink()
    report = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_delete().run()
    assert (report.rows_deleted, report.files_looked_at) == (5, 1)


def test_conditions_on_the_table_count_too(spark, sorted_table):
    batch = frame(spark, made(0, 1000))
    report = sidestep.merge(spark, sorted_table, batch, f"{KEYS} AND target.id < 150").when_matched_delete().run()
    assert (report.rows_deleted, report.files_looked_at) == (150, 2)
    merge = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_delete("target.id >= 950")
    report = merge.when_matched_update({"price": "0"}, "target.id BETWEEN 940 AND 949").run()
    assert (report.rows_deleted, report.rows_updated, report.files_looked_at) == (50, 10, 1)


def test_bounds_and_many_values_narrow_as_well(spark, sorted_table, monkeypatch):
    batch = spark.createDataFrame([(210, 230), (405, 420)], "low bigint, high bigint")
    on = "target.id BETWEEN source.low AND source.high"
    report = sidestep.merge(spark, sorted_table, batch, on).when_matched_delete().run()
    assert (report.rows_deleted, report.files_looked_at) == (21 + 16, 3), "from the least bound to the greatest"
    monkeypatch.setattr("sidestep.spark.change.target.MOST_VALUES", 10)
    batch = frame(spark, [*made(100, 30), *made(800, 30)])
    report = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_delete().run()
    assert (report.rows_deleted, report.files_looked_at) == (60, 2)
    assert any("more than 10 values" in reason for reason in report.reasons)


def test_an_insert_only_merge_appends(spark, sorted_table):
    before = paths(sorted_table)
    batch = frame(spark, made(995, 10))
    report = sidestep.merge(spark, sorted_table, batch, KEYS).when_not_matched_insert().run()
    assert (report.rows_inserted, report.files_looked_at, report.files_rewritten, report.files_written) == (5, 1, 0, 1)
    assert before < paths(sorted_table)
    again = sidestep.merge(spark, sorted_table, batch, KEYS).when_not_matched_insert().run()
    assert (again.rows_inserted, again.version) == (0, report.version), "nothing is no version"
    assert stored(sorted_table) == contents(made(0, 1005))


def test_rows_without_a_match_are_sought_where_their_condition_can_hold(spark, sorted_table):
    batch = frame(spark, made(905, 5))
    merge = sidestep.merge(spark, sorted_table, batch, KEYS).when_not_matched_by_source_delete("target.id >= 900")
    report = merge.run()
    assert (report.rows_deleted, report.files_looked_at) == (95, 1)
    report = sidestep.merge(spark, sorted_table, batch, KEYS).when_not_matched_by_source_delete().run()
    assert (report.rows_deleted, report.files_looked_at) == (900, 10), "all of them are concerned"
    assert stored(sorted_table) == contents(made(905, 5))


def test_an_empty_source_reads_nothing_and_commits_nothing(spark, sorted_table):
    for file in data_files(sorted_table):
        file.unlink()
    before = read_snapshot(sorted_table)
    merge = sidestep.merge(spark, sorted_table, frame(spark, []), KEYS)
    report = merge.when_matched_update().when_not_matched_insert().run()
    assert (report.rows, report.files_looked_at, report.bytes_read, report.version) == (0, 0, 0, before.version)
    assert read_snapshot(sorted_table) == before
    assert "the source is empty" in str(report)


def test_two_rows_for_one_are_an_error_unless_it_just_goes(spark, sorted_table):
    batch = frame(spark, [*made(310, 2), *made(311, 1)])
    before = read_snapshot(sorted_table)
    for merge in (
        sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_update(),
        sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_delete("source.id > 0"),
    ):
        with pytest.raises(SidestepError, match=r"1 row of .* such as the row with id = 311, .* 2 rows of the source"):
            merge.run()
        assert read_snapshot(sorted_table) == before
    # Only pairs count that a clause applies to.
    other = frame(spark, [{**row, "color": color} for row in made(311, 1) for color in ("x", "y")])
    merge = sidestep.merge(spark, sorted_table, other, KEYS)
    assert merge.when_matched_update({"price": "5"}, "source.color = 'x'").run().rows_updated == 1
    assert sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_delete().run().rows_deleted == 2


def test_a_source_that_differs_each_time_is_taken_once(spark, sorted_table):
    keys = f.floor(f.rand() * 1000 + 500).cast("bigint")
    batch = spark.range(300).select(keys.alias("id")).distinct().withColumn("price", f.rand())
    merge = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_update({"price": "source.price"})
    report = merge.when_not_matched_insert({"id": "source.id", "price": "source.price"}).run()
    assert report.source_rows == report.rows_updated + report.rows_inserted
    ids = DeltaTable(str(sorted_table)).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 1000 + report.rows_inserted


def test_the_table_can_be_its_own_source(spark, sorted_table):
    own = sidestep.read(spark, sorted_table).where("id < 20")
    merge = sidestep.merge(spark, sorted_table, own.withColumn("id", f.col("id") + 10), KEYS)
    report = merge.when_matched_update({"price": "source.id"}).when_not_matched_insert().run()
    assert (report.rows_updated, report.rows_inserted, report.files_looked_at) == (20, 0, 1)
    by_path = sidestep.merge(spark, sorted_table, sorted_table, KEYS).when_matched_delete("source.id >= 30")
    assert by_path.run().rows_deleted == 970


def test_a_source_by_name_with_more_columns_in_another_case(spark, sorted_table):
    rows = frame(spark, made(310, 2)).withColumn("surplus", f.lit(1)).withColumnRenamed("price", "PRICE")
    rows.createOrReplaceTempView("batch")
    merge = sidestep.merge(spark, sorted_table, "batch", "t.id = s.id", target_alias="t", source_alias="s")
    assert merge.when_matched_update({"Price": "s.surplus"}).run().rows_updated == 2
    assert merge.when_matched_update().run().rows_updated == 2
    assert stored(sorted_table) == contents(made(0, 1000))


def test_partitions_change_by_what_is_set(spark, enabled, tmp_path):
    root = str(tmp_path)
    write_deltalake(root, pa.table({"p": ["a/b", "c", None], "x": [1, 2, 3]}), partition_by=["p"])
    batch = spark.createDataFrame([("new %", 2), ("c", 3), (None, 4)], "p string, x bigint")
    merge = sidestep.merge(spark, root, batch, "target.x = source.x").when_matched_update().when_not_matched_insert()
    assert merge.run().rows_updated == 2
    expected = [(1, "a/b"), (2, "new %"), (3, "c"), (4, None)]
    assert sorted((row.x, row.p) for row in sidestep.read(spark, root).collect()) == expected
    table = DeltaTable(root).to_pyarrow_table()
    assert sorted(zip(table["x"].to_pylist(), table["p"].to_pylist(), strict=True)) == expected
    assert sidestep.read(spark, root).where("p = 'new %'").count() == 1


@pytest.mark.parametrize(
    ("on", "clause", "said"),
    [
        ("", lambda m: m.when_matched_delete(), "condition is empty"),
        ("target.nope = 1", lambda m: m.when_matched_delete(), "not a condition"),
        ("rand() > 0.5", lambda m: m.when_matched_delete(), "one time and false the next"),
        ("target.id IN (SELECT 1)", lambda m: m.when_matched_delete(), "has a subquery"),
        ("id = 1", lambda m: m.when_matched_delete(), "not a condition.*mbiguous"),
        (KEYS, lambda m: m, "no clause"),
        (KEYS, lambda m: m.when_matched_delete(" "), "empty condition"),
        (KEYS, lambda m: m.when_matched_delete("source.nope"), "not a condition"),
        (KEYS, lambda m: m.when_matched_delete("rand() > 0.5"), "one time and false the next"),
        (KEYS, lambda m: m.when_matched_update({}), "nothing to set"),
        (KEYS, lambda m: m.when_matched_update({"nope": "1"}), "no column nope"),
        (KEYS, lambda m: m.when_matched_update({"id": "source.color"}), "cast it"),
        (KEYS, lambda m: m.when_matched_update({"id": "source.nope"}), "not a value"),
        (KEYS, lambda m: m.when_matched_update({"ID": "1", "id": "2"}), "sets id twice"),
        (KEYS, lambda m: m.when_matched_delete().when_matched_update(), "could never apply"),
        (KEYS, lambda m: m.when_matched_delete().when_matched_delete(), "could never apply"),
        (KEYS, lambda m: m.when_not_matched_insert({"id": "target.id"}), "not a value"),
        (KEYS, lambda m: m.when_not_matched_insert(condition="target.id = 1"), "not a condition"),
        (KEYS, lambda m: m.when_not_matched_by_source_delete("source.id = 1"), "not a condition"),
        (KEYS, lambda m: m.when_matched_update({"price": "TIMESTAMP 'now'"}), "another time"),
    ],
)
def test_bad_requests_are_sentences(spark, sorted_table, on, clause, said):
    before = read_snapshot(sorted_table)
    with pytest.raises(SidestepError, match=said):
        clause(sidestep.merge(spark, sorted_table, frame(spark, made(1, 2)), on)).run()
    assert read_snapshot(sorted_table) == before


def test_a_source_that_lacks_columns_is_told_which(spark, sorted_table):
    batch = spark.createDataFrame([(1, 2.0)], "id bigint, price double")
    merge = sidestep.merge(spark, sorted_table, batch, KEYS)
    for one in (merge.when_matched_update(), merge.when_not_matched_insert()):
        with pytest.raises(SidestepError, match="the source has no month, color"):
            one.run()
    bad = batch.withColumnRenamed("price", "_sidestep_x")
    with pytest.raises(SidestepError, match="_sidestep_x"):
        sidestep.merge(spark, sorted_table, bad, KEYS).when_matched_delete().run()


def test_columns_that_must_not_be_null(spark, tmp_path):
    schema = pa.schema([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int64())])
    write_deltalake(str(tmp_path), pa.table({"x": [1, 2], "y": [1, 2]}, schema=schema))
    batch = spark.createDataFrame([(1, None), (5, None)], "y bigint, v int")
    merge = sidestep.merge(spark, tmp_path, batch, "target.y = source.y")
    with pytest.raises(Exception, match="must not be NULL"):
        merge.when_matched_update({"x": "source.v"}).run()
    with pytest.raises(SidestepError, match="does not set it"):
        merge.when_not_matched_insert({"y": "source.y"}).run()
    with pytest.raises(Exception, match="OVERFLOW"):
        merge.when_matched_update({"x": "source.y + 5000000000"}).run()
    assert DeltaTable(str(tmp_path)).version() == 0


def test_append_only_tables_take_inserts_alone(spark, sorted_table):
    DeltaTable(str(sorted_table)).alter.set_table_properties({"delta.appendOnly": "true"})
    merge = sidestep.merge(spark, sorted_table, frame(spark, made(999, 2)), KEYS)
    with pytest.raises(UnsupportedTable, match="append-only"):
        merge.when_matched_delete().run()
    assert merge.when_not_matched_insert().run().rows_inserted == 1


def test_history_and_old_versions(spark, sorted_table):
    before = DeltaTable(str(sorted_table)).version()
    run(spark, sorted_table, frame(spark, made(990, 20)), KEYS, [MATCHED[5], NOT_MATCHED[0]])
    table = DeltaTable(str(sorted_table))
    assert table.history(1)[0]["operation"] == "MERGE"
    assert contents(row.asDict() for row in sidestep.read(spark, sorted_table, version=before).collect()) == contents(
        made(0, 1000)
    )
    run(spark, sorted_table, frame(spark, made(2000, 1)), KEYS, [NOT_MATCHED[0]])
    last = sorted_table / "_delta_log" / f"{table.version() + 1:020d}.json"
    info = next(json.loads(line)["commitInfo"] for line in last.read_text().splitlines() if "commitInfo" in line)
    assert info["isBlindAppend"] is False, "it depends on what is there"


def overtaken(monkeypatch, others):
    """Let others write just before each of the next commits."""
    commit, left = commit_files, list(others)

    def commit_late(*arguments, **options):
        if left:
            left.pop(0)()
        return commit(*arguments, **options)

    monkeypatch.setattr(changes, "commit_files", commit_late)


def test_of_two_merges_that_insert_the_same_only_one_does(spark, sorted_table, monkeypatch):
    batch = frame(spark, made(1000, 3))
    merge = sidestep.merge(spark, sorted_table, batch, KEYS).when_not_matched_insert()
    overtaken(monkeypatch, [lambda: merge.run()])
    assert merge.run().rows_inserted == 0, "it looked again, and they were there"
    assert stored(sorted_table) == contents(made(0, 1003))


def test_rows_that_others_append_are_not_in_the_way(spark, sorted_table, monkeypatch):
    batch = frame(spark, made(310, 3))
    files = []

    def append():
        write_deltalake(str(sorted_table), arrow(made(3000, 5)), mode="append", schema_mode="merge")
        files.extend(data_files(sorted_table))

    overtaken(monkeypatch, [append])
    report = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_delete().run()
    assert report.version == DeltaTable(str(sorted_table)).version()
    assert set(data_files(sorted_table)) <= set(files), "it went through at once"
    assert len(stored(sorted_table)) == 1002


def test_changes_of_the_same_files_are_looked_at_again(spark, sorted_table, monkeypatch):
    batch = frame(spark, [{**row, "color": "merged"} for row in made(310, 3)])
    overtaken(monkeypatch, [lambda: DeltaTable(str(sorted_table)).delete("id = 311")] * 2)
    report = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_update({"color": "source.color"}).run()
    assert report.rows_updated == 2
    kept = DeltaTable(str(sorted_table)).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in kept if row["color"] == "merged") == [310, 312]


def test_a_commit_that_fails_leaves_the_table_as_it_was(spark, sorted_table, monkeypatch):
    before = read_snapshot(sorted_table)
    link = os.link

    def fail(source, target, **options):
        if "_delta_log" in str(target):
            raise OSError(28, "No space left on device")
        return link(source, target, **options)

    monkeypatch.setattr(os, "link", fail)
    batch = frame(spark, made(995, 10))
    merge = sidestep.merge(spark, sorted_table, batch, KEYS).when_matched_delete().when_not_matched_insert()
    with pytest.raises(SidestepError, match="No space left"):
        merge.run()
    monkeypatch.undo()
    assert read_snapshot(sorted_table) == before
    assert merge.run().rows == 10


def test_deletes_and_updates_from_a_source(spark, sorted_table):
    batch = frame(spark, [*made(310, 3), *made(311, 1)])
    report = sidestep.delete(spark, sorted_table, f"{KEYS} AND source.month >= 0", source=batch)
    assert (report.operation, report.rows, report.files_looked_at, report.files_removed) == ("delete", 3, 1, 1)
    assert "rows deleted" in str(report)
    report = sidestep.update(
        spark, sorted_table, {"price": "source.price + 1000"}, KEYS, source=frame(spark, made(401, 2))
    )
    assert (report.operation, report.rows, report.bytes_removed) == ("update", 2, report.bytes_looked_at)
    assert DeltaTable(str(sorted_table)).history(1)[0]["operation"] == "UPDATE"
    assert report.to_dict()["rows_rewritten_per_row"] == 50


def test_the_examples_of_the_docs_run(spark, tmp_path):
    page = Path(__file__).parents[3].joinpath("docs", "dml.md").read_text(encoding="utf-8")
    sales = tmp_path / "sales"
    write_deltalake(str(sales), pa.table({"id": [1, 2, 3], "price": [1.0, 2.0, 3.0], "customer": [7, 8, 9]}))
    batch = spark.createDataFrame([(1, 5.0, 7), (2, 0.0, 8), (4, 4.0, 6)], "id bigint, price double, customer bigint")
    batch.createOrReplaceTempView("batch")
    spark.createDataFrame([(6,)], "id bigint").createOrReplaceTempView("forgotten")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    names = {"spark": spark, "batch": batch, "sidestep": sidestep}
    for block in blocks:
        exec(block.replace("/data/sales", str(sales)), names)
    rows = DeltaTable(str(sales)).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["id"], row["price"], row["customer"]) for row in rows] == [(1, 5.0, 7), (3, 3.0, 9)]
