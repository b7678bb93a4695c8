"""The load job: a table laid out by its workload, committed as one new version of a Delta table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from sidestep.advisor.layouts.choose import ChosenLayout, Trial
from sidestep.advisor.layouts.column_groups import clearly_cheaper, given_groups
from sidestep.advisor.layouts.hold_out import hold_out
from sidestep.advisor.layouts.replicas import noted_budget
from sidestep.advisor.synopses.choose import RecipeChoice, choose_recipes
from sidestep.advisor.synopses.queries import popular_sets
from sidestep.errors import SidestepError, SidestepWarning, UnsupportedTable
from sidestep.layout.replicas.search import check_budget
from sidestep.spark.advise.column_study import ColumnSource, choose_column_groups, weigh_column_groups, weigh_replicas
from sidestep.spark.advise.log_name import names_in_logs, read_log_of
from sidestep.spark.advise.source import Source, read_source
from sidestep.spark.advise.study import choose_layout
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.log.analyze import LogSource
from sidestep.spark.log.statements import Table
from sidestep.spark.organize.featurize import CheckedFeatures, check_features, no_features
from sidestep.spark.organize.organize import unit_expression
from sidestep.spark.organize.row_ids import NumberedFiles
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import every_grouped_row, groups_session, name_of, resolve
from sidestep.spark.table.chosen import id_of, spec_of, with_value_sets
from sidestep.spark.table.column_groups import create_groups, staged
from sidestep.spark.table.group_optimize import choose_anew, regroup
from sidestep.spark.table.group_table import check_free, check_group_names, new_groups, open_groups, plan_groups
from sidestep.spark.table.reports import LoadReport
from sidestep.spark.table.state import TableState, committed, organize_files, rebuilt_synopses, table_state
from sidestep.store import Location, Snapshot, TableIndex, locate
from sidestep.store.commit.log_entry import has_version
from sidestep.store.commit.transaction import check_writable, with_retries
from sidestep.store.index.grouped_table import read_groups
from sidestep.store.index.index_file import FOLDER, index_folder
from sidestep.store.index.table_index import open_index
from sidestep.store.location import list_files, list_names
from sidestep.store.parquet.row_counts import count_rows
from sidestep.store.parquet.writer import is_block_file
from sidestep.store.sidecars.column_groups import ROW_ID, UNIT
from sidestep.store.sidecars.layout import LayoutSpec, load_features, load_layout
from sidestep.store.snapshots.delta import is_delta
from sidestep.store.snapshots.folder import is_hidden
from sidestep.store.snapshots.groups import has_groups
from sidestep.store.upkeep.false_positives import remember_keeping
from sidestep.synopsis.recipe import Recipe, RecipeText, bytes_of, parse_recipes
from sidestep.workload.features.feature_set import FeatureSet
from sidestep.workload.query import FailureGroup, Workload
from sidestep.workload.table import ColumnUsage, column_usage, table_workload

OPERATION = "OPTIMIZE"
CREATION = "CREATE TABLE AS SELECT"


@dataclass(frozen=True)
class LayoutRequest:
    """What the caller of a load wants of the layout; None where it is to be chosen, or is as it was before."""

    features: FeatureSet | None
    by: str | None
    num_features: int | None
    min_size: int | None
    order: Sequence[str] | None
    unit_rows: int | None
    file_bytes: int | None
    family: str | None
    groups: Sequence[Sequence[str]] | None = None
    storage: float | None = None


@leaves_session_active
def load(
    spark: SparkSession,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    features: FeatureSet | str | os.PathLike[str] | None = None,
    log: LogSource | None = None,
    tables: Mapping[str, Table] | None = None,
    dialect: str | None = None,
    by: str | None = None,
    num_features: int | None = None,
    min_size: int | None = None,
    order: Sequence[str] | None = None,
    unit_rows: int | None = None,
    file_bytes: int | None = None,
    family: str | None = None,
    layout: str | None = None,
    groups: Sequence[Sequence[str]] | None = None,
    storage: float | None = None,
    synopses: RecipeText | None = None,
    budget: int | str | None = None,
    limit: int | str | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Lay a table out so that its queries need read little of it.

    ``source`` is the path, or the name in the catalog, of a folder of Parquet files or a Delta table; the result is a
    Delta table at ``target``, or without one the source itself, if that is a Delta table. Rows that satisfy the same
    features come to lie together in blocks of at least ``min_size`` rows. The features are given, as a set or as the
    path of one, or are worked out from a ``log``; without either, those of an earlier load are used again. ``name`` is
    what the log calls the table, if that is not the name of its folder; ``tables`` has the paths of others that it
    names, and ``dialect`` is its SQL, if that is not Spark's.

    ``by`` cuts the table into units that are laid out one by one: a column or an expression, such as
    ``date_trunc('MONTH', o_orderdate)``. Without it, units are slices of ``unit_rows`` rows. ``order`` names columns
    that blocks are to be narrow in. With a log, what is not given is chosen by what its queries would read of a sample:
    among layouts of several families (sorted, along a Z curve, grouped by features, cut by what queries ask for, …),
    or of the one that ``family`` names; ``by`` or ``order`` make it a layout by features
    (:func:`sidestep.advise` tells what to expect). So are the synopses that columns get beside zone maps: for what the
    log filters and joins on, by a sample of the source, within a ``budget`` of bytes, or else a ``limit`` as in
    :func:`sidestep.index`. Without log and budget they are those that the table had before; columns that ``synopses``
    names get what it says. The old version of the table stays readable; what others append meanwhile stays in the
    table as it is.

    ``layout="gsop"`` puts the columns into groups, each with a row order of its own, which a log decides: a new table
    that :func:`sidestep.read` alone can read. Where no division of the columns serves the queries better than one
    group, the table is laid out as with ``"sop"``, the ordinary way. ``groups`` names the columns of each, if they are
    not to be chosen; what none of them names is a group of its own. With ``layout="auto"``, the later queries of the
    log decide between the best layout of rows and column groups, by what reading would cost them.

    ``layout="gsop-r"`` also stores some cells more than once, where that lets queries read less: within ``storage``
    times the cells of the table, 1.2 say. With a budget of 1 that is ``"gsop"``. With ``storage`` alone, or with
    ``layout="auto"``, later queries decide among rows, column groups and these. A table that is in
    column groups already can be laid out anew in its place, with another log; or be loaded into a table of any layout
    elsewhere.
    """
    if features is not None and log is not None:
        raise SidestepError("Give either features or a log to work them out from, not both.")
    if layout not in (None, "sop", "gsop", "gsop-r", "auto"):
        raise SidestepError(
            f"There is no layout {layout!r}: it is 'sop', rows in blocks, 'gsop', column groups, 'gsop-r', the same "
            "with copies of some cells, or 'auto', what the log's later queries would rather have."
        )
    if groups is not None and layout != "gsop":
        raise SidestepError("groups=… divides the columns into groups: give layout='gsop' with it.")
    layout = _layout_by_storage(layout, storage)
    in_groups = layout in ("gsop", "gsop-r", "auto")
    path = resolve(spark, source)
    root = locate(path)
    if has_groups(root):
        options = {"name": name, "log": log, "tables": tables, "dialect": dialect}
        others: dict[str, Any] = {
            "features": features,
            "by": by,
            "num_features": num_features,
            "min_size": min_size,
            "order": order,
        }
        others |= {"unit_rows": unit_rows, "file_bytes": file_bytes, "family": family, "synopses": synopses}
        others |= {"budget": budget, "limit": limit, "index_dir": index_dir, "groups": groups, "storage": storage}
        if target is None or locate(resolve(spark, target)).canonical == root.canonical:
            return _load_anew(spark, root, in_groups, options, others, Watch(spark.sparkContext, progress))
        options["name"] = name or name_of(source, root)
        return _load_whole_rows(spark, root, target, {**options, **others, "layout": layout, "progress": progress})
    if in_groups:
        refused = {"features": features, "by": by, "num_features": num_features, "order": order, "family": family}
        _check_group_options(str(layout), log=log, target=target, **refused, index_dir=index_dir)
    size = None if budget is None else bytes_of(budget)
    destination = root if target is None else locate(resolve(spark, target))
    if in_groups:
        check_free(destination)
    else:
        _check_target(root, destination)
    given = features if isinstance(features, FeatureSet | None) else FeatureSet.load(features)
    request = LayoutRequest(given, by, num_features, min_size, order, unit_rows, file_bytes, family, groups, storage)
    watch, quiet = Watch(spark.sparkContext, progress), quiet_session(spark)

    failures: tuple[FailureGroup, ...] = ()

    def work() -> LoadReport:
        nonlocal failures
        names = names_in_logs(name, source, root, load_layout(index_folder(root, index_dir)))
        origin = read_source(quiet, source, names[0])
        if in_groups:
            check_group_names(origin)
        if groups is not None and len(given_groups(groups, origin.schema.names)) == 1:
            raise SidestepError("One group of all columns is a table like any other: leave layout='gsop' out.")
        index = open_index(destination, index_dir)
        with watch.stage("analyze"):
            workload, usage = None, None
            if log is not None:
                called, workload = read_log_of(quiet, log, names, origin.schema, tables, dialect)
                origin = replace(origin, name=called)
                usage = column_usage(workload, origin.name)
                failures = workload.not_understood
        notes: list[str] = [] if workload is None else list(workload.notes)
        request_of_groups = GroupsRequest(request, destination, synopses, size, limit)
        if layout in ("gsop", "gsop-r") and workload is not None and usage is not None:
            grouped = _load_groups(quiet, origin, request_of_groups, workload, usage, watch)
            if isinstance(grouped, LoadReport):
                return grouped
            notes.append(grouped)
        with watch.stage("choose"):
            checked, spec, chosen = _choose_spec(quiet, origin, request, index.folder, workload, watch)
        if layout == "auto" and workload is not None and usage is not None and chosen is not None:
            with watch.stage("weigh"):
                better, why = _weigh_groups(origin, spec, workload, chosen, watch, storage)
            notes.append(why)
            if better != "sop":
                if better == "gsop":
                    request_of_groups = replace(request_of_groups, layout=replace(request, storage=None))
                grouped = _load_groups(quiet, origin, request_of_groups, workload, usage, watch, notes)
                if isinstance(grouped, LoadReport):
                    return grouped
        before = index if index.index_files else open_index(root)
        choice = None
        if workload is not None or size is not None or synopses is not None:
            with watch.stage("synopses"):
                arranged = () if chosen is None else chosen.layout.arranged
                choice = _choose_synopses(origin, before, synopses, size, limit, usage, spec.min_size, arranged)
                if chosen is not None:
                    named = () if synopses is None else parse_recipes(synopses, origin.types)
                    choice = replace(choice, recipes=with_value_sets(choice.recipes, chosen.layout.few_valued, named))
        making = rebuilt_synopses(
            origin.snapshot,
            before,
            origin.types,
            spec.min_size,
            None if choice is None else choice.recipes,
            None if usage is None else popular_sets(usage, origin.types),
        )
        snapshot = origin.snapshot if destination.canonical == root.canonical else _new_snapshot(destination, origin)
        state = table_state(quiet, snapshot, index, origin.schema, spec, checked, making)
        return _lay_out(origin, state, choice, chosen, watch, notes)

    return replace(with_retries(work), not_understood=failures)


