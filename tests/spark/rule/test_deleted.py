"""What was skipped is deleted, and the query runs again with sidestep on, through the old listing and a new one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sidestep
from tests.spark.tables import data_files, write_file

CONDITIONS = [
    "id BETWEEN 12 AND 17",
    "s LIKE 'k02%' OR id = 44",
    "NOT (id >= 10)",
    "n IS NULL AND id > 30",
    "x > 2.5 AND id < 40",
    "p = 1 OR id = 55",
    "reverse(s) = '510k'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_query_does_not_miss_what_it_skipped(spark, enabled, tmp_path, condition):
    root = tmp_path / "t"
    for file in range(6):
        ids = range(10 * file, 10 * file + 10)
        data = {
            "id": pa.array(ids, pa.int64()),
            "s": [f"k{i:03d}" for i in ids],
            "n": pa.array([None if i == 35 else i for i in ids], pa.int32()),
            "x": [float("nan") if i == 31 else i / 10 for i in ids],
        }
        write_file(root / f"p={file % 2}" / f"f{file}.parquet", data)
    sidestep.index(spark, str(root))
    df = spark.read.parquet(str(root))
    before = df.where(condition)
    expected = sorted(row["id"] for row in before.collect())
    read = {Path(path) for scan in sidestep.metrics(before).scans for path in scan.paths}
    for path in set(data_files(root)) - read:
        path.unlink()
    assert sorted(row["id"] for row in df.where(condition).collect()) == expected
    assert sorted(row["id"] for row in spark.read.parquet(str(root)).where(condition).collect()) == expected
