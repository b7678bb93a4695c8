"""Where selectors go in a plan: algorithms 1 to 4 of the paper, for tables of one or many levels.

Every dynamic scan needs a selector. It is pushed down from the top with what the operators on the way ask of the scan's
keys, and ends in one of two places: beside its scan, where it chooses by constants; or over the other input of a join,
which runs first, where it chooses by the rows of that input. A scan whose keys several joins speak of gets a selector
at each, and reads what all of them chose.

Where the paper is silent or wrong:

* A condition prunes a scan only if a row of the scan that fails it cannot matter. Algorithm 4 as printed uses the
  condition of an outer join on its preserved side too, and would lose rows; :class:`~.algebra.JoinType` says which
  inputs may be pruned. Between the condition and the scan there may be operators that no condition passes: a limit, a
  group-by over other columns, the null-supplying side of another join.
* ``FindPredOnKey`` takes a predicate on the key whose other operands come from the input that the selector is placed
  over, or are constants. One that speaks of anything else cannot be decided there.
* A selector over one input of a join is of use only if that input has all the rows that the scan may be joined with
  when the scan begins: a limit or an aggregate in it is no harm, it is run whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from sidestep.errors import SidestepError
from sidestep.predicate import And, Cast, Column, Comparison, In, IsNull, Literal, Match, Not, Or, Predicate, conjuncts
from sidestep.predicate.columns import columns_of, rename
from sidestep.prune.plan.algebra import (
    Aggregate,
    DynamicScan,
    Filter,
    Join,
    Limit,
    Motion,
    Operator,
    Other,
    PartitionSelector,
    Project,
    Scan,
    Sides,
    Union,
    Window,
    children,
    is_parameter,
    is_sample,
    walk,
    with_children,
)
from sidestep.prune.plan.algebra import Sequence as InSequence


@dataclass(frozen=True, slots=True)
class PartSelectorSpec:
    """A selector that is still to be placed: Figure 11."""

    part_scan_id: str
    keys: tuple[Column, ...]
    predicates: tuple[Predicate | None, ...]
    closed: bool = False
    """Whether everything must be read, whatever is asked: an operator above gives another result for each other input,
    by chance or by where rows come from."""

    @classmethod
    def of(cls, scan: DynamicScan) -> PartSelectorSpec:
        return cls(scan.part_scan_id, scan.keys, (None,) * len(scan.keys))

    def conj(self, found: Sequence[Predicate | None] | None) -> PartSelectorSpec:
        """The same with more asked of its keys, if there is more and it may be."""
        if found is None or self.closed:
            return self
        both = zip(self.predicates, found, strict=True)
        return replace(self, predicates=tuple(_conj(known, new) for known, new in both))

    def over(self, child: Operator | None) -> PartitionSelector:
        return PartitionSelector(self.part_scan_id, self.keys, self.predicates, child)


Order = Callable[[Join], Sides]
"""Which input of a join runs first; in the paper it is always the left."""


def left_first(join: Join) -> Sides:
    return Sides.LEFT


def place_selectors(plan: Operator, order: Order = left_first) -> Operator:
    """The plan with selectors for each of its dynamic scans.

    A scan may get several: of a star's fact table each dimension chooses partitions, and it reads those that all chose.
    """
    scans = [operator for operator in walk(plan) if isinstance(operator, DynamicScan)]
    if len({scan.part_scan_id for scan in scans}) < len(scans):
        raise SidestepError("Two dynamic scans share a part scan id.")
    return _without_idle(_place(plan, [PartSelectorSpec.of(scan) for scan in scans], order))


def _place(operator: Operator, specs: Sequence[PartSelectorSpec], order: Order) -> Operator:
    """Algorithm 1."""
    on_top, below = _compute_part_selectors(operator, specs, order)
    placed = tuple(_place(child, own, order) for child, own in zip(children(operator), below, strict=True))
    return enforce(on_top, operator, placed)


def enforce(on_top: Sequence[PartSelectorSpec], operator: Operator, placed: tuple[Operator, ...]) -> Operator:
    """EnforcePartSelectors: the operator over its new children, with selectors on top of it.

    The selector of a scan itself can only come before it; any other passes the operator's rows on.
    """
    result = with_children(operator, placed)
    if isinstance(operator, DynamicScan):
        own = [spec for spec in on_top if spec.part_scan_id == operator.part_scan_id]
        result = InSequence((*(spec.over(None) for spec in own), result)) if own else result
        on_top = [spec for spec in on_top if spec.part_scan_id != operator.part_scan_id]
    for spec in on_top:
        result = spec.over(result)
    return result


_Computed = tuple[list[PartSelectorSpec], list[list[PartSelectorSpec]]]
"""The selectors to be placed on top of an operator, and those for each of its children."""


def _compute_part_selectors(operator: Operator, specs: Sequence[PartSelectorSpec], order: Order) -> _Computed:
    on_top: list[PartSelectorSpec] = []
    below: list[list[PartSelectorSpec]] = [[] for _ in children(operator)]
    for spec in specs:
        if isinstance(operator, DynamicScan) or not has_part_scan_id(operator, spec.part_scan_id):
            on_top.append(spec)
            continue
        for place, pushed in push(operator, spec, order):
            below[place].append(pushed)
    return on_top, below


def push(operator: Operator, spec: PartSelectorSpec, order: Order = left_first) -> list[tuple[int, PartSelectorSpec]]:
    """The children that a selector goes to whose scan is below, and what is asked of its keys there."""
    at = next(i for i, child in enumerate(children(operator)) if has_part_scan_id(child, spec.part_scan_id))
    match operator:
        case _ if (not isinstance(operator, Scan) and operator.random) or is_sample(operator):
            return [(at, replace(spec, closed=True))]
        case Filter(condition=condition, child=child):  # algorithm 3
            keys = reachable_keys(child, spec)
            return [(at, spec.conj(_about_keys(find_pred_on_key(keys, condition, ()), keys, spec)))]
        case Join(condition=condition) if condition is not None:  # algorithm 4
            side, other = (Sides.LEFT, Sides.RIGHT)[at], 1 - at
            if spec.closed or side not in operator.type.condition_holds:
                return [(at, spec)]
            keys = reachable_keys(children(operator)[at], spec)
            own = spec.conj(_about_keys(find_pred_on_key(keys, condition, ()), keys, spec))
            if side is order(operator):
                # What runs first cannot wait for what runs after it.
                return [(at, own)]
            joint = And((condition, *_meetings(operator, (Sides.LEFT, Sides.RIGHT)[other])))
            found = find_pred_on_key(keys, joint, output(children(operator)[other]))
            by_rows = found is not None and found != find_pred_on_key(keys, condition, ())
            return [*([(other, spec.conj(_about_keys(found, keys, spec)))] if by_rows else []), (at, own)]
        case _:  # algorithm 2
            return [(at, spec)]


def _meetings(join: Join, other: Sides) -> Iterator[Comparison]:
    """What rows of an input of a join have to compare the other's columns with, as constants."""
    for each in join.meetings:
        if each.other is other:
            yield Comparison(each.op, each.key, each.parameter(join.number))


