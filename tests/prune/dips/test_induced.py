"""The worked examples of the diPs paper, convergence, and bad input."""

from __future__ import annotations

import gc
from dataclasses import replace
from random import Random
from time import process_time

import numpy as np
import pytest

from sidestep.errors import SidestepError
from sidestep.predicate import And, Column, Comparison, Literal, Op, Or
from sidestep.predicate.types import BOOLEAN, INTEGER
from sidestep.prune import Aggregate, Filter, Join, Operator, Project, Query, Scan, Union
from sidestep.prune.dips import exchange
from sidestep.prune.dips.carry import compact
from sidestep.prune.dips.model import InducedOptions, TableView
from sidestep.synopsis import Catalog
from sidestep.synopsis.contract.block_ranges import BlockRanges
from sidestep.synopsis.range_set import RangeSets, grow
from sidestep.synopsis.values.codes import Coding, integer_codes
from tests.prune.joins import CROSS, EXISTENCE, INNER, LEFT_OUTER, LEFT_SEMI
from tests.prune.plans import Blocks, Pruned, between, column, equal, prune, random_blocks, scan, spans, viewed

PATIENT = InducedOptions(seconds=60)


def left(found: Pruned) -> dict[str, list[int]]:
    return {key: masks[0].nonzero()[0].tolist() for key, masks in found.kept.items()}


def below(number: int, bound: int) -> Comparison:
    return Comparison(Op.LE, column(number), Literal(bound, INTEGER))


def ends(found: Pruned, origin: str, target: str) -> list[tuple[object, object]]:
    """The ranges of the first predicate from one table to another."""
    labels = [node.label for node in found.nodes]
    (dip, *_) = (dip for dip in found.dips if (labels[dip.origin], labels[dip.target]) == (origin, target))
    return [(interval.low, interval.high) for interval in dip.ranges.intervals]


# ---- Table 2 and Figure 4

DATES = spans(date_sk=[(3000, 5000), (1000, 6000), (7000, 12000)], year=[(1995, 2000), (1990, 2002), (2005, 2018)])
DATES_IN_TWO: Blocks = [
    [{"date_sk": d, "year": y} for d, y in zip(days, years, strict=True)]
    for days, years in (
        ((3000, 3200, 3500, 4000, 4300, 4600, 5000), (1995, 1996, 1997, 1998, 1999, 2000, 2000)),
        ((1000, 2000, 5000, 6000), (1990, 1993, 1998, 2002)),
        ((7000, 10000, 11000, 12000), (2005, 2014, 2015, 2018)),
    )
]
SALES = spans(x=[(n, n + 400) for n in range(500, 12500, 500)])


def by_year(low: int, high: int, dates: Blocks = DATES, ranges: int = 1) -> Pruned:
    columns = (("1", Column("date_sk", INTEGER)), ("2", Column("year", INTEGER)))
    d = Scan("date_dim", "date_dim", ("/date_dim",), columns)
    plan = Join(INNER, Filter(between(2, low, high), d), scan("r", 11), equal(1, 11))
    return prune(Query((plan,)), {"date_dim": viewed(dates, ranges), "r": viewed(SALES)}, PATIENT)


@pytest.mark.parametrize(
    ("low", "high", "satisfying", "predicate"),
    [(0, 1995, [0, 1], [(1000, 6000)]), (2011, 9999, [2], [(7000, 12000)]), (2003, 2004, [], [])],
)
def test_table_2_predicates_from_zone_maps(low, high, satisfying, predicate):
    found = by_year(low, high)
    assert found.static["date_dim"][0].nonzero()[0].tolist() == satisfying
    kept = found.kept["r"][0]
    for block, (row, other) in enumerate(SALES):
        overlaps = any(a <= other["x"] and row["x"] <= b for a, b in predicate)
        assert kept[block] == overlaps
    if predicate:
        assert ends(found, "date_dim", "r") == predicate


def test_figure_4_range_sets_leave_more_out():
    found = by_year(0, 1995, DATES_IN_TWO, ranges=2)
    assert ends(found, "date_dim", "r") == [(1000, 2000), (3000, 3500), (4000, 6000)]
    assert found.kept["r"][0].sum() < by_year(0, 1995).kept["r"][0].sum()


# ---- Table 4: range-sets that grew


