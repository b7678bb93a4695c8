"""Expressions in SQL that sidestep is given as texts: what may stand in them, and of which moment they speak.

There are two kinds, by who wrote them.

**Texts from disk** (a layout's units and buckets, the features of a set) were written by whoever wrote the table's
folder, and are evaluated in the session of whoever appends to it or optimizes it. A text that could name anything would
read that user's own views and call that user's own functions, and what it read would be written into the table. So such
a text is an expression over the table's own columns, in operators and built-in functions that always give the same
result: :func:`check_stored` refuses everything else by name. What is known to be safe is allowed, not what is known to
be unsafe refused: kinds of nodes, and groups of functions. A text is looked at twice, parsed before any name in it is
looked up, and analyzed before anything in it is computed.

Features may call Python functions of the session as well: queries do, and they are to skip by them. That is no way
around, because a feature is used only if the function's *code* is the very one that the feature was made with
(:mod:`sidestep.spark.organize.featurize`), and only code has such an identity that is known to do nothing but compute,
or that its author has declared stable.

**Texts of the user's own** (what to delete, what to set) may call what the user may call. They are evaluated more than
once, though: to find the files, and to write them anew. So :func:`settle` gives them one answer: functions of the
current time become the constants that they are at this moment, and subqueries, whose tables may change between two
evaluations, are refused unless the caller sees to it that there is one evaluation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from sidestep.errors import SidestepError
from sidestep.spark.jvm.bridge import Bridge


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NODES = _names(
    """
    Literal UnresolvedAttribute UnresolvedFunction UnresolvedExtractValue LambdaFunction UnresolvedNamedLambdaVariable
    And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In IsNull IsNotNull
    Like ILike RLike LikeAll LikeAny NotLikeAll NotLikeAny
    Add Subtract Multiply Divide IntegralDivide Remainder UnaryMinus UnaryPositive
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight ShiftRightUnsigned
    Cast CaseWhen If Concat Substring StringTrim StringTrimLeft StringTrimRight StringLocate Overlay
    CreateNamedStruct NamePlaceholder Collate UnresolvedCollation TimestampAdd TimestampDiff
    """
)
"""What Spark's parser makes of operators, columns and constants."""
_GROUPS = _names(
    """
    array_funcs bitwise_funcs collection_funcs conditional_funcs conversion_funcs csv_funcs datetime_funcs hash_funcs
    json_funcs lambda_funcs map_funcs math_funcs predicate_funcs string_funcs struct_funcs url_funcs variant_funcs
    """
)
"""Built-in functions of one row. Left out are aggregates, windows, generators, and what looks beyond the row: the
session, the file, the machine, classes of the JVM (misc), documents that name others (protobuf, xml)."""
_MOMENTS = _names("current_date curdate current_timestamp now localtimestamp current_time localtime unix_timestamp")
"""Functions of the current time; the last only without arguments."""
_BARE_MOMENTS = _names("current_date current_timestamp localtimestamp current_time localtime")
"""Those that are also called without parentheses."""
_RANDOM = _names("rand randn random uniform randstr shuffle uuid")
_OF_SESSION = _names("current_timezone")
_SUBQUERIES = _names(
    "ScalarSubquery ListQuery InSubquery Exists LateralSubquery FunctionTableSubqueryArgumentExpression"
)
# A backslash may spell a word so that it is not seen.
_CLOCK_LITERAL = re.compile(r"(date|timestamp(_ltz|_ntz)?)\s*r?['\"].*(now|today|tomorrow|yesterday|\\).*", re.DOTALL)
_WHAT = {
    "WindowExpression": "a window",
    "UnresolvedWindowExpression": "a window",
    "ExpressionWithUnresolvedIdentifier": "an IDENTIFIER clause",
    "NamedParameter": "a parameter",
    "PosParameter": "a parameter",
    "UnresolvedStar": "a star",
    "UnresolvedRegex": "a pattern of columns",
    "Alias": "an alias",
    "MultiAlias": "an alias",
    "NamedArgumentExpression": "an argument by name",
    **dict.fromkeys(_SUBQUERIES, "a subquery"),
}


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a parsed expression, as ``ExpressionReader.java`` says it."""

    kind: str
    start: int
    stop: int
    name: tuple[str, ...]
    arguments: int
    declared: bool
    source: str
    group: str
    modified: bool

    @classmethod
    def of(cls, fact: Sequence[Any]) -> _Node:
        kind, start, stop, name, *rest = fact
        return cls(kind.removesuffix("$"), start, stop, tuple(name or ()), *rest)

    @property
    def called(self) -> str:
        return ".".join(self.name)

    def is_moment(self, columns: Collection[str]) -> bool:
        """Whether it stands for the current time."""
        match self.kind:
            case "UnresolvedFunction":
                name = self.name[-1].lower()
                return name in _MOMENTS and (name != "unix_timestamp" or not self.arguments)
            case "UnresolvedAttribute" | "UnresolvedNamedLambdaVariable":
                name = self.called.lower()
                return name in _BARE_MOMENTS and not self.declared and name not in columns
            case "CurrentDate" | "CurrentTimestamp" | "Now" | "LocalTimestamp" | "CurrentTime":
                return True
        return False

    def is_clock_literal(self, text: str) -> bool:
        """Whether it is a constant such as TIMESTAMP 'now', which the parser replaces by the time."""
        written = text[self.start : self.stop + 1].lower()
        return self.kind == "Literal" and _CLOCK_LITERAL.fullmatch(written) is not None


def _parsed(spark: SparkSession, text: str) -> list[_Node]:
    facts = Bridge(spark).new("ExpressionReader").parsed(spark._jsparkSession, text)
    return [_Node.of(fact) for fact in json.loads(facts)]


def objection(
    spark: SparkSession, text: str, columns: Collection[str], *, python_functions: bool = False
) -> str | None:
    """What a text from disk has that it must not have, found before any name in it is looked up; None if nothing.

    ``columns`` are the table's. With ``python_functions`` it may call those of the session.
    """
    try:
        nodes = _parsed(spark, text)
    except ParseException as problem:
        return f"it cannot be parsed ({_first_line(problem)})"
    names = {name.lower() for name in columns}
    return next((reason for node in nodes if (reason := _refusal(node, text, names, python_functions))), None)


def _refusal(node: _Node, text: str, columns: Collection[str], python_functions: bool) -> str | None:
    if node.is_moment(columns) or node.is_clock_literal(text):
        return f"it has {text[node.start : node.stop + 1]}, which depends on the time"
    if node.kind not in _NODES:
        return f"it has {_WHAT.get(node.kind, node.kind)}"
    match node.kind:
        case "UnresolvedAttribute" | "UnresolvedNamedLambdaVariable":
            known = node.declared or node.name[0].lower() in columns
            return None if known else f"it names {node.called}, which is no column of the table"
        case "UnresolvedFunction":
            return _function_refusal(node, python_functions)
    return None


def _function_refusal(node: _Node, python_functions: bool) -> str | None:
    name = node.called
    if node.source == "builtin":
        if node.name[-1].lower() in _RANDOM:
            return f"it calls {name}, which may differ each time"
        if node.modified or node.group not in _GROUPS or node.name[-1].lower() in _OF_SESSION:
            return f"it calls {name}, which is not a function of one row alone"
        return None
    if node.source == "shadow":
        return f"it calls {name}, and this session has a function of its own by that name"
    if python_functions and node.source == "python_udf" and not node.modified:
        return None
    return f"it calls {name}, which is no built-in function"


def check_stored(rows: DataFrame, text: str, what: str) -> DataType:
    """The type of a text from disk as an expression over the rows; SidestepError if it is more than that.

    ``what`` is how an error begins: where the text comes from.
    """
    spark = rows.sparkSession
    reason = objection(spark, text, rows.columns)
    if reason is not None:
        raise _refused(what, text, reason)
    try:
        analyzed = rows.select(f.expr(text).alias("value"))
        facts = Bridge(spark).new("ExpressionReader").analyzed(analyzed._jdf.queryExecution().analyzed())
    except AnalysisException as problem:
        raise SidestepError(
            f"{what}{text!r} is not an expression over this table's columns: {_first_line(problem)}"
        ) from problem
    relation = Bridge(spark).new("ExpressionReader").analyzed(rows._jdf.queryExecution().analyzed())
    for reason in _analyzed_refusals(json.loads(facts)[: -len(json.loads(relation)) or None]):
        raise _refused(what, text, reason)
    return analyzed.schema[0].dataType


def _analyzed_refusals(facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What names came to mean that may not be in a text from disk."""
    for kind, name in facts:
        match kind:
            case "operator" if name != "Project":
                yield f"it takes more than one row to compute ({name})"
            case "plan":
                yield "it has a subquery"
            case "python" | "user":
                yield f"it calls {name}, which is no built-in function"
            case "random":
                yield f"it has {name}, which may differ each time it is evaluated"
            case "moment":
                yield "it has a word such as 'now', which depends on the time"
            case _ if name == "VariableReference":
                yield "it names a variable of this session"


