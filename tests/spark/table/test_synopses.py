"""Synopses that know the gaps, made by the jobs: what they skip, by whom, and the same answers as without."""

from __future__ import annotations

import datetime
import functools
import math
import random
import warnings
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import sidestep
from sidestep.errors import SidestepError, SidestepWarning
from sidestep.spark.table import index as collect
from sidestep.store import compact, open_index, read_snapshot
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipe, recipe_text
from tests.spark.tables import data_files, rows_of, settings, switched_off, write_file

RECIPE_OF = {
    "range-set": Recipe(range_set=8),
    "gap histogram": Recipe(gap_histogram=64),
    "Bloom filter": Recipe(bloom=4096),
    "global range table": Recipe(grt=64),
    "value set": Recipe(values=256),
}
ALL = Recipe(range_set=4, gap_histogram=4, bloom=256, grt=64, values=64)
FILES = 4


def collected(spark, folder, **options):
    """The collect job alone, with the recipes that it is told."""
    snapshot = read_snapshot(folder)
    types = collect.column_types(spark, snapshot, str(folder), None)
    return collect.index_snapshot(spark, snapshot, types, open_index(folder), **options)


def ids(number: int) -> list[int]:
    """From 0 to a million, with two clusters of its own between."""
    return [0, *range(1000 * number, 1000 * number + 20), *range(50_000 * number, 50_000 * number + 20), 1_000_000]


def text(id: int) -> str:
    return f"https://example.org/customers/of/the/north/{id:09d}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "t"
    for number in range(1, FILES + 1):
        write_file(root / f"f{number}.parquet", {"id": ids(number), "name": [text(id) for id in ids(number)]})
    return root


def files_read(spark, root: Path, condition: str) -> list[str]:
    """The files that a query reads, its answer checked against the one without skipping."""
    with switched_off(spark):
        expected = rows_of(spark.read.parquet(str(root)).where(condition))
    df = spark.read.parquet(str(root)).where(condition)
    assert rows_of(df) == expected
    (scan,) = sidestep.metrics(df).scans or (None,)
    return sorted(Path(path).stem for path in scan.paths) if scan is not None else []


@pytest.mark.parametrize("kind", RECIPE_OF)
def test_a_value_inside_a_gap_reads_nothing(spark, enabled, folder, kind):
    every = [f"f{number}" for number in range(1, FILES + 1)]
    collected(spark, folder, recipes={})
    assert files_read(spark, folder, "id = 777777") == every, "zone maps know only the ends"
    collected(spark, folder, recipes={"id": RECIPE_OF[kind], "name": RECIPE_OF[kind]})
    assert files_read(spark, folder, "id = 777777") == []
    assert files_read(spark, folder, "id IN (777777, 2005)") == ["f2"]
    assert files_read(spark, folder, f"name IN ('{text(777777)}', '{text(150001)}')") == ["f3"]
    asked = every if kind == "Bloom filter" else ["f2"]
    assert files_read(spark, folder, "id > 80000 AND id < 140000") == asked, "conditions on a column are one range"
    explained = sidestep.explain(spark.read.parquet(str(folder)).where("id = 777777"))
    assert [(reason.synopsis, reason.files) for reason in explained.scans[0].reasons] == [
        ("zone map", 0),
        (kind, FILES),
    ]
    assert f"{kind} skips 4 files" in str(explained)


def test_new_files_get_them_without_being_told_and_foreign_ones_are_read(spark, enabled, folder):
    collected(spark, folder, recipes={"id": ALL}, rates={"id": 0.1})
    write_file(folder / "g.parquet", {"id": [-5, 600_000, 2_000_000], "name": ["a", "b", "c"]})
    assert files_read(spark, folder, "id = 777777") == ["g"], "unknown"
    collected(spark, folder)
    assert files_read(spark, folder, "id = 777777") == []
    assert files_read(spark, folder, "id = 600000") == ["g"]
    assert files_read(spark, folder, "id > 1000000") == ["g"]
    index = open_index(folder)
    assert index.recipes == {"id": ALL}
    assert index.rates == {"id": 0.1}
    for table in (folder / "_sidestep").glob("_grt-*"):
        table.unlink()
    assert files_read(spark, folder, "id = 777777") == [], "it was read before"
    write_file(folder / "h.parquet", {"id": [777_000, 778_000], "name": ["a", "b"]})
    collected(spark, folder)
    assert files_read(spark, folder, "id = 777777") == [], "and is made anew"


