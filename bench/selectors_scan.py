"""Lineitem in ever more files for ``bench selectors``: what it costs a full scan that its files are numbered.

The query asks for all rows from the first day on, and the first day is a subquery's: only when it has run is it known
that every file is to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import sidestep
from bench.harness import Race, race
from bench.selectors_tpcds import set_for_now
from bench.tpcds_layout import plain_strings, write_cut
from bench.tpch import make_tpch
from bench.whole_folder import whole_folder

COUNTS = (42, 84, 169, 361)
"""Seven years by two months, months, two weeks and weeks (Table 2)."""

QUERY = "SELECT * FROM {lineitem} WHERE l_shipdate >= (SELECT min(day) FROM first_day)"
ONE, PLAIN, NUMBERED = "one file", "files", "files, numbered"


def make_lineitems(data: Path, sf: float, counts: list[int]) -> dict[int, Path]:
    """Lineitem in the order of ship dates, cut into each number of files, and the table that holds its first day."""
    targets = {count: Path(data) / f"tpch-sf{sf:g}-shipdate{count}" for count in counts}
    if all(target.is_dir() for target in targets.values()):
        return targets
    rows = plain_strings(pq.read_table(make_tpch(data, sf, 1) / "lineitem")).sort_by("l_shipdate")
    for count, target in targets.items():
        if not target.is_dir():
            with whole_folder(target) as folder:
                write_cut(folder / "lineitem", rows, count)
                write_cut(folder / "first_day", pa.table({"day": rows["l_shipdate"].slice(0, 1)}), 1)
    return targets


def scan_overhead(
    spark: SparkSession, data: Path, sf: float, counts: list[int], runs: int, say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """By number of files: the race of the three ways to read all of lineitem."""
    tables = make_lineitems(data, sf, [1, *counts])
    _view(spark, tables[1] / "first_day", "first_day")
    _view(spark, tables[1] / "lineitem", "lineitem_1")
    figures = {}
    with sidestep.enable(spark), set_for_now(spark, {"spark.sidestep.selectors.leastBytes": "0"}):
        for count in counts:
            name = f"lineitem_{count}"
            sidestep.index(spark, str(tables[count] / "lineitem"))
            _view(spark, tables[count] / "lineitem", name)
            check_numbered(spark, name, count)
            raced = race(
                {
                    PLAIN: lambda name=name: _scan(spark, name, False),  # type: ignore[misc]
                    NUMBERED: lambda name=name: _scan(spark, name, True),  # type: ignore[misc]
                    ONE: lambda: _scan(spark, "lineitem_1", False),
                },
                runs=runs,
            )
            figures[str(count)] = overhead(raced)
            say(f"{count} files: {raced.paired_ratio(NUMBERED):.3f} of the time without numbers")
    for name in ("first_day", "lineitem_1", *(f"lineitem_{count}" for count in counts)):
        spark.catalog.dropTempView(name)
    return figures


def overhead(raced: Race) -> dict[str, Any]:
    """In percent of the time that the same files take without numbers, and of the time that one file takes."""
    by_round = zip(raced[NUMBERED].seconds, raced[ONE].seconds, strict=True)
    ratios = sorted(mine / base for mine, base in by_round)
    return {
        "overhead_pct": round(100 * (raced.paired_ratio(NUMBERED) - 1), 2),
        "over_one_file_pct": round(100 * (ratios[len(ratios) // 2] - 1), 2),
        "seconds": {each.name: each.median for each in raced.timings},
        "spread_pct": round(100 * (max(raced[PLAIN].seconds) / min(raced[PLAIN].seconds) - 1), 1),
    }


def check_numbered(spark: SparkSession, name: str, files: int) -> None:
    """That a selector is there and chooses every file: nothing would be measured otherwise."""
    df = spark.sql(f"SELECT count(l_orderkey) FROM ({QUERY.format(lineitem=name)})")
    df.collect()
    plan = df._jdf.queryExecution().toString()
    read = {scan.table.rsplit("/", 1)[-1]: scan.files for scan in sidestep.metrics(df).scans}
    if "sidestep chooses" not in plan or read.get("lineitem") != files:
        raise sidestep.SidestepError(f"The files of {name} were not numbered and all read: {read}; {plan}")


def _view(spark: SparkSession, path: Path, name: str) -> None:
    spark.read.parquet(str(path)).createOrReplaceTempView(name)


def _scan(spark: SparkSession, name: str, on: bool) -> None:
    with set_for_now(spark, {"spark.sidestep.enabled": str(on).lower()}):
        spark.sql(QUERY.format(lineitem=name)).write.format("noop").mode("overwrite").save()
