"""What a feature says holds under the settings that it was loaded with: under others, nothing is skipped on it.

Expressions read settings of the session that no plan shows. A table is laid out by features under one value of each
setting and asked the same questions under another: with skipping on as with it off.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sidestep
from sidestep.predicate.nodes import Opaque, Predicate
from sidestep.prune import scan_filters
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.tables import changed_settings, checked_read, rows_of, settings, switched_off, write_file

ROWS = 400


@pytest.fixture(scope="module")
def source(spark, tmp_path_factory) -> str:
    """Rows of many types, shuffled so that no zone map tells them apart."""
    root = str(tmp_path_factory.mktemp("source") / "t")
    spark.sql(
        f"""
        SELECT k, CAST(k AS STRING) AS s, k % 7 AS n, CAST(k AS DOUBLE) / 4 AS d, CAST(k AS DECIMAL(20, 4)) AS c,
               CASE WHEN k % 2 = 0 THEN array(k, CAST(NULL AS BIGINT)) ELSE array(k) END AS a,
               IF(k % 3 = 0, NULL, array(k)) AS e,
               map(concat('a', k % 5), k, 'b', CAST(NULL AS BIGINT)) AS m,
               CAST(concat('x', k % 3) AS BINARY) AS b,
               DATE'2024-01-31' + CAST(k AS INT) AS day
        FROM (SELECT (id * 7919) % {ROWS} AS k FROM range({ROWS}))
        """
    ).coalesce(1).write.parquet(root)
    return root


def read_predicates(spark: SparkSession, root: str, condition: str) -> tuple[Predicate, ...]:
    """What a filter says of the table in this session, conditions that Catalyst adds aside."""
    with settings(spark, spark__sql__constraintPropagation__enabled="false"):
        plan = spark.read.parquet(root).filter(condition)._jdf.queryExecution().optimizedPlan()
        (place,) = scan_filters(read_plan(Bridge(spark).factory().describe(plan)))
        return place.conjuncts


def load(spark: SparkSession, source: str, target: Path, conditions: list[str]) -> str:
    features = [Feature(read_predicates(spark, source, condition)) for condition in conditions]
    sidestep.load(spark, source, str(target), features=FeatureSet("t", tuple(features)), min_size=20)
    return str(target)


CASES = {
    "castComplexTypesToString.enabled": [
        "CAST(struct(k) AS STRING) LIKE '[5%'",
        "CAST(struct(k) AS STRING) LIKE '{5%'",
        "CAST(m AS STRING) LIKE '{a3%'",
        "CAST(a AS STRING) LIKE '%null%'",
    ],
    "truncateForEmptyRegexSplit": [
        "element_at(split(s, '', 2), -1) LIKE '12%'",
        "element_at(split(s, '', 2), -1) = '1'",
    ],
    "sizeOfNull": ["size(e) < 0"],
    "negativeIndexInArrayInsert": ["element_at(array_insert(array(k, k + 1), -1, 0L), 2) = 0"],
}
CONDITIONS = [condition for conditions in CASES.values() for condition in conditions]
USUAL = {"castComplexTypesToString.enabled": "false", "truncateForEmptyRegexSplit": "false", "sizeOfNull": "true",
         "negativeIndexInArrayInsert": "false"}  # fmt: skip
OTHER = {name: "FALSE" if value == "true" else "TRUE" for name, value in USUAL.items()}


def legacy(spark: SparkSession, values: dict[str, str]):
    named = {f"spark.sql.legacy.{name}": value for name, value in values.items()}
    return changed_settings(spark, {**named, "spark.sql.ansi.enabled": "false"})


@pytest.mark.parametrize("loaded", [USUAL, OTHER], ids=["defaults", "legacy"])
def test_a_feature_counts_only_under_the_settings_it_was_loaded_with(spark, source, tmp_path, enabled, loaded):
    other = OTHER if loaded is USUAL else USUAL
    with legacy(spark, loaded):
        root = load(spark, source, tmp_path / "t", CONDITIONS)
        read = [checked_read(spark, root, condition)[1].rows for condition in CONDITIONS]
    assert min(read) < ROWS / 10  # as long as the settings are the same
    matching = 0
    for name, conditions in CASES.items():
        with legacy(spark, {**loaded, name: other[name]}):
            for condition in conditions:
                rows, metrics = checked_read(spark, root, condition)
                matching += rows
                assert metrics.rows == ROWS
            said = str(sidestep.explain(sidestep.read(spark, root).where(conditions[0])))
            assert f"spark.sql.legacy.{name}=" in " ".join(said.split())
    assert matching > 100  # which the features said are in no block


def depends(spark: SparkSession, root: str, condition: str = "CAST(struct(k) AS STRING) > 'a'") -> str:
    (opaque,) = read_predicates(spark, root, condition)
    assert isinstance(opaque, Opaque)
    assert opaque.depends is not None
    # Versions other than the newest are told apart; that is no setting.
    return opaque.depends.partition("|")[2].removesuffix(f"|spark={spark.version}")


PLAIN = "UTC|ansi=true|case=false|parser=CORRECTED"
COUNTING = {
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.charAsVarchar": "true",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.LikeSimplification",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.legacy.nullInEmptyListBehavior": "true",
    "spark.sql.somebody.elses": "a|b",
}
HARMLESS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.cbo.enabled": "true",
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.catalog.mine": "org.example.Catalog",
    "spark.sidestep.induced": "false",
    # As they are without being set, however they are spelled.
    "spark.sql.legacy.sizeOfNull": "TRUE",
    "spark.sql.mapKeyDedupPolicy": "exception",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
}


def test_settings_that_change_values_are_part_of_an_identity_and_no_others(spark, source):
    assert depends(spark, source) == PLAIN
    for name, value in COUNTING.items():
        with changed_settings(spark, {name: value}):
            assert depends(spark, source) == f"{PLAIN}|{name}={value.replace('|', chr(92) + 'p')}"
    with changed_settings(spark, COUNTING):
        assert depends(spark, source).count("|spark.sql.") == len(COUNTING)
    with changed_settings(spark, HARMLESS):
        assert depends(spark, source) == PLAIN


def moments(*years: int) -> list[datetime]:
    return [datetime(year, 1, 1) for year in years]


FILES: dict[str, tuple[tuple[str, str], pa.DataType, list[list[Any]], list[str]]] = {
    "spark.sql.parquet.binaryAsString": (
        ("true", "false"),
        pa.binary(),
        [[b"a", b"b"], [b"m", b"n"], [b"\xff\x01", b"\xc3\xa9"]],
        ["v = 'a'", "CAST(v AS BINARY) > X'6e'", "CAST(v AS STRING) >= 'n'"],
    ),
    "spark.sql.parquet.datetimeRebaseModeInRead": (
        ("LEGACY", "CORRECTED"),
        pa.date32(),
        [[date(1000, 1, 1), date(1001, 1, 1)], [date(1582, 10, 4)], [date(2020, 1, 1)]],
        ["v = DATE'1000-01-01'", "v > DATE'1001-01-01' AND v < DATE'1001-01-30'", "v > DATE'2019-01-01'"],
    ),
    "spark.sql.parquet.inferTimestampNTZ.enabled": (
        ("true", "false"),
        pa.timestamp("us"),
        [moments(1000, 1001), moments(1850), moments(2020, 2021)],
        ["v = TIMESTAMP_NTZ'2020-01-01 00:00:00'", "v > TIMESTAMP'2020-12-31 23:00:00'", "v < TIMESTAMP'1500-01-01'"],
    ),
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": (
        ("true", "false"),
        pa.struct([("x", pa.int32())]),
        [[{"x": 1}, None], [{"x": None}], [{"x": 2}]],
        ["v IS NULL", "v.x IS NULL", "v.x = 1"],
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore:Column v is indexed as:sidestep.SidestepWarning")
def test_an_index_holds_however_a_session_reads_the_files(spark, tmp_path, name):
    values, kind, parts, conditions = FILES[name]
    for built in values:
        root = tmp_path / built
        for at, part in enumerate(parts):
            write_file(root / f"f{at}.parquet", pa.table({"v": pa.array(part, kind)}))
        with changed_settings(spark, {name: built}):
            sidestep.index(spark, root)
        for asked in values:
            # A column that is read as another type than it was indexed as is warned of, so this is not the fixture.
            with changed_settings(spark, {name: asked}), sidestep.enable(spark):
                for condition in conditions:
                    with switched_off(spark):
                        expected = rows_of(spark.read.parquet(str(root)).where(condition))
                    frame = spark.read.parquet(str(root)).where(condition)
                    assert rows_of(frame) == expected, (built, asked, condition)
