"""Explaining a query: what each of its scans would read, what was skipped and by what, and what could not be used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sidestep.errors import SidestepError
from sidestep.predicate.nodes import Column
from sidestep.predicate.text import sql
from sidestep.prune import Query, Scan, ScanFilter, scan_filters
from sidestep.prune.analysis import StageReport
from sidestep.prune.dips.induced import Induced
from sidestep.prune.dips.model import Dip
from sidestep.prune.explain.drawing import labels
from sidestep.prune.explain.explanation import Amounts, Explanation, GroupReport, Reason, ScanReport, put_together
from sidestep.prune.explain.scan_blocks import INDUCED, SELECTOR, SkipReason, join_blocks
from sidestep.prune.plan.algebra import Other, walk
from sidestep.render import counted
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.jvm.sessions import active_session
from sidestep.spark.jvm.wire import ScanCoverage, unpack_scan_coverage
from sidestep.spark.rule.block_proofs import DELTA_LISTING, ICEBERG_METADATA, SPARK_PARTITIONS, BlockReasons
from sidestep.spark.rule.indexes import OpenIndex
from sidestep.spark.rule.metrics import read_selectors
from sidestep.spark.rule.planner import PlannedQuery, ScanDecision, index_keys
from sidestep.spark.rule.session import Enabled, session_at_hand, state_of
from sidestep.spark.rule.settings import DENORMALIZED_STAGE, session_settings
from sidestep.store import Location, index_folder, load_features, locate
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, ColumnGroups, inner_table
from sidestep.synopsis import Mask, explain_skips


def explain(query: DataFrame | str, spark: SparkSession | None = None) -> Explanation:
    """What sidestep does for a query, given as a DataFrame or as SQL, without running it.

    ``explain(…).blocks`` tells of each block of each scan whether it is read, or what rules it out. Of a DataFrame that
    has run before, it also has what was chosen when it ran.
    """
    if isinstance(query, DataFrame):
        spark = query.sparkSession
    elif spark is None:
        spark = session_at_hand()
        if spark is None:
            raise SidestepError("There is no active Spark session to explain this SQL in: pass one as spark=….")
    with active_session(spark):
        return _explain(query, spark)


def _explain(query: DataFrame | str, spark: SparkSession) -> Explanation:
    inspector = Bridge(spark).factory()
    session = spark._jsparkSession
    plan = inspector.parsed(session, query) if isinstance(query, str) else query._jdf.queryExecution().analyzed()
    execution = inspector.execution(session, plan)
    parsed = read_plan(inspector.describe(execution.optimizedPlan()), as_stored=True)
    state = state_of(spark)
    notes = list(_notes(spark, state))
    scans = list(inspector.scans(execution.executedPlan()))
    ran = _scans_that_ran(inspector, query)
    if state is None or notes:
        return Explanation(tuple(_reports(inspector, None, parsed, scans, None)), tuple(notes))
    planned = plan_query(state, execution.optimizedPlan(), parsed)
    reports = tuple(_reports(inspector, state, parsed, scans, planned, ran))
    decision = planned.decision
    rewriting, about = _denormalized(state, execution.optimizedPlan(), planned)
    notes += about
    notes += [] if state.refresher is None else map(str, state.refresher.notes)
    return Explanation(reports, tuple(notes), state.last_problem, decision.induced, (rewriting, *decision.stages))


def _scans_that_ran(inspector: Any, query: DataFrame | str) -> list[Any]:
    """The scans of a DataFrame that has run, which know what was chosen meanwhile."""
    # One that was not planned yet stays so: its plan would not know of an index that comes before it runs.
    if isinstance(query, str) or not query._jdf.queryExecution().tracker().phases().contains("planning"):
        return []
    plan = query._jdf.queryExecution().executedPlan()
    return list(inspector.scans(plan)) if inspector.hasRun(plan) else []


def plan_query(state: Enabled, plan: Any, query: Query) -> PlannedQuery:
    """What the rule decides about an optimized plan, which ``query`` describes."""
    settings = session_settings(str(state.rule.settings(plan)), state.planner.settings)
    ask_complete = partial(state.rule.completeIn, plan)
    return state.planner.decide(query, ask_complete, replace(settings, in_full=True))


def _denormalized(state: Enabled, plan: Any, planned: PlannedQuery) -> tuple[StageReport, list[str]]:
    """What denormalized tables are read in place of joins, and why others are not."""
    settings = session_settings(str(state.rule.settings(plan)), state.planner.settings)
    if DENORMALIZED_STAGE in settings.off:
        return StageReport(DENORMALIZED_STAGE, off=True), []
    began = perf_counter()
    notes = str(state.rule.denormalized(plan)).splitlines()
    query = read_plan(str(state.rule.describeUsed(plan)), as_stored=True)
    rewrites = state.planner.rewrites(query, planned, partial(state.rule.completeIn, plan), settings)
    return StageReport(DENORMALIZED_STAGE, perf_counter() - began), [*notes, *dict.fromkeys(rewrites.notes)]


def _notes(spark: SparkSession, state: Enabled | None) -> Iterator[str]:
    if state is None:
        yield "sidestep is not enabled in this session, so nothing is skipped: call sidestep.enable(spark)."
    elif str(spark.conf.get("spark.sidestep.enabled", "true")).lower() != "true":
        yield "spark.sidestep.enabled is not true, so nothing is skipped: SET spark.sidestep.enabled=true."


def _reports(
    inspector: Any,
    state: Enabled | None,
    query: Query,
    scans: list[Any],
    planned: PlannedQuery | None,
    ran: Sequence[Any] = (),
) -> Iterator[ScanReport]:
    filters: dict[str, list[ScanFilter]] = {}
    for place in scan_filters(query):
        filters.setdefault(place.scan.key, []).append(place)
    for places in filters.values():
        scan = places[0].scan
        if scan.groups is not None:
            yield _grouped_report(inspector, state, places, scans, planned)
            continue
        executed = _execution_of(inspector, scan, scans)
        report = _report(inspector, state, places, executed, planned)
        yield _after_running(inspector, report, _execution_of(inspector, scan, ran))
    for plan in query.plans:
        for operator in walk(plan):
            if isinstance(operator, Other) and operator.reason is not None:
                yield ScanReport(table=operator.about or operator.name, root="", reason=operator.reason)


def _after_running(inspector: Any, report: ScanReport, executed: Any) -> ScanReport:
    """The report with the blocks of files that were left out when the query ran."""
    if executed is None or not report.chosen or report.blocks is None:
        return report
    read = set(inspector.filesRead(executed).split("\0"))
    root = report.blocks.root.rstrip("/")
    left_out = {path for path in report.blocks.files.to_pylist() if f"{root}/{path}" not in read}
    by, source = report.chosen[0]
    reason = SkipReason(SELECTOR, by, f"run-time selector ({source})")
    return replace(report, blocks=report.blocks.without_files(left_out, reason))


def _execution_of(inspector: Any, scan: Scan, scans: Sequence[Any]) -> Any:
    """The physical scan of a logical one: by the columns it delivers, or by its folder if it delivers none."""
    mine = set(scan.key.split(","))
    for candidate in scans:
        delivered = set(inspector.outputIds(candidate).split(",")) - {""}
        if delivered & mine:
            return candidate
    for candidate in scans:
        if not inspector.outputIds(candidate) and inspector.rootPath(candidate) in scan.roots:
            return candidate
    return None


def _grouped_report(
    inspector: Any, state: Enabled | None, places: list[ScanFilter], scans: list[Any], planned: PlannedQuery | None
) -> ScanReport:
    """The report on a table in column groups: its scans are those of the groups that are read."""
    scan = places[0].scan
    mine = set(scan.key.split(","))
    executed: dict[int, Any] = {}
    for candidate in scans:
        number = int(inspector.group(candidate))
        delivered = set(inspector.outputIds(candidate).split(",")) - {""}
        if number >= 0 and (delivered & mine or (not delivered and inspector.rootPath(candidate) in scan.roots)):
            executed.setdefault(number, candidate)
    if not executed:
        return _report(inspector, state, places, None, planned)
    inner = inner_table(locate(scan.roots[0]))
    groups = COLUMN_GROUPS.load(index_folder(inner))
    columns = groups.groups if groups is not None else ((),) * (max(executed) + 1)
    newest = groups is not None and min(executed) >= groups.first
    in_all = len(groups.newest) if groups is not None and newest else len(columns)
    return put_together(
        [
            GroupReport(
                number,
                columns[number],
                _report(inspector, state, places, executed[number], planned),
                "" if groups is None else _rows_told(inner, groups, number),
            )
            for number in sorted(executed)
        ],
        in_all,
    )


def _rows_told(inner: Location, groups: ColumnGroups, number: int) -> str:
    """Which rows a group has, if these are not all of the table's."""
    some = groups.rows.get(number)
    if some is None:
        return ""
    if some.rest_of is not None:
        return f"with group {some.rest_of}"
    features = load_features(index_folder(inner), some.features)
    return "some rows" if features is None else f"the rows of {counted(len(features), 'feature')}"


