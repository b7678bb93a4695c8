"""``python -m tests.faults.lost_executor FOLDER``: writes on a small cluster whose executors die under them.

``local-cluster`` runs executors as processes of their own, as a cluster does. Rows come from a Python function that
kills the executor it runs on, once, when files may have been written already. Spark starts another executor and runs
the tasks again; the table must hold every row once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import sidestep
from tests.faults.spark_writes import OPTIONS, session
from tests.faults.sweep import check_index, leftovers
from tests.faults.writes import SCHEMA, contents, create, rows_from


def fatal(rows: DataFrame, mark: Path, after: int) -> DataFrame:
    """The rows, on whose way the executor is killed once, after so many batches."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number >= after:
                try:
                    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os.kill(executor(), signal.SIGKILL)
            yield batch

    return rows.mapInArrow(work, SCHEMA)


def executor() -> int:
    """The process above this worker that is a Java machine."""
    process = os.getpid()
    while "java" not in Path(f"/proc/{process}/comm").read_text():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def writes_survive(spark: SparkSession, folder: Path) -> None:
    root = folder / "table"
    create(root, rows_from(0, 10), rows_from(10, 10))
    expected = set(range(20))
    for number, after in enumerate((0, 2)):
        first = 1_000 * (number + 1)
        rows = spark.createDataFrame(rows_from(first, 200)).repartition(3)
        sidestep.append(spark, str(root), fatal(rows, folder / f"killed-{number}", after))
        assert (folder / f"killed-{number}").exists(), "an executor was killed"
        expected |= set(range(first, first + 200))
        found = [row[0] for row in contents(root) or ()]
        assert sorted(found) == sorted(expected), "every row is there once"
        check_index(root)
    sidestep.load(spark, str(root), **OPTIONS)
    sidestep.delete(spark, str(root), "x >= 1100")
    expected = {x for x in expected if x < 1100}
    assert sorted(row[0] for row in contents(root) or ()) == sorted(expected)
    sidestep.vacuum(root, hours=0, force=True)
    assert list(leftovers(root)) == []
    check_index(root)


if __name__ == "__main__":
    with session(Path(sys.argv[1]), "local-cluster[2,1,1024]") as made:
        made.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
        writes_survive(made, Path(sys.argv[1]))
    print("survived")
