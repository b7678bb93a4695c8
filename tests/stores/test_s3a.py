"""The whole life of a table on s3a://, by Spark's own S3A, against a server on 127.0.0.1 that fails at times."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import sidestep
from sidestep.prune.explain.explanation import Amounts
from tests.spark.tables import rows_of, switched_off
from tests.store.s3 import BUCKET, SECRET, Store, serving, sometimes

pytestmark = pytest.mark.stores
ROWS = 2_000


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with serving() as running:
        yield running


def hadoop_version() -> str:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


@pytest.fixture(scope="module")
def lake(store, tmp_path_factory) -> Iterator[SparkSession]:
    """A session that has the store's settings in its Hadoop configuration, and nowhere else."""
    if SparkContext._active_spark_context is not None:
        pytest.skip("another session runs in this process: make test-stores")
    home = tmp_path_factory.mktemp("stores")
    log = home / "log4j2.properties"
    log.write_text("rootLogger.level = off\n")
    options = {
        "spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{hadoop_version()}",
        "spark.driver.memory": "1g",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={log.as_uri()}",
        "spark.local.dir": str(home / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.pyspark.python": sys.executable,
        "spark.hadoop.fs.s3a.retry.throttle.interval": "10ms",
        "spark.hadoop.fs.s3a.retry.interval": "10ms",
        **{f"spark.hadoop.{name}": value for name, value in store.settings.items()},
    }
    builder: Any = SparkSession.builder.master("local[2]").appName("sidestep-stores")
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Exception as problem:
        pytest.skip(f"Spark did not start with {options['spark.jars.packages']}: {problem}")
    yield spark
    spark.stop()


def some_rows(spark: SparkSession, start: int, end: int):
    return spark.range(start, end).selectExpr("id", "id % 7 AS k", "cast(id % 100 AS string) AS s")


@pytest.fixture(scope="module")
def source(lake) -> str:
    path = f"s3a://{BUCKET}/source"
    some_rows(lake, 0, ROWS).repartitionByRange(4, "id").write.parquet(path)
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.sql"
    path.write_text("\n".join(f"SELECT * FROM source WHERE k = {k};" for k in range(7)))
    return str(path)


def check(spark: SparkSession, target: str, condition: str, expected: int) -> sidestep.Metrics:
    """The rows are the same with skipping on and off; what was read with it on."""
    found = rows_of(sidestep.read(spark, target).where(condition))
    with switched_off(spark):
        assert rows_of(sidestep.read(spark, target).where(condition)) == found
    assert len(found) == expected
    return sidestep.metrics(sidestep.read(spark, target).where(condition))


def test_a_folder_is_indexed_and_its_other_files_may_be_gone(lake, store, source):
    status = sidestep.index(lake, source)
    assert (status.root, status.indexed_files) == (source, 4)
    with sidestep.enable(lake):
        df = lake.read.parquet(source).where("id < 10")
        (scan,) = sidestep.explain(df).scans
        assert scan.files == Amounts(4, 1)
        expected = rows_of(df)
        (read,) = sidestep.metrics(df).scans
        assert read.files == 1
        again = lake.read.parquet(source).where("id < 10 AND k < 100")
        names = {path.rpartition("/")[2] for path in read.paths}
        kept = {key: store.client().get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in store.keys("source")}
        gone = [key for key in kept if key.endswith(".parquet") and key.rpartition("/")[2] not in names]
        assert len(gone) == 3
        assert again.columns == ["id", "k", "s"]  # it is analyzed: its files are listed
        for key in gone:
            store.client().delete_object(Bucket=BUCKET, Key=key)
        assert rows_of(again) == expected
        for key in gone:
            store.client().put_object(Bucket=BUCKET, Key=key, Body=kept[key])


@pytest.mark.parametrize("kind", ["", "slow down", "lost"])
def test_the_whole_life_of_a_table(lake, store, source, log, kind):
    target = f"s3a://{BUCKET}/life-{kind.replace(' ', '-')}"
    with sidestep.enable(lake), store.failing(sometimes(kind, 0.03 if kind else 0)) as failed:
        report = sidestep.load(lake, source, target, log=log, min_size=100)
        assert report.table == target
        read = check(lake, target, "k = 3", len(range(3, ROWS, 7)))
        assert read.rows < ROWS / 2
        sidestep.append(lake, target, some_rows(lake, ROWS, ROWS + 100))
        check(lake, target, "id >= 1990", 110)
        sidestep.delete(lake, target, "id < 5")
        sidestep.update(lake, target, {"s": "'changed'"}, "id = 10")
        batch = lake.range(11, 13).selectExpr("id", "id % 7 AS k", "'merged' AS s")
        sidestep.merge(lake, target, batch, "target.id = source.id").when_matched_update({"s": "source.s"}).run()
        sidestep.optimize(lake, target)
        check(lake, target, "s = 'changed'", 1)
        check(lake, target, "s = 'merged'", 2)
        vacuumed = sidestep.vacuum(target, hours=0, force=True)
        assert vacuumed.files
        check(lake, target, "true", ROWS + 95)
        assert sidestep.status(lake, target).root == target
    assert bool(failed) == bool(kind)


def test_secrets_are_written_nowhere(store):
    """After the tests above: neither in logs and indexes of tables, nor in their data."""
    client = store.client()
    keys = store.keys()
    assert any("_sidestep" in key for key in keys)
    for key in keys:
        assert SECRET.encode() not in client.get_object(Bucket=BUCKET, Key=key)["Body"].read(), key


def test_settings_of_the_session_and_of_the_bucket_count(lake, store, source):
    other = lake.newSession()
    other.conf.set("fs.s3a.bucket.lake.access.key", "another")
    other.conf.set("fs.s3a.bucket.lake.secret.key", "key")
    before = len(store.requests)
    assert sidestep.status(other, source).files == 4
    assert len(store.requests) > before
    assert sidestep.status(lake, source).files == 4
