"""TPC-DS for ``bench selectors``: the files of fact tables that each query reads, by what chooses them, and its time.

What a scan would read is counted without running the query: adaptive execution is off, and each scan is asked for its
input, for which Spark runs the subqueries that choose files and nothing else. That also lets tables be compared that
have thousands of folders. Times, and the files read in the same runs, are of the whole query with Spark's defaults.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

import sidestep
from bench.dips_plans import eligible
from bench.dips_time import comparable, use
from bench.harness import race
from bench.selectors_tables import DateFiles, make_dated, make_folders, make_generated
from bench.tpcds import DATE_OF, TABLES, make_tpcds, queries
from sidestep.predicate import IsNull, Not
from sidestep.prune import Query, scan_filters
from sidestep.prune.dips.join_graph import JoinGraph
from sidestep.prune.dips.lineage import join_graph
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan

OFF, STATIC, INDUCED, SELECTORS = "Spark alone", "static", "+ diPs", "+ selectors"
FOLDERS = "Spark, folders"
GENERATED_OFF, GENERATED = "generated, Spark", "generated, all"
Files = dict[str, int]
"""Files read, by fact table."""

LEAST_BYTES_FROM = 10.0
"""The scale from which fact tables are large enough for selectors by default: below it they are let in at any size."""


@dataclass(frozen=True)
class Side:
    """One way to read the tables."""

    layout: str
    off: tuple[str, ...] | None
    """The stages that are switched off; None: sidestep as a whole."""


SIDES = {
    OFF: Side("dated", None),
    FOLDERS: Side("folders", None),
    STATIC: Side("dated", ("induced", "selectors")),
    INDUCED: Side("dated", ("selectors",)),
    SELECTORS: Side("dated", ()),
    GENERATED_OFF: Side("generated", None),
    GENERATED: Side("generated", ()),
}


class TpcDs:
    """The queries that read fact tables, and those tables in three layouts."""

    def __init__(self, spark: SparkSession, args: argparse.Namespace, say: Callable[[str], None]) -> None:
        self.spark, self.args, self.say = spark, args, say
        self.inspector = Bridge(spark).factory()
        source = make_tpcds(args.data, args.sf)
        self.folders = {"dated": make_dated(source, args.files), "generated": make_generated(source, args.files)}
        if args.folders:
            self.folders["folders"] = make_folders(source)
        every = {name: text for name, text in queries().items() if set(re.findall(r"\w+", text.lower())) & set(DATE_OF)}
        self.texts = dict(list(every.items())[: args.queries])
        words = {word for text in self.texts.values() for word in re.findall(r"\w+", text.lower())}
        self.names = words & set(TABLES)
        for folder, names in ((self.folders["dated"], TABLES), (self.folders["generated"], DATE_OF)):
            for name in self.names & set(names):
                sidestep.index(spark, str(folder / name))
        self.tables = {layout: self._tables(layout) for layout in self.folders}
        self.date_files = {name: DateFiles(self.folders["dated"] / name, date) for name, date in DATE_OF.items()}
        self.sides = {name: side for name, side in SIDES.items() if side.layout in self.folders}
        self.least_bytes = least_bytes(args)

    def _tables(self, layout: str) -> dict[str, DataFrame]:
        paths = {name: self.folders[layout if name in DATE_OF else "dated"] / name for name in self.names}
        return {name: self.spark.read.parquet(str(path)) for name, path in paths.items()}

    def run(self) -> dict[str, dict[str, Any]]:
        """For each query what is known of it before, the files of each side, and the runs of two of them."""
        # As many as a machine of this size wants: Spark's 200 make every shuffle of a small query a slow one.
        few = str(4 * self.spark.sparkContext.defaultParallelism)
        figures: dict[str, dict[str, Any]] = {}
        with set_for_now(self.spark, {"spark.sql.shuffle.partitions": few}), sidestep.enable(self.spark):
            for name, text in self.texts.items():
                start = time.perf_counter()
                figures[name] = self._known(text) | {"files": {s: self.count(text, s) for s in self.sides}}
                self.say(f"{name}: {_sums(figures[name]['files'])}; {time.perf_counter() - start:.1f} s")
            if self.args.runs:
                for name, text in self.texts.items():
                    figures[name] |= self._race(text)
                    seconds = ", ".join(f"{side} {took:.2f} s" for side, took in figures[name]["seconds"].items())
                    self.say(f"{name}: {seconds}{'' if figures[name]['same'] else '; ANSWERS DIFFER'}")
        return figures

    @contextmanager
    def _as(self, side: Side) -> Iterator[None]:
        use(self.tables[side.layout])
        off = side.off
        wanted = {"spark.sidestep.enabled": str(off is not None).lower()}
        wanted |= {f"spark.sidestep.stages.{stage}": "false" for stage in off or ()}
        if self.least_bytes is not None:
            wanted["spark.sidestep.selectors.leastBytes"] = str(self.least_bytes)
        with set_for_now(self.spark, wanted):
            yield

    def _known(self, text: str) -> dict[str, Any]:
        """What the plan says without sidestep: whether joins may help, and which facts are reached by dates."""
        with self._as(SIDES[OFF]):
            plan = self.spark.sql(text)._jdf.queryExecution().optimizedPlan()
            query = read_plan(self.inspector.describe(plan))
        return {"eligible": eligible(query), "by_dates": sorted(by_dates(query))}

    # ---- files

    def count(self, text: str, name: str) -> Files:
        """What each fact table's scans would read."""
        with self._as(SIDES[name]), set_for_now(self.spark, {"spark.sql.adaptive.enabled": "false"}):
            plan = self.spark.sql(text)._jdf.queryExecution().executedPlan()
            read: Files = {}
            for scan in self.inspector.scans(plan):
                table = str(self.inspector.rootPath(scan)).rsplit("/", 1)[-1]
                if table in DATE_OF:
                    scan.execute()
                    paths = self.inspector.filesRead(scan)
                    read[table] = read.get(table, 0) + self._files(name, table, paths.split("\0") if paths else [])
        return read

    def _files(self, side: str, table: str, paths: list[str]) -> int:
        if SIDES[side].layout != "folders":
            return len(paths)
        return self.date_files[table].of_folders(paths)

    # ---- times

    def _race(self, text: str) -> dict[str, Any]:
        first: dict[str, tuple[list[Row], DataFrame]] = {}
        sides = (OFF, SELECTORS)

        def variant(side: str) -> None:
            with self._as(SIDES[side]):
                df = self.spark.sql(text)
                rows = df.collect()
            first.setdefault(side, (rows, df))

        timing = race({side: lambda side=side: variant(side) for side in sides}, runs=self.args.runs)  # type: ignore[misc]
        off, on = (comparable(first[side][0]) for side in sides)
        return {
            "seconds": {each.name: each.median for each in timing.timings},
            "paired_ratio": timing.paired_ratio(SELECTORS),
            "same": off == on or self._same_without_limit(text),
            "files_run": {side: self._files_run(first[side][1]) for side in sides},
        }

    def _files_run(self, df: DataFrame) -> Files:
        read: Files = {}
        for scan in sidestep.metrics(df).scans:
            table = scan.table.rsplit("/", 1)[-1]
            if table in DATE_OF:
                read[table] = read.get(table, 0) + scan.files
        return read

    def _same_without_limit(self, text: str) -> bool:
        """Which of several equal rows come within a limit is not said, so all are asked for."""
        whole = re.sub(r"\bLIMIT\s+\d+\s*$", "", text, flags=re.IGNORECASE)
        rows = []
        for side in (OFF, SELECTORS):
            with self._as(SIDES[side]):
                rows.append(comparable(self.spark.sql(whole).collect()))
        return rows[0] == rows[1]


