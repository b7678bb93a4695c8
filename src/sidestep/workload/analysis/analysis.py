"""The analysis of a workload: what it asks, which features it gives, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from sidestep.errors import SidestepError
from sidestep.predicate import sql
from sidestep.render import counted, shorten
from sidestep.render.document import Details, Grid, Heading, Paragraph, Part, number
from sidestep.render.report import Report
from sidestep.workload.features.extract import AugmentedWorkload, ExtractOptions, augment, extract_features
from sidestep.workload.features.feature_set import FeatureSet
from sidestep.workload.features.mining import Miner, closed_sets
from sidestep.workload.features.quality import Curve, commonality, coverage, stability, subsumed_filters
from sidestep.workload.features.tune import TunedParameters, tune_parameters
from sidestep.workload.query import FailureGroup, Workload, failures_table
from sidestep.workload.table import TableWorkload, table_workload, tables_of

MOST_EXAMPLES = 3
MOST_REASONS = 20
SHOWN_TABLES, SHOWN_FEATURES, SHOWN_EXAMPLES, SHOWN_TEXT = 10, 25, 2, 160
"""What a report shows: tables in full, features of each, statements of each feature, and characters of a statement;
``to_dict`` has all."""


@dataclass(frozen=True, slots=True)
class SubsumedQueries:
    """The queries that one feature subsumes, by their most frequent filters."""

    filters: int
    """How many distinct ones."""
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableAnalysis(Report):
    """What the log says of one table."""

    table: str
    scans: int
    filtered: int
    """Scans with a filter that some row can satisfy: what all shares are shares of."""
    unfiltered: int
    empty: int
    """Scans whose predicates contradict each other."""
    distinct_filters: int
    distinct_predicates: int
    refused: dict[str, int]
    """Distinct predicates that may not become features, by reason."""
    features: FeatureSet
    subsumed: tuple[SubsumedQueries, ...]
    """For each feature."""
    commonality: Curve
    stability: Curve
    coverage: Curve
    """Of this workload, by number of features; beyond those chosen, by those that would come next."""
    choice: TunedParameters | None = None
    """How the number of features and the threshold were found, if they were not given."""
    augmented: AugmentedWorkload | None = field(default=None, compare=False, repr=False)
    """The queries themselves, for features to be selected from them once more."""
    options: ExtractOptions = field(default_factory=ExtractOptions, compare=False, repr=False)

    def select(self, num_features: int | None = None, threshold: int | None = None) -> TableAnalysis:
        """The same queries with another number of features or another threshold, which takes no second look at the log.

        What is not given stays as it is.
        """
        if self.augmented is None:
            raise SidestepError("This analysis has been parted from its queries: analyze the log again.")
        options = replace(
            self.options,
            num_features=len(self.features) or self.options.num_features if num_features is None else num_features,
            threshold=self.features.threshold or None if threshold is None else threshold,
        )
        return replace(self, options=options, choice=None, **_select(self.augmented, options, closed_sets))

    @property
    def curves(self) -> dict[str, Curve]:
        """How predictable the queries are, and how much of them features serve."""
        return {curve.name: curve for curve in (self.commonality, self.stability, self.coverage)}

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return _table_to_json(self)

    def _document(self) -> Iterator[Part]:
        yield Paragraph(
            f"{self.scans:,} scans: {self.filtered:,} with a filter, {self.unfiltered:,} without, "
            f"{self.empty:,} that no row can satisfy\n"
            f"{self.distinct_filters:,} distinct filters of {self.distinct_predicates:,} distinct predicates"
        )
        if self.refused:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.refused.items())
            yield Paragraph(f"predicates that may not become features: {reasons}")
        for note in self.notes:
            yield Paragraph(note, "warn")
        if self.choice is not None:
            chosen = f"{self.choice.num_features} features, T = {self.choice.threshold:,}"
            yield Paragraph(f"chosen by cross-validation over time: {chosen}")
        if len(self.features):
            examples = [
                (
                    counted(one.filters, "distinct filter"),
                    tuple(shorten(text, SHOWN_TEXT) for text in one.examples[:SHOWN_EXAMPLES]),
                )
                for one in self.subsumed
            ]
            yield self.features.table_of(examples, SHOWN_FEATURES)
            if (left := len(self.features) - SHOWN_FEATURES) > 0:
                yield Paragraph(f"and {left:,} more", "dim")
            yield Paragraph(
                f"together they subsume {self.features.coverage:.1%} of the queries with a filter "
                f"(T = {self.features.threshold:,})"
            )
        for curve in (self.commonality, self.stability, self.coverage):
            if len(curve.points) > 1:
                yield curve.plot

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before the numbers."""
        notes = []
        if not self.filtered:
            notes.append(f"No query filters {self.table}: there is nothing to learn features from.")
        elif not len(self.features):
            reasons = ", ".join(f"{reason} ({count})" for reason, count in self.refused.items())
            why = f"; predicates left out: {reasons}" if reasons else ""
            notes.append(f"No predicate set subsumes {self.features.threshold:,} or more queries{why}.")
        if self.empty:
            notes.append(f"{self.empty:,} scans have predicates that contradict each other, and count for nothing.")
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class Analysis(Report):
    """The analysis of a whole log."""

    queries: int
    failures: int
    not_understood: tuple[FailureGroup, ...]
    """Why statements were not understood, most frequent first."""
    tables: tuple[TableAnalysis, ...]

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """The reasons, each with how many statements."""
        return tuple((group.reason, group.count) for group in self.not_understood)

    def _document(self) -> Iterator[Part]:
        yield Paragraph(f"{self.queries:,} queries understood, {self.failures:,} statements not", "strong")
        if self.not_understood:
            many = counted(self.failures, "statement")
            yield Details(f"Why {many} could not be understood, and what to do", (failures_table(self.not_understood),))
        for table in self.tables[:SHOWN_TABLES]:
            yield Heading(table.table)
            yield from table._document()
        if left := self.tables[SHOWN_TABLES:]:
            yield Heading("Further tables")
            rows = [[one.table, f"{one.scans:,}", f"{one.filtered:,}", f"{len(one.features):,}"] for one in left]
            yield Grid(("table", number("scans"), number("with a filter"), number("features")), rows)

    def table(self, name: str) -> TableAnalysis:
        """One table's part."""
        for table in self.tables:
            if table.table == name:
                return table
        raise SidestepError(f"The analysis has no table {name}; it has {', '.join(t.table for t in self.tables)}.")


