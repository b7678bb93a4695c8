"""A sample of a table drawn by Spark: columns, units and the predicates of a workload, all in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from sidestep.advisor.layouts.sample import Codes, Sample, ranks, sample_of
from sidestep.layout.vectors import Bits, unpack
from sidestep.predicate import DataType
from sidestep.predicate.text import name_text
from sidestep.spark.organize.featurize import check_features, with_words
from sidestep.spark.organize.units import UNIT, with_units
from sidestep.store.parquet.writer import RESERVED
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.workload import Feature, FeatureSet, Item

SEED = 20_140_622
FILE_PATH = f"{RESERVED}file_path"
MOST_ROWS_FOR_WIDTH = 1_000


@dataclass(frozen=True, eq=False)
class Drawn:
    """A sample, and which of its rows satisfy each predicate of the workload."""

    sample: Sample
    satisfied: Mapping[int, Bits]
    """By position among the items asked for; those that mean something else in this session are not here."""
    file: Codes
    """The file that each row is in, numbered from 0; all 0 where that is not known."""
    widths: Mapping[str, float]
    """The mean number of bytes of each of the table's columns, in memory."""


def draw(
    rows: DataFrame,
    types: Mapping[str, DataType],
    items: Sequence[Item],
    *,
    total: int,
    spec: LayoutSpec,
    partition_columns: Sequence[str] = (),
    buckets: Mapping[str, str] | None = None,
    sample_rows: int = 200_000,
) -> Drawn:
    """About so many rows, the same ones each time; ``types`` names the columns, ``buckets`` expressions for some.

    Predicates are evaluated by Spark, opaque ones too, and only those that read back as what they say.
    """
    features = FeatureSet("sample", tuple(Feature((item.predicate,)) for item in items))
    checked = check_features(rows.sparkSession, features, rows.schema, warn=False)
    left_out = {one.feature for one in checked.left_out}
    used = [at for at, feature in enumerate(features.features) if feature not in left_out]
    located, _ = with_units(_with_files(rows), spec, partition_columns)
    fraction = min(1.0, sample_rows / max(1, total))
    chosen = located.sample(fraction=fraction, seed=SEED) if fraction < 1 else located
    unit = f.to_json(f.array(*(f.col(name_text(name)).cast("string") for name in (*partition_columns, UNIT))))
    asked = buckets or {}
    columns = [f.col(name_text(name)) for name in types]
    bucketed = [f.expr(text).cast("string").alias(f"{RESERVED}b{at}") for at, text in enumerate(asked.values())]
    words = [f.col(name) for name in checked.words]
    wanted = [*columns, *bucketed, unit.alias(UNIT), f.col(FILE_PATH), *words]
    table = with_words(chosen, checked).select(*wanted).toArrow()
    sample = sample_of(
        table.select(list(types)),
        types,
        total,
        unit=table[UNIT],
        buckets={name: table[f"{RESERVED}b{at}"] for at, name in enumerate(asked)},
    )
    vectors = np.empty((len(table), len(checked.words)), np.uint64)
    for number, name in enumerate(checked.words):
        vectors[:, number] = table[name].to_numpy().view(np.uint64)
    bits = unpack(vectors, len(used))
    return Drawn(
        sample,
        {item: np.ascontiguousarray(bits[:, at]) for at, item in enumerate(used)},
        ranks(table[FILE_PATH])[1].clip(0),
        _widths(rows),
    )


def _with_files(rows: DataFrame) -> DataFrame:
    try:
        return rows.withColumn(FILE_PATH, f.col("_metadata.file_path"))
    except AnalysisException:
        return rows.withColumn(FILE_PATH, f.lit(""))


def _widths(rows: DataFrame) -> dict[str, float]:
    few = rows.limit(MOST_ROWS_FOR_WIDTH).toArrow()
    return {name: few[name].get_total_buffer_size() / max(1, len(few)) for name in few.column_names}
