"""What a log calls a table, where no one says.

A copy that ``load`` made of a table is a table with a folder of its own, and yet logs speak of what it was made of. The
layout remembers that name. It may be that later logs speak of the copy itself, so both names are tried.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sidestep.spark.log.analyze import LogSource, read_workload
from sidestep.spark.log.statements import Table
from sidestep.spark.relation import name_of
from sidestep.store import Location
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.workload.query import Workload


def names_in_logs(
    name: str | None, table: str | os.PathLike[str], root: Location, spec: LayoutSpec | None
) -> tuple[str, ...]:
    """The name that was given; else the one that the layout was made by, and that of the folder or in the catalog."""
    if name is not None:
        return (name,)
    remembered = None if spec is None else spec.log_name
    return tuple(dict.fromkeys(filter(None, (remembered, name_of(table, root)))))


def read_log_of(
    spark: SparkSession,
    log: LogSource,
    names: Sequence[str],
    schema: StructType,
    tables: Mapping[str, Table] | None = None,
    dialect: str | None = None,
) -> tuple[str, Workload]:
    """The queries of a log, and the one of the names by which most of them read the table; the first, if none does."""
    workload = read_workload(spark, log, {**(tables or {}), **dict.fromkeys(names, schema)}, dialect)
    reads = Counter(table for query in workload.queries for table in {use.table for use in query.uses})
    return max(names, key=lambda one: reads[one]), workload
