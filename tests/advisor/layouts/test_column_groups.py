"""Which columns lie together, chosen on a sample: groups for queries in conflict, one group where they agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from sidestep.advisor.layouts.choose import Judges
from sidestep.advisor.layouts.column_groups import ColumnStudy, choose_groups, judge_groups
from sidestep.advisor.trials.column_queries import column_workload
from sidestep.advisor.trials.sample import sample_of
from sidestep.errors import SidestepError
from sidestep.layout.vectors import pack
from sidestep.predicate import INTEGER, Predicate, all_of, between, column, compare, normalize, one_of
from sidestep.workload import Feature, LoggedQuery, TableUse, Workload

A, B = column("a", INTEGER), column("b", INTEGER)
FEATURES = (Feature((compare(A, "<", 10),)), Feature((compare(B, "=", 3),)))
RANGES = [([between(A, low, low + 9)], ["a", "c"]) for low in range(0, 300, 30)]
LISTS = [([one_of(B, [value, value + 1])], ["b", "d"]) for value in range(0, 19, 2)]


def study(
    queries: Iterable[tuple[Sequence[Predicate], Sequence[str]]], columns: Sequence[str] = "abcde", rows: int = 900
) -> ColumnStudy:
    """Queries as (predicates, columns) on a table of random numbers, of which only a and b are ever filtered."""
    draw = np.random.default_rng(0)
    table = pa.table({"a": draw.integers(0, 300, rows), "b": draw.integers(0, 20, rows)})
    bits = np.column_stack([table["a"].to_numpy() < 10, table["b"].to_numpy() == 3])
    uses = (TableUse("t", frozenset(made), frozenset(read)) for made, read in queries)
    workload = column_workload(
        Workload(tuple(LoggedQuery((use,)) for use in uses)), "t", columns, [one.formula for one in FEATURES]
    )
    sample = sample_of(table, {"a": INTEGER, "b": INTEGER}, rows)
    return ColumnStudy("t", workload, FEATURES, sample, pack(bits), 1_000, 30_000)


def test_queries_in_conflict_get_groups_of_their_own() -> None:
    chosen = choose_groups(study([*RANGES, *LISTS]))
    assert {group.columns for group in chosen.groups} == {("a", "c"), ("b", "d"), ("e",)}
    assert chosen.cost < chosen.together
    assert chosen.filtered == ("a", "b")
    by_columns = {group.columns: group.layout for group in chosen.groups}
    assert by_columns["a", "c"].tree is not None, "ranges are cut"
    assert by_columns["e",].tree is None, "what no query reads is left in one piece"
    for layout in by_columns.values():
        assert layout.demands.features == len(layout.features)
    assert "3 column groups" in chosen.summary


@pytest.mark.parametrize(
    "queries", [RANGES, [([], ["a", "b"]), ([], ["c", "d"])], []], ids=["one kind", "no filter", "no query"]
)
def test_where_queries_agree_there_is_one_group(queries: list[tuple[list[Predicate], list[str]]]) -> None:
    chosen = choose_groups(study(queries))
    assert [group.columns for group in chosen.groups] == [tuple("abcde")]
    assert "All columns are in one group" in chosen.summary


def test_a_wide_table_is_divided_and_time_is_limited() -> None:
    names = ["a", "b", *(f"c{number}" for number in range(448))]
    draw = np.random.default_rng(1)
    wide = [
        (made, [read[0], *draw.choice(names[at : at + 200], 8, replace=False).tolist()])
        for queries, at in ((RANGES, 2), (LISTS, 220))
        for made, read in queries
    ]
    chosen = choose_groups(study(wide, names), seconds=0.0)
    assert sorted(name for group in chosen.groups for name in group.columns) == sorted(names)
    assert len(chosen.groups) > 1


def judges(queries: Iterable[tuple[Sequence[Predicate], Sequence[str]]]) -> Judges:
    made = list(queries)
    return Judges(
        [all_of(normalize(part) for part in predicates) for predicates, _ in made],
        np.ones(len(made)),
        "later ones",
        [frozenset(read) for _, read in made],
    )


def test_groups_that_are_given_are_kept_and_the_rest_is_one_more() -> None:
    chosen = choose_groups(study([*RANGES, *LISTS]), given=[["c"], ["b", "a"]])
    assert [group.columns for group in chosen.groups] == [("a", "b"), ("c",), ("d", "e")]
    for wrong, said in (([["x"]], "no column x"), ([["a"], ["a", "b"]], "a is in two"), ([[]], "one is empty")):
        with pytest.raises(SidestepError, match=said):
            choose_groups(study(RANGES), given=wrong)


def test_what_is_judged_is_what_later_queries_read_row_ids_and_joins_included() -> None:
    made = study([*RANGES, *LISTS], rows=4_000)
    later = judges([([between(A, 45, 54)], ["a", "c"]), ([one_of(B, [7, 8])], ["b", "d"])])
    widths = dict.fromkeys("abcde", 8.0)
    apart, together, split = (
        judge_groups(made, choose_groups(made, given=given), later, widths, 10_000.0)
        for given in ([["a", "c"], ["b", "d"]], [list("abcde")], [["a"], ["b"], ["c"], ["d"]])
    )
    assert apart.rows < 0.75 * together.rows, "each group is arranged for its own queries"
    assert apart.bytes == pytest.approx(apart.rows), "one group needs no row ids"
    assert split.bytes == pytest.approx(2 * split.rows), "an id is as wide as a value"
    assert split.seconds > apart.seconds
    assert "2.0 for a query" in split.detail
    assert judge_groups(made, choose_groups(made), judges([([], ["a", "b"])]), widths, 10_000.0).rows == 1.0


def test_a_table_of_one_column_has_one_group() -> None:
    chosen = choose_groups(study([([between(A, 0, 9)], ["a"])], "a"))
    assert [group.columns for group in chosen.groups] == [("a",)]
