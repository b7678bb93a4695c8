"""The commands that lay tables out, as a person runs them."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_commands import run

ROWS = 2_000


@pytest.fixture(scope="module")
def source(tmp_path_factory, spark):
    """A folder of Parquet files and a log of queries on it."""
    root = tmp_path_factory.mktemp("layout")
    folder = root / "sales"
    folder.mkdir()
    ids = list(range(ROWS))
    rows = pa.table(
        {
            "id": ids,
            "kind": [f"k{one % 7}" for one in ids],
            "price": [one * 37 % 1_000 for one in ids],
            "month": [one % 4 for one in ids],
        }
    )
    for number in range(4):
        pq.write_table(rows.slice(500 * number, 500), folder / f"{number}.parquet")
    queries = [f"SELECT sum(price) FROM shop WHERE kind = 'k{one % 3}' AND price < {100 + one}" for one in range(40)]
    (root / "log.sql").write_text(";\n".join(queries))
    return folder, root / "log.sql"


@pytest.fixture(scope="module")
def laid_out(source):
    folder, log = source
    target = folder.with_name("laid")
    data = json.loads(run(
        "load", "shop", target, "-t", f"shop={folder}", "--log", log, "--by", "month", "--min-size", 50, "--json"
    ))  # fmt: skip
    assert (data["rows"], data["units"], data["version"]) == (ROWS, 4, 0)
    assert data["features"]
    shutil.copytree(target, target.with_name("untouched"))
    return target


def test_advice_names_layouts_and_the_command(source):
    folder, log = source
    text = run("advise", log, "-t", f"shop={folder}", "--by", "month", "--min-size", 50)
    assert "chosen: features" in text
    assert "z-order" in text
    assert "sidestep load shop" in text


def test_a_laid_out_table_skips_and_says_so(laid_out):
    text = run("sql", "SELECT count(*) AS n FROM t WHERE kind = 'k1' AND price < 120", "-t", f"t={laid_out}")
    assert f"of {ROWS:,}" in text
    told = run("explain", "SELECT count(*) AS n FROM t WHERE kind = 'k1' AND price < 120", "-t", f"t={laid_out}")
    assert "row groups" in told
    assert "laid out" in run("status", laid_out)


def test_life_goes_on(source, laid_out):
    folder, _ = source
    added = json.loads(run("append", laid_out, folder, "--json"))
    assert added["rows"] == ROWS
    assert "wait for sidestep optimize" in run("status", laid_out)
    assert json.loads(run("optimize", laid_out, "--all", "--json"))["rows"] == ROWS
    assert json.loads(run("delete", laid_out, "--where", "kind = 'k6'", "--json"))["rows"] == 570
    changed = run("update", laid_out, "--where", "id = 7", "--set", "price=price + 1", "--json")
    assert json.loads(changed)["rows"] == 2
    dry = run("vacuum", laid_out, "--dry-run")
    assert "would go" in dry
    assert "retention" in run("vacuum", laid_out, "--hours", 0, code=1)


def test_mistakes_are_sentences(source):
    folder, log = source
    assert "target" in run("load", folder, "--log", log, code=1)
    assert "Error" in run("load", folder, folder.with_name("x"), "--log", log, code=1), "the log calls it shop"


def test_a_load_gives_synopses_by_name_or_within_a_budget(source, tmp_path):
    folder, _ = source
    named = ("--synopsis", "id=range-set:4", "--synopsis", "price=bloom:64", "--min-size", 50, "--json")
    data = json.loads(run("load", folder, tmp_path / "named", *named))
    assert data["synopses"] == {"id": {"range_set": 4}, "price": {"bloom": 64}}
    again = json.loads(run("load", tmp_path / "named", "--synopsis", "price=none", "--json"))
    assert again["synopses"] == {"id": {"range_set": 4}}, "what is not named stays"
    spent = json.loads(run("load", folder, tmp_path / "spent", "--budget", "4kB", "--min-size", 50, "--json"))
    assert spent["notes"][0].startswith("There is no log")
    assert "There is no column nope" in run("load", folder, tmp_path / "x", "--synopsis", "nope=bloom", code=1)


def test_a_log_in_another_dialect_that_names_other_tables(source, tmp_path):
    folder, _ = source
    log = tmp_path / "log.sql"
    joined = "SELECT TOP 5 [s].[price] FROM shop s JOIN [more] m ON s.id = m.id WHERE [s].[kind] = 'k1'"
    log.write_text(";\n".join([joined] * 30))
    options = ("--dialect", "tsql", "--min-size", 50, "--json")
    advice = json.loads(run("advise", log, "-t", f"shop={folder}", "-t", f"more={folder}", *options))
    assert (advice["table"], advice["queries"]) == ("shop", 30)
    tables = ("-t", f"shop={folder}", "-t", f"more={folder}")
    data = json.loads(run("load", "shop", tmp_path / "out", *tables, "--log", log, "--family", "features", *options))
    assert any("k1" in feature for feature in data["features"])
    assert "could not be used" not in run(
        "index", "shop", *tables, "--log", log, "--dialect", "tsql", "--index-dir", tmp_path
    )


def test_a_merge_as_sql_and_a_delete_by_another_table(laid_out, tmp_path):
    table = shutil.copytree(laid_out.with_name("untouched"), tmp_path / "table")
    batch = tmp_path / "batch"
    batch.mkdir()
    ids = [5, 6, 9_000]
    rows = {"id": ids, "kind": ["new"] * 3, "price": [1] * 3, "month": [one % 4 for one in ids]}
    pq.write_table(pa.table(rows), batch / "0.parquet")
    merge = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    data = json.loads(run("sql", merge, "-t", f"t={table}", "-t", f"s={batch}", "--json"))
    assert (data["rows_updated"], data["rows_inserted"]) == (2, 1)
    assert data["bytes_read"] == data["bytes_looked_at"] + data["bytes_rewritten"]
    where = "id IN (SELECT id FROM s)"
    text = run("delete", table, "--where", where, "-t", f"s={batch}")
    assert "3 rows deleted" in text
    assert "1,998" in run("sql", "SELECT count(*) AS n FROM t", "-t", f"t={table}").replace("1998", "1,998")
    assert "rows changed" in run("sql", "UPDATE t SET price = 0 WHERE t.id < 3", "-t", f"t={table}")


def test_denormalize_says_what_it_would_make_and_makes_it(spark, tmp_path):
    for name, rows in (
        ("sales", {"item": [1, 2, 2, 3] * 20, "price": list(range(80))}),
        ("items", {"id": [1, 2, 3], "kind": ["a", "b", "c"]}),
    ):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(rows), tmp_path / name / "0.parquet")
    log = tmp_path / "log.sql"
    log.write_text("SELECT sum(price) FROM sales JOIN items ON item = id WHERE kind = 'b';\n")
    words = ["denormalize", log, tmp_path / "joined", "--fact", "sales"]
    words += [word for name in ("sales", "items") for word in ("-t", f"{name}={tmp_path / name}")]
    assert "items: kind (by sales.item = items.id)" in run(*words, "--dry-run")
    assert not (tmp_path / "joined").exists()
    made = json.loads(run(*words, "--key", "items=id", "--layout", "sop", "--min-size", 10, "--json"))
    assert (made["rows"], made["queries"], made["rewritten"]) == (80, 1, 1)
    assert made["columns"] == ["item", "price", "kind"]
