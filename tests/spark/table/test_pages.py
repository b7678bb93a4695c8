"""A layout sorts the rows of its blocks so that Spark's reader passes over pages, and goes on like that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from sidestep.store.location import locate
from sidestep.store.sidecars.layout import load_layout
from tests.spark.tables import write_file

ROWS, BLOCK = 60_000, 10_000
LOG = [f"SELECT sum(v) FROM t WHERE city = 'c{at}' AND size < 400" for at in range(20)]
QUERY = "city = 'c3' AND size < 400"


def rows(seed: int, count: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "city": [f"c{each}" for each in draw.integers(0, 20, count)],
            "size": draw.integers(0, 1_000, count).astype(np.int32),
            "v": draw.random(count),
        }
    )


@pytest.fixture(scope="module")
def laid(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    write_file(folder / "t" / "f.parquet", rows(1, ROWS))
    # As it comes, the table has no order: what blocks know skips nothing, and only their pages are left.
    report = sidestep.load(spark, folder / "t", folder / "laid", log=LOG, min_size=BLOCK, family="as is")
    assert report.blocks > 1
    return folder / "laid"


def read(spark, laid) -> tuple[int, int]:
    """Rows that the query reads, and rows of the blocks that it does not skip."""
    with sidestep.enable(spark):
        asked = sidestep.read(spark, laid).where(QUERY)
        expected = {row.v for row in sidestep.read(spark, laid).collect() if row.city == "c3" and row["size"] < 400}
        assert {row.v for row in asked.collect()} == expected
        (scan,) = sidestep.explain(asked).scans
        assert scan.rows is not None
        return sidestep.metrics(asked).rows, scan.rows.kept


def test_queries_read_the_pages_they_need(spark, laid):
    spec = load_layout(locate(laid / "_sidestep"))
    assert spec is not None
    assert spec.page_order[0] in ("city", "size")
    passed, kept = read(spark, laid)
    assert kept == ROWS
    assert passed <= 0.5 * kept
    assert spec.page_share == pytest.approx(passed / kept, abs=0.15)


def test_what_comes_later_is_sorted_the_same_way(spark, laid):
    before, kept = read(spark, laid)
    write_file(laid.parent / "more" / "f.parquet", rows(2, ROWS))
    sidestep.append(spark, laid, spark.read.parquet(str(laid.parent / "more")))
    passed, now = read(spark, laid)
    assert now == kept + ROWS
    assert passed - before <= 0.5 * ROWS
    sidestep.optimize(spark, laid)
    passed, now = read(spark, laid)
    assert passed <= 0.5 * now


def test_the_report_says_how_blocks_are_sorted(spark, laid, tmp_path):
    report = sidestep.load(spark, laid.parent / "t", tmp_path / "again", log=LOG, min_size=BLOCK, family="as is")
    assert f"rows within blocks sorted by {', '.join(report.spec.page_order)}: " in str(report)
    plain = sidestep.load(spark, laid.parent / "t", tmp_path / "small", log=LOG, min_size=1_000, family="as is")
    assert plain.spec.page_order == (), "a block is a page"
    assert "within blocks" not in str(plain)


def test_changes_find_their_rows_in_files_of_pages(spark, laid, tmp_path):
    """Rows are known by their number in the file, whichever pages were passed over on the way to them."""
    target = tmp_path / "changed"
    sidestep.load(spark, laid.parent / "t", target, log=LOG, min_size=BLOCK, family="as is")
    table = {(row.city, row["size"], row.v) for row in spark.read.parquet(str(laid.parent / "t")).collect()}
    sidestep.delete(spark, target, "city = 'c5' AND size >= 900")
    sidestep.update(spark, target, {"size": "-1"}, "city = 'c7' AND size BETWEEN 10 AND 20")
    source = spark.createDataFrame([("c9", 500)], "city string, size int")
    merge = sidestep.merge(spark, target, source, "target.city = source.city AND target.size = source.size")
    merge.when_matched_delete().run()
    kept = {row for row in table if not (row[0] == "c5" and row[1] >= 900) and row[:2] != ("c9", 500)}
    expected = {(city, -1 if city == "c7" and 10 <= size <= 20 else size, v) for city, size, v in kept}
    assert {(row.city, row["size"], row.v) for row in sidestep.read(spark, target).collect()} == expected
