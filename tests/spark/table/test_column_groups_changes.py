"""Rows of tables in column groups, deleted, changed and merged: every group has the same rows, and the right ones."""

from __future__ import annotations

import shutil
import threading

import pytest
from deltalake import DeltaTable

import sidestep
from sidestep.errors import SidestepError
from sidestep.store import locate
from sidestep.store.index.grouped_table import read_groups
from sidestep.store.snapshots.groups import inner_table
from tests.spark.living import GROUPS, check, frame, made, new_groups

pytestmark = pytest.mark.spark
ROWS = made(0, 480)
UNIT_ROWS = 150


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    return new_groups(spark, tmp_path_factory.mktemp("groups") / "table", ROWS, UNIT_ROWS)


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


def files(root):
    """The files of each group."""
    table = read_groups(root)
    assert table is not None
    return [
        {file.path for file, of in zip(table.snapshot.files, table.group_of_file, strict=True) if of == number}
        for number in range(len(GROUPS))
    ]


def version(root):
    return DeltaTable(inner_table(locate(root)).path).version()


def test_a_delete_takes_rows_out_of_every_group(spark, enabled, root):
    before = files(root)
    report = sidestep.delete(spark, root, "id BETWEEN 10 AND 60 AND color = 'red'")
    gone = {row["id"] for row in ROWS if 10 <= row["id"] <= 60 and row["color"] == "red"}
    check(spark, root, [row for row in ROWS if row["id"] not in gone])
    assert report.rows == len(gone) > 5
    assert report.version == version(root) == 1, "all groups in one commit"
    assert report.root == locate(root).uri
    for old, new in zip(before, files(root), strict=True):
        assert old - new, "rows went from every group"
        assert old & new, "and not all files are written anew"
    assert len(sidestep.read(spark, root, version=0).collect()) == len(ROWS)


def test_nothing_that_matches_is_no_version(spark, root):
    report = sidestep.delete(spark, root, "id = -5")
    assert (report.rows, report.files_looked_at, report.version, version(root)) == (0, 0, 0, 0)
    assert sidestep.update(spark, root, {"color": "'x'"}, "color = 'purple'").version == 0


def test_everything_can_go_and_come_back(spark, enabled, root):
    sidestep.delete(spark, root, "true")
    check(spark, root, [])
    assert sidestep.append(spark, root, frame(spark, ROWS[:90])).rows == 90
    check(spark, root, ROWS[:90])


@pytest.mark.parametrize(
    ("column", "value", "groups"),
    [("month", "month + 10", {0}), ("price", "id * 2", {0, 1, 2})],
    ids=["a column that no block of another group knows", "a column that all blocks know"],
)
def test_an_update_writes_the_groups_that_it_concerns(spark, enabled, root, column, value, groups):
    before = files(root)
    report = sidestep.update(spark, root, {column: value}, "id < 50 AND color = 'blue'")
    new = {"month": lambda row: row["month"] + 10, "price": lambda row: row["id"] * 2.0}[column]
    hit = [row for row in ROWS if row["id"] < 50 and row["color"] == "blue"]
    check(spark, root, [{**row, column: new(row)} if row in hit else row for row in ROWS])
    assert report.rows == len(hit) > 5
    changed = {number for number, (old, now) in enumerate(zip(before, files(root), strict=True)) if old != now}
    assert changed == groups


def test_new_values_can_be_found_by_what_blocks_say(spark, enabled, root):
    """Zone maps and union vectors of every group follow, or the rows would be skipped."""
    sidestep.update(spark, root, {"color": "'purple'", "price": "-7"}, "id % 50 = 3")
    expected = [{**r, "color": "purple", "price": -7.0} if r["id"] % 50 == 3 else r for r in ROWS]
    check(spark, root, expected)
    for condition, count in (("color = 'purple'", 10), ("price < 0", 10), ("price = -7 AND color = 'purple'", 10)):
        assert sidestep.read(spark, root).where(condition).count() == count


