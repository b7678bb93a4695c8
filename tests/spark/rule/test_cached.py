"""Tables in memory: what is cached is right, and Spark passes over its batches where blocks lie together in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from tests.spark.laidout import lay_out
from tests.spark.tables import settings, write_file

ROWS, BLOCKS = 100, 12


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> tuple[str, str]:
    """The same rows twice: each block with a k of its own, and in no order."""
    base = tmp_path_factory.mktemp("cached")
    rows = pa.table(
        {"k": pa.array(np.repeat(np.arange(BLOCKS), ROWS), pa.int32()), "v": pa.array(np.arange(BLOCKS * ROWS))}
    )
    blocks = [rows.slice(number * ROWS, ROWS) for number in range(BLOCKS)]
    laid = lay_out(base / "laid", [blocks[:6], blocks[6:]])
    sidestep.index(spark, laid)
    mixed = rows.take(pa.array(np.random.default_rng(1).permutation(len(rows))))
    write_file(base / "mixed" / "f.parquet", mixed, row_group_size=ROWS)
    return laid, str(base / "mixed")


def read_from_memory(df) -> int:
    found = sidestep.metrics(df)
    assert not found.scans
    return sum(each.rows for each in found.memory)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_batches_follow_blocks(spark, enabled, tables, adaptive):
    laid, mixed = tables
    sizes = {"spark__sql__inMemoryColumnarStorage__batchSize": str(ROWS), "spark__sql__adaptive__enabled": adaptive}
    with settings(spark, **sizes):
        for frame, least, most in ((sidestep.read(spark, laid), 2, 2), (spark.read.parquet(mixed), BLOCKS, BLOCKS)):
            cached = frame.cache()
            try:
                df = cached.where("k IN (3, 8)")
                assert sorted(row.v for row in df.collect()) == [*range(300, 400), *range(800, 900)]
                assert least * ROWS <= read_from_memory(df) <= most * ROWS
                assert "in memory" in str(sidestep.metrics(df))
                (scan,) = sidestep.explain(df).scans
                assert scan.reason is not None
                assert "Spark itself skips batches" in scan.reason
            finally:
                cached.unpersist(blocking=True)


def test_what_is_cached_of_a_filtered_table_is_all_of_it(spark, enabled, tables):
    laid, _ = tables
    cached = sidestep.read(spark, laid).where("k >= 9").cache()
    try:
        assert cached.count() == 3 * ROWS
        assert cached.where("k = 10").count() == ROWS
        assert cached.where("k = 3").count() == 0
        assert sidestep.read(spark, laid).where("k = 3").count() == ROWS, "another question is not answered by it"
    finally:
        cached.unpersist(blocking=True)


def test_cached_by_name_and_joined(spark, enabled, tables):
    laid, _ = tables
    sidestep.read(spark, laid).createOrReplaceTempView("laid_out")
    spark.sql("CACHE TABLE held AS SELECT k, v, k + v AS sum FROM laid_out")
    try:
        df = spark.sql("SELECT held.v FROM held JOIN laid_out USING (v) WHERE laid_out.k = 4 AND held.k = 4")
        assert df.count() == ROWS
        df.collect()
        found = sidestep.metrics(df)
        assert {each.table for each in found.memory} == {"held"}
        assert [scan.rows for scan in found.scans] in ([], [ROWS]), "it skips, or Spark answers it from memory too"
    finally:
        spark.sql("UNCACHE TABLE held")
