"""What union vectors rule out, block by block, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from sidestep.errors import SidestepError
from sidestep.predicate import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    Opaque,
    Predicate,
    between,
    column,
    compare,
    conjunction,
    disjunction,
    is_like,
    is_null,
    negation,
    normalize,
    one_of,
)
from sidestep.synopsis import UnionVectors, explain_skips, kept_blocks
from sidestep.synopsis.features import union_vectors as union
from sidestep.synopsis.features.branches import branches, divide
from tests.synopsis.tables import Blocks, catalog_of, zone_maps_of
from tests.synopsis.vectors import vectors_of
from tests.work import counted_work

event, product, publisher = (column(name, STRING) for name in ("event", "product", "publisher"))
revenue = column("revenue", DOUBLE)
BUY, JEANS = compare(event, "=", "buy"), compare(product, "=", "jeans")
CHEAP_GOOGLE = conjunction(compare(publisher, "=", "google"), compare(revenue, "<", 0.0))
FIGURE_3_1 = [
    ("click", "jeans", "groupon", 0.0),
    ("click", "shirts", "google", -0.5),
    ("click", "shirts", "groupon", 0.0),
    ("buy", "jeans", "google", 12.0),
    ("click", "jeans", "google", -0.5),
    ("buy", "shoes", "shoedeal", 30.0),
]
"""The tuples t1 to t6 of Figure 3.1(a), which are those of WARP's example as well."""


def event_row(number: int) -> dict[str, str | float | None]:
    return dict(zip(("event", "product", "publisher", "revenue"), FIGURE_3_1[number - 1], strict=True))


@pytest.fixture
def figure() -> UnionVectors:
    """The blocks P1 to P3 of Figure 3.1(d)."""
    blocks: Blocks = [[event_row(a), event_row(b)] for a, b in ((1, 4), (2, 5), (3, 6))]
    return vectors_of([BUY, JEANS, CHEAP_GOOGLE], blocks)


def kept(vectors: UnionVectors, query: Predicate) -> list[bool]:
    catalog = catalog_of([[] for _ in vectors.known], vectors)
    return [bool(keep) for keep in kept_blocks(catalog, normalize(query))]


def test_the_union_vectors_of_figure_3_1(figure: UnionVectors) -> None:
    assert [[int(word) >> feature & 1 for feature in range(3)] for word in figure.words[0]] == [
        [1, 1, 0],
        [0, 1, 1],
        [1, 0, 0],
    ]


def test_figure_3_4_scans_only_the_first_block(figure: UnionVectors) -> None:
    query = conjunction(BUY, JEANS)
    assert figure.answering(normalize(query)) == (0, 1), "the thesis writes this query vector as (0, 0, 1)"
    assert kept(figure, query) == [True, False, False]
    assert kept(figure, CHEAP_GOOGLE) == [False, True, False], "a query on F3 can skip P1 and P3"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (conjunction(BUY, JEANS, compare(revenue, ">", 5.0)), [True, False, False]),
        (conjunction(compare(publisher, "=", "google"), compare(revenue, "<", -0.2)), [False, True, False]),
        (compare(publisher, "=", "google"), [True, True, True]),
        (compare(revenue, "<", 0.0), [True, True, True]),
        (one_of(event, ["buy", "click"]), [True, True, True]),
        (negation(BUY), [True, True, True]),
        (disjunction(BUY, CHEAP_GOOGLE), [True, True, True]),
        (disjunction(BUY, JEANS), [True, True, True]),
        (disjunction(conjunction(BUY, JEANS), CHEAP_GOOGLE), [True, True, False]),
        (conjunction(disjunction(BUY, JEANS), CHEAP_GOOGLE), [False, True, False]),
    ],
)
def test_what_more_and_less_than_a_feature_skips(figure: UnionVectors, query: Predicate, expected: list[bool]) -> None:
    assert kept(figure, query) == expected


def test_an_unknown_block_is_kept() -> None:
    blocks: Blocks = [[event_row(2)], [event_row(2)], []]
    assert kept(vectors_of([BUY], blocks, known=[True, False, True]), BUY) == [False, True, False]


def test_more_features_than_a_word_holds() -> None:
    x = column("int", INTEGER)
    features = [compare(x, "=", value) for value in range(130)]
    blocks: Blocks = [[{"int": value}] for value in (0, 63, 64, 65, 129)]
    vectors = vectors_of(features, blocks)
    assert vectors.words.shape == (3, 5)
    for at, value in enumerate((0, 63, 64, 65, 129)):
        assert np.flatnonzero(kept(vectors, compare(x, "=", value))).tolist() == [at]
    assert vectors.ruling_out(64).tolist() == [True, True, False, True, True]
    assert vectors.nbytes == 3 * 5 * 8 + 5


