"""Value sets at work: files and row groups that zone maps keep, on plain tables and on those that were laid out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.value_set import VALUES
from tests.spark.tables import checked_read, rows_of, switched_off, write_file

MODES = ("AIR", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
FILES, ROWS = 8, 300


def shipments(number: int, rows: int = ROWS) -> pa.Table:
    """Rows of two modes in each file, the first and the last by name mostly, and of NULLs."""
    rng = np.random.default_rng(number)
    modes = (MODES[0], MODES[-1]) if number % 4 else (MODES[1 + number // 4], MODES[4])
    return pa.table(
        {
            "id": np.arange(rows) + 10_000 * number,
            "mode": [None if at == 2 else modes[at] for at in rng.integers(0, 3, rows)],
            "size": pa.array((100 * rng.choice([1, 3 + number, 9 + number, 30], rows)).astype(np.int32)),
            "price": pa.array([f"{each}.5" for each in rng.integers(1, 9, rows)]).cast(pa.decimal128(9, 2)),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    for number in range(FILES):
        write_file(tmp_path / "t" / f"f{number}.parquet", shipments(number))
    return str(tmp_path / "t")


ASKED = {
    "mode = 'RAIL'": 1,
    "mode IN ('RAIL', 'MAIL', 'REG AIR')": 2,
    "mode LIKE '%A%L'": 2,
    "mode NOT IN ('AIR', 'TRUCK')": 2,
    "mode NOT LIKE '%R%'": 2,
    "mode LIKE '%I%' AND mode NOT LIKE 'A%'": 2,
    "mode <> 'AIR' AND mode < 'TRUCK'": 2,
    "size = 500": 1,
    "size > 1100 AND size < 1500": 3,
    "size IN (700, 800)": 2,
}


def test_files_are_skipped_that_zone_maps_keep(spark, enabled, table):
    sidestep.index(spark, table, synopses="none")
    for condition in ASKED:
        assert checked_read(spark, table, condition)[1].files == FILES
    sidestep.index(spark, table, synopses="mode=values,size=values:8,none")
    for condition, files in ASKED.items():
        rows, metrics = checked_read(spark, table, condition)
        assert rows > 0
        assert (condition, metrics.files, metrics.rows) == (condition, files, files * ROWS)
        assert "value set" in str(sidestep.explain(sidestep.read(spark, table).where(condition)))


def test_nulls_are_found(spark, enabled, table):
    sidestep.index(spark, table, synopses="mode=values")
    for condition in (
        "mode IS NULL",
        "mode IS NULL OR mode = 'RAIL'",
        "NOT (mode <=> 'AIR')",
        "coalesce(mode, '') = ''",
    ):
        assert checked_read(spark, table, condition)[0] > 0
    assert checked_read(spark, table, "mode = NULL")[0] == 0


def test_by_default_columns_whose_blocks_differ_have_them(spark, enabled, table):
    status = sidestep.index(spark, table)
    assert {name for name, each in status.synopses.items() if each.recipe.size(VALUES)} >= {"mode"}
    assert "price" not in status.synopses, "its blocks all hold the same"
    assert checked_read(spark, table, "mode = 'RAIL'")[1].files == 1


def test_a_filter_reaches_the_tables_that_are_joined(spark, enabled, table, tmp_path):
    """What a dimension holds are points, of which most lie between those of the facts' blocks."""
    rates = pa.table({"mode": list(MODES), "zone": ["far", "near", "near", "far", "near", "far"]})
    write_file(tmp_path / "rates" / "near.parquet", rates.filter(pa.compute.equal(rates["zone"], "near")))
    write_file(tmp_path / "rates" / "far.parquet", rates.filter(pa.compute.equal(rates["zone"], "far")))
    sidestep.index(spark, table, synopses="mode=values")
    sidestep.index(spark, str(tmp_path / "rates"), synopses="mode=values")

    def joined():
        facts, dimension = sidestep.read(spark, table), sidestep.read(spark, str(tmp_path / "rates"))
        return facts.join(dimension, "mode").where("zone = 'near'")

    with switched_off(spark):
        expected = rows_of(joined())
    df = joined()
    assert rows_of(df) == expected
    assert len(expected) > 0
    assert min(scan.files for scan in sidestep.metrics(df).scans if "rates" not in scan.table) == 2


def test_blocks_of_a_table_that_is_laid_out_have_them_and_keep_them(spark, enabled, table, tmp_path):
    target = str(tmp_path / "laid-out")
    log = [f"SELECT * FROM t WHERE mode = '{mode}' AND price > 3" for mode in (*MODES, *MODES[1:3]) for _ in range(4)]
    report = sidestep.load(spark, table, target, name="t", log=log, min_size=40, budget="40kB")
    assert report.synopses["mode"].size(VALUES), "the log filters it"
    every = FILES * ROWS
    rows, metrics = checked_read(spark, target, "mode LIKE '%A%L'")
    assert 0 < rows <= metrics.rows < every / 2, "no feature answers that"
    more = write_file(tmp_path / "more" / "f.parquet", shipments(4, 200))
    sidestep.append(spark, target, spark.read.parquet(str(more)))
    rows, metrics = checked_read(spark, target, "mode LIKE '%E%A%'")
    assert (rows, metrics.rows) == (0, 0), "of new blocks as well"
    sidestep.optimize(spark, target)
    rows, metrics = checked_read(spark, target, "mode NOT IN ('AIR', 'TRUCK')")
    assert 0 < rows <= metrics.rows < (every + 200) / 2
    assert sidestep.status(spark, target).synopses["mode"].recipe == Recipe(values=report.synopses["mode"].size(VALUES))
