"""Intervals and times of each unit: their constants are written so that Spark reads the same value of the same type."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import DayTimeIntervalType, StructType, YearMonthIntervalType

import sidestep
from sidestep.predicate import Comparison, Literal, parse_type
from sidestep.predicate.text import literal_text
from sidestep.spark.log.statements import analyze_statements
from sidestep.workload.query import Statement
from tests.spark.tables import files_read, rows_of, settings, switched_off, write_file

UNITS = [YearMonthIntervalType(first, last) for first in range(2) for last in range(first, 2)] + [
    DayTimeIntervalType(first, last) for first in range(4) for last in range(first, 4)
]
MICROS = (86_400_000_000, 3_600_000_000, 60_000_000, 1)


def values(type: DayTimeIntervalType | YearMonthIntervalType) -> list[int]:
    if isinstance(type, YearMonthIntervalType):
        return [-24, 0, 36] if type.endField == 0 else [-14, 0, 7, 30]
    return [step * count for step in MICROS[type.startField : type.endField + 1] for count in (-2, 0, 1, 59)]


def test_a_constant_s_text_is_the_constant(spark):
    schema = StructType()
    for number, type in enumerate(UNITS):
        schema = schema.add(f"c{number}", type)
    wanted = [
        (f"SELECT 1 FROM t WHERE c{number} = {literal_text(value, kind)}", Literal(value, kind))
        for number, (type, kind) in enumerate((type, parse_type(type.simpleString())) for type in UNITS)
        for value in values(type)
    ]
    workload = analyze_statements(spark, [Statement(text) for text, _ in wanted], {"t": schema})
    assert not workload.failures
    for query, (text, constant) in zip(workload.queries, wanted, strict=True):
        found = {p.right for p in query.uses[0].predicates if isinstance(p, Comparison)}
        assert found == {constant}, text


@pytest.mark.filterwarnings("ignore:Column at is indexed as:sidestep.SidestepWarning")
@pytest.mark.parametrize("precision", [0, 3, 6])
def test_times_are_skipped_by_the_value_that_spark_reads(spark, enabled, tmp_path, precision):
    """Spark cuts a time to the precision it is read with, so that a file's own statistics are not what is compared."""
    if spark.version < "4.1":
        pytest.skip("Spark 4.0 has no times")
    if spark.version < "4.3" and precision != 6:
        pytest.skip("before Spark 4.3, times of two precisions cannot be compared")
    for number in range(3):
        half = datetime.time(10 + number, 0, 0, 500_000)
        write_file(tmp_path / "t" / f"f{number}.parquet", pa.table({"at": pa.array([half], pa.time64("us"))}))
    path = str(tmp_path / "t")
    with settings(spark, spark__sql__timeType__enabled="true", spark__sql__parquet__filterPushdown="false"):
        sidestep.index(spark, path)
        frame = spark.read.schema(f"at time({precision})").parquet(path)
        for condition in ("at = TIME '11:00:00'", "at <= TIME '11:00:00'", "at > TIME '11:30:00'"):
            with switched_off(spark):
                expected = rows_of(frame.filter(condition))
            assert rows_of(frame.filter(condition)) == expected, condition
        # The index was made of TIME(6), which is what the files hold: it is of use for that alone.
        kept = 1 if precision == 6 else 3
        assert [len(names) for names in files_read(frame.filter("at > TIME '11:30:00'"))] == [kept]
