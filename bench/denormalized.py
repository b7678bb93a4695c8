"""Queries on normalized TPC-H: as they are, with indexed tables, and rewritten to a denormalized table.

Random queries of nine templates (q3, q5, q6, q10, q12, q14, q19, and the joins of q20 and q21) on the base tables.
``plain`` is Spark alone; ``indexed`` skips by ``sidestep.index`` of all base tables, what joins induce included;
``rewritten`` reads the table that ``sidestep.denormalize`` has made from earlier queries, wherever the product chooses
to. Every query gives the same answer each way, or the run ends. A cell is a value of a column that a scan hands on.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sidestep
from bench.denorm import BRANDS, MODES, REGIONS, SEGMENTS, Draw
from bench.gsop_queries import COLOURS, NATIONS
from bench.harness import race
from bench.reads import bytes_read
from bench.session import spark_session
from bench.tpch import DATA, TABLES, make_tpch, register
from sidestep.spark.jvm.bridge import Bridge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PLAIN, INDEXED, REWRITTEN = "plain", "indexed", "rewritten"
WAYS = (PLAIN, INDEXED, REWRITTEN)
_SWITCH, _STAGE = "spark.sidestep.enabled", "spark.sidestep.stages.denormalized"
_UNCOUNTED = ("_unit", "_block")


@dataclass
class Reads:
    """What the queries read one way, in all."""

    cells: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    """As Spark counts them: files are read in larger pieces than columns are."""
    seconds: float = 0.0


def q3(draw: Draw) -> str:
    day = f"DATE '1995-03-{draw.number(1, 31):02}'"
    return (
        "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)), o_orderdate, o_shippriority "
        "FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND "
        f"c_mktsegment = '{draw.one(SEGMENTS)}' AND o_orderdate < {day} AND l_shipdate > {day} GROUP BY 1, 3, 4"
    )


def q5(draw: Draw) -> str:
    year = draw.number(1993, 1997)
    return (
        "SELECT n_name, sum(l_extendedprice * (1 - l_discount)) FROM customer, orders, lineitem, supplier, nation, "
        "region WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = "
        f"s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = "
        f"'{draw.one(tuple(REGIONS))}' AND "
        f"o_orderdate >= DATE '{year}-01-01' AND o_orderdate < DATE '{year + 1}-01-01' GROUP BY n_name"
    )


def q6(draw: Draw) -> str:
    year, discount = draw.number(1993, 1997), draw.number(2, 9)
    return (
        f"SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '{year}-01-01' AND "
        f"l_shipdate < DATE '{year + 1}-01-01' AND l_discount BETWEEN 0.{discount - 1:02} AND 0.{discount + 1:02} AND "
        f"l_quantity < {draw.number(24, 25)}"
    )


def q10(draw: Draw) -> str:
    start = f"DATE '{draw.month('1993-02', 24)}'"
    return (
        "SELECT c_custkey, sum(l_extendedprice * (1 - l_discount)), n_name FROM customer, orders, lineitem, nation "
        f"WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= {start} AND o_orderdate < "
        f"add_months({start}, 3) AND l_returnflag = 'R' AND c_nationkey = n_nationkey GROUP BY c_custkey, n_name"
    )


def q12(draw: Draw) -> str:
    year, (one, other) = draw.number(1993, 1997), draw.two(MODES)
    return (
        "SELECT l_shipmode, sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END), count(*) FROM "
        f"orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('{one}', '{other}') AND l_commitdate < "
        f"l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '{year}-01-01' AND l_receiptdate < "
        f"DATE '{year + 1}-01-01' GROUP BY l_shipmode"
    )


def q14(draw: Draw) -> str:
    start = f"DATE '{draw.number(1993, 1997)}-{draw.number(1, 12):02}-01'"
    return (
        "SELECT sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END), count(*) FROM "
        f"lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= {start} AND l_shipdate < add_months({start}, 1)"
    )


def q19(draw: Draw) -> str:
    kinds = (
        ("SM", ("CASE", "BOX", "PACK", "PKG"), 5),
        ("MED", ("BAG", "BOX", "PKG", "PACK"), 10),
        ("LG", ("CASE", "BOX", "PACK", "PKG"), 15),
    )
    branches = []
    for (size, names, most), low in zip(kinds, (1, 10, 20), strict=True):
        containers = ", ".join(f"'{size} {name}'" for name in names)
        least = draw.number(low, low + 9 if low > 1 else 10)
        branches.append(
            f"(p_brand = '{draw.one(BRANDS)}' AND p_container IN ({containers}) AND l_quantity >= {least} AND "
            f"l_quantity <= {least + 10} AND p_size BETWEEN 1 AND {most})"
        )
    return (
        "SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem, part WHERE p_partkey = l_partkey AND "
        f"l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON' AND ({' OR '.join(branches)})"
    )


def q20(draw: Draw) -> str:
    return (
        "SELECT s_name, sum(l_quantity) FROM lineitem JOIN part ON l_partkey = p_partkey JOIN supplier ON l_suppkey = "
        f"s_suppkey JOIN nation ON s_nationkey = n_nationkey WHERE p_name LIKE '{draw.one(COLOURS)}%' AND n_name = "
        f"'{draw.one(NATIONS)}' GROUP BY s_name"
    )


def q21(draw: Draw) -> str:
    return (
        "SELECT s_name, count(*) FROM supplier, lineitem, orders, nation WHERE s_suppkey = l_suppkey AND o_orderkey = "
        "l_orderkey AND o_orderstatus = 'F' AND l_receiptdate > l_commitdate AND s_nationkey = n_nationkey AND "
        f"n_name = '{draw.one(NATIONS)}' GROUP BY s_name"
    )


TEMPLATES: Mapping[str, Callable[[Draw], str]] = {
    "q3": q3, "q5": q5, "q6": q6, "q10": q10, "q12": q12, "q14": q14, "q19": q19, "q20": q20, "q21": q21,
}  # fmt: skip


def random_queries(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Queries of all templates in turn, with the names of these."""
    draw = Draw(np.random.default_rng(seed))
    for number in range(count):
        name = list(TEMPLATES)[number % len(TEMPLATES)]
        yield name, TEMPLATES[name](draw)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--train", type=int, default=450, help="queries to learn from")
    parser.add_argument("--test", type=int, default=90, help="later queries")
    parser.add_argument("--layout", choices=("gsop", "sop"), default="gsop", help="of the denormalized table")
    parser.add_argument("--min-size", type=int, help="rows per block, instead of the default")
    parser.add_argument("--runs", type=int, default=1, help="timed runs of each query, after one that is not; 0: none")
    parser.add_argument("--seed", type=int, default=1, help="of the queries")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    spark = spark_session(args.memory)
    # Tables of its own: what is known of them, and that they were denormalized, is kept with them.
    folder = make_tpch(args.data / "denormalized", args.sf)
    tables = {name: str(folder / name) for name in TABLES}
    for path in tables.values():
        shutil.rmtree(Path(path) / "_sidestep", ignore_errors=True)
        sidestep.index(spark, path)
    target = folder / f"joined-{args.layout}"
    shutil.rmtree(target, ignore_errors=True)
    log = [text for _, text in random_queries(args.train, args.seed)]
    began = time.monotonic()
    report = sidestep.denormalize(
        spark, log, tables, target, fact="lineitem", layout=args.layout, min_size=args.min_size
    )
    seconds = time.monotonic() - began
    console.print(str(report), highlight=False, markup=False)
    register(spark, folder)
    tests = list(random_queries(args.test, args.seed + 1))
    with sidestep.enable(spark):
        try:
            reads, rewritten = _measure(spark, tests, args.runs)
        finally:
            for setting in (_SWITCH, _STAGE):
                spark.conf.unset(setting)
    _print(console, reads, f"{len(tests)} queries on TPC-H SF {args.sf:g}", args.runs)
    console.print(f"{sum(rewritten.values())} of {len(tests)} queries were rewritten: {rewritten}")
    return {
        **{name: {way: asdict(each)[name] for way, each in reads.items()} for name in ("cells", "rows", "bytes")},
        "seconds": {way: round(each.seconds, 3) for way, each in reads.items()},
        "rewritten": rewritten,
        "queries": len(tests),
        "made": {"seconds": round(seconds, 1), "bytes": report.bytes, "base_bytes": report.base_bytes},
    }


