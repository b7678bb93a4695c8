"""A query's filter as the thesis wants it: a set of conjunctive predicates (3.3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sidestep.predicate import (
    FALSE,
    HOLDS_ALWAYS,
    HOLDS_NEVER,
    TRUE,
    And,
    Column,
    Comparison,
    Formula,
    In,
    Interval,
    IntervalSet,
    IsNull,
    Literal,
    Not,
    Op,
    Or,
    Predicate,
    Within,
    all_of,
    conjuncts,
    implies,
    unsatisfiable,
)
from sidestep.predicate.formula import necessary_ranges
from sidestep.predicate.nodes import flatten
from sidestep.workload.canonical import canonical, column_set, formula_of, is_repeatable, key, range_predicates

DEEPEST = 60
"""Changes between AND, OR and NOT, one inside the other, up to which a predicate is looked into."""


@dataclass(frozen=True, slots=True)
class FactoredFilter:
    """A filter as a conjunction, each part in its canonical form."""

    predicates: frozenset[Predicate]
    empty: bool = False
    """Whether no row can satisfy it (``a > 5 AND a < 3``): such a query reads nothing, whatever the layout."""


def factor(predicates: Iterable[Predicate]) -> FactoredFilter:
    """The conjunction of the predicates as separate conjuncts: as many and as simple as can be had.

    Contract: the conjunction of the result is TRUE for the same rows as that of the input, whatever the order. Nested
    ANDs are opened. An OR gives up what all its branches share, and for each column that every branch restricts, the
    values that some branch allows; what is then left of it stays as one more conjunct. So TPC-H's q19, three
    alternatives of brand, container, quantity and size, gives ``p_container IN (…)`` and ``p_size <= 15``, which are
    the same in every q19 whatever its parameters, and are features where the whole OR never is. Conjuncts on one
    column stay apart, as they are the items that are counted. IS NOT NULL goes where another conjunct implies it. A
    predicate nested deeper than :data:`DEEPEST` is left out: the filter then says less, and no feature is taken to
    subsume it wrongly.

    >>> from sidestep.predicate import INTEGER, column, compare, conjunction, disjunction, sql
    >>> a, b = column("a", INTEGER), column("b", INTEGER)
    >>> left = conjunction(compare(a, "=", 1), compare(b, "<", 3))
    >>> right = conjunction(compare(b, "<", 9), compare(a, "=", 1))
    >>> sorted(sql(p) for p in factor([disjunction(left, right)]).predicates)
    ['a = 1', 'b <= 8']
    """
    parts = list(conjuncts(canonical(And(tuple(p for p in predicates if _depth(p) <= DEEPEST)))))
    while True:
        simpler = _parts(canonical(And(tuple(_without_dead_branches(parts)))))
        if set(simpler) == set(parts):
            break
        parts = simpler
    formulas = {part: formula_of(part) for part in parts}
    kept = [part for part in parts if formulas[part] != HOLDS_ALWAYS]
    whole = all_of(formulas[part] for part in kept)
    if whole == HOLDS_NEVER or unsatisfiable(whole):
        return FactoredFilter(frozenset(kept), empty=True)
    return FactoredFilter(frozenset(_without_implied_presence(kept, formulas)))


def _depth(predicate: Predicate) -> int:
    """How deeply connectives of different kinds are nested; a loop, since recursion would fail on deep ones."""
    deepest = 0
    pending: list[tuple[Predicate, type, int]] = [(predicate, And, 0)]
    while pending:
        part, kind, depth = pending.pop()
        deepest = max(deepest, depth)
        if isinstance(part, And | Or):
            inner = depth + (not isinstance(part, kind))
            pending.extend((child, type(part), inner) for child in part.children)
        elif isinstance(part, Not):
            pending.append((part.child, Not, depth + 1))
    return deepest


def _without_dead_branches(parts: list[Predicate]) -> list[Predicate]:
    """The parts with each OR freed of the branches that the other parts rule out: ``a = 1`` ends ``a = 2 OR b > 0``."""
    choices = sum(isinstance(part, Or) for part in parts)
    if choices in (0, len(parts)):
        return parts
    context = all_of(formula_of(part) for part in parts if not isinstance(part, Or))
    kept = []
    for part in parts:
        if isinstance(part, Or):
            alive = [way for way in part.children if all_of([context, formula_of(way)]) != HOLDS_NEVER]
            part = Or(tuple(alive)) if len(alive) < len(part.children) else part
        kept.append(part)
    return kept


def _parts(predicate: Predicate) -> list[Predicate]:
    """The conjuncts of a canonical predicate, ORs factored."""
    parts: list[Predicate] = []
    for part in conjuncts(predicate):
        parts += _factor_or(part) if isinstance(part, Or) else [part]
    return parts


def _factor_or(disjunction: Or) -> list[Predicate]:
    branches = [_parts(branch) for branch in flatten(Or, disjunction)]
    branches = [branch for branch in branches if all_of(map(formula_of, branch)) != HOLDS_NEVER]
    if not branches:
        return [FALSE]
    counted = Counter(part for branch in branches for part in set(branch))
    common = [part for part, count in counted.items() if count == len(branches) and is_repeatable(part)]
    shared = set(common)
    rests = [[part for part in branch if part not in shared] for branch in branches]
    if not all(rests):
        return common
    left = canonical(Or(tuple(And(tuple(rest)) for rest in rests)))
    if not isinstance(left, Or):
        return common + (list(conjuncts(left)) if left != TRUE else [])
    formula = formula_of(left)
    if isinstance(formula, Within):
        return common + _on_one_column(left, formula)
    bounds = [
        bound
        for column, ranges in necessary_ranges(formula).items()
        if not ranges.is_full
        for bound in _column_bounds(column, ranges, rests)
    ]
    return [*common, *bounds, left]


def _column_bounds(column: Column, ranges: IntervalSet, branches: list[list[Predicate]]) -> list[Predicate]:
    """What the branches of an OR together say of one column: a list if each names values, else ranges.

    Ranges with gaps are given their outer ends as conjuncts too: the gaps come from where the parameters of one query
    happen to lie, while the ends recur.
    """
    if all(any(_names_values(part, column) for part in branch) for branch in branches):
        values = ranges.values()
        if values is not None:
            return [canonical(In(column, tuple(Literal(value, column.type) for value in values)))]
    bounds = list(range_predicates(column, ranges))
    first, last = ranges.intervals[0], ranges.intervals[-1]
    if len(ranges.intervals) > 1 and (first.low is not None or last.high is not None):
        hull = Interval(first.low, last.high, first.low_closed, last.high_closed)
        bounds += range_predicates(column, IntervalSet(column.type, (hull,)))
    return bounds


def _names_values(predicate: Predicate, column: Column) -> bool:
    match predicate:
        case In(operand=operand) | Comparison(op=Op.EQ, left=operand, right=Literal()):
            return operand == column
    return False


def _on_one_column(disjunction: Or, formula: Within) -> list[Predicate]:
    """An OR that is about one column alone: its own words if they are plain, else its ranges."""
    plain = not any(isinstance(branch, And) for branch in disjunction.children)
    if plain and len(formula.ranges.intervals) > 1:
        return [disjunction]
    return list(range_predicates(formula.column, formula.ranges))


def _without_implied_presence(parts: list[Predicate], formulas: dict[Predicate, Formula]) -> list[Predicate]:
    """The parts without each IS NOT NULL that Catalyst inferred from another part."""
    kept = sorted(parts, key=key)
    for part in tuple(kept):
        if isinstance(part, Not) and isinstance(part.child, IsNull):
            about = column_set(part)
            others = [p for p in kept if p is not part and about <= column_set(p)]
            if any(implies(formulas[other], formulas[part]) for other in others):
                kept.remove(part)
    return kept