def test_table_4_a_range_set_that_grew_still_covers_what_its_table_holds():
    """{[3,5],[10,20],[23,27]}, then 6 and 52 are added: the partner must keep 6 and 52, and may still skip 40."""
    lows, highs = (integer_codes(np.array(side)) for side in ((3, 10, 23), (5, 20, 27)))
    start = BlockRanges(Coding(INTEGER), np.array([0, 3]), lows, highs)
    grown = grow(start, np.array([0, 0]), integer_codes(np.array([6, 52])), 3)
    one = np.array([11])
    updated = Catalog(np.zeros(1, np.int32), one, one, 1, (RangeSets({"x": grown}),))
    partner = spans(x=[(6, 6), (8, 8), (21, 21), (40, 40), (52, 52)])
    plan = Join(INNER, scan("a", 1), scan("b", 11), equal(1, 11))
    found = prune(Query((plan,)), {"a": TableView((updated,), True), "b": viewed(partner)}, PATIENT)
    assert ends(found, "a", "b") == [(3, 6), (10, 27), (52, 52)]
    assert left(found)["b"] == [0, 2, 4]


# ---- tables in column groups


def in_groups(view: TableView, *groups: tuple[int, ...]) -> TableView:
    """A view of a table whose column groups have these blocks."""
    (catalog,) = view.catalogs
    parts = tuple(np.isin(np.arange(catalog.blocks), group) for group in groups)
    return TableView((replace(catalog, parts=parts),), view.complete)


def test_one_column_group_that_knows_a_column_speaks_for_the_table():
    partner = viewed(spans(x=[(6, 6), (15, 15), (25, 25), (40, 40)]))
    table = viewed(spans(x=[(0, 10), (20, 30), (0, 0), (0, 0)]), unknown=[False, False, True, True])
    plan = Query((Join(INNER, scan("a", 1), scan("b", 11), equal(1, 11)),))
    assert left(prune(plan, {"a": table, "b": partner}, PATIENT))["b"] == [0, 1, 2, 3]
    found = prune(plan, {"a": in_groups(table, (0, 1), (2, 3)), "b": partner}, PATIENT)
    assert ends(found, "a", "b") == [(0, 10), (20, 30)]
    assert left(found) == {"a": [0, 1, 2, 3], "b": [0, 2]}


def test_rows_lie_in_what_every_column_group_has_left():
    partner = viewed(spans(x=[(6, 6), (15, 15), (25, 25), (40, 40)]))
    table = viewed(spans(x=[(0, 30), (31, 50), (10, 50), (0, 9)], y=[(0, 10), (20, 30), (0, 20), (21, 30)]))
    plan = Query((Join(INNER, Filter(between(2, 5, 12), scan("a", 1, 2)), scan("b", 11), equal(1, 11)),))
    found = prune(plan, {"a": in_groups(table, (0, 1), (2, 3)), "b": partner}, PATIENT)
    assert left(found) == {"a": [0, 2], "b": [1, 2]}, "x is in 0 to 30 by the one, and in 10 to 50 by the other"


def test_a_table_one_of_whose_column_groups_has_nothing_left_is_empty():
    partner = viewed(spans(x=[(6, 6), (15, 15)]))
    blocks = spans(x=[(0, 10), (20, 30), (0, 0)], y=[(0, 10), (20, 30), (0, 0)])
    table = viewed(blocks, unknown=[False, False, True])
    plan = Query((Join(INNER, Filter(between(2, 50, 60), scan("a", 1, 2)), scan("b", 11), equal(1, 11)),))
    assert left(prune(plan, {"a": table, "b": partner}, PATIENT))["b"] == [0, 1]
    assert left(prune(plan, {"a": in_groups(table, (0, 1), (2,)), "b": partner}, PATIENT))["b"] == []


# ---- TPC-H query 17: Figures 1, 2 (left) and 5


def q17(movement: bool = True) -> Pruned:
    part = Filter(between(2, 3, 3), scan("part", 1, 2))
    inner = Join(INNER, scan("lineitem", 11), part, equal(11, 1))
    nested = Aggregate(frozenset({"21"}), Project(scan("lineitem nested", 21)))
    plan = Project(Join(INNER, inner, nested, equal(1, 21)))
    parts = spans(x=[(100 * n, 100 * n + 99) for n in range(26)], y=[(n % 13, n % 13) for n in range(26)])
    lines = spans(x=[(2 * n, 2 * n + 60) for n in range(1000)])
    views = {"part": viewed(parts), "lineitem": viewed(lines), "lineitem nested": viewed(lines)}
    return prune(Query((plan,)), views, InducedOptions(seconds=60, movement=movement))


