"""Names of laid-out tables in a Hive metastore, which outlives the application that registered them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.tables import write_file

pytestmark = pytest.mark.long  # applications of their own
APPLICATION = """
import json, sys
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
import sidestep

home, table, step = sys.argv[1:]
options = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={home}/derby",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": f"{home}/warehouse",
    "spark.pyspark.python": sys.executable,
}
builder = SparkSession.builder.master("local[2]").config(map=options)
spark = builder.enableHiveSupport().getOrCreate()
few = "SELECT id FROM shop.t WHERE id < 5"
answers = [spark.conf.get("spark.sql.catalogImplementation")]
if step == "register":
    spark.sql("CREATE DATABASE shop")
    spark.sql(f"CREATE TABLE shop.plain USING parquet LOCATION '{table}'")
    sidestep.index(spark, "shop.plain")
    with sidestep.enable(spark):
        sidestep.register(spark, "shop.t", table)
        answers.append(sidestep.metrics(spark.sql(few)).files)
else:
    try:
        spark.sql(few).collect()
    except AnalysisException as problem:
        answers.append("sidestep_table" in str(problem))
    with sidestep.enable(spark):
        answers += [sorted(row.id for row in spark.sql(few).collect()), sidestep.metrics(spark.sql(few)).files]
        answers.append(sidestep.metrics(spark.sql(few.replace("shop.t", "shop.plain"))).files)
    spark.sql("DROP VIEW shop.t")
print(json.dumps(answers))
spark.stop()
"""


def run(home: Path, table: Path, step: str) -> list[object]:
    folder = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(folder / "src")))}
    command = [sys.executable, "-c", APPLICATION, str(home), str(table), step]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[object] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_a_registered_name_is_known_to_the_next_application(tmp_path):
    table = tmp_path / "data" / "t"
    for number in range(4):
        write_file(table / f"f{number}.parquet", {"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())})
    assert run(tmp_path, table, "register") == ["hive", 1]
    assert run(tmp_path, table, "next") == ["hive", True, [0, 1, 2, 3, 4], 1, 1]
