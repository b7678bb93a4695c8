"""What the stages of pruning work on: a query that was analyzed once, and what has been decided about it so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate import HOLDS_ALWAYS, And, DataType, Formula, Predicate, normalize
from sidestep.predicate.columns import columns_of
from sidestep.prune.dips.induced import Bound, Induced
from sidestep.prune.dips.model import InducedOptions
from sidestep.prune.plan.algebra import Join, Query, Scan, Sides, walk
from sidestep.prune.plan.static import ScanFilter, scan_filters
from sidestep.synopsis import Catalog, Mask

Masks = tuple[Mask, ...]
"""The blocks that are kept, for each catalog of a table."""


@dataclass(frozen=True, eq=False)
class ColumnAccess:
    """A group of columns that a query may read, if it needs no other rows than the group has."""

    number: int
    columns: frozenset[str]
    blocks: Mask
    """The blocks of the table that it is read from."""
    lacks: int | None = None
    """The block of :attr:`Accesses.lacking` that stands for the rows it lacks; None: it lacks none."""


@dataclass(frozen=True, eq=False)
class Accesses:
    """Where the columns of a table can be read that has some cells more than once."""

    groups: tuple[ColumnAccess, ...]
    lacking: Catalog
    """A block for each group that lacks rows, of which is known what these rows have in common."""
    rows: npt.NDArray[np.int64]
    """How many rows each block of the table has."""


class Tables(Protocol):
    """What is known of the tables that a query reads."""

    def covers(self, scan: Scan) -> bool:
        """Whether anything is known of the table of a scan."""

    def catalogs(self, scan: Scan, columns: Mapping[str, DataType]) -> tuple[Catalog, ...]:
        """What is known of these columns of a covered table. Blocks have the same positions whatever the columns."""

    def complete(self, scans: Collection[Scan]) -> frozenset[str]:
        """The keys of those among some covered scans all of whose files have their blocks in the catalogs."""

    def accesses(self, scan: Scan, columns: Mapping[str, DataType]) -> Accesses | None:
        """Where the columns of a covered table that has cells more than once can be read; None if that is not known.
        ``columns`` are those that predicates are about. Blocks are those of the table's only catalog."""

    def rows(self, scan: Scan, columns: Mapping[str, DataType], most: int) -> Catalog | None:
        """What is known of these columns in each row of a covered table, all its rows and perhaps others, as blocks of
        one row; None of a table with more than ``most`` rows, or one that cannot be read quickly."""


