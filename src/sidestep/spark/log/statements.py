"""A log's statements understood by Catalyst, the one front end: features and later queries speak one language.

Statements of other systems are translated into Spark's SQL by sqlglot, which is an optional dependency.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sidestep.errors import SidestepError
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.jvm.wire import Refusal, pack_statements, unpack_meaning
from sidestep.spark.log.uses import Interpret, Meaning, query_uses, table_name
from sidestep.spark.relation import read
from sidestep.workload.query import Failure, JoinUse, LoggedQuery, Statement, TableUse, Workload

BATCH = 2_000
"""Statements that are sent at once; as many more are under way, so that the JVM never waits for Python."""
PIECE = 400_000
"""How much of the answers comes over at once: each piece waits a moment for its acknowledgement, so they are few."""
ROOT = "/sidestep/log/"
Table = str | os.PathLike[str] | StructType


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Why it is not known what a statement asks for."""

    reason: str
    hint: str = ""
    """What to pass or do about it."""


def analyze_statements(
    spark: SparkSession,
    statements: Iterable[Statement],
    tables: Mapping[str, Table],
    dialect: str | None = None,
    interpret: Interpret = query_uses,
) -> Workload:
    """What each statement asks of the tables it names; nothing is run and no data is read.

    ``tables`` maps the names in the log to paths of Parquet or Delta tables, or to schemas; a table of the session's
    catalog need not be named. A statement means what it would mean in this session: its settings and functions count,
    its temporary views do not. INSERT … SELECT and CREATE TABLE … AS SELECT count by their query. What cannot be
    understood is among the workload's failures with the reason. ``interpret`` says what a plan asks for.
    """
    listed = tuple(statements)
    texts = list(dict.fromkeys(statement.sql for statement in listed))
    translations = {sql: translate(sql, dialect) for sql in texts} if dialect else {sql: sql for sql in texts}
    spark_texts = [sql for sql in dict.fromkeys(translations.values()) if isinstance(sql, str)]
    meanings = dict(zip(spark_texts, _meanings(spark, spark_texts, tables, interpret), strict=True))
    queries: list[LoggedQuery] = []
    failures: list[Failure] = []
    for statement in listed:
        translation = translations[statement.sql]
        meaning = meanings[translation] if isinstance(translation, str) else translation
        if isinstance(meaning, NotUnderstood):
            failures.append(Failure(statement, meaning.reason, meaning.hint))
        else:
            queries.append(_query(statement, *meaning))
    return Workload(tuple(queries), tuple(failures))


def _query(statement: Statement, uses: tuple[TableUse, ...], joins: tuple[JoinUse, ...]) -> LoggedQuery:
    return LoggedQuery(
        uses,
        joins,
        statement.sql,
        statement.time,
        statement.count,
        statement.user,
        last_time=statement.last_time,
    )


def _meanings(
    spark: SparkSession, texts: Sequence[str], tables: Mapping[str, Table], interpret: Interpret
) -> Iterator[Meaning | NotUnderstood]:
    """For each text what it asks for, or why that is not known."""
    schemas = {name: table_schema(spark, name, table) for name, table in tables.items()}
    bridge = Bridge(spark)
    analyzer = bridge.new("LogAnalyzer", spark._jsparkSession, os.cpu_count() or 1)
    names: dict[str, str] = {}
    shared: dict[Any, Any] = {}
    try:
        for number, (name, schema) in enumerate(schemas.items()):
            parts = bridge.jvm.java.util.ArrayList()
            for part in name_parts(name):
                parts.add(part)
            analyzer.table(parts, f"{ROOT}{number}", schema.json())
            names[f"{ROOT}{number}"] = name
        submitted = taken = 0
        while taken < len(texts):
            while submitted < min(len(texts), taken + 2 * BATCH):
                analyzer.submit(pack_statements(texts[submitted : submitted + BATCH]))
                submitted += BATCH
            lines = str(analyzer.take(PIECE)).splitlines()
            taken += len(lines)
            yield from (_meaning(line, names, shared, interpret) for line in lines)
    finally:
        analyzer.close()


