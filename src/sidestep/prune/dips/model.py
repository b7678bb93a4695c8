"""What goes in and out of an exchange of data-induced predicates: views of tables, options, and the predicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sidestep.errors import SidestepError
from sidestep.predicate import Column, IntervalSet
from sidestep.prune.dips.column_ranges import EVERYTHING
from sidestep.synopsis import Catalog
from sidestep.synopsis.values.code_ranges import CodeRanges, value_ranges
from sidestep.synopsis.values.codes import GREATEST, LEAST, Coding


@dataclass(frozen=True, eq=False)
class TableView:
    """What is known of the table that a scan reads: the catalogs of the indexes that cover it."""

    catalogs: tuple[Catalog, ...]
    complete: bool
    """Whether every file that the scan reads has its blocks in these catalogs. If not, no predicate comes from it."""


@dataclass(frozen=True, slots=True)
class InducedOptions:
    """How far to go in deriving predicates, and which parts of the method to leave out."""

    kappa: int = 5
    """Exchanges inside a clique of a cyclic join graph, at most."""
    max_ranges: int = 4_000
    """Ranges of a predicate, at most. Fewer cost more: what is lost takes further rounds to find again."""
    seconds: float = 0.05
    """Computing time after which no further predicate is derived; what has been pruned by then stays pruned."""
    rounds: int = 10
    """Times that the schedule is repeated, at most."""
    small_rows: int = 100_000
    """Tables of at most this many rows are known to the row; 0 is for none."""
    movement: bool = True
    """Whether predicates leave the part of the plan that consists of selections and joins alone."""
    naive: bool = False
    """Send along all links again and again instead of by the schedule, to compare with."""

    def __post_init__(self) -> None:
        for name, least in (("kappa", 1), ("max_ranges", 1), ("rounds", 1), ("seconds", 0), ("small_rows", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
                raise SidestepError(f"{name} must be a number of at least {least}, not {value!r}.")
            if name != "seconds" and not isinstance(value, int):
                raise SidestepError(f"{name} must be a whole number, not {value!r}.")


@dataclass(frozen=True, eq=False)
class Dip:
    """One data-induced predicate that was sent: from where, to where, what it says and what it did."""

    origin: int
    target: int
    """Nodes of the join graph."""
    origin_column: Column
    column: Column
    """The columns by their tables' own names."""
    source: Column
    number: Column
    """The same columns by their numbers in the query."""
    full_count: int
    """Ranges before it was compacted."""
    codes: CodeRanges
    coding: Coding
    nulls: bool
    """Whether NULL satisfies it too."""
    round: int
    step: int
    removed: int
    """Blocks of the target that it ruled out."""

    @property
    def count(self) -> int:
        """Its ranges."""
        return len(self.codes)

    @property
    def ranges(self) -> IntervalSet:
        """The values of the target's column that satisfy it."""
        return value_ranges(self.codes, self.coding)


class Values(NamedTuple):
    """What a column may hold: ranges of codes, and whether NULL."""

    ranges: CodeRanges
    nulls: bool

    @property
    def none(self) -> bool:
        return not len(self.ranges) and not self.nulls

    @property
    def says_nothing(self) -> bool:
        return len(self.ranges) == 1 and self.ranges.lows[0] == LEAST and self.ranges.highs[0] == GREATEST


UNKNOWN = Values(EVERYTHING, True)
