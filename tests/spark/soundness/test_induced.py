"""Induced predicates on equal off: random schemas, random nested queries, and the skipped files deleted."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings

import sidestep
from tests.spark.tables import data_files, files_read, rows_of, switched_off, with_only
from tests.spark.tables import settings as spark_settings
from tests.spark.worlds import World, make_world, random_query

WORLDS, QUERIES = 4, 12


def show(spark, world: World, folders: dict[str, str]) -> None:
    for name, folder in folders.items():
        schema = spark.read.parquet(str(world.roots[name])).schema
        spark.read.schema(schema).parquet(folder).createOrReplaceTempView(name)


def check(spark, world: World, query: str) -> tuple[bool, bool, bool]:
    """Whether the query had a result, whether files were skipped, and whether induced predicates skipped any."""
    whole = {name: str(root) for name, root in world.roots.items()}
    show(spark, world, whole)
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    with sidestep.enable(spark) as state:
        df = spark.sql(query)
        assert rows_of(df) == expected, query
        read = {path for scan in sidestep.metrics(df).scans for path in scan.paths}
        with spark_settings(spark, spark__sidestep__induced="false"):
            static = spark.sql(query)
            static.collect()
        assert state.last_problem == "", query
    left = {}
    for name, root in world.roots.items():
        every = {str(path) for path in data_files(root)}
        left[name] = str(with_only(root, every & read, root.with_name(f"{name}-left")))
    show(spark, world, left)
    try:
        with switched_off(spark):
            assert rows_of(spark.sql(query)) == expected, f"without the files that were skipped: {query}"
    finally:
        for folder in left.values():
            shutil.rmtree(folder)
    count, total = sum(map(len, files_read(df))), sum(map(len, files_read(static)))
    return bool(expected), len(read) < sum(len(data_files(root)) for root in world.roots.values()), count < total


def worlds() -> int:
    profile = hypothesis_settings.default
    assert profile is not None
    return max(1, WORLDS * profile.max_examples // 100)


@pytest.fixture(scope="module")
def tally(spark) -> Iterator[Counter[str]]:
    """What all cases amounted to: a soundness test that never skips anything proves nothing."""
    found: Counter[str] = Counter()
    yield found
    for name in [f"t{number}" for number in range(6)]:
        spark.catalog.dropTempView(name)
    if found["worlds"] == worlds():
        assert found["matching"] > found["cases"] / 5, found
        assert found["skipping"] > found["cases"] / 3, found
        assert found["induced"] > found["cases"] / 20, found


@pytest.mark.parametrize("number", range(worlds()))
def test_no_row_is_lost_and_none_invented_by_induced_predicates(spark, tally, tmp_path, number):
    rng = np.random.default_rng(1000 + number)
    world = make_world(rng, tmp_path)
    for root in world.roots.values():
        sidestep.index(spark, str(root), synopses="grt:16" if number % 2 else None)
    # Adaptive execution drops scans of its own accord; without it, what is read is what was planned.
    adaptive = str(number % 2 == 0).lower()
    with spark_settings(spark, spark__sql__shuffle__partitions="2", spark__sql__adaptive__enabled=adaptive):
        for _ in range(QUERIES):
            matching, skipping, induced = check(spark, world, random_query(rng, world))
            tally.update(cases=1, matching=matching, skipping=skipping, induced=induced)
    tally.update(worlds=1)
