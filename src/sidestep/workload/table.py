"""What a log asks of one table: its distinct filters and the scans that used them, and how each column is used.

:func:`table_workload` gives filters as sets of predicates, for features; :func:`column_usage` gives the values that
filters name in each column and the columns that tables are joined on, for synopses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate import All, Column, Formula, IntervalSet, Matches, Predicate, all_of, atoms, normalize
from sidestep.predicate.columns import columns_of, rename
from sidestep.predicate.formula import columns_in, necessary_ranges
from sidestep.workload.canonical import column_set, formula_of, key
from sidestep.workload.factor import FactoredFilter, factor
from sidestep.workload.query import LoggedQuery, Workload

MOST_PIECES = 16
"""Into how many pieces of time the runs of one repeated query are spread at most."""


@dataclass(frozen=True, slots=True)
class Item:
    """A distinct predicate of a workload: an item, in the words of frequent itemset mining."""

    predicate: Predicate
    formula: Formula
    columns: frozenset[Column]
    key: str


@dataclass(frozen=True, slots=True)
class ScanRun:
    """One or more runs of a filter at one time."""

    filter: int
    weight: int


@dataclass(frozen=True, eq=False)
class TableWorkload:
    """One table's part of a workload.

    A filter is a set of item numbers: the thesis's query, which is there a set of conjunctive predicates (3.3.1). A
    query that reads the table twice has two filters, since each scan skips on its own. Equal filters are one, so that a
    query repeated a million times costs as much as one. Items are numbered by their written form and filters by their
    items, so the order of the log decides the order of the scans and nothing else.
    """

    table: str
    items: tuple[Item, ...]
    filters: tuple[tuple[int, ...], ...]
    examples: tuple[str, ...]
    """For each filter the shortest statement that has it."""
    scans: tuple[ScanRun, ...]
    """In the order of time, if every query has one, else in that of the log."""
    unfiltered: int = 0
    """Scans without any predicate."""
    empty: int = 0
    """Scans whose predicates contradict each other: they neither help nor harm."""

    @cached_property
    def weights(self) -> npt.NDArray[np.int64]:
        """How many scans have each filter."""
        return self.weights_of(self.scans)

    def weights_of(self, scans: Iterable[ScanRun]) -> npt.NDArray[np.int64]:
        """How many of these scans have each filter."""
        weights = np.zeros(len(self.filters), np.int64)
        for scan in scans:
            weights[scan.filter] += scan.weight
        return weights

    @property
    def total(self) -> int:
        """How many scans have a filter that some row can satisfy."""
        return int(self.weights.sum())


def tables_of(workload: Workload) -> dict[str, int]:
    """The tables that the queries read, with the number of scans, most read first."""
    scans: dict[str, int] = {}
    for query in workload.queries:
        for use in query.uses:
            scans[use.table] = scans.get(use.table, 0) + query.count
    return dict(sorted(scans.items(), key=lambda pair: (-pair[1], pair[0])))


def table_workload(workload: Workload, table: str) -> TableWorkload:
    """The part of the workload that is about one table: filters factored into predicates, equal ones made one."""
    named = tables_of(workload)
    if table not in named:
        known = ", ".join(named) if named else "no table at all"
        raise SidestepError(f"No query of the log reads the table {table}; the queries read {known}.")
    return _TableFold(table).fold(workload)


def split_by_time(workload: Workload, table: str, later: float) -> tuple[Workload, Workload]:
    """The queries that read a table in two parts: the earlier ones, and a share ``later`` of its scans after them.

    A query that was repeated may be in both, as often as it ran in either.
    """
    runs = [
        (query, weight, weight * sum(use.table == table for use in query.uses))
        for query, weight in _runs_by_time(workload.queries)
    ]
    left = (1 - later) * sum(scans for *_, scans in runs)
    parts: tuple[dict[LoggedQuery, int], dict[LoggedQuery, int]] = ({}, {})
    for query, weight, scans in runs:
        if scans:
            part = parts[0 if left >= scans / 2 else 1]
            part[query] = part.get(query, 0) + weight
            left -= scans
    early, late = (tuple(replace(query, count=count) for query, count in part.items()) for part in parts)
    return Workload(early), Workload(late)


def weights_within(whole: TableWorkload, part: TableWorkload) -> npt.NDArray[np.int64]:
    """How many scans of a part of a workload have each filter of the whole."""
    place = {frozenset(whole.items[at].formula for at in numbers): at for at, numbers in enumerate(whole.filters)}
    weights = np.zeros(len(whole.filters), np.int64)
    for numbers, weight in zip(part.filters, part.weights.tolist(), strict=True):
        weights[place[frozenset(part.items[at].formula for at in numbers)]] += weight
    return weights


@dataclass(frozen=True, slots=True)
class ColumnUsage:
    """What queries ask of the columns of one table, and how often."""

    ranges: Mapping[Column, Mapping[IntervalSet, int]] = field(default_factory=dict)
    """For each column that filters bound, the sets of values they ask for, each with the number of scans."""
    joins: Mapping[str, int] = field(default_factory=dict)
    """For each column that queries join on, how many do."""
    filters: Mapping[frozenset[tuple[Column, IntervalSet]], int] = field(default_factory=dict)
    """What scans ask for in all columns together, each with the number of scans."""
    patterns: Mapping[Column, Mapping[Formula, int]] = field(default_factory=dict)
    """For each column, the conditions on it alone that hold a pattern which is no range, with the number of scans."""

    def scans(self, column: str) -> int:
        """How many scans bound the column by a filter."""
        return sum(sum(sets.values()) for of, sets in self.ranges.items() if of.name == column)

    def uses(self, column: str) -> int:
        """How many scans or joins use the column: what should be served first."""
        return self.scans(column) + self.joins.get(column, 0)


def column_usage(workload: Workload, table: str, names: Mapping[str, str] | None = None) -> ColumnUsage:
    """What the workload's queries ask of one table; nothing, if none reads it.

    ``names`` are those that columns are to go by, where these are not the queries' own.
    """
    called = names or {}
    ranges: dict[Column, Counter[IntervalSet]] = {}
    joins: Counter[str] = Counter()
    filters: Counter[frozenset[tuple[Column, IntervalSet]]] = Counter()
    patterns: dict[Column, Counter[Formula]] = {}
    for query in workload.queries:
        for use in query.uses:
            if use.table == table:
                whole = all_of(normalize(_with_names(predicate, called)) for predicate in use.predicates)
                bounds = {column: wanted for column, wanted in necessary_ranges(whole).items() if not wanted.is_full}
                for column, wanted in bounds.items():
                    ranges.setdefault(column, Counter())[wanted] += query.count
                if bounds:
                    filters[frozenset(bounds.items())] += query.count
                for column, condition in _pattern_conditions(whole):
                    patterns.setdefault(column, Counter())[condition] += query.count
        for join in query.joins:
            for name, column_name in (join.left, join.right):
                if name == table:
                    joins[called.get(column_name, column_name)] += query.count
    return ColumnUsage(ranges, joins, filters, patterns)


def _with_names(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    if not names:
        return predicate
    return rename(predicate, {of.name: replace(of, name=names.get(of.name, of.name)) for of in columns_of(predicate)})


def _pattern_conditions(whole: Formula) -> Iterator[tuple[Column, Formula]]:
    """The conjuncts of a formula that speak of one column alone, and of patterns in it."""
    for part in whole.children if isinstance(whole, All) else (whole,):
        columns = columns_in(part)
        if len(columns) == 1 and any(isinstance(atom, Matches) for atom in atoms(part)):
            yield next(iter(columns)), part


class _TableFold:
    """The numbers given to predicates and filters while a workload is folded."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.factored: dict[frozenset[Predicate], tuple[int, ...] | None] = {}
        self.numbers: dict[Formula, int] = {}
        self.items: list[Item] = []
        self.examples: dict[tuple[int, ...], str] = {}

    def fold(self, workload: Workload) -> TableWorkload:
        scans: list[tuple[tuple[int, ...], int]] = []
        unfiltered = empty = 0
        for query, weight in _runs_by_time(workload.queries):
            for use in query.uses:
                if use.table != self.table:
                    continue
                numbers = self._filter(use.predicates)
                if numbers is None:
                    empty += weight
                elif not numbers:
                    unfiltered += weight
                else:
                    scans.append((numbers, weight))
                    self._keep_example(numbers, query.sql)
        order = sorted(range(len(self.items)), key=lambda number: self.items[number].key)
        renumbered = {old: new for new, old in enumerate(order)}
        named = {old: tuple(sorted(renumbered[number] for number in old)) for old in self.examples}
        filters = sorted(named.values())
        position = {numbers: at for at, numbers in enumerate(filters)}
        examples = {position[named[old]]: sql for old, sql in self.examples.items()}
        return TableWorkload(
            table=self.table,
            items=tuple(self.items[number] for number in order),
            filters=tuple(filters),
            examples=tuple(examples[at] for at in range(len(filters))),
            scans=tuple(ScanRun(position[named[old]], weight) for old, weight in scans),
            unfiltered=unfiltered,
            empty=empty,
        )

    def _filter(self, predicates: frozenset[Predicate]) -> tuple[int, ...] | None:
        """The filter's item numbers, or None if no row can satisfy it."""
        if predicates not in self.factored:
            whole: FactoredFilter = factor(predicates)
            numbers = None if whole.empty else tuple(sorted({self._number(part) for part in whole.predicates}))
            self.factored[predicates] = numbers
        return self.factored[predicates]

    def _number(self, predicate: Predicate) -> int:
        """The item of a predicate; one formula is one item, whatever its spellings, and shown in the first by order."""
        formula, text = formula_of(predicate), key(predicate)
        number = self.numbers.setdefault(formula, len(self.items))
        if number == len(self.items):
            self.items.append(Item(predicate, formula, column_set(predicate), text))
        elif text < self.items[number].key:
            self.items[number] = Item(predicate, formula, column_set(predicate), text)
        return number

    def _keep_example(self, numbers: tuple[int, ...], sql: str) -> None:
        """Remember the shortest statement that has a filter."""
        known = self.examples.get(numbers)
        if known is None or (not known and sql) or (sql and (len(sql), sql) < (len(known), known)):
            self.examples[numbers] = sql


def _runs_by_time(queries: tuple[LoggedQuery, ...]) -> Iterator[tuple[LoggedQuery, int]]:
    """Runs of queries in the order of time; one that was repeated is spread between its first and last."""
    if not queries or any(query.time is None for query in queries):
        yield from ((query, query.count) for query in queries)
        return
    runs: list[tuple[float, int, int]] = []
    for position, query in enumerate(queries):
        first = query.time or 0.0
        if query.last_time is None or query.count == 1:
            runs.append((first, position, query.count))
            continue
        pieces = min(query.count, MOST_PIECES)
        for piece in range(pieces):
            time = first + (query.last_time - first) * piece / (pieces - 1)
            weight = query.count * (piece + 1) // pieces - query.count * piece // pieces
            runs.append((time, position, weight))
    for _, position, weight in sorted(runs):
        yield queries[position], weight
