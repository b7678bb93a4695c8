"""What queries ask of column groups: the columns that they read, and the ways in which features let them skip.

A list of values that never recurs is implied by no feature of the log; but if each of its values is a feature, those
that a block lacks rule it out together. So values of lists become features too (:func:`list_features`), and a filter is
taken apart as it is when a query runs (:mod:`sidestep.synopsis.features.branches`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload, Part, Way, Ways
from sidestep.predicate import (
    All,
    Any,
    Column,
    Comparison,
    Formula,
    Literal,
    Op,
    Predicate,
    Within,
    all_of,
    conjunction,
    unsatisfiable,
)
from sidestep.predicate.intervals import Interval
from sidestep.synopsis.features.branches import divide
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.workload import Feature, TableWorkload, Workload, augment, table_workload
from sidestep.workload.canonical import formula_of, key
from sidestep.workload.features.eligible import compares_date, is_negation
from sidestep.workload.features.extract import feature_set_of
from sidestep.workload.features.selection import candidate_sets, threshold_at

MOST_VALUES = 200
"""Features that are made of the values of one column's lists: those that most queries ask for."""
MOST_PARTS = 64
"""Parts that a filter falls into at most."""
MOST_MINED, MOST_LISTED = 100, 100
"""Features that groups choose theirs from: of those that the log has in common, and of values of lists."""
LISTED_SHARE = 0.01
"""The least share of queries that ask for a value of a list, if it is to be a feature."""


def column_features(workload: Workload, table: str) -> list[Feature]:
    """The features that column groups choose theirs from, each once: what filters have in common, values of lists."""
    of_log = table_workload(workload, table)
    if not of_log.total:
        return []
    augmented = augment(of_log)
    mined = feature_set_of(augmented, candidate_sets(augmented), of_log.weights).features
    listed = list_features(of_log, threshold_at(LISTED_SHARE, of_log.total))
    chosen = [
        *sorted(mined, key=lambda feature: -feature.weight)[:MOST_MINED],
        *sorted(listed, key=lambda feature: -feature.weight)[:MOST_LISTED],
    ]
    return list({feature.formula: feature for feature in chosen}.values())


def list_features(table: TableWorkload, threshold: int) -> list[Feature]:
    """The values of lists that at least ``threshold`` queries ask for, as features of their own, by column.

    Values that stand side by side are told apart, as each list has others; ranges such as the prefixes of a pattern
    are taken as they are. Lists that name what is left out are none, and dates are left to the order of rows.
    """
    asked: dict[Column, Counter[Interval]] = {}
    for at, item in enumerate(table.items):
        formula = item.formula
        if isinstance(formula, Within) and not (is_negation(formula) or compares_date(formula)):
            values = formula.ranges.values(MOST_VALUES)
            pieces = formula.ranges.intervals if values is None else [Interval(value, value) for value in values]
            if len(pieces) > 1 and (values is None or len(formula.ranges.intervals) > 1):
                weight = sum(int(w) for used, w in zip(table.filters, table.weights, strict=True) if at in used)
                for piece in pieces:
                    asked.setdefault(formula.column, Counter())[piece] += weight
    return [
        Feature(tuple(_predicates(column, piece)), weight)
        for column, counted in sorted(asked.items(), key=lambda pair: pair[0].name)
        for piece, weight in counted.most_common(MOST_VALUES)
        if weight >= threshold
    ]


def column_workload(
    workload: Workload, table: str, columns: Sequence[str], features: Sequence[Formula]
) -> ColumnWorkload:
    """The queries of a log on one table: those without a filter too, as they read all rows of their columns.

    Each filter's key is its formula. Queries that no row can satisfy read nothing, whatever the groups.
    """
    known = frozenset(columns)
    counted: Counter[tuple[Formula, frozenset[str]]] = Counter()
    for query in workload.queries:
        for use in query.uses:
            if use.table == table:
                # A set has no order, but the parts of a formula do: equal filters are to be one.
                formula = all_of(formula_of(predicate) for predicate in sorted(use.predicates, key=key))
                counted[formula, use.columns & known] += query.count
    ways = FilterWays(features)
    return ColumnWorkload.of(
        columns,
        len(features),
        (
            ColumnQuery(read, ways.of(formula), float(weight), formula)
            for (formula, read), weight in counted.items()
            if not unsatisfiable(formula)
        ),
    )


class FilterWays:
    """The ways in which features let filters skip blocks."""

    def __init__(self, features: Sequence[Formula]) -> None:
        words = np.zeros((-(-len(features) // 64), 0), np.uint64)
        self._vectors = UnionVectors(tuple(features), words, np.zeros(0, np.bool_))

    def of(self, formula: Formula) -> Ways:
        """All ways of a filter: as a whole, and by the parts of each of its choices.

        Contract: wherever the filter holds, at least one part of each way does, and all features of that part: so a
        block is skipped rightly if in some way every part lacks a feature. A way of which some part has no feature can
        never skip, and is left out.
        """
        found: dict[Way, None] = {}
        for parts in self._divisions(formula):
            way = tuple(dict.fromkeys(self._features(part) for part in parts))
            if all(way):
                found[way] = None
        return tuple(found)

    def _divisions(self, formula: Formula) -> Iterator[Sequence[Formula]]:
        yield (formula,)
        children = formula.children if isinstance(formula, All) else (formula,)
        for at, child in enumerate(children):
            parts: Sequence[Formula] = ()
            if isinstance(child, Any):
                parts = child.children
            elif isinstance(child, Within):
                parts = divide([self._vectors], child, MOST_PARTS)
            if 1 < len(parts) <= MOST_PARTS:
                others = children[:at] + children[at + 1 :]
                yield [all_of([part, *others]) for part in parts]

    def _features(self, part: Formula) -> Part:
        return self._vectors.answering(part)


def _predicates(column: Column, interval: Interval) -> Iterable[Predicate]:
    if interval.is_point and interval.low is not None:
        return [Comparison(Op.EQ, column, Literal(interval.low, column.type))]
    bounds: list[Predicate] = []
    if interval.low is not None:
        bounds.append(Comparison(Op.GE if interval.low_closed else Op.GT, column, Literal(interval.low, column.type)))
    if interval.high is not None:
        bounds.append(Comparison(Op.LE if interval.high_closed else Op.LT, column, Literal(interval.high, column.type)))
    return [conjunction(*bounds)]