def test_conditions_with_subqueries_and_sources(spark, enabled, root):
    frame(spark, ROWS[5:200:7]).createOrReplaceTempView("chosen_rows")
    ids = {row["id"] for row in ROWS[5:200:7]}
    sidestep.delete(spark, root, "id IN (SELECT id FROM chosen_rows WHERE color = 'red')")
    gone = {row["id"] for row in ROWS if row["id"] in ids and row["color"] == "red"}
    rest = [row for row in ROWS if row["id"] not in gone]
    check(spark, root, rest)
    source = spark.createDataFrame([(i, float(i)) for i in sorted(ids)], "k bigint, v double")
    sidestep.update(spark, root, {"price": "source.v + 1"}, "target.id = source.k", source=source)
    rest = [{**row, "price": row["id"] + 1.0} if row["id"] in ids else row for row in rest]
    check(spark, root, rest)
    report = sidestep.delete(spark, root, "target.id = source.k", source=source)
    assert report.rows == len(ids - gone)
    check(spark, root, [row for row in rest if row["id"] not in ids])


def test_a_merge_updates_deletes_and_inserts_at_once(spark, enabled, root):
    batch = [{**row, "color": "new", "price": 1.0} for row in made(440, 120)]
    report = (
        sidestep.merge(spark, root, frame(spark, batch), "target.id = source.id")
        .when_matched_delete("target.month = 1")
        .when_matched_update({"color": "source.color", "price": "source.price"})
        .when_not_matched_insert(condition="source.id % 2 = 0")
        .when_not_matched_by_source_update({"month": "99"}, "target.id < 20")
        .run()
    )
    expected = []
    for row in ROWS:
        if row["id"] < 440:
            expected.append({**row, "month": 99} if row["id"] < 20 else row)
        elif row["month"] != 1:
            expected.append({**row, "color": "new", "price": 1.0})
    inserted = [row for row in batch if row["id"] >= 480 and row["id"] % 2 == 0]
    check(spark, root, [*expected, *inserted])
    deleted = sum(row["id"] >= 440 and row["month"] == 1 for row in ROWS)
    assert (report.rows_inserted, report.rows_deleted) == (len(inserted), deleted)
    assert report.version == version(root) == 1
    twice = sidestep.merge(spark, root, frame(spark, [*batch, *batch]), "target.id = source.id")
    with pytest.raises(SidestepError, match=r"such as the row with id = 4\d\d"):
        twice.when_matched_update({"price": "0"}).run()


def test_statements_in_sql(spark, enabled, root):
    tables = {"sales": root}
    assert sidestep.sql(spark, "DELETE FROM sales WHERE id < 40", tables=tables).rows == 40
    sidestep.sql(spark, "UPDATE sales SET color = 'none', price = price + 1 WHERE color IS NULL", tables=tables)
    frame(spark, made(470, 20)).createOrReplaceTempView("batch")
    sidestep.sql(
        spark,
        f"MERGE INTO delta.`{root}` t USING batch s ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT *",
    )
    rest = [row for row in ROWS if 40 <= row["id"] < 470]
    rest = [
        {**row, "color": "none", "price": None if row["price"] is None else row["price"] + 1}
        if row["color"] is None
        else row
        for row in rest
    ]
    check(spark, root, [*rest, *(row for row in made(470, 20) if row["id"] >= 480)])


def test_jobs_need_no_enabled_session(spark, root):
    assert sidestep.delete(spark, root, "id < 40 AND price >= 0").rows > 30
    with sidestep.enable(spark):
        check(spark, root, [row for row in ROWS if not (row["id"] < 40 and row["price"] is not None)])


@pytest.mark.long
def test_writers_at_once(spark, enabled, root):
    """Each starts again where it was overtaken, and none is lost."""
    problems = []

    def work(job):
        try:
            job()
        except Exception as problem:
            problems.append(problem)

    jobs = [
        lambda: sidestep.delete(spark, root, "id BETWEEN 100 AND 140"),
        lambda: sidestep.append(spark, root, frame(spark, made(1000, 50))),
        lambda: sidestep.update(spark, root, {"color": "'late'"}, "id BETWEEN 300 AND 320"),
    ]
    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    expected = [row for row in ROWS if not 100 <= row["id"] <= 140]
    expected = [{**row, "color": "late"} if 300 <= row["id"] <= 320 else row for row in expected]
    check(spark, root, [*expected, *made(1000, 50)])
    assert version(root) == 3
