"""No synopsis that knows the gaps loses a row: all types, random predicates, anything forgotten, against the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidestep.predicate.formula import Formula, Null, Within, atoms
from sidestep.predicate.normal import normalize
from sidestep.predicate.oracle import evaluate, holds
from sidestep.predicate.types import Kind
from sidestep.synopsis import Synopsis, kept_blocks
from sidestep.synopsis.bloom import bloom_columns, bloom_filters, bloom_filters_of
from sidestep.synopsis.gap_histogram import gap_histogram_columns, gap_histograms, gap_histograms_of
from sidestep.synopsis.grt.encoding import BlockBits, build, global_ranges_of, grt_columns
from sidestep.synopsis.grt.popularity import popularity, uniform
from sidestep.synopsis.grt.table import GlobalRangeTable, encode_blocks
from sidestep.synopsis.range_set import range_set_columns, range_sets, range_sets_of
from sidestep.synopsis.values.codes import Codes, Coding, codes_of
from sidestep.synopsis.zones.column_zones import ArrowColumn
from tests.synopsis.tables import (
    COLUMNS,
    NAMES,
    TYPES,
    Blocks,
    arrow_array,
    blocks_of,
    catalog_of,
    pool,
    predicates,
    zone_maps_of,
)
from tests.synopsis.test_exhaustive import sets_of
from tests.synopsis.test_soundness import PAIRS, SINGLES, opaque_value

many = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
KINDS = ["range-set", "gap histogram", "Bloom filter", "global range table"]
PREFIXES = [b"", b"a", b"pre", b"prefix of more than thirty-two bytes"]


def coding_of(name: str, prefix: bytes) -> Coding:
    return Coding(TYPES[name], prefix if TYPES[name].kind in (Kind.STRING, Kind.BINARY) else b"")


def synopsis_of(
    kind: str, blocks: Blocks, names: Sequence[str], size: int, prefix: bytes = b"", forget: Sequence[int] = ()
) -> Synopsis:
    """One kind of synopsis of all columns, stored and read again; of the blocks in ``forget`` nothing was stored."""
    index: dict[str, ArrowColumn] = {}
    tables: dict[str, GlobalRangeTable] = {}
    for name in names:
        coding = coding_of(name, prefix)
        arrays = [arrow_array([row[name] for row in block], TYPES[name]) for block in blocks]
        if kind == "range-set":
            index |= range_set_columns(name, range_sets(coding, arrays, size))
        elif kind == "gap histogram":
            index |= gap_histogram_columns(name, gap_histograms(coding, arrays, size))
        elif kind == "Bloom filter":
            index |= bloom_columns(name, bloom_filters(TYPES[name], arrays, 0.001))
        else:
            bits = bits_of(coding, arrays, size)
            tables[name] = bits.table
            index |= grt_columns(name, bits)
    types = {name: TYPES[name] for name in names}
    keep = pa.array([number not in forget for number in range(len(blocks))])
    stored = {key: pc.if_else(keep, column, pa.scalar(None, column.type)) for key, column in index.items()}
    if kind == "range-set":
        return range_sets_of(types, stored)
    if kind == "gap histogram":
        return gap_histograms_of(types, stored)
    if kind == "Bloom filter":
        return bloom_filters_of(types, stored)
    return global_ranges_of(types, stored, tables)


def bits_of(coding: Coding, arrays: Sequence[pa.Array], size: int) -> BlockBits:
    """Bits by a table that was made of all blocks but the last, so that there is something outside of it."""
    blocks: list[Codes] = []
    for array in arrays:
        found = codes_of(array, coding)
        assert found is not None
        blocks.append(np.unique(found))
    asked = [(ranges, 1.0) for ranges in sets_of(coding.type)[1:6]]
    known = popularity(coding, asked) if size % 2 else uniform(coding)
    table = build(blocks[:-1], size + 1, known).table
    return BlockBits(table, encode_blocks(table, blocks))


@st.composite
def cases(draw: st.DrawFn, groups: Sequence[Sequence[str]]):
    names = draw(st.sampled_from([list(group) for group in groups]))
    blocks = draw(blocks_of(names, 5))
    forget = draw(st.sets(st.integers(0, len(blocks) - 1), max_size=1))
    size, prefix = draw(st.integers(1, 4)), draw(st.sampled_from(PREFIXES))
    return names, blocks, draw(predicates(names)), size, prefix, sorted(forget)


@pytest.mark.parametrize("kind", KINDS)
@many
@given(cases(SINGLES + PAIRS))
def test_each_alone_loses_no_row(kind: str, case):
    names, blocks, predicate, size, prefix, forget = case
    catalog = catalog_of(blocks, synopsis_of(kind, blocks, names, size, prefix, forget))
    kept = kept_blocks(catalog, normalize(predicate))
    skipped = itertools.chain.from_iterable(block for block, keep in zip(blocks, kept, strict=True) if not keep)
    assert [row for row in skipped if evaluate(predicate, row, opaque_value) is True] == []


@many
@given(cases(SINGLES + PAIRS))
def test_all_together_lose_no_row_and_keep_no_more_than_zone_maps(case):
    names, blocks, predicate, size, prefix, forget = case
    zones = zone_maps_of(blocks, names)
    synopses = [synopsis_of(kind, blocks, names, size, prefix, forget) for kind in KINDS]
    formula = normalize(predicate)
    kept = kept_blocks(catalog_of(blocks, zones, *synopses), formula)
    assert not np.any(kept & ~kept_blocks(catalog_of(blocks, zones), formula))
    skipped = itertools.chain.from_iterable(block for block, keep in zip(blocks, kept, strict=True) if not keep)
    assert [row for row in skipped if evaluate(predicate, row, opaque_value) is True] == []


@pytest.mark.parametrize("kind", KINDS)
@many
@given(cases(SINGLES + PAIRS))
def test_every_atom_is_answered_soundly_or_not_at_all(kind: str, case):
    names, blocks, predicate, size, prefix, forget = case
    synopsis = synopsis_of(kind, blocks, names, size, prefix, forget)
    for atom in atoms(normalize(predicate)):
        answer = synopsis.can_satisfy(atom)
        if answer is None:
            continue
        assert isinstance(atom, Within)
        for number, block in enumerate(blocks):
            assert answer[number] or not any(holds(atom, row, opaque_value) for row in block)
            assert answer[number] or number not in forget, "what was forgotten is kept"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_set_of_values_of_every_type(kind: str, name: str):
    """Blocks of one and two values, all pairs of them; every kind skips something for every type."""
    values = pool(TYPES[name])
    blocks: Blocks = [[{name: a}, {name: b}] for a, b in itertools.combinations_with_replacement(values, 2)]
    synopsis = synopsis_of(kind, blocks, [name], 40)
    skipped = 0
    for ranges in sets_of(TYPES[name]):
        formula: Formula = Within(COLUMNS[name], ranges)
        answer = synopsis.can_satisfy(formula)
        if answer is None:
            assert kind == "Bloom filter"
            continue
        needed = np.array([any(holds(formula, row) for row in block) for block in blocks])
        assert not np.any(needed & ~answer)
        skipped += int((~answer).sum())
    assert skipped > 0


def test_atoms_that_are_not_ranges_have_no_answer():
    blocks: Blocks = [[{"text": "a"}]]
    for kind in KINDS:
        synopsis = synopsis_of(kind, blocks, ["text"], 2)
        assert synopsis.can_satisfy(Null(COLUMNS["text"])) is None
        assert synopsis.name == kind
        assert synopsis.nbytes >= 0