def test_patterns() -> None:
    name = column("text", STRING)
    brass = is_like(name, "%BRASS")
    blocks: Blocks = [[{"text": "LARGE BRASS"}], [{"text": "LARGE TIN"}, {"text": None}], [{"text": "SMALL BRASS"}]]
    vectors = vectors_of([brass], blocks)
    assert kept(vectors, brass) == [True, False, True]
    assert kept(vectors, is_like(name, "SMALL%BRASS")) == [True, False, True]
    assert kept(vectors, compare(name, "=", "SMALL BRASS")) == [True, False, True]
    assert kept(vectors, negation(brass)) == [True, True, True]
    zones = zone_maps_of(blocks, ["text"])
    listed = normalize(one_of(name, ["SMALL BRASS", "SMALL TIN"]))
    assert kept_blocks(catalog_of(blocks, zones, vectors), listed).tolist() == [False, False, True]


def test_comparisons_of_columns() -> None:
    a, b, c = column("day", DATE), column("day2", DATE), column("day3", DATE)
    late = compare(a, "<", b)
    blocks: Blocks = [
        [{"day": 1, "day2": 2}, {"day": 9, "day2": 0}],
        [{"day": 2, "day2": 2}],
        [{"day": 5, "day2": None}],
    ]
    vectors = vectors_of([late], blocks)
    assert kept(vectors, late) == [True, False, False]
    assert kept(vectors, compare(b, ">", a)) == [True, False, False]
    assert kept(vectors, conjunction(compare(a, "<=", c), compare(c, "<", b))) == [True, False, False]
    assert kept(vectors, conjunction(compare(a, "<", 10), compare(b, ">=", 10))) == [True, False, False]
    assert kept(vectors, compare(a, "<=", b)) == [True, True, True]


def udf(depends: str | None, deterministic: bool = True) -> Opaque:
    return Opaque("is_prime(int)", (column("int", INTEGER),), depends, deterministic)


def test_opaque_predicates_answer_by_identity() -> None:
    blocks: Blocks = [[{"int": 7}], [{"int": 8}]]
    vectors = vectors_of([udf("code 1")], blocks, lambda _, row: row["int"] == 7)
    same, other, unknown, random = udf("code 1"), udf("code 2"), udf(None), udf("code 1", deterministic=False)
    assert kept(vectors, same) == [True, False]
    assert kept(vectors, conjunction(same, compare(column("int", INTEGER), ">", 0))) == [True, False]
    assert kept(vectors, other) == [True, True]
    assert kept(vectors, unknown) == [True, True]
    assert kept(vectors, random) == [True, True]
    assert kept(vectors, negation(same)) == [True, True]
    nothing = vectors_of([unknown], blocks, lambda *_: False)
    assert kept(nothing, unknown) == [True, True], "what has no identity is not even itself"


def test_another_type_or_spelling_is_another_column() -> None:
    blocks: Blocks = [[{"int": 1}]]
    vectors = vectors_of([compare(column("int", INTEGER), "=", 5)], blocks)
    assert kept(vectors, compare(column("int", INTEGER), "=", 5)) == [False]
    assert kept(vectors, compare(column("int", LONG), "=", 5)) == [True]
    assert kept(vectors, compare(column("INT", INTEGER), "=", 5)) == [True]


size, brand = column("int", INTEGER), column("text", STRING)


def test_a_list_is_answered_by_several_features() -> None:
    blocks: Blocks = [[{"int": 3}], [{"int": 4}], [{"int": 9}], [{"int": 50}], [{"int": None}]]
    vectors = vectors_of([compare(size, "=", value) for value in (3, 4, 9)], blocks)
    assert kept(vectors, one_of(size, [3, 9])) == [True, False, True, False, False]
    assert kept(vectors, one_of(size, [3, 4])) == [True, True, False, False, False], "3 and 4 are one range of integers"
    assert kept(vectors, one_of(size, [3, 9, 50])) == [True] * 5, "nothing is known of 50"
    both = catalog_of(blocks, zone_maps_of(blocks, ["int"]), vectors)
    assert kept_blocks(both, normalize(one_of(size, [3, 9, 50]))).tolist() == [True, False, True, True, False]


def test_a_zone_map_rules_out_what_is_left_of_a_list() -> None:
    blocks: Blocks = [[{"int": 1}, {"int": 9}], [{"int": 1}, {"int": 60}]]
    vectors = vectors_of([compare(size, "=", value) for value in (3, 4)], blocks)
    zones = zone_maps_of(blocks, ["int"])
    query = normalize(one_of(size, [3, 4, 50]))
    assert kept_blocks(catalog_of(blocks, zones), query).tolist() == [True, True]
    assert kept_blocks(catalog_of(blocks, vectors), query).tolist() == [True, True]
    assert kept_blocks(catalog_of(blocks, zones, vectors), query).tolist() == [False, True]


