from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow.parquet as pq
import pytest

from bench import tpch
from bench.tpch import SPLIT_TABLES, TABLES, make_tpch, queries, register
from sidestep.errors import SidestepError

SF = 0.01
ROWS = {
    "customer": 1_500,
    "lineitem": 60_175,
    "nation": 25,
    "orders": 15_000,
    "part": 2_000,
    "partsupp": 8_000,
    "region": 5,
    "supplier": 100,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_tpch(tmp_path_factory.mktemp("data"), sf=SF, files=3)


def test_every_table_is_a_folder_of_files_with_the_rows_of_its_scale(folder):
    for table in TABLES:
        files = sorted((folder / table).glob("*.parquet"))
        assert len(files) == (3 if table in SPLIT_TABLES else 1)
        assert sum(pq.read_metadata(file).num_rows for file in files) == ROWS[table]


def test_data_is_made_once_and_nothing_half_made_stays(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert make_tpch(folder.parent, sf=SF, files=3) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before
    assert list(folder.parent.iterdir()) == [folder]


def test_row_groups_can_be_made_small(tmp_path):
    small = make_tpch(tmp_path, sf=SF, files=1, row_group_bytes=200_000)
    assert pq.read_metadata(next((small / "lineitem").glob("*.parquet"))).num_row_groups > 10


def test_a_failed_run_leaves_no_folder_and_says_why(tmp_path):
    with pytest.raises(SidestepError, match="tpcgen-cli could not write"):
        make_tpch(tmp_path, sf=-1.0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SidestepError, match="1 or more"):
        make_tpch(tmp_path, sf=SF, files=0)


def test_whoever_finishes_first_wins(tmp_path, monkeypatch):
    def slower(folder, *_):
        # Another process completes the same data while this one is still at it.
        theirs = tmp_path / f"tpch-sf{SF}-files1" / "nation"
        theirs.mkdir(parents=True, exist_ok=True)
        (theirs / "nation.1.parquet").touch()
        (folder / "nation").mkdir(exist_ok=True)

    monkeypatch.setattr(tpch, "_generate", slower)
    made = make_tpch(tmp_path, sf=SF, files=1)
    assert list(tmp_path.iterdir()) == [made]
    assert (made / "nation" / "nation.1.parquet").exists()


def test_there_are_22_queries_without_semicolons():
    texts = queries()
    assert list(texts) == [f"q{number}" for number in range(1, 23)]
    assert not any(";" in text for text in texts.values())


@pytest.fixture(scope="module")
def tables(spark, folder):
    """A session that knows the tables, as views."""
    register(spark, folder)
    yield spark
    for table in TABLES:
        spark.catalog.dropTempView(table)


@pytest.fixture(scope="module")
def oracle(folder):
    """DuckDB over the same files: a second engine's opinion."""
    with duckdb.connect(":memory:") as connection:
        for table in TABLES:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{folder}/{table}/*.parquet')")
        yield connection


def test_spark_reads_the_types_of_the_specification(tables):
    types = {name: kind for table in TABLES for name, kind in tables.table(table).dtypes}
    assert {types[c] for c in ("l_quantity", "l_extendedprice", "o_totalprice", "c_acctbal")} == {"decimal(15,2)"}
    assert {types[c] for c in ("l_shipdate", "l_commitdate", "l_receiptdate", "o_orderdate")} == {"date"}
    assert {types[c] for c in ("l_orderkey", "o_orderkey", "p_partkey", "s_suppkey", "c_custkey")} == {"bigint"}
    assert {types[c] for c in ("l_linenumber", "p_size", "ps_availqty", "o_shippriority")} == {"int"}
    assert {types[c] for c in ("p_name", "l_shipmode", "n_name", "c_phone", "o_comment")} == {"string"}


@pytest.mark.parametrize("name", [f"q{number}" for number in range(1, 23)])
def test_spark_answers_the_query_as_duckdb_does(tables, oracle, name):
    text = queries()[name]
    found, expected = tables.sql(text).collect(), oracle.execute(text).fetchall()
    assert len(found) == len(expected) > 0
    for row, other in zip(found, expected, strict=True):
        for value, opinion in zip(row, other, strict=True):
            if isinstance(value, Decimal | float):
                # An average of decimals is a double in DuckDB, and a decimal of six places in Spark.
                assert float(value) == pytest.approx(float(opinion), rel=1e-9, abs=1e-6)
            else:
                assert value == opinion
