"""Synopses that are chosen for groups of partitions, and those that a load chooses by its log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import sidestep
from sidestep.store import open_index
from sidestep.synopsis.range_set import RANGE_SET
from tests.spark.tables import rows_of, switched_off

pytestmark = pytest.mark.spark

ROWS = 120


def clusters(rng: np.random.Generator) -> np.ndarray:
    """Ids from all over, in three clusters."""
    return np.sort(np.concatenate([np.arange(ROWS // 3) + start for start in rng.integers(0, 2**40, 3)]))


def files_kept(spark, path: str, id: int) -> int:
    """How many files a lookup reads, its answer checked against the one without skipping."""
    with switched_off(spark):
        expected = rows_of(sidestep.read(spark, path).where(f"id = {id}"))
    df = sidestep.read(spark, path).where(f"id = {id}")
    assert rows_of(df) == expected
    return sum(len(scan.paths) for scan in sidestep.metrics(df).scans)


def test_a_budget_is_shared_among_partitions(spark, enabled, tmp_path: Path):
    path, rng = str(tmp_path / "t"), np.random.default_rng(1)
    for region in range(8):
        for _ in range(2):
            ids = clusters(rng) if region >= 6 else np.sort(rng.choice(2 * ROWS, ROWS, replace=False))
            rows = pa.table({"id": pa.array(ids), "region": [f"r{region}"] * ROWS})
            write_deltalake(path, rows, mode="append", partition_by=["region"])
    status = sidestep.index(spark, path, budget=16 * 16)
    (line,) = status.synopses["id"].apart
    assert line.startswith("region=r6 and 1 other: range-set:")
    assert "others: none" in line
    recipe = open_index(path).recipes["id"]
    assert recipe.of((("region", "r7"),)).size(RANGE_SET) >= 3
    assert not recipe.of((("region", "r0"),))
    between = int(np.median(clusters(np.random.default_rng(9))))
    assert files_kept(spark, path, between) == 0
    assert files_kept(spark, path, 7) > 0
    more = pa.table({"id": pa.array(clusters(rng)), "region": ["r7"] * ROWS})
    other = pa.table({"id": pa.array(clusters(rng)), "region": ["new"] * ROWS})
    sidestep.append(spark, path, spark.createDataFrame(pa.concat_tables([more, other]).to_pandas()))
    index = open_index(path)
    assert index.recipes["id"] == recipe
    (held,) = index.held_synopses()
    assert held.blocks == 5, "the sparse ones, and the new one where they are"
    assert files_kept(spark, path, between) == 1, "a new partition has what most have: nothing, here"
    assert sidestep.index(spark, path).synopses["id"].held == (held,)


def test_a_load_chooses_synopses_by_its_log(spark, enabled, tmp_path: Path):
    source, target, log = tmp_path / "events", str(tmp_path / "out"), tmp_path / "log.sql"
    rng = np.random.default_rng(2)
    ids = np.concatenate([clusters(rng) for _ in range(40)])
    source.mkdir()
    pay = [rng.bytes(800) for _ in ids]
    table = pa.table({"id": pa.array(ids), "kind": [f"k{n % 3}" for n in range(len(ids))], "pay": pay})
    pq.write_table(table, source / "f.parquet", row_group_size=len(ids))
    asked = rng.choice(ids, 30)
    log.write_text(";\n".join(f"SELECT max(pay) FROM events WHERE id = {id}" for id in asked))
    report = sidestep.load(spark, str(source), target, log=str(log), min_size=ROWS, num_features=0)
    chosen = report.synopses["id"]
    assert chosen.widest
    assert "kind" not in report.synopses
    assert f"synopses beside zone maps: id {sidestep.synopsis.recipe.recipe_text(chosen)}" in str(report)
    assert report.to_dict()["synopses"] == {"id": chosen.to_json()}
    assert "synopses" in {stage.name for stage in report.stages}
    index = open_index(target)
    assert index.recipes == {"id": chosen}
    assert "id" in index.rates
    inside = int(ids.max() // 2)
    explained = sidestep.explain(sidestep.read(spark, target).where(f"id = {inside}"))
    named = {reason.synopsis for reason in explained.scans[0].reasons if reason.row_groups}
    assert named & {"range-set", "Bloom filter", "global range table"}
    given = sidestep.load(spark, target, name="events", log=str(log), num_features=0, synopses="none")
    assert given.synopses == {}, "what is given takes the place of the choice"