def test_a_long_list_is_divided_by_features_and_not_by_values() -> None:
    blocks: Blocks = [[{"int": 1_000}], [{"int": 20}]]
    vectors = vectors_of([between(size, 0, 500), between(size, 501, 2_000)], blocks)
    assert kept(vectors, one_of(size, list(range(0, 400, 2)))) == [False, True]
    assert kept(vectors, one_of(size, list(range(0, 1_600, 2)))) == [True, True]
    (only,) = divide([vectors], normalize(one_of(size, [7, 9])), 64)  # type: ignore[arg-type]
    assert only == normalize(one_of(size, [7, 9]))


def test_a_choice_is_answered_by_a_feature_and_a_zone_map() -> None:
    blocks: Blocks = [[{"int": 5, "text": "y"}], [{"int": 100, "text": "y"}], [{"int": 5, "text": "x"}]]
    vectors, zones = vectors_of([compare(brand, "=", "x")], blocks), zone_maps_of(blocks, ["int"])
    query = normalize(disjunction(compare(brand, "=", "x"), compare(size, ">", 50)))
    assert kept_blocks(catalog_of(blocks, zones), query).all()
    assert kept_blocks(catalog_of(blocks, vectors), query).all()
    assert kept_blocks(catalog_of(blocks, zones, vectors), query).tolist() == [False, True, True]


a_is = {value: compare(size, "=", value) for value in range(5)}
b_is = {value: compare(brand, "=", value) for value in "vwxyz"}


@pytest.mark.parametrize(
    "query",
    [
        conjunction(one_of(size, [1, 2]), b_is["x"]),
        conjunction(disjunction(a_is[1], conjunction(a_is[2], is_null(column("flag", INTEGER)))), b_is["x"]),
        conjunction(disjunction(a_is[1], conjunction(a_is[2], b_is["x"])), b_is["x"]),
        disjunction(conjunction(a_is[1], b_is["x"]), conjunction(b_is["x"], a_is[2])),
        conjunction(one_of(size, [1, 2]), b_is["x"], compare(column("long", LONG), "<", 7)),
    ],
)
def test_a_choice_is_spread_over_the_conjuncts_around_it(query: Predicate) -> None:
    blocks: Blocks = [
        [{"int": 1, "text": "y"}, {"int": 3, "text": "x"}, {"int": 2, "text": "z"}],
        [{"int": 2, "text": "x"}],
        [{"int": 1, "text": "x"}],
    ]
    vectors = vectors_of([conjunction(a_is[1], b_is["x"]), conjunction(a_is[2], b_is["x"])], blocks)
    assert kept(vectors, query) == [False, True, True], "each value of the first block goes with another brand"


def test_two_choices_are_spread_over_each_other() -> None:
    pairs = [conjunction(a_is[a], b_is[b]) for a in (1, 2, 3) for b in "xyz"]
    blocks: Blocks = [[{"int": 1, "text": "w"}, {"int": 4, "text": "x"}], [{"int": 3, "text": "z"}]]
    vectors = vectors_of(pairs, blocks)
    assert kept(vectors, conjunction(one_of(size, [1, 2, 3]), one_of(brand, ["x", "y", "z"]))) == [False, True]
    mixed = conjunction(one_of(size, [1, 2, 3]), one_of(brand, ["x", "w"]))
    assert kept(vectors, mixed) == [True, True], "no feature is about w"


def test_a_branch_that_a_zone_map_rules_out_and_one_that_a_conjunction_does() -> None:
    blocks: Blocks = [[{"int": 1, "text": "y"}, {"int": 1, "text": "z"}, {"int": 0, "text": "x"}]]
    vectors, zones = vectors_of([conjunction(a_is[1], b_is["x"])], blocks), zone_maps_of(blocks, ["int", "text"])
    query = normalize(conjunction(one_of(size, [1, 4]), b_is["x"]))
    assert kept_blocks(catalog_of(blocks, zones), query).all()
    assert kept_blocks(catalog_of(blocks, vectors), query).all()
    assert not kept_blocks(catalog_of(blocks, zones, vectors), query).any()


def test_a_feature_that_is_a_choice() -> None:
    either = disjunction(a_is[1], b_is["x"])
    vectors = vectors_of([either], [[{"int": 0, "text": "y"}], [{"int": 0, "text": "x"}]])
    assert kept(vectors, either) == [False, True]
    assert kept(vectors, a_is[1]) == [False, True]
    assert kept(vectors, disjunction(conjunction(a_is[1], b_is["y"]), b_is["x"])) == [False, True]