def _refused(what: str, text: str, reason: str) -> SidestepError:
    return SidestepError(
        f"{what}{text!r} is refused: it is not an expression over this table's columns alone, as {reason}. What a "
        "layout keeps on disk may only use those and built-in functions that always give the same result."
    )


def has_subquery(spark: SparkSession, text: str) -> bool:
    """Whether a text of the user's reads other tables; False if it cannot be parsed."""
    try:
        return any(node.kind in _SUBQUERIES for node in _parsed(spark, text))
    except ParseException:
        return False


def settle(spark: SparkSession, texts: Sequence[str], schema: StructType, *, subqueries: bool = False) -> list[str]:
    """The texts of one statement of the user's with one answer, however often they are evaluated.

    What stands for the current time becomes a constant, the same moment in all of them; within a subquery it is left,
    as is the subquery where ``subqueries`` says that each text is evaluated once. Else a subquery is refused.
    """
    columns = {name.lower() for name in schema.names}
    spans: list[list[tuple[int, int]]] = []
    for text in texts:
        try:
            nodes = _parsed(spark, text)
        except ParseException:
            spans.append([])  # whoever evaluates it says what is wrong
            continue
        for node in nodes:
            _refuse_changeable(node, text, subqueries)
        places = [(node.start, node.stop + 1) for node in nodes if node.is_moment(columns)]
        if not all(any(name in text[start:stop].lower() for name in _MOMENTS) for start, stop in places):
            raise SidestepError(
                f"{text!r} depends on the time, and it cannot be told where: give the time as a constant."
            )
        spans.append(places)
    wanted = {text[start:stop] for text, places in zip(texts, spans, strict=True) for start, stop in places}
    values = _constants(spark, sorted(wanted))
    return [_replaced(text, places, values) for text, places in zip(texts, spans, strict=True)]


