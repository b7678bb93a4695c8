"""Files that tools which keep times have replaced by others of the same size: a footer tells them apart, if asked."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import sidestep
from sidestep.predicate.types import LONG
from sidestep.store import open_index, read_snapshot
from sidestep.store.parquet import blocks
from sidestep.store.upkeep.update import update_index
from tests.spark.tables import files_read, names, settings, write_file

PLAIN = {"compression": "none", "use_dictionary": False}


def numbers(first: int) -> pa.Table:
    return pa.table({"x": pa.array(range(first, first + 10), pa.int64())})


def table(root: Path, count: int = 4) -> str:
    """Files f0 to f3 of ten numbers each: 0 to 9, 100 to 109, and so on."""
    for number in range(count):
        write_file(root / f"f{number}.parquet", numbers(100 * number), **PLAIN)
    return str(root)


def replace(path: Path, rows: pa.Table) -> None:
    """As ``rsync -t`` or ``tar -x`` would: other rows in a new file of the same name, size and time."""
    before, new = path.stat(), path.with_name(".new")
    pq.write_table(rows, new, **PLAIN)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(new, path)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def by_footer(spark: SparkSession):
    return settings(spark, spark__sidestep__fileKeys="footer")


def large(spark: SparkSession, root: str) -> DataFrame:
    return spark.read.parquet(root).where("x >= 300")


@pytest.mark.parametrize("keys", ["listing", "footer"])
def test_an_index_serves_both_kinds_of_keys(spark, enabled, tmp_path, keys):
    root = table(tmp_path / "t")
    sidestep.index(spark, root)
    with settings(spark, spark__sidestep__fileKeys=keys):
        for _ in range(2):
            df = large(spark, root)
            assert len(df.collect()) == 10
            assert files_read(df) == [["f3"]]
        assert sidestep.explain(large(spark, root)).scans[0].unknown_files == 0


@pytest.mark.parametrize("seen", [True, False])
def test_a_file_replaced_with_its_time_kept_is_read(spark, enabled, tmp_path, seen):
    """Also if the footer of the file before it has been read already (``seen``)."""
    root = table(tmp_path / "t")
    sidestep.index(spark, root)
    with by_footer(spark):
        if seen:
            assert len(large(spark, root).collect()) == 10
        planned = large(spark, root)
        planned._jdf.queryExecution().executedPlan()
        replace(tmp_path / "t" / "f1.parquet", numbers(500))
        for df in (planned, large(spark, root)):
            assert len(df.collect()) == 20
            assert files_read(df) == [["f1", "f3"]]
        assert sidestep.explain(large(spark, root)).scans[0].unknown_files == 1


def test_a_joined_table_is_held_to_its_footers_too(spark, enabled, tmp_path):
    big, small = table(tmp_path / "big", 8), table(tmp_path / "small", 4)
    for root in (big, small):
        sidestep.index(spark, root)
    whole, part = spark.read.parquet(big), spark.read.parquet(small)
    with by_footer(spark):
        before, after = (whole.join(part, "x").where("x < 10 OR x > 600") for _ in range(2))
        assert len(before.collect()) == 10
        assert files_read(before) == [["f0"], ["f0"]]
        after._jdf.queryExecution().executedPlan()
        replace(tmp_path / "small" / "f2.parquet", numbers(700))
        assert len(after.collect()) == 20
        assert len(whole.join(part, "x").where("x < 10 OR x > 600").collect()) == 20


def test_indexing_by_footer_reads_a_replaced_file_again(spark, enabled, tmp_path):
    root = table(tmp_path / "t")
    sidestep.index(spark, root)
    replace(tmp_path / "t" / "f1.parquet", numbers(500))
    with by_footer(spark):
        sidestep.index(spark, root)
        df = large(spark, root)
        assert len(df.collect()) == 20
        assert files_read(df) == [["f1", "f3"]]
        assert files_read(run(spark.read.parquet(root).where("x < 200"))) == [["f0"]], "the old entry is forgotten"
        assert sidestep.explain(df).scans[0].unknown_files == 0


def test_entries_without_a_digest_skip_nothing_by_footer_until_they_are_made_anew(
    spark, enabled, tmp_path, monkeypatch
):
    root = table(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "footer_digest", lambda stream: None)
        update_index(read_snapshot(root), {"x": LONG})
    assert open_index(root).footers.null_count == 4
    assert files_read(run(large(spark, root))) == [["f3"]]
    with by_footer(spark):
        df = large(spark, root)
        assert len(df.collect()) == 10
        assert files_read(df) == [names(range(4))]
        assert sidestep.explain(large(spark, root)).scans[0].unknown_files == 4
        sidestep.index(spark, root)
        assert files_read(run(large(spark, root))) == [["f3"]]
    assert open_index(root).footers.null_count == 0


def test_a_kind_of_keys_that_there_is_not_is_warned_of(spark, enabled, tmp_path, caplog):
    root = table(tmp_path / "t")
    sidestep.index(spark, root)
    with settings(spark, spark__sidestep__fileKeys="checksum"):
        assert files_read(run(large(spark, root))) == [["f3"]]
    assert "spark.sidestep.fileKeys=checksum is ignored: files are told apart by listing or footer." in caplog.text


def run(df: DataFrame) -> DataFrame:
    df.collect()
    return df