def test_query_17_both_reads_of_lineitem_skip_by_the_predicate_on_part():
    found = q17()
    assert len(left(found)["part"]) == 2
    assert len(left(found)["lineitem"]) < 170
    assert left(found)["lineitem nested"] == left(found)["lineitem"]


def test_query_17_without_movement_the_nested_read_stays_whole():
    assert len(left(q17(movement=False))["lineitem nested"]) == 1000


# ---- Figures 2 (middle) and 8: chains, stars, and the number of predicates


def star(spokes: int) -> Operator:
    plan: Operator = scan("t0", *range(1, spokes + 1), names="abcdefghijklmnopqrstuvwxyzABCDEFGHI")
    for n in range(1, spokes + 1):
        plan = Join(
            INNER,
            plan,
            Filter(below(100 + 2 * n, 5), scan(f"t{n}", 99 + 2 * n, 100 + 2 * n)),
            equal(n, 99 + 2 * n),
        )
    return plan


def chain(tables: int) -> Operator:
    plan: Operator = scan("t0", 1, 2)
    for n in range(1, tables):
        plan = Join(
            INNER,
            plan,
            scan(f"t{n}", 10 * n + 1, 10 * n + 2),
            equal(10 * (n - 1) + 2 if n > 1 else 2, 10 * n + 1),
        )
    return Filter(below(1, 2), plan)


def test_a_three_way_join_takes_four_predicates():
    data = {f"t{n}": viewed(spans(x=[(0, 3), (2, 6), (5, 9)], y=[(0, 3), (2, 6), (5, 9)])) for n in range(3)}
    assert len(prune(Query((chain(3),)), data, PATIENT).dips) == 4


def random_tree(random: Random, tables: int) -> tuple[Operator, dict[str, TableView]]:
    """A join tree of any shape, its joins in any order: single columns, at most as many blocks as make a difference."""
    columns = {n: [str(100 * n + 1 + k) for k in range(4)] for n in range(tables)}
    plan: Operator = scan("t0", *map(int, columns[0]))
    for n in range(1, tables):
        other = random.randrange(n)
        own = scan(f"t{n}", *map(int, columns[n]))
        plan = Join(INNER, plan, own, equal(random.choice(columns[other]), columns[n][0]))
    names = "xyzu"
    blocks = {f"t{n}": random_blocks(random, names, 8) or [[dict.fromkeys(names, 1)]] for n in range(tables)}
    plan = Filter(below(int(random.choice(columns[0])), random.randint(1, 6)), plan)
    return plan, {key: viewed(own, ranges=2) for key, own in blocks.items()}


@pytest.mark.parametrize("seed", range(60))
def test_on_trees_one_round_of_the_schedule_is_a_fixpoint_of_few_predicates(seed):
    random = Random(seed)
    tables = random.randint(2, 7)
    plan, views = random_tree(random, tables)
    one = prune(Query((plan,)), views, InducedOptions(seconds=60, rounds=1))
    naive = prune(Query((plan,)), views, InducedOptions(seconds=60, naive=True))
    assert left(one) == left(naive)
    assert len(one.dips) <= 2 * (tables - 1)
    assert {dip.round for dip in one.dips} <= {1}


# ---- Table 8: a cycle that takes an epoch for each value


def cycle(values: int) -> tuple[Query, dict[str, TableView]]:
    """r(a, c), s(a, b), t(b, c): each value that goes takes the next one with it, once round the cycle."""
    r, s, t = scan("r", 1, 2), scan("s", 11, 12), scan("t", 21, 22)
    plan = Join(
        INNER,
        Join(INNER, Filter(Comparison(Op.GE, column(1), Literal(1, INTEGER)), r), s, equal(1, 11)),
        t,
        And((equal(12, 21), equal(22, 2))),
    )
    pairs = [(n, n) for n in range(values)]
    shifted = [(n - 1, n - 1) for n in range(values)]
    views = {
        "r": viewed(spans(x=pairs, y=shifted)),
        "s": viewed(spans(x=pairs, y=pairs)),
        "t": viewed(spans(x=pairs, y=pairs)),
    }
    return Query((plan,)), views


def test_table_8_a_cycle_is_cut_short_by_kappa_and_emptied_by_patience():
    query, views = cycle(40)
    few = prune(query, views, InducedOptions(seconds=60, kappa=1))
    more = prune(query, views, InducedOptions(seconds=60, kappa=5))
    end = prune(query, views, InducedOptions(seconds=60, kappa=1000))
    naive = prune(query, views, InducedOptions(seconds=60, naive=True))
    assert len(left(few)["r"]) > len(left(more)["r"]) > len(left(end)["r"]) == 0
    assert left(end) == left(naive)
    assert len(more.dips) <= 3 * 6 * 5


