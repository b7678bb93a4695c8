"""``sidestep.advise``: what a log's queries would read of a table under other layouts, before anything is rewritten."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from sidestep.advisor.layouts.advice import Advice, Estimate
from sidestep.advisor.layouts.choose import ChosenLayout, LayoutChoice, Study, choose_from_study, feature_formulas
from sidestep.advisor.layouts.sample import SEED, RowNumbers
from sidestep.advisor.layouts.trial import (
    Blocks,
    Shares,
    by_features,
    by_order,
    by_unit,
    by_z_order,
    shares_read,
    without_bias,
)
from sidestep.predicate import Formula, normalize
from sidestep.predicate.formula import all_of
from sidestep.spark.advise.source import Source, read_source
from sidestep.spark.advise.study import SAMPLE_ROWS, draw_study
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.log.analyze import LogSource, read_workload
from sidestep.spark.log.statements import Table
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import name_of, resolve
from sidestep.store import locate
from sidestep.store.index.table_index import open_index
from sidestep.synopsis import kept_blocks
from sidestep.workload import Workload

HELD_OUT = 0.25
"""The last part of a log, by which layouts are judged that were chosen by what came before."""
FEWEST_HELD_OUT = 20
Z_COLUMNS = (2, 3, 4)
MOST_JUDGED = 400


@dataclass(frozen=True, slots=True)
class Judged:
    """A query by which layouts are judged."""

    formula: Formula
    columns: frozenset[str]
    weight: int


@leaves_session_active
def advise(
    spark: SparkSession,
    log: LogSource,
    table: str | os.PathLike[str],
    *,
    name: str | None = None,
    tables: Mapping[str, Table] | None = None,
    dialect: str | None = None,
    by: str | None = None,
    num_features: int | None = None,
    min_size: int | None = None,
    sample_rows: int = SAMPLE_ROWS,
    test_log: LogSource | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Estimate what the queries of a log would read under other layouts; nothing is written.

    ``table`` is a path, or a name in the catalog, and ``name`` what the log calls it; ``tables`` has the paths of
    others that it names, and ``dialect`` is its SQL, if that is not Spark's. A sample of rows is drawn, and
    the layouts are made of it: the table as it is, range partitioned, sorted, Z-ordered, and laid out by the workload.
    The queries of ``test_log`` judge them; without one, the last quarter of the log does, with features chosen by the
    queries before it. The choice that is reported for a load is by the whole log.
    """
    path = resolve(spark, table)
    called = name or name_of(table, locate(path))
    source = read_source(spark, path, called)
    named = {**(tables or {}), called: source.schema}
    watch = Watch(spark.sparkContext, progress)
    with watch.stage("analyze"):
        workload = read_workload(spark, log, named, dialect)
        later = None if test_log is None else read_workload(spark, test_log, named, dialect)
    with watch.stage("sample"):
        study = draw_study(
            workload,
            called,
            source.rows,
            source.types,
            by=by,
            min_size=min_size,
            sample_rows=sample_rows,
            partition_columns=source.partition_columns,
        )
    with watch.stage("choose"):
        chosen = choose_from_study(study, num_features=num_features)
        past, judged, judged_by = _split_log(study, workload, later, called)
        like, count = chosen.layout, max(1, len(chosen.layout.features))
        before = chosen if past is None else choose_from_study(study, num_features=count, weights=past, like=like)
    with watch.stage("estimate"):
        today = _read_today(source, index_dir, judged)
        estimates = _estimate_layouts(study, before, judged, today)
    return Advice(
        called,
        chosen.layout,
        estimates,
        sum(one.weight for one in judged),
        judged_by,
        len(study.drawn.sample),
        study.drawn.sample.rows,
        _command(table, log, chosen.layout, source),
    )


def _split_log(
    study: Study, workload: Workload, later: Workload | None, table: str
) -> tuple[npt.NDArray[np.int64] | None, list[Judged], str]:
    """The weights of the queries to choose by (None for all), and those to judge by."""
    if later is not None:
        return None, judged_queries(later, table), "those of the test log"
    total = study.table.total
    if total * HELD_OUT < FEWEST_HELD_OUT:
        return None, judged_queries(workload, table), "the log's own"
    passed = np.cumsum([scan.weight for scan in study.table.scans])
    first = int(np.searchsorted(passed, total * (1 - HELD_OUT)))
    past = study.table.weights_of(study.table.scans[:first])
    held: Counter[int] = Counter()
    for scan in study.table.scans[first:]:
        held[scan.filter] += scan.weight
    columns = _columns_of_filters(workload, table)
    judged = [
        Judged(all_of(study.table.items[item].formula for item in study.table.filters[at]), columns, weight)
        for at, weight in held.most_common(MOST_JUDGED)
    ]
    return past, judged, "the log's last quarter"


def judged_queries(workload: Workload, table: str) -> list[Judged]:
    """The distinct scans of a table that a workload has, the most frequent ones."""
    counts: Counter[tuple[Formula, frozenset[str]]] = Counter()
    for query in workload.queries:
        for use in query.uses:
            if use.table == table:
                counts[all_of(normalize(predicate) for predicate in use.predicates), use.columns] += query.count
    return [Judged(formula, columns, weight) for (formula, columns), weight in counts.most_common(MOST_JUDGED)]


