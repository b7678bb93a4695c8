"""What an empty input makes irrelevant: parts of a plan that no longer matter, whatever rows they give.

If one input of an inner join gives no row, neither does the join, and the other input need not be read: also where no
condition links the two (a cross join), so that no data-induced predicate could say so.
Which joins an empty input makes empty is for :class:`~sidestep.prune.plan.algebra.JoinType` to say.
A group-by of nothing is nothing, but an aggregate without groups gives one row for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sidestep.prune.plan.algebra import Aggregate, Join, Operator, Other, Scan, Sides, Union, children


@dataclass(frozen=True, slots=True)
class _Part:
    operator: Operator
    below: tuple[_Part, ...]
    empty: bool
    scan: int = -1


def irrelevant_scans(plans: Sequence[Operator], is_empty: Callable[[int], bool]) -> set[int]:
    """The scans that matter to no result, numbered in the order of the plans; ``is_empty`` says which give no row."""
    counter = iter(range(10**9))
    return {number for plan in plans for number in _needless(_part(plan, is_empty, counter), False)}


def _part(operator: Operator, is_empty: Callable[[int], bool], counter: Iterator[int]) -> _Part:
    if isinstance(operator, Scan):
        number = next(counter)
        return _Part(operator, (), is_empty(number), number)
    below = tuple(_part(child, is_empty, counter) for child in children(operator))
    return _Part(operator, below, _gives_nothing(operator, [part.empty for part in below]))


def _gives_nothing(operator: Operator, below: list[bool]) -> bool:
    match operator:
        case Join(type=kind):
            return kind.is_empty(*below)
        case Union():
            return all(below)
        case Aggregate(grouped=grouped):
            return grouped and below[0]
        case Other():
            return False
    return below[0]


def _needless(part: _Part, unneeded: bool) -> Iterator[int]:
    if part.scan >= 0 and unneeded:
        yield part.scan
    needless = [unneeded and not isinstance(part.operator, Other)] * len(part.below)
    if isinstance(part.operator, Join):
        left, right = part.below
        needless[0] |= right.empty and Sides.RIGHT in part.operator.type.emptied_by
        needless[1] |= left.empty and Sides.LEFT in part.operator.type.emptied_by
    for child, without in zip(part.below, needless, strict=True):
        yield from _needless(child, without)
