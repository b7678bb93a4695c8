"""What load makes of data that no choice here was made by, against a sort, a Z-order and a Qd-tree, on later queries.

Five kinds of table with a log each, made from a seed: a star with its joins made, an event log, dashboards on flights,
a survey of the sky, and a table of eighty columns. sidestep is given the table and the first part of the log, and
nothing else; what followed in the log is then run and counted. The simple arrangements are judged in numpy, in as many
blocks and files as sidestep made, by code that shares nothing with it: a block is read unless its least and greatest
values prove that no row matches. The Qd-tree's blocks know sets of values besides, and where its cuts are true.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as TextTable

import sidestep
from bench.journal import Journal
from bench.outofbox_filters import Atom, Blocks, bind, matching_rows
from bench.outofbox_judge import (
    Arrangement,
    Chosen,
    Reads,
    as_arrived,
    choose_columns,
    cut_into_pages,
    describe,
    paged_reads,
    reads,
    sorted_by,
    terms_of,
    z_ordered,
)
from bench.outofbox_kinds import KINDS, Kind, make_kind
from bench.outofbox_product import RUN_TWICE, Laid, Run, laid_out, run_queries, session_for, time_queries
from bench.outofbox_qdtree import arrange, grow
from bench.session import spark_session
from bench.tpch import DATA

SIMPLE = ("asis", "sort", "zorder")
ARRANGEMENTS = (*SIMPLE, "qdtree", "sidestep", "match")
"""What is compared; ``match`` is the rows that match, which is the least that anyone can read."""
MORE = (
    "sort_hindsight",
    "zorder_hindsight",
    "asis_sets",
    "sort_sets",
    "zorder_sets",
    "qdtree_bounds",
    "sidestep_planned",
    "asis_pages",
    "sort_pages",
    "zorder_pages",
    "qdtree_pages",
)
"""Further figures: columns chosen by the later queries themselves, with sets of values and without, as planned, and
with pages that readers pass over as in sidestep's files (in the Qd-tree's blocks, rows lie by the column of *sort*)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these, parted by commas")
    parser.add_argument("--queries", type=int, default=240, help="queries of each log; the first three quarters train")
    parser.add_argument("--later", type=int, default=300, help="queries that follow; 0 is the last quarter alone")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of the first later queries; 0 leaves times out")
    parser.add_argument("--load-only", action="store_true", help="lay the tables out and tell what that takes, no more")
    parser.add_argument("--min-size", type=int, help="least rows of a block, if not the default of load")
    parser.add_argument("--templates", action="store_true", help="show the rows by template as well")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="4g", help="of Spark's driver")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run of the same code has done")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    names = [name for name in args.kinds.split(",") if name]
    unknown = [name for name in names if name not in KINDS]
    if unknown or not names:
        raise sidestep.SidestepError(f"--kinds takes {', '.join(KINDS)}, not {args.kinds!r}.")
    if args.load_only:
        return {"cpu": {name: _cpu_of_load(name, args, console) for name in names}}
    journal = Journal(args.data / "outofbox.jsonl")
    done: dict[str, dict[str, Any]] = {}
    # Taken once: sources that are edited while this runs are not those that run.
    made_by = f"{args.rows} {args.seed} {args.queries} {args.later} {args.runs} {args.min_size} {sources_digest()}"
    for name in names:
        key = f"{name} {made_by}"
        if args.fresh or key not in journal:
            journal.note(key, measure(name, args))
        done[name] = journal.once(key, dict)
        console.print(_table(name, done[name]))
        if args.templates:
            console.print(_template_table(name, done[name]))
    return figures(done)