def least_bytes(args: argparse.Namespace) -> int | None:
    """What ``spark.sidestep.selectors.leastBytes`` is set to; None: it is left as it is."""
    if args.least_bytes is not None:
        return int(args.least_bytes)
    return None if args.sf >= LEAST_BYTES_FROM else 0


@contextmanager
def set_for_now(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def by_dates(query: Query) -> set[str]:
    """The fact tables whose date key is compared by equality, through whatever is in between, with a filtered table."""
    graph = join_graph(query)
    filtered = {
        place.scan.key
        for place in scan_filters(query)
        if place.late or any(not (isinstance(each, Not) and isinstance(each.child, IsNull)) for each in place.conjuncts)
    }
    reached = set()
    for node, scan in graph.scans_by_node():
        name = scan.name.rsplit("/", 1)[-1]
        if name not in DATE_OF:
            continue
        if scan.key in filtered and any(
            DATE_OF[name] in str(each)
            for place in scan_filters(query)
            if place.scan.key == scan.key
            for each in place.late
        ):
            reached.add(name)
        numbers = {number for number, column in scan.columns if column.name == DATE_OF[name]}
        if _meets_filtered(graph, node, numbers, filtered):
            reached.add(name)
    return reached


def _meets_filtered(graph: JoinGraph, node: int, numbers: set[str], filtered: set[str]) -> bool:
    """Whether a column of a node gets its values from a filtered table, perhaps by way of unions."""
    ahead, seen = [(node, number) for number in numbers], set()
    while ahead:
        place = ahead.pop()
        if place in seen:
            continue
        seen.add(place)
        for link in graph.links:
            if (link.target, link.comparand.column.name) != place:
                continue
            origin = graph.nodes[link.origin].scan
            if origin is None:
                ahead.append((link.origin, link.source.column.name))
            elif origin.key in filtered and origin.name.rsplit("/", 1)[-1] not in DATE_OF:
                return True
    return False


# ---- what it comes to


CATEGORIES = (
    "sidestep eliminates files, Spark does not",
    "sidestep eliminates more files than Spark",
    "both eliminate equally",
    "sidestep eliminates fewer files than Spark",
    "sidestep does not eliminate files, Spark does",
)


def category(off: int, spark: int, on: int) -> str:
    """The class of a query (Table 3), by the files of its fact tables in all, by Spark, and with sidestep.

    >>> category(60, 60, 10) == CATEGORIES[0], category(60, 10, 10) == CATEGORIES[2], category(60, 9, 60)
    (True, True, 'sidestep does not eliminate files, Spark does')
    """
    if on == spark:
        return CATEGORIES[2]
    if on < spark:
        return CATEGORIES[0] if spark >= off else CATEGORIES[1]
    return CATEGORIES[4] if on >= off else CATEGORIES[3]


def summary(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The promised figures of all queries."""
    total = {name: {side: sum(read.values()) for side, read in each["files"].items()} for name, each in figures.items()}
    peer = {name: sums.get(FOLDERS, sums[OFF]) for name, sums in total.items()}
    classes = {name: category(sums[OFF], peer[name], sums[SELECTORS]) for name, sums in total.items()}
    more_than_alone = [name for name, sums in total.items() if sums[SELECTORS] > sums[OFF]]
    more_than_folders = [name for name, sums in total.items() if sums[SELECTORS] > peer[name]]
    dated = [(name, table) for name, each in figures.items() for table in each["by_dates"]]
    return {
        "files_eliminated_pct": eliminated(figures, dated),
        "files_eliminated_of_all_pct": eliminated(
            figures, [(name, t) for name, e in figures.items() for t in e["files"][OFF]]
        ),
        "worse_than_spark": len({*more_than_alone, *more_than_folders}),
        "more_than_spark_alone": more_than_alone,
        "more_than_spark_on_folders": {name: [peer[name], total[name][SELECTORS]] for name in more_than_folders},
        "classes": {each: [name for name, own in classes.items() if own == each] for each in CATEGORIES},
        **times(figures),
        "tables": {
            table: {
                side: sum(each["files"][side].get(table, 0) for each in figures.values()) for side in sides_of(figures)
            }
            | {"eliminated_by_dates_pct": eliminated(figures, [pair for pair in dated if pair[1] == table])}
            for table in DATE_OF
        },
        "queries": {name: dict(each) | {"class": classes[name]} for name, each in figures.items()},
    }


def sides_of(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return list(next(iter(figures.values()))["files"])


def eliminated(figures: Mapping[str, Mapping[str, Any]], pairs: list[tuple[str, str]]) -> float | None:
    """The share of files that selectors and all before them save, over some tables of some queries."""
    before = sum(figures[name]["files"][OFF].get(table, 0) for name, table in pairs)
    after = sum(figures[name]["files"][SELECTORS].get(table, 0) for name, table in pairs)
    return round(100 * (1 - after / before), 1) if before else None


def times(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How much faster queries are with sidestep, and the slowest; nothing if none was timed."""
    timed = {name: each for name, each in figures.items() if "seconds" in each}
    if not timed:
        return {"share_1_5x": None, "wrong": []}
    speedup = {name: each["seconds"][OFF] / each["seconds"][SELECTORS] for name, each in timed.items()}
    eligible_too = [name for name, each in timed.items() if each["eligible"]]
    slower = sorted((name for name in speedup if speedup[name] < 1 / 1.05), key=lambda name: speedup[name])
    return {
        "share_1_5x": round(sum(speedup[n] >= 1.5 for n in eligible_too) / len(eligible_too), 3)
        if eligible_too
        else None,
        "median_speedup": round(statistics.median(speedup[n] for n in eligible_too), 3) if eligible_too else None,
        "eligible": len(eligible_too),
        "slower_than_1_05": {name: round(1 / speedup[name], 2) for name in slower},
        "speedup": {name: round(each, 3) for name, each in speedup.items()},
        "wrong": [name for name, each in timed.items() if not each["same"]],
    }


def _sums(files: Mapping[str, Files]) -> str:
    return ", ".join(f"{side} {sum(read.values())}" for side, read in files.items())
