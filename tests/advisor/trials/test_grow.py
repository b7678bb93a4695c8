"""Trees grown on samples: cuts where queries end, large enough leaves, and other rows sent to the same leaves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sidestep.advisor.trials.grow import cut_evenly, grow
from sidestep.advisor.trials.needs import Needs, needs_of
from sidestep.advisor.trials.sample import Sample, sample_of
from sidestep.advisor.trials.trial import by_group
from sidestep.layout.tree import Cut
from sidestep.predicate import (
    DOUBLE,
    INTEGER,
    STRING,
    Comparison,
    Formula,
    In,
    all_of,
    between,
    column,
    compare,
    normalize,
)
from sidestep.predicate.nodes import Literal, Op
from tests.advisor.trials.shares import shares_read

TYPES = {"x": INTEGER, "y": DOUBLE, "kind": STRING}
X, Y, KIND = (column(name, type) for name, type in TYPES.items())
NO_FEATURES = np.zeros((0, 4_000), np.bool_)


def sample(rows: int = 4_000) -> Sample:
    draw = np.random.default_rng(7)
    kinds = np.array(["red", "green", "blue", "black", None])[draw.integers(0, 5, rows)]
    y = np.where(draw.random(rows) < 0.02, np.nan, draw.normal(0, 1, rows))
    table = pa.table({"x": draw.permutation(rows).astype(np.int32), "y": y, "kind": pa.array(kinds.tolist())})
    return sample_of(table, TYPES, rows)


def needs(of: Sample, queries: list[Formula], subsumes: np.ndarray | None = None) -> Needs:
    none = np.zeros((0, len(queries)), np.bool_)
    return needs_of(of, queries, np.ones(len(queries)), none if subsumes is None else subsumes)


def read(of: Sample, leaf: np.ndarray, queries: list[Formula], block: int) -> float:
    return float(shares_read(of, by_group(of, leaf, (), block), queries).mean())


def test_what_queries_need_is_told_by_rank():
    of = sample()
    queries = [
        normalize(between(X, 100, 199)),
        normalize(compare(KIND, "=", "green")),
        normalize(compare(X, ">", 9_999)),
    ]
    found = needs(of, queries)
    at, low, high = found.ranges["x"]
    assert (at.tolist(), low.tolist(), high.tolist()) == ([0, 2], [100, 4_000], [199, -1])
    at, wanted = found.sets["kind"]
    assert at.tolist() == [1]
    assert [of.values["kind"][int(rank)].as_py() for rank in np.flatnonzero(wanted[0])] == ["green"]
    some = found.take(np.array([1, 0, 0]))
    assert some.ranges["x"][0].tolist() == [1, 2]
    assert some.sets["kind"][0].tolist() == [0]


def test_ranges_elsewhere_are_as_wide_and_sets_stay():
    of = sample()
    found = needs(
        of, [normalize(between(X, at, at + 99)) for at in range(0, 400, 100)] + [normalize(compare(X, "<", 7))]
    )
    moved = found.shift(of, np.random.default_rng(1))
    _, low, high = moved.ranges["x"]
    assert (high - low).tolist()[1:4] == [99, 99, 99]
    assert low.tolist()[1:4] != [100, 200, 300]
    assert (low[4], high[4]) == (0, 6), "what is open on one side stays there"
    both = found.join(moved)
    assert len(both.weights) == 10
    assert both.ranges["x"][0].tolist() == list(range(10))


def test_cuts_lie_where_queries_end():
    of = sample()
    tree = grow(of, needs(of, [normalize(between(X, 1_000, 1_999))]), NO_FEATURES, 100).tree
    assert isinstance(tree, Cut)
    tested = {test.right for test in tree.tests if isinstance(test, Comparison)}
    assert tested == {Literal(1_000, INTEGER), Literal(2_000, INTEGER)}
    assert all(isinstance(test, Comparison) and test.op is Op.GE for test in tree.tests)


def test_values_and_features_are_cut_off():
    of = sample()
    odd = of.codes["x"] % 2 == 1
    queries = [
        normalize(compare(KIND, "=", "green")),
        normalize(compare(KIND, "=", "blue")),
        normalize(compare(Y, "<", 99.0)),
    ]
    grown = grow(of, needs(of, queries, np.array([[False, False, True]])), odd[None, :], 100)
    assert grown.tree is not None
    tests = list(grown.tree.tests)
    assert sum(isinstance(test, In) for test in tests) >= 2
    assert 0 in tests
    leaf = grown.route(of, odd[None, :])
    for number in range(grown.leaves):
        mine = leaf == number
        assert len(np.unique(odd[mine])) == 1
    assert read(of, leaf, queries[:2], 100) < 0.25


@pytest.mark.parametrize("urgent", [0.05, 1.0])
def test_leaves_have_enough_rows_and_routing_is_what_growing_was(urgent):
    of = sample()
    draw = np.random.default_rng(3)
    queries = [
        all_of([normalize(between(X, at, at + 150)), normalize(compare(Y, ">", float(draw.normal())))])
        for at in draw.integers(0, 3_900, 60).tolist()
    ]
    grown = grow(of, needs(of, queries), NO_FEATURES, 50, urgent)
    leaf = grown.route(of, NO_FEATURES)
    assert np.bincount(leaf, minlength=grown.leaves).min() >= 50
    few = of.take(np.arange(0, 4_000, 3))
    assert grown.route(few, NO_FEATURES[:, : len(few)]).tolist() == leaf[::3].tolist()
    assert read(of, leaf, queries, 50) < 0.75 * read(of, cut_evenly(of, ("y",), 50).route(of, NO_FEATURES), queries, 50)


def test_what_few_rows_have_is_cut_off_before_it_is_too_late():
    of = sample()
    rare = normalize(compare(X, ">=", 3_900))
    queries = [normalize(between(Y, low, low + 0.05)) for low in np.linspace(-2, 2, 30).tolist()] + [rare] * 3
    asked = needs(of, queries)
    early, never = (grow(of, asked, NO_FEATURES, 80, urgent).route(of, NO_FEATURES) for urgent in (0.05, 1.0))
    assert read(of, early, [rare], 80) < 0.05
    assert read(of, never, [rare], 80) > 0.5
    assert read(of, early, queries, 80) < read(of, never, queries, 80)


def test_no_query_no_cut():
    of = sample()
    assert grow(of, needs(of, []), NO_FEATURES, 10).tree is None
    assert grow(of, needs(of, [normalize(compare(X, ">=", 0))]), NO_FEATURES, 10).tree is None


def test_even_cuts_of_one_column_are_a_sort():
    of = sample()
    grown = cut_evenly(of, ("x",), 100)
    leaf = grown.route(of, NO_FEATURES)
    by_x = leaf[np.argsort(of.codes["x"])]
    assert (np.diff(by_x) >= 0).all()
    sizes = np.bincount(leaf)
    assert (sizes >= 100).all()
    assert (sizes < 200).all()


def test_even_cuts_take_columns_in_turn():
    of = sample()
    grown = cut_evenly(of, ("kind", "x"), 200)
    assert grown.tree is not None
    assert grown.tree.columns == ("kind", "x")
    assert read(of, grown.route(of, NO_FEATURES), [normalize(compare(KIND, "=", "blue"))], 200) < 0.6


def test_rare_values_are_told_apart_by_halves():
    """No value has rows enough for a leaf of its own, and each query wants one: those of later queries gain as well."""
    draw = np.random.default_rng(3)
    kinds = [f"kind {at:02}" for at in range(80)]
    rows = [None if at == 80 else kinds[at] for at in draw.integers(0, 81, 4_000).tolist()]
    of = sample_of(pa.table({"kind": pa.array(rows, pa.string())}), {"kind": STRING}, len(rows))
    asked = [normalize(compare(KIND, "=", kind)) for kind in kinds[::2]]
    later = [normalize(compare(KIND, "=", kind)) for kind in kinds[1::2]]
    grown = grow(of, needs(of, asked), NO_FEATURES, least=200)
    assert grown.leaves >= 12
    leaf = grown.route(of, NO_FEATURES)
    assert np.bincount(leaf).min() >= 200
    assert read(of, leaf, asked, 200) < 0.1
    assert read(of, leaf, later, 200) < 0.12
