"""Advice: what it estimates from a sample is what a load then gives, and its choice is one that a load can take."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidestep.advisor.layouts.choose import FAMILIES
from sidestep.advisor.layouts.hold_out import judged_queries
from sidestep.errors import SidestepError
from sidestep.spark.advise import study
from sidestep.spark.advise.advise import advise
from sidestep.spark.advise.source import read_source
from sidestep.spark.advise.study import choose_layout, draw
from sidestep.spark.advise.what_if import what_if
from sidestep.spark.log.analyze import read_workload
from sidestep.spark.table.load import load
from sidestep.store import open_index
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.synopsis import kept_blocks
from sidestep.workload import Feature

pytestmark = pytest.mark.spark

ROWS = 12_000
KINDS = ("shoes", "hats", "coats", "socks", "belts", "bags", "gloves", "scarves")
WITHIN = 0.02
"""How far an estimate may be from the truth, as a share of all rows."""


def table(rows: int = ROWS) -> pa.Table:
    """Sales of a year in no order: shipped up to 90 days after they were ordered."""
    draw = np.random.default_rng(5)
    ordered = draw.integers(18_262, 18_262 + 366, rows).astype(np.int32)
    return pa.table(
        {
            "id": np.arange(rows),
            "kind": pa.array([KINDS[at] for at in draw.integers(0, len(KINDS), rows)]),
            "amount": pa.array(draw.integers(0, 1_000, rows), pa.int32(), mask=draw.random(rows) < 0.02),
            "returned": draw.random(rows) < 0.1,
            "ordered": pa.array(ordered).cast(pa.date32()),
            "shipped": pa.array((ordered + draw.integers(1, 90, rows)).astype(np.int32)).cast(pa.date32()),
        }
    )


def statements(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        month = draw.randint(1, 11)
        when = f"ordered >= DATE '2020-{month:02}-01' AND ordered < DATE '2020-{month + 1:02}-01'"
        shipped = f"shipped >= DATE '2020-{month:02}-01' AND shipped < DATE '2020-{month + 1:02}-01'"
        kind = draw.choice(KINDS[:3])
        found.append(
            draw.choice(
                [
                    f"SELECT sum(amount) FROM sales WHERE kind = '{kind}' AND {when}",
                    f"SELECT id FROM sales WHERE returned AND amount < 500 AND {when}",
                    f"SELECT count(*) FROM sales WHERE {shipped}",
                    "SELECT id FROM sales WHERE kind = 'bags' AND amount > 900",
                ]
            )
        )
    return found


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advise") / "sales"
    folder.mkdir()
    made = table()
    for at in range(4):
        pq.write_table(made.slice(at * ROWS // 4, ROWS // 4), folder / f"{at}.parquet")
    (folder.parent / "train.sql").write_text(";\n".join(statements(160, 1)))
    (folder.parent / "test.sql").write_text(";\n".join(statements(60, 2)))
    return folder


def rows_read(path: str, judged) -> float:
    index = open_index(path)
    columns = {name: kind for name, kind in index.columns.items() if name != "_block"}
    catalog = index.catalog(columns)
    shares = [catalog.rows[kept_blocks(catalog, one.formula)].sum() / ROWS for one in judged]
    return float(np.average(shares, weights=[one.weight for one in judged]))


def judges(spark, sales: Path, log):
    return judged_queries(read_workload(spark, log, {"sales": read_source(spark, str(sales), "sales").schema}), "sales")


@pytest.mark.parametrize("family", ["features", "cuts", "z-order"])
def test_the_estimate_is_what_a_load_gives(spark, sales, tmp_path, family):
    log = str(sales.parent / "train.sql")
    advice = advise(spark, log, str(sales), min_size=200, family=family)
    target = str(tmp_path / "laid")
    report = load(spark, str(sales), target, log=log, min_size=200, family=family)
    assert advice.choice.family == family
    assert report.spec.tree == advice.choice.tree
    truth = rows_read(target, judges(spark, sales, statements(160, 1)[96:]))
    assert abs(advice.estimate(family).rows - truth) < WITHIN
    assert advice.estimate("today").rows == 1.0


def test_a_load_chooses_the_best_family_and_says_so(spark, sales, tmp_path):
    log, test_log = str(sales.parent / "train.sql"), str(sales.parent / "test.sql")
    advice = advise(spark, log, str(sales), min_size=200, test_log=test_log)
    assert [one.layout for one in advice.estimates][: 1 + len(FAMILIES)] == ["today", *FAMILIES]
    best = min((one for one in advice.estimates if one.layout != "column groups"), key=lambda one: one.seconds)
    assert advice.estimate(advice.choice.family).seconds <= 1.02 * best.seconds
    assert f"Laid out by {advice.choice.family}" in advice.verdict
    report = load(spark, str(sales), str(tmp_path / "laid"), log=log, min_size=200)
    assert any(note.startswith(f"Laid out by {advice.choice.family}") for note in report.notes)
    simple = min(advice.estimate(name).rows for name in ("today", "as is", "sorted", "z-order"))
    assert rows_read(str(tmp_path / "laid"), judges(spark, sales, test_log)) < 0.6 * simple


def test_units_and_order_make_it_a_layout_by_features(spark, sales):
    advice = advise(spark, str(sales.parent / "train.sql"), str(sales), min_size=200, by="date_trunc('MONTH', ordered)")
    choice = advice.choice
    assert (choice.family, choice.by, choice.tree) == ("features", "date_trunc('MONTH', ordered)", None)
    assert {"kind = 'shoes'", "kind = 'hats'", "kind = 'coats'"} <= {str(one) for one in choice.features.features}
    assert "--by" in advice.command


def test_nothing_helps_queries_without_a_filter_that_tells_rows_apart(spark, sales, tmp_path):
    log = ["SELECT count(*) FROM sales WHERE amount >= 0"] * 100
    advice = advise(spark, log, str(sales), min_size=200, name="sales")
    assert advice.choice.family == "as is"
    assert "leave the table as it is" in advice.verdict


def test_an_unknown_family_is_refused(spark, sales):
    with pytest.raises(SidestepError, match="There is no family of layouts called 'best'"):
        advise(spark, str(sales.parent / "train.sql"), str(sales), family="best")


def test_advice_prints_and_is_data(spark, sales):
    advice = advise(
        spark, sales.parent / "train.sql", str(sales), num_features=3, min_size=200, sample_rows=6_000, name="sales"
    )
    text = str(advice)
    assert "the last two fifths of the log" in text
    assert "sidestep load sales" in text
    assert "--num-features 3" in advice.command
    data = advice.to_dict()
    assert list(data["estimates"]) == ["today", *FAMILIES]
    assert data["choice"]["num_features"] <= 3
    assert all(0 <= one["rows"] <= 1 for one in data["estimates"].values())


def test_what_is_given_is_kept(spark, sales):
    source = read_source(spark, str(sales), "sales")
    workload = read_workload(spark, str(sales.parent / "train.sql"), {"sales": source.schema})
    choice = choose_layout(
        workload, "sales", source.rows, source.types, by="kind", num_features=2, min_size=300, order=["amount"]
    ).layout
    assert (choice.by, choice.min_size, choice.order, len(choice.features)) == ("kind", 300, ("amount",), 2)
    assert choice.demands.features == 2


def test_the_same_log_and_table_give_the_same_choice(spark, sales):
    source = read_source(spark, str(sales), "sales")
    workload = read_workload(spark, str(sales.parent / "train.sql"), {"sales": source.schema})
    first, second = (
        choose_layout(workload, "sales", source.rows, source.types, min_size=400, sample_rows=5_000).layout
        for _ in range(2)
    )
    assert first.features.id == second.features.id
    assert first == second


def test_ranks_tell_of_a_sample_what_spark_does(spark, sales, monkeypatch):
    source = read_source(spark, str(sales), "sales")
    conditions = [
        "kind LIKE '%oe%'",
        "amount IS NULL OR amount < 100",
        "month(ordered) = 5",
        "returned",
        "ordered < shipped AND kind IN ('hats', 'socks')",
        "id % 7 = 3",
        "amount <> 250",
        "kind > 'c' AND NOT returned AND shipped >= DATE '2020-06-01'",
    ]
    log = [f"SELECT id FROM sales WHERE {condition}" for condition in conditions]
    workload = read_workload(spark, log, {"sales": source.schema})
    features = [Feature(tuple(query.uses[0].predicates)) for query in workload.queries]

    def drawn() -> dict[int, list[bool]]:
        found = draw(source.rows, source.types, features, total=ROWS, spec=LayoutSpec(), sample_rows=ROWS)
        return {number: bits.tolist() for number, bits in found.satisfied.items()}

    by_ranks = drawn()
    with monkeypatch.context() as patched:
        patched.setattr(study, "told_by_ranks", lambda *_: False)
        by_spark = drawn()
    assert by_ranks == by_spark
    assert list(by_ranks) == list(range(len(conditions)))
    counted = [source.rows.where(condition).count() for condition in conditions]
    assert [sum(bits) for bits in by_ranks.values()] == counted


def test_a_log_of_another_table_is_refused(spark, sales):
    with pytest.raises(SidestepError, match="says nothing of others"):
        advise(spark, sales.parent / "train.sql", str(sales), name="others")


def test_a_table_without_rows_has_a_choice(spark, sales, tmp_path):
    pq.write_table(table(10).slice(0, 0), tmp_path / "empty.parquet")
    advice = advise(spark, sales.parent / "train.sql", str(tmp_path), name="sales", min_size=100)
    assert advice.total_rows == 0
    assert len(advice.choice.features) == 0


def test_what_if_compares_sizes_on_one_sample(spark, sales):
    told = what_if(spark, statements(60, 1), str(sales), name="sales", min_sizes=[400, 100], storage=1.5)
    assert list(dict.fromkeys((one.layout, one.min_size) for one in told.points if one.layout != "gsop-r")) == [
        ("sop", 100),
        ("gsop", 100),
        ("sop", 400),
        ("gsop", 400),
    ]
    assert all(0 < one.read <= 2 and one.storage >= 1 for one in told.points)
    for size in (100, 400):
        sop, gsop, *replicated = (one for one in told.points if one.min_size == size)
        assert gsop.read <= sop.read, "one group is among the divisions that are tried"
        assert sorted(name for group in gsop.groups for name in group) == sorted(sop.groups[0])
        for one in replicated:
            assert one.layout == "gsop-r"
            assert sorted(name for part in one.replicas for name in part.masters) == sorted(sop.groups[0]), (
                "all is there"
            )
    assert told.curves["sop"].points[0] == (100.0, told.points[0].read)
    reads = [read for _, read in told.by_storage.points]
    assert reads == sorted(reads, reverse=True)
    assert "rows per block" in str(told)
    assert len(told.to_dict()["points"]) == len(told.points)
    with pytest.raises(SidestepError, match="at most"):
        what_if(spark, statements(9, 1), str(sales), name="sales", min_sizes=list(range(1, 30)))
