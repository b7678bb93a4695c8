"""Features as Spark computes them: each row's feature vector, in words, in one pass.

**A feature is used only if it means here what it meant in the log.** A union vector says "no row of this block makes F
true", and a later query trusts that if its filter implies F. The words are computed from a *text*, though, and a text
can mean something else in this session: another time zone or ANSI mode, a function of the same name with other code, a
column of another type. So each text is read back the way queries are read (analyzed and optimized by Catalyst, written
by PlanWriter, read by plan_reader), and the feature is used only if what comes back is equivalent to it. What is not,
or does not compile at all, is left out with a warning that says why.

Where a feature is NULL for a row, or raises an error, its bit is 0. That is sound: a query whose filter is TRUE for the
row would, as it implies the feature, have found the feature TRUE. See the thesis, 3.4.2, for the feature vectors.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from sidestep.errors import SidestepWarning
from sidestep.layout.vectors import WORD
from sidestep.predicate import (
    And,
    Cast,
    Column,
    Comparison,
    DataType,
    In,
    IsNull,
    Kind,
    Literal,
    Match,
    MatchKind,
    Not,
    Opaque,
    Or,
    Predicate,
    all_of,
    implies,
    normalize,
)
from sidestep.predicate.formula import unidentified
from sidestep.predicate.text import literal_text, name_text
from sidestep.spark.expressions import objection
from sidestep.spark.log.statements import analyze_statements
from sidestep.store.parquet.writer import word_names
from sidestep.workload.features.feature_set import Feature, FeatureSet
from sidestep.workload.query import Statement

VIEW = "sidestep_features"
MOST_TOGETHER, MOST_COMPILED = 48, 1_000
"""So many features are compiled together with the rest of their stage, and so many in pieces of their own: the code of
more is longer than Java compiles well, or at all."""
_FUNCTIONS = {MatchKind.PREFIX: "startswith", MatchKind.SUFFIX: "endswith", MatchKind.CONTAINS: "contains"}
_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A feature that could not be used, and why."""

    feature: Feature
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedFeatures:
    """The features of a set that mean in this session what they say, each with its text in Spark's SQL."""

    features: FeatureSet
    """Those that are used: the order of the bits."""
    sql: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the columns that hold a row's feature vector."""
        return word_names(len(self.features))


def no_features(table: str) -> CheckedFeatures:
    """The empty set: rows are told apart by unit and order alone."""
    return CheckedFeatures(FeatureSet(table, ()), ())


def check_features(
    spark: SparkSession, features: FeatureSet, schema: StructType, *, warn: bool = True
) -> CheckedFeatures:
    """Those of the features that mean in this session, on a table of this schema, what they say."""
    (checked,) = check_feature_sets(spark, [features], schema)
    if warn:
        warn_of(checked.left_out)
    return checked


def check_feature_sets(spark: SparkSession, sets: Sequence[FeatureSet], schema: StructType) -> list[CheckedFeatures]:
    """The same of several sets, which have many features in common: each is read back once. Nobody is warned."""
    distinct = list(dict.fromkeys(feature for one in sets for feature in one.features))
    known = dict(zip(distinct, _check_each(spark, distinct, schema), strict=True))
    checked = []
    for one in sets:
        outcomes = [(feature, known[feature]) for feature in one.features]
        used = [(feature, text) for feature, text in outcomes if isinstance(text, str)]
        left_out = tuple(outcome for _, outcome in outcomes if isinstance(outcome, LeftOut))
        kept = replace(one, features=tuple(feature for feature, _ in used)) if left_out else one
        checked.append(CheckedFeatures(kept, tuple(text for _, text in used), left_out))
    return checked


def warn_of(left_out: Iterable[LeftOut]) -> None:
    """Say which features are not used, each once."""
    for one in dict.fromkeys(left_out):
        warnings.warn(f"The feature {one.feature} is left out: {one.reason}.", SidestepWarning, stacklevel=4)


def _check_each(spark: SparkSession, features: Sequence[Feature], schema: StructType) -> list[str | LeftOut]:
    """For each feature its text, or why it can't be used."""
    texts = [_text(feature) for feature in features]
    # Before Catalyst sees them: it looks names up and folds constants, and the texts may be a stranger's.
    refused = [None if text is None else objection(spark, text, schema.names, python_functions=True) for text in texts]
    safe = [
        text if text is not None and reason is None else "FALSE" for text, reason in zip(texts, refused, strict=True)
    ]
    meanings = read_back(spark, safe, schema) if safe else []
    outcomes: list[str | LeftOut] = []
    for feature, text, reason, meaning in zip(features, texts, refused, meanings, strict=True):
        if text is None:
            reason = "it has a value that SQL cannot spell"
        elif reason is None:
            reason = _objection(feature, meaning)
        outcomes.append(text if reason is None and text is not None else LeftOut(feature, reason or ""))
    return outcomes


