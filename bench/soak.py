"""Thousands of queries from many threads in one process: memory of the JVM and of Python, time of the rule, answers.

A mix of queries runs in slices of a tenth, from threads of one session and of three more: skips by their own filters,
joins, subqueries, cached frames, a laid-out Delta table, tables that another thread adds to, explanations, metrics,
failing queries, functions in Python, and sessions that come and go. Between slices all threads end, and what is left is
measured: the heap after garbage collection, the memory of the Python process, threads, and what sidestep adds to
planning a query (on - off, in turns, with nothing else running). The first slice warms up; growth is from there to the
end. Every answer is compared with the one without skipping. With `--off` sidestep stays off: what Spark alone does.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import logging
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import sidestep
from bench.plan import in_turns
from bench.session import spark_session
from bench.soak_queries import SQL, Client, Draw, answers, draws
from bench.soak_tables import GrowingTable, make_tables
from sidestep.spark.rule.planner import Planner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICES = 10
"""Fewer where there are few queries: a slice has at least ten."""
SESSIONS = 4
PROBES = 15
STALL_SECONDS = 300
RETAINED = {
    # What Spark keeps of queries that have ended would grow all the way to these limits.
    **dict.fromkeys(("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions"), "50"),
    **dict.fromkeys(("spark.ui.retainedTasks", "spark.ui.retainedDeadExecutors"), "500"),
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",  # some queries are there to fail
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, default=5_000, help="how many queries run in all")
    parser.add_argument("--threads", type=int, default=32, help="how many of them at once")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the largest table")
    parser.add_argument("--memory", default="2g", help="heap of the JVM, where there is none yet")
    parser.add_argument("--off", action="store_true", help="leave sidestep off")
    parser.add_argument("--data", type=Path, default=None, help="a folder for the tables; else a temporary one")
    parser.add_argument("--seed", type=int, default=0)


@dataclass(frozen=True)
class Sample:
    """What is left after a slice."""

    queries: int
    seconds: float
    jvm_mb: float
    python_mb: float
    threads: int
    """Threads of the JVM and of Python."""
    planner_ms: float
    """Median time that Python took to decide about a plan in the slice, with all threads at work."""
    rule_ms: float
    """What sidestep adds to planning a query, with nothing else running."""

    @property
    def total_mb(self) -> float:
        return self.jvm_mb + self.python_mb


class Tally:
    """What came of the queries, from all threads."""

    def __init__(self) -> None:
        self.done = 0
        self.wrong: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.skipped = 0
        self.planner_seconds: list[float] = []
        self._lock = threading.Lock()

    def note(self, query: Draw, problem: str) -> None:
        with self._lock:
            self.done += 1
            self.kinds[query.kind] += 1
            if problem:
                self.wrong.append(f"{query.kind} {query.name} {dict(query.parameters)}: {problem}")

    @contextmanager
    def watch_planner(self) -> Iterator[None]:
        """Time every plan that Python decides about, and count those of which something is skipped."""
        before = Planner.apply

        def apply(planner: Planner, message: str) -> str:
            started = time.perf_counter()
            reply = before(planner, message)
            if message.startswith("plan"):
                with self._lock:
                    self.planner_seconds.append(time.perf_counter() - started)
                    self.skipped += bool(reply)
            return reply

        Planner.apply = apply  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Planner.apply = before  # type: ignore[method-assign]

    def take_planner_ms(self) -> float:
        with self._lock:
            seconds, self.planner_seconds = self.planner_seconds, []
        return 1000 * statistics.median(seconds) if seconds else 0.0


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark = spark_session(args.memory, RETAINED)
    # pyspark writes every failure of a query down as well.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=args.data))
    try:
        return soak(spark, folder, args)
    finally:
        spark.catalog.clearCache()
        shutil.rmtree(folder, ignore_errors=True)


def soak(spark: SparkSession, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    make_tables(spark, folder, args.rows, args.seed)
    growing = tuple(GrowingTable(spark, folder / f"grow-{'delta' if d else 'plain'}", d) for d in (False, True))
    known: dict[Any, Any] = {}
    sessions = [spark, *(spark.newSession() for _ in range(SESSIONS - 1))]
    clients = [Client(session, folder, known, growing, not args.off) for session in sessions]
    queries = list(draws(args.seed, args.queries))
    known.update(answers(spark, queries))
    tally = Tally()
    states = [] if args.off else [sidestep.enable(session) for session in sessions]
    samples = []
    try:
        with tally.watch_planner(), steadily(growing):
            slices = max(2, min(SLICES, args.queries // 10))
            for number in range(slices):
                begin, end = (args.queries * at // slices for at in (number, number + 1))
                started = time.perf_counter()
                run_slice(clients, queries[begin:end], tally, args.threads)
                seconds = time.perf_counter() - started
                samples.append(measure(spark, states, tally, seconds, min(PROBES, 2 + args.queries // 50)))
                console.print(f"{tally.done:,} of {args.queries:,} queries, {len(tally.wrong)} wrong")
        problems = [state.last_problem for state in states if state.last_problem]
    finally:
        for state in states:
            state.disable()
    show(console, samples, tally, problems)
    return figures(samples, tally, problems, args)


@contextmanager
def steadily(tables: Sequence[GrowingTable]) -> Iterator[None]:
    """Add to the tables, again and again, while the block runs."""
    done = threading.Event()
    problems: list[BaseException] = []

    def grow() -> None:
        try:
            while not done.wait(0.5):
                for table in tables:
                    table.grow()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=grow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if problems:
        raise problems[0]


def run_slice(clients: Sequence[Client], queries: Sequence[Draw], tally: Tally, threads: int) -> None:
    """Run queries from new threads, most of them in the first session; end with an error if none gets on."""
    waiting = iter(queries)
    lock = threading.Lock()

    def work(client: Client) -> None:
        while True:
            with lock:
                query = next(waiting, None)
            if query is None:
                return
            try:
                tally.note(query, "" if client.run(query) else "wrong")
            except Exception as problem:
                tally.note(query, f"{type(problem).__name__}: {str(problem)[:300]}")

    of_threads = [clients[0 if number % 4 else number // 4 % len(clients)] for number in range(threads)]
    running = [threading.Thread(target=work, args=(client,), daemon=True) for client in of_threads]
    for thread in running:
        thread.start()
    done, since = tally.done, time.monotonic()
    for thread in running:
        while thread.is_alive():
            thread.join(1)
            if tally.done != done:
                done, since = tally.done, time.monotonic()
            elif time.monotonic() - since > STALL_SECONDS:
                faulthandler.dump_traceback(2, all_threads=True)
                raise SystemExit(f"No query has ended for {STALL_SECONDS} s: the threads above wait for each other.")


def measure(spark: SparkSession, states: Sequence[Any], tally: Tally, seconds: float, probes: int) -> Sample:
    planner_ms = tally.take_planner_ms()
    rule_ms = added_ms(spark, states[0], probes) if states else 0.0
    tally.take_planner_ms()
    jvm: Any = spark.sparkContext._jvm
    factory = jvm.java.lang.management.ManagementFactory
    for _ in range(2):
        gc.collect()
        jvm.java.lang.System.gc()
        # py4j tells the JVM once a second what Python has let go of; Spark cleans up after collections.
        time.sleep(1.2)
    jvm.java.lang.System.gc()
    pa.default_memory_pool().release_unused()
    trim()
    heap = factory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    threads = factory.getThreadMXBean().getThreadCount() + threading.active_count()
    return Sample(tally.done, seconds, heap / 2**20, resident_mb(), threads, planner_ms, rule_ms)


def added_ms(spark: SparkSession, state: Any, probes: int) -> float:
    """The median of (on - off) over a skip and a join, as `plan` takes it."""
    added = []
    for name in ("static", "join"):
        text = SQL[name].format(day=8, kind=3)
        on, off = in_turns(spark, state, text, probes, lambda: None)
        added += [x - y for x, y in zip(on, off, strict=True)]
    spark.conf.unset("spark.sidestep.enabled")
    return statistics.median(added)


def resident_mb() -> float:
    """The memory of this process that is in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def trim() -> None:
    """Give what is free back to the system: what is measured is what is held."""
    give_back: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def show(console: Console, samples: Sequence[Sample], tally: Tally, problems: Sequence[str]) -> None:
    table = Table(title="What is left after each tenth of the queries")
    for heading in ("queries", "seconds", "JVM MB", "Python MB", "threads", "planner ms", "added ms"):
        table.add_column(heading, justify="right")
    for each in samples:
        table.add_row(
            f"{each.queries:,}",
            f"{each.seconds:.0f}",
            f"{each.jvm_mb:.1f}",
            f"{each.python_mb:.1f}",
            str(each.threads),
            f"{each.planner_ms:.1f}",
            f"{each.rule_ms:.1f}",
        )
    console.print(table)
    console.print(f"plans in which something is skipped: {tally.skipped:,}; wrong answers: {len(tally.wrong)}")
    for line in (*tally.wrong[:10], *problems):
        console.print(line, markup=False)


def figures(
    samples: Sequence[Sample], tally: Tally, problems: Sequence[str], args: argparse.Namespace
) -> dict[str, Any]:
    first, last = samples[0], samples[-1]
    return {
        "queries": tally.done,
        "threads": args.threads,
        "memory_growth_pct": 100 * (last.total_mb / first.total_mb - 1),
        "jvm_mb": {"start": first.jvm_mb, "end": last.jvm_mb},
        "python_mb": {"start": first.python_mb, "end": last.python_mb},
        "rule_ms": {"start": first.rule_ms, "end": last.rule_ms},
        "planner_ms": {"start": samples[min(1, len(samples) - 1)].planner_ms, "end": last.planner_ms},
        "live_threads": {"start": first.threads, "end": last.threads},
        "wrong": len(tally.wrong),
        "skipped": tally.skipped,
        "deadlocks": 0,
        "problems": list(problems),
        "kinds": dict(tally.kinds),
        "seconds": sum(each.seconds for each in samples),
    }