@dataclass(frozen=True)
class GroupsRequest:
    """What the caller of a load into column groups wants."""

    layout: LayoutRequest
    target: Location
    synopses: RecipeText | None
    budget: int | None
    limit: int | str | None


def _load_whole_rows(
    spark: SparkSession, root: Location, target: str | os.PathLike[str], options: Mapping[str, Any]
) -> LoadReport:
    """Load a table in column groups into another one: its rows are put together in files first."""
    session = groups_session(spark)
    table = open_groups(session, root).table
    rows = every_grouped_row(session, table).drop(UNIT, ROW_ID)
    watch = Watch(spark.sparkContext, options["progress"])
    with staged(session, root, rows, watch) as (_, snapshot):
        first = table.files_of(table.complete[0])
        counts = [
            count_rows([place.child(file.path) for file in files])
            for place, files in ((table.snapshot.root, first), (snapshot.root, snapshot.files))
        ]
        if counts[0] != counts[1]:
            raise SidestepError(f"{root.uri} has {counts[0]:,} rows, and {counts[1]:,} were put together.")
        return load(spark, snapshot.root.uri, target, **options)


def _load_anew(
    spark: SparkSession,
    root: Location,
    in_groups: bool,
    options: Mapping[str, Any],
    others: Mapping[str, object],
    watch: Watch,
) -> LoadReport:
    """Lay a table in column groups out anew, in its place."""
    if not in_groups:
        raise UnsupportedTable(
            f"{root.uri} is in column groups, which a table of another layout cannot take the place of: say where that "
            "is to be, with target=…; or lay it out in column groups again, with layout='gsop' and a log."
        )
    storage: Any = others["storage"]
    _check_group_options("gsop", log=options["log"], target=root, **{**others, "storage": None})
    quiet = quiet_session(spark)
    before = read_groups(root)
    if before is None or not before.snapshot.files:
        raise SidestepError(f"{root.uri} has no rows to lay out.")
    chosen, widths = choose_anew(
        quiet, root, options["name"], options["log"], options["tables"], options["dialect"], watch, storage
    )
    done = regroup(quiet, root, chosen, widths, noted_budget(storage), watch)
    return LoadReport.of_groups(
        root, done.version, before.snapshot, done.made, done.target.making, watch.stages, [chosen.summary]
    )


