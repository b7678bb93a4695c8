"""Static pruning: which of a query's own predicates must hold for the rows that a scan contributes.

A row that a scan emits and that fails such a predicate cannot reach the result, so a block without a row that satisfies
all of them need not be read. Spark has already pushed filters down as far as it can; what is left is to collect them,
and to know where collecting must stop: :class:`~sidestep.prune.plan.algebra.JoinType` says it for joins.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidestep.predicate import Predicate, conjuncts
from sidestep.predicate.columns import columns_of, rename
from sidestep.prune.plan.algebra import (
    Filter,
    Join,
    Operator,
    Project,
    Query,
    Scan,
    Sides,
    children,
    is_parameter,
    is_sample,
)


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """A scan and the predicates, in the table's own column names, that its rows must satisfy to matter."""

    scan: Scan
    conjuncts: tuple[Predicate, ...] = ()
    late: tuple[Predicate, ...] = ()
    """Predicates that speak of constants which are known only when the query runs."""
    blocked: str | None = None
    """Why nothing may be skipped here although the scan could be pruned."""


Known = tuple[tuple[Predicate, frozenset[str]], ...]
"""Predicates that must hold, each with the numbers of the columns it is about."""


def scan_filters(query: Query) -> list[ScanFilter]:
    """One entry per occurrence of a scan in the query and its subqueries, in plan order."""
    places: list[ScanFilter] = []
    for plan in query.plans:
        _visit(plan, (), None, places)
    return places


def _visit(operator: Operator, known: Known, blocked: str | None, places: list[ScanFilter]) -> None:
    if isinstance(operator, Scan):
        places.append(ScanFilter(operator, blocked=blocked) if blocked else _about(operator, known))
        return
    if operator.random and blocked is None:
        blocked = (
            "the query uses a random or position-dependent function, whose result would change with the files read"
        )
    match operator:
        case Filter(condition=condition, child=child):
            _visit(child, (*known, *_conjuncts(condition)), blocked, places)
        case Project(child=child):
            _visit(child, known, blocked, places)
        case Join(type=kind, left=left, right=right, condition=condition):
            own = _conjuncts(condition) if condition is not None else ()
            for side, child in ((Sides.LEFT, left), (Sides.RIGHT, right)):
                above = known if side in kind.above_holds else ()
                _visit(child, (*above, *own) if side in kind.condition_holds else above, blocked, places)
        case _:
            if is_sample(operator) and blocked is None:
                blocked = "it is sampled, and a sample depends on the files read"
            for child in children(operator):
                _visit(child, (), blocked, places)


def _conjuncts(condition: Predicate) -> Known:
    return tuple((part, frozenset(column.name for column in columns_of(part))) for part in conjuncts(condition))


def _about(scan: Scan, known: Known) -> ScanFilter:
    """Those predicates that speak of this scan's columns alone, and of constants, in the table's own names."""
    names = dict(scan.columns)
    mine: dict[Predicate, None] = {}
    late: dict[Predicate, None] = {}
    for predicate, columns in known:
        if not columns:
            continue
        if columns <= names.keys():
            mine[predicate] = None
        elif any(map(is_parameter, columns)):
            own = {name for name in columns if not is_parameter(name)}
            if own and own <= names.keys():
                late[predicate] = None
    constants = {column.name: column for each in late for column in columns_of(each) if is_parameter(column.name)}
    return ScanFilter(
        scan,
        tuple(rename(each, names) for each in mine),
        tuple(rename(each, {**names, **constants}) for each in late),
    )