@dataclass(frozen=True, slots=True)
class SelectorOptions:
    """When choosing at run time is worth it; see :mod:`sidestep.prune.runtime`."""

    least_bytes: int = 8 << 20
    """What must be left to be read of a scan."""
    most_touched: float = 0.5
    """The share of its blocks, at most, that one value may be in."""
    least_gain: float = 4.0
    """How many times larger than an input what may be saved must be, for the input to be run once more for its keys."""

    def __post_init__(self) -> None:
        for name, least in (("least_bytes", 0), ("most_touched", 0), ("least_gain", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
                raise SidestepError(f"{name} is a number of at least {least}, not {value!r}.")


@dataclass(frozen=True, slots=True)
class DenormalizedOptions:
    """When a denormalized table is read in place of joins."""

    least_gain: float = 1.0
    """How many times more must be read without it; 0 to read it wherever it can be."""

    def __post_init__(self) -> None:
        gain = self.least_gain
        if isinstance(gain, bool) or not isinstance(gain, int | float) or not gain >= 0:
            raise SidestepError(f"least_gain is a number of at least 0, not {gain!r}.")


@dataclass(frozen=True, slots=True)
class RuntimeSelector:
    """What chooses blocks of a scan when the query runs."""

    scan: Scan
    predicate: Predicate
    """On the table's columns and on parameters, ``?0``, ``?1`` …, in the order of what gives them values."""
    join: int = -1
    """The number of the join one of whose inputs gives the values; -1 where the query's own subqueries do."""
    outer: Sides = Sides.NEITHER
    """Which input."""
    conjuncts: tuple[int, ...] = ()
    """Which parts of the join's condition, for each parameter."""
    late: tuple[int, ...] = ()
    """The numbers of the subqueries, for each parameter."""
    pays: bool = False
    """Whether the input may be run once more for its keys."""
    grid: tuple[int, int, int] | None = None
    """Low and high end of the column's values, and the bits of a cell, to count the keys of such an input by."""
    by: str = ""
    """What it chooses by, for people."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which stages run, and how far they go."""

    off: frozenset[str] = frozenset()
    """Names of stages that are left out."""
    induced: InducedOptions = field(default_factory=InducedOptions)
    selectors: SelectorOptions = field(default_factory=SelectorOptions)
    denormalized: DenormalizedOptions = field(default_factory=DenormalizedOptions)
    in_full: bool = False
    """Whether to work out what only an explanation needs: the join graph where nothing can be sent along it, and
    whether tables are covered whole although no block depends on it."""

    def without(self, *stages: str) -> Settings:
        return replace(self, off=self.off | set(stages))


@dataclass(frozen=True, eq=False)
class AnalyzedQuery:
    """A query, and what its plan says of each place where it reads a table."""

    query: Query
    places: tuple[ScanFilter, ...]
    """Each occurrence of a scan in the plan, in plan order, with the predicates that reach it."""
    formulas: tuple[Formula, ...]
    """The predicates of each place, normalized. Places with the same predicates share one object."""
    tables: Tables
    settings: Settings

    @cached_property
    def scans(self) -> dict[str, Scan]:
        """The scans by key: one that Spark has copied is read at several places."""
        return {place.scan.key: place.scan for place in self.places}

    @cached_property
    def has_joins(self) -> bool:
        """Whether two places may be joined."""
        return len(self.places) > 1 and self.joins

    @cached_property
    def joins(self) -> bool:
        """Whether a place may be joined with anything."""
        return any(isinstance(each, Join) for plan in self.query.plans for each in walk(plan))

    @cached_property
    def covered(self) -> frozenset[str]:
        """The keys of the scans that some predicate or join may prune, and that something is known of."""
        always = () if self.joins else self.unfiltered - self.late
        usable = (scan for key, scan in self.scans.items() if scan.reason is None and key not in always)
        return frozenset(scan.key for scan in usable if self.tables.covers(scan))

    @cached_property
    def unfiltered(self) -> frozenset[str]:
        """The keys of the scans of which, at one of their places, no predicate is known."""
        both = zip(self.places, self.formulas, strict=True)
        return frozenset(place.scan.key for place, formula in both if formula == HOLDS_ALWAYS)

    @cached_property
    def late(self) -> frozenset[str]:
        """The keys of the scans that constants may prune which are known only when the query runs."""
        return frozenset(place.scan.key for place in self.places if place.late)

    @cached_property
    def columns(self) -> dict[str, dict[str, DataType]]:
        """By key of scan, the columns that its predicates are about, at any of its places."""
        columns: dict[str, dict[str, DataType]] = {}
        for place in self.places:
            own = columns.setdefault(place.scan.key, {})
            own.update((column.name, column.type) for each in place.conjuncts for column in columns_of(each))
        return columns


def analyze(query: Query, tables: Tables, settings: Settings) -> AnalyzedQuery:
    """Collect and normalize the predicates of each scan of a query."""
    places = tuple(scan_filters(query))
    formulas: dict[tuple[Predicate, ...], Formula] = {}
    for place in places:
        if place.conjuncts not in formulas:
            formulas[place.conjuncts] = normalize(And(place.conjuncts))
    return AnalyzedQuery(query, places, tuple(formulas[place.conjuncts] for place in places), tables, settings)


@dataclass(frozen=True, slots=True)
class StageReport:
    """How a stage went."""

    name: str
    seconds: float = 0.0
    stopped: bool = False
    """Whether its time budget ended it; what it had pruned by then stays pruned."""
    off: bool = False


@dataclass(frozen=True, eq=False)
class Decision:
    """What a query need not read, as far as the stages up to now have found out.

    A block is left out only if it is proven that the query's result is the same without it, whichever of the other
    blocks that were left out are read after all.
    """

    kept: tuple[Masks, ...]
    """For each place, the blocks that may matter there; empty for a table that is not covered."""
    static: tuple[Masks, ...]
    """The same by the query's own predicates alone."""
    catalogs: Mapping[str, tuple[Catalog, ...]] = field(default_factory=dict)
    """By key of scan, what the query's own predicates were held against."""
    bounds: Mapping[str, tuple[Bound, ...]] = field(default_factory=dict)
    """By key of scan, for scans read at one place, what its rows must hold in a column to matter."""
    induced: Induced | None = None
    """The join graph and the predicates that were sent along it."""
    selectors: tuple[RuntimeSelector, ...] = ()
    """What chooses among the blocks that are kept when the query runs."""
    paths: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By key of scan, the column groups that it is read from, those first that are asked first for a column; of scans
    that are not here, those that it says itself. Each has every row that the query's own predicates want."""
    witnesses: frozenset[str] = frozenset()
    """By key, the scans whose tables the difference between ``static`` and ``kept`` rests on, and ``bounds`` rest on.
    Should one of their files change before the query reads, only ``static`` still holds."""
    stopped: bool = False
    """Whether the stage that made it was ended by its time budget."""
    stages: tuple[StageReport, ...] = ()

    def taken(self, scan: Scan) -> Scan:
        """A scan with the groups of its path."""
        return replace(scan, groups=self.paths[scan.key]) if scan.key in self.paths else scan


def by_scan(query: AnalyzedQuery, masks: tuple[Masks, ...]) -> dict[str, Masks]:
    """The masks of all places of each covered scan, put together: a block matters if it does at one of them."""
    merged: dict[str, Masks] = {}
    for place, own in zip(query.places, masks, strict=True):
        if own:
            known = merged.get(place.scan.key)
            merged[place.scan.key] = own if known is None else tuple(a | b for a, b in zip(known, own, strict=True))
    return merged
