"""Column groups weighed against layouts of rows: advice in words and figures, loads that choose, and given groups."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sidestep
from sidestep.advisor.layouts import column_groups
from sidestep.errors import SidestepError
from tests.spark.table.test_column_groups import CONFLICT, ROWS, groups_of, sales, write

pytestmark = pytest.mark.spark

MIXED = random.Random(0).sample(CONFLICT, len(CONFLICT))
"""Both kinds of queries among the earlier ones and the later ones."""


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> str:
    return write(tmp_path_factory.mktemp("weighed") / "sales", sales())


def same_rows(spark, source: str, path: Path) -> None:
    with sidestep.enable(spark):
        question = "count(*)", "sum(day)", "sum(price)", "count(kind)", "max(note)"
        asked, wanted = (
            frame.where("day < 90").selectExpr(*question).collect()[0]
            for frame in (sidestep.read(spark, str(path)), spark.read.parquet(source))
        )
        assert (*asked[:2], *asked[3:]) == (*wanted[:2], *wanted[3:])


def test_advice_weighs_column_groups_and_says_why(spark, source):
    advice = sidestep.advise(spark, MIXED, source, name="sales", min_size=50)
    groups = advice.to_dict()["column_groups"]
    assert sorted(name for group in groups["groups"] for name in group) == sorted(sales(1).column_names)
    assert len(groups["groups"]) > 1
    estimate = advice.estimate("column groups")
    assert 0 < estimate.rows <= 1
    assert estimate.bytes > 0
    rows = advice.estimate(advice.choice.family)
    assert groups["recommended"] == (estimate.seconds <= 0.75 * rows.seconds)
    text = str(advice)
    assert "column groups" in text
    assert f"Column groups are {'' if groups['recommended'] else 'not '}recommended" in text.replace("\n", " ")
    assert "--layout gsop" in advice.groups_command
    assert "sales_laid" in advice.groups_command, "a table of its own"


def test_where_one_group_is_best_the_advice_says_so(spark, source):
    alike = [f"SELECT sum(price) FROM sales WHERE day BETWEEN {low} AND {low + 9}" for low in range(0, 290, 5)]
    advice = sidestep.advise(spark, alike, source, name="sales", min_size=50)
    assert advice.groups is not None
    assert len(advice.groups) == 1
    assert "none would let these queries read less" in advice.groups_verdict
    assert [one.layout for one in advice.estimates][-1] != "column groups"


def test_a_family_that_is_asked_for_leaves_column_groups_out(spark, source):
    advice = sidestep.advise(spark, MIXED, source, name="sales", min_size=50, family="sorted")
    assert advice.groups is None
    assert advice.to_dict()["column_groups"] is None


def test_groups_that_are_given_are_loaded(spark, source, tmp_path):
    given = [["day", "price"], ["kind", "note"]]
    report = sidestep.load(
        spark, source, tmp_path / "out", name="sales", log=MIXED, layout="gsop", groups=given, min_size=50
    )
    assert {frozenset(group) for group in groups_of(tmp_path / "out").groups} == {
        *map(frozenset, given),
        frozenset({"id", "never", "tags"}),
    }
    assert report.rows == ROWS
    same_rows(spark, source, tmp_path / "out")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"layout": "gsop", "groups": [["day", "nothing"]]}, "no column nothing"),
        ({"layout": "gsop", "groups": [["day"], ["day"]]}, "day is in two"),
        ({"layout": "gsop", "groups": [sales(1).column_names]}, "a table like any other"),
        ({"groups": [["day"]]}, "give layout='gsop' with it"),
        ({"layout": "auto", "by": "kind"}, "With layout='auto'"),
        ({"layout": "best"}, "There is no layout 'best'"),
    ],
)
def test_what_cannot_be_is_refused(spark, source, tmp_path, how, said):
    with pytest.raises(SidestepError, match=said):
        sidestep.load(spark, source, tmp_path / "out", name="sales", log=MIXED, min_size=50, **how)


@pytest.mark.long
@pytest.mark.parametrize("gain", [-100.0, 1.0], ids=["groups", "rows"])
def test_a_load_takes_what_later_queries_would_rather_have(spark, source, tmp_path, monkeypatch, gain):
    monkeypatch.setattr(column_groups, "CLEAR_GAIN", gain)
    report = sidestep.load(spark, source, tmp_path / "out", name="sales", log=MIXED, layout="auto", min_size=50)
    assert bool(report.groups) == (gain < 0)
    assert any(note.startswith("Column groups (") for note in report.notes)
    same_rows(spark, source, tmp_path / "out")
