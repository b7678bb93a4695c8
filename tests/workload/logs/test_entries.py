"""A script is cut where Spark's parser would end a statement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.workload.logs.entries import split_statements


def texts(script):
    return [piece.text for piece in split_statements(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" \n;;; ", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'; SELECT 2", ["SELECT ';'", "SELECT 2"]),
        ("SELECT 'it''s; so'; SELECT 2", ["SELECT 'it''s; so'", "SELECT 2"]),
        (r"SELECT 'it\'s; so'; SELECT 2", [r"SELECT 'it\'s; so'", "SELECT 2"]),
        (r"SELECT 'a\\'; SELECT 2", [r"SELECT 'a\\'", "SELECT 2"]),
        (r"SELECT r'a\'; SELECT 2", [r"SELECT r'a\'", "SELECT 2"]),
        (r"SELECT car'a\'; b'; SELECT 2", [r"SELECT car'a\'; b'", "SELECT 2"]),
        ('SELECT "a;b"; SELECT 2', ['SELECT "a;b"', "SELECT 2"]),
        ("SELECT `a;``b`; SELECT 2", ["SELECT `a;``b`", "SELECT 2"]),
        ("SELECT $$a;b$$; SELECT $x$c;$$;d$x$", ["SELECT $$a;b$$", "SELECT $x$c;$$;d$x$"]),
        ("SELECT 1 -- one; two\n + 1; SELECT 2", ["SELECT 1 -- one; two\n + 1", "SELECT 2"]),
        ("-- first; comment\nSELECT 1", ["SELECT 1"]),
        ("/* a; /* nested; */ b; */ SELECT 1; /* only; */", ["SELECT 1"]),
        ("SELECT /*+ BROADCAST(t) */ 1; SELECT 2", ["SELECT /*+ BROADCAST(t) */ 1", "SELECT 2"]),
        ("SELECT 1 -- no end", ["SELECT 1 -- no end"]),
        ("SELECT 3 - -1; SELECT 8 / 2", ["SELECT 3 - -1", "SELECT 8 / 2"]),
    ],
)
def test_statements_end_at_semicolons_that_end_them(script, expected):
    assert texts(script) == expected


def test_lines_are_those_of_the_first_word():
    found = list(split_statements("-- c\n\nSELECT\n 1;\n\n/* x\n */ SELECT 2;"))
    assert [(piece.text, piece.line) for piece in found] == [("SELECT\n 1", 3), ("SELECT 2", 7)]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("SELECT 1;\nSELECT 'a; SELECT 2", "the quote ' opened in line 2 is never closed"),
        ("SELECT 1; /* a /* b */", "the comment /* opened in line 1 is never closed"),
        ("SELECT\n`a", "the quote ` opened in line 2 is never closed"),
    ],
)
def test_what_never_ends_is_named(script, problem):
    *_, last = split_statements(script)
    assert last.problem == problem


@given(st.lists(st.text(alphabet="abc \n(),.=<>1%", min_size=1).filter(str.strip), max_size=6))
def test_plain_statements_come_back(statements):
    assert texts(";".join(statements)) == [statement.strip() for statement in statements]


@given(st.text(alphabet="a;'\"`$-/*\\\n r", max_size=40))
def test_no_text_is_too_odd(script):
    for piece in split_statements(script):
        assert piece.text in script
        assert piece.text
