"""``sidestep.advise``: what a log's queries would read of a table under other layouts, before anything is rewritten."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from pyspark.sql import SparkSession

from sidestep.advisor.layouts.advice import Advice, Estimate
from sidestep.advisor.layouts.choose import Judges, LayoutChoice, Study, choose_from_study, widths_of
from sidestep.advisor.layouts.hold_out import hold_out
from sidestep.advisor.layouts.replicas import CURVE
from sidestep.advisor.trials.cost import Reading, reading
from sidestep.advisor.trials.trial import Blocks, catalog_of
from sidestep.layout.replicas.search import check_budget
from sidestep.spark.advise.column_study import ColumnSource, weigh_column_groups, weigh_replicas
from sidestep.spark.advise.log_name import names_in_logs, read_log_of
from sidestep.spark.advise.source import Source, read_source
from sidestep.spark.advise.study import draw_study
from sidestep.spark.advise.today import read_today
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.log.analyze import LogSource, read_workload
from sidestep.spark.log.statements import Table
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import resolve
from sidestep.store import index_folder, locate
from sidestep.store.index.table_index import open_index
from sidestep.store.sidecars.layout import LayoutSpec, load_layout
from sidestep.synopsis import kept_blocks


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
    family: str | None = None,
    sample_rows: int | None = None,
    storage: float | None = None,
    test_log: LogSource | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Estimate what the queries of a log would read under other layouts; nothing is written.

    ``table`` is a path, or a name in the catalog, and ``name`` what the log calls it; ``tables`` has the paths of
    others that it names, and ``dialect`` is its SQL, if that is not Spark's. A sample of rows is drawn, and layouts of
    each family are made of it: the table as it is, sorted, along a Z curve, grouped by features, cut by what queries
    ask for, and both together; with ``family``, of that one alone. Unless one of these is asked for, column groups are
    weighed too; and with ``storage``, column groups with copies of some cells, within so many times the table's cells
    and with less. The queries of ``test_log`` judge them; without one, the last two fifths of the log do, with layouts
    made from the queries before. The choice that is reported for a load is by the whole log.
    """
    if storage is not None:
        check_budget(storage)
    path = resolve(spark, table)
    spec = load_layout(index_folder(locate(path), index_dir))
    names = names_in_logs(name, table, locate(path), spec)
    source = read_source(spark, table, names[0])
    watch = Watch(spark.sparkContext, progress)
    with watch.stage("analyze"):
        called, workload = read_log_of(spark, log, names, source.schema, tables, dialect)
        source = replace(source, name=called)
        later = None
        if test_log is not None:
            later = read_workload(spark, test_log, {**(tables or {}), called: source.schema}, dialect)
    with watch.stage("sample"):
        study = draw_study(
            workload,
            called,
            source.rows,
            source.types,
            by=by,
            min_size=min_size,
            sample_rows=sample_rows,
            source_bytes=source.snapshot.bytes,
            partition_columns=source.partition_columns,
        )
    given = {"by": by, "num_features": num_features, "family": family}
    with watch.stage("choose"):
        held = hold_out(workload, study.table, later)
        chosen = choose_from_study(
            study, num_features=num_features, family=family, judges=held.judges, past=held.past, tell=watch.tell
        )
        weighed, copied = None, None
        if all(value is None for value in given.values()):
            spec = LayoutSpec(min_size=study.min_size)
            groups_of = ColumnSource.of(source, spec, study.drawn.sample.rows)
            weighed = weigh_column_groups(held.early, held.judges, groups_of, watch.tell)
            if storage is not None:
                budgets = [*(each for each in CURVE if each < storage), storage]
                copied = weigh_replicas(held.early, held.judges, groups_of, storage, watch.tell, curve=budgets)
    with watch.stage("estimate"):
        today = _read_today(source, index_dir, study, held.judges)
    trials = [*chosen.trials, *([] if weighed is None or weighed[1] is None else [weighed[1]])]
    trials += [] if copied is None or copied[1] is None else [copied[1]]
    return Advice(
        called,
        chosen.layout,
        (today, *(Estimate(one.family, one.rows, one.bytes, one.files, one.seconds, one.detail) for one in trials)),
        chosen.judging,
        chosen.judged_by,
        len(study.drawn.sample),
        study.drawn.sample.rows,
        _command(table, log, chosen.layout, source, given),
        None if weighed is None else tuple(group.columns for group in weighed[0].groups),
        _command(table, log, chosen.layout, source, {"layout": "gsop"}, in_place=False),
        () if copied is None else copied[2],
        _command(table, log, chosen.layout, source, {"layout": "gsop-r", "storage": storage}, in_place=False),
        workload.notes,
        workload.not_understood,
    )


def _read_today(source: Source, index_dir: str | os.PathLike[str] | None, study: Study, judges: Judges) -> Estimate:
    """What the queries read now: by the table's index if it has one that knows all its files, else by file."""
    index = open_index(source.path, index_dir)
    positions = index.positions(source.snapshot.files)
    if len(positions) == 0 or (positions < 0).any():
        return judge_files(study, judges)
    today = read_today(source, index, judges.formulas)
    files = np.array([today.catalog.files_kept(each).sum() for each in today.kept], np.float64)
    groups = today.kept.sum(axis=1).astype(np.float64)
    read = Reading(today.kept @ today.rows / today.total, files, groups, int(today.present.sum()))
    return _estimate("by its index", read, study, judges)


def judge_files(study: Study, judges: Judges) -> Estimate:
    """What queries read of the table's files by the least and greatest values of each file."""
    file = study.drawn.file
    sizes = np.bincount(file)
    blocks = Blocks(np.argsort(file, kind="stable"), sizes[sizes > 0].astype(np.int64))
    catalog = catalog_of(study.drawn.sample, blocks)
    kept = np.array([kept_blocks(catalog, formula) for formula in judges.formulas], np.bool_)
    read = reading(blocks, np.arange(len(blocks)), kept.reshape(len(judges.formulas), len(blocks)))
    return _estimate("by file: the table has no index", read, study, judges)


def _estimate(detail: str, read: Reading, study: Study, judges: Judges) -> Estimate:
    if not len(read.rows):
        return Estimate("today", 0.0, 0.0, 0.0, 0.0, detail)
    width = widths_of(study, judges)
    return Estimate(
        "today",
        float(np.average(read.rows, weights=judges.weights)),
        float(np.average(read.rows, weights=judges.weights * width)),
        float(np.average(read.files / max(1, read.total_files), weights=judges.weights)),
        float(np.average(read.seconds(study.drawn.sample.rows, width), weights=judges.weights)),
        detail,
    )


def _command(
    table: str | os.PathLike[str],
    log: LogSource,
    choice: LayoutChoice,
    source: Source,
    given: Mapping[str, object],
    *,
    in_place: bool = True,
) -> str:
    """The command that makes the layout: a load chooses the same, so only what was given is said again."""
    in_place = in_place and source.snapshot.format == "delta"
    words = ["sidestep", "load", source.name, *([] if in_place else [f"{source.path.rstrip('/')}_laid"])]
    path = os.fspath(log) if isinstance(log, str | os.PathLike) else "LOG"
    words += ["-t", f"{source.name}={os.fspath(table)}", "--log", path, "--min-size", str(choice.min_size)]
    for name, value in given.items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)
