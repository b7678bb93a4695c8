"""The judge of ``bench outofbox`` is right on rows that can be counted by hand, and its kinds are what they claim."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from bench.__main__ import main
from bench.outofbox import MORE, Judge, figures
from bench.outofbox_filters import (
    And,
    BoundRange,
    BoundSet,
    Coded,
    Filter,
    Holds,
    OneOf,
    Or,
    Range,
    atoms,
    bind,
    is_plain,
    matching_rows,
)
from bench.outofbox_judge import (
    Arrangement,
    as_arrived,
    choose_columns,
    cut_into_pages,
    describe,
    paged_reads,
    reads,
    rows_read,
    sorted_by,
    terms_of,
    z_ordered,
)
from bench.outofbox_kinds import KINDS, Kind, make_kind
from bench.outofbox_kinds.table import Table, texts
from bench.outofbox_product import StageCpu
from bench.outofbox_qdtree import Branch, Leaf, arrange, cuts_of, grow
from sidestep import Step

MOMENTS = np.array(["2024-03-02T23:10", "2024-03-03T04:59", "2024-12-31T12:00", "2023-01-01T00:00"], "datetime64[us]")
"""A Saturday, a Sunday, a Tuesday and a Sunday."""


def small() -> Table:
    return Table(
        "small",
        {
            "a": np.array([10, 20, 30, 40]),
            "b": np.ma.masked_array([15, 15, 35, 0], [False, False, False, True]),
            "s": texts(["y", "x"], np.array([0, 1, 1, 0])),
            "ts": MOMENTS,
        },
    )


def matched(condition: Filter, table: Table) -> list[bool]:
    bound = bind(condition, table)
    return list(matching_rows(bound, {atom.term: table.coded(atom.term).codes for atom in atoms(bound)}))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Range("a", 20, 30), [0, 1, 1, 0]),
        (Range("a", 20, 30, above=True, below=True), [0, 0, 0, 0]),
        (Range("a", low=25), [0, 0, 1, 1]),
        (Range("a", high=20, below=True), [1, 0, 0, 0]),
        (OneOf("a", (10, 11, 40)), [1, 0, 0, 1]),
        (Range("b", high=20), [1, 1, 0, 0]),
        (OneOf("s", ("x",)), [0, 1, 1, 0]),
        (Holds("a < b"), [1, 0, 1, 0]),
        (Or((Range("hour(ts)", low=22), Range("hour(ts)", high=5, below=True))), [1, 1, 0, 1]),
        (OneOf("dayofweek(ts)", (1, 7)), [1, 1, 0, 1]),
        (OneOf("month(ts)", (12,)), [0, 0, 1, 0]),
        (And((OneOf("s", ("x",)), Range("a", low=25))), [0, 0, 1, 0]),
    ],
    ids=str,
)
def test_rows_that_match(condition, expected):
    assert matched(condition, small()) == [bool(one) for one in expected]


def blocks_read(condition: Filter, table: Table, **known: object) -> list[bool]:
    """Of two blocks of two rows each."""
    bound = bind(condition, table)
    blocks = describe(table, as_arrived(4, 2), terms_of([bound]), **known)  # type: ignore[arg-type]
    return list(blocks.may_match(bound))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Range("a", high=20), [1, 0]),
        (Range("a", 21, 29), [0, 0]),
        (OneOf("a", (15,)), [1, 0]),  # no row has it, but it lies between the bounds of the first
        (OneOf("a", (25, 99)), [0, 0]),
        (OneOf("s", ("x",)), [1, 1]),
        (Range("b", low=20), [0, 1]),
        (OneOf("hour(ts)", (12,)), [1, 1]),
        (Holds("a < b"), [1, 1]),
        (Or((Range("a", high=10), Range("b", low=35))), [1, 1]),
    ],
    ids=str,
)
def test_bounds_rule_blocks_out(condition, expected):
    assert blocks_read(condition, small()) == [bool(one) for one in expected]


def test_a_column_that_is_null_throughout_a_block_rules_it_out():
    table = Table("nulls", {"b": np.ma.masked_array([1, 2, 3, 4], [False, False, True, True])})
    assert blocks_read(Range("b", high=9), table) == [True, False]


def test_sets_of_values_know_what_lies_between_bounds():
    table = Table("sets", {"a": np.array([1, 3, 2, 2])})
    assert blocks_read(OneOf("a", (2,)), table) == [True, True]
    assert blocks_read(OneOf("a", (2,)), table, sets=True) == [False, True]
    assert blocks_read(OneOf("a", (7,)), table, sets=True) == [False, False]


def test_cuts_answer_for_what_implies_them():
    table = small()
    day = bind(Range("hour(ts)", 6, 20), table)
    assert isinstance(day, BoundRange)
    assert blocks_read(OneOf("hour(ts)", (12,)), table, cuts=[day]) == [False, True]
    assert blocks_read(OneOf("hour(ts)", (12, 23)), table, cuts=[day]) == [True, True]


@pytest.mark.parametrize("name", KINDS)
def test_no_arrangement_loses_a_row(name):
    """A block with a row that matches is read, whatever is known of it; and each row is in one block."""
    kind = make_kind(name, 3_000, 60, 1)
    judge, table = Judge(kind), kind.table
    tree, advanced = grow(table, judge.train, 100, 20)
    column = next(term for term in judge.terms if is_plain(term))
    codes = {term: table.coded(term).codes for term in judge.terms}
    for arrangement in (
        as_arrived(table.rows, 20),
        sorted_by(table, column, 20),
        z_ordered(table, [term for term in judge.terms if is_plain(term)][:3], 20),
        arrange(table, tree, 20),
    ):
        assert np.array_equal(np.sort(arrangement.order), np.arange(table.rows))
        assert len(arrangement.starts) == 20
        for blocks in (
            describe(table, arrangement, judge.terms),
            describe(table, arrangement, judge.terms, sets=True, cuts=advanced),
        ):
            for query in judge.later:
                matches = np.logical_or.reduceat(matching_rows(query, codes)[arrangement.order], arrangement.starts)
                assert not (matches & ~blocks.may_match(query)).any()


def test_pages_are_read_where_rows_match_and_blocks_are_read():
    kind = make_kind("star", 9_000, 60, 1)
    judge, table = Judge(kind), kind.table
    arrangement = as_arrived(table.rows, 2)
    blocks = describe(table, arrangement, judge.terms, sets=True)
    codes = {term: table.coded(term).codes for term in judge.terms}
    column = next(term for term in judge.terms if is_plain(term))
    for pages in (cut_into_pages(table, arrangement), cut_into_pages(table, arrangement, column)):
        assert np.diff(pages.starts, append=table.rows).tolist() == [2_000, 2_000, 500, 2_000, 2_000, 500]
        assert np.array_equal(np.sort(pages.order[:4_500]), np.arange(4_500)), "rows stay in their block"
        described = describe(table, pages, judge.terms)
        for query in judge.later:
            (read,), (whole,) = (
                each.rows for each in (paged_reads(blocks, described, [query]), reads(blocks, [query], 1))
            )
            matches = np.logical_or.reduceat(matching_rows(query, codes)[pages.order], pages.starts)
            assert pages.sizes[matches].sum() <= read <= whole


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_the_same_for_the_same_seed(name):
    one, same, other = (make_kind(name, 500, 40, seed) for seed in (3, 3, 4))
    assert one.table.to_arrow().equals(same.table.to_arrow())
    assert _texts(one) == _texts(same) != _texts(other)
    assert one.train[-1].moment <= one.later[0].moment
    assert not one.table.to_arrow().equals(other.table.to_arrow())


def _texts(kind: Kind) -> list[str]:
    return [query.sql(kind.name) for query in (*kind.train, *kind.later)]


def test_more_later_queries_leave_those_to_learn_from_as_they_are():
    few, many = (make_kind("events", 500, 40, 3, later) for later in (0, 90))
    assert [query.sql("t") for query in many.train] == [query.sql("t") for query in few.train]
    assert (len(few.later), len(many.later)) == (10, 90)
    assert many.later[-1].moment == few.later[-1].moment, "in the same time"


def test_queries_match_something_as_a_rule():
    for name in KINDS:
        judge = Judge(make_kind(name, 50_000, 60, 0))
        assert np.mean(np.array(judge.matching) > 0) > 0.7, name


def test_the_focus_moves_on_and_new_templates_come_late():
    events = make_kind("events", 2_000, 80, 0)
    asked = [max(str(one) for one in query.sql("t").split("TIMESTAMP ")[1:] or [""]) for query in events.later]
    known = max(one for query in events.train for one in query.sql("t").split("TIMESTAMP ")[1:])
    assert sum(one > known for one in asked) > len(asked) / 2
    dashboards = make_kind("dashboards", 2_000, 80, 0)
    assert {query.template for query in dashboards.later} - {query.template for query in dashboards.train}


def grid() -> tuple[Table, list[Filter]]:
    rng = np.random.default_rng(0)
    table = Table("grid", {name: rng.integers(0, 64, 8_000) for name in "abc"})
    return table, [OneOf(name, (value,)) for name in "ab" for value in range(64)]


def test_columns_are_chosen_by_what_queries_read():
    table, conditions = grid()
    queries = [bind(condition, table) for condition in conditions]
    chosen = choose_columns(table, table.rows, queries, 64)
    assert set(chosen.z_order) == {"a", "b"}
    by_z, by_column = (
        rows_read(describe(table, one, ["a", "b"]), queries)
        for one in (z_ordered(table, chosen.z_order, 64), sorted_by(table, chosen.sort, 64))
    )
    assert by_z < by_column / 2 < 8_000 * 128 / 3


def test_a_tree_parts_rows_by_the_queries_own_cuts():
    rng = np.random.default_rng(0)
    table = Table("tree", {"a": rng.integers(0, 100, 4_000), "ts": MOMENTS[rng.integers(0, 4, 4_000)]})
    night, low = bind(Range("hour(ts)", low=22), table), bind(Range("a", high=30), table)
    tree, advanced = grow(table, [night, low], 200, 8)
    assert advanced == [night]
    assert isinstance(tree, Branch)
    assert {tree.cut, *(side.cut for side in (tree.satisfied, tree.other) if isinstance(side, Branch))} == {night, low}
    made = arrange(table, tree, 8)
    assert len(made.starts) == 8
    assert made.sizes.min() >= 200
    blocks = describe(table, made, ["hour(ts)", "a"], sets=True, cuts=advanced)
    read = reads(blocks, [night, low], 2)
    codes = {term: table.coded(term).codes for term in ("hour(ts)", "a")}
    assert read.rows == tuple(int(matching_rows(query, codes).sum()) for query in (night, low))
    assert max(read.files) <= 2


def test_a_tree_without_useful_cuts_is_one_leaf():
    table = Table("flat", {"a": np.arange(1_000)})
    everything = bind(Range("a", low=0), table)
    assert cuts_of(table, [everything]) == []
    assert grow(table, [everything], 100, 8) == (Leaf(), [])


def test_ranges_give_a_cut_for_each_bound():
    table = Table("cuts", {"a": np.arange(10)})
    both_ends, value = bind(Range("a", 3, 5), table), bind(OneOf("a", (4,)), table)
    assert isinstance(value, BoundSet)
    assert set(cuts_of(table, [both_ends, value])) == {BoundRange("a", 3, 9), BoundRange("a", 0, 5), value}


def test_files_are_neighbouring_blocks():
    table = Table("files", {"a": np.arange(100)})
    blocks = describe(table, Arrangement(np.arange(100), np.arange(0, 100, 10)), ["a"])
    queries = [bind(Range("a", 0, 39), table), bind(OneOf("a", (5, 95)), table)]
    assert reads(blocks, queries, 5) == reads(blocks, queries, 5)
    assert reads(blocks, queries, 5).files == (2, 2)
    assert reads(blocks, queries, 5).rows == (40, 20)


def test_the_worst_kind_is_what_counts():
    def kind(sidestep: float) -> dict[str, Any]:
        shares = {"asis": 50.0, "sort": 20.0, "zorder": 30.0, "qdtree": 10.0, "sidestep": sidestep, "match": 1.0}
        rows = {**shares, **dict.fromkeys(MORE, 0.0)}
        others = ("files_pct", "time_ratio", "blocks", "columns", "templates", "seconds")
        return {"rows_pct": rows, "load": {"choose_cpu_share": None}, **dict.fromkeys(others)}

    summed = figures({"one": kind(5.0), "other": kind(30.0)})
    assert summed["ratio_to_best_simple"] == {"one": 0.25, "other": 1.5}
    assert summed["worst_ratio_to_best_simple"] == 1.5
    assert summed["ratio_to_qdtree"] == {"one": 0.5, "other": 3.0}


def test_processor_time_goes_to_the_stage_that_runs():
    cpu = StageCpu()
    for stage in ("analyze", "write"):
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        cpu(Step(stage, 0, 0, 0.0))
    if cpu.choose_share is not None:
        assert 0.1 < cpu.choose_share < 0.9
        assert cpu.seconds.keys() == {"analyze", "write"}


def test_texts_are_coded_in_their_order():
    column = texts(["pear", "apple"], np.array([0, 1, 0]))
    assert isinstance(column, Coded)
    assert column.values[column.codes].tolist() == ["pear", "apple", "pear"]


def test_a_small_run_ends_with_its_figures_and_the_same_again_runs_nothing(spark, tmp_path, capsys):
    tiny = ["--rows", "2000", "--min-size", "300", "--queries", "12", "--later", "6", "--runs", "1"]
    tiny += ["--kinds", "dashboards"]
    assert main(["outofbox", *tiny, "--templates", "--data", str(tmp_path)]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert first["rows_pct"].keys() == first["files_pct"].keys() == {"dashboards"}
    shares = first["rows_pct"]["dashboards"]
    assert list(shares) == ["asis", "sort", "zorder", "qdtree", "sidestep", "match"]
    assert shares["match"] == min(shares.values())
    assert max(shares.values()) <= 100
    assert first["worst_ratio_to_best_simple"] == max(first["ratio_to_best_simple"].values())
    assert set(first["time_ratio"]) == set(first["ratio_to_qdtree"]) == set(first["choose_cpu_share"])
    assert not list(tmp_path.glob("outofbox-*")), "what was written for it is gone"
    assert main(["outofbox", *tiny, "--data", str(tmp_path)]) == 0
    second = json.loads(capsys.readouterr().out.splitlines()[-1])
    for record in (first, second):
        for key in ("arguments", "machine"):
            del record[key]
    assert second == first


def test_a_load_alone_tells_what_its_stages_take(spark, tmp_path, capsys):
    tiny = ["--rows", "2000", "--min-size", "300", "--queries", "12", "--later", "6", "--kinds", "sky", "--load-only"]
    assert main(["outofbox", *tiny, "--data", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["cpu"]["sky"]
    assert {"analyze", "choose", "commit"} <= told["seconds"].keys()
    assert told["choose_share"] is None or 0 < told["choose_share"] < 1
    assert not list(tmp_path.glob("outofbox-*")), "what was written for it is gone"
