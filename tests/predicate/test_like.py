"""LIKE patterns against an independent matcher, and what they imply against enumeration."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import STRING, Column, IntervalSet, Match, MatchKind
from sidestep.predicate.like import LikePattern, parse, pattern_of, prefix_range, successor
from tests import strategies

TEXTS = ["".join(t) for n in range(6) for t in product("abc", repeat=n)]
patterns = st.lists(st.sampled_from("aab%%_"), max_size=5).map("".join)


def as_regex(text: str) -> re.Pattern[str]:
    return re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in text), re.DOTALL)


@given(patterns, st.text(alphabet="ab\n", max_size=8))
def test_matches_as_the_regular_expression_does(text, subject):
    assert parse(text).matches(subject) == (as_regex(text).fullmatch(subject) is not None)


@pytest.mark.parametrize(
    ("text", "subject", "expected"),
    [
        ("50\\%", "50%", True),
        ("50\\%", "501", False),
        ("a\\_b", "axb", False),
        ("a\\\\b", "a\\b", True),
        ("_", "\U0001f600", True),
        ("a%b", "a\nb", True),
        ("a%a", "a", False),
        ("", "", True),
        ("", "a", False),
        ("%\0%", "a\0", True),
    ],
)
def test_matches(text, subject, expected):
    assert parse(text).matches(subject) is expected


@pytest.mark.parametrize("text", ["a\\", "a\\b", "\\"])
def test_what_spark_rejects_is_rejected(text):
    with pytest.raises(ValueError, match="Spark rejects that"):
        parse(text)


def test_an_escape_of_ones_own():
    assert parse("10#%#_##", "#").prefix == "10%_#"
    assert parse("a\\b", "#").prefix == "a\\b"


def test_prefix_and_least_length():
    pattern = parse("ab%c_\\%d%e")
    assert (pattern.prefix, pattern.least_length) == ("ab", 7)


def test_equal_patterns_are_equal_objects():
    assert parse("%_%") == parse("_%") == parse("%%_") != parse("__%")


def test_other_kinds_of_match():
    column = Column("s", STRING)
    for kind, expected in ((MatchKind.PREFIX, "a\\%%"), (MatchKind.SUFFIX, "%a\\%"), (MatchKind.CONTAINS, "%a\\%%")):
        assert pattern_of(Match(kind, column, "a%")) == parse(expected)


@strategies.tries(300)
@given(patterns, patterns)
def test_implication_and_exclusion_are_right_and_nearly_complete(first, second):
    a, b = parse(first), parse(second)
    matching = {t for t in TEXTS if a.matches(t)}
    also = {t for t in TEXTS if b.matches(t)}
    assert not a.implies(b) or matching <= also
    if max(a.least_length, b.least_length) <= 4:
        assert a.excludes(b) == (not matching & also) or a.least_length + b.least_length > 5
        # "c" occurs in no pattern, so a text that tells the two apart is among the short ones.
        assert a.implies(b) == (matching <= also) or a.least_length + b.least_length > 3


@given(strategies.like_texts(), strategies.strings())
def test_ranges_hold_what_matches(text, subject):
    pattern = parse(text)
    exact = pattern.as_range()
    if pattern.matches(subject):
        assert pattern.necessary_range().contains(subject)
    if exact is not None:
        assert exact.contains(subject) == pattern.matches(subject)


@given(strategies.strings(), strategies.strings())
def test_prefix_range_is_exact(prefix, subject):
    assert prefix_range(prefix).contains(subject) == subject.startswith(prefix)
    assert prefix_range(prefix).contains(prefix + subject)
    # The order of code points is the order of the bytes that Spark compares.
    after = successor(prefix)
    assert after is None or (prefix + subject).encode() < after.encode()


def test_successors():
    assert successor("a") == "b"
    assert successor("a\U0010ffff") == "b"
    assert successor("\ud7ff") == "\ue000"
    assert successor("\U0010ffff\U0010ffff") is None
    assert prefix_range("").is_full
    assert prefix_range("\U0010ffff") == IntervalSet.at_least(STRING, "\U0010ffff")


def test_many_wildcards_do_not_backtrack():
    pattern = parse("%a" * 30 + "%b")
    assert not pattern.matches("a" * 5000)
    assert isinstance(pattern, LikePattern)
