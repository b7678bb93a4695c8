"""What is large: lists, texts, predicates, plans, columns, values, files, folders.

Each query answers the same with skipping on and off, what can be skipped is, and nothing goes wrong on the way: what is
too large to be looked into costs its own skipping, never the query. Sizes are a hundredth of what they are meant for;
``make load`` runs them in full, and prints how long each took with sidestep off and on.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sidestep
from tests.spark.tables import files_read, rows_of, settings, switched_off, write_file

SCALE = float(os.environ.get("LOAD_SCALE", "0.01"))
FILES = 10
ROWS = 100

pytestmark = pytest.mark.usefixtures("enabled")


def sized(full: int) -> int:
    return max(1, int(full * SCALE))


@pytest.fixture(scope="module")
def root(spark, tmp_path_factory) -> str:
    """Ten files f0, f1, … of the numbers from 0 to 999, in order."""
    folder = tmp_path_factory.mktemp("numbers")
    for number in range(FILES):
        a = np.arange(number * ROWS, (number + 1) * ROWS)
        write_file(folder / f"f{number}.parquet", {"a": a, "b": a % 7, "s": [f"v{each:06d}" for each in a]})
    sidestep.index(spark, folder)
    return str(folder)


@pytest.fixture
def numbers(spark, root):
    # Code for such expressions would be too long to compile, and Spark would try for minutes.
    with settings(spark, spark__sql__codegen__wholeStage="false", spark__sql__codegen__factoryMode="NO_CODEGEN"):
        spark.read.parquet(root).createOrReplaceTempView("numbers")
        yield "numbers"


def check(spark: SparkSession, make: Callable[[], DataFrame], *read: list[str]) -> DataFrame:
    """The query that ``make`` makes: the same rows on and off, and these files read by its scans."""
    began = time.perf_counter()
    with switched_off(spark):
        expected = rows_of(make())
    off = time.perf_counter() - began
    df = make()
    assert rows_of(df) == expected
    print(f"off {off:.2f} s, on {time.perf_counter() - began - off:.2f} s")
    if read:
        assert files_read(df) == list(read)
    return df


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("a IN ({numbers})", ["f3", "f4", "f5", "f6", "f7", "f8", "f9"]),
        ("s IN ({texts})", ["f3", "f4", "f5", "f6", "f7", "f8", "f9"]),
        ("a NOT IN ({numbers})", ["f0", "f1", "f2", "f3"]),
    ],
    ids=["numbers", "texts", "not in"],
)
def test_a_list_of_many_values(spark, numbers, condition, read):
    values = range(350, 350 + sized(100_000))
    text = condition.format(numbers=", ".join(map(str, values)), texts=", ".join(f"'v{v:06d}'" for v in values))
    check(spark, lambda: spark.sql(f"SELECT a FROM {numbers} WHERE {text}"), read)


@pytest.mark.parametrize("where", ["comment", "literal", "opaque"])
def test_a_text_of_megabytes(spark, numbers, tmp_path, where):
    long = "x" * sized(10_000_000)
    condition = {
        "comment": f"a < 50 /* {long} */",
        "literal": f"a < 50 AND s < '{long}'",
        "opaque": f"a < 50 AND concat(s, '{long}') <> 'v'",
    }[where]
    log = tmp_path / "log.jsonl"
    with sidestep.record(spark, log):
        df = check(spark, lambda: spark.sql(f"SELECT a FROM {numbers} WHERE {condition}"), ["f0"])
    assert [len(json.loads(line)["sql"]) <= 100_003 for line in log.read_text().splitlines()]
    assert len(sidestep.analyze(spark, str(log)).tables) == 1
    assert sidestep.explain(df).scans[0].files == sidestep.Amounts(FILES, 1)


@pytest.mark.parametrize(
    ("one", "joint", "read"),
    [
        ("a = {n}", " OR ", ["f0"]),
        ("(a = {n} AND b = {n} % 7)", " OR ", ["f0"]),
        ("(a > {n} AND a < {n} + 5)", " OR ", ["f0", "f1"]),
        ("(a <> {n} OR b = 9)", " AND ", None),
    ],
    ids=["points", "pairs", "ranges", "negations"],
)
def test_a_choice_of_many_conditions(spark, numbers, one, joint, read):
    """All within the first hundred numbers."""
    many = joint.join(one.format(n=n % 100) + f" /* {n} */" for n in range(sized(10_000)))
    check(spark, lambda: spark.sql(f"SELECT a FROM {numbers} WHERE {many}"), *([read] if read else []))


def nested(levels: int):
    condition = f.col("a") == 1
    for level in range(levels):
        condition = (condition | (f.col("a") == level)) & (f.col("b") < 5 + level)
    return condition


@pytest.mark.parametrize("levels", [20, 60, 90])
def test_conditions_within_each_other(spark, numbers, levels):
    """Beyond some depth they are not looked into, and what stands beside them still skips."""
    check(spark, lambda: spark.table(numbers).where("a < 150").where(nested(levels)).select("a"))
    df = spark.table(numbers).where("a < 150").where(nested(levels))
    assert sidestep.metrics(df).files <= 2


def deep(spark: SparkSession, table: str, rounds: int, below: str, above: str = "true") -> DataFrame:
    """Filters with a plan of three operators for each round between them: each limit is lower than those below it."""
    df = spark.table(table).where(below)
    for number in range(rounds):
        df = df.limit(9_000 - number).where(f"a <> {10_000 + number}")
    df = df.where(above)
    lines = str(df._jdf.queryExecution().optimizedPlan().toString()).splitlines()
    assert len(lines) >= 3 * rounds, "the optimizer has made it flat"
    return df


@pytest.mark.parametrize("rounds", [45, 170])
def test_a_deep_plan_skips_by_what_lies_deep_in_it(spark, numbers, rounds):
    scan = sidestep.explain(deep(spark, numbers, rounds, "a < 50")).scans[0]
    assert scan.files == sidestep.Amounts(FILES, 1)


def test_a_deep_plan_answers_as_before(spark, numbers):
    check(spark, lambda: deep(spark, numbers, 45, "a < 50"), ["f0"])


def test_nothing_is_skipped_deep_under_what_is_random(spark, numbers):
    df = deep(spark, numbers, 45, "a < 50").withColumn("r", f.monotonically_increasing_id())
    assert sidestep.explain(df).scans[0].files == sidestep.Amounts(FILES, FILES)


def test_what_is_above_a_cut_says_nothing_of_what_is_below(spark, numbers):
    """A filter above limits holds for no row below them."""
    df = deep(spark, numbers, 45, "b < 100", above="a < 50")
    assert sidestep.explain(df).scans[0].files == sidestep.Amounts(FILES, FILES)


def test_a_plan_of_many_inputs(spark, numbers):
    inputs = max(20, sized(500))

    def union() -> DataFrame:
        many = [spark.table(numbers).where(f"a = {number % 100}").select("a") for number in range(inputs)]
        every: DataFrame = functools.reduce(DataFrame.unionAll, many)
        return every.coalesce(1)

    assert sidestep.metrics(check(spark, union)).files == inputs


def test_a_common_table_expression_used_many_times(spark, numbers):
    uses = " UNION ALL ".join("SELECT sum(a) FROM c" for _ in range(max(20, sized(1_000))))
    check(spark, lambda: spark.sql(f"WITH c AS (SELECT a FROM {numbers} WHERE a < 50) {uses}").coalesce(1))


def test_a_chain_of_joins(spark, numbers):
    def chain() -> DataFrame:
        df: DataFrame = spark.table(numbers).where("a < 50").select("a")
        for number in range(max(10, sized(150))):
            other = spark.table(numbers).select(f.col("a").alias(f"a{number}"))
            df = df.join(f.broadcast(other), f.col("a") == f.col(f"a{number}"), "left")
        result: DataFrame = df.select("a")
        return result

    check(spark, chain)


def test_a_table_of_many_columns(spark, tmp_path):
    columns = max(100, sized(5_000))
    for number in range(2):
        table = pa.table({f"c{c}": np.arange(10) + number * 10 + c for c in range(columns)})
        write_file(tmp_path / f"f{number}.parquet", table)
    began = time.perf_counter()
    status = sidestep.index(spark, tmp_path)
    print(f"{columns} columns: indexed in {time.perf_counter() - began:.1f} s, {status.index_bytes:,} bytes")
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("wide")
    last = columns - 1
    check(spark, lambda: spark.sql(f"SELECT c0 FROM wide WHERE c{last} < {last + 5}"), ["f0"])
    every = " OR ".join(f"c{c} = {c + 15}" for c in range(0, columns, 50))
    check(spark, lambda: spark.sql(f"SELECT * FROM wide WHERE {every}"), ["f1"])
    sidestep.explain("SELECT * FROM wide WHERE c1 < 5", spark)


def test_values_of_megabytes(spark, tmp_path):
    size = sized(10_000_000)
    for number in range(3):
        write_file(tmp_path / f"f{number}.parquet", {"s": [chr(ord("a") + number) * size, None], "n": [number, number]})
    status = sidestep.index(spark, tmp_path)
    assert status.index_bytes < 100_000, "bounds are cut"
    df = spark.read.parquet(str(tmp_path))
    check(spark, lambda: df.where("s > 'bz'").select("n"), ["f2"])
    check(spark, lambda: df.where(f.col("s") == "b" * size).select("n"), ["f1"])


def test_a_table_of_many_folders(spark, tmp_path):
    folders = max(50, sized(10_000))
    first = write_file(tmp_path / "p=0" / "f.parquet", {"a": [1, 2, 3]})
    for number in range(1, folders):
        path = tmp_path / f"p={number}"
        path.mkdir()
        os.link(first, path / "f.parquet")
    sidestep.index(spark, tmp_path)
    df = spark.read.parquet(str(tmp_path))
    check(spark, lambda: df.where("p = 7 AND a < 3"), ["f"])
    check(spark, lambda: df.where("p < 20 AND a > 3"), [])
    roots = [str(tmp_path / f"p={number}") for number in range(folders)]
    check(spark, lambda: spark.read.parquet(*roots).where("a > 3"), [])


def test_a_table_of_many_files(spark, tmp_path):
    files = sized(100_000)
    sources = [write_file(tmp_path / "_sources" / f"s{n}.parquet", {"a": [n]}) for n in range(5)]
    for number in range(files):
        os.link(sources[number * 5 // files], tmp_path / f"f{number:06d}.parquet")
    began = time.perf_counter()
    sidestep.index(spark, tmp_path)
    print(f"{files} files: indexed in {time.perf_counter() - began:.1f} s")
    df = spark.read.parquet(str(tmp_path))
    check(spark, lambda: df.where("a = 3").groupBy("a").count())
    assert sidestep.metrics(df.where("a = 3")).files == files // 5
