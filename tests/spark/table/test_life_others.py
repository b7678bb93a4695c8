"""A laid-out table among other writers: before, between and at the same time; and its old versions until they go."""

from __future__ import annotations

import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

import sidestep
from sidestep.errors import SidestepError
from sidestep.spark.change.rewrite import delete, update
from sidestep.spark.table.append import append
from sidestep.spark.table.optimize import optimize
from sidestep.store.upkeep.vacuum import vacuum
from tests.spark.living import arrow, check, contents, frame, made, new_table, paths, units
from tests.spark.tables import data_files

pytestmark = pytest.mark.spark
ROWS = made(0, 200)


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    return new_table(spark, tmp_path_factory.mktemp("others") / "table", ROWS)


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


def test_others_may_write_in_between(spark, enabled, root):
    """What other writers leave (copied block ids, none at all, merged files) is read whole or judged by what it is."""
    table = str(root)
    rows = list(ROWS)
    DeltaTable(table).update(updates={"color": "'red'", "price": "0.5"}, predicate="id % 9 = 4")
    rows = [{**row, "color": "red", "price": 0.5} if row["id"] % 9 == 4 else row for row in rows]
    check(spark, root, rows)
    append(spark, table, frame(spark, made(1000, 30)))
    write_deltalake(table, arrow(made(2000, 30)), mode="append", schema_mode="merge")
    rows += made(1000, 30) + made(2000, 30)
    check(spark, root, rows)
    DeltaTable(table).delete("id % 50 = 7")
    rows = [row for row in rows if row["id"] % 50 != 7]
    sidestep.index(spark, table)
    check(spark, root, rows)
    delete(spark, table, "price > 90 AND month = 3")
    rows = [row for row in rows if not ((row["price"] or 0) > 90 and row["month"] == 3)]
    check(spark, root, rows)
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    check(spark, root, rows)
    sidestep.index(spark, table)
    check(spark, root, rows)
    update(spark, table, {"color": "'blue'"}, "color = 'red' AND id < 100")
    rows = [{**row, "color": "blue"} if row["color"] == "red" and row["id"] < 100 else row for row in rows]
    optimize(spark, table, all=True)
    check(spark, root, rows)
    assert None not in units(root).values()


def test_writers_at_the_same_time_lose_nothing(spark, enabled, root):
    table = str(root)
    frames = [frame(spark, made(1000 + 100 * number, 20)) for number in range(2)]

    def foreign() -> None:
        for number in range(5):
            write_deltalake(table, arrow(made(3000 + 10 * number, 10)), mode="append", schema_mode="merge")

    with ThreadPoolExecutor(4) as pool:
        jobs: list[Future[Any]] = [
            pool.submit(lambda: [append(spark, table, rows) for rows in frames]),
            pool.submit(lambda: delete(spark, table, "id < 100 AND month = 1")),
            pool.submit(
                lambda: update(spark, table, {"price": "price + 1000"}, "month = 1 AND id BETWEEN 100 AND 150")
            ),
            pool.submit(foreign),
        ]
        for job in jobs:
            job.result()
    left = [row for row in ROWS if not (row["id"] < 100 and row["month"] == 1)]
    changed = [
        {**row, "price": row["price"] + 1000}
        if row["month"] == 1 and 100 <= row["id"] <= 150 and row["price"] is not None
        else row
        for row in left
    ]
    check(spark, root, changed + made(1000, 20) + made(1100, 20) + made(3000, 50))


def test_an_old_version_is_there_until_it_is_vacuumed(spark, enabled, root):
    table = str(root)
    loaded = DeltaTable(table).version()
    delete(spark, table, "month = 2")
    left = [row for row in ROWS if row["month"] != 2]
    for version in (loaded, loaded - 1):
        seen = sidestep.read(spark, table, version=version)
        assert contents(row.asDict() for row in seen.collect()) == contents(ROWS)
        assert seen.where("color = 'red' AND month = 2").count() == len(
            [row for row in ROWS if row["color"] == "red" and row["month"] == 2]
        )
    with pytest.raises(SidestepError, match="force=True"):
        vacuum(table, hours=0)
    report = vacuum(table, hours=0, force=True)
    assert len(report.files) == 4, "three of before the load, and the month that was rewritten"
    assert {path.name for path in data_files(root)} == paths(root)
    check(spark, root, left)