def _text(feature: Feature) -> str | None:
    try:
        return feature_sql(feature.predicate)
    except (ValueError, UnicodeEncodeError):
        return None


def _objection(feature: Feature, meaning: Sequence[Predicate] | str) -> str | None:
    """Why what was read back is not the feature; None if it is."""
    if isinstance(meaning, str):
        return f"it does not compile here ({meaning})"
    here = all_of(normalize(predicate) for predicate in meaning)
    if not feature_is_deterministic(feature):
        # A feature is stored without the reason; what was read just now has it.
        why = next(
            (f": {opaque.reason}" for opaque in unidentified(here) if opaque.deterministic and opaque.reason), ""
        )
        return f"its value may differ from one evaluation to the next{why}"
    if implies(feature.formula, here) and implies(here, feature.formula):
        return None
    return "in this session it means something else (a function's code, a setting of Spark's, or a column's type)"


def feature_is_deterministic(feature: Feature) -> bool:
    """Whether every opaque part of it is known by its identity."""
    pending: list[Predicate] = list(feature.predicates)
    while pending:
        match pending.pop():
            case And(children=children) | Or(children=children):
                pending.extend(children)
            case Not(child=child):
                pending.append(child)
            case Opaque() as opaque if not opaque.identified:
                return False
    return True


def read_back(spark: SparkSession, conditions: Sequence[str], schema: StructType) -> list[tuple[Predicate, ...] | str]:
    """What each condition says here of a table of this schema, read as queries are read; or why it says nothing."""
    # A copy of the session in which Catalyst infers nothing: an inferred IS NOT NULL would look like a stricter filter.
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    copy.conf.set("spark.sql.constraintPropagation.enabled", "false")
    statements = [Statement(f"SELECT 1 FROM {VIEW} WHERE {condition}") for condition in conditions]
    meanings: dict[str, tuple[Predicate, ...] | str] = {}
    workload = analyze_statements(copy, statements, {VIEW: schema})
    for failure in workload.failures:
        meanings[failure.statement.sql] = failure.reason
    for query in workload.queries:
        folded = "Catalyst folds it to a constant"
        meanings[query.sql] = tuple(query.uses[0].predicates) if len(query.uses) == 1 else folded
    return [meanings[statement.sql] for statement in statements]


def with_words(rows: DataFrame, checked: CheckedFeatures) -> DataFrame:
    """The rows with their feature vectors: bit ``j % 64`` of word ``j // 64`` says whether feature j is TRUE."""
    spark = rows.sparkSession
    conditions = [
        f.expr(text) if never_fails(feature.predicate) else _try_eval(spark, f.expr(text))
        for feature, text in zip(checked.features.features, checked.sql, strict=True)
    ]
    words = {}
    for number, name in enumerate(checked.words):
        bits = [
            f.when(condition, f.lit(word_bit(position))).otherwise(f.lit(0).cast("bigint"))
            for position, condition in enumerate(conditions[number * WORD : (number + 1) * WORD])
        ]
        words[name] = _or_bits(bits)
    if len(conditions) > MOST_COMPILED:
        try:
            return rows.withColumns({name: interpreted(word) for name, word in words.items()})
        except AnalysisException:
            pass  # a function of Python's can only be compiled
    if len(conditions) > MOST_TOGETHER:
        words = {name: _compiled_apart(word) for name, word in words.items()}
    return rows.withColumns(words) if words else rows


def word_bit(position: int) -> int:
    """The word with one bit set, as the signed integer that Spark has for it."""
    return 1 << position if position < WORD - 1 else -(1 << position)


def _or_bits(bits: list[SparkColumn]) -> SparkColumn:
    while len(bits) > 1:
        pairs = [bits[at].bitwiseOR(bits[at + 1]) for at in range(0, len(bits) - 1, 2)]
        bits = pairs + ([bits[-1]] if len(bits) % 2 else [])
    return bits[0]


def interpreted(expression: SparkColumn) -> SparkColumn:
    """An expression that Spark does not compile: of thousands of conditions it could not, and says so at length."""
    # Of the functions that take a function, zip_with is one that Spark always interprets.
    one = f.array(f.lit(0))
    return f.get(f.zip_with(one, one, lambda left, right: expression), f.lit(0))


