"""The pipeline of stages: one analysis, in order, timed, switchable, and no look at files that no block depends on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from sidestep.predicate import Comparison, Literal, Op, Predicate
from sidestep.predicate.types import INTEGER
from sidestep.prune import Filter, Join, Operator, Query, Scan, analysis
from sidestep.prune.analysis import AnalyzedQuery, Decision, Settings, by_scan
from sidestep.prune.decide import STAGES, PruneStage, decide
from sidestep.prune.dips import lineage
from sidestep.prune.dips.model import InducedOptions, TableView
from tests.prune.joins import CROSS, INNER
from tests.prune.plans import GivenTables, column, equal, scan, spans, viewed

PATIENT = Settings(induced=InducedOptions(seconds=60))
NAMES = [stage.name for stage in STAGES]


@dataclass(frozen=True)
class Asked(GivenTables):
    """Tables that note which of them were asked for."""

    looked: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    def covers(self, scan: Scan) -> bool:
        self.looked.append(scan.key)
        return super().covers(scan)

    def complete(self, scans: Collection[Scan]) -> frozenset[str]:
        self.checked.extend(scan.key for scan in scans)
        return super().complete(scans)


def below(number: int, bound: int) -> Predicate:
    return Comparison(Op.LE, column(number), Literal(bound, INTEGER))


def left(query: Query, tables: GivenTables, settings: Settings = PATIENT) -> dict[str, list[int]]:
    analyzed, decision = decide(query, tables, settings)
    return {key: masks[0].nonzero()[0].tolist() for key, masks in by_scan(analyzed, decision.kept).items()}


A, B, C = scan("a", 1, 2), scan("b", 11, 12), scan("c", 21, 22)
JOINED = Query((Join(INNER, Filter(below(2, 0), A), B, equal(1, 11)),))
TWO = spans(x=[(0, 3), (6, 9)], y=[(0, 3), (6, 9)])
VIEWS = {"a": viewed(TWO), "b": viewed(TWO)}


# ---- the stages


def test_stages_run_in_their_order_and_say_how_long_they_took():
    _, decision = decide(JOINED, GivenTables(VIEWS), PATIENT)
    assert [stage.name for stage in decision.stages] == ["static", "paths", "induced", "selectors", "reuse"] == NAMES
    assert all(stage.seconds > 0 and not stage.stopped and not stage.off for stage in decision.stages)


@pytest.mark.parametrize(
    ("off", "kept"),
    [
        ((), {"a": [0], "b": [0]}),
        (("induced",), {"a": [0], "b": [0, 1]}),
        (("static",), {"a": [0, 1], "b": [0, 1]}),
        (("static", "induced", "reuse"), {"a": [0, 1], "b": [0, 1]}),
    ],
)
def test_each_can_be_switched_off(off, kept):
    settings = PATIENT.without(*off)
    assert left(JOINED, GivenTables(VIEWS), settings) == kept
    _, decision = decide(JOINED, GivenTables(VIEWS), settings)
    assert [stage.name for stage in decision.stages if stage.off] == [name for name in NAMES if name in off]


def test_one_that_runs_out_of_time_says_so():
    _, decision = decide(JOINED, GivenTables(VIEWS), Settings(induced=InducedOptions(seconds=0)))
    assert [stage.name for stage in decision.stages if stage.stopped] == ["induced"]


def test_a_new_stage_is_a_function_and_a_line():
    def skip_all(query: AnalyzedQuery, decision: Decision) -> Decision:
        none = tuple(tuple(mask & False for mask in masks) for masks in decision.kept)
        return replace(decision, kept=none, stopped=True)

    stages = (*STAGES, PruneStage("toy", skip_all))
    analyzed, decision = decide(JOINED, GivenTables(VIEWS), PATIENT, stages)
    assert not any(mask.any() for masks in by_scan(analyzed, decision.kept).values() for mask in masks)
    assert [(stage.name, stage.stopped) for stage in decision.stages][4:] == [("reuse", False), ("toy", True)]
    _, without = decide(JOINED, GivenTables(VIEWS), PATIENT.without("toy"), stages)
    assert without.stages[-1].off


def test_a_plan_is_analyzed_once(monkeypatch):
    counts: dict[str, int] = {}

    def count(module: object, name: str) -> None:
        whole = getattr(module, name)

        def counted(*args: object) -> object:
            counts[name] = counts.get(name, 0) + 1
            return whole(*args)

        monkeypatch.setattr(module, name, counted)

    count(analysis, "scan_filters")
    count(analysis, "normalize")
    count(lineage, "_conditions")
    query = Query((Filter(below(2, 0), A), *JOINED.plans))
    decide(query, GivenTables(VIEWS), PATIENT)
    assert counts["scan_filters"] == 1
    assert counts["normalize"] == 2, "places with the same predicates share one formula"


# ---- parts that run once


def test_equal_parts_keep_what_one_of_them_needs():
    first = Join(INNER, Filter(below(2, 0), A), B, equal(1, 11))
    again = Join(CROSS, first, C)
    views = {**VIEWS, "c": viewed(TWO)}
    query = Query((again,), ((7, ("b",)), (7, ("c",))))
    assert left(query, GivenTables(views)) == {"a": [0], "b": [0, 1], "c": [0, 1]}
    _, decision = decide(query, GivenTables(views), PATIENT)
    assert decision.bounds.keys().isdisjoint({"b", "c"})
    assert left(query, GivenTables(views), PATIENT.without("reuse")) == {"a": [0], "b": [0], "c": [0, 1]}


def test_copies_that_need_nothing_in_common_go_their_own_ways():
    """One for both would read no less than the two, and whether Spark would run one is not certain."""
    later = Comparison(Op.GE, column(22), Literal(6, INTEGER))
    query = Query((Join(CROSS, Filter(below(12, 3), B), Filter(later, C)),), ((7, ("b",)), (7, ("c",))))
    views = {"b": viewed(TWO), "c": viewed(TWO)}
    assert left(query, GivenTables(views)) == {"b": [0], "c": [1]}


# ---- what is not paid for


def test_a_query_of_one_table_makes_no_join_graph(monkeypatch):
    monkeypatch.setattr(lineage._Builder, "visit", lambda *_: 1 / 0)
    tables = Asked(VIEWS)
    assert left(Query((Filter(below(1, 3), A),)), tables) == {"a": [0]}
    assert tables.checked == []


def test_where_fewer_than_two_tables_are_covered_there_is_no_join_graph(monkeypatch):
    monkeypatch.setattr(lineage._Builder, "visit", lambda *_: 1 / 0)
    assert left(JOINED, GivenTables({"a": VIEWS["a"]})) == {"a": [0]}


def test_no_index_is_looked_for_where_nothing_could_use_it():
    tables = Asked(VIEWS)
    assert left(Query((A,)), tables) == {}
    assert tables.looked == []


def test_coverage_is_not_checked_where_nothing_is_removed():
    tables = Asked({"a": viewed(TWO), "b": viewed(TWO)})
    assert left(Query((Join(INNER, A, B, equal(1, 11)),)), tables) == {"a": [0, 1], "b": [0, 1]}
    assert tables.checked == []


def test_coverage_is_checked_of_the_tables_that_a_predicate_came_from():
    tables = Asked(VIEWS)
    assert left(JOINED, tables)["b"] == [0]
    assert tables.checked == ["a"]


def test_it_is_checked_of_those_further_back_too():
    plan: Operator = Join(INNER, Filter(below(2, 0), A), B, equal(1, 11))
    plan = Join(INNER, plan, C, equal(12, 22))
    tables = Asked({"a": viewed(TWO), "b": viewed(TWO), "c": viewed(TWO)})
    assert left(Query((plan,)), tables) == {"a": [0], "b": [0], "c": [0]}
    assert set(tables.checked) == {"a", "b"}


@pytest.mark.parametrize("silent", ["a", "b", "c"])
def test_what_rests_on_a_table_that_is_not_covered_whole_is_taken_back(silent):
    """a is filtered; what it says goes to b and from there to c, as far as tables may speak."""
    plan: Operator = Join(INNER, Filter(below(2, 0), A), B, equal(1, 11))
    plan = Join(INNER, plan, C, equal(12, 22))
    views: Mapping[str, TableView] = {key: viewed(TWO, complete=key != silent) for key in "abc"}
    both = {"a": {"b": [0, 1], "c": [0, 1]}, "b": {"b": [0], "c": [0, 1]}, "c": {"b": [0], "c": [0]}}
    tables = Asked(views)
    assert left(Query((plan,)), tables) == {"a": [0], **both[silent]}
    in_full = left(Query((plan,)), GivenTables(views), replace(PATIENT, in_full=True))
    assert in_full == {"a": [0], **both[silent]}


def test_an_explanation_checks_all_and_draws_the_graph_even_of_tables_that_are_not_covered():
    in_full = replace(PATIENT, in_full=True)
    tables = Asked(VIEWS)
    decide(JOINED, tables, in_full)
    assert set(tables.checked) == {"a", "b"}
    _, decision = decide(JOINED, GivenTables({}), in_full)
    assert decision.induced is not None
    assert [(node.label, node.blocks) for node in decision.induced.nodes] == [("a", 0), ("b", 0)]
    assert [edge.text for edge in decision.induced.edges] == ["x = x"]
