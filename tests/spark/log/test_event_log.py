"""Spark's event logs: every codec and form, statements where there is SQL, else what the scans' filters say."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import sidestep
from sidestep.predicate import sql
from sidestep.spark.log.event_log import event_lines, is_event_log, read_event_log
from sidestep.spark.log.event_plan import scan_uses
from tests.spark.tables import write_file


@contextmanager
def logged(spark, folder: Path, codec: str | None, rolled: bool):
    """Spark's own writer of event logs, at work for the length of a block."""
    folder.mkdir(parents=True)
    jvm = spark._jvm
    conf = spark.sparkContext._jsc.sc().conf().clone()
    conf.set("spark.eventLog.rolling.enabled", str(rolled).lower())
    conf.set("spark.eventLog.compress", str(codec is not None).lower())
    conf.set("spark.eventLog.compression.codec", codec or "zstd")
    writer = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app-1", jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri()), conf, spark._jsc.hadoopConfiguration()
    )
    writer.start()
    bus = spark.sparkContext._jsc.sc().listenerBus()
    bus.addToEventLogQueue(writer)
    try:
        yield
    finally:
        bus.waitUntilEmpty()
        bus.removeListener(writer)
        writer.stop()


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "t"
    write_file(
        root / "f0.parquet", pa.table({"k": [1, 2, 3], "s": ["a", "b", "c"], "d": pa.array([0, 1, 2], pa.date32())})
    )
    return str(root)


def run_queries(spark, table: str) -> None:
    spark.read.parquet(table).createOrReplaceTempView("t")
    spark.sql("SELECT k FROM t WHERE k = 3 AND d < DATE '2021-01-01' AND s IN ('a', 'b')").collect()
    spark.sparkContext.setJobDescription("SELECT count(*) FROM t WHERE k = 4")
    try:
        spark.sql("SELECT count(*) FROM t WHERE k = 4").collect()
    finally:
        spark.sparkContext.setJobDescription(None)
    spark.table("t").where("k > 2 OR s LIKE 'x%'").collect()
    spark.catalog.dropTempView("t")


@pytest.mark.parametrize("rolled", [False, True], ids=["one file", "rolled"])
@pytest.mark.parametrize("codec", [None, "zstd", "lz4", "snappy"])
def test_every_form_of_event_log_reads_the_same(spark, table, tmp_path, codec, rolled):
    with logged(spark, tmp_path / "logs", codec, rolled):
        run_queries(spark, table)
    (log,) = (
        (tmp_path / "logs").iterdir() if rolled else [p for p in (tmp_path / "logs").iterdir() if p.suffix != ".crc"]
    )
    assert is_event_log(log)
    found = read_event_log(log, {table: "t"})
    assert [statement.sql for statement in found.statements] == ["SELECT count(*) FROM t WHERE k = 4"]
    assert found.statements[0].time
    assert [use.table for query in found.queries for use in query.uses] == ["t", "t"]
    filters = [sorted(sql(p) for p in query.uses[0].predicates) for query in found.queries]
    assert filters == [["d < DATE '2021-01-01'", "k = 3", "s IN ('a', 'b')"], ["k > 2 OR startswith(s, 'x')"]]
    assert found.failures == ()


def test_a_folder_of_event_logs_is_analyzed(spark, table, tmp_path):
    for number in range(2):
        with logged(spark, tmp_path / f"logs{number}", "zstd", True):
            run_queries(spark, table)
        (log,) = (tmp_path / f"logs{number}").iterdir()
        shutil.move(log, tmp_path / "logs" / f"{log.name}-{number}") if number else shutil.copytree(
            log, tmp_path / "logs" / f"{log.name}-{number}"
        )
    analysis = sidestep.analyze(
        spark, tmp_path / "logs", tables={"t": table}, num_features=3, threshold=2, miner="numpy"
    )
    assert analysis.analysis.queries == 6
    assert {str(feature) for feature in analysis.features().features} >= {"k = 4"}


def test_a_log_that_is_cut_off_is_read_up_to_there(spark, table, tmp_path):
    with logged(spark, tmp_path / "logs", None, False):
        run_queries(spark, table)
    (log,) = [path for path in (tmp_path / "logs").iterdir() if path.suffix != ".crc"]
    whole = [json.loads(line)["Event"] for line in event_lines(log)]
    end = len(log.read_bytes()) - 300
    (tmp_path / "cut.inprogress").write_bytes(log.read_bytes()[:end])
    found = read_event_log(tmp_path / "cut.inprogress", {table: "t"})
    assert len(whole) > 10
    assert len(found.statements) == 1


def test_lzf_and_files_of_another_kind_are_refused(tmp_path):
    (tmp_path / "app.lzf").write_bytes(b"ZV")
    with pytest.raises(sidestep.SidestepError, match="lzf"):
        read_event_log(tmp_path / "app.lzf")
    for name in ("app.lz4", "app.snappy"):
        (tmp_path / name).write_bytes(b"not at all what it says it is, and long enough")
        with pytest.raises(sidestep.SidestepError, match="as Spark writes it"):
            read_event_log(tmp_path / name)
    (tmp_path / "eventlog_v2_x").mkdir()
    with pytest.raises(sidestep.SidestepError, match="no event files"):
        read_event_log(tmp_path / "eventlog_v2_x")
    (tmp_path / "queries.sql").write_text("SELECT 1")
    assert not is_event_log(tmp_path / "queries.sql")


def scan(filters: str, schema: str = "struct<k:bigint,s:string,d:date,p:decimal(8,2),q:decimal(8,2)>") -> set[str]:
    about = {"ReadSchema": schema, "Location": "InMemoryFileIndex(1 paths)[file:/t]", "DataFilters": filters}
    plan = {"nodeName": "Filter", "children": [{"nodeName": "Scan parquet ", "metadata": about, "children": []}]}
    ((_, use),) = scan_uses(plan)
    return {sql(p) for p in use.predicates}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("[isnotnull(k#1L), (k#1L = 3)]", {"k = 3"}),
        ("[(p#4 >= 1.50), (p#4 < q#5), k#1L IN (1,2)]", {"p >= 1.50", "p < q", "k IN (1, 2)"}),
        ("[((k#1L = 1) AND (s#2 = REG AIR))]", {"k = 1 AND s = 'REG AIR'"}),
        # A list of texts one of which has a comma, a text with a bracket: they could be read in two ways.
        ("[s#2 IN (a, b,c)]", set()),
        ("[(s#2 = a), (k#1L = 3)) OR (b]", set()),
        # One alternative that is not understood, and nothing is known of the whole; of a conjunction, the rest is.
        ("[((k#1L = 1) OR (cast(s#2 as int) = 3))]", set()),
        ("[((k#1L = 1) AND (cast(s#2 as int) = 3))]", {"k = 1"}),
        ("[NOT (k#1L = 1)]", set()),
        ("[(unknown#9 = 1)]", set()),
        ("[(d#3 < soon)]", set()),
        ("[]", set()),
        ("", set()),
    ],
)
def test_only_what_can_be_read_in_one_way_is_read(filters, expected):
    assert scan(filters) == expected
