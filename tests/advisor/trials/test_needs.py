"""What queries need of a sample's values: the conditions on a column say it, whatever else a query asks for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sidestep.advisor.trials.needs import needs_of
from sidestep.advisor.trials.sample import sample_of
from sidestep.predicate import INTEGER, Formula, Predicate, all_of, column, compare, is_null, normalize
from sidestep.predicate.formula import any_of
from sidestep.predicate.oracle import evaluate

NAMES = "abc"
VALUES = range(6)
atoms = st.one_of(
    st.builds(
        lambda name, op, value: compare(column(name, INTEGER), op, value),
        st.sampled_from(NAMES),
        st.sampled_from(["=", "<", ">=", "<>"]),
        st.integers(-1, 6),
    ),
    st.builds(lambda name: is_null(column(name, INTEGER)), st.sampled_from(NAMES)),
)


def formula_of(clauses: list[list[Predicate]]) -> Formula:
    return all_of(any_of(normalize(one) for one in clause) for clause in clauses)


@given(st.lists(st.lists(atoms, min_size=1, max_size=2), min_size=1, max_size=4))
def test_values_that_a_query_wants_are_among_those_it_needs(clauses: list[list[Predicate]]) -> None:
    query = formula_of(clauses)
    table = pa.table({name: [*VALUES, None] for name in NAMES})
    sample = sample_of(table, dict.fromkeys(NAMES, INTEGER), len(table))
    needs = needs_of(sample, [query], np.ones(1), np.zeros((0, 1), np.bool_))
    rows = [dict(zip(NAMES, row, strict=True)) for row in np.ndindex(6, 6, 6)]
    wanted = [row for row in rows if all(any(evaluate(one, row) is True for one in clause) for clause in clauses)]
    for name, (_, bits) in needs.sets.items():
        assert {row[name] for row in wanted} <= set(np.flatnonzero(bits[0]).tolist())


def test_conditions_on_a_column_are_taken_together_and_others_left_aside() -> None:
    table = pa.table({name: list(VALUES) for name in NAMES})
    sample = sample_of(table, dict.fromkeys(NAMES, INTEGER), len(table))
    a, b = (column(name, INTEGER) for name in "ab")
    both = [compare(a, ">=", 2), compare(a, "<", 4)]
    queries = [formula_of([[one] for one in (*both, compare(b, "=", value))]) for value in VALUES]
    needs = needs_of(sample, queries, np.ones(len(queries)), np.zeros((0, len(queries)), np.bool_))
    assert needs.sets["a"][1].tolist() == [[False, False, True, True, False, False]] * len(queries)
    assert needs.sets["b"][1].tolist() == np.eye(6, dtype=bool).tolist()
