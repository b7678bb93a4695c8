"""Rows that come later: skippable at once, whoever wrote them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

import sidestep
from sidestep.errors import Conflict, SidestepError
from sidestep.spark.table import state
from sidestep.spark.table.append import append
from sidestep.store import open_index
from sidestep.store.commit.transaction import commit
from sidestep.synopsis.recipe import Recipe
from tests.spark.living import FEATURES, MIN_SIZE, arrow, blocks_of, check, frame, made, new_table, paths, units

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def laid_out(spark, tmp_path_factory):
    return new_table(spark, tmp_path_factory.mktemp("append") / "table", made(0, 300))


def test_appended_rows_are_skipped_at_once(spark, enabled, laid_out):
    before, blocks = paths(laid_out), blocks_of(laid_out)
    more = [{**row, "month": 9, "color": "green"} for row in made(1000, 100)]
    report = append(spark, str(laid_out), frame(spark, more).coalesce(1))
    assert (report.rows, report.files_written, report.version) == (100, 1, DeltaTable(str(laid_out)).version())
    assert "100 rows added" in str(report)
    check(spark, laid_out, made(0, 300) + more)
    (new,) = paths(laid_out) - before
    assert units(laid_out)[new] is None, "belongs to no unit yet"
    fresh = {block: ids for block, ids in blocks_of(laid_out).items() if block not in blocks}
    assert sorted(map(len, fresh.values())) == [MIN_SIZE] * 5
    assert min(fresh) > max(blocks)
    index = open_index(laid_out)
    assert set(index.features_of_block.to_pylist()) == {FEATURES.id}
    red = sidestep.read(spark, str(laid_out)).where("color = 'red'")
    red.collect()
    assert not [path for scan in sidestep.metrics(red).scans for path in scan.paths if new in path], "no red row in it"


def test_columns_are_matched_by_name(spark, tmp_path):
    root = new_table(spark, tmp_path / "table", made(0, 60))
    given = spark.sql("SELECT CAST(3.5 AS double) AS price, 5000L AS id")
    append(spark, str(root), given)
    expected = [*made(0, 60), {"id": 5000, "month": None, "color": None, "price": 3.5}]
    check(spark, root, expected)
    version = DeltaTable(str(root)).version()
    for rows, said in (
        (spark.sql("SELECT 1L AS id, 2 AS extra"), "no column extra"),
        (spark.sql("SELECT 1L AS ID"), "case-sensitive"),
        (spark.sql("SELECT 1 AS id"), "is bigint, and the rows have int: cast it"),
    ):
        with pytest.raises(SidestepError, match=said):
            append(spark, str(root), rows)
    append(spark, str(root), given.where("id < 0"))
    assert DeltaTable(str(root)).version() == version, "nothing to add is no version"


def test_rows_come_from_a_path_as_well(spark, tmp_path):
    root = new_table(spark, tmp_path / "table", made(0, 60))
    write_deltalake(str(tmp_path / "new"), arrow(made(500, 30)))
    append(spark, str(root), str(tmp_path / "new"))
    check(spark, root, made(0, 60) + made(500, 30))
    with pytest.raises(SidestepError, match="not a Delta table"):
        append(spark, str(tmp_path), str(tmp_path / "new"))


def test_a_table_that_was_never_laid_out_and_partitions_with_awkward_names(spark, enabled, tmp_path):
    root = str(tmp_path / "table")
    start = {"p": ["a b", "é/%", None], "x": [1, 2, 3]}
    schema = pa.schema([pa.field("p", pa.string()), pa.field("x", pa.int64(), nullable=False)])
    write_deltalake(root, pa.table(start, schema=schema), partition_by=["p"])
    append(spark, root, spark.createDataFrame([("a b", 4), (None, 5), ("é/%", 6)], "p string, x bigint").coalesce(1))
    seen = sorted((row.x, row.p) for row in sidestep.read(spark, root).collect())
    assert seen == [(1, "a b"), (2, "é/%"), (3, None), (4, "a b"), (5, None), (6, "é/%")]
    assert sidestep.read(spark, root).where("p = 'é/%' AND x > 2").count() == 1
    assert sorted(DeltaTable(root).to_pyarrow_table()["x"].to_pylist()) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(Exception, match="must not be NULL"):
        append(spark, root, spark.createDataFrame([("b", None)], "p string, x bigint"))
    assert sidestep.read(spark, root).count() == 6


def test_a_refused_commit_leaves_neither_files_nor_entries(spark, tmp_path, monkeypatch):
    root = new_table(spark, tmp_path / "table", made(0, 60))
    before = {path for path in root.rglob("*") if path.is_file()}
    ids = open_index(root).block_ids.tolist()

    def refused(*arguments, **options):
        assert {path for path in root.rglob("*") if path.is_file()} > before, "files and entries are there by now"
        raise Conflict("Another writer has changed the columns.")

    with monkeypatch.context() as patched:
        patched.setattr(state, "commit", refused)
        with pytest.raises(Conflict, match="changed the columns"):
            append(spark, str(root), frame(spark, made(500, 30)))
    assert {path for path in root.rglob("*") if path.is_file()} == before
    append(spark, str(root), frame(spark, made(500, 30)))
    check(spark, root, made(0, 60) + made(500, 30))
    after = open_index(root).block_ids.tolist()
    assert len(set(after)) == len(after) > len(ids), "every block has an id of its own"


def test_a_column_that_others_add_meanwhile_is_null_in_the_rows(spark, tmp_path, monkeypatch):
    root = new_table(spark, tmp_path / "table", made(0, 60))
    calls: list[str] = []

    def after_another(*arguments, **options):
        if not calls:
            DeltaTable(str(root)).alter.add_columns([Field("late", PrimitiveType("string"))])
        calls.append(options["operation"])
        return commit(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(state, "commit", after_another)
        append(spark, str(root), frame(spark, made(500, 30)))
    assert len(calls) == 2
    rows = sidestep.read(spark, root)
    assert rows.count() == 90
    assert rows.where("late IS NULL").count() == 90


def test_ids_do_not_run_over(spark, tmp_path, monkeypatch):
    root = new_table(spark, tmp_path / "table", made(0, 60))
    monkeypatch.setattr(state, "GREATEST_ID", 100)
    with pytest.raises(SidestepError, match="used up its block ids"):
        append(spark, str(root), frame(spark, made(500, 30)))


def test_named_columns_get_other_synopses_and_the_rest_stays(spark, tmp_path):
    root = new_table(spark, tmp_path / "table", made(0, 60), synopses="id=range-set:4")
    append(spark, root, frame(spark, made(500, 30)), synopses={"price": "bloom:64"})
    append(spark, root, frame(spark, made(600, 30)))
    index = open_index(root)
    assert index.recipes == {"id": Recipe(range_set=4), "price": Recipe(bloom=64)}
    blocks = {each.column: each.blocks for each in index.held_synopses()}
    assert blocks["id"] == index.map.blocks > blocks["price"] > 0
