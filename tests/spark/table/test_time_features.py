"""Features of time: tables that are asked for hours and weekdays are laid out by them, under one time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from tests.spark.tables import checked_read, rows_of, settings, switched_off, write_file

ROWS, MIN_SIZE = 12_000, 100
AIRPORTS = ("AMS", "BCN", "CDG", "DUB", "FRA", "LHR", "MAD", "ZRH")
MORNING = "hour(departure) BETWEEN 6 AND 8 AND origin = '{}'"
WEEKEND = "dayofweek(departure) IN (1, 7) AND delay > 60"
NIGHT = "CASE WHEN hour(departure) < 5 THEN 'night' WHEN hour(departure) < 20 THEN 'day' ELSE 'evening' END = 'night'"
ZONE = "UTC"


def flights(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    moments = [begin + timedelta(minutes=int(minute)) for minute in np.sort(rng.integers(0, 365 * 24 * 60, rows))]
    return pa.table(
        {
            "id": np.arange(rows) + 100_000 * seed,
            "departure": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "origin": [AIRPORTS[at] for at in rng.integers(0, len(AIRPORTS), rows)],
            "delay": rng.integers(0, 120, rows),
        }
    )


def log(queries: int = 60) -> list[str]:
    """Hours of some airports, weekends and nights, each with days that no other query asks for."""
    rng = np.random.default_rng(7)
    statements = []
    for number in range(queries):
        days = f"departure >= TIMESTAMP '2024-{1 + int(rng.integers(0, 12)):02d}-{1 + int(rng.integers(0, 28)):02d}'"
        condition = (MORNING.format(AIRPORTS[number % 2]), WEEKEND, NIGHT)[number % 3]
        statements.append(f"SELECT * FROM flights WHERE {condition}" + (f" AND {days}" if number % 4 == 0 else ""))
    return statements


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory) -> tuple[str, sidestep.LoadReport]:
    root = tmp_path_factory.mktemp("flights")
    write_file(root / "flights" / "f.parquet", flights(ROWS, 1))
    with settings(spark, spark__sql__session__timeZone=ZONE):
        report = sidestep.load(
            spark, str(root / "flights"), str(root / "laid-out"), log=log(), min_size=MIN_SIZE, synopses="none"
        )
    return str(root / "laid-out"), report


ASKED = [*(MORNING.format(airport) for airport in AIRPORTS[:2]), WEEKEND, NIGHT]


def test_hours_and_weekdays_become_features(table):
    features = " | ".join(table[1].features)
    for part in (
        "hour(departure) >= 6",
        "hour(departure) <= 8",
        "dayofweek(CAST(departure AS DATE)) IN (1, 7)",
        "CASE",
    ):
        assert part in features
    assert "TIMESTAMP" not in features, "days move on"


@pytest.mark.parametrize("condition", ASKED)
def test_later_queries_of_the_same_templates_read_less(spark, enabled, table, condition):
    with settings(spark, spark__sql__session__timeZone=ZONE):
        rows, metrics = checked_read(spark, table[0], condition)
        assert 0 < rows <= metrics.rows < ROWS / 3
        with_days = f"{condition} AND departure < TIMESTAMP '2024-05-17 13:00:00'"
        rows, metrics = checked_read(spark, table[0], with_days)
        assert 0 < rows <= metrics.rows < ROWS / 3


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "+05:30"])
def test_hours_of_another_time_zone_are_others(spark, enabled, table, zone):
    with settings(spark, spark__sql__session__timeZone=zone):
        for condition in (*ASKED, "hour(departure) = 7"):
            rows, metrics = checked_read(spark, table[0], condition)
            assert rows > 0
            by_hours = metrics.rows == ROWS or "origin" in condition or "delay" in condition
            assert by_hours, "nothing is skipped by hours of the other zone"
        said = " ".join(str(sidestep.explain(sidestep.read(spark, table[0]).where("hour(departure) <= 8"))).split())
        assert f"spark.sql.session.timeZone={ZONE}" in said
    with settings(spark, spark__sql__session__timeZone=ZONE):
        assert checked_read(spark, table[0], NIGHT)[1].rows < ROWS / 3, "as it was"


def test_rows_that_were_appended_under_another_time_zone_are_not_lost(spark, enabled, tmp_path):
    source, target = tmp_path / "flights", str(tmp_path / "laid-out")
    write_file(source / "f.parquet", flights(2_000, 1))
    with settings(spark, spark__sql__session__timeZone=ZONE):
        sidestep.load(spark, str(source), target, log=log(), min_size=MIN_SIZE, synopses="none")
    more = write_file(tmp_path / "more" / "f.parquet", flights(1_000, 2))
    with settings(spark, spark__sql__session__timeZone="Asia/Tokyo"):
        with pytest.warns(sidestep.SidestepWarning, match="left out: in this session it means something else"):
            sidestep.append(spark, target, spark.read.parquet(str(more)))
        for condition in ASKED:
            assert checked_read(spark, target, condition)[0] > 0
    with settings(spark, spark__sql__session__timeZone=ZONE):
        for condition in ASKED:
            assert checked_read(spark, target, condition)[0] > 0
        sidestep.optimize(spark, target)
        for condition in ASKED:
            assert checked_read(spark, target, condition)[0] > 0


def test_what_is_skipped_may_be_deleted(spark, enabled, tmp_path):
    source, target = tmp_path / "flights", tmp_path / "laid-out"
    write_file(source / "f.parquet", flights(4_000, 1))
    with settings(spark, spark__sql__session__timeZone=ZONE):
        sidestep.load(
            spark, str(source), str(target), log=log(), min_size=MIN_SIZE, file_bytes=4_000, synopses="origin=values"
        )
        condition = ASKED[0]
        with switched_off(spark):
            expected = rows_of(sidestep.read(spark, str(target)).where(condition))
        df = sidestep.read(spark, str(target)).where(condition)
        assert rows_of(df) == expected
        (scan,) = sidestep.metrics(df).scans
        every = {path.name for path in Path(target).rglob("*.parquet")}
        read = {Path(path).name for path in scan.paths}
        assert read < every
        for path in Path(target).rglob("*.parquet"):
            if path.name not in read:
                path.unlink()
        assert rows_of(sidestep.read(spark, str(target)).where(condition)) == expected
