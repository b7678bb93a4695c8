"""``sidestep.sql``: MERGE INTO, DELETE FROM and UPDATE on Delta tables as SQL, read by Spark's own parser.

Spark without a connector for Delta refuses these statements. Its parser understands them all the same; what it makes of
a statement is carried out by :func:`sidestep.merge`, :func:`sidestep.delete` and :func:`sidestep.update`. Every other
statement is Spark's own affair.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sidestep.errors import SidestepError
from sidestep.predicate.text import name_text
from sidestep.spark.change.merge import Clause, Merge, Rows, merge
from sidestep.spark.change.rewrite import delete_rows, update_rows
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.log.statements import Table
from sidestep.spark.progress import Progress
from sidestep.spark.relation import read
from sidestep.spark.table.reports import MergeReport, WriteReport

FORMATS = frozenset({"delta", "parquet"})
"""What a name may begin with whose second part is a path."""


@leaves_session_active
def sql(
    spark: SparkSession,
    statement: str,
    *,
    tables: Mapping[str, Table] | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> DataFrame | MergeReport | WriteReport:
    """Run a statement: MERGE INTO, DELETE FROM and UPDATE on a Delta table by sidestep, any other by ``spark.sql``.

    The table to change is a name of the catalog, one of ``tables`` (with its path), or ``delta.`/a/path```. So is what
    MERGE takes its rows from, which may also be a view or a query. What changes a table returns a report, any other
    statement the DataFrame that ``spark.sql`` returns.
    """
    reader = Bridge(spark).new("StatementReader")
    text = reader.read(spark._jsparkSession, statement)
    if text is None:
        return spark.sql(statement)
    parts = json.loads(str(text))
    paths = {name: os.fspath(path) for name, path in (tables or {}).items() if isinstance(path, str | os.PathLike)}
    target, alias = _target(parts["target"], paths), _alias(parts["target"])
    if parts["kind"] == "merge":
        return _merge(spark, reader, parts, paths, index_dir).run(progress)
    if parts["with"]:
        raise SidestepError("WITH before DELETE or UPDATE is not understood: put the query into the condition.")
    where = _text(parts["where"], "true")
    if parts["kind"] == "delete":
        return delete_rows(spark, target, where, alias=alias, index_dir=index_dir, progress=progress)
    values = _values(parts["set"], alias)
    return update_rows(spark, target, values, where, alias=alias, index_dir=index_dir, progress=progress)


def _merge(
    spark: SparkSession,
    reader: Any,
    parts: dict[str, Any],
    paths: Mapping[str, str],
    index_dir: str | os.PathLike[str] | None,
) -> Merge:
    if parts["evolves"]:
        raise SidestepError("WITH SCHEMA EVOLUTION is not understood: add columns to the table first.")
    target, source = _alias(parts["target"]), _alias(parts["source"], "source")
    begun = merge(
        spark,
        _target(parts["target"], paths),
        _source(spark, reader, parts["source"], paths),
        _text(parts["on"]),
        target_alias=target,
        source_alias=source,
        index_dir=index_dir,
    )
    for clause in parts["clauses"]:
        condition = None if clause["condition"] is None else _text(clause["condition"])
        values = None if clause["set"] is None else _values(clause["set"], target)
        begun = begun.with_clause(Clause(clause["kind"], clause["action"], values, condition))
    return begun


def _path(table: dict[str, Any], paths: Mapping[str, str]) -> str | None:
    """The path of a table that is named by it, or whose name was given one."""
    match table["name"]:
        case [str(format), str(path)] if format.lower() in FORMATS and "/" in path:
            return path
        case [str(name)] if name in paths:
            return paths[name]
        case list(names) if ".".join(names) in paths:
            return paths[".".join(names)]
    return None


def _target(table: dict[str, Any], paths: Mapping[str, str]) -> str:
    if table["name"] is None:
        raise SidestepError("Only a table can be changed, and the statement names none.")
    return _path(table, paths) or ".".join(map(name_text, table["name"]))


def _alias(table: dict[str, Any], otherwise: str = "target") -> str:
    """What conditions call a table: its alias, else the last part of its name, unless that is a path."""
    if table["alias"] is not None:
        return str(table["alias"])
    name = table["name"][-1] if table["name"] else otherwise
    return otherwise if "/" in name else str(name)


def _source(spark: SparkSession, reader: Any, table: dict[str, Any], paths: Mapping[str, str]) -> Rows:
    path = _path(table, paths)
    return read(spark, path) if path is not None else DataFrame(reader.source(), spark)


def _text(piece: str | bool | None, missing: str = "true") -> str:
    """A piece of the statement; a condition that is missing holds for every row."""
    if piece is None:
        return missing
    if not isinstance(piece, str):
        raise SidestepError(
            "A part of the statement cannot be told from the rest by where the parser says it stands. Put it into "
            "parentheses, without comments; or call sidestep.merge, sidestep.delete or sidestep.update."
        )
    return piece


def _values(assignments: list[tuple[list[str] | None, str | bool]], alias: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, piece in assignments:
        match name:
            case [str(column)]:
                own = column
            case [str(table), str(column)] if table.lower() == alias.lower():
                own = column
            case _:
                shown = ".".join(name or ["?"])
                raise SidestepError(f"{shown} is not a column to set: name one column of {alias}, not a part of one.")
        if own in values:
            raise SidestepError(f"{own} is set twice.")
        value = _text(piece)
        values[own] = "NULL" if value.upper() == "DEFAULT" else value
    return values
