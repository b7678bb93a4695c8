"""Skipping by features never loses a row: random tables, features and blocks, and queries made of the features."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidestep.predicate import (
    And,
    In,
    Literal,
    Not,
    Opaque,
    Or,
    Predicate,
    compare,
    implies,
    normalize,
)
from sidestep.predicate.formula import All, Within
from sidestep.predicate.oracle import Row, evaluate, holds
from sidestep.synopsis import Mask, explain_skips, kept_blocks
from sidestep.synopsis.features.branches import branches, divide
from tests.strategies import COLUMNS as EVERY_COLUMN
from tests.strategies import predicates as any_predicates
from tests.strategies import rows_around
from tests.synopsis.tables import COLUMNS, Blocks, blocks_of, catalog_of, pool, predicates, zone_maps_of
from tests.synopsis.vectors import vectors_of

many = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

GROUPS = [
    ["int"],
    ["text"],
    ["double"],
    ["int", "text"],
    ["double", "float"],
    ["text", "text2", "flag"],
    ["day", "day2", "int"],
    ["int", "money", "long"],
]


def opaque_value(opaque: Opaque, row: Row) -> bool | None:
    """Anything, but the same for the same predicate on the same row; random for one without an identity."""
    seen = repr((opaque.text, opaque.depends, sorted(row.items())))
    return (True, False, None)[zlib.crc32(seen.encode(errors="replace")) % 3]


@st.composite
def equalities(draw: st.DrawFn, names: Sequence[str]) -> Predicate:
    """``column = value``, on few values: what features are mostly made of, and lists of queries as well."""
    name = draw(st.sampled_from(list(names)))
    return compare(COLUMNS[name], "=", draw(st.sampled_from(pool(COLUMNS[name].type)[:6])))


def features_about(names: Sequence[str]) -> st.SearchStrategy[list[Predicate]]:
    one = st.one_of(equalities(names), equalities(names), predicates(names))
    pairs = st.lists(equalities(names), min_size=2, max_size=2).map(lambda both: And(tuple(both)))
    return st.lists(st.one_of(one, one, pairs), min_size=1, max_size=8)


@st.composite
def lists(draw: st.DrawFn, names: Sequence[str]) -> Predicate:
    name = draw(st.sampled_from(list(names)))
    type = COLUMNS[name].type
    values = draw(st.lists(st.sampled_from(pool(type)), min_size=2, max_size=6))
    return In(COLUMNS[name], tuple(Literal(value, type) for value in values))


def queries(names: Sequence[str], features: Sequence[Predicate]) -> st.SearchStrategy[Predicate]:
    """Queries of which many parts are features, or conjuncts of features."""
    parts = [child for feature in features if isinstance(feature, And) for child in feature.children]
    leaf = st.one_of(
        st.sampled_from([*features, *parts]), st.sampled_from(list(features)), lists(names), predicates(names)
    )

    def combine(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(several.map(And), several.map(And), several.map(Or), several.map(Or), inner.map(Not))

    return st.recursive(leaf, combine, max_leaves=6)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], Blocks, list[Predicate], Predicate]:
    names = draw(st.sampled_from(GROUPS))
    blocks = draw(blocks_of(names))
    features = draw(features_about(names))
    return names, blocks, features, draw(queries(names, features))


def lost(blocks: Blocks, kept: Mask, query: Predicate) -> list[Row]:
    skipped = [row for block, keep in zip(blocks, kept, strict=True) if not keep for row in block]
    return [row for row in skipped if evaluate(query, row, opaque_value) is True]


@many
@given(cases(), st.data())
def test_features_lose_no_row(case, data: st.DataObject) -> None:
    names, blocks, features, query = case
    known = data.draw(st.lists(st.booleans(), min_size=len(blocks), max_size=len(blocks)))
    vectors = vectors_of(features, blocks, opaque_value, known)
    formula = normalize(query)
    alone = kept_blocks(catalog_of(blocks, vectors), formula)
    assert lost(blocks, alone, query) == []
    zones = zone_maps_of(blocks, names)
    both = kept_blocks(catalog_of(blocks, zones, vectors), formula)
    assert lost(blocks, both, query) == []
    by_zones = kept_blocks(catalog_of(blocks, zones), formula)
    assert not np.any(both & ~alone), "a second synopsis never keeps what the first rules out"
    assert not np.any(both & ~by_zones)


@many
@given(cases(), st.data())
def test_blocks_of_two_feature_sets_lose_no_row(case, data: st.DataObject) -> None:
    names, blocks, features, query = case
    others = data.draw(features_about(names))
    first = data.draw(st.lists(st.booleans(), min_size=len(blocks), max_size=len(blocks)))
    synopses = (
        vectors_of(features, blocks, opaque_value, first),
        vectors_of(others, blocks, opaque_value, [not each for each in first]),
        zone_maps_of(blocks, names),
    )
    catalog = catalog_of(blocks, *synopses)
    kept = kept_blocks(catalog, normalize(query))
    assert lost(blocks, kept, query) == []
    skips = explain_skips(catalog, normalize(query))
    assert sum(skip.beyond.blocks for skip in skips) == int((~kept).sum()), (
        "what is explained adds up to what is skipped"
    )
    assert all(skip.synopsis is not None or skip.reason for skip in skips)


@many
@given(cases(), st.data())
def test_features_on_few_columns_lose_no_row(case, data: st.DataObject) -> None:
    names, blocks, features, query = case
    vectors = vectors_of(features, blocks, opaque_value)
    columns = data.draw(st.lists(st.sampled_from([COLUMNS[name] for name in names])))
    fewer = vectors.about(columns)
    if fewer is not None:
        assert all(fewer.columns[at] <= {column.name for column in columns} for at in fewer.may_answer)
        assert lost(blocks, kept_blocks(catalog_of(blocks, fewer), normalize(query)), query) == []


@many
@given(cases())
def test_what_answers_is_implied_and_what_is_implied_alone_answers(case) -> None:
    _, blocks, features, query = case
    vectors, formula = vectors_of(features, blocks, opaque_value), normalize(query)
    answering = vectors.answering(formula)
    assert all(implies(formula, vectors.features[at]) for at in answering)
    for at, feature in enumerate(vectors.features):
        found = vectors.answering(feature)
        identified = implies(feature, feature)
        assert at in found or not identified, "should answer a query that is the feature itself"


@many
@given(cases())
def test_branches_miss_no_row(case) -> None:
    _, blocks, features, query = case
    vectors, formula = vectors_of(features, blocks, opaque_value), normalize(query)
    parts = [formula, *(formula.children if isinstance(formula, All) else ())]
    for part in parts:
        match part:
            case All():
                apart = branches([vectors], part, 64)
            case Within():
                apart = divide([vectors], part, 64)
            case _:
                continue
        assert len(apart) <= 64
        for row in (row for block in blocks for row in block):
            one = any(holds(branch, row, opaque_value) for branch in apart)
            assert not apart or one is holds(part, row, opaque_value)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_predicates_of_every_kind_and_type_lose_no_row(data: st.DataObject) -> None:
    """Constants and rows are drawn near each other, so that features only just miss."""
    columns = data.draw(st.lists(st.sampled_from(EVERY_COLUMN), min_size=1, max_size=3, unique=True))
    features = data.draw(st.lists(any_predicates(columns, depth=2), min_size=1, max_size=5))
    extra = data.draw(any_predicates(columns, depth=2))
    query = data.draw(
        st.sampled_from(
            [
                *features,
                And((features[0], extra)),
                Or((features[0], features[-1])),
                And((Or((features[0], extra)), features[-1])),
                Not(Or((features[0], extra))),
            ]
        )
    )
    rows = rows_around(query, *features, columns=columns)
    blocks: Blocks = [*data.draw(st.lists(st.lists(rows, max_size=3).map(list[Row]), min_size=1, max_size=4))]
    vectors = vectors_of(features, blocks)
    assert lost(blocks, kept_blocks(catalog_of(blocks, vectors), normalize(query)), query) == []


def test_every_kind_of_query_is_skipped_on() -> None:
    """An index that silently never skips is as common a bug as one that skips too much."""
    values = [compare(COLUMNS["int"], "=", value) for value in (0, 1, 2, 3)]
    texts = [compare(COLUMNS["text"], "=", value) for value in ("a", "ab", "b")]
    features = [*values, *texts, *(And((value, text)) for value in values for text in texts)]
    blocks: Blocks = [[{"int": number, "text": "a"}, {"int": 3 - number, "text": "b"}] for number in (0, 1)]
    vectors = vectors_of(features, blocks)
    for query, expected in [
        (values[2], [False, True]),
        (And((values[0], texts[0])), [True, False]),
        (And((Or((values[0], values[3])), texts[1])), [False, False]),
        (And((Or((values[0], values[1])), Or((texts[1], texts[2])))), [False, False]),
        (Or((And((values[3], texts[0])), And((values[2], texts[0])))), [False, False]),
        (
            And((compare(COLUMNS["int"], ">=", 0), Not(Or((compare(COLUMNS["int"], ">", 1),))), texts[2])),
            [False, False],
        ),
    ]:
        kept = kept_blocks(catalog_of(blocks, vectors), normalize(query)).tolist()
        assert kept == expected, str(query)
