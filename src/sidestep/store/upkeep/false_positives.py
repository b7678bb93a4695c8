"""How much synopses let through, judged by themselves alone: no data is read.

The ends of ranges are values that a block holds. For such a value a perfect synopsis keeps that block, and others only
if they hold it too, so what is kept beyond the one is at most false: a bound on the rate of false positives for queries
that ask for single values. It is the same kind of figure when the index is made and whenever it is looked at again, so
that growth of it says that the blocks at hand no longer suit what was chosen.

What the synopses of an index let through, and what they let through when they were chosen.

The latter is kept in a small file beside the index, one for each time that synopses were chosen; the newest counts. It
is advice: a file that is gone or damaged is as good as none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from sidestep.errors import check_format
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DataType
from sidestep.store.index.table_index import TableIndex
from sidestep.store.location import Location
from sidestep.store.sidecars.sidecar import Json, Numbered
from sidestep.store.snapshot import DataFile
from sidestep.synopsis.bloom import BlockFilters
from sidestep.synopsis.values.code_ranges import CodeRanges, value_ranges
from sidestep.synopsis.values.codes import GREATEST, LEAST, Codes, Coding, codes_of, float_codes, integer_codes
from sidestep.synopsis.values.forms import Form, Mask
from sidestep.synopsis.zones.zone_map import ZoneMaps

MOST_VALUES = 64
DOUBLED, NOTABLE = 2.0, 0.02
"""A rebuild is advised when the rate has become so many times as large, and larger by at least so much."""


class MayHold(Protocol):
    """Zone maps, or any synopsis, of one column."""

    def may_be_within(self, ranges: IntervalSet) -> Mask | None: ...


@dataclass(frozen=True, slots=True)
class Keeping:
    """The share of the other blocks that are kept for a value that some block holds."""

    zone_map: float
    """By the zone map alone."""
    kept: float
    """By the zone map and the column's synopses together."""

    @property
    def saved(self) -> float:
        """The share of what the zone map keeps that the synopses spare."""
        return 1 - self.kept / self.zone_map if self.zone_map > 0 else 0.0

    def outgrown(self, before: Keeping) -> bool:
        """Whether the rate has doubled since."""
        return self.kept >= DOUBLED * before.kept and self.kept - before.kept >= NOTABLE


def keeping(
    zones: MayHold, synopses: Sequence[MayHold], filters: BlockFilters | None, coding: Coding, ends: Codes, among: Mask
) -> Keeping | None:
    """What is kept ``among`` some blocks for values drawn from the ``ends`` of ranges; None if nothing can be told."""
    known = ends[(ends != LEAST) & (ends != GREATEST)]
    if not len(known) or int(among.sum()) < 2:
        return None
    drawn = np.random.default_rng(len(known)).choice(known, min(MOST_VALUES, len(known)), replace=False)
    by_zone, by_all = [], []
    # A code of a string is no value to ask a filter for: there, its bits have to tell how often it says "maybe".
    exact = coding.form in (Form.INTEGER, Form.FLOAT)
    asked = (zones, *synopses, *([filters] if filters is not None and exact else []))
    for code in drawn[:, np.newaxis]:
        wanted = value_ranges(CodeRanges(code, code), coding)
        kept = among
        for number, synopsis in enumerate(asked):
            answer = synopsis.may_be_within(wanted)
            kept = kept if answer is None else kept & answer
            if number == 0:
                by_zone.append(int(kept.sum()) - 1)
        by_all.append(int(kept.sum()) - 1)
    others = int(among.sum()) - 1
    passed = 1.0 if filters is None or exact else pass_rate(filters, among)
    return Keeping(*(max(0.0, float(np.mean(kept)) / others) * by for kept, by in ((by_zone, 1.0), (by_all, passed))))


