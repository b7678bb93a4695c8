"""Delta and Iceberg tables by their own readers: files read of the same rows, with sidestep and without.

Three kinds of queries on a table of many files: an equality on a column whose values lie anywhere, a range on one that
the files are in the order of, and a join with a small table of which one source is asked for. Some rows are deleted
once the tables are indexed, so that each reader has deleted rows to pass over. Both keep least and greatest values of
each file themselves: what counts is what is left out beyond that.

Neither has a build for the newest Spark. The benchmark runs in an environment of its own, which ``scripts/lakes.sh``
makes, with jars from Maven Central; where they cannot be had it says so, and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parent.parent
READERS = {"delta": "delta-spark", "iceberg": "iceberg-spark"}
KINDS = ("equality", "range", "join")
ALONE, WITH = "alone", "sidestep"
STEP = 7_919
BATCH = 100
"""Rows of the large table to each row of the small one."""
SOURCES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=400_000, help="of the large table")
    parser.add_argument("--files", type=int, default=40, help="of the large table")
    parser.add_argument("--queries", type=int, default=5, help="of each kind")
    parser.add_argument("--spark", default="4.1", help="the version of Spark; both have a build for 4.0 and 4.1")
    parser.add_argument("--memory", default="2g", help="of Spark's driver")
    parser.add_argument("--seed", type=int, default=0, help="of the values that queries ask for")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    if "LAKES" not in os.environ:
        return _run_there(args, console)
    reason = missing(Path(os.environ["LAKES"]))
    return _stopped(reason, console) if reason else measure(args, console)


def missing(folder: Path) -> str:
    """Why the jars of one of the readers are not in a folder; empty if they are."""
    lacking = [name for name in READERS.values() if not any(name in jar.name for jar in folder.glob("*.jar"))]
    if not lacking:
        return ""
    said = folder / "missing"
    return said.read_text().strip() if said.exists() else f"{' and '.join(lacking)} have no jar in {folder}"


def _stopped(reason: str, console: Console) -> dict[str, Any]:
    console.print(f"Nothing was measured: {reason}", soft_wrap=True, highlight=False)
    return {"files_read": None, "wrong": None, "missing": reason}


def _run_there(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Make the environment with the jars, and run the benchmark in it."""
    made = subprocess.run([str(ROOT / "scripts" / "lakes.sh"), args.spark], cwd=ROOT, capture_output=True, text=True)
    if made.returncode:
        said = (made.stderr.strip() or made.stdout.strip()).splitlines()
        return _stopped(f"no environment with Spark {args.spark} could be made: {said[-1] if said else '?'}", console)
    home = ROOT / f".venv-spark-{args.spark}"
    told = {**os.environ, "LAKES": str(home / "lakes"), "JAVA_HOME": (home / "java-home").read_text().strip()}
    options = [text for name, value in vars(args).items() for text in (f"--{name}", str(value))]
    command = [str(home / "bin" / "python"), "-m", "bench", "lakes", *options]
    with subprocess.Popen(command, cwd=ROOT, env=told, stdout=subprocess.PIPE, text=True) as child:
        last = ""
        for line in child.stdout or ():
            if last:
                sys.stdout.write(last)
            last = line
    if child.returncode:
        return _stopped(f"the run with Spark {args.spark} failed, as said above", console)
    record = json.loads(last)
    return {name: value for name, value in record.items() if name not in ("benchmark", "arguments", "machine")}


