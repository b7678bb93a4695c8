"""Every result of the public API as people see it: as text and in a notebook, with strangers' text in every place."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from sidestep.advisor.layouts.replicas import StoragePoint
from sidestep.layout.demand import Demands
from sidestep.predicate import STRING, column, compare
from sidestep.prune.analysis import StageReport
from sidestep.render.report import Report
from sidestep.spark.doctor.diagnosis import State
from sidestep.spark.rule.metrics import MemoryMetrics, SelectorMetrics
from sidestep.store.index.synopsis_columns import HeldSynopsis
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.store.upkeep.drift import UnitDrift
from sidestep.store.upkeep.false_positives import TriedSynopsis
from sidestep.store.upkeep.status import GroupStatus
from sidestep.synopsis.recipe import Recipe
from sidestep.workload import Failure, FailureGroup, Statement, Workload
from sidestep.workload import analyze as analyze_workload
from tests.render.markup import HOSTILE, check
from tests.workload.queries import query

FEATURE = sidestep.Feature((compare(column(HOSTILE, STRING), "=", HOSTILE),), weight=3)
FEATURES = sidestep.FeatureSet(HOSTILE, (FEATURE,), 6, 3, 2)
STATES: tuple[State, ...] = ("good", "note", "warn", "bad")
CURVE = sidestep.Curve(HOSTILE, HOSTILE, HOSTILE, ((0.0, 0.1), (1.0, 0.9)))
STAGES = (sidestep.Stage(HOSTILE, 1.25), sidestep.Stage("write", 3.75))
LOST = (FailureGroup(HOSTILE, 12, HOSTILE, HOSTILE),)
SCAN_BLOCKS = sidestep.ScanBlocks(
    HOSTILE,
    HOSTILE,
    pa.array([HOSTILE]),
    np.zeros(4, np.int32),
    np.arange(4, dtype=np.int32),
    np.full(4, 10),
    np.full(4, 100),
    np.array([True, False, False, True]),
    (sidestep.SkipReason(HOSTILE, HOSTILE, HOSTILE), sidestep.SkipReason("feature", HOSTILE, HOSTILE)),
    np.array([-1, 0, 1, 1], np.int16),
    np.arange(4),
    lambda block, reason: HOSTILE,
)
SCAN = sidestep.ScanReport(
    HOSTILE,
    HOSTILE,
    files=sidestep.Amounts(4, 1),
    bytes=sidestep.Amounts(4_000, 1_000),
    row_groups=sidestep.Amounts(4, 2),
    rows=sidestep.Amounts(40, 20),
    unknown_files=2,
    reasons=(sidestep.Reason(HOSTILE, HOSTILE, 3, 2, 3_000), sidestep.Reason(HOSTILE, None, why_not=HOSTILE)),
    chosen=((HOSTILE, HOSTILE),),
    blocks=SCAN_BLOCKS,
)
DRIFT = sidestep.Drift(100, HOSTILE, HOSTILE, 0.1, 0.5, 0.1, (UnitDrift(HOSTILE, 1.0, 0.5, 0.1),))
LOAD = sidestep.LoadReport(
    table=HOSTILE,
    version=3,
    rows=1_000,
    units=2,
    blocks=10,
    files=4,
    vectors=7,
    bytes_before=2_000_000,
    bytes_after=1_500_000,
    spec=LayoutSpec(),
    features=(HOSTILE,),
    left_out=(),
    stages=STAGES,
    synopses={HOSTILE: Recipe(bloom=64)},
    notes=(HOSTILE,),
    groups=(sidestep.GroupReport((HOSTILE,), HOSTILE, 1, 1_000, 5, 2, 750_000, HOSTILE),),
    not_understood=LOST,
)
ADVICE = sidestep.Advice(
    table=HOSTILE,
    choice=sidestep.LayoutChoice(FEATURES, Demands(1), HOSTILE, 20_000, (HOSTILE,), family="features", detail=HOSTILE),
    estimates=(
        sidestep.Estimate("today", 1.0, 1.0, 1.0, 10.0, HOSTILE),
        sidestep.Estimate("features", 0.1, 0.2, 0.5, 1.0, HOSTILE),
    ),
    queries=60,
    judged_by=HOSTILE,
    sample_rows=1_000,
    total_rows=2_000,
    command=f"sidestep load {HOSTILE} --log x",
    groups=((HOSTILE,),),
    curve=(StoragePoint(1.2, 1.15, 3, 0.7),),
    notes=(HOSTILE,),
    not_understood=LOST,
)
STATUS = sidestep.IndexStatus(
    root=HOSTILE,
    folder=HOSTILE,
    format=HOSTILE,
    version=4,
    files=10,
    bytes=10_000,
    indexed_files=8,
    indexed_bytes=8_000,
    indexed_rows=800,
    blocks=16,
    columns={HOSTILE: STRING},
    column_files={HOSTILE: 8},
    partition_columns=(HOSTILE,),
    index_files=2,
    index_bytes=500,
    stale_files=1,
    problems=(HOSTILE,),
    organized_files=5,
    blocks_with_ids=12,
    feature_sets={HOSTILE: 0.5},
    synopses={
        HOSTILE: sidestep.SynopsesStatus(
            Recipe(bloom=64), (HeldSynopsis(HOSTILE, "bloom", 4, 16, 64),), 0.9, 0.2, 0.1, outgrown=True
        )
    },
    unchecked_files=1,
    tried=(TriedSynopsis(HOSTILE, HOSTILE, 100, 0.9, 0.8, HOSTILE),),
    notes=(HOSTILE,),
    drift=DRIFT,
    groups=(GroupStatus(0, (HOSTILE,), 4, 100, 10, 2, 1),),
)
ANALYSIS = sidestep.LogAnalysis(
    analyze_workload(
        Workload(
            (query(compare(column("a", STRING), "=", HOSTILE), table=HOSTILE, count=3, sql=HOSTILE),),
            (Failure(Statement(HOSTILE, source=HOSTILE), HOSTILE, HOSTILE),),
        )
    ),
    command=HOSTILE,
)
COUNTS = dict.fromkeys(("files_written", "files_looked_at", "files", "blocks_written", "rows_written"), 5)
BYTES = dict.fromkeys(("bytes", "bytes_looked_at", "bytes_written"), 5_000)
RESULTS: list[Report] = [
    ADVICE,
    ANALYSIS,
    ANALYSIS.analysis.tables[0],
    CURVE,
    DRIFT,
    sidestep.DenormalizeReport(HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), 9, 8, 7, 6, 5, (HOSTILE,), STAGES, LOAD),
    sidestep.Diagnosis(tuple(sidestep.Finding(HOSTILE, state, HOSTILE, HOSTILE) for state in STATES)),
    sidestep.DenormalizeReport(HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), 9, 8, 7, 6, 5, (HOSTILE,), STAGES),
    sidestep.Explanation((SCAN, SCAN), (HOSTILE,), HOSTILE, stages=(StageReport(HOSTILE, 0.1),)),
    sidestep.Explanation(()),
    FEATURES,
    STATUS,
    LOAD,
    sidestep.MergeReport(
        root=HOSTILE,
        version=1,
        source_rows=5,
        rows_updated=1,
        rows_deleted=1,
        rows_inserted=3,
        files_rewritten=1,
        bytes_rewritten=100,
        reasons=(HOSTILE,),
        stages=STAGES,
        **COUNTS,
        **BYTES,
    ),
    sidestep.Metrics(
        (sidestep.ScanMetrics(HOSTILE, 1, 2, 3, (HOSTILE,), 4, (SelectorMetrics(HOSTILE, HOSTILE, 5),)),),
        (MemoryMetrics(HOSTILE, 7),),
    ),
    sidestep.OptimizeReport(HOSTILE, 2, 1, 100, 2, 4, 3, 2, 5, 1, 10, STAGES, DRIFT),
    SCAN_BLOCKS,
    sidestep.VacuumReport(HOSTILE, (HOSTILE,), 100, 2, (HOSTILE,), True),
    sidestep.WhatIf(
        HOSTILE,
        tuple(
            sidestep.WhatIfPoint(layout, size, read, storage, ((HOSTILE,),))
            for layout, size, read, storage in (("sop", 100, 0.2, 1.0), ("sop", 400, 0.3, 1.0), ("gsop", 100, 0.1, 1.2))
        ),
        5,
        100,
        200,
    ),
    *(
        sidestep.WriteReport(
            operation=operation,
            root=HOSTILE,
            version=1,
            rows=5,
            files_removed=1,
            bytes_removed=100,
            stages=STAGES,
            **COUNTS,
            **BYTES,
        )
        for operation in ("append", "delete", "update")
    ),
]
SMALL = {
    "Amounts",
    "Enabled",
    "Estimate",
    "Failure",
    "Feature",
    "Finding",
    "GroupReport",
    "LayoutChoice",
    "Merge",
    "Progress",
}
SMALL |= {"Reason", "Recorder", "ScanMetrics", "ScanReport", "SkipReason", "SparkStage", "Stage", "Step"}
SMALL |= {"Progress", "SynopsesStatus", "WhatIfPoint", "WhatIfReplica"}
"""Parts of results, things that are at work, and what says itself in a line."""


def test_every_result_is_here():
    classes = {name for name in sidestep.__all__ if isinstance(getattr(sidestep, name), type)}
    errors = {name for name in classes if issubclass(getattr(sidestep, name), Exception)}
    assert {type(result).__name__ for result in RESULTS} == classes - errors - SMALL


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_it_shows_in_a_notebook_and_prints(result):
    read = check(result._repr_html_(), 40_000)
    assert any(HOSTILE in text or "reads no files" in text for text in read.text)
    text = str(result)
    assert text.strip()
    assert f"{type(result).__name__}(" not in text
    assert not any(f"{field.name}=" in text for field in fields(result) if field.name != "load")


def test_numbers_have_units():
    html = LOAD._repr_html_()
    assert "1.5 MB, before 2.0 MB" in html
    assert "3.8 s" in html
    assert "8 of 10 files, 8.0 kB of 10.0 kB" in STATUS._repr_html_()
    assert "80.0%" in STATUS._repr_html_()  # the bar of what is indexed


def test_shares_of_a_scan_and_its_blocks_are_pictures():
    html = sidestep.Explanation((SCAN,))._repr_html_()
    assert "1 of 4" in html
    assert 'style="width:25.0%"' in html
    assert "<svg" in html
    assert "2 read" in html
    assert "1 skipped: feature" in html


def test_an_analysis_names_the_next_step():
    plain = sidestep.LogAnalysis(ANALYSIS.analysis, command="sidestep advise log.sql -t sales=/data/sales")
    for shown in (str(plain), plain._repr_html_()):
        assert "sidestep advise log.sql -t sales=/data/sales" in shown
    assert "Next step" in str(plain)
    assert "<pre>" in plain._repr_html_()  # commands alone: no art of a terminal
    assert "⠉" not in plain._repr_html_()
