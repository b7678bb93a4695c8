"""What an empty input makes irrelevant: parts of a plan that no longer matter, whatever rows they give.

If one input of an inner join gives no row, neither does the join, and the other input need not be read: also where no
condition links the two (a cross join), so that no data-induced predicate could say so.

===================  ===================================  ============================
join                 gives nothing if                     then irrelevant is
===================  ===================================  ============================
inner, cross, semi   one input does                       the other
left outer, anti     the left input does                  the right
right outer          the right input does                 the left
existence            the left input does                  the right
full outer           both do                              nothing more
===================  ===================================  ============================

A group-by of nothing is nothing, but an aggregate without groups gives one row for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sidestep.prune.plan.algebra import Aggregate, Join, JoinType, Operator, Other, Scan, Union, children
from sidestep.prune.plan.static import BOTH

_EITHER = BOTH | {JoinType.LEFT_SEMI}
_LEFT = _EITHER | {JoinType.LEFT_OUTER, JoinType.LEFT_ANTI, JoinType.EXISTENCE}
"""Joins that an empty left input makes empty."""
_RIGHT = _EITHER | {JoinType.RIGHT_OUTER}
"""Joins that an empty right input makes empty."""


@dataclass(frozen=True, slots=True)
class _Part:
    operator: Operator
    below: tuple[_Part, ...]
    empty: bool
    scan: int = -1


def irrelevant_scans(plans: Sequence[Operator], is_empty: Callable[[int], bool]) -> set[int]:
    """The scans that matter to no result, numbered in the order of the plans; ``is_empty`` says which give no row."""
    counter = iter(range(10**9))
    return {number for plan in plans for number in _unneeded(_part(plan, is_empty, counter), False)}


def _part(operator: Operator, is_empty: Callable[[int], bool], counter: Iterator[int]) -> _Part:
    if isinstance(operator, Scan):
        number = next(counter)
        return _Part(operator, (), is_empty(number), number)
    below = tuple(_part(child, is_empty, counter) for child in children(operator))
    return _Part(operator, below, _gives_nothing(operator, [part.empty for part in below]))


def _gives_nothing(operator: Operator, below: list[bool]) -> bool:
    match operator:
        case Join(type=kind):
            left, right = below
            return (
                (left and kind in _LEFT)
                or (right and kind in _RIGHT)
                or (left and right and kind is JoinType.FULL_OUTER)
            )
        case Union():
            return all(below)
        case Aggregate(grouped=grouped):
            return grouped and below[0]
        case Other():
            return False
    return below[0]


def _unneeded(part: _Part, unneeded: bool) -> Iterator[int]:
    if part.scan >= 0 and unneeded:
        yield part.scan
    needless = [unneeded and not isinstance(part.operator, Other)] * len(part.below)
    if isinstance(part.operator, Join):
        left, right = part.below
        needless[0] |= right.empty and part.operator.type in _RIGHT
        needless[1] |= left.empty and part.operator.type in _LEFT
    for child, without in zip(part.below, needless, strict=True):
        yield from _unneeded(child, without)
