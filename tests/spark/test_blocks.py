"""The blocks of a table as Arrow: what is said of each is what its rows hold."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sidestep
from tests.spark.tables import write_file

ROWS, GROUP = 600, 50


@pytest.fixture(scope="module")
def root(spark, tmp_path_factory):
    rng = np.random.default_rng(2)
    root = tmp_path_factory.mktemp("blocks") / "table"
    for number in range(2):
        numbers = np.sort(rng.integers(-1_000, 1_000, ROWS))
        table = pa.table(
            {
                "n": pa.array(numbers, pa.int32()),
                "day": pa.array([datetime.date(2024, 1, 1) + datetime.timedelta(int(n)) for n in numbers]),
                "price": pa.array([Decimal(int(n)) / 100 for n in numbers], pa.decimal128(9, 2)),
                "mode": pa.array([("AIR", "RAIL", "SHIP")[n % 3] if n > -900 else None for n in numbers.tolist()]),
                "x": pa.array(np.where(numbers > 900, np.nan, numbers / 7)),
                "flag": pa.array(numbers > 0),
            }
        )
        write_file(root / f"part-{number}.parquet", table, row_group_size=GROUP)
    sidestep.index(spark, str(root), synopses="mode=values:8,n=values:64,day=values:64,price=values:64")
    return root


def test_what_is_said_of_each_block_is_what_its_rows_hold(spark, root):
    found = sidestep.blocks(spark, str(root)).to_pylist()
    assert len(found) == 2 * ROWS // GROUP
    for number, row in enumerate(found):
        assert (row["block"], row["rows"]) == (number, GROUP)
        block = pq.ParquetFile(root / row["file"]).read_row_group(row["row_group"])
        for name in ("n", "day", "price", "mode", "flag"):
            values = block[name]
            ends = (
                pc.min_max(values).as_py()
                if name != "flag"
                else {"min": min(values.to_pylist()), "max": max(values.to_pylist())}
            )
            assert (row[f"min:{name}"], row[f"max:{name}"]) == (ends["min"], ends["max"]), name
            assert row[f"nulls:{name}"] == values.null_count
        for name in ("n", "day", "price", "mode"):
            assert row[f"values:{name}"] == sorted(set(block[name].drop_null().to_pylist())), name
        finite = [x for x in block["x"].to_pylist() if x == x]
        if finite:
            assert row["min:x"] <= min(finite)
            assert max(finite) <= row["max:x"]


def test_some_columns(spark, root):
    found = sidestep.blocks(spark, str(root), columns=["n"])
    assert {"min:n", "max:n", "nulls:n", "values:n"} <= set(found.column_names)
    assert not [name for name in found.column_names if name.endswith(":day")]
    assert found["feature_set"].null_count == found.num_rows, "it was not laid out"
    with pytest.raises(sidestep.SidestepError, match="no column nothing"):
        sidestep.blocks(spark, str(root), columns=["nothing"])


def test_a_table_that_was_laid_out_tells_features(spark, root, tmp_path):
    log = [f"SELECT * FROM table WHERE mode = '{mode}'" for mode in ("AIR", "RAIL") for _ in range(10)]
    report = sidestep.load(
        spark, str(root), str(tmp_path / "laid"), log=log, name="table", min_size=50, family="features"
    )
    found = sidestep.blocks(spark, str(tmp_path / "laid"), columns=["mode"])
    assert found.num_rows == report.blocks
    assert sorted(found["block_id"].to_pylist()) == list(range(report.blocks))
    data = pq.read_table([str(tmp_path / "laid" / path) for path in set(found["file"].to_pylist())])
    hidden = next(name for name in data.column_names if name.startswith("_"))
    for row in found.to_pylist():
        modes = set(data.filter(pc.equal(data[hidden], row["block_id"]))["mode"].to_pylist())
        for feature, bit in zip(report.features, row["union_vector"], strict=True):
            wanted = feature.split("'")[1]
            assert bit == (wanted in modes), "a bit is set where some row satisfies the feature"
            assert bit == (feature in row["features"])
