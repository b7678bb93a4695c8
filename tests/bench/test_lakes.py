"""The benchmark of Delta's and Iceberg's own readers; its run needs their jars, which `make test-lakes` has."""

from __future__ import annotations

import json

import pytest

from bench.__main__ import main
from bench.lakes import KINDS, Lakes
from tests.lakes.jars import FOLDER, missing


def test_without_jars_it_says_so_and_stops(tmp_path, monkeypatch, capsys):
    (tmp_path / "missing").write_text("no jars today")
    monkeypatch.setenv("LAKES", str(tmp_path))
    assert main(["lakes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Nothing was measured: no jars today"
    record = json.loads(lines[-1])
    assert (record["files_read"], record["wrong"], record["missing"]) == (None, None, "no jars today")


def test_no_two_rows_have_the_same_place(tmp_path):
    lakes = Lakes(None, tmp_path, 20_000, 4)  # type: ignore[arg-type]
    assert len({lakes.place(row) for row in range(20_000)}) == 20_000


@pytest.mark.skipif(FOLDER is None, reason="it needs the readers of Delta and Iceberg: run it by make test-lakes")
def test_files_read_of_both(spark, capsys):
    if reason := missing("delta-spark") or missing("iceberg-spark"):
        pytest.skip(reason)
    assert main(["lakes", "--rows", "8000", "--files", "4", "--queries", "1"]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["wrong"] == 0
    for read in record["files_read"].values():
        assert set(read["alone"]) == set(KINDS)
        assert read["alone"]["equality"] == 4
        assert read["sidestep"]["equality"] < 4
        assert read["alone"]["join"] == 4
        assert read["sidestep"]["join"] < 4
        assert 1 <= read["sidestep"]["range"] <= read["alone"]["range"] < 4
