"""Layouts to compare with: the same rows, in block files like those of a load, only arranged by other means.

What an arrangement decides is which rows lie together. How blocks are written, their zone maps, the Delta table around
them: all that is the load job's, and their number is that of the layout they are compared with.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.zorder import ZOrder
from sidestep.layout.placement import FilePlan
from sidestep.predicate import parse_type
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.spark.jvm.versions import arrow_schema, repartition_by_id
from sidestep.spark.organize.write import write_on_spark
from sidestep.store import locate
from sidestep.store.block_column import with_block_column
from sidestep.store.commit.transaction import AddedFile, commit
from sidestep.store.index.index_file import index_folder
from sidestep.store.parquet.writer import FILE, GROUP, BlockTarget
from sidestep.store.upkeep.compact import append_blocks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MONTH = "12 * (year(o_orderdate) - 1992) + month(o_orderdate) - 1"
_PLACE = "_sidestep_place"
TASK_ROWS = 500_000


@dataclass(frozen=True)
class Layout:
    """A table as it was laid out: where it is, how large it became, and how long that took."""

    name: str
    path: str
    rows: int
    blocks: int
    files: int
    bytes: int
    seconds: float
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Arrangement:
    """An order of rows: the file that a row goes to, as a number from 0 on, and what rows are sorted by inside it."""

    name: str
    file: str
    order: tuple[str, ...]
    z_order: ZOrder | None = None

    def place(self) -> Column:
        """The row's place on the Z curve, if there is one; files and order may refer to it."""
        from pyspark.sql.functions import lit

        return lit(0) if self.z_order is None else self.z_order.expression()


def natural(files: int, last_order: int) -> Arrangement:
    """The order in which the generator emits rows."""
    file = f"least({files - 1}, cast(l_orderkey * {files} div {last_order + 1} AS int))"
    return Arrangement("full", file, ("l_orderkey",))


def range1() -> Arrangement:
    """By the day of the order, whatever is asked (thesis, 3.7.3)."""
    return Arrangement("range1", MONTH, ("o_orderdate",))


def range2() -> Arrangement:
    """By the columns that queries filter most, as a person would (thesis, 3.7.3).

    Month of the order, the customer's region, market segment, and quantity in five ranges.
    """
    return Arrangement("range2", MONTH, ("cr_name", "c_mktsegment", "floor((l_quantity - 1) / 10)"))


def z_ordered(z_order: ZOrder, places: Sequence[int], files: int) -> Arrangement:
    """Along a Z curve, cut into files of about one size by the places of a sample of rows."""
    ends = np.quantile(np.asarray(places, np.int64), np.arange(1, files) / files, method="lower")
    steps = " + ".join(f"int({_PLACE} > {end})" for end in np.unique(ends.astype(np.int64)))
    return Arrangement("zorder", steps or "0", (_PLACE,), z_order)


def write_arrangement(spark: SparkSession, source: Path, target: Path, arrangement: Arrangement, blocks: int) -> Layout:
    """Write the rows at ``source`` in that arrangement, cut into about so many blocks, as a new Delta table."""
    from pyspark.sql import functions as f

    start = time.perf_counter()
    rows = spark.read.parquet(str(source))
    schema = rows.schema
    with same_interpreter(spark.sparkContext):
        placed = rows.withColumn(_PLACE, arrangement.place()).withColumn(FILE, f.expr(arrangement.file).cast("int"))
    sizes = {row[FILE]: row["count"] for row in placed.groupBy(FILE).count().collect()}
    numbers = {file: number for number, file in enumerate(sorted(sizes))}
    least = block_size([sizes[file] for file in numbers], blocks)
    plans, first = [], 0
    for file in numbers:
        plans.append(FilePlan(first, unit=None, groups=(sizes[file],)))
        first += max(1, sizes[file] // least)
    target.mkdir(parents=True)
    columns = {each.name: parse_type(each.dataType.simpleString()) for each in schema.fields}
    zoned = {name: type for name, type in columns.items() if type.ordered}
    block_target = BlockTarget(str(target), arrow_schema(schema), zoned, least, spark_version=spark.version)
    tasks = min(len(numbers), max(4 * spark.sparkContext.defaultParallelism, sum(sizes.values()) // TASK_ROWS))
    written = write_on_spark(_arranged(placed, arrangement, numbers, tasks), block_target, plans)
    append_blocks(index_folder(locate(target), None), [file.index for file in written], block_target.columns)
    commit(
        locate(target),
        add=[AddedFile(one.path, one.size, one.modified, one.partition, one.stats, one.rows) for one in written],
        read_version=None,
        schema=with_block_column(schema.json()),
        operation="WRITE",
        data_change=True,
    )
    return Layout(
        arrangement.name,
        str(target),
        rows=sum(one.rows for one in written),
        blocks=sum(one.blocks for one in written),
        files=len(written),
        bytes=sum(one.size for one in written),
        seconds=time.perf_counter() - start,
        details={} if arrangement.z_order is None else {"columns": list(arrangement.z_order.columns)},
    )


def _arranged(placed: DataFrame, arrangement: Arrangement, numbers: dict[int, int], tasks: int) -> DataFrame:
    """The rows of each file in one task, in order."""
    from pyspark.sql import functions as f

    pairs = [f.lit(each) for pair in numbers.items() for each in pair]
    rows = placed.withColumn(FILE, f.create_map(*pairs)[f.col(FILE)].cast("int")).withColumn(GROUP, f.lit(0))
    order = [f.expr(key) for key in arrangement.order]
    # Small files share a task: starting one takes longer than writing them.
    task = f.expr(f"{FILE} * {tasks} div {len(numbers)}").cast("int")
    return repartition_by_id(rows, tasks, task).sortWithinPartitions(FILE, GROUP, *order).drop(_PLACE)


def block_size(files: Sequence[int], blocks: int) -> int:
    """The least size of a block that cuts files of these sizes into that number of blocks, or the nearest.

    >>> block_size([100, 50], 3), block_size([100, 50], 6)
    (50, 25)
    """

    def cut_into(size: int) -> int:
        return sum(max(1, rows // size) for rows in files)

    low, high = 1, max(1, sum(files))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cut_into(middle) >= blocks else (low, middle - 1)
    return min((low, low + 1), key=lambda size: abs(cut_into(size) - blocks))
