"""``sidestep analyze`` as a person runs it."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_commands import run, write
from tests.render.markup import check


@pytest.fixture(scope="module")
def table(tmp_path_factory, spark):
    return write(tmp_path_factory.mktemp("analyze") / "numbers")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "queries.sql"
    often = ["SELECT id FROM n WHERE odd = 1 AND id > 10"] * 5 + ["SELECT id FROM n WHERE name = 'n0001'"] * 3
    path.write_text(";\n".join([*often, "SELEC", "SELECT id FROM elsewhere"]))
    return path


def test_a_report_for_people(table, log, tmp_path):
    out = tmp_path / "features.json"
    text = run("analyze", log, "-t", f"n={table}", "--num-features", 2, "--threshold", 2, "--out", out)
    assert "odd = 1" in text
    assert "unknown table" in text
    assert "Wrote" in text
    assert json.loads(out.read_text())


def test_a_light_page_with_a_next_step(table, log, tmp_path):
    page = tmp_path / "report.html"
    run("analyze", log, "-t", f"n={table}", "--html", page)
    text = page.read_text(encoding="utf-8")
    check(text, 60_000)
    assert text.count("<svg") == 3
    assert f"<pre>sidestep advise {log} -t n={table}</pre>" in text
    assert "tables={&#x27;elsewhere&#x27;: PATH}, or -t elsewhere=PATH" in text


def test_the_same_as_data(table, log):
    data = json.loads(run("analyze", log, "-t", f"n={table}", "--json", "--num-features", 2, "--threshold", 2))
    assert (data["queries"], data["failures"], data["written"]) == (8, 2, [])
    assert [feature["weight"] for feature in data["tables"][0]["features"]] == [5, 3]


def test_what_is_wrong_is_a_sentence(table, tmp_path):
    assert "There is no log at" in run("analyze", tmp_path / "nothing", "-t", f"n={table}", code=1)
    (tmp_path / "empty.sql").write_text("")
    assert "The log is empty" in run("analyze", tmp_path / "empty.sql", "-t", f"n={table}", code=1)
    (tmp_path / "log.sql").write_text("SELECT 1")
    assert "has no schema" in run("analyze", tmp_path / "log.sql", "-t", "n=/nowhere/at/all", code=1)
