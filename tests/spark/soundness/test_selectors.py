"""Choosing at run time never changes an answer: random tables of folders, files and blocks, random joins, any plan."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sidestep
from tests.spark.laidout import lay_out
from tests.spark.tables import data_files, rows_of, switched_off, with_only, write_file
from tests.spark.tables import settings as spark_settings

WORLDS, QUERIES = 2, 14
START = datetime.date(2024, 2, 27)


def rows(random: Random, low: int, count: int) -> dict[str, list[Any]]:
    numbers = [low + random.randrange(8) for _ in range(count)]
    some = [None if random.random() < 0.1 else number for number in numbers]
    return {
        "k": some,
        "d": [None if number is None else START + datetime.timedelta(days=number) for number in some],
        "s": [None if random.random() < 0.1 else f"n{number:02d}" for number in numbers],
        "f": [float(random.choice([number, -0.0, float("nan")])) for number in numbers],
        "g": [random.randrange(5) for _ in numbers],
        "rid": [random.randrange(1 << 40) for _ in numbers],
    }


SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("d", pa.date32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("g", pa.int32()),
        ("rid", pa.int64()),
    ]
)


def make(spark, random: Random, root: Path, name: str) -> None:
    """A table in folders of two levels, in plain files, or laid out in blocks; some of its files have no entry."""
    count = random.randint(3, 9)
    tables = [pa.table(rows(random, 4 * number, random.randint(1, 12)), SCHEMA) for number in range(count)]
    kind = random.choice(["folders", "plain", "plain", "laid"])
    if kind == "laid":
        sidestep.index(spark, lay_out(root / name, [[tables[i], tables[i - 1]] for i in range(1, count)]))
        sidestep.read(spark, str(root / name)).createOrReplaceTempView(name)
        return
    late = random.randint(0, 1)
    for number, table in enumerate(tables):
        if number == count - late and late:
            sidestep.index(spark, str(root / name))
        day = random.choice(["__HIVE_DEFAULT_PARTITION__", "2024-03-01", "2024-03-02"])
        folder = root / name / f"day={day}" / f"region={random.randrange(3)}" if kind == "folders" else root / name
        write_file(folder / f"f{number}.parquet", table, row_group_size=4)
    if not late:
        sidestep.index(spark, str(root / name))
    spark.read.parquet(str(root / name)).createOrReplaceTempView(name)


def condition(random: Random, name: str) -> str:
    number = random.randrange(34)
    return random.choice(
        [
            f"{name}.g = {random.randrange(5)}",
            f"{name}.k > {number}",
            f"{name}.k IN ({number}, {number + 1}, {random.randrange(34)})",
            f"{name}.s LIKE 'n{random.randrange(4)}%'",
            f"{name}.d <= DATE '2024-03-0{random.randrange(1, 9)}'",
            f"({name}.g = 1 OR {name}.k IS NULL)",
        ]
    )


def query(random: Random) -> str:
    a, b, c = (random.choice(["t0", "t1", "t2"]) for _ in range(3))
    key, other = random.choice(["k", "d", "s", "f"]), random.choice(["k", "d", "s", "f"])
    kind = random.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    on = random.choice(
        [
            f"x.{key} = y.{key}",
            f"x.{key} = y.{key}",
            f"x.k = y.k + {random.randrange(3)}",
            "x.k BETWEEN y.k - 1 AND y.k",
            f"x.{key} = y.{key} AND x.{other} = y.{other}",
            f"x.{key} >= y.{key} AND x.g = y.g",
        ]
    )
    asked = condition(random, "y")
    inner = random.choice(
        [f"SELECT * FROM {b} y WHERE {asked}", f"SELECT * FROM {b} y WHERE {asked} ORDER BY k, d, s, f, g, rid LIMIT 3"]
    )
    inner = random.choice(
        [inner, inner, f"SELECT k, max(d) AS d, min(s) AS s, max(f) AS f, 1 AS g FROM {b} y GROUP BY k"]
    )
    match random.randrange(8):
        case 0:
            low = random.choice(["min", "max"])
            op = random.choice(["=", ">=", "<", "<="])
            return f"SELECT x.rid FROM {a} x WHERE x.{key} {op} (SELECT {low}(y.{key}) FROM {b} y WHERE {asked})"
        case 1:
            word = random.choice(["IN", "NOT IN"])
            return f"SELECT x.rid FROM {a} x WHERE x.{key} {word} (SELECT y.{key} FROM {b} y WHERE {asked})"
        case 2:
            both = f"SELECT k, d, s, f, g, rid FROM {a} UNION ALL SELECT k, d, s, f, g, rid FROM {c}"
            return f"SELECT x.rid FROM ({both}) x {kind} ({inner}) y ON {on}"
        case 3:
            grouped = f"SELECT k, d, s, f, max(g) AS g, count(*) AS rid FROM {a} GROUP BY k, d, s, f"
            return f"SELECT x.k, x.rid FROM ({grouped}) x {kind} ({inner}) y ON {on}"
        case 4:
            last = f"JOIN {c} z ON z.{key} = x.{key} AND {condition(random, 'z')}"
            return f"SELECT x.rid FROM {a} x {kind} ({inner}) y ON {on} {last}"
        case 5:
            either = f"x.{key} = (SELECT max({key}) FROM {c}) OR {condition(random, 'x')}"
            return f"SELECT x.rid FROM {a} x {kind} ({inner}) y ON {on} WHERE {either}"
        case 6:  # asked of both sides of the join, by copies of the same plan
            few = f"SELECT u.{key} FROM {b} u JOIN {c} w ON u.{key} = w.{key} AND {condition(random, 'w')}"
            return f"SELECT x.rid FROM {a} x JOIN {c} z ON x.{key} = z.{key} WHERE x.{key} IN ({few})"
        case _:
            return f"SELECT x.rid FROM {a} x {kind} ({inner}) y ON {on}"


@pytest.mark.parametrize("seed", range(WORLDS))
def test_answers_are_those_without_choosing(spark, tmp_path, seed):
    random = Random(seed)
    for number in range(3):
        make(spark, random, tmp_path, f"t{number}")
    chose = 0
    for number in range(QUERIES):
        text = query(random)
        plan = {
            "spark.sql.adaptive.enabled": random.choice(["true", "false"]),
            "spark.sql.autoBroadcastJoinThreshold": random.choice(["-1", "10485760", "10485760"]),
            "spark.sidestep.selectors.leastGain": random.choice(["0", "0", "4"]),
            "spark.sidestep.selectors.mostTouched": random.choice(["0.5", "1"]),
            "spark.sidestep.induced": random.choice(["true", "false", "false"]),
        }
        with spark_settings(spark, **{name.replace(".", "__"): value for name, value in plan.items()}):
            with switched_off(spark):
                expected = rows_of(spark.sql(text))
            with sidestep.enable(spark) as state:
                frame = spark.sql(text)
                assert rows_of(frame) == expected, (seed, number, text, plan)
                assert state.last_problem == ""
                found = sidestep.metrics(frame).scans
            chose += any(each.values is not None for scan in found for each in scan.selectors)
            _without_the_rest(spark, tmp_path, found, text, expected, number)
    assert chose > QUERIES // 6, "the test can see nothing if nothing is ever chosen"
    for number in range(3):
        spark.catalog.dropTempView(f"t{number}")


def _without_the_rest(spark, root: Path, scans, text: str, expected: list[str], number: int) -> None:
    """The same answer from a copy of each plain table that is read once, without the files that were not."""
    read = [scan.table.removeprefix("file:") for scan in scans]
    for scan in scans:
        folder = Path(scan.table.removeprefix("file:"))
        if read.count(str(folder)) > 1 or (folder / "_delta_log").exists() or not folder.is_relative_to(root):
            continue
        name = folder.name
        if (
            sum(text.count(f" {name} ") for _ in range(1)) != 1
            or len(scan.paths) == len(data_files(folder))
            or not scan.paths
        ):
            continue
        left = with_only(folder, scan.paths, root / f"left{number}")
        try:
            frame = spark.read.option("basePath", str(left)).schema(spark.table(name).schema).parquet(str(left))
            frame.createOrReplaceTempView(name)
            with switched_off(spark):
                assert rows_of(spark.sql(text)) == expected, (number, text)
        finally:
            spark.read.parquet(str(folder)).createOrReplaceTempView(name)
            shutil.rmtree(left)