def test_features_of_other_columns_are_not_asked() -> None:
    vectors = vectors_of([a_is[1], conjunction(a_is[1], b_is["x"])], [[{"int": 0, "text": "y"}]])
    restricted = vectors.about({size})
    assert restricted is not None
    assert restricted.answering(normalize(conjunction(a_is[1], b_is["x"]))) == (0,)
    assert vectors.answering(normalize(conjunction(a_is[1], b_is["x"]))) == (0, 1)
    assert vectors.about({brand}) is None


def test_answers_are_remembered_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(union, "MOST_REMEMBERED", 3)
    vectors = vectors_of([a_is[1]], [[{"int": 0}]])
    for value in (0, 1, 2, 3, 4, 1):
        assert vectors.answering(normalize(a_is[value])) == ((0,) if value == 1 else ())
        assert len(vectors.answers) <= 3


def test_vectors_that_do_not_fit_their_features_are_refused() -> None:
    with pytest.raises(SidestepError, match="take words of shape"):
        UnionVectors((normalize(BUY),), np.zeros((2, 1), dtype=np.uint64), np.ones(1, dtype=np.bool_))


def test_branches_stay_within_their_budget() -> None:
    features = [conjunction(a_is[1], b_is["x"])]
    vectors = vectors_of(features, [[{"int": 0, "text": "y"}]])
    wide = normalize(conjunction(disjunction(a_is[1], b_is["v"], b_is["w"]), disjunction(a_is[2], b_is["y"])))
    assert len(branches([vectors], wide, 64)) == 2, "should take the child with the fewest branches first"  # type: ignore[arg-type]
    assert branches([vectors], wide, 1) == ()  # type: ignore[arg-type]
    apart = normalize(conjunction(disjunction(a_is[1], is_null(size)), is_null(brand)))
    assert len(branches([vectors], apart, 64)) == 2  # type: ignore[arg-type]
    other = normalize(conjunction(disjunction(a_is[1], is_null(size)), compare(revenue, "<", 1.0)))
    assert branches([vectors], other, 64) == (), "no feature is about both"  # type: ignore[arg-type]


def test_explanations_name_the_features(figure: UnionVectors) -> None:
    catalog = catalog_of([[{}, {}]] * 3, figure)
    skips = explain_skips(catalog, normalize(conjunction(BUY, JEANS, compare(revenue, ">", 5.0))))
    assert [(skip.synopsis, skip.beyond.blocks, skip.reason) for skip in skips] == [
        ("union vector (event = 'buy')", 1, ""),
        ("union vector (product = 'jeans')", 1, ""),
        (None, 0, "no statistics for column revenue"),
    ]
    (one, *rest) = explain_skips(catalog, normalize(CHEAP_GOOGLE))
    assert (one.synopsis, one.beyond.blocks) == ("union vector (publisher = 'google' AND revenue < 0.0)", 2)
    assert rest == [], "no column of an answering feature is said to lack statistics"


def test_explanations_of_lists_and_choices() -> None:
    blocks: Blocks = [[{"int": 50}], [{"int": 3}]]
    vectors = vectors_of([compare(size, "=", value) for value in (3, 4, 9, 11)], blocks)
    (skip,) = explain_skips(catalog_of(blocks, vectors), normalize(one_of(size, [3, 9])))
    assert (skip.synopsis, skip.beyond.blocks) == ("union vector (int = 3; int = 9)", 1)
    (skip,) = explain_skips(catalog_of(blocks, vectors), normalize(one_of(size, [3, 4, 9, 11])))
    assert (skip.synopsis, skip.beyond.blocks) == ("union vector (int = 3; int = 4; 2 more)", 1)
    (skip,) = explain_skips(catalog_of(blocks, vectors), normalize(compare(size, "=", 12)))
    assert (skip.synopsis, skip.reason) == (None, "no statistics for column int")


def test_many_features_are_asked_quickly() -> None:
    columns = [column(f"c{number}", STRING) for number in range(12)]
    features = [compare(columns[at % 12], "=", f"v{at}") for at in range(96)]
    features += [conjunction(features[at], is_like(columns[(at + 1) % 12], "%a%")) for at in range(32)]
    vectors = UnionVectors(
        tuple(map(normalize, features)), np.zeros((2, 1_000), dtype=np.uint64), np.ones(1_000, dtype=np.bool_)
    )
    catalog = catalog_of([[]] * 1_000, vectors)
    parts = [disjunction(compare(c, "=", "v1"), is_like(c, "b%a%"), is_null(c)) for c in columns[:6]]
    query = normalize(conjunction(*parts, *(one_of(c, [f"v{i}" for i in range(0, 40, 5)]) for c in columns[6:])))
    kept_blocks(catalog, normalize(BUY))
    with counted_work() as work:
        kept_blocks(catalog, query)
    assert work.calls < 400_000
