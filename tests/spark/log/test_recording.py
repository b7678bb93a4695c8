"""Recording a session: one line per query that ran and read something, and the same features as from its SQL."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import sidestep
from sidestep.errors import SidestepError
from sidestep.predicate import sql
from sidestep.spark.log.recording import is_recording, read_recording
from tests.spark.tables import settings, write_file

MODES = ("AIR", "RAIL", "SHIP", "TRUCK")


@pytest.fixture
def table(spark, tmp_path):
    """A table of 400 rows in four files, as a view named ``items``."""
    root = tmp_path / "items"
    for number in range(4):
        rows = range(100 * number, 100 * number + 100)
        data = pa.table({"key": list(rows), "mode": [MODES[n % 4] for n in rows], "quantity": [n % 50 for n in rows]})
        write_file(root / f"f{number}.parquet", data)
    spark.read.parquet(str(root)).createOrReplaceTempView("items")
    yield str(root)
    spark.catalog.dropTempView("items")


def fifty_queries() -> list[str]:
    def filter_of(number: int) -> str:
        if number % 3 == 1:
            return "length(cast(key AS string)) = 2"
        return f"quantity < {10 if number % 5 else 20 + number}"

    return [f"SELECT sum(key) FROM items WHERE mode = '{MODES[n % 3]}' AND {filter_of(n)}" for n in range(50)]


def test_a_recorded_session_gives_the_features_of_its_sql(spark, table, tmp_path):
    queries = fifty_queries()
    script = tmp_path / "queries.sql"
    script.write_text(";\n".join(queries))
    # What an opaque predicate means depends on the session's settings, and Spark's listener thread has none.
    with settings(spark, spark__sql__session__timeZone="Asia/Tokyo"):
        with sidestep.record(spark, tmp_path / "log.jsonl") as recorder:
            for text in queries:
                spark.sql(text).collect()
        recorded, written = (
            sidestep.analyze(spark, log, tables={"items": table}, num_features=5, threshold=5)
            for log in (tmp_path / "log.jsonl", script)
        )
    assert recorder.last_problem == ""
    assert recorder.records == 50
    assert recorder.milliseconds_each > 0  # the benchmark says how much it is
    assert recorded.features().id == written.features().id
    assert len(recorded.features()) > 1
    assert any("length(" in str(feature) for feature in recorded.features().features)
    assert [q.sql for q in read_recording(tmp_path / "log.jsonl").queries] == queries


def test_a_recording_calls_tables_as_it_was_told(spark, table, tmp_path):
    log = tmp_path / "log.jsonl"
    with sidestep.record(spark, log, tables={"articles": table}):
        spark.read.parquet(table).where("quantity < 10").collect()
    assert is_recording(log)
    assert [use.table for query in read_recording(log).queries for use in query.uses] == ["articles"]
    assert [use.table for query in read_recording(log, {"goods": table}).queries for use in query.uses] == ["goods"]
    with sidestep.record(spark, log, tables={"things": table}):  # what comes last counts
        pass
    workload = read_recording(log)
    assert workload.failures == ()
    assert [use.table for query in workload.queries for use in query.uses] == ["things"]
    with pytest.raises(SidestepError, match="by their paths"):
        sidestep.record(spark, log, tables={"things": spark.table("items").schema})


def test_one_record_per_execution_and_none_for_what_reads_nothing(spark, table, tmp_path):
    path = tmp_path / "log.jsonl"
    with sidestep.record(spark, path):
        spark.sql("SELECT * FROM items WHERE key = 1").explain()
        spark.sql("SELECT 1").collect()
        spark.sql("SHOW TABLES").collect()
        frame = spark.sql("SELECT * FROM items WHERE key > (SELECT avg(key) FROM items WHERE mode = 'AIR')")
        frame.collect()
        frame.collect()
        spark.table("items").where("quantity = 3").write.parquet(str(tmp_path / "out"))
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            spark.sql("SELECT 1 / (key - key) FROM items").collect()
    spark.sql("SELECT * FROM items").collect()
    found = read_recording(path, {"items": table}).queries
    assert [[use.table for use in query.uses] for query in found] == [["items", "items"], ["items", "items"], ["items"]]
    assert {sql(p) for p in found[2].uses[0].predicates} >= {"quantity = 3"}
    assert found[2].uses[0].columns == {"key", "mode", "quantity"}


def test_a_record_says_when_how_long_and_how_much(spark, table, tmp_path):
    path = tmp_path / "log.jsonl"
    sidestep.index(spark, table)
    with sidestep.record(spark, path), sidestep.enable(spark):
        spark.sql("SELECT mode FROM items WHERE key < 100").collect()
    (query,) = read_recording(path, {"items": table}).queries
    assert query.rows == 100, "one of four files is left, and that counts"
    assert query.bytes
    assert query.seconds
    assert query.time
    assert 0 < query.seconds < query.time
    assert query.sql.startswith("SELECT mode")
    assert query.user
    assert query.uses[0].columns == {"key", "mode"}


def test_joins_are_recorded(spark, table, tmp_path):
    with sidestep.record(spark, tmp_path / "log.jsonl"):
        spark.sql("SELECT count(*) FROM items a JOIN items b ON a.key = b.quantity WHERE a.mode = 'AIR'").collect()
    (query,) = read_recording(tmp_path / "log.jsonl").queries
    assert [(join.left, join.right) for join in query.joins] == [(("items", "key"), ("items", "quantity"))]


def test_threads_do_not_mix_their_lines(spark, table, tmp_path):
    path = tmp_path / "log.jsonl"
    with sidestep.record(spark, path):
        threads = [
            threading.Thread(
                target=lambda n=n: [spark.sql(f"SELECT * FROM items WHERE key = {n}").collect() for _ in "ab"]
            )
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 8


def test_a_recording_is_added_to_and_one_that_is_cut_off_still_reads(spark, table, tmp_path):
    path = tmp_path / "log.jsonl"
    for number in range(2):
        with sidestep.record(spark, path):
            spark.sql(f"SELECT * FROM items WHERE key = {number}").collect()
    path.write_bytes(path.read_bytes() + b'{"recording":1,"time":17\n{"recording":99,"plan":{}}\n\xff\n')
    workload = read_recording(path)
    assert len(workload.queries) == 2
    assert [failure.statement.source for failure in workload.failures] == [f"{path}:{n}" for n in (3, 4, 5)]
    assert "has format 99, newer than the 3" in workload.failures[1].reason


def test_a_place_that_cannot_be_recorded_to_is_said_at_once(spark, tmp_path):
    with pytest.raises(sidestep.SidestepError, match="is a folder"):
        sidestep.record(spark, tmp_path)
    (tmp_path / "notes.txt").write_text("something else")
    with pytest.raises(sidestep.SidestepError, match="holds something other than a recording"):
        sidestep.record(spark, tmp_path / "notes.txt")
    with pytest.raises(sidestep.SidestepError, match="Cannot record to"):
        sidestep.record(spark, tmp_path / "notes.txt" / "log.jsonl")
    assert not is_recording(tmp_path / "nothing")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_file_that_cannot_be_written_harms_no_query(spark, table):
    recorder = sidestep.record(spark, "/dev/full")
    assert len(spark.sql("SELECT * FROM items WHERE key = 1").collect()) == 1
    recorder.stop()
    assert recorder.records == 0
    assert recorder.last_problem


def test_enabling_can_record_too_and_a_second_stop_does_no_harm(spark, table, tmp_path):
    path = str(tmp_path / "log.jsonl")
    with sidestep.enable(spark, record=path) as state:
        spark.sql("SELECT * FROM items WHERE key = 1").collect()
    assert len(read_recording(path).queries) == 1
    assert state.recorder is not None
    state.recorder.stop()
