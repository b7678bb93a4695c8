from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

import bench.__main__ as command
from bench import demo
from bench.__main__ import benchmarks, load_benchmark, main, option_parser


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
    known = benchmarks()
    assert not known.keys() & {"__main__", "harness", "tpch"}
    assert all(known.values()), f"a benchmark has no docstring: {known}"


def parser_of(name):
    return option_parser(name, "", load_benchmark(name))


@pytest.mark.parametrize("name", benchmarks())
def test_every_benchmark_has_a_scale_and_a_seed(name):
    options = parser_of(name).options
    assert {"--sf", "--rows"} & set(options), f"{name} has no scale: {options}"
    parsed = parser_of(name).parse_args(["--seed", "91"])
    assert parsed.seed == 91
    assert vars(parser_of(name).parse_args([])).keys() == vars(parsed).keys()


@pytest.mark.parametrize("name", benchmarks())
def test_no_benchmark_takes_an_abbreviation_for_an_option(name, capsys):
    parser = parser_of(name)
    for option in parser.options:
        short = option[:-1]
        if short in (*parser.options, "--"):
            continue
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([short, "91"])
        assert ended.value.code == 2
        message = capsys.readouterr().err
        assert message.startswith(f"Error: {short} is not an option of python -m bench {name}; did you mean --")
        assert ", ".join(parser.options) in message


def test_an_unknown_option_ends_with_a_sentence_before_anything_is_measured(toy, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["toy", "--row=91"])
    assert ended.value.code == 2
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == (
        "",
        "Error: --row is not an option of python -m bench toy; did you mean --rows? It has --rows.\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--colour", "red"], "--colour is not an option of python -m bench toy. It has --rows."),
        (["--", "--rows", "3"], "-- is not an option"),
        (["91"], "91 is not an option of python -m bench toy. It has --rows."),
        (["--rows", "many"], "argument --rows: invalid int value: 'many'"),
        (["--rows"], "argument --rows: expected one argument"),
    ],
    ids=str,
)
def test_what_cannot_be_understood_ends_with_a_sentence(toy, capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        main(["toy", *words])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_demo_refuses_what_it_does_not_know(capsys):
    with pytest.raises(SystemExit) as ended:
        demo.main(["--run", "1"])
    assert ended.value.code == 2
    assert "--run is not an option of make demo; did you mean --runs?" in capsys.readouterr().err
