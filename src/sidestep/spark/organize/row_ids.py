"""Row ids: a number for each row of a table that is the same however often, and by whichever columns, it is read.

The parts of a table in column groups are written one after the other, each from its own reading of the source, and are
put together again by these ids. So an id must not depend on the order in which Spark happens to read: it is the row's
position in its file, which Parquet readers know, after all rows of the files before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sidestep.spark.organize.units import INDEX, OFFSET, PATH
from sidestep.store.sidecars.column_groups import ROW_ID, UNIT


class NumberedFiles:
    """The files that rows are read from, in the order of their paths, and how many rows each has."""

    def __init__(self, rows: DataFrame) -> None:
        self.rows = rows
        ends = f.max(f.col("_metadata.row_index")) + f.lit(1)
        each = rows.groupBy(f.col("_metadata.file_path").alias(PATH)).agg(
            ends.alias("end"), f.count(f.lit(1)).alias("rows")
        )
        files = each.orderBy(PATH).toArrow()
        # By the last position in a file, not by the number of its rows: ids are distinct even where rows are left out.
        ends_of_files = files["end"].to_numpy()
        self.paths = files[PATH]
        self.offsets = np.cumsum(ends_of_files) - ends_of_files
        self.total = int(files["rows"].to_numpy().sum())
        self.end = int(ends_of_files.sum())

    def with_ids(self, unit_rows: int, units: Sequence[int], first: int = 0) -> DataFrame:
        """The rows with their ids, from ``first`` on, and the units that they are in: ``unit_rows`` ids make a unit."""
        path = f"{PATH}_"
        known = pa.table({path: self.paths, OFFSET: self.offsets})
        schema = StructType([StructField(path, StringType()), StructField(OFFSET, LongType())])
        offsets = f.broadcast(self.rows.sparkSession.createDataFrame(known, schema))
        placed = self.rows.select(
            "*", f.col("_metadata.file_path").alias(PATH), f.col("_metadata.row_index").alias(INDEX)
        )
        # A row of a file that was not there before gets no id, which no writer accepts.
        position = f.col(OFFSET) + f.col(INDEX)
        joined = placed.join(offsets, f.col(PATH) == f.col(path), "left")
        numbered = joined.withColumns({ROW_ID: position + f.lit(first), UNIT: _unit(position, unit_rows, units)})
        return numbered.drop(PATH, INDEX, path, OFFSET)


def _unit(position: Column, unit_rows: int, units: Sequence[int]) -> Column:
    if len(units) == 1:
        return f.when(position.isNotNull(), f.lit(units[0]))
    numbers = f.lit(np.array(units, np.int32))
    return f.get(numbers, f.floor(position / f.lit(unit_rows)).cast("int"))
