"""A skip is as fresh as every file that its proof rests on, those of other tables included, until the scan lists its
files: frames are planned first, then something is changed under them, then they run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import sidestep
from tests.spark.laidout import lay_out
from tests.spark.tables import files_read, names, rows_of, settings, switched_off, write_file

GROUP = 10
"""Rows of a row group where row groups are to be told apart."""


def keyed(first: int, count: int, **more: object) -> pa.Table:
    keys = np.arange(first, first + count)
    columns = {"k": pa.array(keys, pa.int64()), "f": pa.array([keys[0] // 100] * count, pa.int64())}
    return pa.table({**columns, **{name: [value] * count for name, value in more.items()}})


def receiver(spark: SparkSession, root: Path, row_group_size: int | None = None) -> Path:
    """Ten files of a hundred keys each, or one file of all of them in many row groups."""
    if row_group_size is None:
        for number in range(10):
            keys = pa.array(np.arange(100 * number, 100 * number + 100), pa.int64())
            write_file(root / f"f{number}.parquet", {"k": keys, "v": keys})
    else:
        keys = pa.array(np.arange(1000), pa.int64())
        write_file(root / "f0.parquet", {"k": keys, "v": keys}, row_group_size=row_group_size)
    sidestep.index(spark, str(root))
    return root


def sender(spark: SparkSession, root: Path) -> Path:
    """Three files of ten keys each: f is 1 in s1 alone, whose keys are in the receiver's f1."""
    for number in (1, 5, 8):
        write_file(root / f"s{number}.parquet", keyed(100 * number, 10))
    sidestep.index(spark, str(root))
    return root


def blocks_with_ids(spark: SparkSession, root: Path) -> str:
    """The receiver as a Delta table of two files, whose blocks of fifty keys have ids."""
    starts = range(0, 1000, 50)
    blocks = [pa.table({"k": pa.array(np.arange(first, first + 50)), "v": [first] * 50}) for first in starts]
    table = lay_out(root, [blocks[:10], blocks[10:]])
    sidestep.index(spark, table)
    return table


def rewrite(root: Path, name: str = "s5") -> None:
    """Put other rows into a file of the sender: f is 1 in these, and their keys are in the receiver's f7."""
    path = root / f"{name}.parquet"
    before = path.stat().st_mtime_ns
    pq.write_table(keyed(700, 10).set_column(1, "f", pa.array([1] * 10, pa.int64())), path)
    assert path.stat().st_mtime_ns != before


def planned(df: DataFrame) -> DataFrame:
    df._jdf.queryExecution().executedPlan()
    return df


def agree(spark: SparkSession, df: DataFrame, make: Callable[[], DataFrame]) -> int:
    """The rows of a frame that was planned before, held against the same query without skipping, made now."""
    rows = rows_of(df)
    with switched_off(spark):
        assert rows == rows_of(make())
    return len(rows)


def test_nothing_changed_and_files_are_skipped(spark, enabled, tmp_path):
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    df = planned(spark.read.parquet(str(big)).join(spark.read.parquet(str(small)), "k").where("f = 1"))
    assert len(df.collect()) == 10
    assert files_read(df) == [["f1"], ["s1"]]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_file_of_the_sender_is_rewritten_after_planning(spark, enabled, tmp_path, adaptive):
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))
    with settings(spark, spark__sql__adaptive__enabled=adaptive):
        df = planned(whole.join(part, "k").where("f = 1"))
        rewrite(small)
        assert agree(spark, df, lambda: whole.join(part, "k").where("f = 1")) == 20


def test_the_file_that_is_rewritten_is_the_one_that_spoke(spark, enabled, tmp_path):
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))
    df = planned(whole.join(part, "k").where("f = 1"))
    rewrite(small, "s1")
    assert agree(spark, df, lambda: whole.join(part, "k").where("f = 1")) == 10


def test_the_receivers_own_predicates_still_skip(spark, enabled, tmp_path):
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))
    df = planned(whole.join(part, "k").where("f = 1 AND v < 750"))
    rewrite(small)
    assert agree(spark, df, lambda: whole.join(part, "k").where("f = 1 AND v < 750")) == 20
    assert names(range(8)) in files_read(df)


def test_row_groups_are_read_again_too(spark, enabled, tmp_path):
    big, small = receiver(spark, tmp_path / "big", GROUP), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))

    def query() -> DataFrame:
        return planned(whole.join(part, "k").where("f = 1"))

    fresh, stale = query(), query()
    assert len(fresh.collect()) == 10
    assert sorted(scan.rows for scan in sidestep.metrics(fresh).scans) == [10, 10], "row groups are passed over"
    rewrite(small)
    assert agree(spark, stale, query) == 20


