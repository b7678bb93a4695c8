"""Skipping never loses a row: on random tables of all types, with random predicates, whatever is forgotten."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidestep.predicate.build import compare
from sidestep.predicate.formula import Compares, Holds, Relation, atoms
from sidestep.predicate.nodes import Opaque, Predicate
from sidestep.predicate.normal import normalize
from sidestep.predicate.oracle import Row, evaluate, holds
from sidestep.predicate.types import Kind
from sidestep.synopsis import explain_skips, kept_blocks
from tests.synopsis.tables import COLUMNS, NAMES, TYPES, Blocks, blocks_of, catalog_of, pool, predicates, zone_maps_of

many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def opaque_value(opaque: Opaque, row: Row) -> bool | None:
    """Any value at all: nothing is known of it."""
    return (True, False, None)[zlib.crc32(repr(sorted(row.items())).encode(errors="replace")) % 3]


@st.composite
def cases(draw: st.DrawFn, groups: Sequence[Sequence[str]], most_rows: int = 4):
    names = draw(st.sampled_from([list(group) for group in groups]))
    return names, draw(blocks_of(names, most_rows)), draw(predicates(names))


def lost_rows(names, blocks, predicate: Predicate, forget: Sequence[str] = ()) -> list[Row]:
    catalog = catalog_of(blocks, zone_maps_of(blocks, names, forget))
    kept = kept_blocks(catalog, normalize(predicate))
    skipped = itertools.chain.from_iterable(block for block, keep in zip(blocks, kept, strict=True) if not keep)
    return [row for row in skipped if evaluate(predicate, row, opaque_value) is True]


SINGLES = [[name] for name in NAMES]
PAIRS = [
    ["int", "int2"],
    ["long", "long2", "double"],
    ["double", "double2", "float"],
    ["text", "text2"],
    ["day", "day2", "local"],
    ["tiny", "int", "long"],
    ["int", "money", "fine"],
    ["broad", "wide"],
    ["flag", "int", "text"],
]


@many
@given(cases(SINGLES))
def test_one_column_of_any_type_loses_no_row(case):
    assert lost_rows(*case) == []


@many
@given(cases(PAIRS))
def test_several_columns_lose_no_row(case):
    assert lost_rows(*case) == []


@many
@given(cases([["double"], ["float"], ["float", "double", "double2"]]))
def test_nan_infinities_and_zeros_lose_no_row(case):
    assert lost_rows(*case) == []


@many
@given(cases([["text"], ["blob"], ["text", "text2"], ["wide"]]))
def test_truncated_strings_and_wide_decimals_lose_no_row(case):
    assert lost_rows(*case) == []


@many
@given(cases(SINGLES + PAIRS), st.data())
def test_forgotten_statistics_lose_no_row(case, data):
    names, blocks, predicate = case
    parts = [f"{part}:{name}" for name in names for part in ("lower", "upper", "nulls", "nan")]
    forget = data.draw(st.lists(st.sampled_from(parts), unique=True))
    assert lost_rows(names, blocks, predicate, forget) == []


NUMERIC = ["tiny", "int", "long", "long2", "float", "double", "double2", "money", "fine", "wide", "broad"]


@many
@given(st.sampled_from(NUMERIC), st.sampled_from(NUMERIC), st.sampled_from(["<", "<=", "=", "<>"]), st.data())
def test_columns_of_different_numeric_types_are_compared_exactly(left: str, right: str, op: Relation, data):
    blocks = data.draw(blocks_of([left, right], most_rows=2))
    catalog = catalog_of(blocks, zone_maps_of(blocks, [left, right]))
    formula = Compares(COLUMNS[left], op, COLUMNS[right])
    kinds = {TYPES[left].kind, TYPES[right].kind}
    decided = not (Kind.DECIMAL in kinds and kinds & {Kind.FLOAT, Kind.DOUBLE})
    for block, keep in zip(blocks, kept_blocks(catalog, formula), strict=True):
        wanted = any(holds(formula, row) for row in block)
        assert keep or not wanted
        if len(block) == 1 and decided:
            assert keep == wanted, "a block of one row is known in full"


def is_exact(row: Row) -> bool:
    """Whether bounds tell the row's values in full: strings of up to 32 bytes do not get cut."""
    return all(len(v.encode() if isinstance(v, str) else v) <= 32 for v in row.values() if isinstance(v, str | bytes))


@many
@given(cases(SINGLES + PAIRS, most_rows=1))
def test_a_block_of_one_row_is_kept_exactly_when_the_predicate_is_true(case):
    names, blocks, predicate = case
    formula = normalize(predicate)
    if any(isinstance(atom, Holds) for atom in atoms(formula)):
        return
    catalog = catalog_of(blocks, zone_maps_of(blocks, names))
    for block, keep in zip(blocks, kept_blocks(catalog, formula), strict=True):
        if len(block) == 1 and is_exact(block[0]):
            assert keep == (evaluate(predicate, block[0], opaque_value) is True)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(PAIRS))
def test_what_is_explained_adds_up_to_what_is_skipped(case):
    names, blocks, predicate = case
    catalog = catalog_of(blocks, zone_maps_of(blocks, names))
    formula = normalize(predicate)
    kept = kept_blocks(catalog, formula)
    skips = explain_skips(catalog, formula)
    assert sum(skip.beyond.blocks for skip in skips) == int((~kept).sum())
    assert sum(skip.beyond.rows for skip in skips) == int(catalog.rows[~kept].sum())
    assert all(skip.synopsis is not None or skip.reason for skip in skips)


@pytest.mark.parametrize("name", NAMES)
def test_every_type_is_skipped_on(name: str):
    """An index that silently never skips is as common a bug as one that skips too much."""
    values = sorted({v for v in pool(TYPES[name]) if v == v}, key=repr)
    rng = random.Random(name)
    blocks: Blocks = [[{name: rng.choice(values)}] for _ in range(40)]
    catalog = catalog_of(blocks, zone_maps_of(blocks, [name]))
    rate = 0
    for value in values:
        rate += int((~kept_blocks(catalog, normalize(compare(COLUMNS[name], "=", value)))).sum())
    assert rate >= 40 * len(values) / 3
