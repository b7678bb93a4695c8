"""The queries of `soak`: each with a key, by which its answer without skipping is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sidestep
from bench.soak_tables import COLORS, DAYS, GrowingTable

Answer = Any
SQL = {
    "static": "SELECT count(*), sum(v), min(id) FROM facts WHERE day = {day} AND v < 900",
    "list": "SELECT count(*), sum(v) FROM facts WHERE day IN ({day}, {day} + 1, 999) AND NOT (color = 'red')",
    "join": "SELECT count(*), sum(v * w) FROM facts JOIN parts USING (k) WHERE kind = {kind}",
    "semi": "SELECT count(*), sum(v) FROM facts WHERE k IN (SELECT k FROM parts WHERE kind = {kind} AND w < 5)",
    "scalar": "SELECT count(*) FROM facts WHERE k < (SELECT min(k) FROM parts WHERE kind = {kind})",
    "anti": "SELECT count(*) FROM parts p WHERE kind = {kind} AND NOT EXISTS (SELECT 1 FROM facts f WHERE f.k = p.k)",
    "outer": "SELECT count(*), sum(w) FROM facts LEFT JOIN parts USING (k) WHERE day = {day}",
    "shared": "WITH c AS (SELECT k, v FROM facts WHERE day = {day}) SELECT count(*) FROM c a JOIN c b USING (k)",
    "union": "SELECT sum(n) FROM (SELECT v n FROM facts WHERE day = {day} UNION ALL SELECT k FROM parts WHERE k < 9)",
    "window": "SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY color ORDER BY id) r FROM facts WHERE day = {day})",
    "laid": "SELECT count(*), sum(v) FROM laid WHERE color = '{color}'",
    "laid join": "SELECT count(*), sum(w) FROM laid JOIN parts USING (k) WHERE color = '{color}' AND kind = {kind}",
    "cached": "SELECT count(*), sum(v) FROM warm WHERE v < {day} * 10",
}
"""Queries as SQL, by name; {day}, {kind} and {color} are drawn."""
FAILING = {
    "runtime": "SELECT sum(v / (day - {day})) FROM facts WHERE day = {day}",
    "analysis": "SELECT nothing FROM facts WHERE day = {day}",
    "parser": "SELECT FROM WHERE {day}",
}
SHARE = {
    "sql": 60,
    "frame": 12,
    "explain": 5,
    "metrics": 5,
    "fails": 4,
    "cache": 2,
    "session": 1,
    "growing": 10,
    "udf": 1,
}
"""How many of a hundred queries are of each kind."""
COMPARED = frozenset(SHARE) - {"explain", "fails", "growing", "udf"}
"""The kinds whose answer is known from before."""


@dataclass(frozen=True)
class Draw:
    """A query as it was drawn: what kind, which, and with what parameters."""

    kind: str
    name: str
    parameters: tuple[tuple[str, Any], ...]

    @property
    def sql(self) -> str:
        return (SQL | FAILING)[self.name].format(**dict(self.parameters))


def draw(chance: random.Random) -> Draw:
    kind = chance.choices(list(SHARE), list(SHARE.values()))[0]
    name = chance.choice(list(FAILING if kind == "fails" else SQL))
    if kind in ("frame", "cache", "growing", "session", "metrics"):
        name = "static"
    return Draw(kind, name, _parameters(chance.randrange(10)))


def _parameters(number: int) -> tuple[tuple[str, Any], ...]:
    return (("day", number * DAYS // 10), ("kind", number), ("color", COLORS[number % len(COLORS)]))


def answers(spark: SparkSession, queries: Iterable[Draw]) -> dict[Any, Answer]:
    """What these queries answer in a session in which nothing is skipped, by name and parameters."""
    asked = {(query.name, query.parameters): query for query in queries if query.kind in COMPARED}
    return {key: rows(spark.sql(query.sql)) for key, query in asked.items()}


def rows(df: DataFrame) -> Answer:
    return sorted(tuple(row) for row in df.collect())


class Client:
    """Runs queries in one session, and says of each whether its answer is right."""

    def __init__(
        self, spark: SparkSession, folder: Path, known: dict[Any, Answer], growing: tuple[GrowingTable, ...], on: bool
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.known = known
        self.growing = growing
        self.on = on
        register(spark, folder)

    def run(self, query: Draw) -> bool:
        """Whether a query answers as it does without skipping, or fails as it should."""
        kind: Callable[[Draw], bool] = getattr(self, f"_{query.kind}")
        return kind(query)

    def _is_right(self, query: Draw, df: DataFrame) -> bool:
        return bool(rows(df) == self.known[query.name, query.parameters])

    def _sql(self, query: Draw) -> bool:
        return self._is_right(query, self.spark.sql(query.sql))

    def _frame(self, query: Draw) -> bool:
        """The first query as a DataFrame over a fresh listing."""
        return self._is_right(query, self._static(dict(query.parameters)["day"]))

    def _static(self, day: int) -> DataFrame:
        read = self.spark.read.parquet(str(self.folder / "facts"))
        return read.where((f.col("day") == day) & (f.col("v") < 900)).agg(f.count("*"), f.sum("v"), f.min("id"))

    def _explain(self, query: Draw) -> bool:
        return bool(sidestep.explain(query.sql, self.spark).scans)

    def _metrics(self, query: Draw) -> bool:
        df = self._static(dict(query.parameters)["day"])
        files = sidestep.metrics(df).files
        return self._is_right(query, df) and (not self.on or files < DAYS)

    def _fails(self, query: Draw) -> bool:
        try:
            self.spark.sql(query.sql).collect()
        except PySparkException:
            return True
        return False

    def _cache(self, query: Draw) -> bool:
        df = self._static(dict(query.parameters)["day"]).cache()
        try:
            return self._is_right(query, df)
        finally:
            df.unpersist()

    def _session(self, query: Draw) -> bool:
        """A session of its own, in which sidestep is turned on and off."""
        other = self.spark.newSession()
        register(other, self.folder, views=("facts",))
        if not self.on:
            return self._is_right(query, other.sql(query.sql))
        with sidestep.enable(other):
            right = self._is_right(query, other.sql(query.sql))
        return right and self._is_right(query, other.sql(query.sql))

    def _growing(self, query: Draw) -> bool:
        """A table that others add to: what was there before the query is seen, and nothing half."""
        table = self.growing[dict(query.parameters)["kind"] % len(self.growing)]
        path, before = table.state()
        low = dict(query.parameters)["kind"] * 25
        answer = rows(sidestep.read(self.spark, path).where(f"n >= {low}").agg(f.count("*"), f.sum("n")))[0]
        now, after = table.state()
        if now != path:
            after = before + 1_000
        # The table may have one batch more than it says, on its way.
        return (answer[0], answer[1] or 0) in {table.expected(n, low) for n in range(before, after + 2)}

    def _udf(self, query: Draw) -> bool:
        """A function that no one has seen before, in a query that is planned and not run: workers are slow."""
        number = id(query)
        even = f.udf(lambda v: (v + number) % 2 == 0, "boolean")
        df = self.spark.table("facts").where(f.col("day") == dict(query.parameters)["day"]).where(even("v"))
        return bool(df._jdf.queryExecution().optimizedPlan().resolved())


def register(spark: SparkSession, folder: Path, views: tuple[str, ...] = ("facts", "parts", "laid", "warm")) -> None:
    """The tables as views of a session; ``warm`` is cached by whoever runs a query on it first."""
    for name in views:
        if name != "warm":
            sidestep.read(spark, folder / name).createOrReplaceTempView(name)
    if "warm" in views:
        spark.table("facts").where("day < 8").cache().createOrReplaceTempView("warm")


def draws(seed: int, count: int) -> Iterator[Draw]:
    chance = random.Random(seed)
    for _ in range(count):
        yield draw(chance)