def _meaning(
    line: str, names: Mapping[str, str], shared: dict[Any, Any], interpret: Interpret
) -> Meaning | NotUnderstood:
    plan = unpack_meaning(line)
    if isinstance(plan, Refusal):
        return not_understood(plan.condition, plan.about, plan.message)
    try:
        uses, joins = interpret(read_plan(plan), lambda scan: table_name(scan, names))
    except Exception as problem:
        return NotUnderstood(f"its plan could not be read: {problem}")
    # A log repeats itself: equal uses are one object, so that ten thousand queries of one kind need little memory.
    return tuple(shared.setdefault(use, use) for use in uses), tuple(shared.setdefault(join, join) for join in joins)


def table_schema(spark: SparkSession, name: str, table: Table) -> StructType:
    """The schema of a table given as such or as a path."""
    if isinstance(table, StructType):
        return table
    try:
        return read(spark, table).schema
    except SidestepError as problem:
        raise SidestepError(f"Table {name} of the log has no schema: {problem}") from problem


def name_parts(name: str) -> list[str]:
    """A name as it stands in SQL, by its parts.

    >>> name_parts("sales.orders"), name_parts("`odd.name`")
    (['sales', 'orders'], ['odd.name'])
    """
    parts: list[str] = []
    rest = name
    while rest:
        if rest.startswith("`") and "`" in rest[1:]:
            part, _, rest = rest[1:].partition("`")
            rest = rest.removeprefix(".")
        else:
            part, _, rest = rest.partition(".")
        parts.append(part)
    if not all(parts) or not parts:
        raise SidestepError(f"{name!r} is not the name of a table: write it as the log does, for example sales.orders.")
    return parts


def not_understood(condition: str, about: str, message: str) -> NotUnderstood:
    """Why a statement is not understood, and what to pass, from Spark's error condition and message.

    >>> not_understood("TABLE_OR_VIEW_NOT_FOUND", "`sales`.`nope`", "…")
    NotUnderstood(reason='unknown table `sales`.`nope`', hint="tables={'sales.nope': PATH}, or -t sales.nope=PATH")
    """
    said = message.removeprefix(f"[{condition}]").strip().rstrip(";")
    if condition == "NotAQuery":
        return NotUnderstood(f"not a query but {about}: only what reads tables says how they are read")
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        name = about.replace("`", "") or "NAME"
        return NotUnderstood(f"unknown table {about}", f"tables={{{name!r}: PATH}}, or -t {name}=PATH")
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND")):
        reason = f"unknown column {about}: {said}" if about else f"unknown column: {said}"
        return NotUnderstood(reason, "is the path that was given for its table the right one?")
    if condition.startswith("UNRESOLVED_ROUTINE"):
        return NotUnderstood(f"unknown function {about}", "register it in the session before the log is read")
    if condition.startswith("PARSE_"):
        return NotUnderstood(
            f"not parsable: {said}", "for another system's SQL: dialect='postgres', or --dialect postgres"
        )
    if condition == "StackOverflowError":
        return NotUnderstood("nested too deeply for Spark's analyzer")
    return NotUnderstood(f"not analyzable: {said or condition}")


def translate(sql: str, dialect: str) -> str | NotUnderstood:
    """A statement of the given dialect in Spark's, or why there is none.

    What sqlglot cannot translate faithfully it refuses: a statement that means something else would give features that
    no query of the log implies.
    """
    sqlglot = _sqlglot(dialect)
    try:
        statements = sqlglot.transpile(
            sql,
            read=dialect,
            write="spark",
            error_level=sqlglot.ErrorLevel.RAISE,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
        )
    except (sqlglot.errors.SqlglotError, RecursionError) as problem:
        return NotUnderstood(f"not translatable from {dialect}: {str(problem).splitlines()[0]}")
    if len(statements) != 1:
        return NotUnderstood(f"it is {len(statements)} statements of {dialect}, not one")
    return str(statements[0])


def _sqlglot(dialect: str) -> Any:
    try:
        sqlglot = import_module("sqlglot")
    except ImportError as problem:
        raise SidestepError(
            f"Statements in the dialect {dialect} are translated by sqlglot, which is not installed: "
            "pip install 'sidestep[dialects]'."
        ) from problem
    if dialect not in sqlglot.Dialect.classes:
        known = ", ".join(sorted(name for name in sqlglot.Dialect.classes if name))
        raise SidestepError(f"sqlglot knows no dialect {dialect!r}; it knows {known}.")
    return sqlglot
