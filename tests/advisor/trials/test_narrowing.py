"""Which columns an arrangement narrows: those it goes by and those that follow them, and no others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sidestep.advisor.trials.narrowing import narrowed
from sidestep.advisor.trials.needs import Needs, needs_of
from sidestep.advisor.trials.sample import Sample, sample_of
from sidestep.advisor.trials.trial import Blocks
from sidestep.predicate import DOUBLE, INTEGER, Predicate, column, compare, normalize

ROWS, BLOCK = 3_000, 60
TYPES = {
    "a": INTEGER,
    "near": INTEGER,
    "few": INTEGER,
    "more": INTEGER,
    "empty": INTEGER,
    "one": INTEGER,
    "some": DOUBLE,
}


@pytest.fixture
def sample() -> Sample:
    draw = np.random.default_rng(0)
    a = draw.integers(0, 100_000, ROWS)
    values = draw.random(ROWS)
    table = pa.table(
        {
            "a": a,
            "near": a + draw.integers(0, 20_000, ROWS),
            "few": draw.integers(0, 50, ROWS),
            "more": draw.integers(0, 100, ROWS),
            "empty": pa.nulls(ROWS, pa.int32()),
            "one": np.full(ROWS, 7),
            "some": pa.array(values, mask=values < 0.5),
        }
    )
    return sample_of(table, TYPES, ROWS)


def blocks(sample: Sample, *by: str) -> Blocks:
    """Rows sorted by some columns, or as they are, in blocks of one size."""
    keys = [sample.codes[name] for name in reversed(by)] or [np.arange(len(sample))]
    return Blocks(np.lexsort(keys), np.full(len(sample) // BLOCK, BLOCK))


def needs(sample: Sample, *queries: Predicate) -> Needs:
    formulas = [normalize(each) for each in queries]
    return needs_of(sample, formulas, np.ones(len(queries)), np.zeros((0, len(queries)), np.bool_))


@pytest.mark.parametrize(
    ("by", "expected"), [([], set()), (["a"], {"a", "near"}), (["few"], {"few"}), (["some"], {"some"})]
)
def test_what_rows_are_sorted_by_and_what_follows_it(sample: Sample, by: list[str], expected: set[str]) -> None:
    assert narrowed(sample, needs(sample), blocks(sample, *by)) == expected


def test_a_few_blocks_that_are_set_apart_for_one_value(sample: Sample) -> None:
    """In the mean over all blocks nothing is narrower, and yet the queries for that value skip all others."""
    apart = Blocks(np.argsort(sample.codes["more"] != 3, kind="stable"), np.full(ROWS // BLOCK, BLOCK))
    assert narrowed(sample, needs(sample), apart) == frozenset()
    values = [compare(column("more", INTEGER), "=", value) for value in range(100)]
    assert narrowed(sample, needs(sample, *values), apart) == {"more"}
    assert narrowed(sample, needs(sample, *values[4:]), apart) == frozenset(), "no query asks for it"


def test_rows_of_one_kind_are_narrowed_in_any_order(sample: Sample) -> None:
    """Blocks of copies of some rows: all of them tell what these have in common."""
    mine = np.flatnonzero(sample.codes["few"] < 25)
    made = Blocks(mine, np.full(len(mine) // BLOCK + 1, BLOCK))
    made = Blocks(mine[: len(mine) // BLOCK * BLOCK], made.sizes[:-1])
    assert narrowed(sample, needs(sample), made) == {"few"}


def test_only_columns_that_are_asked_about_and_are_there(sample: Sample) -> None:
    made = blocks(sample, "a")
    assert narrowed(sample, needs(sample), made, ["near", "few", "never drawn"]) == {"near"}
    assert narrowed(sample, needs(sample), Blocks(np.zeros(0, np.int64), np.zeros(0, np.int64))) == frozenset()
