"""What need a query not read? Its plan is analyzed once, and one stage after the other takes blocks away.

=========  =======================================================================================================
stage      takes away
=========  =======================================================================================================
static     blocks without a row that satisfies the query's own predicates (:mod:`sidestep.prune.plan.static`)
paths      what lies in other copies of the cells that are read (:mod:`sidestep.prune.paths`)
induced    blocks without a row that finds a partner in the blocks of joined tables (:mod:`sidestep.prune.dips`)
selectors  nothing yet: finds what can be chosen when the query runs (:mod:`sidestep.prune.runtime`)
reuse      nothing: gives back blocks, so that equal parts of a plan still run once (:mod:`sidestep.prune.plan.reuse`)
=========  =======================================================================================================

A stage is a function from an analyzed query and the decision so far to a decision. A new one is a module with that
function and a line in :data:`STAGES`: it is timed, can be switched off by its name, and is told of in explanations.
Whatever stages are left out, what the others decide is sound.

Before all of these comes one that is no such function, as it changes the query: *denormalized* puts tables in the place
of joins (:mod:`sidestep.prune.denormal`), and the query with these is then decided about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from sidestep.predicate import HOLDS_ALWAYS, Formula
from sidestep.prune.analysis import AnalyzedQuery, Decision, Masks, Settings, StageReport, Tables, analyze, by_scan
from sidestep.prune.dips.induced import Induced, induce
from sidestep.prune.dips.join_graph import join_columns
from sidestep.prune.dips.lineage import join_graph
from sidestep.prune.dips.model import TableView
from sidestep.prune.paths import choose_paths
from sidestep.prune.plan.algebra import Query
from sidestep.prune.plan.reuse import reused_groups, share_kept, worth_sharing
from sidestep.prune.runtime import select_at_run_time
from sidestep.synopsis import Catalog, Mask, kept_blocks


@dataclass(frozen=True, slots=True)
class PruneStage:
    """A step of the pipeline, under the name that settings and explanations know it by."""

    name: str
    run: Callable[[AnalyzedQuery, Decision], Decision]


def prune_statically(query: AnalyzedQuery, decision: Decision) -> Decision:
    """Hold each scan's own predicates against what is known of its table."""
    masks: dict[tuple[int, int], Mask] = {}

    def mask(catalog: Catalog, formula: Formula) -> Mask:
        key = id(catalog), id(formula)
        if key not in masks:
            masks[key] = kept_blocks(catalog, formula)
        return masks[key]

    kept = tuple(
        tuple(mask(catalog, formula) for catalog in decision.catalogs[place.scan.key])
        if formula != HOLDS_ALWAYS and place.scan.key in decision.catalogs
        else before
        for place, formula, before in zip(query.places, query.formulas, decision.kept, strict=True)
    )
    return replace(decision, kept=kept, static=kept)


def induce_predicates(query: AnalyzedQuery, decision: Decision) -> Decision:
    """Send what each table's blocks hold to the tables that it is joined with.

    Whether a table is covered whole takes a look at each of its files, so it is first supposed of all. If blocks go,
    it is asked of those that this rests on; where it does not hold, the exchange is done again without supposing.
    """
    options, in_full = query.settings.induced, query.settings.in_full
    if not query.has_joins or (len(query.covered) < 2 and not in_full):
        return decision
    graph = join_graph(query.query, options.movement)
    columns = join_columns(graph)
    keys = [key for key in columns if key in query.covered]
    if len(keys) < 2:
        return replace(decision, induced=Induced(graph, decision.static, decision.kept)) if in_full else decision
    catalogs = {key: query.tables.catalogs(decision.taken(query.scans[key]), columns[key]) for key in keys}
    rows = {
        key: query.tables.rows(query.scans[key], {**query.columns[key], **columns[key]}, options.small_rows)
        for key in keys
        if key not in query.unfiltered and options.small_rows
    }

    def exchange(complete: frozenset[str]) -> Induced:
        views = {key: TableView(own, key in complete) for key, own in catalogs.items()}
        views |= {key: TableView(own, False) for key, own in decision.catalogs.items() if key not in views}
        by_place = [views.get(place.scan.key) for place in query.places]
        rows_by_place = [rows.get(place.scan.key) for place in query.places]
        return induce(graph, by_place, query.formulas, decision.kept, options, rows_by_place)

    def complete(asked: Iterable[str]) -> frozenset[str]:
        scans = [query.scans[key] for key in asked]
        return query.tables.complete(scans) if scans else frozenset()

    if in_full:
        known = complete(keys)
        induced = exchange(known)
    else:
        induced = exchange(frozenset(keys))
        relied_on = induced.relied_on & catalogs.keys() if induced.removed else frozenset()
        known = complete(relied_on)
        if known != relied_on:
            known |= complete(catalogs.keys() - relied_on)
            induced = exchange(known)
    return replace(
        decision,
        kept=induced.kept,
        bounds=induced.bounds,
        induced=induced,
        witnesses=induced.relied_on & known if induced.removed else frozenset(),
        stopped=induced.stopped,
    )