def _layout_by_storage(layout: str | None, storage: float | None) -> str | None:
    """The layout that is asked for, given how many times the table's cells may be stored."""
    if storage is None:
        if layout == "gsop-r":
            raise SidestepError(
                "layout='gsop-r' stores some cells more than once: say how many times the table's cells may be stored, "
                "with storage=1.2 for a fifth more."
            )
        return layout
    if isinstance(storage, bool) or not isinstance(storage, int | float):
        raise SidestepError(f"storage is a multiple of the table's size, such as 1.2, not {storage!r}.")
    check_budget(storage)
    if layout in ("sop", "gsop"):
        raise SidestepError(
            f"layout={layout!r} stores every cell once, so storage=… has no use: leave it out, or use layout='gsop-r'."
        )
    return layout or "auto"


def _check_group_options(layout: str, *, log: object, target: object, **others: object) -> None:
    """Refuse what column groups cannot do."""
    if log is None:
        raise SidestepError(
            f"Column groups are chosen by a log of queries: give log=…, or leave layout={layout!r} out."
        )
    if target is None:
        raise SidestepError("Column groups are a table of their own: say where it is to be, with target=….")
    for name, value in others.items():
        if value is not None:
            raise SidestepError(f"With layout={layout!r}, each group is arranged by the log: leave {name}=… out.")