def test_blocks_by_their_ids_are_read_again_too(spark, enabled, tmp_path):
    big, small = blocks_with_ids(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    part = spark.read.parquet(str(small))

    def query() -> DataFrame:
        return planned(sidestep.read(spark, big).join(part, "k").where("f = 1"))

    fresh, stale = query(), query()
    assert len(fresh.collect()) == 10
    assert sorted(scan.rows for scan in sidestep.metrics(fresh).scans) == [10, 50]
    rewrite(small)
    assert agree(spark, stale, query) == 20


@pytest.mark.parametrize("laid_out", [True, False])
def test_a_delta_table_as_sender_never_changes_under_a_frame(spark, enabled, tmp_path, laid_out):
    """Its files are those of one version: later commits are no concern of the frame, and blocks are skipped by id."""
    big = blocks_with_ids(spark, tmp_path / "big")
    if laid_out:
        small = lay_out(tmp_path / "small", [[keyed(100 * number, 10)] for number in (1, 5, 8)])
    else:
        small = str(tmp_path / "small")
        for number in (1, 5, 8):
            write_deltalake(small, keyed(100 * number, 10), mode="append")
    sidestep.index(spark, small)
    df = planned(sidestep.read(spark, big).join(sidestep.read(spark, small), "k").where("f = 1"))
    DeltaTable(small).delete()
    assert len(df.collect()) == 10
    assert sorted(scan.rows for scan in sidestep.metrics(df).scans) == [10, 50]


def test_what_was_induced_by_way_of_another_table(spark, enabled, tmp_path):
    """small to middle, middle to big: a change of either end of the way is seen at its end."""
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    for number in range(10):
        keys = pa.array(np.arange(100 * number, 100 * number + 100), pa.int64())
        write_file(tmp_path / "middle" / f"m{number}.parquet", {"k": keys, "j": keys})
    sidestep.index(spark, str(tmp_path / "middle"))
    whole = spark.read.parquet(str(big)).withColumnRenamed("k", "j")
    middle, part = spark.read.parquet(str(tmp_path / "middle")), spark.read.parquet(str(small))

    def query() -> DataFrame:
        return planned(whole.join(middle, "j").join(part, "k").where("f = 1"))

    fresh, first, second = query(), query(), query()
    assert len(fresh.collect()) == 10
    assert files_read(fresh) == [["f1"], ["m1"], ["s1"]]
    # Of the table in the middle, a file that was skipped: it now sends a key of the sender to the receiver's f9.
    pq.write_table(pa.table({"k": [101], "j": [950]}), tmp_path / "middle" / "m3.parquet")
    assert agree(spark, first, query) == 11
    rewrite(small)
    assert agree(spark, second, query) == 21


def test_an_empty_input_may_fill_up(spark, enabled, tmp_path):
    """No row of the sender is asked for when the query is planned, so none of the receiver is."""
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))

    def query() -> DataFrame:
        return planned(whole.join(part, whole.k == part.k + 200).where("f = 3"))

    fresh, stale = query(), query()
    assert fresh.collect() == []
    pq.write_table(keyed(300, 2), small / "s5.parquet")
    assert agree(spark, stale, query) == 2


def test_a_cached_frame_is_as_fresh_when_it_is_first_filled(spark, enabled, tmp_path):
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))
    df = whole.join(part, "k").where("f = 1").cache()
    try:
        rewrite(small)
        assert len(df.collect()) == 20
    finally:
        df.unpersist()


def test_equal_parts_still_run_once_and_see_the_change(spark, enabled, tmp_path):
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))

    def query() -> DataFrame:
        once = whole.join(part, "k").where("f = 1").groupBy("k").count()
        return planned(once.unionAll(once))

    with settings(spark, spark__sql__adaptive__enabled="false"):
        fresh, stale = query(), query()
        assert "ReusedExchange" in fresh._jdf.queryExecution().executedPlan().toString()
        assert len(fresh.collect()) == 20
        assert files_read(fresh) == [["f1"], ["s1"]]
        rewrite(small)
        assert agree(spark, stale, query) == 40


def test_a_listing_that_was_refreshed_is_looked_at_anew(spark, enabled, tmp_path):
    """Refreshing the folder of a cached frame gives the very listing of the frame the new file."""
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))
    assert whole.join(part, "k").where("f = 1").count() == 10
    part.cache()
    part.count()
    write_file(small / "new.parquet", keyed(700, 10).set_column(1, "f", pa.array([1] * 10, pa.int64())))
    spark.catalog.refreshByPath(str(small))
    part.unpersist()
    df = whole.join(part, "k").where("f = 1")
    assert agree(spark, df, lambda: whole.join(part, "k").where("f = 1")) == 20


def test_a_file_of_the_sender_that_is_gone_holds_nothing(spark, enabled, tmp_path):
    """Spark would fail to read it, but it was skipped by a predicate of its own: what others skip is as it was."""
    big, small = receiver(spark, tmp_path / "big"), sender(spark, tmp_path / "small")
    whole, part = spark.read.parquet(str(big)), spark.read.parquet(str(small))
    df = planned(whole.join(part, "k").where("f = 1"))
    os.unlink(small / "s5.parquet")
    assert len(df.collect()) == 10


# ---- tables that were made anew at one path


def delta(root: Path, first: int) -> str:
    write_deltalake(str(root), keyed(first, 10))
    return str(root)


def laid(root: Path, first: int) -> str:
    """File names, sizes and the version are the same whatever the rows."""
    return lay_out(root, [[keyed(first, 10)]])


@pytest.mark.parametrize("make", [delta, laid])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_table_made_anew_is_not_answered_from_the_cache_of_the_old(spark, enabled, tmp_path, make, indexed):
    root = make(tmp_path / "t", 100)
    if indexed:
        sidestep.index(spark, root)
    old = sidestep.read(spark, root).cache()
    try:
        assert sorted(row.k for row in old.collect()) == list(range(100, 110))
        again = sidestep.read(spark, root)
        assert "InMemory" in again._jdf.queryExecution().executedPlan().toString(), "the same table is the same plan"
        shutil.rmtree(root)
        make(tmp_path / "t", 500)
        if indexed:
            sidestep.index(spark, root)
        assert sorted(row.k for row in sidestep.read(spark, root).collect()) == list(range(500, 510))
        assert [row.k for row in sidestep.read(spark, root).where("k = 500").collect()] == [500]
    finally:
        old.unpersist()
