"""The values that an update sets, stored as Spark's own UPDATE would store them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from sidestep.errors import SidestepError
from sidestep.spark.append import plain, required


def assigned(rows: DataFrame, set: Mapping[str, str], schema: StructType, what: str) -> dict[str, Column]:
    """The new value of each column that is set, from an expression over the row; refused if one does not fit."""
    unknown = [name for name in set if name not in schema.names]
    if unknown:
        raise SidestepError(
            f"{what} has no column {', '.join(unknown)}; it has {', '.join(schema.names)}. Names are case-sensitive."
        )
    return {name: required(_stored(rows, text, schema[name], what), schema[name], what) for name, text in set.items()}


def _stored(rows: DataFrame, text: str, field: StructField, what: str) -> Column:
    try:
        analyzed = rows.select(f.expr(text).alias(field.name))
        given = analyzed.schema[0].dataType
        deterministic = analyzed._jdf.queryExecution().analyzed().deterministic()
    except AnalysisException as problem:
        said = str(problem).split(" SQLSTATE")[0].partition("\n")[0]
        raise SidestepError(f"{text!r} is not a value for column {field.name} of {what}: {said}") from problem
    if not deterministic:
        raise SidestepError(f"{text!r} may differ each time it is evaluated: a task that is run again would disagree.")
    if plain(given) == plain(field.dataType):
        return f.expr(text)
    jvm, session = rows.sparkSession.sparkContext._jvm, rows.sparkSession._jsparkSession
    assert jvm is not None
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    source, target = session.parseDataType(given.json()), session.parseDataType(field.dataType.json())
    if not catalyst.Cast.canANSIStoreAssign(source, target):
        raise SidestepError(
            f"{text!r} is {given.simpleString()}, and column {field.name} of {what} is "
            f"{field.dataType.simpleString()}: cast it."
        )
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # By ANSI's rules, whatever the session's: a value that does not fit is an error, not another value.
    cast = catalyst.Cast(
        bridge.expression(f.expr(text)._jc), target, jvm.scala.Option.empty(), catalyst.EvalMode.ANSI()
    )
    return Column(bridge.column(cast))
