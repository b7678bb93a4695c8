"""Logs in, statements out; bad lines are counted and named, never fatal."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

from sidestep.errors import SidestepError
from sidestep.workload import READERS, LogReader, Statement, read_log
from sidestep.workload.logs import read as logs_module
from sidestep.workload.logs.entries import seconds_since_1970
from tests.work import counted_work


def test_a_script(tmp_path):
    path = tmp_path / "log.sql"
    path.write_text("SELECT 1;\n-- two\nSELECT 2;\n")
    assert read_log(path).statements == (
        Statement("SELECT 1", source=f"{path}:1"),
        Statement("SELECT 2", source=f"{path}:3"),
    )


def test_json_lines_with_all_fields(tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [
        json.dumps({"sql": "SELECT 1", "time": 1_700_000_000, "count": 3, "user": "eve"}),
        json.dumps({"SQL": "SELECT 2;", "time": "2023-11-14T22:13:20Z"}),
        "",
        "{not json",
        "[1]",
        json.dumps({"query": "SELECT 3"}),
        json.dumps({"sql": "SELECT 4", "count": 0}),
        json.dumps({"sql": "SELECT 5", "time": "yesterday"}),
        json.dumps({"sql": 5}),
    ]
    path.write_text("\n".join(lines))
    log = read_log(path)
    assert [(s.sql, s.time, s.count, s.user) for s in log.statements] == [
        ("SELECT 1", 1.7e9, 3, "eve"),
        ("SELECT 2", 1.7e9, 1, None),
        ("SELECT 5", None, 1, None),
    ]
    assert log.bad_count == 6
    assert [bad.source.rpartition(":")[2] for bad in log.bad] == ["4", "5", "6", "7", "8", "9"]
    assert "no sql" in log.bad[2].reason
    assert "time was left out" in log.bad[4].reason


def test_a_json_list(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps([{"sql": "SELECT 1"}, {"sql": "SELECT 2"}], indent=1))
    assert [s.sql for s in read_log(path).statements] == ["SELECT 1", "SELECT 2"]


def test_csv_with_quotes_lines_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "log.csv"
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        rows = csv.writer(file)
        rows.writerow(["SQL", "Time", "count"])
        rows.writerow(['SELECT "a,b"\nFROM t; SELECT 2', "2023-11-14 22:13:20", "2"])
        rows.writerow(["", "", ""])
    log = read_log(path)
    assert [(s.sql, s.time, s.count) for s in log.statements] == [
        ('SELECT "a,b"\nFROM t', 1.7e9, 2),
        ("SELECT 2", 1.7e9, 2),
    ]
    assert log.bad_count == 1


def test_csv_without_the_column_says_what_it_found(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("query,when\nSELECT 1,2\n")
    with pytest.raises(SidestepError, match=r"no column named sql.*query, when"):
        read_log(path)


def test_a_folder_in_the_order_of_names_compressed_or_not(tmp_path):
    (tmp_path / "b.sql").write_text("SELECT 2")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"sql": "SELECT 1"}\n'))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "c.csv").write_text("sql\nSELECT 3\n")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "_hidden.sql").write_text("SELECT 9")
    log = read_log(tmp_path)
    assert [s.sql for s in log.statements] == ["SELECT 1", "SELECT 2", "SELECT 3"]
    assert [bad.source for bad in log.bad] == [str(tmp_path / "notes.txt")]


def test_what_is_no_log_is_said(tmp_path):
    with pytest.raises(SidestepError, match="There is no log at"):
        read_log(tmp_path / "none.sql")
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    with pytest.raises(SidestepError, match=r"\.sql, \.jsonl"):
        read_log(tmp_path / "log.parquet")
    (tmp_path / "log.sql.gz").write_bytes(b"not compressed")
    with pytest.raises(SidestepError, match="could not be read"):
        read_log(tmp_path / "log.sql.gz")


@pytest.mark.parametrize("name", ["log.sql", "log.jsonl", "log.csv", "log.json"])
def test_an_empty_log_is_empty(tmp_path, name):
    (tmp_path / name).write_text("")
    assert read_log(tmp_path / name).statements == ()


def test_text_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "log.sql").write_bytes(b"SELECT 1; SELECT '\xff\xfe'; SELECT 2")
    log = read_log(tmp_path / "log.sql")
    assert [s.sql for s in log.statements] == ["SELECT 1", "SELECT 2"]
    assert "UTF-8" in log.bad[0].reason


def test_further_kinds_of_log_join_in(tmp_path):
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    events = LogReader(
        "event log", lambda path: path.name.startswith("eventlog"), lambda path: iter([Statement("SELECT 7")])
    )
    (tmp_path / "a.sql").write_text("SELECT 1")
    assert [s.sql for s in read_log(tmp_path, (events, *READERS)).statements] == ["SELECT 1", "SELECT 7"]


def test_a_long_log_is_folded_and_keeps_its_times(tmp_path, monkeypatch):
    monkeypatch.setattr(logs_module, "FOLD_ABOVE", 10)
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"sql": f"SELECT {n % 2}", "time": 1000 + n}) for n in range(30)]
    path.write_text("\n".join(lines))
    assert [(s.sql, s.count, s.time, s.last_time) for s in read_log(path).statements] == [
        ("SELECT 0", 15, 1000.0, 1028.0),
        ("SELECT 1", 15, 1001.0, 1029.0),
    ]


def test_a_long_log_of_repeats_is_cheap(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"sql": "SELECT 1", "time": 5}\n' * 120_000)
    with counted_work() as work:
        log = read_log(path)
    assert work.calls < 25_000_000
    assert [(s.count, s.time, s.last_time) for s in log.statements] == [(120_000, 5.0, None)]


def test_folding_keeps_users_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(logs_module, "FOLD_ABOVE", 0)
    path = tmp_path / "log.jsonl"
    lines = [{"sql": "S", "user": "a"}, {"sql": "S", "user": "b"}, {"sql": "S", "user": "a", "count": 4}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert [(s.user, s.count) for s in read_log(path).statements] == [("a", 5), ("b", 1)]


@pytest.mark.parametrize(
    "written", [1_700_000_000, 1_700_000_000_000, "1700000000000000", 1.7e18, "2023-11-14T22:13:20"]
)
def test_moments_in_any_unit(written):
    assert seconds_since_1970(written) == pytest.approx(1.7e9)


@pytest.mark.parametrize("written", ["soon", True, [1], float("nan"), float("inf")])
def test_moments_that_are_none(written):
    with pytest.raises(ValueError, match=r"moment|neither"):
        seconds_since_1970(written)
