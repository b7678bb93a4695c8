"""Units: the parts of a table that are laid out one by one, told apart by an expression or cut as slices."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from sidestep.errors import SidestepError
from sidestep.spark.slices import with_slices
from sidestep.store.parquet.writer import RESERVED
from sidestep.store.sidecars.layout import LayoutSpec

UNIT = f"{RESERVED}unit"


def with_units(rows: DataFrame, spec: LayoutSpec, partition_columns: Sequence[str]) -> tuple[DataFrame, int | None]:
    """The rows with the unit of each, and how many they are if that had to be found out."""
    if spec.by is None:
        return with_slices(rows, UNIT, spec.unit_rows, partition_columns)
    return rows.withColumn(UNIT, unit_expression(rows, spec.by)), None


def unit_expression(rows: DataFrame, by: str) -> Column:
    """The expression that tells units apart, refused if it is none."""
    try:
        unit = f.expr(by)
        kind = rows.select(unit.alias(UNIT))
        deterministic = kind._jdf.queryExecution().analyzed().deterministic()
        type_name = kind.schema[0].dataType.typeName()
    except AnalysisException as problem:
        said = str(problem).split(" SQLSTATE")[0].partition("\n")[0]
        raise SidestepError(f"by={by!r} is not an expression over this table's columns: {said}") from problem
    if not deterministic:
        raise SidestepError(f"by={by!r} may differ each time it is evaluated: a row must stay in its unit.")
    if type_name in ("array", "map", "struct", "variant", "calendarinterval"):
        raise SidestepError(f"by={by!r} is a {type_name}: units are told apart by a single value, such as a month.")
    return unit
