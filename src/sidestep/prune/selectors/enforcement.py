"""Selectors in a plan that moves rows between processes: section 3 of the paper.

A selector tells its scan what to read through memory that they share, so no :class:`Motion` may lie between either of
them and the operator where their ways meet (Figure 12). The plans of a join are enumerated as an optimizer with
properties does it: an input is *asked* for a distribution and for selectors, and either has them or gets them on top,
as a motion or as a selector; which of the two goes on top matters, and some orders are prohibited. The cheapest of the
plans that are left is taken (Figure 14).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from sidestep.predicate import Column, Comparison, Op, conjuncts
from sidestep.prune.plan.algebra import (
    DynamicScan,
    Join,
    Motion,
    Operator,
    PartitionSelector,
    Scan,
    Sides,
    children,
    walk,
    with_children,
)
from sidestep.prune.plan.algebra import Sequence as InSequence
from sidestep.prune.selectors.placement import (
    PartSelectorSpec,
    enforce,
    has_part_scan_id,
    output,
    push,
)


def separated(plan: Operator) -> frozenset[str]:
    """The part scan ids whose selector and scan have a motion between them and where their ways meet."""
    apart: set[str] = set()

    def visit(operator: Operator) -> dict[tuple[str, bool], bool]:
        """For each selector (True) or scan (False) below: whether a motion is on the way up to here."""
        below: list[dict[tuple[str, bool], bool]] = [visit(child) for child in children(operator)]
        own: dict[tuple[str, bool], bool] = {}
        if isinstance(operator, PartitionSelector | DynamicScan):
            own = {(operator.part_scan_id, isinstance(operator, PartitionSelector)): False}
        merged = dict(own)
        parts = [own, *below]
        for i, each in enumerate(parts):
            for (scan, selects), moved in each.items():
                for other in parts[i + 1 :]:
                    if (scan, not selects) in other and (moved or other[scan, not selects]):
                        apart.add(scan)
                merged[scan, selects] = merged.get((scan, selects), False) or moved
        return dict.fromkeys(merged, True) if isinstance(operator, Motion) else merged

    visit(plan)
    return frozenset(apart)


@dataclass(frozen=True, slots=True)
class Costs:
    """What a plan is judged by: rows read and rows sent."""

    rows: Mapping[str, float]
    """By part scan id or key of a scan: the rows of the table, or as many as filters leave of them."""
    segments: int = 4
    """Processes that rows are spread over."""
    selected: float = 0.1
    """What share of the partitions a selector with predicates is expected to choose."""
    sending: float = 1.0
    """What it takes to send a row, a row read being 1."""

    def of(self, plan: Operator) -> float:
        choosing = {
            each.part_scan_id for each in walk(plan) if isinstance(each, PartitionSelector) and any(each.predicates)
        }
        return sum(self._own(each, choosing) for each in walk(plan))

    def _own(self, operator: Operator, choosing: set[str]) -> float:
        match operator:
            case Scan(key=key):
                return self.rows[key]
            case DynamicScan(part_scan_id=scan):
                return self.rows[scan] * (self.selected if scan in choosing else 1.0)
            case Motion(child=child, by=by):
                return self.sending * self._rows(child) * (1 if by else self.segments)
            case _:
                return 0.0

    def _rows(self, operator: Operator) -> float:
        """Of a join, as many as its larger input has: a key meets one partner."""
        match operator:
            case Scan(key=key):
                return self.rows[key]
            case DynamicScan(part_scan_id=scan):
                return self.rows[scan]
            case InSequence(children=below):
                return self._rows(below[-1])
            case _:
                return max((self._rows(child) for child in children(operator)), default=0.0)


@dataclass(frozen=True, slots=True)
class _Request:
    """What an input is asked for."""

    hashed: tuple[str, ...] | None = None
    """Its rows spread by the hash of these columns."""
    replicated: bool = False
    """All of its rows in each process. If neither, any distribution will do."""
    specs: tuple[PartSelectorSpec, ...] = ()
    pinned: frozenset[str] = frozenset()
    """The scans over which there must be no motion: their selectors are elsewhere."""


@dataclass(frozen=True)
class _Search:
    distributions: Mapping[str, tuple[str, ...]]
    """By part scan id or key of a scan: the columns whose hash the table is spread by."""
    known: dict[tuple[int, _Request], tuple[Operator, ...]] = field(default_factory=dict)

    def plans(self, operator: Operator, request: _Request) -> tuple[Operator, ...]:
        """Every plan for the operator that has what is asked for, by itself or by an enforcer on top."""
        key = id(operator), request
        if key not in self.known:
            self.known[key] = tuple(dict.fromkeys(self._plans(operator, request)))
        return self.known[key]

    def _plans(self, operator: Operator, request: _Request) -> Iterator[Operator]:
        foreign = [spec for spec in request.specs if not has_part_scan_id(operator, spec.part_scan_id)]
        if foreign:
            # On top of whatever else is asked for: a motion over it would part it from its scan.
            rest = tuple(spec for spec in request.specs if spec is not foreign[-1])
            yield from map(foreign[-1].over, self.plans(operator, replace(request, specs=rest)))
            return
        anywhere = replace(request, hashed=None, replicated=False)
        if request != anywhere and not any(has_part_scan_id(operator, scan) for scan in request.pinned):
            motion = partial(Motion, by=request.hashed or ())
            yield from map(motion, self.plans(operator, anywhere))
        yield from self._own(operator, request)

    def _own(self, operator: Operator, request: _Request) -> Iterator[Operator]:
        """Plans with the operator at the root and no enforcer for the distribution over it."""
        match operator:
            case Scan() | DynamicScan():
                name = operator.key if isinstance(operator, Scan) else operator.part_scan_id
                if not request.replicated and request.hashed in (None, self.distributions.get(name)):
                    yield enforce(request.specs, operator, ())
            case Join():
                if request.replicated:
                    return
                for join in _orders(operator):
                    for left, right, hashed in _distributions(join):
                        if request.hashed is None or request.hashed == hashed:
                            yield from self._joins(join, request, left, right)
            case _:
                if len(children(operator)) == 1:
                    below = tuple(child for spec in request.specs for _, child in push(operator, spec))
                    for plan in self.plans(children(operator)[0], replace(request, specs=below)):
                        yield with_children(operator, (plan,))

    def _joins(self, join: Join, request: _Request, left: _Request, right: _Request) -> Iterator[Operator]:
        """The join with its inputs asked for a distribution each, with and without choosing partitions by rows."""
        choices: list[tuple[list[PartSelectorSpec], list[PartSelectorSpec], frozenset[str]]] = [([], [], frozenset())]
        for spec in request.specs:
            pushed = push(join, spec)
            at = 0 if has_part_scan_id(join.left, spec.part_scan_id) else 1
            by_rows = [each for place, each in pushed if place != at]
            own = [each for place, each in pushed if place == at]
            beside = [
                (lefts + (own if at == 0 else []), rights + (own if at == 1 else []), pinned)
                for lefts, rights, pinned in choices
            ]
            asking = [each for each in own if any(each.predicates)]
            over = [
                (lefts + by_rows, rights + asking, pinned | {spec.part_scan_id})
                for lefts, rights, pinned in choices
                if by_rows
            ]
            choices = beside + over
        for lefts, rights, pinned in choices:
            asked_left = replace(left, specs=tuple(lefts), pinned=request.pinned)
            asked_right = replace(right, specs=tuple(rights), pinned=request.pinned | pinned)
            for first in self.plans(join.left, asked_left):
                for second in self.plans(join.right, asked_right):
                    yield replace(join, left=first, right=second)


def alternatives(plan: Operator, distributions: Mapping[str, tuple[str, ...]]) -> tuple[Operator, ...]:
    """Every valid plan with selectors and motions in place, of joins in both orders."""
    specs = tuple(PartSelectorSpec.of(each) for each in walk(plan) if isinstance(each, DynamicScan))
    return _Search(distributions).plans(plan, _Request(specs=specs))


def cheapest(plan: Operator, distributions: Mapping[str, tuple[str, ...]], costs: Costs) -> Operator:
    """The least costly of the alternatives, the first of them where several are."""
    return min(alternatives(plan, distributions), key=costs.of)


def _orders(join: Join) -> Iterator[Join]:
    """The join as it is, and with its inputs exchanged where that is the same join."""
    yield join
    if join.type.name in ("INNER", "CROSS"):
        swapped = tuple((op.flipped, right, left) for op, left, right in join.computed)
        yield replace(join, left=join.right, right=join.left, computed=swapped)


def _distributions(join: Join) -> Iterator[tuple[_Request, _Request, tuple[str, ...] | None]]:
    """What to ask of the two inputs so that rows that match meet, and how the result is spread then."""
    pairs = _equal_columns(join)
    if pairs:
        left, right = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        yield _Request(hashed=left), _Request(hashed=right), left
    yield _Request(), _Request(replicated=True), None
    if join.type.condition_holds == Sides.BOTH and join.type.passes == Sides.BOTH:
        yield _Request(replicated=True), _Request(), None


def _equal_columns(join: Join) -> list[tuple[str, str]]:
    left, right = frozenset(output(join.left)), frozenset(output(join.right))
    pairs: list[tuple[str, str]] = []
    for part in conjuncts(join.condition) if join.condition is not None else ():
        if isinstance(part, Comparison) and part.op is Op.EQ:
            a, b = part.left, part.right
            if isinstance(a, Column) and isinstance(b, Column):
                if a.name in left and b.name in right:
                    pairs.append((a.name, b.name))
                elif b.name in left and a.name in right:
                    pairs.append((b.name, a.name))
    return pairs