def _report(
    inspector: Any, state: Enabled | None, places: list[ScanFilter], executed: Any, planned: PlannedQuery | None
) -> ScanReport:
    scan = places[0].scan
    root = scan.roots[0] if scan.roots else ""
    indexes = planned.tables.indexes(scan) if planned is not None and scan.reason is None else []
    reason = scan.reason or next((place.blocked for place in places if place.blocked), None)
    if reason is None and state is not None and not indexes:
        named = root if scan.fields is None else scan.name
        reason = f"it is not indexed: sidestep.index(spark, {named!r})"
    report = ScanReport(table=scan.name, root=root, reason=reason)
    if executed is None:
        return report
    rule = state.rule if state is not None else None
    text = inspector.coverage(rule, executed, ",".join(index.id for index in indexes))
    coverage = unpack_scan_coverage(text, [len(index.index.files) for index in indexes])
    listed, selected, read = coverage.listed, coverage.selected, coverage.read
    report = replace(
        report,
        files=Amounts(listed.files, read.files),
        bytes=Amounts(listed.bytes, read.bytes),
        unknown_files=coverage.unknown.files,
        by_block=coverage.by_block,
        chosen=tuple((each.by, each.source) for each in read_selectors(inspector.selectors(executed))),
    )
    if listed.files > selected.files:
        gone, size = listed.files - selected.files, listed.bytes - selected.bytes
        by = _listed_by(inspector, scan, executed)
        report = report.with_reasons(Reason(by.condition, by.synopsis, gone, None, size))
    mine = planned.scans if planned is not None and reason is None else ()
    decisions = {decision.index.id: decision for decision in mine if decision.scan.key == scan.key}
    induced = planned.decision.induced if planned is not None else None
    for index, entries in zip(indexes, coverage.entries, strict=True):
        decision = decisions.get(index.id)
        if decision is not None and _induces_in_vain(scan, decision, entries[1], coverage):
            decision = replace(decision, kept=decision.static | decision.kept)
            why = "what joins induce is not used: files of a joined table may change until the query runs"
            report = report.with_reasons(Reason("", None, why_not=why))
        report = _with_blocks(report, index, decision, induced, _listed_by(inspector, scan, executed), *entries)
    filtered = any(place.conjuncts for place in places) or any(each.synopsis == INDUCED for each in report.reasons)
    filtered = filtered or bool(report.chosen)
    if not filtered and reason is None:
        report = report.with_reasons(Reason("", None, why_not="no filter of the query is about this table alone"))
    return _under_names(report, {stored: name for name, stored in scan.stored_names})


