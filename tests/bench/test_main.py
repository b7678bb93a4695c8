from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

import bench.__main__ as command
from bench.__main__ import benchmarks, main


@pytest.fixture
def toy(monkeypatch):
    """A benchmark called toy, known to the command for one test."""
    module = ModuleType("bench.toy")
    module.add_arguments = lambda parser: parser.add_argument("--rows", type=int, default=10)  # type: ignore[attr-defined]

    def run(args):
        print("a table")
        return {"rows_seen": args.rows}

    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bench.toy", module)
    monkeypatch.setattr(command, "benchmarks", lambda: {"toy": "Counts its rows."})


def test_the_last_line_is_one_json_object(toy, capsys):
    assert main(["toy", "--rows", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    record = json.loads(lines[-1])
    assert lines[0] == "a table"
    assert (record["benchmark"], record["arguments"], record["rows_seen"]) == ("toy", {"rows": 3}, 3)
    assert record["machine"]["cores"] >= 1


def test_no_name_lists_the_benchmarks(toy, capsys):
    assert main([]) == 0
    assert "toy          Counts its rows." in capsys.readouterr().out


def test_the_bare_names_are_there_for_scripts(toy, capsys):
    assert main(["--names"]) == 0
    assert capsys.readouterr().out == "toy\n"


def test_an_unknown_name_is_answered_with_the_known_ones(toy, capsys):
    assert main(["tyo"]) == 2
    assert "no benchmark called 'tyo'" in capsys.readouterr().err


def test_every_benchmark_says_what_it_measures():
    found = benchmarks()
    assert not found.keys() & {"__main__", "harness", "tpch"}
    assert all(found.values()), f"a benchmark has no docstring: {found}"
