"""Laid-out tables by names of the catalog: views over a table function that sidestep brings to sessions.

A catalog can only name what plain Spark can resolve. It could name a laid-out table as a folder of Parquet files, and
would then give rows that are gone, or parts of rows. So a registered table is a view over ``sidestep_table('path')``:
in a session with sidestep that is the newest version of the table, worked out anew for each query; in any other there
is no such function, and the query fails.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.relation import PATH_PROPERTY, read, resolve
from sidestep.store import locate


class Tables:
    """What the table function asks, from whichever session and thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, path: str) -> Any:
        """The plan of a table at its newest version; the JVM makes it the asking session's own."""
        return read(self._spark, path)._jdf.queryExecution().analyzed()

    class Java:
        implements = ("java.util.function.Function",)


@leaves_session_active
def register(spark: SparkSession, name: str, table: str | os.PathLike[str]) -> None:
    """Give the table at a path a name in the catalog, by which SQL reads it wherever sidestep is enabled.

    ``name`` is a table's name, or ``database.name``. The entry is a view: it has the columns that the table has now,
    and the rows that the table has whenever it is read, whoever changed it. Where sidestep is not enabled, reading it
    fails, since Spark does not know the function ``sidestep_table``. A name that was registered before is registered
    anew; ``DROP VIEW`` takes it out, and leaves the table alone.
    """
    bridge = Bridge(spark)
    location = locate(resolve(spark, table))
    schema = read(spark, location.uri).schema
    identifier = spark._jsparkSession.sessionState().sqlParser().parseTableIdentifier(name)
    database = identifier.database().get() if identifier.database().isDefined() else spark.catalog.currentDatabase()
    full = f"{_quoted(database)}.{_quoted(identifier.table())}"
    taken = spark.catalog.tableExists(full)
    if taken and not spark.sql(f"SHOW TBLPROPERTIES {full}").where(f"key = '{PATH_PROPERTY}'").count():
        raise SidestepError(f"{name} is the name of another table or view: choose another name, or drop that first.")
    types = bridge.jvm.org.apache.spark.sql.types.DataType
    columns = (
        f"CAST(NULL AS {types.fromJson(field.dataType.json()).sql()}) AS {_quoted(field.name)}" for field in schema
    )
    # Whoever reads it before it has its text is told so.
    unfinished = f"WHERE raise_error('{identifier.table()} is just being registered: try again.') IS NULL"
    spark.sql(f"CREATE {'OR REPLACE ' if taken else ''}VIEW {full} AS SELECT {', '.join(columns)} {unfinished}")
    inspector = bridge.factory()
    inspector.addTableFunction(spark._jsparkSession, Tables(spark))
    inspector.turnView(spark._jsparkSession, database, identifier.table(), location.uri)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
