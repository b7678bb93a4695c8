from __future__ import annotations

import pytest

import sidestep
from sidestep.errors import SidestepError, UnsupportedTable
from tests.lakes.iceberg import (
    ROWS,
    check,
    check_without_skipped,
    make_table,
    plain,
    read_with,
    scattered,
    switched_off,
)

COLUMNS = (
    f"id; {scattered()} AS k; concat('n', {scattered()} % 997) AS s; "
    "CASE WHEN id % 50 = 7 THEN double('NaN') WHEN id % 50 = 9 THEN NULL ELSE id / 4 END AS d; "
    "date_add(DATE '2020-01-01', CAST(id / 10 AS INT)) AS day; CAST(id + 5 AS INT) AS later"
)
ONE = 7919 * 1234 % 100003


@pytest.fixture(scope="module")
def table(spark):
    make_table(spark, "ice.skip.t", COLUMNS)
    sidestep.index(spark, "ice.skip.t")
    return "ice.skip.t"


def test_equality_on_a_scattered_column(spark, enabled, table):
    query = f"SELECT id, k, s FROM {table} WHERE k = {ONE}"
    assert check(spark, query) == {"t": (6, 1)}
    check_without_skipped(spark, query)


@pytest.mark.parametrize(
    ("condition", "alone", "most"),
    [
        (f"k IN ({ONE}, {7919 * 17 % 100003})", 6, 2),
        ("s LIKE '%n1%' AND k = 50001", 6, 1),
        ("day = DATE '2020-01-20'", 1, 1),
        ("id > 1000000000", 0, 0),
        ("later < id", 6, 6),
        ("d = 3.5 AND id < 600", 1, 1),
        ("d = double('NaN') AND k = 50001", 6, 1),
        ("d IS NULL", 6, 6),
        ("date_add(day, 1) = DATE '2020-01-20'", 6, 6),
        (f"k + 1 = {ONE + 1} OR k = {ONE}", 6, 6),
    ],
)
def test_answers_are_those_of_iceberg_alone(spark, enabled, table, condition, alone, most):
    read = check(spark, f"SELECT * FROM {table} WHERE {condition}")["t"]
    assert read[0] == alone
    assert read[1] <= most


def test_dataframes_and_aggregates(spark, enabled, table):
    query = spark.table(table).where(f"k = {ONE}")
    assert query.count() == 1
    assert sidestep.metrics(query).files == 1
    assert check(spark, f"SELECT count(*), max(d) FROM {table} WHERE k = {ONE} GROUP BY s") == {"t": (6, 1)}
    assert check(spark, f"SELECT count(*) FROM {table} WHERE k = {ONE}") == {"t": (6, 1)}


def test_sidestep_read_is_icebergs_own(spark, enabled, table):
    query = sidestep.read(spark, table).where(f"k = {ONE}")
    assert [row.id for row in query.collect()] == [1234]
    assert sidestep.metrics(query).files == 1


def test_explain_tells_who_skips(spark, enabled, table):
    told = sidestep.explain(f"SELECT * FROM {table} WHERE k = {ONE} AND id >= {ROWS}", spark)
    (scan,) = told.scans
    assert scan.files is not None
    assert scan.blocks is not None
    assert (scan.table, scan.files.total, scan.files.kept) == (table, 6, 1)
    assert "Iceberg's own metadata skips 1 file" in str(told)
    assert f"k = {ONE}" in str(told)
    blocks = scan.blocks.to_arrow()
    assert blocks["read"].to_pylist().count(True) == 1
    reasons = {scan.blocks.proof(at) for at in range(len(blocks)) if not blocks["read"][at].as_py()}
    assert any("Iceberg leaves its file out" in each for each in reasons), reasons