def _under_names(report: ScanReport, names: Mapping[str, str]) -> ScanReport:
    """The report with columns by the names that the table has for them, where its files have others."""
    if not names:
        return report
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"'(?:[^']|'')*'|`({words})`|(?<![\w-])({words})(?![\w-])")

    def named(text: str) -> str:
        return pattern.sub(lambda match: names.get(match[1] or match[2] or "", match[0]), text)

    reasons = tuple(
        replace(each, condition=named(each.condition), why_not=named(each.why_not)) for each in report.reasons
    )
    chosen = tuple((named(condition), source) for condition, source in report.chosen)
    blocks = report.blocks
    if blocks is not None:
        shown = tuple(replace(each, condition=named(each.condition)) for each in blocks.reasons)
        before, describe = dict(zip(shown, blocks.reasons, strict=True)), blocks.describe
        blocks = replace(
            blocks, reasons=shown, describe=lambda block, reason: named(describe(block, before.get(reason, reason)))
        )
    return replace(report, reasons=reasons, chosen=chosen, blocks=blocks)


def _listed_by(inspector: Any, scan: Scan, executed: Any) -> SkipReason:
    """Who leaves out files of a scan before sidestep does."""
    if scan.fields is not None:
        return ICEBERG_METADATA
    return DELTA_LISTING if inspector.isDelta(executed) else SPARK_PARTITIONS


