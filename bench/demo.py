"""The whole story on denormalized TPC-H: a query log, its features, advice, a load, and test queries on both layouts.

The table is made as the generator emits it, in the order of its keys, and indexed: that is today's layout. Then it is
laid out by a log of training queries, and other queries of the same kind are run on both, with sidestep on.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import sidestep
from bench.denorm import NAME, TEMPLATES, random_queries
from bench.denorm_data import make_denorm
from bench.harness import Race, race
from bench.options import OptionParser
from bench.tpch import DATA
from sidestep.cli.messages import progress
from sidestep.cli.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

TRAINING_SEED, TEST_SEED = 1, 2
TODAY, LAID_OUT = "today", "laid out"
EXPLAINED = "q5"
FEATURES = 15
MIN_SIZE = 5_000
"""A demo's table is small: with the default size of a block it would be a few dozen blocks."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one query read of one layout."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test query on both layouts."""

    name: str
    reads: dict[str, Read]
    timing: Race
    equal: bool


def write_log(path: Path, count: int) -> Path:
    """Training queries as a file of SQL, as a warehouse would have logged them."""
    path.write_text(";\n\n".join(random_queries(count, TRAINING_SEED)) + ";\n", encoding="utf-8")
    return path


def measure(spark: SparkSession, name: str, text: str, views: dict[str, str], runs: int) -> Outcome:
    """Run a query on both layouts in turns; the first run of each, which is not timed, tells what it reads."""
    rows: dict[str, list[Row]] = {}
    reads: dict[str, Read] = {}

    def variant(layout: str) -> None:
        df = spark.sql(re.sub(rf"\b{NAME}\b", views[layout], text))
        found = df.collect()
        if layout not in rows:
            rows[layout] = found
            told = sidestep.explain(df).scans[0]
            reads[layout] = Read(sidestep.metrics(df).rows, told.bytes.kept if told.bytes else 0)

    variants: dict[str, Callable[[], object]] = {layout: (lambda layout=layout: variant(layout)) for layout in views}  # type: ignore[misc]
    timing = race(variants, runs=runs)
    return Outcome(name, reads, timing, Counter(rows[TODAY]) == Counter(rows[LAID_OUT]))


