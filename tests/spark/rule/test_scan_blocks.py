"""The blocks of an explanation: as many as it counts, with a reason for each that is skipped, and no row lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidestep
from tests.spark.tables import write_file


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    rng = np.random.default_rng(3)
    root = tmp_path_factory.mktemp("scan-blocks")
    for year in (2023, 2024):
        for number in range(3):
            data = {
                "k": np.sort(rng.integers(1_000 * number, 1_000 * (number + 1), 400)),
                "v": rng.integers(0, 50, 400),
                "s": pa.array(rng.choice(["a", "m", "z"], 400)),
            }
            write_file(root / "facts" / f"year={year}" / f"part-{number}.parquet", data, row_group_size=50)
    keys = {"k": np.arange(3_000), "tag": pa.array([f"t{number // 100}" for number in range(3_000)])}
    write_file(root / "dims" / "part.parquet", keys, row_group_size=100)
    for name in ("facts", "dims"):
        sidestep.index(spark, str(root / name), synopses="s=values:8" if name == "facts" else None)
    return root


@pytest.fixture
def session(spark):
    made = spark.newSession()
    with sidestep.enable(made):
        yield made


def told_of(query) -> tuple[Any, Any]:
    """The report on the facts of a query, and their blocks."""
    told = sidestep.explain(query)
    at = next(number for number, scan in enumerate(told.scans) if scan.table.endswith("facts"))
    return told.scans[at], told.blocks[at]


def ask(session, tables, sql):
    return sidestep.query(session, sql, tables={name: str(tables / name) for name in ("facts", "dims")})


QUERIES = [
    ("SELECT * FROM facts WHERE k < 700", "zone map"),
    ("SELECT * FROM facts WHERE year = 2023 AND k BETWEEN 1200 AND 1400", "partition"),
    ("SELECT * FROM facts WHERE s = 'q'", "value set"),
    ("SELECT * FROM facts JOIN dims USING (k) WHERE tag = 't4'", "induced predicate"),
    ("SELECT * FROM facts", "read"),
]


@pytest.mark.parametrize(("sql", "kind"), QUERIES)
def test_blocks_are_those_that_are_counted_and_skipped_ones_hold_nothing(session, tables, sql, kind):
    df = ask(session, tables, sql)
    scan, blocks = told_of(df)
    assert len(blocks) == scan.row_groups.total == 48
    assert int(blocks.read.sum()) == scan.row_groups.kept
    assert int(blocks.rows[blocks.read].sum()) == scan.rows.kept
    assert kind in blocks.kinds
    arrow = blocks.to_arrow()
    assert arrow["read"].to_pylist() == blocks.read.tolist()
    assert [by or "read" for by in arrow["by"].to_pylist()] == list(blocks.kinds)
    wanted = {row["k"] for row in df.collect()}
    for number, row in enumerate(arrow.to_pylist()):
        proof = blocks.proof(number)
        if row["read"]:
            continue
        assert proof.endswith(".")
        held = pq.ParquetFile(tables / "facts" / row["file"]).read_row_group(row["row_group"])
        if "year" not in sql:
            assert not wanted & set(held["k"].to_pylist()), proof


def test_a_proof_names_what_it_rests_on(session, tables):
    _, blocks = told_of(ask(session, tables, "SELECT * FROM facts WHERE k < 700"))
    number = next(number for number, read in enumerate(blocks.read) if not read)
    held = pq.ParquetFile(tables / "facts" / blocks.to_arrow()["file"][number].as_py())
    low, high = (f(held.read_row_group(int(blocks.row_group[number]))["k"].to_pylist()) for f in (min, max))
    assert blocks.proof(number) == f"Its k goes from {low} to {high}: no row of it satisfies k <= 699."
    with pytest.raises(sidestep.SidestepError, match="blocks 0 to 47"):
        blocks.proof(48)


def test_what_was_chosen_when_it_ran(session, tables):
    """Many rows of dims pass the filter on a column without order, so that only its values at run time choose."""
    df = ask(session, tables, "SELECT facts.v FROM facts WHERE k = (SELECT max(k) FROM dims WHERE tag LIKE '%9')")
    scan, before = told_of(df)
    assert scan.chosen, sidestep.explain(df)
    assert "run-time selector" not in before.kinds
    metrics = sidestep.metrics(df)
    _, blocks = told_of(df)
    read = next(scan for scan in metrics.scans if "facts" in scan.table).files
    assert blocks.kinds.count("run-time selector") > 0
    arrow = blocks.to_arrow().to_pylist()
    assert len({row["file"] for row in arrow if row["read"]}) == read
    chosen = next(number for number, name in enumerate(blocks.kinds) if name == "run-time selector")
    assert "k" in blocks.proof(chosen)


def test_tables_without_an_index_have_no_blocks(session, tmp_path):
    write_file(tmp_path / "bare" / "part.parquet", {"k": [1, 2, 3]})
    told = sidestep.explain(sidestep.query(session, "SELECT * FROM bare", tables={"bare": str(tmp_path / "bare")}))
    assert told.blocks == (None,)


def test_explaining_leaves_the_plan_of_a_query_open(session, tmp_path):
    write_file(tmp_path / "late" / "a.parquet", {"k": [1, 2, 3]})
    write_file(tmp_path / "late" / "b.parquet", {"k": [11, 12, 13]})
    df = sidestep.query(session, "SELECT * FROM late WHERE k > 10", tables={"late": str(tmp_path / "late")})
    assert sidestep.explain(df).blocks == (None,)
    sidestep.index(session, str(tmp_path / "late"))
    assert sidestep.metrics(df).files == 1
