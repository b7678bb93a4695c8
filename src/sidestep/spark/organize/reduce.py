"""Featurized rows reduced to distinct vectors per unit, and each unit's vectors partitioned, as tasks of Spark.

What the partitioner needs of a table is small (thesis, 3.4.3): for each unit the distinct feature vectors and how many
rows have each. Units know nothing of each other, so each is one call of the partitioner, wherever Spark runs it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StructField, StructType

from sidestep.layout import Words
from sidestep.layout.demand import Demand, Demands, group_leaves, group_rows
from sidestep.predicate.text import name_text
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.spark.organize.featurize import CheckedFeatures
from sidestep.spark.organize.units import LEAF, UNIT
from sidestep.store.parquet.writer import GROUP, RESERVED

LABEL, ROWS, BUCKET, RUN = (f"{RESERVED}{name}" for name in ("label", "rows", "bucket", "run"))
TASKS_PER_CORE = 4


def reduce_rows(
    featurized: DataFrame,
    keys: Mapping[str, str],
    checked: CheckedFeatures,
    demands: Demands | None,
    *,
    sliced: bool,
) -> DataFrame:
    """The distinct (unit, vector) pairs, each with its rows, its unit's label, and the bounds of its dates.

    ``keys`` maps the columns that tell pairs apart (partition columns, the unit, buckets, words) to the names that they
    get here: a table's own names may have dots in them, which Spark's Python functions do not take.
    """
    named = {key: f.col(name_text(key)) for key in keys}
    bounds = [
        end.alias(f"{RESERVED}{kind}{number}")
        for number, name in enumerate(demands.columns if demands else ())
        if name in featurized.columns
        for kind, end in zip(("least", "most"), _bounds(featurized, name), strict=True)
    ]
    grouped = featurized.groupBy(*(named[key].alias(name) for key, name in keys.items()))
    counts = grouped.agg(f.count(f.lit(1)).alias(ROWS), *bounds)
    labels = [key for key in keys if key not in checked.words and key != LEAF and not key.startswith(BUCKET)]
    texts = {key: f.col(keys[key]).cast("string") for key in labels}
    if sliced:
        # Slices of another run are other units, whatever their numbers.
        texts[UNIT] = f.concat(f.lit(f"slice-{uuid.uuid4().hex[:12]}-"), f.lpad(texts[UNIT], 6, "0"))
    return counts.withColumn(LABEL, f.to_json(f.array(*texts.values())))


def _bounds(rows: DataFrame, name: str) -> tuple[Column, Column]:
    """The least and greatest date or moment as a number; crossed where there is none."""
    column = f.col(name_text(name))
    dates = rows.schema[name].dataType.typeName() == "date"
    ends = [end if dates else end.cast("timestamp") for end in (f.min(column), f.max(column))]
    least, most = ((f.unix_date(end) if dates else f.unix_micros(end)).cast("bigint") for end in ends)
    return f.coalesce(least, f.lit(2**63 - 1)), f.coalesce(most, f.lit(-(2**63)))


def partition_units(
    pairs: DataFrame, keys: Mapping[str, str], checked: CheckedFeatures, demands: Demands | None, min_size: int
) -> pa.Table:
    """The pairs with the group of each within its unit, and the run of leaves that it is in, where there is a tree."""
    weights = [float(feature.weight) for feature in checked.features.features]
    wanted = demands or Demands(len(weights), _everywhere(weights))
    words = [keys[word] for word in checked.words]

    leaf = keys.get(LEAF)

    def work(unit: pa.Table) -> pa.Table:
        group, run = group_unit(unit, words, wanted, min_size, leaf)
        return _in_utc(unit).append_column(GROUP, pa.array(group)).append_column(RUN, pa.array(run))

    schema = StructType([*pairs.schema.fields, StructField(GROUP, IntegerType()), StructField(RUN, IntegerType())])
    context = pairs.sparkSession.sparkContext
    spread = pairs.repartition(context.defaultParallelism * TASKS_PER_CORE, LABEL)
    with same_interpreter(context):
        return spread.groupBy(LABEL).applyInArrow(work, schema).toArrow()


def _everywhere(weights: Sequence[float]) -> tuple[Demand, ...]:
    """Each feature with its weight in every unit, as the thesis has it."""
    return tuple(Demand((number,), (), weight) for number, weight in enumerate(weights))


def group_unit(
    unit: pa.Table, words: Sequence[str], demands: Demands, min_size: int, leaf: str | None = None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The group of each pair of one unit, and the run of leaves that the group is in, if a column has its leaf."""
    bounds = {
        name: (unit[f"{RESERVED}least{number}"].to_numpy(), unit[f"{RESERVED}most{number}"].to_numpy())
        for number, name in enumerate(demands.columns)
        if f"{RESERVED}least{number}" in unit.column_names
    }
    vectors, rows = word_matrix(unit, words), unit[ROWS].to_numpy()
    if leaf is None:
        return group_rows(vectors, rows, bounds, demands, min_size), np.zeros(len(unit), np.int32)
    return group_leaves(vectors, rows, unit[leaf].to_numpy(), bounds, demands, min_size)


def word_matrix(vectors: pa.Table, words: Sequence[str]) -> Words:
    """The feature vectors that are held in these columns."""
    matrix = np.empty((len(vectors), len(words)), np.uint64)
    for number, name in enumerate(words):
        matrix[:, number] = vectors[name].to_numpy().view(np.uint64)
    return matrix


def _in_utc(unit: pa.Table) -> pa.Table:
    """Instants in the zone in which Spark wants them back: it sends them in the session's."""
    for position, field in enumerate(unit.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            unit = unit.set_column(position, field.name, unit[field.name].cast(pa.timestamp("us", "UTC")))
    return unit
