"""Rows deleted and changed: only files that hold such rows are written anew, and every other row stays in its block."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

import sidestep
from sidestep.errors import SidestepError, UnsupportedTable
from sidestep.spark.change.rewrite import delete, update
from sidestep.spark.jvm.sessions import quiet_session
from sidestep.spark.relation import from_snapshot
from sidestep.store import read_snapshot
from tests.spark.living import arrow, blocks_of, check, made, new_table, paths, units
from tests.spark.tables import settings

pytestmark = pytest.mark.spark
ROWS = made(0, 240)


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    return new_table(spark, tmp_path_factory.mktemp("rewrite") / "table", ROWS)


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


def test_a_delete_leaves_every_other_row_in_its_block(spark, enabled, root):
    before, blocks, of = paths(root), blocks_of(root), units(root)
    report = delete(spark, str(root), "month = 2 AND id < 100")
    gone = {row["id"] for row in ROWS if row["month"] == 2 and row["id"] < 100}
    rest = [row for row in ROWS if row["id"] not in gone]
    check(spark, root, rest)
    assert (report.rows, report.files_removed, report.files_looked_at) == (len(gone), 1, 1), "one month is one file"
    assert len(before - paths(root)) == 1
    assert sorted(map(sorted, blocks_of(root).values())) == sorted(
        sorted(b - gone) for b in blocks.values() if b - gone
    )
    assert set(units(root).values()) == set(of.values()), "the new file is of the old one's unit"
    assert "rows deleted" in str(report)


def test_rows_for_which_the_condition_is_null_stay(spark, enabled, root):
    delete(spark, str(root), "NOT (color = 'red')")
    check(spark, root, [row for row in ROWS if row["color"] in ("red", None)])
    update(spark, str(root), {"price": "1.5"}, "color <> 'green'")
    check(spark, root, [{**r, "price": 1.5} if r["color"] else r for r in ROWS if r["color"] in ("red", None)])


def test_files_are_rewritten_in_a_session_that_skips_nothing(spark, enabled, root):
    snapshot, condition = read_snapshot(root), "month = 2"
    for session, files in ((spark, 1), (quiet_session(spark), 4)):
        rows = from_snapshot(session, snapshot).where(condition)
        rows.collect()
        assert sidestep.metrics(rows).files == files


def test_nothing_that_matches_is_no_version(spark, root):
    version = DeltaTable(str(root)).version()
    report = delete(spark, str(root), "id = -5")
    assert (report.rows, report.files_looked_at, report.version) == (0, 0, version), "the index rules every file out"
    assert update(spark, str(root), {"color": "'x'"}, "color = 'purple'").version == version
    assert DeltaTable(str(root)).version() == version


def test_everything_can_go(spark, enabled, root):
    delete(spark, str(root), "true")
    check(spark, root, [])
    assert read_snapshot(root).files == ()
    assert len(sidestep.read(spark, str(root), version=3).collect()) == len(ROWS), "the old version is there"


def test_an_update_sees_the_row_as_it_was(spark, enabled, root):
    report = update(spark, str(root), {"id": "id + 1000", "price": "id * 2", "color": "NULL"}, "id < 50 AND month = 1")
    hit = {row["id"] for row in ROWS if row["id"] < 50 and row["month"] == 1}
    changed = {i: {"id": i + 1000, "month": 1, "price": i * 2.0, "color": None} for i in hit}
    check(spark, root, [changed.get(row["id"], row) for row in ROWS])
    assert (report.rows, report.files_removed) == (len(hit), 1)


def test_an_update_of_the_units_own_column_stays_right(spark, enabled, root):
    update(spark, str(root), {"month": "9", "color": "'red'"}, "id % 10 = 0")
    moved = [{**row, "month": 9, "color": "red"} if row["id"] % 10 == 0 else row for row in ROWS]
    check(spark, root, moved)
    found = sidestep.read(spark, str(root)).where("month = 9 AND color = 'red'")
    assert found.count() == 24


def test_files_of_other_writers_are_rewritten_too(spark, enabled, root):
    more = made(1000, 60)
    write_deltalake(str(root), arrow(more), mode="append", schema_mode="merge")
    report = delete(spark, str(root), "id BETWEEN 1010 AND 1019 OR id = 3")
    gone = {*range(1010, 1020), 3}
    check(spark, root, [row for row in ROWS + more if row["id"] not in gone])
    assert report.files_looked_at >= 2
    assert list(units(root).values()).count(None) == 1, "what was never organized still is not"
    assert update(spark, str(root), {"color": "'red'"}, "id >= 1050").files_looked_at == 1, "now the index knows it"


@pytest.mark.parametrize(
    ("set", "where", "said"),
    [
        ({"id": "1"}, " ", "condition is empty"),
        ({"id": "1"}, "nope = 1", "not a condition"),
        ({"id": "1"}, "id", "not a condition"),
        ({"id": "1"}, "rand() > 0.5", "one time and false the next"),
        ({"nope": "1"}, "id = 1", "no column nope"),
        ({"id": "nope + 1"}, "id = 1", "not a value"),
        ({"id": "color"}, "id = 1", "cast it"),
        ({"id": "CAST(rand() AS bigint)"}, "id = 1", "differ each time"),
        ({}, "id = 1", "nothing to set"),
    ],
)
def test_bad_requests_are_sentences(spark, root, set, where, said):
    with pytest.raises(SidestepError, match=said):
        update(spark, str(root), set, where)


def test_a_value_that_does_not_fit_is_an_error_in_every_session(spark, tmp_path):
    schema = pa.schema([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int64())])
    write_deltalake(str(tmp_path), pa.table({"x": [1, 2], "y": [1, 2**40]}, schema=schema))
    with settings(spark, spark__sql__ansi__enabled="false"):
        with pytest.raises(Exception, match="OVERFLOW"):
            update(spark, str(tmp_path), {"x": "y"}, "y > 1")
        with pytest.raises(Exception, match="must not be NULL"):
            update(spark, str(tmp_path), {"x": "CAST(NULL AS int)"}, "y > 1")
        update(spark, str(tmp_path), {"x": "y + 6"}, "y = 1")
    assert sorted(DeltaTable(str(tmp_path)).to_pyarrow_table()["x"].to_pylist()) == [2, 7]


def test_char_and_varchar_have_their_length(spark, tmp_path):
    """Strings to Delta: what they are to be is in their metadata, and each writer's own affair."""
    types = {"id": ("long", {}), "c": ("string", _noted("char(3)")), "v": ("string", _noted("varchar(3)"))}
    fields = [{"name": name, "type": of, "nullable": True, "metadata": more} for name, (of, more) in types.items()]
    DeltaTable.create(str(tmp_path), Schema.from_json(json.dumps({"type": "struct", "fields": fields})))

    def rows(*given):
        return spark.createDataFrame(given, "id bigint, c string, v string")

    sidestep.append(spark, str(tmp_path), rows((1, "a", "b"), (2, None, None)))
    update(spark, str(tmp_path), {"c": "'xy'", "v": "'xyz '"}, "id = 1")
    matching = sidestep.merge(spark, str(tmp_path), rows((3, "q", "rst")), "target.id = source.id")
    matching.when_not_matched_insert().run()
    stored = DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["c"], row["v"]) for row in stored] == [("xy ", "xyz"), (None, None), ("q  ", "rst")]
    with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
        sidestep.append(spark, str(tmp_path), rows((4, "a", "long")))
    with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
        update(spark, str(tmp_path), {"c": "'long'"}, "id = 1")
    with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
        sidestep.merge(
            spark, str(tmp_path), rows((1, "a", "long")), "target.id = source.id"
        ).when_matched_update().run()


