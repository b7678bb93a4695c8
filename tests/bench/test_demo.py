from __future__ import annotations

from bench.demo import key_queries, main


def test_the_demo_runs_and_finds_equal_rows(spark, tmp_path, capsys):
    assert main(["--sf", "0.01", "--files", "4", "--data", str(tmp_path), "--runs", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "All 9 queries gave the same rows with sidestep off and on." in text
    assert "zone map skips 3 files" in text
    assert not spark.catalog.tableExists("lineitem")


def test_a_problem_is_a_sentence(tmp_path, capsys):
    assert main(["--files", "0", "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "Error: A table cannot be split into 0 files; give 1 or more.\n"


def test_the_keys_asked_for_are_keys_that_exist():
    # Of every 32 keys, TPC-H uses the first 8.
    point = int(key_queries(0.1)["one order"].rpartition("= ")[2])
    assert point % 32 == 1
