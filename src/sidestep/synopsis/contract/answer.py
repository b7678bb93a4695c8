"""What a synopsis says of all blocks, and what synopses of single columns have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sidestep.predicate.formula import Formula, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DataType
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import Mask


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Which blocks may hold a row that satisfies a formula, and of which blocks the synopsis knows nothing.

    That an unknown block is kept is decided in :mod:`sidestep.synopsis.skip`, not by the synopsis: for such a block
    ``possible`` carries no meaning, and a synopsis leaves it False.
    """

    possible: Mask
    """False is a proof that no row of a known block satisfies the formula."""
    unknown: Mask | None = None
    """The blocks of which nothing is known; None if there are none."""


class ColumnSynopsis(Protocol):
    """One kind of synopsis of one column, for all blocks."""

    @property
    def type(self) -> DataType:
        """The type that the values had when it was built: it answers for no other."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        ...

    def may_be_within(self, ranges: IntervalSet) -> Answer | None:
        """Blocks that may hold a value of the set; None if it has nothing to say of such a set."""
        ...

    def held_codes(self, among: Mask) -> tuple[Coding, Codes] | None:
        """Codes of values that these blocks hold, by which false positives are estimated; None if it has none."""
        ...

    def pass_rate(self, among: Mask) -> float:
        """How often it keeps one of these blocks for a value that cannot be asked for; 1 if it cannot tell."""
        ...


Held = TypeVar("Held", bound=ColumnSynopsis)


@dataclass(frozen=True, eq=False)
class ByColumn(Generic[Held]):
    """A synopsis of single columns: it answers ``Within``, for a column of the very type that it was built for."""

    columns: Mapping[str, Held]
    """The columns that were loaded, by name."""

    name = ""
    """What people call it, as in "range-set"; each kind has its own."""

    @property
    def types(self) -> Mapping[str, DataType]:
        """The columns that there is something known of, and the types that they had then."""
        return {name: held.type for name, held in self.columns.items()}

    def of(self, column: Column) -> Held | None:
        """What is known of a column, if it was built for the type that the query gives it."""
        held = self.columns.get(column.name)
        return held if held is not None and held.type == column.type else None

    def can_satisfy(self, formula: Formula) -> Answer | None:
        match formula:
            case Within(column, ranges) if (held := self.of(column)) is not None:
                return held.may_be_within(ranges)
        return None

    @property
    def nbytes(self) -> int:
        return sum(held.nbytes for held in self.columns.values())
