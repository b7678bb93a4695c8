"""The later queries of a log: layouts are made from those before them, and judged by these."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from sidestep.advisor.layouts.choose import FEWEST_HELD_OUT, HELD_OUT, LAST, MOST_QUERIES, OWN, Judges
from sidestep.advisor.trials.sample import SEED
from sidestep.predicate import Formula, all_of
from sidestep.workload import TableWorkload, Workload, table_workload
from sidestep.workload.canonical import formula_of, key
from sidestep.workload.features.extract import Weights
from sidestep.workload.table import split_by_time, weights_within


@dataclass(frozen=True, slots=True)
class Judged:
    """A query by which layouts are judged."""

    formula: Formula
    columns: frozenset[str]
    weight: int


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A log in two parts; where there is too little for that, each part is all of it."""

    early: Workload
    past: Weights
    """How many scans of the early part have each filter of the table's workload."""
    judges: Judges


def hold_out(workload: Workload, table: TableWorkload, later: Workload | None = None) -> HeldOut:
    """The queries that layouts of a table are made from, and those that judge them: of a later log, if there is one."""
    if later is not None:
        return HeldOut(workload, table.weights, judges_of(later, table.table, "those of the test log"))
    early, late = split_by_time(workload, table.table, HELD_OUT)
    if table.total * HELD_OUT >= FEWEST_HELD_OUT and early.queries and late.queries:
        past = weights_within(table, table_workload(early, table.table))
        if past.any():
            return HeldOut(early, past, judges_of(late, table.table, LAST))
    return HeldOut(workload, table.weights, judges_of(workload, table.table, OWN))


def judges_of(workload: Workload, table: str, text: str, most: int = MOST_QUERIES) -> Judges:
    """The queries of a workload as judges, the most frequent ones."""
    judged = judged_queries(workload, table, most)
    return Judges(
        [one.formula for one in judged],
        np.array([one.weight for one in judged], np.float64),
        text,
        [one.columns for one in judged],
    )


def judged_queries(workload: Workload, table: str, most: int = MOST_QUERIES) -> list[Judged]:
    """The distinct scans of a table that a workload has: those of most queries, and of equally many any."""
    counts: Counter[tuple[Formula, frozenset[str]]] = Counter()
    for query in workload.queries:
        for use in query.uses:
            if use.table == table:
                # A set has no order, but the parts of a formula do: equal filters are to be one.
                formula = all_of(formula_of(predicate) for predicate in sorted(use.predicates, key=key))
                counts[formula, use.columns] += query.count
    distinct = list(counts)
    mixed = [distinct[at] for at in np.random.default_rng(SEED).permutation(len(distinct))]
    heaviest = sorted(mixed, key=lambda one: -counts[one])[:most]
    return [Judged(formula, columns, counts[formula, columns]) for formula, columns in heaviest]
