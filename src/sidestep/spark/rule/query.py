"""``sidestep.query``: a statement of someone else's, which may read the tables that it is given and do nothing else.

The statement is parsed by Spark and looked at before anything of it is analyzed: the analyzer itself evaluates parts of
some plans. What is allowed is listed, both for operators and for what they read; whatever is not on the list is
refused, commands and scripts with it. What the analyzer makes of it is looked at once more, as names may come to mean
something else on the way.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from sidestep.errors import SidestepError
from sidestep.predicate.text import name_text
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.log.statements import Table
from sidestep.spark.relation import read

_BOTH = frozenset(
    [
        "Project",
        "Filter",
        "Aggregate",
        "Join",
        "LateralJoin",
        "Sort",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "Distinct",
        "SubqueryAlias",
        "Union",
        "Except",
        "Intersect",
        "OneRowRelation",
        "LocalRelation",
        "Window",
        "Generate",
        "Pivot",
        "Unpivot",
        "Sample",
        "Expand",
    ]
)
PARSED = _BOTH | frozenset(
    [
        "UnresolvedWith",
        "UnresolvedRelation",
        "UnresolvedInlineTable",
        "UnresolvedHaving",
        "WithWindowDefinition",
        "UnresolvedHint",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTableValuedFunction",
        "UnresolvedTVFAliases",
        "Values",
    ]
)
ANALYZED = _BOTH | frozenset(
    ["LogicalRelation", "WithCTE", "CTERelationDef", "CTERelationRef", "View", "Range", "ResolvedHint"]
)
TABLE_FUNCTIONS = frozenset(
    ["range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"]
)
REFUSED_FUNCTIONS = frozenset(["reflect", "java_method", "try_reflect", "from_protobuf", "to_protobuf"])
"""Those of Spark's own functions that call any Java method there is, or read files by name; and all of ``xpath``."""
MOST_PARTS = 20_000
_SPARK = "org.apache.spark.sql."


@dataclass(frozen=True, slots=True)
class PlanPart:
    """An operator or an expression of a plan."""

    operator: bool
    type: str
    """Its Java class."""
    names: tuple[str, ...]
    """What it names or reads, if it does."""

    @property
    def kind(self) -> str:
        """The class without its package."""
        return self.type.rpartition(".")[2]


@leaves_session_active
def query(spark: SparkSession, statement: str, *, tables: Mapping[str, Table] | None = None) -> DataFrame:
    """The rows of a query that reads nothing but these tables; any other statement is refused before it does anything.

    ``tables`` gives the path of each table by the name that the query may call it, and views of these names are made in
    the session. Refused are commands of every kind (``DROP``, ``INSERT``, ``SET``, …), tables of the catalog, files by
    their path, functions of the user's, and those of Spark's that reach outside the query.
    """
    bridge, session = Bridge(spark), spark._jsparkSession
    plan = _parsed(bridge, session, statement)
    names = frozenset(name.lower() for name in tables or ())
    parsed = _parts(bridge, plan)
    _check_parsed(bridge, parsed, names)
    asked = {part.names[0].lower() for part in parsed if part.kind == "UnresolvedRelation"}
    roots: set[str] = set()
    for name, table in (tables or {}).items():
        if name.lower() not in asked:
            continue
        if not isinstance(table, str | os.PathLike):
            raise SidestepError(f"The query needs the path of table {name}, not its schema.")
        frame = read(spark, table)
        roots.update(_roots(_parts(bridge, frame._jdf.queryExecution().analyzed())))
        frame.createOrReplaceTempView(name_text(name))
    dataset = bridge.jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan)
    _check_analyzed(_parts(bridge, dataset.queryExecution().analyzed()), roots)
    return DataFrame(dataset, spark)


def _parsed(bridge: Bridge, session: Any, statement: str) -> Any:
    try:
        return bridge.factory().parsed(session, statement)
    except Py4JJavaError as problem:  # what pyspark has no class for, as scripts in Spark 4.0
        raise SidestepError(f"Spark cannot take this statement: {problem.java_exception.getMessage()}") from problem


def _parts(bridge: Bridge, plan: Any) -> list[PlanPart]:
    text = bridge.new("PlanParts").of(plan, MOST_PARTS)
    if not text:
        raise SidestepError(f"The query has more than {MOST_PARTS:,} parts, too many to be looked at.")
    lines = (line.split("\t") for line in text.splitlines())
    return [PlanPart(what == "operator", kind, tuple(names)) for what, kind, *names in lines]


def _check_parsed(bridge: Bridge, parts: Sequence[PlanPart], names: frozenset[str]) -> None:
    aliases = {name.lower() for part in parts if part.kind == "UnresolvedWith" for name in part.names}
    catalyst = bridge.jvm.org.apache.spark.sql.catalyst
    functions = catalyst.analysis.FunctionRegistry.builtin()
    for part in parts:
        called = ".".join(part.names)
        first = part.names[0].lower() if len(part.names) == 1 else ""
        match part.kind:
            case "UnresolvedRelation" if first not in names | aliases:
                listed = ", ".join(sorted(names)) or "none"
                raise SidestepError(
                    f"There is no table {called} here, and nothing else can be read. Open tables: {listed}."
                )
            case "UnresolvedTableValuedFunction" if first not in TABLE_FUNCTIONS:
                raise SidestepError(f"The function {called} cannot be read from here.")
            case "UnresolvedFunction":
                known = first and functions.functionExists(catalyst.FunctionIdentifier(first))
                if not known or first in REFUSED_FUNCTIONS or first.startswith("xpath"):
                    raise SidestepError(
                        f"The function {called} cannot be used here: only functions of Spark's own can."
                    )
        if part.operator and part.kind not in PARSED:
            raise SidestepError(
                f"Only queries can be run here, which change nothing, and this has {_article(part.kind)}."
            )


def _check_analyzed(parts: Sequence[PlanPart], roots: Collection[str]) -> None:
    for part in parts:
        if part.kind == "LogicalRelation" and not (part.names and all(place in roots for place in part.names)):
            raise SidestepError("The query reads a table that was not opened.")
        if part.operator and part.kind not in ANALYZED:
            raise SidestepError(f"The query has {_article(part.kind)}, which cannot be run here.")
        if not part.type.startswith(_SPARK) or "Reflect" in part.kind:
            raise SidestepError(f"The query has {_article(part.kind)}, which cannot be used here.")


def _roots(parts: Sequence[PlanPart]) -> Iterator[str]:
    for part in parts:
        if part.kind == "LogicalRelation":
            yield from (place for place in part.names if place)


def _article(kind: str) -> str:
    """
    >>> _article("DropTable"), _article("InsertIntoStatement")
    ('a DropTable', 'an InsertIntoStatement')
    """
    return f"{'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
