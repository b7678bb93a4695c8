"""TPC-DS on Spark with and without data-induced predicates: what is read, how long it takes, and what planning adds."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

import sidestep
from bench.dips_plans import eligible, planned
from bench.harness import race
from bench.journal import Journal
from bench.plan import in_turns
from bench.tpcds import CHOSEN, TABLES, make_tpcds, queries
from bench.tpcds_layout import make_blocks, make_tuned
from sidestep.spark.rule.session import Enabled

WARM = 8
"""Queries that are run before any is timed: in a young JVM most of a short query's time is its compiler's, with
sidestep or without."""


def induced_on(spark: SparkSession, induced: bool = True) -> Enabled:
    """sidestep in a session, with or without data-induced predicates."""
    return sidestep.enable(spark, induced=induced)


class Timed:
    """The chosen queries over TPC-DS as it was generated, in files of ordinary size, and in the tuned layout."""

    def __init__(
        self, spark: SparkSession, args: argparse.Namespace, sf: float, journal: Journal, say: Callable[[str], None]
    ) -> None:
        self.spark, self.args, self.sf, self.journal, self.say = spark, args, sf, journal, say
        self.ordinary = make_tpcds(args.data, sf)
        every = {name: text for name, text in queries().items() if int(name[1:]) in CHOSEN}
        self.texts = dict(list(every.items())[: args.queries])
        words = {word for text in self.texts.values() for word in re.findall(r"\w+", text.lower())}
        self.names = [table for table in TABLES if table in words]

    def blocks(self, blocks: int) -> Path:
        folder = make_blocks(self.spark, self.ordinary, blocks)
        for table in self.names:
            sidestep.index(self.spark, str(folder / table))
        return folder

    def tuned(self, files: int) -> Path:
        folder = make_tuned(self.ordinary, files)
        for table in self.names:
            sidestep.index(self.spark, str(folder / table))
        return folder

    def tables(self, folder: Path) -> dict[str, DataFrame]:
        return {table: self._table(folder / table) for table in self.names}

    def _table(self, path: Path) -> DataFrame:
        if (path / "_delta_log").is_dir():
            return sidestep.read(self.spark, str(path))
        return self.spark.read.parquet(str(path))

    def eligible(self) -> list[str]:
        """The queries that data-induced predicates may help, known before anything is measured."""
        use(self.tables(self.ordinary))
        plans = planned(self.spark, self.journal, self.texts, "tpcds")
        return [name for name, plan in plans.items() if eligible(plan)]

    def run(self) -> dict[str, dict[str, Any]]:
        """Each query in turns on the ordinary files, and on the tuned ones with sidestep off and on."""
        sizes = f"{self.sf:g} {self.args.time_blocks} {self.args.runs}"
        done = {name: f"timed {sizes} {name}" for name in self.texts}
        if all(key in self.journal for key in done.values()):
            return {name: self.journal.once(key, dict) for name, key in done.items()}
        tuned, ordinary = self.tables(self.blocks(self.args.time_blocks)), self.tables(self.ordinary)
        sides = {"ordinary": (ordinary, False), "off": (tuned, False), "on": (tuned, True)}
        # As many as a machine of this size wants: Spark's 200 make every shuffle of a small query a slow one.
        self.spark.conf.set("spark.sql.shuffle.partitions", str(4 * self.spark.sparkContext.defaultParallelism))
        with induced_on(self.spark):
            for text in list(self.texts.values())[:WARM]:
                for tables, skipping in sides.values():
                    self._collect(text, tables, skipping)
            for name, text in self.texts.items():
                figures = self.journal.once(done[name], partial(self._race, text, sides))
                seconds = ", ".join(f"{side} {took:.2f} s" for side, took in figures["seconds"].items())
                self.say(f"{name}: {seconds}; {figures['skipped']:.0%} of rows skipped")
            self.spark.conf.unset("spark.sidestep.enabled")
        self.spark.conf.unset("spark.sql.shuffle.partitions")
        return {name: self.journal.once(key, dict) for name, key in done.items()}

    def _collect(self, text: str, tables: Mapping[str, DataFrame], skipping: bool) -> tuple[DataFrame, list[Row]]:
        use(tables)
        self.spark.conf.set("spark.sidestep.enabled", str(skipping).lower())
        df = self.spark.sql(text)
        return df, df.collect()

    def _race(self, text: str, sides: Mapping[str, tuple[dict[str, DataFrame], bool]]) -> dict[str, Any]:
        first: dict[str, tuple[Counter[tuple[object, ...]], DataFrame]] = {}

        def variant(side: str) -> None:
            df, rows = self._collect(text, *sides[side])
            first.setdefault(side, (comparable(rows), df))

        timing = race({side: partial(variant, side) for side in sides}, runs=self.args.runs)
        read = {side: sidestep.metrics(df) for side, (_, df) in first.items()}
        sizes = {side: rows.total() for side, (rows, _) in first.items()}
        assert len(set(sizes.values())) == 1, f"The number of rows differs, {sizes}, for: {text}"
        # Rows, as Spark counted them: of a file that is read in part, the part. Bytes it counts for some readers only.
        before, after = read["off"].rows, read["on"].rows
        return {
            "seconds": {each.name: each.median for each in timing.timings},
            "rows": {side: each.rows for side, each in read.items()},
            "files": {side: each.files for side, each in read.items()},
            "skipped": 1.0 - after / before if before else 0.0,
            "same": first["on"][0] == first["off"][0],
        }

    def plan_ms(self) -> dict[str, list[float]]:
        """For each query what sidestep adds to its planning, in milliseconds, with many files in the large tables."""
        key = f"plan ms {self.sf:g} {self.args.plan_files} {self.args.plan_runs}"
        if key in self.journal:
            return dict(self.journal.once(key, dict))
        tables = self.tables(self.tuned(self.args.plan_files))
        added: dict[str, list[float]] = {}
        with induced_on(self.spark) as state:
            use(tables)
            for name, text in self.texts.items():
                on, off = in_turns(self.spark, state, text, self.args.plan_runs, lambda: None)
                added[name] = [mine - base for mine, base in zip(on, off, strict=True)]
            self.spark.conf.unset("spark.sidestep.enabled")
        return dict(self.journal.once(key, lambda: added))


def use(tables: Mapping[str, DataFrame]) -> None:
    """Let the names of the tables mean these."""
    for name, table in tables.items():
        table.createOrReplaceTempView(name)


def comparable(rows: list[Row]) -> Counter[tuple[object, ...]]:
    """Rows in any order; sums of doubles differ in their last digits with the order of addition."""
    return Counter(tuple(round(v, 4) if isinstance(v, Decimal | float) else v for v in row) for row in rows)
