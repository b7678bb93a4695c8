"""The commands as a person runs them, in the process of the tests: beside its session, which stays as it was."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

import sidestep
from sidestep.cli import app
from tests.render.markup import check

FILES, ROWS = 4, 100


def run(*words, code=0):
    """What a command printed to stdout (or, if it should fail, to stderr)."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def write(folder, files=range(FILES)):
    """Files of 100 rows, in the order of ``id``."""
    folder.mkdir(exist_ok=True)
    for number in files:
        ids = list(range(ROWS * number, ROWS * (number + 1)))
        columns = {"id": ids, "name": [f"[b]n{one:04}" for one in ids], "odd": [one % 2 for one in ids]}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory, spark):
    """An indexed table."""
    folder = write(tmp_path_factory.mktemp("cli") / "numbers")
    run("index", folder)
    return folder


def test_alone_it_shows_help_and_knows_its_version():
    assert "Usage: sidestep" in run()
    assert run("--version") == f"sidestep {sidestep.__version__}\n"


def test_index_says_what_it_did_and_again_that_nothing_was_left(tmp_path, spark):
    folder = write(tmp_path / "t")
    assert "0 of 4 files" in run("status", folder)
    first = run("index", folder, "--column", "id")
    assert "Indexed 4 files." in first
    assert "400 rows in 4 row groups" in first
    assert "Every file was indexed already." in run("index", "named", "--table", f"named={folder}", "--column", "id")
    write(folder, files=[4])
    assert "Indexed 1 file." in run("index", folder, "--no-footers", "--column", "id")


def test_status_shows_coverage_and_columns(table):
    text = run("status", table)
    assert "4 of 4 files" in text
    assert "bigint" in text
    data = json.loads(run("status", table, "--json"))
    assert (data["files"], data["indexed_files"], data["complete"], data["problems"]) == (4, 4, True, [])
    assert data["columns"]["id"] == {"type": "bigint", "files": 4}


def test_synopses_are_chosen_shown_and_explained(tmp_path, spark):
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(6):
        ids = [2**40 * number + one for one in range(50)] + [2**50 + 2**40 * number + one for one in range(50)]
        pq.write_table(
            pa.table({"id": ids, "code": [f"c{one * 7919 % 10007:05}" for one in ids]}), folder / f"{number}.parquet"
        )
    assert "range-set of 4 ranges" in run("index", folder)
    text = run("index", folder, "--synopsis", "code=bloom:256", "--synopsis", "id=range-set:2")
    assert "range-set of 2 ranges" in text
    assert "Bloom filter of 256 bytes at most" in text
    data = json.loads(run("status", folder, "--json"))
    found = data["columns"]["id"]["synopses"]
    assert found["kinds"]["range_set"]["blocks"] == 6
    assert found["false_positives"] == found["kept"] < found["zone_map_kept"]
    assert (found["outgrown"], data["advice"]) == (False, "")
    explained = run("explain", f"SELECT * FROM t WHERE id = {2**45}", "-t", f"t={folder}")
    assert "range-set skips 6 files" in explained
    told = run("index", folder, "--budget", "1kB", "--log", "/dev/null/no", code=1)
    assert "no log at" in told
    assert "There is no log" in run("index", folder, "--budget", "1kB")
    assert "write it like 8MB" in run("index", folder, "--budget", "lots", code=1)


def test_sql_prints_rows_and_what_was_read(table):
    text = run("sql", "SELECT id, name FROM t WHERE id >= 398", "-t", f"t={table}")
    assert "[b]n0398" in text
    assert "2 rows in" in text
    assert "sidestep on" in text
    assert "1 of 4" in text
    assert "100 of 400" in text


def test_sql_off_reads_everything(table):
    query = ("sql", "SELECT id, name FROM t WHERE id >= 398", "-t", f"t={table}", "--json")
    on, off = json.loads(run(*query)), json.loads(run(*query, "--off"))
    assert on["rows"] == off["rows"] == [[398, "[b]n0398"], [399, "[b]n0399"]]
    assert (on["enabled"], on["scans"][0]["files"], on["scans"][0]["total_files"]) == (True, 1, 4)
    assert (off["enabled"], off["scans"][0]["files"], off["scans"][0]["total_files"]) == (False, 4, 4)


def test_sql_prints_no_more_rows_than_asked_but_runs_whole(table):
    found = json.loads(run("sql", "SELECT id FROM t", "-t", f"t={table}", "--limit", 3, "--json"))
    assert (len(found["rows"]), found["row_count"], found["scans"][0]["files"]) == (3, 400, 4)
    assert len(json.loads(run("sql", "SELECT id FROM t", "-t", f"t={table}", "--limit", 0, "--json"))["rows"]) == 400


