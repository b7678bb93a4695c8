"""Block files written by Spark's workers, and what they report of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sidestep.layout.placement import FilePlan
from sidestep.predicate.text import name_text
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.store.access import store_settings, use_settings
from sidestep.store.parquet.writer import FILE, GROUP, BlockTarget, WrittenFile, write_blocks

ROW_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("rows", pa.int64()),
        ("blocks", pa.int64()),
        ("partition", pa.string()),
        ("stats", pa.string()),
        ("index", pa.binary()),
    ]
)
BATCH_BYTES, BATCH_ROWS = (f"spark.sql.execution.arrow.max{what}PerBatch" for what in ("Bytes", "Records"))
UNLIMITED = 2**31 - 1
"""The number that Spark takes for no limit at all."""
ROW_TYPES = (
    "path string, size bigint, modified bigint, rows bigint, blocks bigint, partition string, stats string, "
    "index binary"
)


def with_partition_texts(rows: DataFrame, target: BlockTarget) -> DataFrame:
    """The rows with the text of each partition value, as a Delta log has it."""
    texts = zip(target.partition_texts, target.partition_columns, strict=True)
    return rows.withColumns({text: f.col(name_text(name)).cast("string") for text, name in texts})


def write_on_spark(
    rows: DataFrame, target: BlockTarget, plans: Sequence[FilePlan], *, by_task: bool = False
) -> list[WrittenFile]:
    """Write rows, sorted within each partition of the DataFrame as ``write_blocks`` wants them, where they are.

    With ``by_task``, rows carry file number 0 and each task takes the plan of its own number, the first again after the
    last. ``spark_partition_id`` would not do: of rows that Spark has at hand, it is 0 in every task.
    """
    names = [*target.schema.names, *target.beside.names, FILE, GROUP, *target.words, *target.partition_texts]
    planned, settings = tuple(plans), store_settings()

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_settings(settings)
        context = TaskContext.get()
        mine = planned
        if by_task and context is not None:
            mine = (planned[context.partitionId() % len(planned)],)
        for file in write_blocks((batch.rename_columns(names) for batch in batches), target, mine):
            yield pa.RecordBatch.from_pylist([_to_row(file)], schema=ROW_SCHEMA)

    # By number: Spark's Python functions take no column with a dot in its name.
    numbered = [f.col(name_text(name)).alias(f"c{number}") for number, name in enumerate(names)]
    with same_interpreter(rows.sparkSession.sparkContext), _batches_by_rows(rows.sparkSession, target):
        described = rows.select(numbered).mapInArrow(work, ROW_TYPES).collect()
    return [_from_row(row.asDict()) for row in described]


@contextmanager
def _batches_by_rows(spark: SparkSession, target: BlockTarget) -> Iterator[None]:
    """Hand rows to the writer in batches of so many rows, however wide.

    A twelfth of what loads did was to ask after each row how many bytes a batch has. The writer holds a block at a time
    in any case, so a batch of no more rows than that takes no more memory.
    """
    before, rows = spark.conf.get(BATCH_BYTES), spark.conf.get(BATCH_ROWS)
    if before in (None, str(UNLIMITED)) or rows is None or not 0 < int(rows) <= target.min_size:
        yield
        return
    try:
        spark.conf.set(BATCH_BYTES, str(UNLIMITED))
        yield
    finally:
        spark.conf.set(BATCH_BYTES, str(before))


def _to_row(file: WrittenFile) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, file.index.schema) as writer:
        writer.write_table(file.index)
    return {
        "path": file.path,
        "size": file.size,
        "modified": file.modified,
        "rows": file.rows,
        "blocks": file.blocks,
        "partition": json.dumps(file.partition),
        "stats": file.stats,
        "index": sink.getvalue().to_pybytes(),
    }


def _from_row(row: dict[str, Any]) -> WrittenFile:
    partition = tuple((name, value) for name, value in json.loads(row.pop("partition")))
    index = pa.ipc.open_stream(bytes(row.pop("index"))).read_all()
    return WrittenFile(**row, partition=partition, index=index)
