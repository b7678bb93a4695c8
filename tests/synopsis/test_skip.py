"""How answers are put together: unknown keeps, and a synopsis may answer atoms or whole conjunctions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from sidestep.errors import SidestepError
from sidestep.predicate.build import column, compare
from sidestep.predicate.formula import HOLDS_ALWAYS, HOLDS_NEVER, All, Any, Formula, Holds, Null, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import And, Match, MatchKind, Opaque
from sidestep.predicate.normal import normalize
from sidestep.predicate.types import INTEGER, LONG, STRING
from sidestep.synopsis import Amount, Catalog, Synopsis, explain_skips, kept_blocks, zone_maps
from sidestep.synopsis.contract.answer import Answer
from tests.synopsis.zones.test_zone_map import index_of


@dataclass(frozen=True)
class Fake:
    """A synopsis that answers by a function."""

    answer: Callable[[Formula], list[bool] | None]
    name: str = "fake"
    nbytes: int = 7

    def can_satisfy(self, formula: Formula) -> Answer | None:
        found = self.answer(formula)
        return None if found is None else Answer(np.array(found))


def catalog(*synopses: Synopsis) -> Catalog:
    """Three blocks in two files."""
    rows = np.array([10, 20, 30], dtype=np.int64)
    return Catalog(np.array([0, 0, 1], dtype=np.int32), rows, rows * 100, 2, synopses)


f, g = Holds(Opaque("f(x)", depends=""), True), Holds(Opaque("g(x)", depends="", reason="g is a Python function"), True)
x = column("x", INTEGER)


def only(formula: Formula, answer: list[bool]) -> Fake:
    return Fake(lambda asked: answer if asked == formula else None)


def test_nothing_known_keeps_everything():
    assert kept_blocks(catalog(), f).all()
    assert kept_blocks(catalog(Fake(lambda _: None)), All((f, Any((g, Null(x)))))).all()


def test_always_and_never():
    assert kept_blocks(catalog(), HOLDS_ALWAYS).all()
    assert not kept_blocks(catalog(), HOLDS_NEVER).any()


def test_all_is_and_any_is_or_and_unknown_keeps():
    knows_f, knows_g = only(f, [True, False, False]), only(g, [False, True, False])
    both = catalog(knows_f, knows_g)
    assert kept_blocks(both, All((f, g))).tolist() == [False, False, False]
    assert kept_blocks(both, Any((f, g))).tolist() == [True, True, False]
    assert kept_blocks(catalog(knows_f), Any((f, g))).all(), "g is unknown, so any block may satisfy f OR g"
    assert kept_blocks(catalog(knows_f), All((f, g))).tolist() == [True, False, False]


def test_answers_of_several_synopses_are_intersected():
    assert kept_blocks(catalog(only(f, [True, True, False]), only(f, [False, True, True])), f).tolist() == [
        False,
        True,
        False,
    ]


def test_a_synopsis_may_answer_a_whole_conjunction_even_inside_an_or():
    both = All((f, g))
    vectors = only(both, [False, True, False])
    assert kept_blocks(catalog(vectors), both).tolist() == [False, True, False]
    assert kept_blocks(catalog(vectors), Any((both, Null(x)))).all(), "x may be NULL anywhere"
    nulls = only(Null(x), [True, False, False])
    assert kept_blocks(catalog(vectors, nulls), Any((both, Null(x)))).tolist() == [True, True, False]


def test_each_value_of_a_list_may_be_ruled_out_by_another_synopsis():
    def knows(absent: int) -> Fake:
        def answer(asked: Formula) -> list[bool] | None:
            if not isinstance(asked, Within):
                return None
            return [asked.ranges.values() != (absent,)] * 3

        return Fake(answer)

    either = Within(x, IntervalSet.points(INTEGER, [1, 9]))
    assert kept_blocks(catalog(knows(1)), either).all()
    assert not kept_blocks(catalog(knows(1), knows(9)), either).any(), "1 is ruled out by the one, 9 by the other"


def test_answers_are_not_changed_in_place():
    possible, unknown = np.array([True, False, False]), np.array([False, False, True])
    fake = Fake(lambda _: None)
    object.__setattr__(fake, "can_satisfy", lambda _: Answer(possible, unknown))
    kept_blocks(catalog(fake, only(f, [False] * 3)), f)
    assert (possible.tolist(), unknown.tolist()) == ([True, False, False], [False, False, True])


def test_files_memory_and_shape_of_a_catalog():
    made = catalog(Fake(lambda _: None))
    assert made.files_kept(np.array([False, True, False])).tolist() == [True, False]
    assert made.nbytes == 3 * 4 + 3 * 8 * 2 + 7
    assert made.blocks == 3
    empty = np.array([], dtype=np.int64)
    assert Catalog(empty.astype(np.int32), empty, empty, 0).files_kept(np.array([], dtype=np.bool_)).tolist() == []


@pytest.mark.parametrize("files", [[0, 2, 2], [1, 1, 2], [0, 1, 0], [-1, 0, 1], [0, 0, 1], [0, 1, 3]])
def test_a_file_without_a_block_is_refused(files: list[int]):
    ones = np.ones(3, dtype=np.int64)
    with pytest.raises(SidestepError, match="at least one block in each"):
        Catalog(np.array(files, dtype=np.int32), ones, ones, 3)


def test_counts_that_do_not_fit_are_refused():
    with pytest.raises(SidestepError, match="for each block"):
        Catalog(np.array([0], dtype=np.int32), np.array([1, 2]), np.array([1]), 1)


def test_explanations_say_who_skipped_what_and_why_not():
    index = index_of("x", INTEGER, [1, 5, 9], [4, 8, 12], [0, 0, 0]) | index_of("y", INTEGER, [0, 0, 7], [5, 5, 9])
    rows = np.array([10, 20, 30], dtype=np.int64)
    made = catalog(zone_maps({"x": INTEGER, "y": INTEGER}, index, rows))
    y, z, s = column("y", INTEGER), column("z", INTEGER), column("s", STRING)
    predicate = And(
        (
            compare(x, "<=", 8),
            compare(y, "<", 6),
            compare(z, "=", 1),
            Match(MatchKind.CONTAINS, s, "abc"),
            compare(column("x", LONG), "=", 1),
            compare(x, "<", z),
            g.opaque,
        )
    )
    skips = explain_skips(made, normalize(predicate))
    last_block = Amount(1, 1, 30, 3000)
    assert [(skip.synopsis, skip.alone, skip.beyond, skip.reason) for skip in skips] == [
        ("zone map", last_block, last_block, ""),
        ("zone map", last_block, Amount(), ""),
        (None, Amount(), Amount(), "no statistics for column z"),
        (None, Amount(), Amount(), "no statistics for column s"),  # longer than the empty string
        (None, Amount(), Amount(), "no statistics for column s"),  # matches
        (None, Amount(), Amount(), "column x is bigint in the query, but int in the zone map"),
        (None, Amount(), Amount(), "no statistics for column z"),
        (None, Amount(), Amount(), "opaque: g is a Python function"),
    ]


def test_explanations_name_what_only_works_together():
    vectors = only(All((f, g)), [False, True, True])
    skips = explain_skips(catalog(vectors), All((f, g)))
    assert [(skip.condition, skip.synopsis, skip.beyond.blocks) for skip in skips][-1] == (All((f, g)), "fake", 1)
    one, other = only(f, [False, True, True]), Fake(only(g, [False, True, True]).answer, name="other")
    skips = explain_skips(catalog(one, other), Any((f, g)))
    assert [(skip.synopsis, skip.beyond.blocks) for skip in skips] == [("fake", 0), ("other", 0), ("fake and other", 1)]


def test_a_conjunct_that_every_block_may_satisfy_says_so():
    index = index_of("x", INTEGER, [1, 1, 1], [9, 9, 9], [0, 0, 0])
    made = catalog(zone_maps({"x": INTEGER}, index, np.array([10, 20, 30])))
    (skip,) = explain_skips(made, normalize(compare(x, "=", 5)))
    assert (skip.synopsis, skip.reason) == ("zone map", "every block may hold such a row")


def test_a_leading_wildcard_says_why_it_skips_nothing():
    s = column("s", STRING)
    index = index_of("s", STRING, [b"a"] * 3, [b"b"] * 3, [0, 0, 0])
    made = catalog(zone_maps({"s": STRING}, index, np.array([10, 20, 30])))
    reasons = [skip.reason for skip in explain_skips(made, normalize(Match(MatchKind.SUFFIX, s, "xyz")))]
    assert "leading wildcard" in reasons[-1]


def test_explanations_count_only_the_blocks_asked_about():
    index = index_of("x", INTEGER, [1, 5, 9], [4, 8, 12], [0, 0, 0])
    made = catalog(zone_maps({"x": INTEGER}, index, np.array([10, 20, 30])))
    (skip,) = explain_skips(made, normalize(compare(x, "<=", 4)), np.array([True, True, False]))
    assert skip.alone == skip.beyond == Amount(1, 0, 20, 2000), "the third block is not listed by the query"
