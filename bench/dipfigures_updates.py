"""Range-sets that grow: what a new value costs, what growth loses, what making them takes (diPs, Table 7, Figure 16).

Times are processor time on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from bench.dipfigures_data import FigureData
from bench.dipfigures_rows import RowBlocks, block_of_row
from sidestep.predicate import Column
from sidestep.predicate.types import LONG
from sidestep.synopsis.contract.block_ranges import BlockRanges, block_ranges
from sidestep.synopsis.range_set import grow, range_set
from sidestep.synopsis.values.codes import Codes, Coding, integer_codes

SIZES = (2, 4, 8, 16, 20, 32, 64)
SHARES = (0.01, 0.02, 0.05, 0.1)
RANGES = 20
COLUMNS = ("l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice", "l_shipdate", "l_commitdate", "l_receiptdate")
"""Columns of lineitem with more values than a range-set holds."""
BATCH, SINGLE = 100_000, 300
CODING = Coding(LONG)


def update_times(data: FigureData, console: Console) -> dict[str, Any]:
    """Table 7: nanoseconds to add a value, in a batch for many blocks and one at a time, by the number of ranges."""
    rng = np.random.default_rng(data.args.seed)
    blocks, found = 1_000, {}
    table = Table(title=f"Nanoseconds to add a value to range-sets: {BATCH:,} values to {blocks:,} blocks, one to one")
    for heading in ("ranges", "batch", "one at a time"):
        table.add_column(heading, justify="right")
    for size in SIZES:
        made = block_ranges(CODING, [range_set(CODING, _codes(rng, 1_000), size) for _ in range(blocks)])
        values, places = _codes(rng, BATCH), rng.integers(0, blocks, BATCH)
        together = _seconds(partial(grow, made, places, values, size)) / BATCH
        one = block_ranges(CODING, [made.of_block(0)])
        alone = _seconds(partial(_one_by_one, one, values[:SINGLE], size)) / SINGLE
        found[str(size)] = {"batch_ns": round(1e9 * together, 1), "single_ns": round(1e9 * alone, 1)}
        table.add_row(str(size), f"{1e9 * together:.0f}", f"{1e9 * alone:,.0f}")
    console.print(table)
    return {"update_ns": found}


def _one_by_one(ranges: BlockRanges, values: Codes, size: int) -> None:
    """Each value added to the same ranges."""
    for at in range(len(values)):
        grow(ranges, np.zeros(1, np.int64), values[at : at + 1], size)


def growth_quality(data: FigureData, console: Console) -> dict[str, Any]:
    """Figure 16a: the gaps that growth leaves, by those of range-sets made anew, as rows of lineitem change.

    A changed row gets values of another row: of any, or of one in its own block or the next. It grows in steps of 1%.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for kind in ("any row", "a near row"):
        found[kind] = {}
        by_column = [_qualities(data, column, kind == "a near row") for column in COLUMNS]
        for number, part in enumerate(SHARES):
            values = [each[number] for each in by_column if not np.isnan(each[number])]
            found[kind][f"{part:g}"] = [round(float(np.mean(values)), 4), round(float(np.std(values)), 4)]
    table = Table(
        title=f"Gaps of range-sets of {RANGES} that grew, by those made anew: mean and deviation over columns"
    )
    for heading in ("rows changed", *found):
        table.add_column(heading, justify="right")
    for part in SHARES:
        cells = (f"{each[f'{part:g}'][0]:.3f} ± {each[f'{part:g}'][1]:.3f}" for each in found.values())
        table.add_row(f"{100 * part:g}%", *cells)
    console.print(table)
    return {"growth_quality": found}


def _qualities(data: FigureData, column: str, near: bool) -> list[float]:
    """For one column the mean over blocks, after each share of changed rows."""
    rng = np.random.default_rng(data.args.seed)
    tables = data.tuned(data.args.seed, data.args.blocks)
    lines = tables["lineitem"]
    codes = RowBlocks({"lineitem": lines.rows}).values("lineitem", Column(column, lines.type_of(column)))
    assert codes is not None
    block = block_of_row(lines)
    order = np.argsort(block, kind="stable")
    codes, block = codes[order].copy(), block[order]
    coding = Coding(lines.type_of(column))
    grown = block_ranges(coding, [range_set(coding, each, RANGES) for each in np.split(codes, lines.ends[1:-1])])
    changed = rng.permutation(len(codes))
    step, done, found = max(1, len(codes) // 100), 0, []
    before = codes.copy()
    for part in SHARES:
        while done < part * len(codes):
            rows = changed[done : done + step]
            other = rows + rng.integers(-(reach := len(codes) // lines.blocks), reach + 1, len(rows)) if near else None
            source = rng.integers(0, len(codes), len(rows)) if other is None else np.clip(other, 0, len(codes) - 1)
            codes[rows] = before[source]
            grown = grow(grown, block[rows], codes[rows], RANGES)
            done += len(rows)
        anew = block_ranges(coding, [range_set(coding, each, RANGES) for each in np.split(codes, lines.ends[1:-1])])
        kept, best = gaps(grown), gaps(anew)
        found.append(float(np.mean(kept[best > 0] / best[best > 0])) if (best > 0).any() else float("nan"))
    return found


def gaps(ranges: BlockRanges) -> npt.NDArray[np.float64]:
    """For each block the width of what lies between its ranges.

    >>> coding = Coding(LONG)
    >>> gaps(block_ranges(coding, [range_set(coding, integer_codes(np.array([1, 2, 9, 12])), 2)])).tolist()
    [7.0]
    """
    between = (ranges.lows[1:] - ranges.highs[:-1]).astype(np.float64)
    of = ranges.block_of_range
    same = of[1:] == of[:-1]
    widths: npt.NDArray[np.float64] = np.zeros(ranges.blocks)
    np.add.at(widths, of[1:][same], between[same])
    return widths


def construction_times(data: FigureData, console: Console) -> dict[str, Any]:
    """Figure 16b: milliseconds to make a range-set of so many unsorted values, and to sort them."""
    rng = np.random.default_rng(data.args.seed)
    table = Table(title="Milliseconds to make a range-set of unsorted values, and to sort them alone")
    for heading in ("values", "sort", "4 ranges", "20 ranges"):
        table.add_column(heading, justify="right")
    found = {}
    for rows in (10_000, 100_000, 1_000_000):
        codes = _codes(rng, rows)
        jobs: dict[str, Callable[[], object]] = {
            "sort": partial(np.sort, codes),
            "4": partial(range_set, CODING, codes, 4),
            "20": partial(range_set, CODING, codes, 20),
        }
        found[f"{rows}"] = {name: round(1e3 * _seconds(job), 3) for name, job in jobs.items()}
        table.add_row(f"{rows:,}", *(f"{value:.2f}" for value in found[f"{rows}"].values()))
    console.print(table)
    return {"construction_ms": found}


def _codes(rng: np.random.Generator, count: int) -> Codes:
    return integer_codes(rng.integers(0, 1 << 40, count))


def _seconds(job: Callable[[], object], runs: int = 3) -> float:
    """The least processor time of a few runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return min(times)