def _columns_of_filters(workload: Workload, table: str) -> frozenset[str]:
    """The columns that queries on the table read, all together."""
    return frozenset().union(*(use.columns for query in workload.queries for use in query.uses if use.table == table))


def _estimate_layouts(
    study: Study, chosen: ChosenLayout, judged: Sequence[Judged], today: tuple[Shares, str] | None
) -> tuple[Estimate, ...]:
    choice, formulas = chosen.layout, [one.formula for one in judged]
    columns, features = most_filtered(study), feature_formulas(choice.features)

    def shares_of(rows: RowNumbers) -> dict[str, tuple[Shares, str]]:
        sample, words = study.drawn.sample.take(rows), chosen.words[rows]
        block = sample.rows_for(choice.min_size)
        bucketed = sample if choice.buckets else replace(sample, buckets={})
        units, first = choice.by or "slices", columns[:1]
        curves = {", ".join(columns[:count]): columns[:count] for count in Z_COLUMNS if columns}
        layouts = [
            ("today", "by file: the table has no index", by_file(study.drawn.file[rows])),
            ("range", f"by {units}", by_unit(sample, (), block)),
            ("sorted", f"by {', '.join(first) or 'nothing'}", by_order(sample, first, block)),
            *(("z-order", f"on {text}", by_z_order(sample, named, block)) for text, named in curves.items()),
        ]
        best: dict[str, tuple[Shares, str]] = {}
        for name, detail, blocks in layouts:
            shares = shares_read(sample, blocks, formulas)
            if name not in best or _mean(shares, judged) < _mean(best[name][0], judged):
                best[name] = shares, detail
        grouped = by_features(bucketed, words, choice.demands, choice.order, block)
        detail = f"{len(choice.features)} features, by {units}"
        return best | {"sop": (shares_read(sample, grouped, formulas, features, words), detail)}

    everything = np.arange(len(study.drawn.sample))
    whole, half = shares_of(everything), shares_of(half_of(everything))
    shares = {name: (without_bias(each, half[name][0]), detail) for name, (each, detail) in whole.items()}
    if today is not None:
        shares["today"] = today
    return tuple(
        Estimate(name, _mean(each, judged), _bytes(each, judged, study.drawn.widths), detail)
        for name, (each, detail) in shares.items()
    )


def by_file(file: RowNumbers) -> Blocks:
    """The table as its files have it."""
    sizes = np.bincount(file)
    return Blocks(np.argsort(file, kind="stable"), sizes[sizes > 0].astype(np.int64))


def half_of(rows: RowNumbers) -> RowNumbers:
    """Half of the rows, by chance."""
    chosen = np.random.default_rng(SEED).permutation(len(rows))[: -(-len(rows) // 2)]
    return np.asarray(rows[np.sort(chosen)])


def most_filtered(study: Study) -> tuple[str, ...]:
    """The columns that most of the workload's queries compare with constants, those of time among them."""
    counted: Counter[str] = Counter()
    table = study.table
    for at, numbers in enumerate(table.filters):
        alone = {next(iter(c)).name for n in numbers if len(c := table.items[n].columns) == 1}
        counted.update({name: int(table.weights[at]) for name in alone if name in study.drawn.sample.types})
    return tuple(name for name, _ in sorted(counted.items(), key=lambda one: (-one[1], one[0])))


def _read_today(
    source: Source, index_dir: str | os.PathLike[str] | None, judged: Sequence[Judged]
) -> tuple[Shares, str] | None:
    """What the queries read now, by the table's index; None if it has none that knows all its files."""
    index = open_index(source.path, index_dir)
    positions = index.positions(source.snapshot.files)
    if len(positions) == 0 or (positions < 0).any():
        return None
    present = np.zeros(len(index.files), np.bool_)
    present[positions] = True
    catalog = index.catalog(source.types)
    mine = present[catalog.file_of_block]
    total = max(1, int(catalog.rows[mine].sum()))
    shares = [catalog.rows[mine & kept_blocks(catalog, one.formula)].sum() / total for one in judged]
    return np.array(shares, np.float64), "by its index"


def _mean(shares: Shares, judged: Sequence[Judged]) -> float:
    return float(np.average(shares, weights=[one.weight for one in judged])) if judged else 0.0


def _bytes(shares: Shares, judged: Sequence[Judged], widths: Mapping[str, float]) -> float:
    """The share of bytes, in memory, of the columns that each query reads."""
    weights = [one.weight * sum(widths.get(name, 0.0) for name in one.columns) for one in judged]
    return float(np.average(shares, weights=weights)) if any(weights) else _mean(shares, judged)


def _command(table: str | os.PathLike[str], log: LogSource, choice: LayoutChoice, source: Source) -> str:
    in_place = source.snapshot.format == "delta"
    words = ["sidestep", "load", source.name, *([] if in_place else [f"{source.path.rstrip('/')}_laid"])]
    path = os.fspath(log) if isinstance(log, str | os.PathLike) else "LOG"
    words += ["-t", f"{source.name}={os.fspath(table)}", "--log", path, "--min-size", str(choice.min_size)]
    words += ["--num-features", str(max(1, len(choice.features)))]
    words += ["--by", choice.by] if choice.by else []
    for column in choice.order:
        words += ["--order", column]
    return shlex.join(words)