def _induces_in_vain(scan: Scan, decision: ScanDecision, selected: Mask, coverage: ScanCoverage) -> bool:
    """Whether more is read of an Iceberg table than joined tables would leave, were it certain that they stay so."""
    left = coverage.selected.files - int((selected & decision.skipped_files).sum())
    return scan.fields is not None and decision.own is not None and coverage.read.files > left


def _with_blocks(
    report: ScanReport,
    index: OpenIndex,
    decision: ScanDecision | None,
    induced: Induced | None,
    passed_over: SkipReason,
    listed: Mask,
    selected: Mask,
    in_part: Mask,
) -> ScanReport:
    """Adds the row groups and rows of the files that one index knows, and who skipped what of them."""
    blocks = index.index.map
    file_of = blocks.file_of_block
    kept_files = selected if decision is None else selected & ~decision.skipped_files
    there = listed[file_of]
    read = kept_files[file_of]
    if decision is not None and report.by_block:
        read = read & decision.kept
    elif decision is not None and decision.row_groups is not None:
        read = read & (decision.row_groups.read | ~in_part[file_of])
    before_groups, before_rows = report.row_groups or Amounts(0, 0), report.rows or Amounts(0, 0)
    told = BlockReasons(report.table, index)
    if decision is not None:
        told = BlockReasons(report.table, index, decision.catalog, index_keys(decision.scan, index) or {})
    told.add(passed_over, there & ~selected[file_of])
    report = replace(
        report,
        row_groups=Amounts(before_groups.total + int(there.sum()), before_groups.kept + int(read.sum())),
        rows=Amounts(
            before_rows.total + int(blocks.rows[there].sum()),
            before_rows.kept + int(blocks.rows[read].sum()),
        ),
    )
    if decision is None:
        return replace(report, blocks=join_blocks([report.blocks, told.blocks(there, read)]))
    if report.by_block and report.bytes is not None:
        report = replace(report, bytes=Amounts(report.bytes.total, int(blocks.bytes[read].sum())))
    elif in_part.any() and report.bytes is not None:
        spared = int(blocks.bytes[in_part[file_of] & ~read].sum())
        report = replace(report, in_part=True, bytes=Amounts(report.bytes.total, report.bytes.kept - spared))
    elif decision.block_filter is not None:
        without = selected & ~decision.skipped_files & ~decision.block_filter.files
        report = replace(report, files_without_ids=report.unknown_files + int(without.sum()))
    reasons = []
    for formula in decision.formulas:
        skips = explain_skips(decision.catalog, formula, selected[file_of])
        told.add_skips(skips, ~decision.static & ~decision.kept)
        for skip in skips:
            amount = skip.beyond
            reasons.append(
                Reason(sql(skip.condition), skip.synopsis, amount.files, amount.blocks, amount.bytes, skip.reason)
            )
    gone = decision.static & ~decision.kept & selected[file_of]
    if gone.any() and induced is not None:
        told.add_induced(
            describe_induced(induced, decision.scan.key), induced_columns(induced, decision.scan.key), gone
        )
        before = decision.catalog.files_kept(decision.static) & selected
        files = before & decision.skipped_files
        reasons.append(
            Reason(
                describe_induced(induced, decision.scan.key),
                INDUCED,
                int(files.sum()),
                int(gone.sum()),
                int(blocks.bytes[files[file_of] & decision.static].sum()),
            )
        )
    report = replace(report, blocks=join_blocks([report.blocks, told.blocks(there, read)]))
    return report.with_reasons(*reasons)


def describe_induced(induced: Induced, key: str) -> str:
    """Which columns of a scan other tables narrowed, and which tables those were."""
    name = labels(induced.nodes)
    useful = _useful(induced, key)
    texts = (f"{dip.column.name} as in {name[dip.origin]}.{dip.origin_column.name}" for dip in useful)
    return ", ".join(dict.fromkeys(texts)) or "what it is joined with gives no row"


def induced_columns(induced: Induced, key: str) -> tuple[Column, ...]:
    """The columns of a scan that other tables narrowed."""
    return tuple(dict.fromkeys(dip.column for dip in _useful(induced, key)))


def _useful(induced: Induced, key: str) -> list[Dip]:
    mine = {node.id for node in induced.nodes if node.scan is not None and node.scan.key == key}
    return [dip for dip in induced.dips if dip.target in mine and dip.removed]
