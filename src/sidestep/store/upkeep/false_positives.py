"""How much synopses let through, judged by themselves alone: no data is read.

The ends of ranges are values that a block holds. For such a value a perfect synopsis keeps that block, and others only
if they hold it too, so what is kept beyond the one is at most false: a bound on the rate of false positives for queries
that ask for single values. It is the same kind of figure when the index is made and whenever it is looked at again, so
that growth of it says that the blocks at hand no longer suit what was chosen.

What was let through when synopses were chosen is kept in a small file beside the index, one for each time; the newest
counts. So is what was tried then, and why it was not built. It is advice: a file that is gone or damaged is as good as
none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sidestep.errors import check_format
from sidestep.predicate.formula import Within
from sidestep.predicate.nodes import Column
from sidestep.store.index.table_index import TableIndex
from sidestep.store.location import Location
from sidestep.store.sidecars.sidecar import JsonObject, Numbered
from sidestep.store.snapshot import DataFile
from sidestep.synopsis.catalog import Synopsis
from sidestep.synopsis.contract.answer import ByColumn
from sidestep.synopsis.skip import kept_by
from sidestep.synopsis.values.code_ranges import CodeRanges, value_ranges
from sidestep.synopsis.values.codes import GREATEST, LEAST, Codes, Coding, codes_of, float_codes, integer_codes
from sidestep.synopsis.values.forms import Form, Mask
from sidestep.synopsis.zones.zone_map import ZoneMaps

MOST_VALUES = 64
DOUBLED, NOTABLE = 2.0, 0.02
"""A rebuild is advised when the rate has become so many times as large, and larger by at least so much."""


@dataclass(frozen=True, slots=True)
class KeptShare:
    """The share of the other blocks that are kept for a value that some block holds."""

    zone_map: float
    """By the zone map alone."""
    kept: float
    """By the zone map and the column's synopses together."""

    @property
    def saved(self) -> float:
        """The share of what the zone map keeps that the synopses spare."""
        return 1 - self.kept / self.zone_map if self.zone_map > 0 else 0.0

    def outgrown(self, before: KeptShare) -> bool:
        """Whether the rate has doubled since."""
        return self.kept >= DOUBLED * before.kept and self.kept - before.kept >= NOTABLE


@dataclass(frozen=True, slots=True)
class TriedSynopsis:
    """Something that was tried for a column when synopses were chosen without anyone naming them."""

    column: str
    synopsis: str
    """As a recipe is written."""
    bytes: int
    """What it takes for the whole table, as far as the sample tells."""
    zone_map: float
    """The share of all rows that lookups read by the zone map alone."""
    reads: float
    """What they would read with it."""
    why_not: str = ""
    """Why it was not built; empty if it was."""


def estimate_kept(
    column: Column, zones: Synopsis, others: Sequence[ByColumn[Any]], coding: Coding, codes: Codes, among: Mask
) -> KeptShare | None:
    """What is kept ``among`` some blocks for values drawn from those that blocks hold; None if nothing can be told."""
    known = codes[(codes != LEAST) & (codes != GREATEST)]
    if not len(known) or int(among.sum()) < 2:
        return None
    drawn = np.random.default_rng(len(known)).choice(known, min(MOST_VALUES, len(known)), replace=False)
    by_zones: list[int] = []
    by_all: list[int] = []
    answering: set[int] = set()
    for code in drawn[:, np.newaxis]:
        wanted = Within(column, value_ranges(CodeRanges(code, code), coding))
        mask = kept_by(zones, wanted)
        kept = among if mask is None else among & mask
        by_zones.append(int(kept.sum()) - 1)
        for number, synopsis in enumerate(others):
            mask = kept_by(synopsis, wanted)
            if mask is not None:
                kept = kept & mask
                answering.add(number)
        by_all.append(int(kept.sum()) - 1)
    # A code of a string is no value to ask a filter for: there, its bits have to tell how often it says "maybe".
    silent = [synopsis.of(column) for number, synopsis in enumerate(others) if number not in answering]
    passed = math.prod(held.pass_rate(among) for held in silent if held is not None)
    blocks = int(among.sum()) - 1
    return KeptShare(
        *(max(0.0, float(np.mean(kept)) / blocks) * by for kept, by in ((by_zones, 1.0), (by_all, passed)))
    )