# ---- TPC-DS query 35: Figures 7 and 26


def q35() -> Query:
    """Customers with a store sale in a year, and a web or catalog sale in it."""

    def sales(label: str, number: int) -> Operator:
        dates = Filter(below(number + 11, 0), scan(f"d {label}", number + 10, number + 11))
        return Join(INNER, scan(label, number, number + 1), dates, equal(number + 1, number + 10))

    customer = Join(INNER, scan("c", 1, 2), scan("ca", 5), equal(2, 5))
    plan = Join(LEFT_SEMI, customer, sales("ss", 100), equal(1, 100))
    for flag, label, number in (("e", "ws", 200), ("f", "cs", 300)):
        plan = Join(EXISTENCE, plan, sales(label, number), equal(1, number), exists=flag)
    return Query((Filter(Or((Column("e", BOOLEAN), Column("f", BOOLEAN))), plan),))


def test_query_35_unions_and_intersections_of_predicates_reach_the_customers():
    days = spans(x=[(10 * n, 10 * n + 9) for n in range(10)], y=[(n, n) for n in range(10)])
    views = {f"d {label}": viewed(days) for label in ("ss", "ws", "cs")}
    customers = {
        "ss": [(0, 70), (10, 90), (50, 99)],
        "ws": [(0, 20), (30, 40), (0, 99)],
        "cs": [(60, 65), (0, 99), (0, 99)],
    }
    for label, held in customers.items():
        views[label] = viewed(spans(x=held, y=[(0, 5), (20, 30), (40, 50)]))
    views["c"] = viewed(spans(x=[(10 * n, 10 * n + 9) for n in range(10)], y=[(n, n) for n in range(10)]))
    views["ca"] = viewed(spans(x=[(n, n) for n in range(10)]))
    found = left(prune(q35(), views, PATIENT))
    assert found["ss"] == found["ws"] == found["cs"] == [0]
    # Store sales reach to 70, the others together to 20 and from 60 to 65.
    assert found["c"] == [0, 1, 2, 6]
    assert found["ca"] == [0, 1, 2, 6]


def test_the_same_by_union_and_semi_join():
    def keys(key: str, number: int) -> Operator:
        return Aggregate(frozenset({str(number)}), scan(key, number))

    union = Union((keys("ws", 11), keys("cs", 21)), (column("u"),), ((column(11),), (column(21),)))
    either = Join(LEFT_SEMI, keys("ss", 31), union, equal(31, "u", Op.NULL_SAFE))
    plan = Join(LEFT_SEMI, scan("c", 1), either, equal(1, 31))
    views = {
        "ws": viewed(spans(x=[(0, 20)])),
        "cs": viewed(spans(x=[(60, 65)])),
        "ss": viewed(spans(x=[(0, 70)])),
        "c": viewed(spans(x=[(10 * n, 10 * n + 9) for n in range(10)])),
    }
    assert left(prune(Query((plan,)), views, PATIENT))["c"] == [0, 1, 2, 6]


# ---- JOB 1a: Figure 27


def test_join_order_benchmark_1a_goes_round_its_cycle():
    """ct - mc - t - mi_idx - it, and mc - mi_idx: it filters mi_idx, that mc and t."""
    mc, mi, t = scan("mc", 1, 2), scan("mi_idx", 11, 12), scan("t", 21)
    it, ct = Filter(below(32, 0), scan("it", 31, 32)), Filter(below(42, 0), scan("ct", 41, 42))
    plan: Operator = Join(INNER, mc, ct, equal(2, 41))
    plan = Join(INNER, plan, t, equal(1, 21))
    plan = Join(INNER, plan, Join(INNER, mi, it, equal(12, 31)), And((equal(11, 21), equal(11, 1))))
    wide = [(10 * n, 10 * n + 9) for n in range(10)]
    info = spans(x=wide, y=[(n % 5, n % 5) for n in range(10)])
    views = {
        "mc": viewed(spans(x=wide, y=[(0, 3)] * 10)),
        "mi_idx": viewed(info),
        "t": viewed(spans(x=wide)),
        "it": viewed(spans(x=[(n, n) for n in range(5)], y=[(n, n) for n in range(5)])),
        "ct": viewed(spans(x=[(n, n) for n in range(4)], y=[(n, n) for n in range(4)])),
    }
    found = left(prune(Query((plan,)), views, PATIENT))
    assert found == {"mc": [0, 5], "mi_idx": [0, 5], "t": [0, 5], "it": [0], "ct": [0]}