def test_the_bits_of_one_table_skip_files_of_another(spark, enabled, tmp_path):
    """Each file of the origin has its ids in far-apart places: ranges of as many bytes induce nothing."""
    origin, partner = tmp_path / "origin", tmp_path / "partner"
    rng = random.Random(2)
    for number in range(6):
        places = [0, *rng.sample(range(2, 40, 2), 8), 40]
        data = {"id": [100 * place + n for place in places for n in range(3)], "kind": [number // 3] * 30}
        write_file(origin / f"f{number}.parquet", data)
    for place in range(41):
        write_file(partner / f"p{place:02d}.parquet", {"id": [100 * place + 1, 100 * place + 2], "x": [place, None]})
    sidestep.index(spark, partner, synopses="none")
    query = f"SELECT * FROM parquet.`{origin}` JOIN parquet.`{partner}` USING (id) WHERE kind = 0"
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
        used = {row.id // 100 for row in spark.sql(query).collect()}
    assert expected
    read = {}
    for recipe in ("range-set:2", "grt:256"):
        sidestep.index(spark, origin, synopses={"id": recipe})
        # As where the origin is too large to be read for this, or to wait for.
        with settings(spark, spark__sidestep__stages__selectors="false", spark__sidestep__induced__smallRows="0"):
            df = spark.sql(query)
            assert rows_of(df) == expected
        (scan,) = (each for each in sidestep.metrics(df).scans if "partner" in str(each.paths))
        read[recipe] = {int(Path(path).stem[1:]) for path in scan.paths}
    assert read["range-set:2"] == set(range(41))
    assert read["grt:256"] == used
    # A file that came later is unknown: everything may be in it, until it is indexed by the table that there is.
    write_file(origin / "g.parquet", {"id": [101, 5_000], "kind": [0, 0]})
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    for indexed in (False, True):
        if indexed:
            sidestep.index(spark, origin)
        assert rows_of(spark.sql(query)) == expected


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ratio", pa.float64()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(12, 2)),
        ("vast", pa.decimal128(38, 4)),
        ("name", pa.string()),
        ("raw", pa.binary()),
    ]
)
RATIOS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-300, 1.5, 1e300, None]
DAY = datetime.date(1994, 1, 1)
MOMENT = datetime.datetime(1994, 1, 1, tzinfo=datetime.UTC)


def rows(seed: int, count: int) -> list[dict[str, object]]:
    """Values far apart and near each other, extremes and NULLs among them."""
    chance = random.Random(seed)
    far = [-(2**63), 2**63 - 1, *(chance.randrange(-(2**62), 2**62) for _ in range(3))]
    found = []
    for number in range(count):
        step = chance.choice([0, 1, 2, 3, 4000 * seed, 8000 + number])
        found.append(
            {
                "id": chance.choice([*far, *range(100 * seed, 100 * seed + 9), None]),
                "ratio": chance.choice([*RATIOS, seed + step / 8]),
                "day": chance.choice([None, DAY + datetime.timedelta(days=step)]),
                "moment": chance.choice([None, MOMENT + datetime.timedelta(seconds=step * seed)]),
                "price": chance.choice([None, Decimal(step) / 4]),
                "vast": chance.choice([None, Decimal(step * 10**22), Decimal(-step)]),
                "name": chance.choice([None, "", text(step), "x" * 100 + str(step)]),
                "raw": chance.choice([None, b"", b"\xff" * 9, bytes([seed, step % 256])]),
            }
        )
    return found