def _without_idle(plan: Operator) -> Operator:
    """The plan less selectors that ask for nothing, of scans that others choose for."""
    asking = {each.part_scan_id for each in walk(plan) if isinstance(each, PartitionSelector) and any(each.predicates)}

    def clean(operator: Operator) -> Operator:
        new = tuple(clean(child) for child in children(operator))
        match operator:
            case InSequence():
                kept = tuple(child for child in new if not (is_idle(child) and not children(child)))
                return kept[0] if len(kept) == 1 else InSequence(kept)
            case PartitionSelector() if is_idle(operator) and new:
                return new[0]
            case _:
                return with_children(operator, new)

    def is_idle(operator: Operator) -> bool:
        return (
            isinstance(operator, PartitionSelector) and operator.part_scan_id in asking and not any(operator.predicates)
        )

    return clean(plan)


def has_part_scan_id(operator: Operator, part_scan_id: str) -> bool:
    """Whether the dynamic scan of that id is in the tree below (or is) the operator."""
    return any(isinstance(each, DynamicScan) and each.part_scan_id == part_scan_id for each in walk(operator))


def find_pred_on_key(
    keys: Sequence[Column | None], condition: Predicate, others: Sequence[str]
) -> tuple[Predicate | None, ...] | None:
    """For each key, the conjuncts about it that constants, early or late, and other columns decide; None if none is.

    A key that is None cannot be asked for anything.
    """
    found: list[Predicate | None] = [None] * len(keys)
    known = frozenset(others)
    parts = list(conjuncts(condition))
    for level, key in enumerate(keys):
        if key is None:
            continue
        for part in parts:
            names = {column.name for column in columns_of(part)}
            compared = {name for name in names if name != key.name and not is_parameter(name)}
            if key.name in names and compared <= known and _can_bind(part, key.name):
                found[level] = _conj(found[level], part)
    return tuple(found) if any(each is not None for each in found) else None