# ---- taint


def test_unknown_blocks_taint_their_column_and_still_receive():
    a = spans(x=[(0, 3), (0, 3)], y=[(0, 0), (5, 5)])
    b = spans(x=[(0, 3), (6, 9), (0, 9)], y=[(0, 3), (6, 9), (0, 9)])
    plan = Join(INNER, Filter(below(2, 5), scan("a", 1, 2)), scan("b", 11, 12), equal(1, 11))

    def kept(*unknown: bool, complete: bool = True) -> dict[str, list[int]]:
        views = {"a": viewed(a, unknown=unknown, complete=complete), "b": viewed(b, unknown=[False, False, True])}
        return left(prune(Query((plan,)), views, PATIENT))

    assert kept(False, False)["b"] == [0, 2]
    assert kept(True, False)["b"] == [0, 1, 2]
    assert kept(False, False, complete=False)["b"] == [0, 1, 2]
    back = Join(INNER, scan("a", 1, 2), Filter(between(12, 6, 9), scan("b", 11, 12)), equal(1, 11))
    views = {"a": viewed(a, complete=False), "b": viewed(b[:2])}
    assert left(prune(Query((back,)), views, PATIENT))["a"] == []


def test_a_table_without_any_synopsis_passes_on_what_it_is_asked_for():
    plan = Join(
        INNER,
        Join(INNER, scan("a", 1), scan("unknown", 11), equal(1, 11)),
        scan("c", 21),
        equal(11, 21),
    )
    views = {"a": viewed(spans(x=[(0, 3)])), "c": viewed(spans(x=[(0, 3), (6, 9)]))}
    assert left(prune(Query((plan,)), views, PATIENT))["c"] == [0]


# ---- bad input


def test_a_contradiction_empties_everything_that_is_joined_inwards():
    a, b, c = scan("a", 1, 2), scan("b", 11), scan("c", 21)
    views = {key: viewed(spans(x=[(0, 9)], y=[(0, 9)])) for key in "abc"}
    nothing = Filter(between(2, 50, 60), a)
    plan = Join(CROSS, Join(INNER, nothing, b, equal(1, 11)), c)
    assert left(prune(Query((plan,)), views, PATIENT)) == {"a": [], "b": [], "c": []}
    outer = Join(LEFT_OUTER, c, Join(INNER, nothing, b, equal(1, 11)), equal(21, 11))
    assert left(prune(Query((outer,)), views, PATIENT)) == {"a": [], "b": [], "c": [0]}


def test_an_empty_table_empties_its_partners():
    plan = Join(INNER, scan("a", 1), scan("b", 11), equal(1, 11))
    views = {"a": viewed([]), "b": viewed(spans(x=[(0, 9)]))}
    assert left(prune(Query((plan,)), views, PATIENT)) == {"a": [], "b": []}
    half_known = {"a": viewed([], complete=False), "b": views["b"]}
    assert left(prune(Query((plan,)), half_known, PATIENT))["b"] == [0]


def test_joins_without_an_equality_are_left_alone():
    views = {key: viewed(spans(x=[(0, 3), (6, 9)])) for key in "ab"}
    found = prune(Query((Join(CROSS, scan("a", 1), scan("b", 11)),)), views, PATIENT)
    assert found.dips == ()
    assert left(found) == {"a": [0, 1], "b": [0, 1]}


def test_one_table_ten_times():
    lines = viewed(spans(x=[(10 * n, 10 * n + 9) for n in range(100)], y=[(n, n) for n in range(100)]))
    plan: Operator = Filter(below(2, 0), scan("t0", 1, 2))
    for n in range(1, 10):
        plan = Join(INNER, plan, scan(f"t{n}", 10 * n + 1, 10 * n + 2), equal(1, 10 * n + 1))
    found = prune(Query((plan,)), {f"t{n}": lines for n in range(10)}, PATIENT)
    assert all(blocks == [0] for blocks in left(found).values())
    assert len(found.dips) == 18


def test_thirty_tables_are_quick():
    blocks = viewed(spans(x=[(10 * n, 10 * n + 9) for n in range(200)], y=[(n, n) for n in range(200)]))
    views = {f"t{n}": blocks for n in range(1, 30)}
    hub = spans(
        **{name: [(10 * n, 10 * n + 40) for n in range(200)] for name in "abcdefghijklmnopqrstuvwxyzABCDEFGHI"[:29]}
    )
    views["t0"] = viewed(hub)
    query = Query((star(29),))
    prune(query, views, PATIENT)
    began = process_time()
    found = prune(query, views, PATIENT)
    assert process_time() - began < 0.5
    assert len(left(found)["t0"]) < 20