def test_sql_takes_commands_same_names_and_odd_values(table):
    assert "0 rows" in run("sql", "CREATE OR REPLACE TEMP VIEW v AS SELECT 1")
    found = run("sql", "SELECT 1 AS a, 2 AS a, double('NaN') AS n, NULL AS z, X'01' AS b, array(struct(1 AS x)) AS s")
    assert "NULL" in found
    assert "X'01'" in found
    data = json.loads(run("sql", "SELECT double('NaN') AS n, 1.50BD AS d, DATE '2020-01-02' AS t, NULL AS z", "--json"))
    assert data["rows"] == [["NaN", "1.50", "2020-01-02", None]]


def test_scans_of_several_tables_are_summed(table):
    text = run("sql", "SELECT count(*) FROM t a JOIN t b ON a.id = b.id WHERE a.id < 10", "-t", f"t={table}")
    assert "all scans" in text


def test_explain_says_what_is_skipped_and_runs_nothing(table):
    query = ("explain", "SELECT * FROM t WHERE id < 5 AND reverse(name) = 'x'", "--table", f"t={table}")
    text = run(*query)
    assert "zone map skips 3 files" in text
    assert "not used" in text
    scan = json.loads(run(*query, "--json"))["scans"][0]
    assert (scan["files"], scan["covered"]) == ({"total": 4, "kept": 1}, True)


def test_indexes_can_live_elsewhere(tmp_path, spark):
    folder = write(tmp_path / "t")
    run("index", folder, "--index-dir", tmp_path / "indexes")
    assert not (folder / "_sidestep").exists()
    query = ("sql", "SELECT id FROM t WHERE id < 5", "-t", f"t={folder}", "--json")
    assert json.loads(run(*query, "--index-dir", tmp_path / "indexes"))["scans"][0]["files"] == 1
    assert json.loads(run(*query))["scans"][0]["files"] == 4


def test_a_total_that_the_index_does_not_know_is_left_out(tmp_path, spark):
    folder = write(tmp_path / "t")
    run("index", folder)
    write(folder, files=[FILES])
    found = json.loads(run("sql", "SELECT count(id) FROM t", "-t", f"t={folder}", "--json"))
    assert found["rows"] == [[(FILES + 1) * ROWS]]
    assert (found["scans"][0]["total_files"], found["scans"][0]["total_rows"]) == (FILES + 1, None)
    assert "4 of 5 files" in run("status", folder)


def test_delta_tables_need_no_jar(tmp_path, spark):
    for number in range(FILES):
        write_deltalake(
            tmp_path / "d", pa.table({"id": list(range(ROWS * number, ROWS * (number + 1)))}), mode="append"
        )
    assert "(delta, version 3)" in run("index", tmp_path / "d")
    scan = json.loads(run("sql", "SELECT id FROM d WHERE id < 5", "-t", f"d={tmp_path / 'd'}", "--json"))["scans"][0]
    assert (scan["files"], scan["total_files"], scan["total_rows"]) == (1, FILES, FILES * ROWS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sql", "SELEC 1"), "Syntax error at or near 'SELEC' (line 1, pos 0)."),
        (
            ("explain", "SELECT * FROM nope"),
            "no table or view nope. Say where its files are with --table nope=PATH.",
        ),
        (("sql", "SELECT b FROM VALUES (1) AS t(a)"), "with name `b` cannot be resolved"),
        (("sql", "SELECT 1 / 0"), "Division by zero."),
        (("index", "/nothing/here"), "/nothing/here"),
        (("sql", "SELECT 1", "--table", "t=/nothing/here"), "/nothing/here"),
    ],
)
def test_errors_are_one_line_on_stderr(spark, words, said):
    text = run(*words, code=1)
    assert text.startswith("Error: ")
    assert said in text
    assert text.count("\n") == 1
    assert "Traceback" in run(*words, "--verbose", code=1)


@pytest.mark.parametrize("words", [("--table", "t"), ("--conf", "=x"), ("--limit", "-1")])
def test_options_of_the_wrong_form_are_refused_before_spark_starts(words):
    assert words[0] in run("sql", "SELECT 1", *words, code=2)


def test_the_session_of_the_program_stays_as_it_was(table, spark):
    spark.conf.unset("spark.sql.ansi.enabled")
    run("sql", "SELECT * FROM t LIMIT 1", "-t", f"t={table}", "--conf", "spark.sql.ansi.enabled=false")
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert not spark.catalog.tableExists("t")
    assert spark.range(3).count() == 3


def test_a_process_of_its_own_prints_nothing_but_the_answer(table, tmp_path):
    words = ["sql", "SELECT max(id) AS top FROM t WHERE id > 350", "-t", f"t={table}", "--master", "local[1]", "--json"]
    command = [sys.executable, "-m", "sidestep", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["rows"], found["scans"][0]["files"]) == ([[399]], 1)
    assert list(tmp_path.iterdir()) == []


def test_explain_saves_a_light_page(table, tmp_path):
    page = tmp_path / "explained.html"
    hostile = "SELECT * FROM t WHERE name = '<script>alert(1)</script>' AND id < 3"
    assert f"Wrote {page}" in run("explain", hostile, "-t", f"t={table}", "--html", page)
    read = check(page.read_text(encoding="utf-8"))
    assert any("<script>alert(1)</script>" in text for text in read.text)
    assert "svg" in read.tags