def _refuse_changeable(node: _Node, text: str, subqueries: bool) -> None:
    if node.kind in _SUBQUERIES and not subqueries:
        raise SidestepError(
            f"{text!r} has a subquery: it would be evaluated more than once, and what it reads may change in between. "
            "Run it first, and put its result into the text, as a constant or a list (x IN (1, 2, 3)); in a MERGE, "
            "join it to the source."
        )
    if node.is_clock_literal(text):
        written = text[node.start : node.stop + 1]
        raise SidestepError(
            f"{text!r} has {written}, which is another time whenever it is read: write current_date() or "
            "current_timestamp(), of which one moment is taken for the whole statement."
        )


def refuse_clock_words(rows: DataFrame, text: str) -> None:
    """Refuse an expression of the user's in which a word such as 'now' becomes a time: when, is not to be told."""
    plan = rows._jdf.queryExecution().analyzed()
    facts = json.loads(Bridge(rows.sparkSession).new("ExpressionReader").analyzed(plan))
    if any(kind == "moment" for kind, _ in facts):
        raise SidestepError(
            f"{text!r} takes a word such as 'now' for a time, which is another whenever it is read: write "
            "current_date() or current_timestamp(), of which one moment is taken for the whole statement."
        )


def _replaced(text: str, places: Sequence[tuple[int, int]], values: dict[str, str]) -> str:
    for start, stop in sorted(places, reverse=True):
        text = text[:start] + values[text[start:stop]] + text[stop:]
    return text


def _constants(spark: SparkSession, calls: Sequence[str]) -> dict[str, str]:
    """Each call as the constant that it is now; one query, so that it is one moment."""
    if not calls:
        return {}
    try:
        types = spark.range(1).select(*(f.expr(call).alias(f"c{at}") for at, call in enumerate(calls))).schema
        spelled = [_spelling(call, field.dataType) for call, field in zip(calls, types.fields, strict=True)]
        row = spark.range(1).select(*(f.expr(asked) for asked, _ in spelled)).collect()[0]
    except AnalysisException as problem:
        raise SidestepError(f"{', '.join(calls)} cannot be evaluated here: {_first_line(problem)}") from problem
    return {call: text.format(row[at]) for at, (call, (_, text)) in enumerate(zip(calls, spelled, strict=True))}


def _spelling(call: str, type: DataType) -> tuple[str, str]:
    """What to ask for the value of a call, and the constant that the answer is to be put into."""
    match type.typeName():
        case "date":
            return f"unix_date({call})", "DATE_FROM_UNIX_DATE({})"
        case "timestamp":
            return f"unix_micros({call})", "TIMESTAMP_MICROS({}L)"
        case "timestamp_ntz":
            return f"CAST({call} AS string)", "CAST('{}' AS timestamp_ntz)"
        case "long":
            return call, "{}L"
        case "time":
            return f"CAST({call} AS string)", f"CAST('{{}}' AS {type.simpleString()})"
    raise SidestepError(f"{call} is {type.simpleString()} here, not a time: it cannot be settled for one moment.")


def _first_line(problem: Exception) -> str:
    return str(problem).strip().split(" SQLSTATE")[0].partition("\n")[0]
