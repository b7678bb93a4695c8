"""Joins of the Join Order Benchmark's shape: the bytes that 113 queries over 21 tables need not read, and why not more.

Tables are files of one row group, in the order in which their rows came, and indexed as ``sidestep.index`` does by
itself; in a second column, join columns get a few ranges by hand. Nothing is run: bytes are those of the files that a
query would open, by ``sidestep.explain``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sidestep
from bench import job_families
from bench.job import job_tables, register
from bench.session import spark_session
from bench.tpch import DATA
from bench.whole_folder import whole_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sidestep.prune import Explanation
    from sidestep.prune.dips.induced import Induced

FILMS = 4_000
"""Small: what is cut depends on the blocks, hardly on the rows in them."""
BLOCKS = 60
"""Files of the largest table; others have files of as many rows, and small ones one."""
BY_HAND = "range-set:8"
INDEXES: Mapping[str, str | None] = {"default": None, "by hand": BY_HAND}
JOINED = ("id", "movie_id", "linked_movie_id", "person_id", "company_id", "keyword_id", "info_type_id", "role_id",
          "kind_id", "link_type_id", "subject_id", "status_id", "company_type_id", "person_role_id")  # fmt: skip


@dataclass
class JobCut:
    """What 113 queries need not read."""

    before: int = 0
    after: int = 0
    """Bytes of the files that all scans list, and of those that are left."""
    uncut: list[str] = field(default_factory=list)
    """Queries that read everything."""
    causes: Counter[str] = field(default_factory=Counter)
    """Why scans skip nothing, and how many do so for each cause; of those with more than one file."""
    blocks_of_causes: Counter[str] = field(default_factory=Counter)

    @property
    def percent(self) -> float:
        return round(100 * (1 - self.after / self.before), 1) if self.before else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "bytes_cut_pct": self.percent,
            "queries_uncut": len(self.uncut),
            "why_not": {cause: [times, self.blocks_of_causes[cause]] for cause, times in self.causes.most_common()},
        }


def job_files(data: Path, films: int, seed: int = 0, blocks: int = BLOCKS) -> Path:
    """The tables as folders of files of one row group each, made if they are not there."""
    target = Path(data) / f"joins-{films}-{seed}-{blocks}"
    if not target.is_dir():
        tables = job_tables(films, seed)
        rows = max(len(table) for table in tables.values()) // blocks
        with whole_folder(target) as partial:
            for name, table in tables.items():
                (partial / name).mkdir()
                for number, start in enumerate(range(0, len(table), rows)):
                    pq.write_table(table.slice(start, rows), partial / name / f"part-{number:04d}.parquet")
    return target


def measure(
    spark: SparkSession, folder: Path, synopses: str | None, queries: Mapping[str, str] | None = None
) -> JobCut:
    """Index all tables, by default or with synopses for the columns that are joined, and ask what queries read."""
    for path in sorted(folder.iterdir()):
        given = None
        if synopses is not None:
            names = pq.read_schema(next(path.glob("*.parquet"))).names
            given = {name: synopses for name in names if name in JOINED}
        sidestep.index(spark, str(path), synopses=given, rebuild=True)
    register(spark, folder)
    found = JobCut()
    with sidestep.enable(spark):
        for name, text in (queries or job_families.queries()).items():
            _add(found, name, sidestep.explain(text, spark))
    return found


def _add(found: JobCut, name: str, explained: Explanation) -> None:
    before = sum(scan.bytes.total for scan in explained.scans if scan.bytes is not None)
    after = sum(scan.bytes.kept for scan in explained.scans if scan.bytes is not None)
    found.before, found.after = found.before + before, found.after + after
    if after == before:
        found.uncut.append(name)
    if explained.induced is not None:
        for cause, size in why_not(explained.induced):
            found.causes[cause] += 1
            found.blocks_of_causes[cause] += size


def why_not(induced: Induced) -> Iterator[tuple[str, int]]:
    """For each scan of several blocks that keeps them all: why, and how many blocks it has."""
    keeps_all = {node.id for node in induced.nodes if node.scan is not None and node.kept == node.blocks}
    reached = {link.target for link in induced.graph.links if link.down}
    for node in induced.nodes:
        if node.id not in keeps_all or node.blocks <= 1:
            continue
        asked = [dip for dip in induced.dips if dip.target == node.id]
        if node.id not in reached:
            cause = "no join condition leads to it"
        elif not asked:
            cause = "no partner knows what its column holds"
        elif all(dip.origin in keeps_all for dip in asked):
            cause = "its partners keep all of their blocks"
        else:
            cause = "what partners hold lies in all of its blocks"
        yield cause, node.blocks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=FILMS, help="films in the data, each with a cast of twelve")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of what queries ask for")
    parser.add_argument("--queries", type=int, default=113, help="so many of the queries, from the first")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="2g", help="of Spark's driver")


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark, console = spark_session(args.memory), Console()
    folder = job_files(args.data, args.rows, args.seed)
    texts = dict(list(job_families.queries(args.seed).items())[: args.queries])
    found = {name: measure(spark, folder, given, texts) for name, given in INDEXES.items()}
    print_cuts(console, found, f"{len(texts)} queries, {args.rows:,} films: bytes of files that are not read")
    causes = Table(title="Scans that keep all of their blocks")
    for heading in ("index", "why", "scans", "blocks"):
        causes.add_column(heading, justify="right" if heading in ("scans", "blocks") else "left")
    for name, cut in found.items():
        for cause, times in cut.causes.most_common():
            causes.add_row(name, cause, f"{times:,}", f"{cut.blocks_of_causes[cause]:,}")
    console.print(causes)
    return {
        "job_bytes_cut_pct": {name.replace(" ", "_"): cut.percent for name, cut in found.items()},
        **{name.replace(" ", "_"): cut.to_json() for name, cut in found.items()},
    }


def print_cuts(console: Console, found: Mapping[str, JobCut], title: str) -> None:
    """What is not read, by what the indexes were given."""
    table = Table(title=title)
    for heading in ("index", "cut %", "queries that cut nothing"):
        table.add_column(heading, justify="left" if heading == "index" else "right")
    for name, cut in found.items():
        table.add_row(name, f"{cut.percent:.1f}", str(len(cut.uncut)))
    console.print(table)