def _weigh_groups(
    source: Source,
    spec: LayoutSpec,
    workload: Workload,
    chosen: ChosenLayout,
    watch: Watch,
    storage: float | None = None,
) -> tuple[str, str]:
    """What later queries would rather have: the layout of rows that was chosen, column groups, or these with copies.

    The second is why.
    """
    rows = chosen.trial
    if rows is None:
        return "sop", "Column groups were not weighed: there is nothing to weigh them by."
    held = hold_out(workload, table_workload(workload, source.name))
    total = source.rows.count()
    columns = ColumnSource.of(source, spec, total)
    tried, groups = weigh_column_groups(held.early, held.judges, columns, watch.tell)
    said, copies = "", None
    if storage is not None and storage > 1:
        with_copies, copies, _ = weigh_replicas(held.early, held.judges, columns, storage, watch.tell)
        said = "" if copies is None else _share_of("Copies of cells", copies, rows)
        if copies is None and groups is None:
            return "sop", with_copies.summary
    best = min((one for one in (groups, copies) if one is not None), key=lambda one: one.seconds, default=None)
    if best is None:
        return "sop", tried.summary
    kind = "gsop-r" if best is copies else "gsop"
    better = clearly_cheaper(best.seconds, rows.seconds)
    parts = ([] if groups is None else [_share_of("Column groups", groups, rows)]) + ([said] if said else [])
    verdict = f"{kind} was taken." if better else "That is no clear gain: the table is laid out in rows."
    return kind if better else "sop", " ".join([*parts, verdict])


def _share_of(name: str, trial: Trial, rows: Trial) -> str:
    share = trial.seconds / max(rows.seconds, 1e-9)
    return f"{name} ({trial.detail}) would cost later queries {share:.0%} of what {rows.family} does."


