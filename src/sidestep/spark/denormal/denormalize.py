"""``sidestep.denormalize``: a fact table joined with what its queries join it with, laid out as one table.

The joined rows are written once as they come, beside the target, and loaded from there by the log's queries as they
would be on the joined table. What was read is remembered beside the fact table's index: the files of every base table
and what their keys were found to be. So later queries can be told when the joined table stands for them
(:mod:`sidestep.spark.rule.denormalized`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sidestep.advisor.layouts.join_trees import ChosenTree, choose_tree
from sidestep.errors import SidestepError
from sidestep.layout.join_tree import JoinTree
from sidestep.predicate import Opaque, Predicate
from sidestep.predicate.columns import columns_of
from sidestep.prune import Query, Scan
from sidestep.prune.denormal.match import JoinMatch, find_matches
from sidestep.render import counted, size_text
from sidestep.render.document import Cell, Facts, Heading, Paragraph, Part
from sidestep.render.report import Report
from sidestep.spark.advise.source import Source, read_source
from sidestep.spark.denormal.keys import CheckedKeys
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.log.analyze import LogSource, read_workload
from sidestep.spark.log.statements import Table
from sidestep.spark.log.uses import Meaning, is_for_run_time
from sidestep.spark.progress import Progress, Stage, Watch, stage_seconds, stages_table
from sidestep.spark.relation import relation_at, resolve
from sidestep.spark.table.group_table import check_free
from sidestep.spark.table.load import load
from sidestep.spark.table.reports import LoadReport
from sidestep.store import Location, index_folder, locate, read_snapshot
from sidestep.store.parquet.row_counts import count_rows
from sidestep.store.parquet.widths import column_widths
from sidestep.store.sidecars.denormalized import DENORMALIZED, BaseTable, DenormalizedTable, DenormalizedTables
from sidestep.store.snapshot import Snapshot
from sidestep.workload.query import TableUse, Workload

NAME = "the denormalized table"
"""What rewritten queries call it."""


@dataclass(frozen=True)
class DenormalizeReport(Report):
    """What was denormalized, or would be. ``str`` is for people, ``to_dict`` plain data."""

    table: str
    fact: str
    roles: tuple[str, ...]
    """How each table is looked up, in words."""
    columns: tuple[str, ...]
    """The columns of the denormalized table."""
    rows: int
    bytes: int
    """What the table takes on disk; before it is made, an estimate by what its columns take in the base tables."""
    base_bytes: int
    """What the base tables take."""
    queries: int
    """Queries of the log that read the fact table."""
    rewritten: int
    """Those of them that can read the denormalized table instead, for a part at least."""
    notes: tuple[str, ...]
    stages: tuple[Stage, ...]
    load: LoadReport | None = None
    """How it was laid out; None in a dry run."""

    def _document(self) -> Iterator[Part]:
        about = "about " * (self.load is None)
        larger = max(1, self.bytes, self.base_bytes)
        yield Facts(
            [
                ("table", self.table + (" (not made: a dry run)" if self.load is None else "")),
                ("each row is one of", self.fact),
                ("rows", f"{self.rows:,}"),
                ("columns", Cell(f"{len(self.columns):,}", more="which", lines=self.columns)),
                ("looked up", "\n".join(self.roles)),
                ("size", Cell(f"{about}{size_text(self.bytes)}", share=self.bytes / larger)),
                ("its base tables", Cell(size_text(self.base_bytes), share=self.base_bytes / larger)),
                (
                    "queries that can read it",
                    Cell(f"{self.rewritten:,} of {self.queries:,}", share=self.rewritten / max(1, self.queries)),
                ),
            ]
        )
        yield from (Paragraph(note) for note in self.notes)
        if self.load is None:
            yield stages_table(self.stages)
        else:
            yield Heading("How it was laid out")
            yield from self.load._document()

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "table": self.table,
            "fact": self.fact,
            "roles": list(self.roles),
            "columns": list(self.columns),
            "rows": self.rows,
            "bytes": self.bytes,
            "base_bytes": self.base_bytes,
            "queries": self.queries,
            "rewritten": self.rewritten,
            "notes": list(self.notes),
            "seconds": stage_seconds(self.stages),
            "load": None if self.load is None else self.load.to_dict(),
        }

    def __str__(self) -> str:
        verb = "would hold" if self.load is None else "holds"
        lines = [
            f"{self.table} {verb} {counted(self.rows, 'row')} of {self.fact}, with {len(self.columns):,} columns of",
            *(f"  {role}" for role in self.roles),
            f"It {'would take about' if self.load is None else 'takes'} {size_text(self.bytes)}, and its base tables "
            f"take {size_text(self.base_bytes)}. {self.rewritten:,} of the {self.queries:,} queries on {self.fact} "
            "can read it instead, for a part at least.",
            *self.notes,
        ]
        return "\n".join([*lines, *([] if self.load is None else ["", str(self.load)])])


@leaves_session_active
def denormalize(
    spark: SparkSession,
    log: LogSource,
    tables: Mapping[str, Table],
    target: str | os.PathLike[str],
    *,
    fact: str,
    keys: Mapping[str, Sequence[str]] | None = None,
    layout: str | None = "gsop",
    dialect: str | None = None,
    min_size: int | None = None,
    dry_run: bool = False,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> DenormalizeReport:
    """Join a fact table with the tables that its queries join it with, and lay the result out at ``target``.

    ``tables`` has the paths of the tables by the names that the ``log`` calls them; ``fact`` is the one of which each
    row becomes a row of the result. Which others are joined to it, and which columns are kept, is what the log's
    queries ask for; they are looked up by keys, directly or through each other. That a key is one is checked on all
    rows: comparisons with anything else are left to queries. ``keys`` names the key of a table (``{"orders":
    ["o_orderkey"]}``); if it is none, that is an error. ``layout`` and ``min_size`` are as in :func:`sidestep.load`.

    Queries of sessions in which sidestep is enabled then read the result in place of joins that it provably stands for,
    if they read less that way, and as long as all base tables have the files that it was made of. With ``dry_run``
    nothing is written: the report says what would be made, how large it would be, and how many queries would read it.
    """
    if isinstance(log, Workload):
        raise SidestepError("A log is needed whose statements can be read anew, as queries on the joined table.")
    if layout == "gsop" and index_dir is not None:
        raise SidestepError(
            "A table in column groups has its index with it, and queries that look for indexes in index_dir would not "
            "find it: use layout='sop', or leave index_dir out."
        )
    places = _places(tables, fact)
    if isinstance(keys, Mapping) and (unknown := sorted(keys.keys() - places.keys())):
        raise SidestepError(f"keys names {', '.join(unknown)}, which is not among the tables.")
    place = locate(resolve(spark, target))
    if not dry_run:
        check_free(place)
    watch, quiet = Watch(spark.sparkContext, progress), quiet_session(spark)
    sources = {name: read_source(quiet, table, name) for name, table in places.items()}
    schemas = {
        name: {field.name: field.dataType.simpleString() for field in source.schema.fields}
        for name, source in sources.items()
    }
    given: dict[str, Table] = {name: source.schema for name, source in sources.items()}
    with watch.stage("analyze"):
        workload = read_workload(quiet, log, {**tables, **given}, dialect)
    with watch.stage("check keys"):
        rows = {name: source.rows for name, source in sources.items()}
        chosen = choose_tree(workload, fact, schemas, CheckedKeys(rows, watch.tell), keys)
    tree = chosen.tree
    with watch.stage("rewrite the log"):
        interpret = _interpreter(tree)
        joined = read_workload(quiet, log, {**tables, **given}, dialect, interpret)
        rewritten = Workload(tuple(query for query in joined.queries if any(use.table == NAME for use in query.uses)))
    with watch.stage("count"):
        bases = tuple(_base(sources[name]) for name in tree.tables)
    report = _report(place, chosen, bases, rewritten, sources)
    if dry_run:
        return replace(report, stages=watch.stages)
    if not rewritten.queries:
        raise SidestepError(f"No query of the log can read a table that {fact} is denormalized to: nothing was made.")
    staging = place.parent.child(f"{place.name}-joined-{uuid.uuid4().hex}")
    try:
        with watch.stage("join", bases[0].rows):
            _joined(tree, rows).write.parquet(staging.uri)
        _check_rows(staging, bases[0])
        _check_unchanged(sources, tree)
        loaded = load(
            spark,
            staging.uri,
            place.uri,
            name=NAME,
            log=rewritten,
            layout=layout,
            min_size=min_size,
            index_dir=index_dir,
            progress=progress,
        )
    finally:
        _delete_folder(staging)
    _, snapshot, _ = relation_at(spark, place, loaded.version)
    made = DenormalizedTable(
        place.uri,
        loaded.version,
        snapshot.table_id,
        loaded.rows,
        column_widths(_locations(snapshot)),
        tree,
        bases,
        str(Bridge(spark).factory().reading(spark._jsparkSession)),
    )
    folder = index_folder(sources[fact].snapshot.root, index_dir)
    DENORMALIZED.save(folder, (DENORMALIZED.load(folder) or DenormalizedTables()).with_table(made))
    stages = (*watch.stages, *loaded.stages)
    return replace(report, rows=loaded.rows, bytes=snapshot.bytes, load=loaded, stages=stages)


def _places(tables: Mapping[str, Table], fact: str) -> dict[str, str | os.PathLike[str]]:
    """The path of each table, or its name in the catalog."""
    if fact not in tables:
        raise SidestepError(f"The fact table {fact} is not among the tables: {', '.join(tables) or 'there are none'}.")
    places = {}
    for name, table in tables.items():
        if not isinstance(table, str | os.PathLike):
            raise SidestepError(f"Table {name} is given by its schema: its rows are needed, so give its path.")
        places[name] = table
    return places


def _interpreter(tree: JoinTree) -> Callable[[Query, Callable[[Scan], str]], Meaning]:
    """What a query asks of the denormalized table, at each place where that can stand for a part of it."""
    tables = set(tree.tables)

    def interpret(query: Query, named: Callable[[Scan], str]) -> Meaning:
        def known(scan: Scan) -> str | None:
            return table if (table := named(scan)) in tables else None

        matches, _ = find_matches(query, tree, known)
        return tuple(map(_use, matches)), ()

    return interpret


def _use(match: JoinMatch) -> TableUse:
    renamed = {
        kept.stored for _, _, role in match.scans for kept in match.tree.columns
        if kept.role == role and kept.stored != kept.name
    }  # fmt: skip

    def says_something(predicate: Predicate) -> bool:
        # The text of an opaque predicate has the columns of the base tables in it.
        opaque = isinstance(predicate, Opaque) and any(column.name in renamed for column in columns_of(predicate))
        return not opaque and not is_for_run_time(predicate)

    return TableUse(NAME, frozenset(filter(says_something, match.remaining())), frozenset(match.stored.values()))


def _base(source: Source) -> BaseTable:
    files = _locations(source.snapshot)
    root = source.snapshot.root
    return BaseTable(source.name, root.uri, source.snapshot.files, count_rows(files), column_widths(files))


def _locations(snapshot: Snapshot) -> list[Location]:
    return [snapshot.root.child(file.path) if file.path else snapshot.root for file in snapshot.files]


def _report(
    place: Location,
    chosen: ChosenTree,
    bases: Sequence[BaseTable],
    rewritten: Workload,
    sources: Mapping[str, Source],
) -> DenormalizeReport:
    tree = chosen.tree
    widths = {base.name: base.widths for base in bases}
    roles = []
    for position, role in enumerate(tree.roles):
        names = [column.name for column in tree.columns if column.role == position]
        kept = ", ".join(names) or "no columns of its own"
        by = " and ".join(f"{tree.roles[role.parent].name}.{a} = {role.name}.{b}" for a, b in role.on)
        partner = "" if role.total else ", for rows that have a partner"
        roles.append(f"{role.name}: {kept}" + (f" (by {by}{partner})" if by else ""))
    rows = {base.name: base.rows for base in bases}
    size = 0.0
    for column in tree.columns:
        table = tree.roles[column.role].table
        width = widths[table].get(column.name, 0.0)
        # A value that is repeated is stored once, and where it stands by its number: as many bits as there are values.
        number = max(rows[table] - 1, 1).bit_length() / 8
        size += min(bases[0].rows * width, rows[table] * width + bases[0].rows * number)
    return DenormalizeReport(
        place.uri,
        tree.fact,
        tuple(roles),
        tuple(column.stored for column in tree.columns),
        bases[0].rows,
        int(size),
        sum(sources[name].snapshot.bytes for name in tree.tables),
        chosen.queries,
        sum(query.count for query in rewritten.queries),
        chosen.notes,
        (),
    )


def _joined(tree: JoinTree, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The fact's rows with the columns of every role, each column under a name that no other has until the end."""

    def column(role: int, name: str) -> str:
        return f"{role}.{name}"

    def renamed(position: int) -> DataFrame:
        role = tree.roles[position]
        by = {ours for child in tree.roles if child.parent == position for ours, _ in child.on}
        kept = {each.name for each in tree.columns if each.role == position}
        names = sorted(by | kept | {key for _, key in role.on})
        return tables[role.table].select(*(F.col(_quoted(each)).alias(column(position, each)) for each in names))

    rows = renamed(0)
    for position, role in enumerate(tree.roles[1:], 1):
        pairs = [(column(role.parent, ours), column(position, key)) for ours, key in role.on]
        same = reduce(and_, (F.col(_quoted(a)) == F.col(_quoted(b)) for a, b in pairs))
        # A key that is NULL finds no partner, and two of them are no contradiction to the key's being one.
        found = renamed(position).where(reduce(and_, (F.col(_quoted(b)).isNotNull() for _, b in pairs)))
        rows = rows.join(found, same, "left")
    return rows.select(*(F.col(_quoted(column(each.role, each.name))).alias(each.stored) for each in tree.columns))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check_rows(staging: Location, fact: BaseTable) -> None:
    joined = count_rows(_locations(read_snapshot(staging)))
    if joined != fact.rows:
        raise SidestepError(
            f"{fact.name} has {fact.rows:,} rows, and joined with its tables {joined:,}: a table has changed "
            "meanwhile. Nothing was made; run it again."
        )


def _check_unchanged(sources: Mapping[str, Source], tree: JoinTree) -> None:
    """Refuse what was read of folders that others have written to meanwhile; a Delta table was read at one version."""
    for name in tree.tables:
        before = sources[name].snapshot
        if before.format == "parquet" and read_snapshot(before.root).files != before.files:
            raise SidestepError(f"{name} has changed while it was read. Nothing was made; run it again.")


def _delete_folder(location: Location) -> None:
    if location.filesystem.get_file_info(location.path).type.name == "Directory":
        location.filesystem.delete_dir(location.path)
