"""Random lives of tables in column groups: rows come, go and change, units and groups are made anew.

After each step the rows are those of a list that went through the same; queries give the same with skipping on and off,
and after the files are deleted that they skipped.
"""

from __future__ import annotations

import functools
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import sidestep
from sidestep.predicate import DOUBLE, LONG, STRING, column, compare
from sidestep.predicate.columns import columns_of
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.grouped import Laid, load_groups, parts_of
from tests.spark.tables import rows_of, switched_off

pytestmark = pytest.mark.spark
Row = dict[str, Any]
FIELDS: list[tuple[str, pa.DataType]] = [
    ("n", pa.int64()),
    ("x", pa.float64()),
    ("s", pa.string()),
    ("list", pa.list_(pa.int32())),
    ("struct", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ("b", pa.bool_()),
]
FEATURES = (
    Feature((compare(column("n", LONG), "<", 30),), weight=4),
    Feature((compare(column("x", DOUBLE), ">", 0.5),), weight=3),
    Feature((compare(column("s", STRING), "=", "s1"),), weight=2),
)
CONDITIONS = ("n < 30", "x > 0.8 AND n >= 50", "s = 's1' OR s IS NULL", "b AND x <= 0.3", "n BETWEEN 40 AND 45")
STEPS = 5


def value(name: str, chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return None
    match name:
        case "n":
            return chance.randrange(100)
        case "x":
            return chance.choice([chance.random(), float("nan"), -0.0])
        case "s":
            return f"s{chance.randrange(4)}"
        case "list":
            return [chance.randrange(9) for _ in range(chance.randrange(3))]
        case "struct":
            return {"a": chance.randrange(9), "b": None}
    return chance.random() < 0.5


def columns_of_feature(feature: Feature) -> set[str]:
    return {each.name for predicate in feature.predicates for each in columns_of(predicate)}


class Life:
    """A table and the list of its rows."""

    def __init__(self, spark: SparkSession, root: Path, chance: random.Random) -> None:
        self.spark, self.root, self.chance = spark, root, chance
        self.fields = FIELDS[: chance.randint(2, len(FIELDS))]
        self.names = [name for name, _ in self.fields]
        self.schema = pa.schema([("id", pa.int64()), *self.fields])
        self.next_id = 0
        self.rows = self.new_rows(chance.randint(40, 150))
        source = root.with_name("source")
        source.mkdir()
        pq.write_table(self.arrow(self.rows), source / "rows.parquet")
        self.types = StructType(list(spark.read.parquet(str(source)).schema))
        load_groups(
            spark,
            source,
            root,
            self.groups(),
            filtered=[name for name in ("n", "x", "s") if name in self.names],
            min_size=chance.choice([3, 10]),
            unit_rows=chance.choice([25, 60, 1000]),
        )

    def groups(self) -> list[Laid]:
        """Each column in one of a few groups, each group with features, an order and knowledge of its own."""
        names = ["id", *self.names]
        of = {name: self.chance.randrange(3) for name in names}
        known = [feature for feature in FEATURES if columns_of_feature(feature) <= set(names)]
        laid = []
        for number in sorted(set(of.values())):
            features = FeatureSet("rows", tuple(self.chance.sample(known, self.chance.randint(0, len(known)))))
            order = tuple(self.chance.sample([name for name in ("id", "n", "x", "s") if name in names], 1))
            beside = frozenset(name for name in names if self.chance.random() < 0.5)
            columns = tuple(name for name in names if of[name] == number)
            laid.append(Laid(columns, features, order, beside=self.chance.choice([beside, None])))
        return laid

    def new_rows(self, count: int) -> list[Row]:
        first, self.next_id = self.next_id, self.next_id + count
        return [{"id": first + at, **{name: value(name, self.chance) for name in self.names}} for at in range(count)]

    def arrow(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self.schema)

    def frame(self, rows: list[Row]) -> Any:
        return self.spark.createDataFrame(self.arrow(rows), self.types)

    def step(self) -> str:
        job = self.chance.choice([self.append, self.delete, self.update, self.merge, self.optimize])
        job()
        return job.__name__

    def append(self) -> None:
        rows = self.new_rows(self.chance.randint(1, 40))
        sidestep.append(self.spark, self.root, self.frame(rows))
        self.rows += rows

    def delete(self) -> None:
        low = self.chance.randrange(max(1, self.next_id))
        sidestep.delete(self.spark, self.root, f"id BETWEEN {low} AND {low + 20} AND (n > 20 OR n IS NULL)")
        self.rows = [r for r in self.rows if not (low <= r["id"] <= low + 20 and (r["n"] is None or r["n"] > 20))]

    def update(self) -> None:
        name, part = self.chance.choice(self.names), self.chance.randrange(5)
        # What is one text in SQL and in Python.
        new = {"n": 77, "x": 2.5, "s": "s1", "b": True, "list": None, "struct": None}[name]
        text = {"n": "77", "x": "2.5", "s": "'s1'", "b": "true"}.get(name, "NULL")
        sidestep.update(self.spark, self.root, {name: text}, f"id % 5 = {part}")
        self.rows = [{**row, name: new} if row["id"] % 5 == part else row for row in self.rows]

    def merge(self) -> None:
        known = self.chance.sample(self.rows, min(len(self.rows), 5))
        batch = [{**self.new_rows(1)[0], "id": row["id"]} for row in known] + self.new_rows(3)
        merge = sidestep.merge(self.spark, self.root, self.frame(batch), "target.id = source.id")
        merge.when_matched_delete("source.n > 50").when_matched_update().when_not_matched_insert().run()
        by_id = {row["id"]: row for row in batch}
        kept = [row for row in self.rows if row["id"] not in by_id]
        there = {row["id"] for row in self.rows}
        new = [r for r in batch if r["id"] not in there or r["n"] is None or r["n"] <= 50]
        self.rows = [*kept, *new]

    def optimize(self) -> None:
        sidestep.optimize(self.spark, self.root, all=True)

    def check(self, note: str) -> tuple[int, int]:
        """Rows are as they should be, whole and in queries; how many rows these read with skipping, and without."""
        expected = sorted(map(repr, self.arrow(self.rows).to_pylist()))
        stored = [{name: row[name] for name in self.schema.names} for row in parts_of(self.root)]
        assert sorted(map(repr, stored)) == expected, note
        asked = [condition for condition in CONDITIONS if self.known(condition)]
        chosen = [self.chance.sample(self.names, self.chance.randint(0, len(self.names))) for _ in (*asked, None)]
        with switched_off(self.spark):
            off = self.query(asked, chosen)
            right = rows_of(off)
        on = self.query(asked, chosen)
        assert rows_of(on) == right, note
        assert sum("branch=-1" in row for row in right) == len(self.rows), note
        return sidestep.metrics(on).rows, sidestep.metrics(off).rows

    def known(self, condition: str) -> bool:
        return all(name in self.names for name in re.findall(r"\b[nxsb]\b", condition))

    def query(self, asked: list[str], chosen: list[list[str]]) -> DataFrame:
        """One query that asks each question, and for all rows, of some columns each, as text."""
        frame = sidestep.read(self.spark, self.root)
        parts = []
        for number, (condition, columns) in enumerate(zip((*asked, "true"), chosen, strict=True)):
            texts = ", ".join(["id", *(f"coalesce(CAST(`{name}` AS STRING), '-')" for name in columns)])
            branch = -1 if number == len(asked) else number
            parts.append(frame.where(condition).selectExpr(f"{branch} AS branch", f"concat_ws(' ', {texts}) AS row"))
        return functools.reduce(DataFrame.unionAll, parts)

    def check_without_skipped(self) -> None:
        """A query gives the same after all files are gone that it did not read."""
        condition = next(one for one in ("n BETWEEN 40 AND 45", "x > 0.8") if self.known(one))
        frame = sidestep.read(self.spark, self.root).where(condition)
        right = rows_of(frame)
        read = {unquote(Path(path).name) for scan in sidestep.metrics(frame).scans for path in scan.paths}
        for path in (self.root / "_sidestep" / "groups").glob("_group=*/*.zstd.parquet"):
            if path.name not in read:
                path.unlink()
        assert rows_of(sidestep.read(self.spark, self.root).where(condition)) == right


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_random_life(spark, enabled, tmp_path, seed):
    chance = random.Random(seed)
    life = Life(spark, tmp_path / "table", chance)
    steps = ["load"]
    read, whole = life.check("load")
    for _ in range(STEPS):
        steps.append(life.step())
        more, all_rows = life.check(f"{seed}: {steps}")
        read, whole = read + more, whole + all_rows
    assert read < whole
    life.check_without_skipped()
