"""Every type, every pair of edge values, every operator: small enough to try them all."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sidestep.predicate.formula import Compares, Formula, Relation, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.oracle import holds
from sidestep.predicate.types import FLOATING, DataType, Kind, Value
from sidestep.synopsis import ColumnSummary, Mask, ZoneMaps, stored_type, summarize, zone_maps
from sidestep.synopsis.skip import kept_by
from tests.synopsis.tables import COLUMNS, NAMES, TYPES, Blocks, arrow_array, pool

FORGET = [(), ("lower",), ("upper",), ("nulls",), ("nan",), ("lower", "upper"), ("upper", "nulls")]


def zone_maps_without(blocks: Blocks, names: list[str], forget: tuple[str, ...]) -> ZoneMaps:
    """Zone maps in which every second block has forgotten some parts, of all columns."""
    known: dict[tuple[str, str], ColumnSummary] = {}
    index: dict[str, pa.Array] = {}
    for name in names:
        type = TYPES[name]
        found = []
        for block in blocks:
            values = [row[name] for row in block]
            if (name, repr(values)) not in known:
                known[name, repr(values)] = summarize(arrow_array(values, type), type)
            found.append(known[name, repr(values)])
        for part, arrow in (
            ("lower", stored_type(type)),
            ("upper", stored_type(type)),
            ("nulls", pa.int64()),
            ("nan", pa.bool_()),
        ):
            values = [getattr(s, part) if part not in forget or i % 2 else None for i, s in enumerate(found)]
            index[f"{part}:{name}"] = pa.array(values, arrow)
    rows = np.array([len(block) for block in blocks], dtype=np.int64)
    return zone_maps({name: TYPES[name] for name in names}, index, rows)


def check(maps: ZoneMaps, blocks: Blocks, formula: Formula, wanted: list[bool], exact: Mask) -> None:
    kept = kept_by(maps, formula)
    assert kept is not None
    needed = np.array(wanted)
    lost = np.flatnonzero(needed & ~kept)
    assert len(lost) == 0, f"lost {blocks[lost[0]]} for {formula}"
    idle = np.flatnonzero(exact & kept & ~needed)
    assert len(idle) == 0, f"kept {blocks[idle[0]]} for {formula}, though all of it is known"


def in_full(value: Value | None) -> bool:
    """Whether bounds hold the value uncut."""
    return not isinstance(value, str | bytes) or len(value.encode() if isinstance(value, str) else value) <= 32


def sets_of(type: DataType) -> list[IntervalSet]:
    """Ranges to every edge value, from it, without it, and lists of few and many values."""
    ends = pool(type)
    if type.kind is Kind.DECIMAL:
        ends += [Decimal("0.015"), Decimal("-0.00001"), Decimal("1e40")]
    found = [IntervalSet.full(type)]
    for end in ends:
        for closed in (True, False):
            found += [IntervalSet.at_least(type, end, closed), IntervalSet.at_most(type, end, closed)]
        found += [IntervalSet.point(type, end), IntervalSet.point(type, end).complement()]
    rng = random.Random(str(type))
    for size in (2, 3, 5, 6, 7):
        points = IntervalSet.points(type, rng.sample(ends, min(size, len(ends))))
        found += [points, points.complement()]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_ranges(name: str):
    values: list[Value | None] = [*pool(TYPES[name]), None]
    blocks: Blocks = [[{name: a}, {name: b}] for a, b in itertools.combinations_with_replacement(values, 2)]
    pairs = [(block[0][name], block[1][name]) for block in blocks]
    exact = np.array([repr(a) == repr(b) and in_full(a) for a, b in pairs])
    sets = sets_of(TYPES[name])
    member = [[value is not None and (s.is_full or s.contains(value)) for value in values] for s in sets]
    places = list(itertools.combinations_with_replacement(range(len(values)), 2))
    for forget in FORGET:
        maps = zone_maps_without(blocks, [name], forget)
        decided = exact if not forget else np.zeros(len(blocks), dtype=np.bool_)
        for ranges, inside in zip(sets, member, strict=True):
            formula = Within(COLUMNS[name], ranges)
            check(maps, blocks, formula, [inside[i] or inside[j] for i, j in places], decided)


NUMERIC = ["tiny", "int", "long", "float", "double", "money", "fine", "wide", "broad"]
COMPARED = [
    *itertools.product(NUMERIC, repeat=2),
    *(("text", "text2"), ("day", "day2"), ("long", "long2"), ("double", "double2"), ("int", "int2")),
]
RELATIONS: list[Relation] = ["<", "<=", "=", "<>"]


@pytest.mark.parametrize(("left", "right"), [pair for pair in COMPARED if pair[0] != pair[1]])
def test_columns(left: str, right: str):
    lefts: list[Value | None] = [*pool(TYPES[left]), None]
    rights: list[Value | None] = [*pool(TYPES[right]), None]
    blocks: Blocks = [[{left: a, right: b}] for a, b in itertools.product(lefts, rights)]
    kinds = {TYPES[left].kind, TYPES[right].kind}
    undecided = Kind.DECIMAL in kinds and kinds & FLOATING
    exact = np.array([in_full(row[left]) and in_full(row[right]) and not undecided for (row,) in blocks])
    for forget in FORGET:
        maps = zone_maps_without(blocks, [left, right], forget)
        decided = exact if not forget else np.zeros(len(blocks), dtype=np.bool_)
        for op in RELATIONS:
            formula = Compares(COLUMNS[left], op, COLUMNS[right])
            check(maps, blocks, formula, [holds(formula, row) for (row,) in blocks], decided)
