"""Synopses that know the gaps: global range tables against zone maps, range-sets and Bloom filters of equal bytes.

Ids are sparse 64-bit numbers in date partitions (bench/grt_data.py tells how they lie). Queries ask for ids that exist
elsewhere, for absent ones next to them, and for short ranges; the rate of false positives is the share of partitions
that are kept among those that hold nothing of it. Every synopsis counts together with the zone map. Popularity comes
from other queries than those that are measured. Tables are made as an index run makes them, of what blocks leave; times
begin with the values of a block in memory and are processor time. What comes of that is shown beside what would of all
values at hand (*exact*), in memory and by ``sidestep.index`` on files.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import sidestep
from bench.grt_data import (
    CODING,
    Data,
    absent_ids,
    clustered,
    existing_ids,
    profile_of,
    scattered,
    short_ranges,
    two_runs,
)
from bench.session import spark_session
from sidestep.advisor.synopses.budget import Plan, spend
from sidestep.advisor.synopses.candidates import CodeFilters, CodeSynopsis, Profile, zone_map
from sidestep.predicate import Column
from sidestep.predicate.intervals import IntervalSet
from sidestep.prune.dips.column_ranges import ColumnRanges
from sidestep.store import open_index
from sidestep.synopsis.bloom import LINE_BYTES, block_filters, bloom_filter
from sidestep.synopsis.build import BuildPlan, block_synopses, index_columns
from sidestep.synopsis.contract.block_ranges import block_ranges, meets
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.grt.encoding import BlockBits, global_ranges, ranges_per_partition, table_of_parts
from sidestep.synopsis.grt.merge import cut_all, integrate, ranges_meeting
from sidestep.synopsis.grt.popularity import learn_popularity, uniform
from sidestep.synopsis.grt.table import encode_blocks
from sidestep.synopsis.range_set import BYTES_PER_RANGE, grow, range_set
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.values.code_ranges import CodeRanges, value_ranges
from sidestep.synopsis.values.codes import Codes, integer_values
from sidestep.synopsis.values.hashing import code_hashes

HEADLINE_BITS = 256
ID = "id"
GROUPS_PER_FILE = 100
TRAINING = 2_000
"""Queries that popularity is learned from."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 256, 1_024])
    parser.add_argument("--queries", type=int, default=300, help="queries of each kind that are measured")
    parser.add_argument("--probes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=15, help="timed probes of each size")
    parser.add_argument("--file-rows", type=int, default=500_000, help="rows of the table that is indexed on disk")
    parser.add_argument("--file-partitions", type=int, default=5_000, help="its row groups")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    figures: dict[str, Any] = {"quality": construction(console, args)}
    middle = min(args.partitions, key=lambda count: abs(count - 1_000))
    data = clustered(args.rows[0], middle, args.seed)
    rates = false_positives(console, data, args)
    bits = min(args.bits, key=lambda count: abs(count - HEADLINE_BITS))
    figures["fpr"] = rates[bits]["existing"]
    figures["fpr_by_bits"] = rates
    figures["budget"] = budget(console, args, middle)
    figures["budget_no_worse"] = all(each["fpr"] <= each["best"] for each in figures["budget"].values())
    figures["probe_ms_by_partitions"] = probing(console, data, args)
    figures["probe_ms"] = figures["probe_ms_by_partitions"][max(args.probes)]
    figures["build_s"] = figures["quality"][f"{args.rows[0]}/{middle}"][bits]["build_s"]
    figures["grow_us"] = growth(console, data)
    figures["origin_kept"] = origin(console, data, args)
    on_files = {"partitions": args.file_partitions, "bits": max(args.bits), "queries": args.queries, "seed": args.seed}
    figures["grt_fpr"] = grt(spark_session(), rows=args.file_rows, **on_files)
    shown = ", ".join(f"{name} {value:.4f}" for name, value in figures["grt_fpr"].items())
    console.print(f"sidestep.index on {args.file_partitions:,} row groups, {max(args.bits):,} bits: {shown}")
    return figures


def asked_by(queries: list[CodeRanges]) -> list[tuple[IntervalSet, float]]:
    """Queries as a workload's predicates, each asked once."""
    return [(value_ranges(each, CODING), 1.0) for each in queries]


def encode(data: Data, bits: int, asked: Sequence[tuple[IntervalSet, float]] = ()) -> tuple[BlockBits, float]:
    """A table and the blocks' bits as an index run makes and stores them, and the processor seconds that it took."""
    values = [pa.array(integer_values(codes)) for codes in data.blocks]
    plan = BuildPlan({ID: Recipe(grt=bits)}, asked={ID: asked}, partitions=len(values))
    start = time.process_time()
    built = [block_synopses(ID, CODING.type, block, plan) for block in values]
    parts = index_columns(ID, CODING.type, built, plan)[f"grtparts:{ID}"]
    table, stored = table_of_parts(CODING.type, pa.chunked_array([parts]), None, bits, asked)
    seconds = time.process_time() - start
    assert table is not None
    columns = {"grt": pa.array(stored, pa.large_binary()), "grttable": pa.array([table.identity] * len(stored))}
    return GRT.read(CODING.type, columns, [table])[0], seconds


def exact(data: Data, bits: int, asked: Sequence[tuple[IntervalSet, float]] = ()) -> BlockBits:
    """The same where all values are at hand when the table is made, and when blocks are encoded."""
    known = learn_popularity(CODING, asked)
    held = [CodeRanges(codes, codes) for codes in data.blocks]
    partitions = cut_all(held, len(held) * ranges_per_partition(len(held), bits), known)
    (table,) = global_ranges(partitions, [bits], known, held)
    return BlockBits(table, encode_blocks(table, data.blocks))


def grt(
    spark: SparkSession,
    *,
    rows: int = 500_000,
    partitions: int = 5_000,
    bits: int = 1_024,
    queries: int = 300,
    seed: int = 0,
) -> dict[str, float]:
    """False positives of a global range table that ``sidestep.index`` makes of Parquet files, and of the exact one."""
    data = clustered(rows, partitions, seed)
    profile = profile_of(data, existing_ids(data, queries, seed))
    with tempfile.TemporaryDirectory(prefix="sidestep-bench-") as folder:
        for number, begin in enumerate(range(0, partitions, GROUPS_PER_FILE)):
            _write(Path(folder) / f"{number:05d}.parquet", data.blocks[begin : begin + GROUPS_PER_FILE])
        sidestep.index(spark, folder, synopses={ID: f"grt:{bits}"})
        # Files are in the order of their names, and blocks in the order of files and row groups.
        (product,) = open_index(folder).reader().column(ID, CODING.type)[GRT.key]
    assert isinstance(product, BlockBits)
    assert product.unknown is None
    return {"product": rate(profile, product), "exact": rate(profile, exact(data, bits))}


def _write(path: Path, blocks: Sequence[Codes]) -> None:
    """A file with a row group for each block."""
    with pq.ParquetWriter(path, pa.schema([(ID, pa.int64())])) as writer:
        for codes in blocks:
            writer.write_table(pa.table({ID: pa.array(integer_values(codes))}))


def origin(console: Console, data: Data, args: argparse.Namespace) -> dict[int, dict[str, float]]:
    """The share of a partner's blocks that a join keeps, by what some neighbouring partitions hold.

    The partner has the same ids, in order, in as many blocks of a range each. *exact* is by the ids themselves.
    """
    count = len(data.blocks)
    kept = np.zeros(count, dtype=np.bool_)
    kept[count // 2 : count // 2 + max(1, count // 100)] = True
    partner = np.array_split(np.sort(np.concatenate(data.blocks)), count)
    lower, upper = (np.array([block[at] for block in partner]) for at in (0, -1))
    ids = np.sort(np.concatenate([codes for codes, keep in zip(data.blocks, kept, strict=True) if keep]))
    zones = block_ranges(CODING, [CodeRanges(codes[:1], codes[-1:]) for codes in data.blocks])
    column, none = Column(ID, CODING.type), np.zeros(count, dtype=np.bool_)
    table = Table(title=f"Blocks of a partner that a join with {int(kept.sum())} of {count:,} partitions keeps")
    for heading in ("bits", "zone map", "range-set", "GRT", "exact"):
        table.add_column(heading, justify="right")
    found: dict[int, dict[str, float]] = {}
    for bits in args.bits:
        most = max(1, bits // 8 // BYTES_PER_RANGE)
        sets = block_ranges(CODING, [range_set(CODING, each, most) for each in data.blocks])
        sent = {
            "zonemap": ColumnRanges(column, zones, none).union(kept),
            "rangeset": ColumnRanges(column, sets, none).union(kept),
            "grt": ColumnRanges(column, zones, none, (encode(data, bits)[0],)).union(kept),
            "exact": CodeRanges(np.unique(ids), np.unique(ids)),
        }
        found[bits] = {name: float(meets(each.lows, each.highs, lower, upper).mean()) for name, each in sent.items()}
        table.add_row(str(bits), *(f"{value:.3f}" for value in found[bits].values()))
    console.print(table)
    return found


def gaps_preserved(data: Data, found: BlockBits) -> float:
    """Figure 2a: of the ids between a partition's least and greatest that it lacks, the share that is known absent."""
    ranges = found.table.ranges
    shares = []
    bits = np.unpackbits(np.ascontiguousarray(found.words.T).view(np.uint8), axis=1, bitorder="little").view(np.bool_)
    for codes, row in zip(data.blocks, bits, strict=True):
        chosen = np.flatnonzero(row[: len(ranges)])
        lows = np.maximum(ranges.lows[chosen], codes[0]).astype(np.float64)
        highs = np.minimum(ranges.highs[chosen], codes[-1]).astype(np.float64)
        absent = float(codes[-1] - codes[0]) + 1 - len(codes)
        shares.append(1 - max(0.0, float(np.sum(np.maximum(0, highs - lows + 1))) - len(codes)) / max(1.0, absent))
    return float(np.mean(shares))


def normalized_cost(data: Data, ranges: CodeRanges) -> float:
    """Figure 2b: equation 3 with uniform popularity, by what the partitions' least to greatest values take in."""
    known = uniform(CODING)
    users = np.zeros(len(ranges))
    for codes in data.blocks:
        users[ranges_meeting(ranges, CodeRanges(codes, codes))] += 1
    taken = float(users @ known.of(ranges.lows, ranges.highs))
    ends = (np.array([codes[at] for codes in data.blocks]) for at in (0, -1))
    return (taken - data.rows) / float(known.of(*ends).sum())


def construction(console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """Figures 2 and 3: what tables of each size keep of the gaps, what they cost, and how long they take to make."""
    table = Table(title="Global range tables, uniform popularity")
    for heading in ("rows", "partitions", "bits", "gaps preserved", "cost, no merge", "cost", "seconds to make"):
        table.add_column(heading, justify="right")
    found: dict[str, Any] = {}
    for rows in args.rows:
        for count in args.partitions:
            data = clustered(rows, count, args.seed)
            held = [CodeRanges(codes, codes) for codes in data.blocks]
            unmerged = integrate(cut_all(held, count * ranges_per_partition(count, max(args.bits)), uniform(CODING)))
            before = normalized_cost(data, unmerged)
            for bits in args.bits:
                encoded, seconds = encode(data, bits)
                figures = {
                    "gaps_preserved": gaps_preserved(data, encoded),
                    "cost_unmerged": before,
                    "cost": normalized_cost(data, encoded.table.ranges),
                    "build_s": seconds,
                }
                found.setdefault(f"{rows}/{count}", {})[bits] = figures
                shown = (f"{value:.4g}" for value in figures.values())
                table.add_row(f"{rows:,}", f"{count:,}", str(bits), *shown)
    console.print(table)
    return found


def rate(profile: Profile, *synopses: CodeSynopsis) -> float:
    """The share of partitions kept among those that hold nothing of what is asked for, over all queries."""
    kept = profile.answers(zone_map(profile))
    for synopsis in synopses:
        kept &= profile.answers(synopsis)
    return float((kept & ~profile.holding).sum() / (~profile.holding).sum())


def false_positives(console: Console, data: Data, args: argparse.Namespace) -> dict[int, Any]:
    """False positives at equal bytes per partition, for each number of bits."""
    count = len(data.blocks)
    kinds = {"existing": existing_ids, "absent": absent_ids, "ranges": short_ranges}
    queries = {name: make(data, args.queries, args.seed) for name, make in kinds.items()}
    known = asked_by(existing_ids(data, TRAINING, args.seed + 1))
    table = Table(title=f"False positives, {count:,} partitions of clustered ids, equal bytes per partition")
    headings = ("GRT", "exact", "GRT, no workload", "exact, no workload", "zone map", "range-set", "Bloom")
    for heading in ("bits", "queries", *headings):
        table.add_column(heading, justify="right")
    found: dict[int, Any] = {}
    for bits in args.bits:
        size = bits // 8
        synopses: dict[str, list[CodeSynopsis]] = {
            "grt": [encode(data, bits, known)[0]],
            "grt_exact": [exact(data, bits, known)],
            "grt_uniform": [encode(data, bits)[0]],
            "grt_uniform_exact": [exact(data, bits)],
            "zonemap": [],
            "rangeset": [],
            "bloom": [],
        }
        # Below 16 bytes there is no range beside the zone map, below 32 no line of a Bloom filter.
        if most := size // BYTES_PER_RANGE:
            synopses["rangeset"] = [block_ranges(CODING, [range_set(CODING, each, most) for each in data.blocks])]
        if lines := size // LINE_BYTES:
            filled = [bloom_filter(code_hashes(each), lines) for each in data.blocks]
            synopses["bloom"] = [CodeFilters(block_filters(CODING.type, filled))]
        for name, asked in queries.items():
            profile = profile_of(data, asked)
            rates = {kind: rate(profile, *each) for kind, each in synopses.items()}
            found.setdefault(bits, {})[name] = rates
            table.add_row(str(bits), name, *(f"{value:.3f}" for value in rates.values()))
    console.print(table)
    return found


def budget(console: Console, args: argparse.Namespace, partitions: int) -> dict[str, Any]:
    """The budget chooser on held-out queries, against every single synopsis that the same bytes would pay for."""
    total = 48 * partitions
    every = [clustered(args.rows[0], partitions, args.seed), two_runs(args.rows[0], partitions, args.seed)]
    every.append(scattered(partitions, args.seed))
    table = Table(title=f"Chosen for {total:,} bytes; false positives on queries it was not chosen by")
    for heading in ("data", "chosen", "rate", "bound", "best single", "its rate"):
        table.add_column(heading, justify="right" if "r" in heading[-4:] else "left")
    found: dict[str, Any] = {}
    for data in every:
        train = existing_ids(data, TRAINING, args.seed + 1)
        plan = spend([profile_of(data, train[: args.queries], learn_popularity(CODING, asked_by(train)))], total)
        held_out = profile_of(data, existing_ids(data, args.queries, args.seed + 2))
        (choice,) = plan.choices
        now = rate(held_out, *(part.synopsis for part in choice.parts))
        singles = single_rates(plan, held_out)
        best = min(singles, key=lambda name: singles[name])
        chosen = " + ".join(f"{part.kind} {part.per_block} B" for part in choice.parts) or "zone map"
        found[data.name] = {"chosen": chosen, "fpr": now, "bound": choice.bound, "single": best, "best": singles[best]}
        table.add_row(data.name, chosen, f"{now:.3f}", f"{choice.bound:.3f}", best, f"{singles[best]:.3f}")
    console.print(table)
    return found


def single_rates(plan: Plan, held_out: Profile) -> dict[str, float]:
    """The rate of each single synopsis that the budget allows, on the held-out queries."""
    found = {"zone map": rate(held_out)}
    for candidate in plan.candidates[0]:
        if candidate.total <= plan.budget:
            found[f"{candidate.kind} {candidate.per_block} B"] = rate(held_out, candidate.synopsis)
    return found


def probing(console: Console, data: Data, args: argparse.Namespace) -> dict[int, dict[str, float]]:
    """Milliseconds to ask all partitions, by their number: for one id, and for most of the domain."""
    encoded, _ = encode(data, HEADLINE_BITS)
    ranges = encoded.table.ranges
    wide = CodeRanges(ranges.lows[len(ranges) // 10 :][:1], ranges.highs[-(len(ranges) // 10) - 1 :][:1])
    asked = {"point": existing_ids(data, 1, args.seed)[0], "range": wide}
    table = Table(title=f"Milliseconds to probe, {HEADLINE_BITS} bits")
    for heading in ("partitions", *asked):
        table.add_column(heading, justify="right")
    found: dict[int, dict[str, float]] = {}
    for count in args.probes:
        words = np.resize(encoded.words.T, (count, encoded.table.words)).T
        many = BlockBits(encoded.table, np.ascontiguousarray(words))
        found[count] = {}
        for name, query in asked.items():
            values = value_ranges(query, CODING)
            times = []
            for _ in range(args.runs + 1):
                start = time.perf_counter()
                many.may_be_within(values)
                times.append(1000 * (time.perf_counter() - start))
            found[count][name] = statistics.median(times[1:])
        table.add_row(f"{count:,}", *(f"{value:.2f}" for value in found[count].values()))
    console.print(table)
    return found


def growth(console: Console, data: Data) -> float:
    """Processor microseconds to add a value to a range-set of four, in one batch."""
    rng = np.random.default_rng(5)
    start = block_ranges(CODING, [range_set(CODING, codes[: len(codes) // 2], 4) for codes in data.blocks])
    added = np.concatenate([codes[len(codes) // 2 :] for codes in data.blocks])
    block = np.repeat(np.arange(len(data.blocks)), [len(codes) - len(codes) // 2 for codes in data.blocks])
    order = rng.permutation(len(added))
    added, block = added[order], block[order]
    began = time.process_time()
    grow(start, block, added, 4)
    each = 1e6 * (time.process_time() - began) / len(added)
    console.print(f"Adding {len(added):,} values to range-sets of 4 ranges: {each:.2f} µs each")
    return each