def _compiled_apart(word: SparkColumn) -> SparkColumn:
    """A word that Spark compiles by itself, as many short methods, and not as one with all else of its stage.

    Java interprets methods that are too long. Next to something that Spark interprets, nothing is compiled into the
    stage; two to seven times as fast as :func:`interpreted` for 100 to 1,000 features.
    """
    return word.bitwiseOR(interpreted(f.lit(0).cast("bigint")))


def never_fails(predicate: Predicate) -> bool:
    """Whether no row makes the predicate raise an error: it compares columns with each other and with constants."""
    match predicate:
        case And(children=children) | Or(children=children):
            return all(map(never_fails, children))
        case Not(child=child):
            return never_fails(child)
        case Comparison(left=left, right=right):
            return not isinstance(left, Cast) and not isinstance(right, Cast)
        case In(operand=operand) | IsNull(operand=operand):
            return not isinstance(operand, Cast)
        case Match() | Column() | Literal():
            return True
    return False


def _try_eval(spark: SparkSession, condition: SparkColumn) -> SparkColumn:
    """The condition, NULL where it raises an error: rows that no query of the log ever showed it may do that."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(bridge.expression(condition._jc))
    return SparkColumn(bridge.column(tried))


def feature_sql(predicate: Predicate) -> str:
    """A predicate as a condition that Spark parses to the very same one: every constant with its type, nothing cut.

    >>> from sidestep.predicate import FLOAT, column, compare
    >>> feature_sql(compare(column("x y", FLOAT), "<", 0.5))
    "(`x y` < CAST('0.5' AS float))"
    """
    match predicate:
        case And(children=children) | Or(children=children):
            word = " AND " if isinstance(predicate, And) else " OR "
            return f"({word.join(map(feature_sql, children))})" if children else str(isinstance(predicate, And))
        case Not(child=child):
            return f"(NOT {feature_sql(child)})"
        case Comparison(op=op, left=left, right=right):
            return f"({_operand(left)} {op.value} {_operand(right)})"
        case In(operand=operand, values=values):
            return f"({_operand(operand)} IN ({', '.join(map(_literal, values))}))"
        case Match(kind=MatchKind.LIKE, column=column, text=text, escape=escape):
            escaping = "" if escape == "\\" else f" ESCAPE '{escape}'"
            return f"({name_text(column.name)} LIKE {_string(text)}{escaping})"
        case Match(kind=kind, column=column, text=text):
            return f"{_FUNCTIONS[kind]}({name_text(column.name)}, {_string(text)})"
        case IsNull(operand=operand):
            return f"({_operand(operand)} IS NULL)"
        case Opaque(text=text):
            return f"({text})"
        case Column() | Literal():
            return _operand(predicate)
    raise ValueError(f"{predicate!r} is not a predicate.")


def _operand(operand: Column | Cast | Literal) -> str:
    match operand:
        case Column(name=name):
            return name_text(name)
        case Cast(column=column, type=type):
            return f"CAST({name_text(column.name)} AS {type})"
    return _literal(operand)


def _literal(literal: Literal) -> str:
    value, type = literal.value, literal.type
    if value is None:
        return f"CAST(NULL AS {_type(type)})"
    match type.kind:
        case Kind.BOOLEAN | Kind.BINARY | Kind.TIMESTAMP_NTZ | Kind.TIME | Kind.YEAR_MONTH | Kind.DAY_TIME:
            return literal_text(value, type)
        case Kind.STRING:
            return _string(str(value))
        case Kind.DATE:
            return f"DATE_FROM_UNIX_DATE({value!r})"
        case Kind.TIMESTAMP:
            return f"TIMESTAMP_MICROS(CAST('{value!r}' AS bigint))"
        case Kind.FLOAT | Kind.DOUBLE:
            # Python's inf and nan, in words that Spark casts.
            text = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
            return f"CAST('{text}' AS {type})"
        case Kind.DECIMAL if isinstance(value, Decimal):
            return f"CAST('{value:f}' AS {type})"
    return f"CAST('{value!r}' AS {_type(type)})"


def _type(type: DataType) -> str:
    if not type.ordered:
        raise ValueError(f"There is no way to write a {type}.")
    return str(type)


def _string(text: str) -> str:
    # How quotes and backslashes are escaped is a setting of Spark; hexadecimal digits are not.
    return f"'{text}'" if _PLAIN.fullmatch(text) else f"CAST(X'{text.encode().hex()}' AS string)"
