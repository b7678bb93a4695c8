"""Block files written by Spark's workers, and what they report of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
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
    with same_interpreter(rows.sparkSession.sparkContext):
        described = rows.select(numbered).mapInArrow(work, ROW_TYPES).collect()
    return [_from_row(row.asDict()) for row in described]


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
