"""The layouts that ``bench sop`` compares: written once, planned and timed for each workload, all kept in a journal."""

from __future__ import annotations

import argparse
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

import sidestep
from bench.denorm import NAME, random_instances, random_queries
from bench.denorm_data import make_denorm
from bench.harness import race
from bench.journal import Journal
from bench.layouts import Layout, natural, range1, range2, write_arrangement, z_ordered
from bench.reads import Reader, bytes_read, rows_of
from bench.session import spark_session
from bench.tpch import DATA
from bench.zorder import choose_columns, z_order
from sidestep.predicate import parse_type
from sidestep.predicate.columns import columns_of
from sidestep.spark.log.statements import analyze_statements
from sidestep.spark.rule.session import Enabled
from sidestep.workload import Statement

BY_MONTH = "trunc(o_orderdate, 'MM')"
ZIPF = {"uniform": None, "skewed": 3.0}
SAMPLE = 120_000
"""Rows of the sample on which the columns of the Z-order are chosen."""


@dataclass(frozen=True)
class Workload:
    """Queries to learn from, and queries to test with; no seed is used twice."""

    parameters: str
    seed: int
    train: tuple[str, ...]
    test: tuple[tuple[str, str], ...]
    """(template, text)."""

    @property
    def name(self) -> str:
        return f"{self.parameters}-{self.seed}-{len(self.train)}-{len(self.test)}"


def workload(parameters: str, seed: int, train: int, test: int) -> Workload:
    zipf = ZIPF[parameters]
    return Workload(
        parameters,
        seed,
        tuple(random_queries(train, seed=2 * seed, zipf=zipf)),
        tuple(random_instances(test, seed=2 * seed + 1, zipf=zipf)),
    )