def _load_groups(
    spark: SparkSession,
    source: Source,
    request: GroupsRequest,
    workload: Workload,
    usage: ColumnUsage,
    watch: Watch,
    said: Sequence[str] = (),
) -> LoadReport | str:
    """Load the table into column groups; where one group is best, a sentence that says so."""
    asked = request.layout
    spec = LayoutSpec()
    spec = replace(
        spec,
        min_size=spec.min_size if asked.min_size is None else asked.min_size,
        file_bytes=spec.file_bytes if asked.file_bytes is None else asked.file_bytes,
        log_name=source.name,
    )
    with watch.stage("count"):
        files = NumberedFiles(source.rows)
    if not files.total:
        return "There are no rows to put into column groups: the table is laid out as an ordinary one."
    columns = ColumnSource.of(source, spec, files.total, asked.unit_rows)
    types, unit_rows = columns.types, columns.unit_rows
    with watch.stage("choose"):
        chosen, widths = choose_column_groups(workload, columns, asked.groups, watch.tell, asked.storage)
        if len(chosen.groups) == 1:
            return f"{chosen.summary} The table is laid out as an ordinary one."
        plans = plan_groups(spark, source.schema, chosen, replace(spec, unit_rows=unit_rows))
    before = open_index(source.snapshot.root)
    with watch.stage("synopses"):
        choice = _choose_synopses(source, before, request.synopses, request.budget, request.limit, usage, spec.min_size)
        named = () if request.synopses is None else parse_recipes(request.synopses, source.types)
        few_valued = chosen.groups[0].layout.few_valued
        recipes = with_value_sets(choice.recipes, few_valued, named)
    making = rebuilt_synopses(source.snapshot, before, types, spec.min_size, recipes, popular_sets(usage, source.types))
    target = new_groups(
        spark, source, files, request.target, plans, chosen.filtered, making, unit_rows, noted_budget(asked.storage)
    )
    made, version = create_groups(
        spark,
        files,
        source.snapshot,
        target,
        widths=widths,
        operation=CREATION,
        rates=choice.bounds,
        watch=watch,
    )
    return LoadReport.of_groups(
        request.target, version, source.snapshot, made, making, watch.stages, [*said, chosen.summary, *choice.notes]
    )


def _check_target(source: Location, target: Location) -> None:
    if target.canonical == source.canonical:
        if not is_delta(source):
            raise SidestepError(
                f"{source.uri} is not a Delta table, so it can't be replaced in one step: say where the laid-out "
                "table is to be, with target=…."
            )
        check_writable(source)
    elif any(name != FOLDER for name in list_names(target)) and not _was_cut_short(target):
        raise SidestepError(f"There is something at {target.uri} already: give a folder that is empty or not there.")


def _was_cut_short(target: Location) -> bool:
    """Whether all there is in a folder is what a load into a new table leaves that never came to its commit.

    Its files are then no one's, and become ``vacuum``'s.
    """
    if not is_delta(target) or has_version(target):
        return False
    return all(is_block_file(status.path) for status in list_files(target, is_hidden))


def _choose_synopses(
    source: Source,
    before: TableIndex,
    synopses: RecipeText | None,
    budget: int | None,
    limit: int | str | None,
    usage: ColumnUsage | None,
    min_size: int,
    arranged: Collection[str] = (),
) -> RecipeChoice:
    """What columns get beside zone maps: by the rows as they come, in blocks of the size to be.

    Where they come to lie is not known yet. Partitions that the new table does not have are not told apart. Without a
    log and a budget, columns that are not named keep what they had.
    """
    snapshot = source.snapshot
    if not source.partition_columns:
        files = tuple(replace(file, partition=()) for file in snapshot.files)
        snapshot = replace(snapshot, files=files, partition_columns=())
    kept = None
    if usage is None and budget is None:
        kept = {name: before.recipes.get(name, Recipe()) for name in source.types}
    return choose_recipes(
        snapshot,
        source.types,
        synopses=synopses,
        budget=budget,
        limit=limit,
        arranged=arranged,
        asked=usage,
        kept=kept,
        block_rows=min_size,
    )