def kept_shares(index: TableIndex, live: Mask) -> dict[str, KeptShare]:
    """For each column that has synopses, what they keep of the ``live`` blocks."""
    types = index.columns
    shares = {name: _kept_share(index, Column(name, types[name]), live) for name in index.recipes if name in types}
    return {name: share for name, share in shares.items() if share is not None}


def _kept_share(index: TableIndex, column: Column, live: Mask) -> KeptShare | None:
    """What the zone map and the synopses of one column keep; None if nothing can be told."""
    synopses = index.catalog({column.name: column.type}).synopses
    zones = next((each for each in synopses if isinstance(each, ZoneMaps) and each.zones(column)), None)
    if zones is None:
        return None
    others = [each for each in synopses if isinstance(each, ByColumn)]
    held = (each.of(column) for each in others)
    codes = next((codes for each in held if each is not None and (codes := each.held_codes(live)) is not None), None)
    if codes is None:
        lower = (index.stored_arrays(column.name, column.type) or {}).get(f"lower:{column.name}")
        found = None if lower is None else _codes(lower.filter(pa.array(live)), Coding(column.type))
        codes = None if found is None else (Coding(column.type), found)
    return None if codes is None else estimate_kept(column, zones, others, codes[0], np.unique(codes[1]), live)


def remember_keeping(index: TableIndex, files: Sequence[DataFile], tried: Sequence[TriedSynopsis] = ()) -> Estimates:
    """Note what newly chosen synopses keep of these files' blocks, so that it can be told when that has grown."""
    positions = index.positions(files)
    live = np.zeros(len(index.files), dtype=np.bool_)
    live[positions[positions >= 0]] = True
    estimates = Estimates(kept_shares(index, live[index.map.file_of_block]), tuple(tried))
    save_estimates(index.folder, estimates)
    return estimates


def _codes(bounds: pa.Array, coding: Coding) -> Codes | None:
    """The codes of stored bounds."""
    present = bounds.drop_null()
    if coding.form is Form.INTEGER:
        return integer_codes(present.cast(pa.int64()).to_numpy())
    if coding.form is Form.FLOAT:
        return float_codes(present.cast(pa.float64()).to_numpy())
    return codes_of(present, coding)


FORMAT = 2
"""Of the file of estimates, see docs/formats.md."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is noted when synopses are chosen."""

    shares: Mapping[str, KeptShare] = field(default_factory=dict)
    """What synopses kept then, by column."""
    tried: tuple[TriedSynopsis, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.shares or self.tried)


def _dump_estimates(estimates: Estimates) -> JsonObject:
    columns = {column: {"zone_map": each.zone_map, "kept": each.kept} for column, each in estimates.shares.items()}
    return {"format": FORMAT, "columns": columns, "tried": [asdict(each) for each in estimates.tried]}


def _parse_estimates(written: JsonObject, source: str) -> Estimates:
    check_format(written.get("format"), FORMAT, f"The estimates {source}")
    pairs = written["columns"].items()
    shares = {str(column): KeptShare(float(each["zone_map"]), float(each["kept"])) for column, each in pairs}
    return Estimates(shares, tuple(TriedSynopsis(**each) for each in written.get("tried", ())))


ESTIMATES: Numbered[Estimates] = Numbered("estimates", _dump_estimates, _parse_estimates)


def save_estimates(folder: Location, estimates: Estimates) -> None:
    """Note what newly chosen synopses keep, and what was tried."""
    ESTIMATES.save(folder, estimates)


def load_estimates(folder: Location) -> Estimates:
    """What was noted last; nothing if nothing ever was."""
    return ESTIMATES.load(folder) or Estimates()