def test_a_scan_read_at_two_places_keeps_what_either_needs():
    a, b = scan("a", 1, 2), scan("b", 11, 12)
    join = Join(INNER, Filter(below(2, 0), a), b, equal(1, 11))
    data = spans(x=[(0, 3), (6, 9)], y=[(0, 3), (6, 9)])
    copy = Filter(below(11, 9), b)
    found = prune(Query((join, copy)), {"a": viewed(data), "b": viewed(data)}, PATIENT)
    assert left(found) == {"a": [0], "b": [0, 1]}
    assert "b" not in found.bounds


def test_no_time_derives_nothing_and_says_so():
    plan = Join(INNER, Filter(below(2, 0), scan("a", 1, 2)), scan("b", 11), equal(1, 11))
    data = spans(x=[(0, 3), (6, 9)], y=[(0, 3), (6, 9)])
    views = {"a": viewed(data), "b": viewed(data)}
    found = prune(Query((plan,)), views, InducedOptions(seconds=0))
    assert found.stages["induced"].stopped
    assert left(found) == {"a": [0], "b": [0, 1]}
    off = prune(Query((plan,)), views, off=["induced"])
    assert (left(off), off.dips, off.stages["induced"].stopped) == (left(found), (), False)


@pytest.mark.parametrize("collects", [True, False], ids=["a collection", "work"])
def test_time_that_goes_to_the_collector_of_garbage_does_not_count(monkeypatch, collects):
    clock = {"now": 0.0}

    def slowly(*arguments):
        clock["now"] += 1.0
        if collects:
            gc.collect()
        return compact(*arguments)

    monkeypatch.setattr(exchange, "thread_time", lambda: clock["now"])
    monkeypatch.setattr(exchange, "compact", slowly)
    plan = Join(INNER, Filter(below(2, 0), scan("a", 1, 2)), scan("b", 11), equal(1, 11))
    plan = Join(INNER, plan, scan("c", 21), equal(11, 21))
    data = spans(x=[(0, 3), (6, 9)], y=[(0, 3), (6, 9)])
    views = {"a": viewed(data), "b": viewed(data), "c": viewed(data)}
    gc.disable()  # none but those of this test
    try:
        found = prune(Query((plan,)), views, InducedOptions(seconds=0.05))
    finally:
        gc.enable()
    assert found.stages["induced"].stopped is not collects
    assert (left(found)["c"] == [0]) is collects


def test_the_report_tells_what_each_predicate_did():
    plan = Join(LEFT_OUTER, Filter(below(2, 0), scan("a", 1, 2)), scan("b", 11), equal(1, 11))
    data = spans(x=[(0, 3), (6, 9)], y=[(0, 3), (6, 9)])
    found = prune(Query((plan,)), {"a": viewed(data), "b": viewed(data)}, PATIENT)
    (edge,), (dip,) = found.edges, found.dips
    assert (edge.text, edge.to_right, edge.to_left) == ("x = x", True, False)
    assert (dip.origin, dip.target, dip.round, dip.step, dip.removed, dip.count) == (0, 1, 1, 2, 1, 1)
    assert [(node.label, node.blocks, node.static, node.kept) for node in found.nodes] == [
        ("a", 2, 1, 1),
        ("b", 2, 2, 1),
    ]
    (bound,) = found.bounds["b"]
    (interval,) = bound.within(4).intervals
    assert (interval.low, interval.high, bound.nulls) == (0, 3, False)


def test_a_predicate_has_as_many_ranges_as_allowed():
    plan = Join(INNER, scan("a", 1), scan("b", 11), equal(1, 11))
    a = spans(x=[(10 * n, 10 * n + 1) for n in range(30)])
    b = spans(x=[(n, n) for n in range(300)])
    for most in (1, 5, 20, 30):
        found = prune(Query((plan,)), {"a": viewed(a), "b": viewed(b)}, InducedOptions(seconds=60, max_ranges=most))
        sent = next(dip for dip in found.dips if dip.target == 1)
        assert (sent.full_count, sent.count) == (30, most)
    assert len(left(found)["b"]) == 60


def test_options_are_checked():
    with pytest.raises(SidestepError, match="max_ranges must be a number of at least 1"):
        InducedOptions(max_ranges=0)
