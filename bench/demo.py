"""A short tour on TPC-H: index the tables, run queries with sidestep off and on, compare what they read, explain one.

Nothing is clustered or rewritten: the tables are as the generator writes them, orders and lineitem in the order of
their keys. So queries about keys skip much, and TPC-H's own queries, which ask about dates, skip little or nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.filesize import decimal as size_text
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import sidestep
from bench.harness import Race, race
from bench.tpch import DATA, TABLES, make_tpch, queries, register
from sidestep.cli.session import spark_session
from sidestep.spark.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPLAINED = "key range"
OWN_QUERIES = ("q1", "q3", "q6", "q12", "q14")
REMARK = (
    "The tables lie in the order of their keys, so queries about keys skip most files. TPC-H's own queries ask about "
    "dates, which are spread over all files: there is little or nothing to skip until the data is laid out for them. "
    "Rows are those that leave the scans. Without sidestep, too, Spark passes over row groups by the minima and maxima "
    "in Parquet footers, but it must open every file to see them. Where off and on read the same, a difference in time "
    "is chance."
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query with sidestep off and on."""

    name: str
    off: Metrics
    on: Metrics
    timing: Race
    equal: bool


def key_queries(sf: float) -> dict[str, str]:
    """Queries about keys, which the tables are in the order of; the keys are spread over those of the scale factor."""
    last = int(6_000_000 * sf)
    point = last // 2 // 32 * 32 + 1
    low, high = last // 4, last // 4 + last // 50
    # Keys at both ends: what lies between them is skipped too.
    some = ", ".join(str((start + 64 * step) // 32 * 32 + 1) for start in (0, last - 1_000) for step in range(6))
    return {
        "one order": f"SELECT * FROM lineitem WHERE l_orderkey = {point}",
        "12 orders": f"SELECT * FROM orders WHERE o_orderkey IN ({some})",
        EXPLAINED: f"""
            SELECT o_orderpriority, count(*) AS items, sum(l_extendedprice) AS price
            FROM orders JOIN lineitem ON l_orderkey = o_orderkey
            WHERE o_orderkey BETWEEN {low} AND {high} AND l_shipdate > l_commitdate
            GROUP BY o_orderpriority ORDER BY o_orderpriority""",
        "last orders": f"SELECT count(*), sum(o_totalprice) FROM orders WHERE o_orderkey > {last - last // 100}",
    }


def measure(spark: SparkSession, name: str, text: str, runs: int) -> Outcome:
    """Run a query off and on in turns; the first run of each, which is not timed, gives rows and metrics."""
    first: dict[str, tuple[list[Any], Metrics]] = {}

    def variant(label: str) -> None:
        spark.conf.set("spark.sidestep.enabled", str(label == "on").lower())
        df: DataFrame = spark.sql(text)
        rows = df.collect()
        if label not in first:
            first[label] = (rows, sidestep.metrics(df))

    try:
        timing = race({label: (lambda label=label: variant(label)) for label in ("off", "on")}, runs=runs)  # type: ignore[misc]
    finally:
        spark.conf.unset("spark.sidestep.enabled")
    (rows_off, off), (rows_on, on) = first["off"], first["on"]
    return Outcome(name, off, on, timing, Counter(rows_off) == Counter(rows_on))


def table_of(outcomes: Sequence[Outcome]) -> Table:
    """Off and on, side by side."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("query")
    for heading in ("files", "rows", "MB", "ms"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        off, on = outcome.off, outcome.on
        table.add_row(
            outcome.name,
            _change(off.files, on.files, "{:,}".format),
            _change(off.rows, on.rows, "{:,}".format),
            _change(off.bytes, on.bytes, lambda size: f"{size / 1e6:,.1f}"),
            " → ".join(f"{1000 * outcome.timing[label].median:,.0f}" for label in ("off", "on")),
        )
    return table


def _change(off: int, on: int, show: Callable[[int], str]) -> str:
    return f"{show(off)} → [green]{show(on)}[/]" if on < off else f"{show(off)} → {show(on)}"


def tour(out: Console, sf: float, files: int, data: Path, runs: int) -> list[Outcome]:
    """The whole demo, step by step, on stdout."""
    with _step(out, f"Making TPC-H at scale factor {sf:g} in {data}"):
        folder = make_tpch(data, sf=sf, files=files)
    with ExitStack() as until_done:
        with _step(out, "Starting Spark"):
            spark = until_done.enter_context(spark_session("local[*]", {"spark.driver.memory": "2g"}))
            register(spark, folder)
            until_done.enter_context(sidestep.enable(spark))
        index_all(out, spark, folder)
        asked = {**key_queries(sf), **{name: text for name, text in queries().items() if name in OWN_QUERIES}}
        outcomes = []
        for name, text in asked.items():
            with _step(out, f"Running {name}, off and on in turns"):
                outcomes.append(measure(spark, name, text, runs))
        out.print(f"\n[bold]What was read[/], sidestep off → on; times are medians of {runs} runs")
        out.print(table_of(outcomes))
        _comment(out, outcomes)
        out.print(f"\n[bold]sidestep.explain[/] of the query “{EXPLAINED}”:\n")
        out.print(sidestep.explain(asked[EXPLAINED], spark))
    return outcomes


def index_all(out: Console, spark: SparkSession, folder: Path) -> None:
    """Index every table, and say what that took."""
    start, size = time.perf_counter(), 0
    for table in TABLES:
        with _step(out, f"Indexing {table}"):
            size += sidestep.index(spark, str(folder / table)).index_bytes
    seconds = time.perf_counter() - start
    out.print(f"[bold]Indexed[/] {len(TABLES)} tables of {folder} in {seconds:.1f} s: {size_text(size)} of index.")


def _comment(out: Console, outcomes: Sequence[Outcome]) -> None:
    different = [outcome.name for outcome in outcomes if not outcome.equal]
    if different:
        out.print(f"[bold red]Results differ[/] for {', '.join(different)}: this is a bug; please report it.")
    else:
        out.print(f"All {len(outcomes)} queries gave the same rows with sidestep off and on.")
    out.print(REMARK)


@contextmanager
def _step(out: Console, text: str) -> Iterator[None]:
    """A spinner with the time, while one step runs."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Where nobody watches, rich would still print an empty line for each step.
    with Progress(*columns, console=out, transient=True, disable=not out.is_interactive) as bar:
        bar.add_task(text, total=None)
        yield


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sf", type=float, default=0.1, help="scale factor of TPC-H; 1 is about 1 GB (default: 0.1)")
    parser.add_argument("--files", type=int, default=16, help="files per large table (default: 16)")
    parser.add_argument("--data", type=Path, default=DATA, help="folder for the data (default: data/ in the checkout)")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each query, off and on (default: 3)")
    args = parser.parse_args(argv)
    out = Console(highlight=False)
    try:
        outcomes = tour(out, args.sf, args.files, args.data, args.runs)
    except sidestep.SidestepError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 1
    return 0 if all(outcome.equal for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