def analyze(
    workload: Workload,
    tables: Iterable[str] | None = None,
    options: ExtractOptions | None = None,
    miner: Miner = closed_sets,
    tune: bool = False,
) -> Analysis:
    """Analyze a workload for the tables named, or for all that its queries read.

    With ``tune`` the number of features and the threshold are chosen by cross-validation over time where the log is
    long enough; a threshold that the options give is kept.
    """
    if not workload.queries and not workload.failures:
        raise SidestepError("The log is empty: there are no queries to analyze.")
    if not workload.queries:
        first = workload.failures[0]
        raise SidestepError(
            f"None of the log's {len(workload.failures):,} statements could be understood. The first, "
            f"{first.statement.source or first.statement.sql[:80]!r}: {first.reason}"
            + (f" ({first.hint})" if first.hint else "")
        )
    names = list(tables_of(workload)) if tables is None else list(tables)
    if not names:
        raise SidestepError("The log's queries read no table that is known: name its tables and where they are.")
    chosen = options or ExtractOptions()
    return Analysis(
        queries=sum(query.count for query in workload.queries),
        failures=sum(failure.statement.count for failure in workload.failures),
        not_understood=workload.not_understood[:MOST_REASONS],
        tables=tuple(analyze_table(table_workload(workload, name), chosen, miner, tune) for name in names),
    )


def analyze_table(
    workload: TableWorkload, options: ExtractOptions | None = None, miner: Miner = closed_sets, tune: bool = False
) -> TableAnalysis:
    """Analyze one table's part of a workload."""
    chosen = options or ExtractOptions()
    augmented = augment(workload, chosen)
    choice = tune_parameters(augmented, chosen, miner) if tune and chosen.threshold is None else None
    if choice is not None:
        chosen = choice.apply_to(chosen)
    return TableAnalysis(
        table=workload.table,
        scans=workload.total + workload.unfiltered + workload.empty,
        filtered=workload.total,
        unfiltered=workload.unfiltered,
        empty=workload.empty,
        distinct_filters=len(workload.filters),
        distinct_predicates=len(workload.items),
        refused=augmented.refused,
        commonality=commonality(augmented),
        stability=stability(augmented),
        choice=choice,
        augmented=augmented,
        options=chosen,
        **_select(augmented, chosen, miner),
    )


def _select(augmented: AugmentedWorkload, options: ExtractOptions, miner: Miner) -> dict[str, Any]:
    """The parts of an analysis that the number of features and the threshold decide."""
    more = extract_features(augmented, replace(options, num_features=max(40, 2 * options.num_features)), miner)
    features = extract_features(augmented, options, miner)
    return {
        "features": features,
        "subsumed": _subsumed_queries(augmented, features),
        "coverage": coverage(augmented.workload, more.features),
    }


def _subsumed_queries(augmented: AugmentedWorkload, features: FeatureSet) -> tuple[SubsumedQueries, ...]:
    workload = augmented.workload
    subsumed = []
    for row in subsumed_filters(workload, features.features):
        filters = sorted(map(int, np.flatnonzero(row)), key=lambda at: (-int(workload.weights[at]), at))
        subsumed.append(SubsumedQueries(len(filters), tuple(_example(workload, at) for at in filters[:MOST_EXAMPLES])))
    return tuple(subsumed)


def _example(workload: TableWorkload, at: int) -> str:
    """A statement with the filter; where the log keeps none, the filter itself."""
    text = " AND ".join(sql(workload.items[number].predicate) for number in workload.filters[at])
    return " ".join((workload.examples[at] or text).split())[:500]


def to_json(analysis: Analysis) -> dict[str, Any]:
    """The analysis as plain data."""
    return {
        "queries": analysis.queries,
        "failures": analysis.failures,
        "reasons": [asdict(group) for group in analysis.not_understood],
        "tables": [_table_to_json(table) for table in analysis.tables],
    }


def _table_to_json(table: TableAnalysis) -> dict[str, Any]:
    counts = ("scans", "filtered", "unfiltered", "empty", "distinct_filters", "distinct_predicates", "refused")
    listed = [
        {
            "feature": str(feature),
            "weight": feature.weight,
            "additional": feature.additional,
            "filters": subsumed.filters,
            "examples": list(subsumed.examples),
        }
        for feature, subsumed in zip(table.features.features, table.subsumed, strict=True)
    ]
    curves = {
        name: [list(point) for point in getattr(table, name).points]
        for name in ("commonality", "stability", "coverage")
    }
    return {
        "table": table.table,
        **{name: getattr(table, name) for name in counts},
        "notes": list(table.notes),
        "features": listed,
        "feature_set": table.features.to_json(),
        "curves": curves,
        "choice": None if table.choice is None else asdict(table.choice),
    }
