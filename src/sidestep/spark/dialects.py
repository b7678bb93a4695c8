"""Statements of other systems in Spark's words, through sqlglot, which is an optional dependency."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sidestep.errors import SidestepError


class NotTranspiled:
    """Why a statement could not be put into Spark's words."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def transpiled(sql: str, dialect: str) -> str | NotTranspiled:
    """A statement of the given dialect as Spark writes it, or why there is none.

    What sqlglot cannot translate faithfully it refuses: a statement that means something else would give features that
    no query of the log implies.
    """
    sqlglot = _sqlglot(dialect)
    try:
        found = sqlglot.transpile(
            sql,
            read=dialect,
            write="spark",
            error_level=sqlglot.ErrorLevel.RAISE,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
        )
    except (sqlglot.errors.SqlglotError, RecursionError) as problem:
        return NotTranspiled(f"not translatable from {dialect}: {str(problem).splitlines()[0]}")
    return str(found[0]) if len(found) == 1 else NotTranspiled(f"it is {len(found)} statements of {dialect}, not one")


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