def _measure(spark: SparkSession, tests: list[tuple[str, str]], runs: int) -> tuple[dict[str, Reads], dict[str, int]]:
    reads = {way: Reads() for way in WAYS}
    rewritten = dict.fromkeys(TEMPLATES, 0)
    for number, (template, text) in enumerate(tests):
        answers = {}
        for way in WAYS:
            answers[way], instead = _run_one(spark, way, text, f"denormalized-{way}-{number}", reads[way])
            rewritten[template] += instead
        if any(_comparable(answers[way]) != _comparable(answers[PLAIN]) for way in WAYS):
            raise AssertionError(f"The ways differ on {text}: {answers}")
        if runs:
            timed = race({way: _runner(spark, way, text) for way in WAYS}, runs=runs)
            for timing in timed.timings:
                reads[timing.name].seconds += timing.median
    return reads, rewritten


def _runner(spark: SparkSession, way: str, text: str) -> Callable[[], object]:
    return lambda: _ask(spark, way, text).collect()


def _comparable(rows: list[Row]) -> list[str]:
    return sorted(map(str, rows))


def _ask(spark: SparkSession, way: str, text: str) -> DataFrame:
    spark.conf.set(_SWITCH, str(way != PLAIN).lower())
    spark.conf.set(_STAGE, str(way == REWRITTEN).lower())
    return spark.sql(text)


def _run_one(spark: SparkSession, way: str, text: str, group: str, reads: Reads) -> tuple[list[Row], bool]:
    spark.sparkContext.setJobGroup(group, way)
    df = _ask(spark, way, text)
    answer = df.collect()
    inspector = Bridge(spark).factory()
    instead = False
    for scan in inspector.scans(df._jdf.queryExecution().executedPlan()):
        values = dict(line.split("=", 1) for line in inspector.metrics(scan).splitlines())
        output = scan.output()
        names = [output.apply(at).name() for at in range(output.size())]
        rows = int(values.get("numOutputRows", 0))
        reads.rows += rows
        reads.files += int(values.get("numFiles", 0))
        reads.cells += rows * len([name for name in names if name not in _UNCOUNTED])
        instead = instead or "/joined-" in inspector.rootPath(scan)
    reads.bytes += bytes_read(spark, group)
    return answer, instead


def _print(console: Console, reads: Mapping[str, Reads], title: str, runs: int) -> None:
    table = Table(title=title)
    for heading in ("", "cells", "times fewer", "rows", "files", "MB", "seconds"):
        table.add_column(heading, justify="right" if heading else "left")
    for way, each in reads.items():
        fewer = f"{reads[PLAIN].cells / each.cells:.1f}" if each.cells else "-"
        time_taken = f"{each.seconds:.2f}" if runs else "-"
        table.add_row(
            way, f"{each.cells:,}", fewer, f"{each.rows:,}", f"{each.files:,}", f"{each.bytes / 1e6:,.1f}", time_taken
        )
    console.print(table)