def measure(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """The benchmark itself, in a session that has both readers."""
    with tempfile.TemporaryDirectory(prefix="sidestep-lakes-") as home:
        lakes = Lakes(spark_session(args.memory, _settings(Path(home))), Path(home), args.rows, args.files)
        read: dict[str, dict[str, dict[str, int]]] = {}
        wrong = 0
        for lake in READERS:
            lakes.make(lake)
            read[lake], mistaken = lakes.compare(lake, random.Random(args.seed), args.queries)
            wrong += mistaken
        version = lakes.spark.version
    figures = {"files_read": read, "wrong": wrong, "files": args.files, "queries": args.queries, "spark": version}
    console.print(_table(figures))
    return figures


def _settings(home: Path) -> dict[str, str]:
    jars = sorted(Path(os.environ["LAKES"]).resolve().glob("*.jar"))
    return {
        "spark.jars": ",".join(jar.as_uri() for jar in jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": (home / "iceberg").as_uri(),
    }


@dataclass(frozen=True)
class Lakes:
    """The same rows as Delta and as Iceberg tables."""

    spark: SparkSession
    home: Path
    rows: int
    files: int

    @property
    def prime(self) -> int:
        """Numbers of rows are spread by a step, modulo a prime above them: no two come to the same place."""
        number = max(self.rows, STEP) + 1
        while any(number % each == 0 for each in range(2, int(number**0.5) + 1)):
            number += 1
        return number

    def place(self, row: int) -> int:
        return row * STEP % self.prime

    def table(self, lake: str, name: str) -> str:
        """What a query calls a table."""
        return f"ice.lakes.{name}" if lake == "iceberg" else f"delta.`{self.home / 'delta' / name}`"

    def make(self, lake: str) -> None:
        """Write both tables, index them, and delete some rows."""
        import sidestep

        large = self.spark.range(0, self.rows, 1, self.files).selectExpr(
            "id AS time",
            f"id * {STEP} % {self.prime} AS customer",
            f"CAST(id / {BATCH} AS BIGINT) AS batch",
            # Rows as wide as those of real tables: an index may take a share of the bytes.
            *(f"sha2(concat(id, '{letter}'), 512) AS note_{letter}" for letter in "abc"),
            "id % 97 / 4 AS amount",
        )
        batches = -(-self.rows // BATCH)
        small = self.spark.range(0, batches, 1, min(10, self.files)).selectExpr(
            "id AS batch", f"concat('source ', CAST(id * {SOURCES} / {batches} AS INT)) AS source"
        )
        for name, frame in (("sales", large), ("batches", small)):
            if lake == "delta":
                frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(
                    str(self.home / "delta" / name)
                )
                sidestep.index(self.spark, str(self.home / "delta" / name))
            else:
                table = self.table(lake, name)
                self.spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
                writer = frame.writeTo(table).using("iceberg").tableProperty("write.distribution-mode", "none")
                writer.tableProperty("write.delete.mode", "merge-on-read").create()
                sidestep.index(self.spark, table)
        self.spark.sql(f"DELETE FROM {self.table(lake, 'sales')} WHERE amount = 3.25")

    def queries(self, lake: str, drawn: random.Random, count: int) -> Iterator[tuple[str, str]]:
        """Kinds and texts of the queries."""
        sales, batches = self.table(lake, "sales"), self.table(lake, "batches")
        for _ in range(count):
            yield "equality", f"SELECT * FROM {sales} WHERE customer = {self.place(drawn.randrange(self.rows))}"
            low = drawn.randrange(self.rows)
            yield (
                "range",
                f"SELECT count(*), sum(amount) FROM {sales} WHERE time BETWEEN {low} AND {low + self.rows // 100}",
            )
            source = f"source {drawn.randrange(SOURCES)}"
            join = f"{sales} s JOIN {batches} b ON s.batch = b.batch WHERE b.source = '{source}'"
            yield "join", f"SELECT count(*), sum(s.amount) FROM {join}"

    def compare(self, lake: str, drawn: random.Random, count: int) -> tuple[dict[str, dict[str, int]], int]:
        """The files read of the large table by kind of query, and the answers that differ."""
        import sidestep

        files = {side: dict.fromkeys(KINDS, 0) for side in (ALONE, WITH)}
        wrong = 0
        with sidestep.enable(self.spark):
            for kind, text in self.queries(lake, drawn, count):
                answers = []
                for side in (ALONE, WITH):
                    with self._switched(side == WITH):
                        frame = self.spark.sql(text)
                        answers.append(sorted(map(repr, frame.collect())))
                        files[side][kind] += _files_of_sales(frame)
                wrong += answers[0] != answers[1]
        return files, wrong

    @contextmanager
    def _switched(self, on: bool) -> Iterator[None]:
        self.spark.conf.set("spark.sidestep.enabled", str(on).lower())
        try:
            yield
        finally:
            self.spark.conf.unset("spark.sidestep.enabled")


def _files_of_sales(frame: DataFrame) -> int:
    import sidestep

    return sum(sum("/sales/" in path for path in scan.paths) for scan in sidestep.metrics(frame).scans)


def _table(figures: Mapping[str, Any]) -> Table:
    possible = figures["files"] * figures["queries"]
    table = Table(
        title=f"Files read over {figures['queries']} queries of a kind, of {possible:,}", title_justify="left"
    )
    table.add_column("query")
    for lake in READERS:
        for side in (lake.capitalize() + " alone", "with sidestep"):
            table.add_column(side, justify="right")
    for kind in KINDS:
        counts = (figures["files_read"][lake][side][kind] for lake in READERS for side in (ALONE, WITH))
        table.add_row(kind, *(f"{count:,}" for count in counts))
    table.caption = f"answers that differ: {figures['wrong']}"
    return table