def reachable_keys(operator: Operator, spec: PartSelectorSpec) -> tuple[Column | None, ...]:
    """The keys of a scan below of which a filter on top of the operator could as well be asked at the scan.

    They are named as they are on top of the operator: a union gives its inputs' columns numbers of its own.
    """
    above = {own: name for name, own in reversed(_reachable(operator, spec.part_scan_id).items())}
    return tuple(Column(above[key.name], key.type) if key.name in above else None for key in spec.keys)


def _about_keys(
    found: tuple[Predicate | None, ...] | None, above: Sequence[Column | None], spec: PartSelectorSpec
) -> tuple[Predicate | None, ...] | None:
    """Predicates on keys as they are named on top of an operator, in the keys' own names."""
    if found is None:
        return None
    return tuple(
        each if each is None or name is None or name == key else rename(each, _named(each) | {name.name: key})
        for each, name, key in zip(found, above, spec.keys, strict=True)
    )


def _named(predicate: Predicate) -> dict[str, Column]:
    return {column.name: column for column in columns_of(predicate)}


def _reachable(operator: Operator, part_scan_id: str) -> dict[str, str]:
    """The numbers that keys have on top of the operator, with their own."""
    if not isinstance(operator, Scan) and operator.random:
        return {}
    match operator:
        case DynamicScan(part_scan_id=own, keys=keys):
            return {key.name: key.name for key in keys} if own == part_scan_id else {}
        case Filter(child=child) | Project(child=child) | Motion(child=child):
            return _reachable(child, part_scan_id)
        case Aggregate(groups=numbers, child=child) | Window(partition=numbers, child=child):
            return {name: own for name, own in _reachable(child, part_scan_id).items() if name in numbers}
        case Join(type=kind, left=left, right=right):
            preserved = kind.above_holds & kind.passes
            from_left = _reachable(left, part_scan_id) if Sides.LEFT in preserved else {}
            return from_left | (_reachable(right, part_scan_id) if Sides.RIGHT in preserved else {})
        case Union(children=below, columns=columns, outputs=outputs):
            return {
                column.name: known[source.name]
                for child, put in zip(below, outputs, strict=True)
                for known in (_reachable(child, part_scan_id),)
                for column, source in zip(columns, put, strict=True)
                if isinstance(source, Column) and source.name in known
            }
        case PartitionSelector(child=child):
            return _reachable(child, part_scan_id) if child is not None else {}
        case InSequence(children=below):
            return _reachable(below[-1], part_scan_id) if below else {}
        case Scan() | Limit() | Other():
            return {}
    assert_never(operator)


def output(operator: Operator) -> tuple[str, ...]:
    """The numbers of the columns that an operator passes on under the numbers they have in the tables."""
    return tuple(dict.fromkeys(_output(operator)))


def _output(operator: Operator) -> Iterator[str]:
    match operator:
        case Scan(columns=columns):
            yield from (number for number, _ in columns)
        case DynamicScan(keys=keys, columns=others):
            yield from (column.name for column in (*keys, *others))
        case Join(type=kind, left=left, right=right):
            yield from _output(left) if Sides.LEFT in kind.passes else ()
            yield from _output(right) if Sides.RIGHT in kind.passes else ()
        case Aggregate(groups=groups):
            yield from sorted(groups)
        case Union(columns=columns):
            yield from (column.name for column in columns)
        case InSequence(children=below):
            yield from _output(below[-1]) if below else ()
        case Other():
            return
        case _:
            for child in children(operator):
                yield from _output(child)


def _can_bind(predicate: Predicate, key: str) -> bool:
    """Whether nothing but the key is left once a row's columns are put in: they must stand plainly in comparisons."""
    match predicate:
        case Comparison(left=left, right=right):
            return all(not isinstance(side, Cast) or side.column.name == key for side in (left, right))
        case In(operand=operand) | IsNull(operand=operand):
            return (operand.column if isinstance(operand, Cast) else operand).name == key
        case Match(column=column):
            return column.name == key
        case And(children=below) | Or(children=below):
            return all(_can_bind(child, key) for child in below)
        case Not(child=child):
            return _can_bind(child, key)
        case Column(name=name):
            return name == key
        case Literal():
            return True
        case _:
            return False


def _conj(known: Predicate | None, new: Predicate | None) -> Predicate | None:
    """Conj: both, where both are there."""
    if known is None or new is None:
        return new if known is None else known
    return And(tuple(dict.fromkeys((*conjuncts(known), *conjuncts(new)))))