def figures(done: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of all kinds, and the ratios that sum them up."""
    rows = {name: each["rows_pct"] for name, each in done.items()}
    to_simple = {name: _ratio(each["sidestep"], min(each[one] for one in SIMPLE)) for name, each in rows.items()}
    to_tree = {name: _ratio(each["sidestep"], each["qdtree"]) for name, each in rows.items()}
    return {
        "rows_pct": {name: {one: each[one] for one in ARRANGEMENTS} for name, each in rows.items()},
        "files_pct": {name: each["files_pct"] for name, each in done.items()},
        "time_ratio": {name: each["time_ratio"] for name, each in done.items()},
        "worst_ratio_to_best_simple": max(to_simple.values()),
        "ratio_to_best_simple": to_simple,
        "worst_ratio_to_qdtree": max(to_tree.values()),
        "ratio_to_qdtree": to_tree,
        "ratio_to_best_simple_with_pages": {
            name: _ratio(each["sidestep"], min(each[f"{one}_pages"] for one in SIMPLE)) for name, each in rows.items()
        },
        "ratio_to_qdtree_with_pages": {
            name: _ratio(each["sidestep"], each["qdtree_pages"]) for name, each in rows.items()
        },
        "choose_cpu_share": {name: each["load"]["choose_cpu_share"] for name, each in done.items()},
        "more_rows_pct": {name: {one: each[one] for one in MORE} for name, each in rows.items()},
        "blocks": {name: each["blocks"] for name, each in done.items()},
        "columns": {name: each["columns"] for name, each in done.items()},
        "load": {name: each["load"] for name, each in done.items()},
        "templates": {name: each["templates"] for name, each in done.items()},
        "seconds": {name: each["seconds"] for name, each in done.items()},
    }


def _ratio(mine: float, theirs: float) -> float:
    return round(mine / theirs, 3) if theirs else (1.0 if not mine else float("inf"))


def sources_digest() -> str:
    """What figures depend on beside the arguments: every source of sidestep and of this benchmark."""
    here = Path(__file__).resolve().parent
    product = Path(str(sidestep.__file__)).parent
    sources = [*product.rglob("*.py"), *product.rglob("*.java"), *here.glob("outofbox*.py")]
    sources += here.glob("outofbox_*/*.py")
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()[:16]


def measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """All figures of one kind."""
    kind = make_kind(name, args.rows, args.queries, args.seed, args.later)
    judge = Judge(kind)
    spark = spark_session(args.memory)
    with session_for(spark), laid_out(spark, kind, args.min_size, args.data) as laid:
        ran = run_queries(spark, laid, kind.later, judge.matching)
        seconds = time_queries(spark, laid, kind.later[:RUN_TWICE], args.runs) if args.runs else {}
    report = laid.report
    read, blocks, columns = judge.arrangements(report.blocks, report.files, report.spec.min_size)
    read["sidestep"] = Reads(tuple(one.rows for one in ran), tuple(one.files for one in ran))
    read["sidestep_planned"] = Reads(tuple(one.planned_rows for one in ran), ())
    read["match"] = Reads(tuple(judge.matching), ())
    return {
        "rows_pct": {one: _percent(each.rows, kind.table.rows) for one, each in read.items()},
        "files_pct": {one: _percent(read[one].files, report.files) for one in ARRANGEMENTS if read[one].files},
        "time_ratio": round(seconds["on"] / seconds["off"], 3) if seconds else None,
        "seconds": {one: round(each, 3) for one, each in seconds.items()},
        "blocks": {**blocks, "sidestep": report.blocks, "files": report.files},
        "columns": columns,
        "load": _load_figures(laid, ran, kind),
        "templates": _by_template(kind, {one: read[one] for one in ARRANGEMENTS}),
    }


def _cpu_of_load(name: str, args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """The processor seconds of a load by stage, and the share of them that goes into the choice of a layout."""
    kind = make_kind(name, args.rows, args.queries, args.seed, args.later)
    spark = spark_session(args.memory)
    with session_for(spark), laid_out(spark, kind, args.min_size, args.data) as laid:
        seconds, share = _rounded(laid.cpu.seconds), laid.cpu.choose_share
    told = "unknown" if share is None else f"{share:.1%}"
    console.print(f"{name}: {sum(seconds.values()):.1f} processor seconds, choosing {told}; {seconds}", highlight=False)
    return {"seconds": seconds, "choose_share": None if share is None else round(share, 3)}


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {stage: round(each, 1) for stage, each in seconds.items()}


def _percent(counts: Sequence[int], of: int) -> float:
    """What queries read, in percent of what they would if each read all."""
    return round(100 * sum(counts) / max(1, len(counts) * of), 3)


def _load_figures(laid: Laid, ran: Sequence[Run], kind: Kind) -> dict[str, Any]:
    report, share = laid.report, laid.cpu.choose_share
    plain = report.to_dict()
    return {
        "by": report.spec.by,
        "order": list(report.spec.order),
        "features": list(report.features),
        "units": report.units,
        "bytes_ratio": round(report.bytes_after / max(1, report.bytes_before), 3),
        "synopses": plain["synopses"],
        "stages": plain["stages"],
        "choose_cpu_share": None if share is None else round(share, 3),
        "cpu_seconds": _rounded(laid.cpu.seconds),
        "spark_asis_rows_pct": _percent([one.arrived_rows for one in ran[:RUN_TWICE]], kind.table.rows),
    }


def _by_template(kind: Kind, read: Mapping[str, Reads]) -> dict[str, dict[str, float]]:
    found = {}
    for template in dict.fromkeys(query.template for query in kind.later):
        mine = [number for number, query in enumerate(kind.later) if query.template == template]
        shares = {name: _percent([each.rows[at] for at in mine], kind.table.rows) for name, each in read.items()}
        found[template] = {"queries": len(mine), **shares}
    return found


class Judge:
    """A kind, with its filters bound to its values: what they match, and what they read of arrangements."""

    def __init__(self, kind: Kind) -> None:
        self.table = kind.table
        self.train = [bind(query.condition, kind.table) for query in kind.train]
        self.later = [bind(query.condition, kind.table) for query in kind.later]
        self.terms = terms_of([*self.train, *self.later])
        codes = {term: kind.table.coded(term).codes for term in self.terms}
        self.matching = [int(matching_rows(query, codes).sum()) for query in self.later]

    def arrangements(
        self, blocks: int, files: int, min_size: int
    ) -> tuple[dict[str, Reads], dict[str, int], dict[str, str]]:
        """What the later queries read of each, and how many blocks and which columns each has."""
        table, rows = self.table, self.table.rows
        chosen, hindsight = (choose_columns(table, rows, queries, blocks) for queries in (self.train, self.later))
        tree, advanced = grow(table, self.train, min_size, blocks)
        made: dict[str, Arrangement] = {
            "asis": as_arrived(rows, blocks),
            **{name: self._simple(name, chosen, blocks) for name in ("sort", "zorder")},
            **{f"{name}_hindsight": self._simple(name, hindsight, blocks) for name in ("sort", "zorder")},
        }
        described: dict[str, Blocks] = {name: self._describe(each) for name, each in made.items()}
        described |= {f"{name}_sets": self._describe(made[name], sets=True) for name in SIMPLE}
        made["qdtree"] = arrange(table, tree, blocks)
        described["qdtree"] = self._describe(made["qdtree"], sets=True, cuts=advanced)
        described["qdtree_bounds"] = self._describe(made["qdtree"])
        counts = {name: len(made[name].starts) for name in (*SIMPLE, "qdtree")}
        labels = {name: each.label for name, each in made.items() if each.label}
        read = {name: reads(each, self.later, files) for name, each in described.items()}
        for name in (*SIMPLE, "qdtree"):
            pages = cut_into_pages(table, made[name], chosen.sort if name == "qdtree" else None)
            read[f"{name}_pages"] = paged_reads(described[name], self._describe(pages), self.later)
        return read, counts, labels

    def _simple(self, name: str, chosen: Chosen, blocks: int) -> Arrangement:
        if name == "sort":
            return sorted_by(self.table, chosen.sort, blocks)
        return z_ordered(self.table, chosen.z_order, blocks)

    def _describe(self, arrangement: Arrangement, *, sets: bool = False, cuts: Sequence[Atom] = ()) -> Blocks:
        return describe(self.table, arrangement, self.terms, sets=sets, cuts=cuts)


def _table(name: str, done: Mapping[str, Any]) -> TextTable:
    blocks, columns = done["blocks"], done["columns"]
    title = f"{name}: {blocks['files']} files"
    if done["time_ratio"] is not None:
        title += f"; time with sidestep by time without: {done['time_ratio']:.2f}"
    table = TextTable(title=title)
    for heading in ("arrangement", "rows %", "files %", "blocks", "by"):
        table.add_column(heading, justify="left" if heading in ("arrangement", "by") else "right")
    load = done["load"]
    made_by = f"{len(load['features'])} features; by {load['by'] or '-'}; order {', '.join(load['order']) or '-'}"
    for one in (*ARRANGEMENTS, *MORE):
        files = done["files_pct"].get(one)
        table.add_row(
            one,
            f"{done['rows_pct'][one]:.2f}",
            "" if files is None else f"{files:.1f}",
            f"{blocks[one]:,}" if one in blocks else "",
            made_by if one == "sidestep" else columns.get(one, ""),
            end_section=one == ARRANGEMENTS[-1],
        )
    return table


def _template_table(name: str, done: Mapping[str, Any]) -> TextTable:
    table = TextTable(title=f"{name}: rows % by template")
    for heading in ("template", "queries", *ARRANGEMENTS):
        table.add_column(heading, justify="left" if heading == "template" else "right")
    for template, each in done["templates"].items():
        worse = each["sidestep"] > 1.1 * min(each[one] for one in SIMPLE)
        shares = [f"{each[one]:.2f}" for one in ARRANGEMENTS]
        table.add_row(template, str(each["queries"]), *shares, style="red" if worse else "")
    return table