def add_comparison_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that a comparison takes, whatever it compares, besides ``sf``, ``width`` and ``features``."""
    parser.add_argument("--train", type=int, default=800, help="queries to learn from")
    parser.add_argument("--test", type=int, default=80, help="queries that follow")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")
    parser.add_argument("--keep", action="store_true", help="keep layouts that are not needed any more")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have done")


class Comparison:
    """One run of the benchmark: its data, its layouts, and the journal of what is done."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        self.args, self.console = args, console
        self.spark: SparkSession = spark_session(args.memory)
        self.source = make_denorm(args.data, args.sf, width=args.width)
        self.home = Path(args.data) / f"sop-{self.source.name.removeprefix('denorm-')}"
        if args.fresh:
            shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(self.home / "journal.jsonl")
        self._makers: dict[str, Callable[[Path], Layout]] = {}
        self._readers: dict[str, Reader] = {}

    @cached_property
    def narrow(self) -> Path:
        return make_denorm(self.args.data, self.args.sf, width="narrow")

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{text}[/]", highlight=False, soft_wrap=True)

    def layout(self, key: str, make: Callable[[Path], Layout]) -> Layout:
        """The layout of that key, written unless the journal has it. What is known of it outlives its files."""
        self._makers[key] = make
        if f"layout {key}" not in self.journal:
            self._write(key)
        return Layout(**self.journal.once(f"layout {key}", dict))

    def _write(self, key: str) -> None:
        target = self.home / key
        shutil.rmtree(target, ignore_errors=True)  # files that no entry tells of are no layout
        self.say(f"laying out {key}")
        layout = self._makers[key](target)
        self.journal.note(f"layout {key}", layout.to_dict())
        self.say(f"laid out {key}: {layout.blocks:,} blocks, {layout.bytes / 1e6:,.0f} MB, {layout.seconds:,.1f} s")

    def sop(self, work: Workload, min_size: int, narrow: bool = False) -> Layout:
        """The table as ``sidestep.load`` lays it out for the training queries; narrow, with filtered columns alone.

        With ``--features`` it is grouped by so many features within months, as the thesis has it.
        """
        from sidestep.spark.table.load import load

        def make(target: Path) -> Layout:
            log = self.home / f"train-{work.name}.sql"
            log.write_text(";\n".join(work.train) + ";\n", encoding="utf-8")
            report = load(
                self.spark,
                str(self.narrow if narrow else self.source),
                str(target),
                name=NAME,
                log=str(log),
                min_size=min_size,
                **by_features,
            )
            return sop_layout(target, report)

        count = self.args.features
        by_features: dict[str, Any] = {} if count is None else {"by": BY_MONTH, "num_features": count}
        kind = ("" if count is None else f"-{count}") + ("-narrow" if narrow else "")
        return self.layout(f"laid-out-{work.name}-{min_size}{kind}", make)

    def others(self, work: Workload, like: Layout, names: Sequence[str]) -> dict[str, Layout]:
        """The layouts of these names to compare with, in as many blocks and files as that one."""
        found: dict[str, Layout] = {}
        # With few blocks to a file, their number could only be met by chance.
        files = max(1, min(like.files, like.blocks // 50))
        last = self.journal.once("last order", self._last_order) if "full" in names else 0
        for arrangement in (natural(files, last), range1(), range2()):
            if arrangement.name not in names:
                continue
            found[arrangement.name] = self.layout(
                f"{arrangement.name}-{like.blocks}",
                partial(write_arrangement, self.spark, self.source, arrangement=arrangement, blocks=like.blocks),
            )
        if "zorder" not in names:
            return found
        chosen = self.journal.once(f"z-order {work.name} {like.blocks}", lambda: self._z_columns(work, like.blocks))
        columns = chosen["columns"]
        found["zorder"] = self.layout(
            f"zorder-{like.blocks}-{'-'.join(columns)}", lambda target: self._z_ordered(target, columns, like, files)
        )
        return found

    def _last_order(self) -> int:
        return int(self.spark.read.parquet(str(self.source)).agg({"l_orderkey": "max"}).collect()[0][0])

    def _sample(self, columns: Iterable[str], rows: int) -> pa.Table:
        table = self.spark.read.parquet(str(self.source))
        share = min(1.0, SAMPLE / max(1, rows))
        return table.select(*columns).sample(fraction=share, seed=7).toArrow()

    def _z_columns(self, work: Workload, blocks: int) -> dict[str, Any]:
        """Chosen on a sample of the data, by a share of the training queries: more of them choose the same."""
        schema = self.spark.read.parquet(str(self.source)).schema
        texts = [Statement(text) for text in work.train[: max(1, len(work.train) // 4)]]
        understood = analyze_statements(self.spark, texts, {"denorm": schema})
        queries = [query.uses[0].predicates for query in understood.queries]
        names = sorted({column.name for query in queries for p in query for column in columns_of(p)})
        types = {name: parse_type(schema[name].dataType.simpleString()) for name in names}
        rows = self.journal.once("rows", lambda: self.spark.read.parquet(str(self.source)).count())
        columns, tried = choose_columns(self._sample(names, rows), types, queries, blocks)
        self.say(f"Z-order for {work.name}: {', '.join(columns)}")
        return {"columns": list(columns), "tried": dict(list(tried.items())[:10])}

    def _z_ordered(self, target: Path, columns: Sequence[str], like: Layout, files: int) -> Layout:
        sample = self._sample(columns, like.rows)
        order = z_order(sample, columns)
        places = order.values(*(sample[name].combine_chunks() for name in columns))
        arrangement = z_ordered(order, places.tolist(), files)
        return write_arrangement(self.spark, self.source, target, arrangement, like.blocks)

    def reader(self, layout: Layout) -> Reader:
        """The table of a layout, written again if it was dropped to make room."""
        if not Path(layout.path).is_dir():
            self._write(Path(layout.path).name)
        if layout.path not in self._readers:
            self._readers[layout.path] = Reader(self.spark, layout, skipping=layout.name != "full")
        return self._readers[layout.path]

    def planned(self, enabled: Enabled, work: Workload, layout: Layout) -> list[list[int]]:
        """For each test query what the planner reads of a layout: rows and bytes."""

        def plan() -> list[list[int]]:
            reader = self.reader(layout)
            found = [reader.planned(enabled, text) for _, text in work.test]
            return [[each.rows, each.bytes] for each in found]

        planned: list[list[int]] = self.journal.once(f"planned {work.name} {Path(layout.path).name}", plan)
        return planned

    def counted(self, work: Workload, layout: Layout) -> list[int]:
        """For each test query the rows that Spark read of a layout when it ran, pages that it passed over left out."""

        def run() -> list[int]:
            reader = self.reader(layout)
            return [sidestep.metrics(reader.run(text)[1]).rows for _, text in work.test]

        counts: list[int] = self.journal.once(f"counted {work.name} {Path(layout.path).name}", run)
        return counts

    def whole(self, work: Workload, layout: Layout) -> list[list[int]]:
        """For each test query what a scan of all blocks of a layout reads: rows and bytes."""
        reader = self.reader(layout)
        return [[each.rows, each.bytes] for each in (reader.everything(text) for _, text in work.test)]

    def actual(self, work: Workload) -> list[int]:
        """For each test query the rows that satisfy its filter."""
        texts = [text for _, text in work.test]
        counts: list[int] = self.journal.once(f"actual {work.name}", lambda: rows_of(self.spark, self.source, texts))
        return counts

    def timed(self, enabled: Enabled, work: Workload, layouts: dict[str, Layout]) -> list[dict[str, Any]]:
        """Some test queries, as many of each template, run on all layouts in turns."""
        names = "+".join(Path(layout.path).name for layout in layouts.values())
        found = []
        chosen = chosen_queries(work, self.args.timed)
        keys = [f"timed {work.name} {number} {self.args.runs} {names}" for number in chosen]
        if any(key not in self.journal for key in keys):
            # A young JVM is still compiling: whatever came first would pay for it.
            for layout in layouts.values():
                for number in chosen[:8]:
                    self.reader(layout).run(work.test[number][1])
        for number, key in zip(chosen, keys, strict=True):
            template, text = work.test[number]
            found.append(self.journal.once(key, partial(self._race, enabled, text, layouts)))
            found[-1]["template"] = template
            seconds = found[-1]["seconds"]
            self.say(f"{work.name} {template}: " + ", ".join(f"{name} {s:.2f} s" for name, s in seconds.items()))
        return found

    def _race(self, enabled: Enabled, text: str, layouts: dict[str, Layout]) -> dict[str, Any]:
        """One query on all layouts: what was read in a first run, checked against the plan, then times."""
        readers = {name: self.reader(layout) for name, layout in layouts.items()}
        first: dict[str, dict[str, Any]] = {}

        def variant(name: str) -> None:
            group = uuid.uuid4().hex
            self.spark.sparkContext.setJobGroup(group, f"a query on {name}")
            rows, df = readers[name].run(text)
            if name not in first:
                read = sidestep.metrics(df)
                first[name] = {"result": Counter(rows), "rows": read.rows, "bytes": bytes_read(self.spark, group)}

        timing = race({name: partial(variant, name) for name in layouts}, runs=self.args.runs)
        results = [each["result"] for each in first.values()]
        assert all(result == results[0] for result in results), f"Layouts disagree on the result of: {text}"
        planned = {name: reader.planned(enabled, text) for name, reader in readers.items()}
        for name, reads in planned.items():
            # Spark may pass over a row group by itself, by its statistics or a column's dictionary; never the reverse.
            run = first[name]["rows"]
            assert run <= reads.rows, f"{name} read {run:,} rows, but {reads.rows:,} were planned, for: {text}"
        return {
            "seconds": {each.name: each.median for each in timing.timings},
            "rows": {name: each["rows"] for name, each in first.items()},
            "bytes": {name: each["bytes"] for name, each in first.items()},
            "planned_rows": {name: reads.rows for name, reads in planned.items()},
            "planned_bytes": {name: reads.bytes for name, reads in planned.items()},
        }

    def drop(self, layout: Layout) -> None:
        """Make room: what a layout showed is in the journal."""
        self._readers.pop(layout.path, None)
        if not self.args.keep:
            shutil.rmtree(layout.path, ignore_errors=True)


def sop_layout(target: Path, report: Any) -> Layout:
    """What a load reports, as a layout."""
    return Layout(
        "sop",
        str(target),
        rows=report.rows,
        blocks=report.blocks,
        files=report.files,
        bytes=report.bytes_after,
        seconds=report.seconds,
        details={"stages": {stage.name: stage.seconds for stage in report.stages}},
    )


def chosen_queries(work: Workload, count: int) -> list[int]:
    """The positions of so many test queries: the first of each template, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for number, (template, _) in enumerate(work.test):
        turns.append((seen[template], number))
        seen[template] += 1
    return [number for _, number in sorted(turns)[:count]]