def _choose_spec(
    spark: SparkSession,
    source: Source,
    request: LayoutRequest,
    folder: Location,
    workload: Workload | None,
    watch: Watch,
) -> tuple[CheckedFeatures, LayoutSpec, ChosenLayout | None]:
    """The features that can be used, and the layout: as requested, else as the log has it, else as it was before."""
    before = load_layout(folder) or LayoutSpec()
    spec = LayoutSpec(
        by=before.by if request.by is None else request.by,
        min_size=before.min_size if request.min_size is None else request.min_size,
        order=before.order if request.order is None else tuple(request.order),
        unit_rows=before.unit_rows if request.unit_rows is None else request.unit_rows,
        file_bytes=before.file_bytes if request.file_bytes is None else request.file_bytes,
        buckets=before.buckets,
        demands=before.demands,
        demands_of=before.demands_of,
        tree=before.tree if request.by is None else None,
        page_order=before.page_order,
        page_share=before.page_share,
        log_name=before.log_name,
        tree_units=before.tree_units if request.by is None else (0,),
        source=before.source if request.by is None else "",
    )
    for column in spec.order:
        _check_order(source, column)
    if spec.by is not None:
        unit_expression(source.rows, spec)
    if workload is not None:
        return _choose_by_log(spark, source, request, spec, workload, watch)
    features = _choose_features(request, folder, before)
    if features is None:
        return no_features(source.name), spec, None
    checked = check_features(spark, features, source.schema)
    return checked, replace(spec, features=id_of(checked)), None


def _choose_by_log(
    spark: SparkSession, source: Source, request: LayoutRequest, spec: LayoutSpec, workload: Workload, watch: Watch
) -> tuple[CheckedFeatures, LayoutSpec, ChosenLayout]:
    chosen = choose_layout(
        workload,
        source.name,
        source.rows,
        source.types,
        by=request.by,
        num_features=request.num_features,
        min_size=spec.min_size,
        order=request.order,
        family=request.family,
        unit_rows=spec.unit_rows,
        file_bytes=spec.file_bytes,
        source_bytes=source.snapshot.bytes,
        partition_columns=source.partition_columns,
        tell=watch.tell,
    )
    checked = check_features(spark, chosen.layout.features, source.schema)
    return checked, replace(spec_of(chosen, checked, spec), log_name=source.name), chosen


def _choose_features(request: LayoutRequest, folder: Location, before: LayoutSpec) -> FeatureSet | None:
    """The features as given, else those of the layout before."""
    features = request.features
    if features is None and before.features is not None:
        features = load_features(folder, before.features)
    if features is not None and request.num_features is not None:
        features = replace(features, features=features.features[: request.num_features])
    return features


def _check_order(source: Source, column: str) -> None:
    if column not in source.schema.names:
        raise SidestepError(
            f"There is no column {column} to order by in {source.path}; it has {', '.join(source.schema.names)}."
        )
    kind = source.schema[column].dataType.typeName()
    if kind in ("map", "variant"):
        raise SidestepError(f"Column {column} of {source.path} is a {kind}, which has no order: leave it out of order.")


def _new_snapshot(root: Location, source: Source) -> Snapshot:
    """The table that is to be created: without a version, and without files."""
    return Snapshot(root, "delta", None, (), source.partition_columns, source.schema.json())


def _lay_out(
    source: Source,
    state: TableState,
    choice: RecipeChoice | None,
    chosen: ChosenLayout | None,
    watch: Watch,
    said: Sequence[str] = (),
) -> LoadReport:
    in_place = state.snapshot.version is not None
    organized, commit = organize_files(
        state,
        source.rows,
        state.snapshot.files,
        source=source.snapshot,
        operation=OPERATION if in_place else CREATION,
        data_change=not in_place,
        watch=watch,
        layout=state.spec,
        rates=None if choice is None else choice.bounds,
    )
    if 0 < organized.rows < state.spec.min_size:
        warnings.warn(
            f"{state.root.uri} has {organized.rows:,} rows, fewer than one block of min_size={state.spec.min_size:,}: "
            "queries can skip units, but nothing within one. A smaller min_size would change that.",
            SidestepWarning,
            stacklevel=4,
        )
    if choice is not None:
        with committed(state, commit.version, "what its synopses keep could not be noted"):
            remember_keeping(commit.index, [file.data_file for file in organized.files], choice.tried)
    notes = [*said, *([] if chosen is None else [chosen.summary]), *([] if choice is None else choice.notes)]
    return LoadReport.of(state, commit.version, source.snapshot, organized, watch.stages, notes)
