"""Units: the parts of a table that are laid out one by one.

An expression tells them apart, such as the month of a date; without one they are slices of the table in its natural
order, a few million rows each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sidestep.errors import SidestepError
from sidestep.layout.tree import Cut
from sidestep.layout.vectors import WORD
from sidestep.predicate.text import name_text
from sidestep.spark.expressions import check_stored
from sidestep.spark.organize.featurize import CheckedFeatures, feature_sql, interpreted, word_bit
from sidestep.store.parquet.writer import RESERVED, word_name
from sidestep.store.sidecars.layout import LayoutSpec

UNIT, LEAF = (f"{RESERVED}{name}" for name in ("unit", "leaf"))


def with_units(rows: DataFrame, spec: LayoutSpec, partition_columns: Sequence[str]) -> tuple[DataFrame, int | None]:
    """The rows with the unit of each, and how many rows there are where that had to be counted.

    Where the layout has a tree, rows have their leaf already.
    """
    if spec.by is None and spec.tree is not None:
        return rows.withColumn(UNIT, _unit_of_leaf(spec)), None
    if spec.by is None:
        return with_slices(rows, UNIT, spec.unit_rows, partition_columns)
    return rows.withColumn(UNIT, unit_expression(rows, spec)), None


def with_leaves(rows: DataFrame, spec: LayoutSpec, checked: CheckedFeatures) -> DataFrame:
    """The rows with the leaf of each, if the layout has a tree. They have their feature vectors already."""
    if spec.tree is None:
        return rows
    for name in spec.tree.columns:
        if name not in rows.columns:
            raise SidestepError(
                f"The layout {spec.source} tells rows apart by {name}, which is no column of the table: load it again."
            )
    tree = spec.tree if spec.demands_of == checked.features.id else spec.tree.renumber({})
    if tree is None:
        return rows.withColumn(LEAF, f.lit(0))
    return rows.withColumn(LEAF, interpreted(_leaf(tree, 0)))


def _leaf(tree: Cut, first: int) -> Column:
    """The number of the leaf that a tree gives a row, its first being ``first``."""
    sides, number = [], first
    for side in (tree.no, tree.yes):
        sides.append(f.lit(number) if side is None else _leaf(side, number))
        number += 1 if side is None else side.leaves
    if isinstance(tree.test, int):
        word, bit = f.col(word_name(tree.test // WORD)), f.lit(word_bit(tree.test % WORD))
        return f.when(word.bitwiseAND(bit) != f.lit(0), sides[1]).otherwise(sides[0])
    return f.when(f.expr(feature_sql(tree.test)), sides[1]).otherwise(sides[0])


def _unit_of_leaf(spec: LayoutSpec) -> Column:
    """The unit of a leaf: a text that no other tree has."""
    assert spec.tree is not None
    number = f.lit(0)
    for at, start in enumerate(spec.tree_units[1:], 1):
        number = f.when(f.col(LEAF) >= start, f.lit(at)).otherwise(number)
    return f.concat(f.lit(f"tree-{spec.tree.id}-"), f.lpad(number.cast("string"), 6, "0"))


def unit_expression(rows: DataFrame, spec: LayoutSpec) -> Column:
    """The expression that tells units apart, refused if it is none: it is kept on disk, so it may come from anyone."""
    assert spec.by is not None
    kind = check_stored(rows, spec.by, f"The layout {spec.source} has units by " if spec.source else "by=").typeName()
    if kind in ("array", "map", "struct", "variant", "calendarinterval"):
        raise SidestepError(f"by={spec.by!r} is a {kind}: units are told apart by a single value, such as a month.")
    return f.expr(spec.by)


def bucket_expressions(rows: DataFrame, spec: LayoutSpec) -> list[Column]:
    """The expressions that tell rows of a unit apart further."""
    for text in spec.buckets:
        check_stored(rows, text, f"The layout {spec.source} has a bucket " if spec.source else "The bucket ")
    return [f.expr(text) for text in spec.buckets]


def check_order(rows: DataFrame, spec: LayoutSpec) -> None:
    """Refuse a layout that orders rows by what is no column."""
    for name in spec.order:
        if name not in rows.columns:
            raise SidestepError(
                f"The layout {spec.source} orders rows by {name}, which is no column of the table: load it again, "
                "with another order."
            )


UNHASHED = frozenset({"map", "variant"})
"""Types that Spark has no hash of."""
PATH, INDEX, OFFSET, EACH = (f"{RESERVED}{name}" for name in ("path", "index", "offset", "each"))


def with_slices(rows: DataFrame, unit: str, unit_rows: int, partition_columns: Sequence[str]) -> tuple[DataFrame, int]:
    """The rows with the number of the slice that each is in, and how many rows there are.

    The order is that of files by path, and of rows within a file: rows that came together often belong together.
    Slices lie within partitions and are of even size.
    """
    try:
        placed = rows.select("*", f.col("_metadata.file_path").alias(PATH), f.col("_metadata.row_index").alias(INDEX))
    except AnalysisException:
        # Rows that do not come from files have no order: they are dealt out by what they hold.
        total = rows.count()
        hashed = [name_text(field.name) for field in rows.schema.fields if field.dataType.typeName() not in UNHASHED]
        dealt = f.pmod(f.xxhash64(*hashed), f.lit(slice_count(total, unit_rows))).cast("bigint")
        return rows.withColumn(unit, dealt), total
    named = [f.col(name_text(name)) for name in partition_columns]
    files = placed.groupBy(*named, PATH).agg(f.count(f.lit(1)).alias("rows")).orderBy(*named, PATH).toArrow()
    counts = files["rows"].to_numpy()
    total = int(counts.sum())
    partitions = [files[name] for name in partition_columns]
    offsets, each = _offsets(counts, partitions, unit_rows)
    if len(counts) == 0 or (not partition_columns and total <= each[0]):
        return rows.withColumn(unit, f.lit(0).cast("bigint")), total
    known = pa.table({PATH: files[PATH], OFFSET: offsets, EACH: each}).rename_columns([f"{PATH}_", OFFSET, EACH])
    schema = StructType(
        [StructField(f"{PATH}_", StringType()), StructField(OFFSET, LongType()), StructField(EACH, LongType())]
    )
    table = f.broadcast(rows.sparkSession.createDataFrame(known, schema))
    joined = placed.join(table, f.col(PATH) == f.col(f"{PATH}_"), "left")
    number = f.floor((f.col(OFFSET) + f.col(INDEX)) / f.col(EACH)).cast("bigint")
    return joined.withColumn(unit, number).drop(PATH, INDEX, f"{PATH}_", OFFSET, EACH), total


def slice_count(rows: int, unit_rows: int) -> int:
    """The number of even slices whose size is nearest to ``unit_rows``.

    >>> slice_count(10, 4), slice_count(9, 4), slice_count(0, 4)
    (3, 2, 1)
    """
    return max(1, (2 * rows + unit_rows) // (2 * unit_rows))


def _offsets(
    counts: np.typing.NDArray[np.int64], partitions: Sequence[pa.ChunkedArray], unit_rows: int
) -> tuple[np.typing.NDArray[np.int64], np.typing.NDArray[np.int64]]:
    """Where each file begins within its partition, and how many rows a slice of that partition has."""
    starts = np.zeros(len(counts), np.bool_)
    starts[:1] = True
    for values in partitions:
        codes = values.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        starts[1:] |= np.diff(codes) != 0
    number = np.cumsum(starts) - 1
    before = np.cumsum(counts) - counts
    totals = np.bincount(number, counts, minlength=1).astype(np.int64)
    each = np.array([-(-total // slice_count(total, unit_rows)) or 1 for total in totals.tolist()], np.int64)
    return before - before[starts][number] if len(counts) else before, each[number]
