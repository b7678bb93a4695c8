"""Layouts tried on a sample: blocks hold every row once, and what is estimated is near what the whole table gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.advisor.trials.sample import Sample, sample_of
from sidestep.advisor.trials.trial import (
    Blocks,
    by_group,
    catalog_of,
    group_sample,
    stored_values,
)
from sidestep.layout import pack
from sidestep.layout.demand import Demand, Demands
from sidestep.predicate import (
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    Formula,
    all_of,
    between,
    column,
    compare,
    decimal_type,
    normalize,
)
from sidestep.synopsis import kept_blocks
from tests.advisor.trials.shares import shares_read

ROWS = 200_000
MIN_SIZE = 1_000
TOLERANCE = 0.1
"""How far the estimate from a tenth of the rows may be from the truth, as a share of it."""
TYPES = {"kind": STRING, "amount": INTEGER, "price": decimal_type(12, 2), "ordered": DATE, "shipped": DATE}
KIND, AMOUNT, SHIPPED, ORDERED = (column(name, TYPES[name]) for name in ("kind", "amount", "shipped", "ordered"))
FEATURES = [
    normalize(compare(KIND, "=", "k1")),
    normalize(compare(AMOUNT, "<", 100)),
    normalize(compare(KIND, "=", "k2")),
]
DEMANDS = Demands(
    3, tuple(Demand((at,), (("ordered", 30 * month, 30 * month + 29),)) for at in (0, 1, 2) for month in range(12))
)


def table(rows: int = ROWS) -> pa.Table:
    draw = np.random.default_rng(1)
    ordered = draw.integers(0, 360, rows).astype(np.int32)
    return pa.table(
        {
            "kind": pa.array([f"k{at}" for at in draw.integers(0, 9, rows)]),
            "amount": pa.array(draw.integers(0, 1_000, rows), pa.int32(), mask=draw.random(rows) < 0.01),
            "price": pa.array(draw.integers(0, 10_000, rows), pa.int32()).cast(pa.decimal128(12, 2)),
            "ordered": pa.array(ordered).cast(pa.date32()),
            "shipped": pa.array((ordered + draw.integers(1, 60, rows)).astype(np.int32)).cast(pa.date32()),
        }
    )


def sampled(every: int) -> tuple[Sample, np.ndarray]:
    """Every so-manieth row of a table, which has no order, with its feature vectors."""
    whole = table()
    part = whole.take(pa.array(np.arange(0, ROWS, every)))
    months = pa.chunked_array([part["ordered"].combine_chunks().cast(pa.int32()).to_numpy() // 30])
    sample = sample_of(part, TYPES, ROWS, unit=months)
    amount = part["amount"].fill_null(1_000).to_numpy()
    kind = part["kind"].to_numpy()
    return sample, pack(np.column_stack([kind == "k1", amount < 100, kind == "k2"]))


def queries() -> list[Formula]:
    found = []
    for month in range(12):
        when = normalize(between(ORDERED, 30 * month, 30 * month + 29))
        found += [all_of([feature, when]) for feature in FEATURES]
        found.append(normalize(between(SHIPPED, 30 * month, 30 * month + 29)))
    return found


def by_features(sample: Sample, words: np.ndarray, demands: Demands, order: tuple[str, ...], block: int) -> Blocks:
    buckets = [name for name in order if name in sample.buckets]
    return by_group(sample, group_sample(sample, words, demands, block, buckets), order, block)


def by_order(sample: Sample, columns: tuple[str, ...], block: int) -> Blocks:
    return by_group(sample, np.zeros(len(sample), np.int64), columns, block)


def read(every: int) -> np.ndarray:
    sample, words = sampled(every)
    blocks = by_features(sample, words, DEMANDS, ("shipped",), sample.rows_for(MIN_SIZE))
    return shares_read(sample, blocks, queries(), FEATURES, words)


def test_the_estimate_is_near_the_truth():
    truth, estimate = read(1), read(10)
    assert estimate.mean() == pytest.approx(truth.mean(), rel=TOLERANCE)
    assert abs(estimate - truth).mean() < 0.01


def test_features_read_less_than_orders_do():
    sample, words = sampled(10)
    block = sample.rows_for(MIN_SIZE)
    sop = shares_read(sample, by_features(sample, words, DEMANDS, ("shipped",), block), queries(), FEATURES, words)
    others = [by_order(sample, ("ordered",), block), by_group(sample, sample.unit, (), block)]
    assert all(sop.mean() < 0.75 * shares_read(sample, each, queries()).mean() for each in others)


@pytest.mark.parametrize("columns", [("ordered",), ("kind", "amount"), ("shipped", "ordered", "price"), ()])
def test_every_row_is_in_one_block(columns):
    sample, words = sampled(200)
    for blocks in (
        by_order(sample, columns, 40),
        by_features(sample, words, DEMANDS, columns, 40),
        by_features(replace(sample, buckets={"shipped": sample.codes["shipped"] // 30}), words, DEMANDS, columns, 40),
    ):
        assert sorted(blocks.order.tolist()) == list(range(len(sample)))
        assert blocks.sizes.sum() == len(sample)
        assert blocks.sizes.max() < 80
        assert (blocks.sizes > 0).all()


@given(st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=30), st.integers(1, 7), st.integers(-6, 6))
def test_what_is_read_is_at_least_what_is_asked_for(values, block, low):
    sample = sample_of(pa.table({"a": pa.array(values, pa.int32())}), {"a": INTEGER}, len(values))
    query = normalize(between(column("a", INTEGER), low, low + 2))
    selected = sum(value is not None and low <= value <= low + 2 for value in values)
    read = shares_read(sample, by_order(sample, ("a",), block), [query])[0] * max(1, len(values))
    assert read >= selected - 1e-9
    assert read <= selected + 4 * block


def test_no_rows_are_no_blocks():
    sample = sample_of(table(1).slice(0, 0), TYPES, 0)
    words = np.zeros((0, 1), np.uint64)
    assert len(by_features(sample, words, DEMANDS, (), 10)) == 0
    assert shares_read(sample, by_order(sample, (), 10), queries()[:1]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("values", "type", "stored"),
    [
        (pa.array(["a", "é"]), STRING, [b"a", "é".encode()]),
        (pa.array([1.5, float("nan")]), DOUBLE, None),
        (pa.array(["1.25", "-3.00"]).cast(pa.decimal128(5, 2)), decimal_type(5, 2), [125, -300]),
        (pa.array(["1.25"]).cast(pa.decimal128(25, 2)), decimal_type(25, 2), "left out"),
        (pa.array([3], pa.int32()).cast(pa.date32()), DATE, [3]),
    ],
)
def test_values_take_the_form_of_the_index(values, type, stored):
    found = stored_values(values, type)
    if stored == "left out":
        assert found is None
    elif stored is not None:
        assert found is not None
        assert found.to_pylist() == stored


def test_blocks_know_nan_and_the_values_of_columns_of_few():
    values = pa.table({"x": pa.array([1.0, 2.0, float("nan"), 4.0]), "kind": pa.array(["a", "c", "b", "b"])})
    types = {"x": DOUBLE, "kind": STRING}
    sample = sample_of(values, types, 4)
    catalog = catalog_of(sample, Blocks(np.arange(4), np.array([2, 2])))
    above = normalize(compare(column("x", DOUBLE), ">", 3.0))
    assert kept_blocks(catalog, above).tolist() == [False, True]
    assert kept_blocks(catalog, normalize(compare(column("x", DOUBLE), "<", 3.0))).tolist() == [True, False]
    assert kept_blocks(catalog, normalize(compare(column("kind", STRING), "=", "b"))).tolist() == [False, True]
