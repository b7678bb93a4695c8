"""Organizing rows: units are found, each is partitioned by its feature vectors, and its rows are sent to their blocks.

The four steps of the thesis (3.4), once over all units:

1. *featurize and reduce*: each row's unit and feature vector, counted; only the columns that these need are read.
2. *partition*: Balanced MaxSkip on the vectors of each unit, as tasks of Spark, so that a thousand units take a
   thousandth of the driver's time.
3. *shuffle*: which group and file each (unit, vector) goes to is small, and is broadcast; rows look it up, go to the
   task that writes their file, and are sorted there by group, and within it by the order columns.
4. *write*: groups are cut into blocks as they arrive (:mod:`sidestep.store.parquet.writer`).

A row whose unit or vector is not in the map, or a count that is not as it was, means that the rows were not the same
the second time they were read. That is an error, never a row lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType, IntegerType, StructField, StructType

from sidestep.errors import SidestepError
from sidestep.layout.demand import Demands
from sidestep.layout.placement import FileMap, map_files
from sidestep.predicate.text import name_text
from sidestep.spark.jvm.versions import repartition_by_id
from sidestep.spark.organize.featurize import CheckedFeatures, with_words
from sidestep.spark.organize.reduce import (
    BUCKET,
    LABEL,
    ROWS,
    RUN,
    TASKS_PER_CORE,
    partition_units,
    reduce_rows,
    word_matrix,
)
from sidestep.spark.organize.units import (
    LEAF,
    UNIT,
    bucket_expressions,
    check_order,
    unit_expression,
    with_leaves,
    with_units,
)
from sidestep.spark.organize.write import with_partition_texts, write_on_spark
from sidestep.spark.progress import Watch
from sidestep.store.parquet.writer import FILE, GROUP, RESERVED, BlockTarget, WrittenFile
from sidestep.store.sidecars.layout import LayoutSpec

__all__ = ["Organized", "organize", "unit_expression"]

TASK, PARTS = (f"{RESERVED}{name}" for name in ("task", "parts"))
MOST_BROADCAST = 5_000_000
"""Vectors of all units together; with more, the map is joined by a shuffle instead of sent to everyone."""
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
SMALL_FILE = 16 << 20
"""A file of fewer bytes costs as much to open as to read: a table is not divided further so that more cores write."""
MOST_CHUNKS = 2_000
"""Columns by blocks of a file: whoever reads any of it parses what its footer says of all, in about as long as it takes
to open a file. Queries want neighbouring blocks, so with smaller files less is parsed."""
DIGITS_OF_A_LONG = 18
"""Whole numbers of so many digits fit in a long."""
DEFAULT_WIDTH = 200.0
"""Bytes per row on disk, where nothing is known."""


@dataclass(frozen=True, slots=True)
class Organized:
    """What became of the rows."""

    files: tuple[WrittenFile, ...]
    units: int
    rows: int
    vectors: int
    """Distinct pairs of unit and feature vector."""

    @property
    def blocks(self) -> int:
        return sum(file.blocks for file in self.files)


def organize(
    rows: DataFrame,
    checked: CheckedFeatures,
    spec: LayoutSpec,
    target: BlockTarget,
    *,
    first_block: int,
    source_bytes: int | None = None,
    watch: Watch | None = None,
) -> Organized:
    """Write the rows into block files, unit by unit; nothing is committed.

    ``rows`` has the table's columns, and reads the same rows however often it is read; ``source_bytes`` is what it
    reads. Each file belongs to one unit; a unit of more than ``spec.file_bytes`` becomes several files.
    """
    watch = watch or Watch(rows.sparkSession.sparkContext)
    demands = demands_of(spec, checked)
    check_order(rows, spec)
    # Slices are told by where rows are in their files, which is known of rows as they are read, and of no others.
    sliced = spec.by is None and spec.tree is None
    known = None
    if sliced:
        with watch.stage("count"):
            rows, known = with_units(rows, spec, target.partition_columns)
    asked = bucket_expressions(rows, spec) if demands else []
    buckets = {f"{BUCKET}{number}": bucket for number, bucket in enumerate(asked)}
    featurized = with_leaves(with_words(rows.withColumns(buckets) if buckets else rows, checked), spec, checked)
    if not sliced:
        featurized, known = with_units(featurized, spec, target.partition_columns)
    leaves = [] if spec.tree is None else [LEAF]
    columns = [*target.partition_columns, UNIT, *leaves, *buckets, *checked.words]
    keys = {name: f"{RESERVED}k{number}" for number, name in enumerate(columns)}
    pairs = reduce_rows(featurized, keys, checked, demands, sliced=sliced).persist()
    try:
        with watch.stage("featurize and reduce", known or 0), few_partitions(rows.sparkSession):
            total = int(pairs.agg(f.sum(ROWS)).collect()[0][0] or 0)
        with watch.stage("partition", total):
            vectors = partition_units(pairs, keys, checked, demands, spec.min_size)
    finally:
        pairs.unpersist()
    if not total:
        return Organized((), 0, 0, 0)
    width = source_bytes / total if source_bytes else DEFAULT_WIDTH
    context = rows.sparkSession.sparkContext
    files = map_files(
        vectors[LABEL],
        vectors[GROUP].to_numpy(),
        vectors[ROWS].to_numpy(),
        word_matrix(vectors, [keys[word] for word in checked.words]),
        [float(feature.weight) for feature in checked.features.features],
        vectors[RUN].to_numpy() if leaves else None,
        min_size=spec.min_size,
        file_rows=max(
            spec.min_size,
            file_rows(
                total,
                width,
                spec.file_bytes,
                context.defaultParallelism,
                min_size=spec.min_size,
                columns=len(target.schema),
            ),
        ),
        least_tasks=context.defaultParallelism * TASKS_PER_CORE,
        first_block=first_block,
    )
    with watch.stage("shuffle and write", total):
        routed = _route_rows(featurized, vectors, files, keys, spec, target)
        written = write_on_spark(routed, target, files.plans)
    if sum(file.rows for file in written) != total:
        raise SidestepError(f"{total:,} rows were read, and others the second time: the table changed. Try again.")
    return Organized(tuple(written), files.units, total, len(vectors))


@contextmanager
def few_partitions(spark: SparkSession) -> Iterator[None]:
    """What is shuffled within is small: a few tasks for each core are enough."""
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    wanted = spark.sparkContext.defaultParallelism * TASKS_PER_CORE
    try:
        if before is not None and before.isdecimal() and int(before) > wanted:
            spark.conf.set(SHUFFLE_PARTITIONS, str(wanted))
        yield
    finally:
        if before is not None:
            spark.conf.set(SHUFFLE_PARTITIONS, before)


def file_rows(rows: int, width: float, file_bytes: int, cores: int, *, min_size: int, columns: int) -> int:
    """How many rows a file has: ``file_bytes`` of them at most, and no tiny files.

    Between these, so few that all cores write, and that its footer tells of :data:`MOST_CHUNKS`.

    >>> file_rows(1_000_000, 100.0, 128 << 20, 2, min_size=20_000, columns=10)
    500000
    >>> file_rows(1_000_000, 10.0, 128 << 20, 2, min_size=20_000, columns=10)
    1677721
    >>> file_rows(100_000_000, 100.0, 128 << 20, 2, min_size=20_000, columns=60)
    666666
    """
    footer = MOST_CHUNKS / max(1, columns) * min_size
    return int(min(file_bytes / width, max(min(rows / cores, footer), SMALL_FILE / width)))


def demands_of(spec: LayoutSpec, checked: CheckedFeatures) -> Demands | None:
    """What the workload demands of units, if that is known of exactly these features."""
    if spec.demands is None or spec.demands_of != checked.features.id:
        return None
    return Demands(len(checked.features), spec.demands)


def _route_rows(
    featurized: DataFrame,
    vectors: pa.Table,
    files: FileMap,
    keys: Mapping[str, str],
    spec: LayoutSpec,
    target: BlockTarget,
) -> DataFrame:
    """The rows in the tasks that write them: each in that of its file, sorted by file, group and order columns."""
    small = (
        vectors.select([*keys.values()])
        .append_column(GROUP, pa.array(files.group))
        .append_column(FILE, pa.array(files.file))
        .append_column(TASK, pa.array(files.task))
        .append_column(PARTS, pa.array(files.parts))
    )
    fields = [StructField(name, featurized.schema[key].dataType) for key, name in keys.items()]
    added = [StructField(name, IntegerType()) for name in (GROUP, FILE, TASK, PARTS)]
    looked_up = featurized.sparkSession.createDataFrame(small, StructType([*fields, *added]))
    if len(vectors) <= MOST_BROADCAST:
        looked_up = f.broadcast(looked_up)
    matches = [f.col(name_text(key)).eqNullSafe(f.col(name)) for key, name in keys.items()]
    joined = featurized.join(looked_up, matches, "left")
    if files.parted:
        joined = _deal_out(joined, target)
    # A row that found no group goes on without one, to the task that will say so.
    placed = repartition_by_id(joined.withColumn(TASK, f.coalesce(TASK, f.lit(0))), files.tasks, f.col(TASK))
    order = {f"{RESERVED}o{number}": _sort_key(placed, name) for number, name in enumerate(spec.order)}
    keyed = placed.withColumns(order) if order else placed
    return with_partition_texts(keyed.sortWithinPartitions(FILE, GROUP, *order), target)


def _sort_key(rows: DataFrame, name: str) -> Column:
    """What sorts as a column does: decimals of few digits as whole numbers.

    Spark compares decimals by way of objects, and spent most of sorting there.
    """
    kind, value = rows.schema[name].dataType, f.col(name_text(name))
    if not isinstance(kind, DecimalType) or kind.precision > DIGITS_OF_A_LONG:
        return value
    return (value * f.lit(Decimal(10**kind.scale))).cast("bigint")


def _deal_out(joined: DataFrame, target: BlockTarget) -> DataFrame:
    """Rows of a group that is larger than a file, dealt out to several by what is to be written of them."""
    held = [
        f.col(name_text(name))
        for name in target.schema.names
        if joined.schema[name].dataType.typeName() not in ("array", "map", "struct", "variant")
    ]
    part = f.pmod(f.xxhash64(*held), f.col(PARTS)).cast("int")
    return joined.withColumns({FILE: f.col(FILE) + part, TASK: f.col(TASK) + part})