def test_explain_of_what_is_left_alone(spark, enabled, table):
    make_table(spark, "ice.skip.bare", "id", 1)
    assert "sidestep.index(spark, 'ice.skip.bare')" in str(sidestep.explain("SELECT id FROM ice.skip.bare", spark))
    told = " ".join(str(sidestep.explain(f"SELECT count(*) FROM {table}", spark)).split())
    assert "SparkLocalScan" in told
    told = " ".join(str(sidestep.explain(f"SELECT file_path FROM {table}.files", spark)).split())
    assert "it is a metadata table of Iceberg" in told
    assert spark.sql(f"SELECT snapshot_id FROM {table}.snapshots WHERE parent_id = -1").collect() == []


def test_status_and_errors(spark, table, tmp_path):
    status = sidestep.status(spark, table)
    assert (status.format, status.files, status.indexed_files) == ("iceberg", 6, 6)
    assert {"id", "k", "s", "d", "day", "later"} == set(status.columns)
    assert "k" in status.synopses
    with pytest.raises(UnsupportedTable, match="catalog knows"):
        sidestep.index(spark, status.root)
    with pytest.raises(UnsupportedTable, match="metadata table"):
        sidestep.index(spark, f"{table}.files")
    with pytest.raises(SidestepError, match="no column nothing"):
        sidestep.index(spark, table, columns=["nothing"])
    with pytest.raises(SidestepError, match="leave log out"):
        sidestep.status(spark, table, log=tmp_path)


def test_named_synopses_and_elsewhere(spark, tmp_path):
    make_table(spark, "ice.skip.named", f"id; {scattered()} AS k", 3)
    status = sidestep.index(spark, "ice.skip.named", synopses="k=bloom", index_dir=tmp_path / "index")
    assert list(status.synopses) == ["k"]
    assert sidestep.index(spark, "ice.skip.named", index_dir=tmp_path / "index").synopses.keys() == {"k"}
    with sidestep.enable(spark, index_dir=tmp_path / "index") as state:
        assert check(spark, f"SELECT id FROM ice.skip.named WHERE k = {ONE}") == {"named": (3, 1)}
        assert state.last_problem == ""


def test_files_that_came_later_are_read_until_indexed(spark, enabled):
    make_table(spark, "ice.skip.grows", f"id; {scattered()} AS k", 3)
    sidestep.index(spark, "ice.skip.grows")
    query = f"SELECT id FROM ice.skip.grows WHERE k = {ONE}"
    assert check(spark, query) == {"grows": (3, 1)}
    spark.sql(f"INSERT INTO ice.skip.grows SELECT id + 1, {ONE} FROM ice.skip.grows WHERE k = {ONE}")
    assert check(spark, query) == {"grows": (4, 2)}
    spark.range(3).selectExpr("id", "2 * id + 50000 AS k").coalesce(1).writeTo("ice.skip.grows").append()
    elsewhere = "SELECT id FROM ice.skip.grows WHERE k = 50003"
    before = check(spark, elsewhere)["grows"][1]
    assert before >= 1
    assert sidestep.index(spark, "ice.skip.grows").complete
    assert check(spark, query)["grows"][1] == 2
    assert check(spark, elsewhere)["grows"][1] < before


def test_off_and_disabled(spark, enabled, table):
    query = f"SELECT id FROM {table} WHERE k = {ONE}"
    with switched_off(spark):
        assert read_with(spark, query)[1] == {"t": 6}
    assert read_with(spark, query)[1] == {"t": 1}


def test_cached_and_reused(spark, enabled, table):
    one, two = 7919 * 10 % 100003, 7919 * 2900 % 100003
    query = f"SELECT * FROM (SELECT id FROM {table} WHERE k = {one}) UNION ALL (SELECT id FROM {table} WHERE k = {two})"
    assert check(spark, query) == {"t": (12, 2)}
    again = f"SELECT a.id, b.id FROM {table} a JOIN {table} b ON a.s = b.s WHERE a.k = {one} AND b.k = {one}"
    assert check(spark, again)["t"][1] <= 2
    cached = spark.table(table).where(f"k = {one}").cache()
    try:
        assert plain(cached.collect()) == plain(spark.table(table).where(f"k = {one}").collect())
        assert spark.table(table).where(f"k = {two}").count() == 1
    finally:
        cached.unpersist()