def table_of(outcomes: Sequence[Outcome]) -> Table:
    """Both layouts side by side, query by query, and in all."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("query")
    for heading in ("rows", "MB", "ms"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        today, laid_out = outcome.reads[TODAY], outcome.reads[LAID_OUT]
        table.add_row(
            outcome.name,
            _change(today.rows, laid_out.rows, "{:,}".format),
            _change(today.bytes, laid_out.bytes, lambda size: f"{size / 1e6:,.1f}"),
            " → ".join(f"{1000 * outcome.timing[layout].median:,.0f}" for layout in (TODAY, LAID_OUT)),
        )
    table.add_section()
    layouts = (TODAY, LAID_OUT)
    rows = [sum(outcome.reads[layout].rows for outcome in outcomes) for layout in layouts]
    sizes = [sum(outcome.reads[layout].bytes for outcome in outcomes) for layout in layouts]
    seconds = [sum(outcome.timing[layout].median for outcome in outcomes) for layout in layouts]
    table.add_row(
        "all",
        _change(rows[0], rows[1], "{:,}".format),
        _change(sizes[0], sizes[1], lambda size: f"{size / 1e6:,.1f}"),
        " → ".join(f"{1000 * each:,.0f}" for each in seconds),
    )
    return table


def _change(before: int, after: int, show: Callable[[int], str]) -> str:
    return f"{show(before)} → [green]{show(after)}[/]" if after < before else f"{show(before)} → {show(after)}"


def tour(out: Console, sf: float, data: Path, training: int, runs: int) -> list[Outcome]:
    """The whole demo, step by step, on stdout."""
    with _step(out, f"Making denormalized TPC-H at scale factor {sf:g} in {data}"):
        source = make_denorm(data, sf, "lean")
        log = write_log(data / "demo-log.sql", training)
        target = data / f"demo-sf{sf:g}"
        rmtree(target, ignore_errors=True)
    with ExitStack() as until_done:
        with _step(out, "Starting Spark"):
            spark = until_done.enter_context(spark_session("local[*]", {"spark.driver.memory": "3g"}))
        with _step(out, "Indexing the table as it is"):
            sidestep.index(spark, str(source))
        _title(out, f"1. The log: {training} queries. What they share", "sidestep analyze")
        with _step(out, "Analyzing the log"):
            analysis = sidestep.analyze(spark, str(log), tables={NAME: str(source)}, num_features=FEATURES)
        for feature in analysis.features(NAME).features:
            out.print(Text(f"{feature.weight:>5,} queries  {feature}"), overflow="ellipsis", no_wrap=True)
        _title(out, "2. What would other layouts save?", "sidestep advise")
        with _step(out, "Estimating from a sample"):
            advice = sidestep.advise(spark, str(log), str(source), name=NAME, min_size=MIN_SIZE)
        out.print(advice)
        _title(out, "3. Lay the table out", "sidestep load")
        with progress("Laying out") as show:
            report = sidestep.load(
                spark,
                str(source),
                str(target),
                name=NAME,
                log=str(log),
                min_size=MIN_SIZE,
                progress=show,
            )
        out.print(Text(str(report)))
        _title(out, "4. Other queries of the same kind, on both layouts", f"today → laid out; medians of {runs} runs")
        until_done.enter_context(sidestep.enable(spark))
        views = {TODAY: f"{NAME}_today", LAID_OUT: f"{NAME}_laid_out"}
        for layout, path in ((TODAY, source), (LAID_OUT, target)):
            sidestep.read(spark, str(path)).createOrReplaceTempView(views[layout])
            until_done.callback(spark.catalog.dropTempView, views[layout])
        outcomes, texts = [], {}
        for text in random_queries(len(TEMPLATES), TEST_SEED):
            name = template_of(text)
            texts[name] = text
            with _step(out, f"Running {name} on both layouts in turns"):
                outcomes.append(measure(spark, name, text, views, runs))
        outcomes.sort(key=lambda outcome: int(outcome.name[1:]))
        out.print(table_of(outcomes))
        _comment(out, outcomes)
        _title(out, f"5. Why {EXPLAINED} reads so little", "sidestep explain")
        out.print(sidestep.explain(re.sub(rf"\b{NAME}\b", views[LAID_OUT], texts[EXPLAINED]), spark))
    _title(out, "6. See it for yourself", "the console: analyze, try layouts, and watch queries skip")
    tables = f"-t {NAME}={source} -t {NAME}_laid_out={target}"
    out.print(Text(f"  .venv/bin/sidestep serve {data} {tables} --log {log} --open"), soft_wrap=True)
    return outcomes


def template_of(text: str) -> str:
    """The name of the template that a query was made from.

    >>> template_of(random_queries(1)[0]) in {template.__name__ for template in TEMPLATES}
    True
    """
    signs = {
        "q3": "o_shippriority",
        "q5": "c_nationkey = s_nationkey",
        "q6": "l_extendedprice * l_discount",
        "q8": "mkt_share",
        "q10": "l_returnflag = 'R'",
        "q12": "high_line_count",
        "q14": "promo_revenue",
        "q19": "DELIVER IN PERSON",
    }
    return next(name for name, sign in signs.items() if sign in text)


def _title(out: Console, text: str, also: str) -> None:
    out.print(f"\n[bold]{text}[/]  [dim]{also}[/]")


def _comment(out: Console, outcomes: Sequence[Outcome]) -> None:
    different = [outcome.name for outcome in outcomes if not outcome.equal]
    if different:
        out.print(f"[bold red]Results differ[/] for {', '.join(different)}: this is a bug; please report it.")
        return
    out.print(
        f"All {len(outcomes)} queries gave the same rows on both layouts. Rows are those that left the scans, MB those "
        "of the files or blocks read. At this scale most of the time is what Spark takes for any query at all."
    )


@contextmanager
def _step(out: Console, text: str) -> Iterator[None]:
    """A spinner with the time, while one step runs."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Where nobody watches, rich would still print an empty line for each step.
    with Progress(*columns, console=out, transient=True, disable=not out.is_interactive) as bar:
        bar.add_task(text, total=None)
        yield


def main(argv: Sequence[str]) -> int:
    parser = OptionParser("make demo", (__doc__ or "").partition("\n")[0])
    parser.add_argument("--sf", type=float, default=0.1, help="scale factor of TPC-H; 1 is about 1 GB (default: 0.1)")
    parser.add_argument("--data", type=Path, default=DATA, help="folder for the data (default: data/ in the checkout)")
    parser.add_argument("--train", type=int, default=400, help="queries of the log (default: 400)")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each query on each layout (default: 3)")
    args = parser.parse_args(argv)
    out = Console(highlight=False)
    try:
        args.data.mkdir(parents=True, exist_ok=True)
        outcomes = tour(out, args.sf, args.data, args.train, args.runs)
    except (sidestep.SidestepError, OSError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 1
    return 0 if all(outcome.equal for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
