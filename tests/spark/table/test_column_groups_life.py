"""The life of tables in column groups: units put together, columns in other groups, status, and what is cleaned up."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import Any, cast

import pytest

import sidestep
from sidestep.errors import SidestepError, UnsupportedTable
from sidestep.spark.jvm.sessions import quiet_session
from sidestep.spark.progress import Watch
from sidestep.spark.table import group_optimize
from sidestep.spark.table.column_groups import write_groups
from sidestep.spark.table.group_table import column_groups
from sidestep.store import locate, open_index
from sidestep.store.index.grouped_table import read_groups
from sidestep.store.sidecars.column_groups import STAGED
from sidestep.store.snapshots.groups import inner_table
from tests.spark.living import ARROW, GROUPS, check, frame, made, new_groups

pytestmark = pytest.mark.spark
ROWS = made(0, 300)
LOG = [
    *(f"SELECT id FROM table WHERE price BETWEEN {low} AND {low + 3}" for low in range(0, 100, 4)),
    *(f"SELECT color, month FROM table WHERE id BETWEEN {low} AND {low + 30}" for low in range(0, 300, 10)),
]


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    return new_groups(spark, tmp_path_factory.mktemp("life") / "table", ROWS)


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


def live(root):
    table = read_groups(root)
    assert table is not None
    return table


def test_small_units_are_put_together(spark, enabled, root):
    more = [made(1000 + 30 * number, 30) for number in range(3)]
    for rows in more:
        sidestep.append(spark, root, frame(spark, rows))
    expected = [*ROWS, *(row for rows in more for row in rows)]
    before = {file.path for file in live(root).snapshot.files}
    waits = sidestep.optimize(spark, root, enough=1000)
    assert (waits.batches, waits.waiting_rows) == (0, 90)
    report = sidestep.optimize(spark, root)
    assert (report.batches, report.rows, report.units, report.version) == (1, 90, 1, 4)
    after = {file.path for file in live(root).snapshot.files}
    assert len(before - after) == report.files_removed == 3 * len(GROUPS), "those of the new units, in every group"
    assert len(after) < len(before)
    check(spark, root, expected)
    assert sidestep.optimize(spark, root, all=True).batches == 0, "there is nothing left to do"
    sidestep.delete(spark, root, "id < 280")
    assert sidestep.optimize(spark, root, all=True).batches == 1, "a unit that has lost its rows is small too"
    check(spark, root, [row for row in expected if row["id"] >= 280])


def test_columns_come_into_other_groups_for_other_queries(spark, enabled, root):
    old = live(root)
    state = sidestep.status(spark, root, log=LOG, name="table")
    assert state.drift is not None
    assert 0 < state.drift.anew < state.drift.now
    assert "of the cells" in str(state.drift)
    report = sidestep.optimize(spark, root, log=LOG, name="table")
    assert report.drift is not None
    assert report.drift.worthwhile
    new = live(root)
    assert not set(new.live) & set(old.live), "groups with new numbers"
    assert report.version == 1
    check(spark, root, ROWS)
    assert sidestep.read(spark, root, version=0).where("color = 'red' AND price > 3").count() == sum(
        row["color"] == "red" and (row["price"] or 0) > 3 for row in ROWS
    ), "older versions keep their groups"
    assert sidestep.append(spark, root, frame(spark, made(2000, 40))).rows == 40
    sidestep.delete(spark, root, "id BETWEEN 2010 AND 2019")
    expected = [*ROWS, *(row for row in made(2000, 40) if not 2010 <= row["id"] <= 2019)]
    check(spark, root, expected)
    sidestep.vacuum(root, hours=0, force=True)
    check(spark, root, expected)
    indexed = open_index(inner_table(locate(root))).file_values("_group")
    assert indexed is not None
    assert set(indexed.to_pylist()) == {str(number) for number in new.live}
    loaded = sidestep.load(spark, root, log=LOG, name="table", layout="gsop")
    assert loaded.version == 4
    assert [group.columns for group in loaded.groups] == [
        live(root).groups.groups[number] for number in live(root).live
    ]
    check(spark, root, expected)


def test_status_tells_of_the_table_as_users_see_it(spark, root):
    state = sidestep.status(None, root)
    assert (state.root, state.format, state.indexed_rows) == (locate(root).uri, "column groups", len(ROWS))
    assert state.complete
    assert set(state.columns) == set(ARROW.names)
    assert [group.columns for group in state.groups] == [group.columns for group in GROUPS]
    assert all(group.rows == len(ROWS) for group in state.groups)
    assert sum(group.bytes for group in state.groups) == state.bytes
    assert state.groups[0].features == state.groups[0].blocks > 1
    assert state.groups[1].features == 0


def test_a_table_in_groups_is_loaded_into_another_one(spark, enabled, root, tmp_path):
    report = sidestep.load(spark, root, tmp_path / "rows", by="month", min_size=20, order=["id"])
    assert (report.rows, report.units) == (len(ROWS), 4)
    check(spark, tmp_path / "rows", ROWS)
    assert not any(path.name.startswith(STAGED) for path in root.rglob("*"))
    with pytest.raises(UnsupportedTable, match="cannot take the place of"):
        sidestep.load(spark, root, by="month")


def test_vacuum_cleans_up_after_all(spark, enabled, root):
    old = list((root / "_sidestep" / "groups").glob("_group=*/*.zstd.parquet"))
    sidestep.delete(spark, root, "true")
    left = root / "_sidestep" / "groups" / "_sidestep" / f"{STAGED}0" / "part-0.parquet"
    left.parent.mkdir()
    left.write_bytes(b"killed")
    for path in (left, *old):
        os.utime(path, (1, 1))
    report = sidestep.vacuum(root, hours=0, force=True)
    assert len(report.files) == len(old)
    assert not left.exists()
    sidestep.append(spark, root, frame(spark, ROWS[:50]))
    state = sidestep.status(None, root)
    assert state.groups[0].features == state.groups[0].blocks, "the features of empty groups stay"
    check(spark, root, ROWS[:50])


@pytest.mark.parametrize("option", ["features", "by", "where", "synopses", "index_dir"])
def test_options_that_groups_do_not_have_are_refused(spark, root, option):
    given: dict[str, Any] = {option: "month"}
    with pytest.raises(SidestepError, match=f"leave {option}"):
        sidestep.optimize(spark, root, **given)


def test_two_who_divide_the_columns_at_once_give_no_number_to_two_groups(spark, root, monkeypatch):
    """What the slower one notes of its groups must not be said of the files of the other, which has committed."""
    names = tuple(dict.fromkeys(name for group in live(root).groups.groups for name in group))
    done: list[str] = []

    def division(session, old, columns):
        plans = [replace(next(iter(old.plans.values())), columns=each) for each in columns]
        groups = column_groups(old.groups.schema, plans, old.groups.buckets, old.groups)
        layouts = (*old.layouts, *(plan.spec for plan in plans))
        return replace(old, plans=dict(enumerate(plans, groups.first)), groups=groups, layouts=layouts)

    def regroup(*columns: Any) -> Any:
        watch = Watch(spark.sparkContext)
        return group_optimize.regroup(quiet_session(spark), locate(root), cast(Any, columns), {}, None, watch)

    def overtaken(*arguments, **options):
        made = write_groups(*arguments, **options)
        if not done:
            done.append("the other")
            regroup(names[1:], names[:1])
            check(spark, root, ROWS)
        return made

    monkeypatch.setattr(group_optimize, "new_division", division)
    monkeypatch.setattr(group_optimize, "write_groups", overtaken)
    with sidestep.enable(spark):
        before = len(live(root).groups.groups)
        regroup(names[:1], names[1:])
        table = live(root)
        assert table.groups.groups[before:] == (names[1:], names[:1], names[:1], names[1:])
        assert table.live == (before + 2, before + 3)
        check(spark, root, ROWS)
        assert len(sidestep.read(spark, root, version=table.snapshot.version - 1).collect()) == len(ROWS)