def pass_rate(filters: BlockFilters, among: Mask) -> float:
    """How likely Bloom filters are to say "maybe" to a value that a block does not hold, from the bits that are set."""
    lines = np.prod(np.bitwise_count(filters.lines) / 32.0, axis=1)
    sums = np.concatenate([[0.0], np.cumsum(lines)])
    counts = np.diff(filters.begins)
    each = (sums[filters.begins[1:]] - sums[filters.begins[:-1]]) / np.maximum(counts, 1)
    return float(np.mean(np.where(filters.known, each, 1.0)[among])) if among.any() else 1.0


def index_keeping(index: TableIndex, live: Mask) -> dict[str, Keeping]:
    """For each column that has synopses, what they keep of the ``live`` blocks."""
    types = index.columns
    found = {name: column_keeping(index, name, types[name], live) for name in index.recipes if name in types}
    return {name: each for name, each in found.items() if each is not None}


def column_keeping(index: TableIndex, name: str, type: DataType, live: Mask) -> Keeping | None:
    """What the zone map and the synopses of one column keep; None if nothing can be told."""
    held = index.reader().column(name, type)
    zones = next((each for each in index.catalog({name: type}).synopses if isinstance(each, ZoneMaps)), None)
    of_column = None if zones is None else zones.zones(Column(name, type))
    if of_column is None:
        return None
    synopses: list[MayHold] = [*held.bits]
    coding, ends = Coding(type), None
    for ranges in (held.ranges, None if held.histograms is None else held.histograms.buckets):
        if ranges is not None:
            synopses.append(ranges)
            of_live = live[ranges.block_of_range]
            coding, ends = ranges.coding, np.concatenate([ranges.lows[of_live], ranges.highs[of_live]])
    if ends is None and held.bits:
        table = held.bits[-1].table
        coding, ends = table.coding, np.concatenate([table.ranges.lows, table.ranges.highs])
    if ends is None:
        arrays = index.stored_arrays(name, type) or {}
        lower = arrays.get(f"lower:{name}")
        ends = None if lower is None else _codes(lower.filter(pa.array(live)), coding)
    return None if ends is None else keeping(of_column, synopses, held.filters, coding, np.unique(ends), live)


def remember_keeping(index: TableIndex, files: Sequence[DataFile]) -> None:
    """Note what newly chosen synopses keep of these files' blocks, so that it can be told when that has grown."""
    positions = index.positions(files)
    live = np.zeros(len(index.files), dtype=np.bool_)
    live[positions[positions >= 0]] = True
    save_estimates(index.folder, index_keeping(index, live[index.map.file_of_block]))


def _codes(bounds: pa.Array, coding: Coding) -> Codes | None:
    """The codes of stored bounds."""
    present = bounds.drop_null()
    if coding.form is Form.INTEGER:
        return integer_codes(present.cast(pa.int64()).to_numpy())
    if coding.form is Form.FLOAT:
        return float_codes(present.cast(pa.float64()).to_numpy())
    return codes_of(present, coding)


FORMAT = 1
"""Of the file of estimates, see docs/formats.md."""
Estimates = Mapping[str, Keeping]
"""What synopses kept when they were chosen, by column."""


def _dump_estimates(estimates: Estimates) -> Json:
    columns = {column: {"zone_map": each.zone_map, "kept": each.kept} for column, each in estimates.items()}
    return {"format": FORMAT, "columns": columns}


def _parse_estimates(written: Json, source: str) -> Estimates:
    check_format(written.get("format"), FORMAT, f"The estimates {source}")
    pairs = written["columns"].items()
    return {str(column): Keeping(float(each["zone_map"]), float(each["kept"])) for column, each in pairs}


ESTIMATES: Numbered[Estimates] = Numbered("estimates", _dump_estimates, _parse_estimates)


def save_estimates(folder: Location, estimates: Estimates) -> None:
    """Note what newly chosen synopses keep."""
    ESTIMATES.save(folder, estimates)


def load_estimates(folder: Location) -> Estimates:
    """What the synopses kept when they were noted last; nothing if they never were."""
    return ESTIMATES.load(folder) or {}
