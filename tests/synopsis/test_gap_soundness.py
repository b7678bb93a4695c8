"""No synopsis that knows the gaps loses a row: all types, random predicates, anything forgotten, against the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidestep.predicate.formula import Formula, Matches, Null, Within, atoms
from sidestep.predicate.normal import normalize
from sidestep.predicate.oracle import evaluate, holds
from sidestep.synopsis import Synopsis, kept_blocks, kinds
from sidestep.synopsis.bloom import BLOOM
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.skip import kept_by
from sidestep.synopsis.value_set import VALUES
from tests.synopsis.stored import stored, table_for
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
KINDS = list(kinds.KINDS.values())


def synopsis_of(
    kind: SynopsisKind[Any], blocks: Blocks, names: Sequence[str], size: int, forget: Sequence[int] = ()
) -> Synopsis:
    """One kind of synopsis of all columns, stored and read again; of the blocks in ``forget`` nothing was stored.

    A table is made of all blocks but the last, so that there is something outside of it.
    """
    keep = pa.array([number not in forget for number in range(len(blocks))])
    size = max(size, kind.sizes.least)
    columns: dict[str, Any] = {}
    for name in names:
        arrays = [arrow_array([row[name] for row in block], TYPES[name]) for block in blocks]
        asked = [(ranges, 1.0) for ranges in sets_of(TYPES[name])[1:6]] if size % 2 else []
        table = table_for(TYPES[name], arrays[:-1], size + 1, asked) if kind.tables is not None else None
        parts = stored(kind, TYPES[name], arrays, size, table)
        parts = {part: pc.if_else(keep, column, pa.scalar(None, column.type)) for part, column in parts.items()}
        read = kind.read(TYPES[name], parts, [] if table is None else [table])
        columns.update(zip([name], read, strict=False))
    return kind.synopsis(columns)


@st.composite
def cases(draw: st.DrawFn, groups: Sequence[Sequence[str]]):
    names = draw(st.sampled_from([list(group) for group in groups]))
    blocks = draw(blocks_of(names, 5))
    forget = draw(st.sets(st.integers(0, len(blocks) - 1), max_size=1))
    return names, blocks, draw(predicates(names)), draw(st.integers(1, 4)), sorted(forget)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@many
@given(cases(SINGLES + PAIRS))
def test_each_alone_loses_no_row(kind: SynopsisKind[Any], case):
    names, blocks, predicate, size, forget = case
    catalog = catalog_of(blocks, synopsis_of(kind, blocks, names, size, forget))
    kept = kept_blocks(catalog, normalize(predicate))
    skipped = itertools.chain.from_iterable(block for block, keep in zip(blocks, kept, strict=True) if not keep)
    assert [row for row in skipped if evaluate(predicate, row, opaque_value) is True] == []


@many
@given(cases(SINGLES + PAIRS))
def test_all_together_lose_no_row_and_keep_no_more_than_zone_maps(case):
    names, blocks, predicate, size, forget = case
    zones = zone_maps_of(blocks, names)
    synopses = [synopsis_of(kind, blocks, names, size, forget) for kind in KINDS]
    formula = normalize(predicate)
    kept = kept_blocks(catalog_of(blocks, zones, *synopses), formula)
    assert not np.any(kept & ~kept_blocks(catalog_of(blocks, zones), formula))
    skipped = itertools.chain.from_iterable(block for block, keep in zip(blocks, kept, strict=True) if not keep)
    assert [row for row in skipped if evaluate(predicate, row, opaque_value) is True] == []


@pytest.mark.parametrize("kind", KINDS, ids=str)
@many
@given(cases(SINGLES + PAIRS))
def test_every_atom_is_answered_soundly_or_not_at_all(kind: SynopsisKind[Any], case):
    names, blocks, predicate, size, forget = case
    synopsis = synopsis_of(kind, blocks, names, size, forget)
    for atom in atoms(normalize(predicate)):
        mask = kept_by(synopsis, atom)
        if mask is None:
            continue
        assert isinstance(atom, Within | Matches if kind is VALUES else Within)
        for number, block in enumerate(blocks):
            assert mask[number] or not any(holds(atom, row, opaque_value) for row in block)
            assert mask[number] or number not in forget, "what was forgotten is kept"


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_set_of_values_of_every_type(kind: SynopsisKind[Any], name: str):
    """Blocks of one and two values, all pairs of them; every kind skips something for every type."""
    values = pool(TYPES[name])
    blocks: Blocks = [[{name: a}, {name: b}] for a, b in itertools.combinations_with_replacement(values, 2)]
    synopsis = synopsis_of(kind, blocks, [name], 40)
    skipped = 0
    for ranges in sets_of(TYPES[name]):
        formula: Formula = Within(COLUMNS[name], ranges)
        mask = kept_by(synopsis, formula)
        if mask is None:
            assert kind is BLOOM
            continue
        needed = np.array([any(holds(formula, row) for row in block) for block in blocks])
        assert not np.any(needed & ~mask)
        skipped += int((~mask).sum())
    assert skipped > 0


def test_atoms_that_are_not_ranges_have_no_answer():
    blocks: Blocks = [[{"text": "a"}]]
    for kind in KINDS:
        synopsis = synopsis_of(kind, blocks, ["text"], 2)
        assert synopsis.can_satisfy(Null(COLUMNS["text"])) is None
        assert synopsis.name == kind.title
        assert synopsis.nbytes >= 0