def test_fields_of_structs_are_never_taken_for_each_other(spark, tmp_path):
    kind = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    rows = pa.table(
        {"id": [1, 2], "s": pa.array([{"a": 1, "b": 2}] * 2, kind), "l": pa.array([[]] * 2, pa.list_(kind))}
    )
    write_deltalake(str(tmp_path), rows)
    spark.sql("SELECT 1L AS id, named_struct('b', 20, 'a', 10) AS s, array(s) AS l").createOrReplaceTempView("swapped")
    matching = sidestep.merge(spark, str(tmp_path), "swapped", "target.id = source.id")
    for clauses in (matching.when_matched_update, matching.when_not_matched_insert):
        with pytest.raises(SidestepError, match="by named_struct"):
            clauses().run()
    for other in ("named_struct('b', 1, 'a', 2)", "struct(1, 2)", "named_struct('b', 1L, 'a', 2L)"):
        with pytest.raises(SidestepError, match="by named_struct"):
            update(spark, str(tmp_path), {"s": other}, "id = 1")
        with pytest.raises(SidestepError, match="by named_struct"):
            update(spark, str(tmp_path), {"l": f"array({other})"}, "id = 1")
    update(spark, str(tmp_path), {"s": "named_struct('A', 7L, 'b', s.a)"}, "id = 1")
    assert sidestep.read(spark, str(tmp_path)).where("id = 1").select("s.*").collect() == [(7, 1)]
    update(spark, str(tmp_path), {"s": "NULL", "l": "array(named_struct('a', NULL, 'b', 3L))"}, "id = 1")
    assert sidestep.read(spark, str(tmp_path)).where("id = 1").select("s", "l.b").collect() == [(None, [3])]


def _noted(kind):
    return {"__CHAR_VARCHAR_TYPE_STRING": kind}


def test_columns_are_set_in_any_case_unless_the_session_minds(spark, root):
    assert update(spark, str(root), {"COLOR": "'teal'"}, "ID = 5").rows == 1
    assert update(spark, str(root), {"Color": "(SELECT 'teal')"}, "Id = 6").rows == 1
    assert sidestep.read(spark, str(root)).where("color = 'teal'").count() == 2
    with pytest.raises(SidestepError, match=r"color of .* is set twice"):
        update(spark, str(root), {"COLOR": "'a'", "color": "'b'"}, "id = 5")
    with settings(spark, spark__sql__caseSensitive="true"), pytest.raises(SidestepError, match="no column COLOR"):
        update(spark, str(root), {"COLOR": "'a'"}, "id = 5")


def test_append_only_tables_are_refused_before_any_work(spark, root):
    DeltaTable(str(root)).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(UnsupportedTable, match="append-only"):
        delete(spark, str(root), "id = 1")


def test_partitions_are_kept_and_rows_may_change_theirs(spark, enabled, tmp_path):
    root = str(tmp_path)
    write_deltalake(root, pa.table({"p": ["a/b", "c", None], "x": [1, 2, 3]}), partition_by=["p"])
    update(spark, root, {"p": "'new %'"}, "x >= 2")
    seen = sorted((row.x, row.p) for row in sidestep.read(spark, root).collect())
    assert seen == [(1, "a/b"), (2, "new %"), (3, "new %")]
    assert delete(spark, root, "p = 'new %' AND x = 2").files_looked_at <= 2
    assert sorted(DeltaTable(root).to_pyarrow_table()["x"].to_pylist()) == [1, 3]