CONDITIONS = (
    "id = 105",
    "id IN (102, 9223372036854775807, 5)",
    "ratio = 'NaN'",
    "ratio > 1e301",
    "ratio BETWEEN 2 AND 2.3",
    "day > DATE '1994-01-08' AND day < DATE '2004-01-01'",
    "moment = TIMESTAMP '1994-01-01 00:00:03Z'",
    "vast > 5 AND vast < 9000000",
    f"name = '{text(3)}'",
    f"name > '{'x' * 100}2' AND name < '{'x' * 100}4'",
    "raw = X'0203'",
    "NOT (id = 105 OR price > 1)",
    "id IS NULL AND day = DATE '1994-01-02'",
)


def answers(spark, root: Path) -> DataFrame:
    """Each condition on a scan of its own, in one query."""
    scans = [sidestep.read(spark, str(root)).where(condition) for condition in CONDITIONS]
    tagged = [scan.withColumn("condition", f.lit(number)) for number, scan in enumerate(scans)]
    return functools.reduce(DataFrame.unionAll, tagged).coalesce(1)


def check(spark, root: Path) -> None:
    """The same answers with and without skipping."""
    found = rows_of(answers(spark, root))
    with switched_off(spark):
        assert found == rows_of(answers(spark, root))


RECIPES = dict.fromkeys(SCHEMA.names, ALL)


def test_a_table_with_all_of_them_through_its_life(spark, enabled, tmp_path):
    root = tmp_path / "t"
    for seed in range(1, 7):
        write_deltalake(str(root), pa.Table.from_pylist(rows(seed, 40), schema=SCHEMA), mode="append")
    sidestep.load(spark, str(root), synopses=recipe_text(ALL), min_size=20)
    check(spark, root)
    (scan,) = sidestep.explain(sidestep.read(spark, str(root)).where("id = 105")).scans
    beyond = [reason.row_groups or 0 for reason in scan.reasons if reason.synopsis != "zone map"]
    assert sum(beyond) > 0, "blocks that zone maps cannot rule out are passed over"
    new = spark.createDataFrame(pa.Table.from_pylist(rows(9, 30), schema=SCHEMA))
    sidestep.append(spark, str(root), new)
    assert open_index(root).recipes == RECIPES
    sidestep.update(spark, str(root), {"id": "id + 7", "ratio": "-ratio"}, "id BETWEEN 300 AND 303")
    sidestep.delete(spark, str(root), "price = 0.5")
    assert sidestep.optimize(spark, str(root), all=True).rows == 30
    check(spark, root)
    index = compact(open_index(root), read_snapshot(root), always=True)
    for name, kind in (("id", "range_set"), ("name", "bloom"), ("vast", "gap_histogram"), ("day", "grt")):
        found = index.reader().arrays(name, index.columns[name], KINDS[kind])
        assert found is not None
        assert next(iter(found.values())).null_count == 0, "every block has it, whoever wrote it"
    write_deltalake(
        str(root),
        pa.Table.from_pylist(rows(10, 30), schema=SCHEMA).append_column("_block", pa.nulls(30, pa.int32())),
        mode="append",
    )
    for table in (root / "_sidestep").glob("_grt-*"):
        table.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidestepWarning)
        sidestep.append(spark, str(root), new)
        check(spark, root)


def test_a_load_keeps_what_its_source_had(spark, enabled, folder, tmp_path):
    collected(spark, folder, recipes={"id": ALL, "name": Recipe(bloom=1024)})
    sidestep.load(spark, str(folder), str(tmp_path / "new"), min_size=20)
    index = open_index(tmp_path / "new")
    assert index.recipes == {"id": ALL, "name": Recipe(bloom=1024)}
    df = sidestep.read(spark, str(tmp_path / "new")).where("id = 777777")
    assert (df.collect(), sidestep.metrics(df).rows) == ([], 0)
    assert data_files(tmp_path / "new")


def test_columns_that_are_not_there_are_refused_in_a_sentence(spark, folder, tmp_path):
    with pytest.raises(SidestepError, match="Column nothing cannot have synopses"):
        collected(spark, folder, recipes={"nothing": ALL})
    with pytest.raises(SidestepError, match="no column nothing to give a synopsis to"):
        sidestep.load(spark, str(folder), str(tmp_path / "new"), synopses={"nothing": "bloom"})
