"""Pages that Spark's own reader passes over hold no row that matches, whatever the types, values and filters."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import sidestep
from sidestep.layout.pages import PageOrder
from sidestep.store.parquet.encodings import choose_encodings
from tests.spark.branches import answers, union
from tests.spark.generated import Generated, questions, tables
from tests.spark.soundness.test_filters import asked_of, difference, trying
from tests.spark.tables import switched_off

QUESTIONS = 12


def paged_copy(spark: SparkSession, table: Generated, folder: Path, order: tuple[str, ...], page_rows: int) -> int:
    """The table's rows as one file of pages, in row groups of four pages each; how many rows it has."""
    rows = spark.read.parquet(str(table.root)).toArrow()
    ids = pa.array([at // (4 * page_rows) for at in range(len(rows))], pa.int32())
    rows = rows.append_column("_block", ids)
    folder.mkdir()
    encodings = choose_encodings(rows, "_block", pages=PageOrder(order, 0.0))
    with (
        pa.OSFile(str(folder / "f.parquet"), "wb") as stream,
        encodings.writer(stream, rows.schema, page_rows=page_rows) as writer,
    ):
        for start in range(0, len(rows), 4 * page_rows):
            writer.write_table(encodings.arrange(rows.slice(start, 4 * page_rows)))
    return len(rows)


def test_no_row_is_lost_whatever_the_order_of_pages(spark: SparkSession, tmp_path: Path) -> None:
    numbers, read = itertools.count(), [0, 0]

    @trying(12)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        number = next(numbers)
        table = data.draw(tables(spark, tmp_path / f"t{number}"))
        ordered = [column.name for column in table.columns if column.name.startswith("c")]
        order = tuple(data.draw(st.lists(st.sampled_from(ordered), min_size=1, max_size=2, unique=True)))
        folder = tmp_path / f"paged{number}"
        rows = paged_copy(spark, table, folder, order, data.draw(st.integers(1, 3), label="rows of a page"))
        asked = asked_of(data.draw(st.lists(questions(table), min_size=QUESTIONS, max_size=QUESTIONS)))
        source, paged = spark.read.parquet(str(table.root)), spark.read.parquet(str(folder))
        with switched_off(spark):
            expected = answers(union([(at, source) for at in range(len(asked))], asked))
            query = union([(at, paged.drop("_block")) for at in range(len(asked))], asked)
            found = answers(query)
        assert found == expected, difference(found, expected, asked)
        read[0] += sidestep.metrics(query).rows
        read[1] += rows * len(asked)
        for each in (table.root, folder):
            shutil.rmtree(each)

    run()
    assert read[0] < 0.9 * read[1], "pages were passed over"
