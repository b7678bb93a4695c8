"""How far a log's queries have moved from those that a table was laid out for, unit by unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sidestep.advisor.layouts.choose import ChosenLayout, choose_from_study
from sidestep.advisor.layouts.hold_out import hold_out
from sidestep.advisor.trials.sample import RowNumbers
from sidestep.spark.advise.source import Source
from sidestep.spark.advise.study import draw_study
from sidestep.spark.advise.today import read_today
from sidestep.store.index.table_index import TableIndex
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.store.upkeep.drift import Drift, UnitDrift
from sidestep.workload import Workload

UNORGANIZED = "files of no unit"


def measure_drift(
    workload: Workload,
    source: Source,
    index: TableIndex,
    spec: LayoutSpec,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Drift, ChosenLayout]:
    """What the workload's later queries read of a table by its index, and the layout that would suit them best.

    What they would read then is estimated from a sample, for each unit that there is now.
    """
    tell("a sample")
    study = draw_study(
        workload,
        source.name,
        source.rows,
        source.types,
        min_size=spec.min_size,
        unit_rows=spec.unit_rows,
        file_bytes=spec.file_bytes,
        source_bytes=source.snapshot.bytes,
        partition_columns=source.partition_columns,
    )
    unit_of_name = _units(source, index)
    names = sorted(set(unit_of_name.values()) or {UNORGANIZED})
    parts = _parts(study.drawn.files, study.drawn.file, unit_of_name, names)
    past_and_held = hold_out(workload, study.table)
    held = past_and_held.judges
    chosen = choose_from_study(study, judges=held, past=past_and_held.past, parts=parts, tell=tell)
    best = next((trial for trial in chosen.trials if trial.family == chosen.layout.family), None)
    today = read_today(source, index, held.formulas)
    often = held.weights @ today.kept / max(1.0, float(held.weights.sum()))
    used = zip(index.units, today.present.tolist(), strict=True)
    part_of_file = np.array([names.index(unit or UNORGANIZED) if here else 0 for unit, here in used], np.int64)
    part = part_of_file[today.catalog.file_of_block]
    now = np.bincount(part, often * today.rows, len(names)) / today.total
    rows = np.bincount(part, today.rows, len(names)) / today.total
    anew = now if best is None else best.by_part[: len(names)]
    units = [UnitDrift(*each) for each in zip(names, rows.tolist(), now.tolist(), anew.tolist(), strict=True)]
    drift = Drift(
        int(held.weights.sum()),
        held.text,
        chosen.layout.family,
        spec.expected,
        float(now.sum()),
        float(anew.sum()),
        tuple(units),
    )
    return drift, chosen


def _units(source: Source, index: TableIndex) -> Mapping[str, str]:
    """The unit of each of the table's files, by the name of the file without its folder."""
    units = index.units
    positions = index.positions(source.snapshot.files).tolist()
    return {
        file.path.rpartition("/")[2]: (units[position] if position >= 0 else None) or UNORGANIZED
        for file, position in zip(source.snapshot.files, positions, strict=True)
    }


def _parts(files: tuple[str, ...], file: RowNumbers, units: Mapping[str, str], names: list[str]) -> RowNumbers:
    """The unit, by its place among the names, of each row of a sample."""
    place = {name: number for number, name in enumerate(names)}
    of_file = [place.get(units.get(path.rpartition("/")[2], UNORGANIZED), 0) for path in files]
    return np.array(of_file or [0], np.int64)[file] if len(file) else np.zeros(0, np.int64)