def keep_reuse(query: AnalyzedQuery, decision: Decision) -> Decision:
    """Let equal parts of the plan keep the same blocks, so that Spark still runs them once."""
    kept = by_scan(query, decision.kept)
    groups = worth_sharing(kept, reused_groups(query.query.parts))
    if not groups:
        return decision
    shared = share_kept(kept, groups)
    reused = {key for group in groups for key in group}
    # Where each part chooses when the query runs, both together read less than one of them whole.
    choosing = {each.scan.key for each in decision.selectors}
    apart = {key for group in groups if len({decision.paths.get(each) for each in group}) > 1 for key in group}
    all_choose = {key for group in groups if choosing.issuperset(group) for key in group}
    return replace(
        decision,
        kept=tuple(
            shared[place.scan.key] if own and place.scan.key in reused else own
            for place, own in zip(query.places, decision.kept, strict=True)
        ),
        # A filter that one part has and the other has not would make them two parts as well.
        bounds={key: bounds for key, bounds in decision.bounds.items() if key not in reused},
        selectors=tuple(each for each in decision.selectors if each.scan.key not in reused - all_choose),
        paths={key: path for key, path in decision.paths.items() if key not in apart},
    )


STAGES = (
    PruneStage("static", prune_statically),
    PruneStage("paths", choose_paths),
    PruneStage("induced", induce_predicates),
    PruneStage("selectors", select_at_run_time),
    PruneStage("reuse", keep_reuse),
)


def decide(
    query: Query, tables: Tables, settings: Settings | None = None, stages: Sequence[PruneStage] = STAGES
) -> tuple[AnalyzedQuery, Decision]:
    """Analyze a query and run the stages over it that are not switched off."""
    settings = settings or Settings()
    analyzed = analyze(query, tables, settings)
    decision = read_everything(analyzed)
    for stage in stages:
        if stage.name in settings.off:
            report = StageReport(stage.name, off=True)
        else:
            began = perf_counter()
            decision = stage.run(analyzed, replace(decision, stopped=False))
            report = StageReport(stage.name, perf_counter() - began, decision.stopped)
        decision = replace(decision, stages=(*decision.stages, report))
    return analyzed, decision


def read_everything(query: AnalyzedQuery) -> Decision:
    """The decision to read all blocks, of tables that some stage may prune."""
    exchanges = query.has_joins and len(query.covered) > 1
    catalogs = {
        key: query.tables.catalogs(query.scans[key], query.columns[key])
        for key in query.covered
        if exchanges or key not in query.unfiltered or key in query.late or query.joins
    }
    everything: dict[str, Masks] = {
        key: tuple(np.ones(catalog.blocks, np.bool_) for catalog in own) for key, own in catalogs.items()
    }
    kept = tuple(everything.get(place.scan.key, ()) for place in query.places)
    return Decision(kept, kept, catalogs)
