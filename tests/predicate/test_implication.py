"""Implication is never wrong, and finds what rules can find."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FALSE,
    FLOAT,
    INTEGER,
    LONG,
    NULL,
    STRING,
    TRUE,
    Cast,
    Column,
    DataType,
    Literal,
    Not,
    Opaque,
    Or,
    Predicate,
    Value,
    between,
    column,
    compare,
    conjunction,
    decimal_type,
    disjunction,
    implies,
    is_like,
    is_monotone,
    is_not_null,
    is_null,
    negation,
    normalize,
    one_of,
    sql,
    unsatisfiable,
)
from sidestep.predicate.oracle import evaluate
from tests import strategies
from tests.work import counted_work

PRODUCT, REVENUE = column("product", STRING), column("revenue", INTEGER)
X, Y, Z = (column(name, INTEGER) for name in "xyz")
L, D, S, M = column("l", LONG), column("d", DOUBLE), column("s", STRING), column("m", decimal_type(12, 2))
FLAG = Column("flag", BOOLEAN)
KNOWN, UNKNOWN = Opaque("f(x)", (X,), depends="v1"), Opaque("f(x)", (X,))
shoes, shirts = compare(PRODUCT, "=", "shoes"), compare(PRODUCT, "=", "shirts")
either = one_of(PRODUCT, ["shoes", "shirts"])

IMPLIED = [
    # thesis, section 3.3.1, Example 1
    (shoes, either),
    (shirts, either),
    (compare(REVENUE, ">", 32), compare(REVENUE, ">", 21)),
    (conjunction(either, compare(REVENUE, ">", 32)), compare(REVENUE, ">", 21)),
    (conjunction(shirts, compare(REVENUE, ">", 21)), conjunction(either, compare(REVENUE, ">", 21))),
    # ranges, points, NULL tests
    (one_of(X, [1, 2]), compare(X, "<", 3)),
    (one_of(X, [1, 2]), is_not_null(X)),
    (one_of(X, [1, 2]), negation(compare(X, "=", 5))),
    (one_of(X, [1, 2]), disjunction(compare(X, "<=>", 1), compare(X, "=", 2))),
    (compare(X, ">", 5), compare(X, ">=", 6)),
    (between(X, 3, 5), one_of(X, [3, 4, 5])),
    (is_null(X), negation(compare(X, "<=>", 3))),
    (is_null(X), disjunction(is_null(X), compare(X, ">", 5))),
    (compare(D, ">", 1), negation(compare(D, "<=", 1))),
    (negation(compare(D, "<=", 5)), compare(D, ">", 5)),
    (compare(D, "=", -0.0), compare(D, ">=", 0.0)),
    (compare(D, ">", float("inf")), compare(D, "=", float("nan"))),
    (FLAG, compare(FLAG, "=", True)),
    (FLAG, negation(compare(FLAG, "=", False))),
    (compare(FLAG, "<>", False), FLAG),
    (NULL, compare(X, "=", 1)),
    (conjunction(compare(X, "<", 1), compare(X, ">", 1)), compare(Y, "=", 1)),
    (compare(Y, "=", 1), TRUE),
    # casts
    (compare(Cast(X, LONG), ">", 5), compare(X, ">", 5)),
    (compare(X, ">", 5), compare(Cast(X, DOUBLE), ">", 5.5)),
    (compare(Cast(M, DOUBLE), "=", 0.05), compare(M, ">", 0.04)),
    # strings
    (compare(S, "=", "abc"), is_like(S, "a%")),
    (one_of(S, ["abc", "axc"]), is_like(S, "a_c")),
    (one_of(S, ["abc", "axc"]), negation(is_like(S, "%z%"))),
    (is_like(S, "ab%"), is_like(S, "a%")),
    (is_like(S, "ab%"), compare(S, ">=", "ab")),
    (is_like(S, "a%bc"), is_like(S, "%c")),
    (is_like(S, "%abc%"), is_like(S, "%b%")),
    (is_like(S, "%a"), negation(is_like(S, "%b"))),
    (is_like(S, "a%b"), compare(S, "<>", "c")),
    (is_like(S, "%a"), negation(one_of(S, ["b", "ab"]))),
    (is_like(S, "%a"), compare(S, ">", "")),
    (negation(is_like(S, "%b%")), negation(is_like(S, "%abc%"))),
    (conjunction(is_like(S, "%x%"), one_of(S, ["a", "x", "ax"])), one_of(S, ["x", "ax"])),
    (compare(S, ">=", "b"), negation(is_like(S, "a%z"))),
    # columns compared
    (compare(X, "<", Y), compare(X, "<=", Y)),
    (compare(X, "<", Y), compare(X, "<>", Y)),
    (compare(X, "<", Y), compare(Y, ">", X)),
    (compare(X, "<", Y), is_not_null(X)),
    (compare(X, "=", Y), compare(Y, "<=>", X)),
    (conjunction(compare(X, "<", Y), compare(Y, "<=", Z)), compare(X, "<", Z)),
    (conjunction(compare(X, "<=", Y), compare(Y, "<=", X)), compare(X, "=", Y)),
    (conjunction(compare(X, "<=", Y), compare(X, "<>", Y)), compare(X, "<", Y)),
    (conjunction(compare(X, "=", Y), compare(Y, "=", Z)), compare(Z, "=", X)),
    (conjunction(compare(X, "=", Y), one_of(Y, [1, 2])), one_of(X, [1, 2, 3])),
    (conjunction(compare(X, "<", Y), compare(Y, "<", 5)), compare(X, "<", 4)),
    (conjunction(compare(X, "<", 5), compare(Y, ">=", 5)), compare(X, "<", Y)),
    (conjunction(compare(X, "<=", 3), compare(Y, ">", 4)), negation(compare(X, "=", Y))),
    (conjunction(compare(X, "<", Y), compare(Y, "<", Z), compare(Z, "<", X)), FALSE),
    (conjunction(compare(X, "<>", Y), compare(Y, "=", 3)), compare(X, "<>", 3)),
    (conjunction(compare(Cast(X, LONG), "=", L), compare(L, ">", 7)), compare(X, ">", 7)),
    (conjunction(compare(Cast(X, DOUBLE), "<", D), compare(X, ">", 7)), compare(D, ">", 7.5)),
    (compare(Cast(X, LONG), "=", L), compare(L, "<", 2**40)),
    (compare(L, "<", Cast(X, LONG)), compare(L, "<", 2**31 - 1)),
    (compare(Cast(X, DOUBLE), "=", D), negation(compare(D, "=", float("nan")))),
    # connectives
    (
        conjunction(compare(X, "<", 7), compare(Y, "=", 1)),
        disjunction(conjunction(compare(X, "<", 5), compare(Y, "=", 1)), compare(X, ">=", 5)),
    ),
    (disjunction(compare(X, "=", 1), conjunction(compare(X, "=", 2), compare(Y, "=", 1))), compare(X, "<", 3)),
    (conjunction(disjunction(compare(X, "=", 1), compare(Y, "=", 1)), compare(X, "=", 2)), compare(Y, "=", 1)),
    (
        conjunction(
            disjunction(compare(X, "=", 1), compare(Y, "=", 1)), disjunction(compare(X, "=", 2), compare(Y, "=", 2))
        ),
        disjunction(compare(X, "<", 3), compare(Y, "<", 0)),
    ),
    (conjunction(compare(X, "=", 1), KNOWN), KNOWN),
    (Not(KNOWN), Not(KNOWN)),
    (
        disjunction(conjunction(KNOWN, compare(X, "=", 1)), conjunction(KNOWN, compare(X, "=", 2))),
        conjunction(KNOWN, compare(X, "<", 3)),
    ),
    (conjunction(KNOWN, Not(KNOWN)), FALSE),
    (one_of(D, [0.0, 1.0]), one_of(D, [0.0, 1.0])),
    (one_of(D, [0.0, 1.0]), compare(D, ">=", 0.0)),
    (negation(one_of(D, [0.0, 1.0])), compare(D, "<>", 1.0)),
]

NOT_IMPLIED = [
    (either, shoes),
    (compare(REVENUE, ">", 21), compare(REVENUE, ">", 32)),
    (is_not_null(X), compare(X, "<", 5)),
    (TRUE, is_not_null(X)),
    (TRUE, compare(X, "=", X)),
    (compare(X, "<>", 5), disjunction(compare(X, "<", 5), compare(X, ">", 6))),
    (negation(compare(X, "<=>", 5)), compare(X, "<>", 5)),
    (compare(D, ">", 5), compare(D, "<=", float("inf"))),
    (compare(D, ">", 5), compare(D, ">", 5.5)),
    (is_like(S, "%a"), is_like(S, "a%")),
    (negation(is_like(S, "%abc%")), negation(is_like(S, "%b%"))),
    (compare(X, "<=", Y), compare(X, "<", Y)),
    (compare(X, "<>", Y), compare(X, "<", Y)),
    (conjunction(compare(X, "<", Y), compare(X, "<", Z)), compare(Y, "<", Z)),
    (compare(X, "<=>", Y), compare(X, "=", Y)),
    # what is above every int is still a long
    (compare(Cast(X, LONG), "<", L), compare(L, "<", 2**40)),
    (conjunction(compare(Cast(X, LONG), "<", L), compare(X, "=", 2**31 - 1)), FALSE),
    (compare(Cast(X, DOUBLE), "<=", D), compare(D, "<>", float("nan"))),
    (UNKNOWN, UNKNOWN),
    (KNOWN, Opaque("f(x)", (X,), depends="v2")),
    (KNOWN, Not(Not(UNKNOWN))),
    (TRUE, Or((KNOWN, Not(KNOWN)))),
    # by hash, -0.0 may be missed by a list that has 0.0, and then it is in the negation
    (compare(D, "=", 0.0), one_of(D, [0.0, 1.0])),
    (negation(one_of(D, [0.0, 1.0])), compare(D, "<>", 0.0)),
    (compare(D, "=", 0.0), negation(one_of(D, [0.0, 1.0]))),
    # as doubles a long may equal what it is not
    (compare(Cast(L, DOUBLE), "=", 2.0**53), compare(L, "=", 2**53)),
]


def shown(value: object) -> str:
    return sql(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("p", "q"), IMPLIED, ids=shown)
def test_implied(p, q):
    assert implies(p, q)


@pytest.mark.parametrize(("p", "q"), NOT_IMPLIED, ids=shown)
def test_not_implied(p, q):
    assert not implies(p, q)


def test_mutual_implication_and_unsatisfiable():
    assert implies(between(X, 3, 4), one_of(X, [4, 3]))
    assert implies(one_of(X, [4, 3]), between(X, 3, 4))
    assert unsatisfiable(conjunction(is_like(S, "a%"), is_like(S, "b%")))
    assert not unsatisfiable(compare(X, "<", Y))
    assert implies(normalize(compare(X, ">", 5)), normalize(compare(X, ">", 4)))


SOUND = tuple(
    Column(name, type)
    for name, type in (
        ("i", BYTE), ("j", BYTE), ("k", INTEGER), ("l", LONG), ("d", DOUBLE), ("e", DOUBLE),
        ("s", STRING), ("t", STRING), ("m", decimal_type(4, 1)), ("day", DATE), ("flag", BOOLEAN),
    )
)  # fmt: skip


@strategies.tries(600)
@given(st.data())
def test_what_is_implied_is_true(data):
    columns = tuple(data.draw(st.lists(st.sampled_from(SOUND), min_size=1, max_size=3, unique=True)))
    p = data.draw(strategies.predicates(columns, depth=3))
    known = data.draw(st.lists(strategies.rows_around(p, columns=columns), min_size=1, max_size=3))
    q = data.draw(strategies.predicates_about(known, columns, depth=3))
    for first, second in ((p, q), (q, p), (p, p), (conjunction(p, q), q), (p, disjunction(p, q))):
        if implies(first, second):
            for row in [*known, data.draw(strategies.rows_around(p, q, columns=columns))]:
                assert evaluate(first, row) is not True or evaluate(second, row) is True


MIXED = tuple(
    Column(name, type)
    for name, type in (("i", BYTE), ("k", INTEGER), ("f", FLOAT), ("d", DOUBLE), ("m", decimal_type(3, 1)))
)
_EDGES: list[Value] = [-128, -127, 126, 127]
MIXED_POOL: dict[DataType, list[Value]] = {
    BYTE: _EDGES,
    INTEGER: [*_EDGES, -129, 128],
    FLOAT: [float("nan"), float("inf"), -float("inf"), 127.0, 128.0, 99.5],
    DOUBLE: [float("nan"), float("inf"), -float("inf"), -128.5, 127.0, 128.0, 1e300, 99.95],
    decimal_type(3, 1): [Decimal("99.9"), Decimal("-99.9"), Decimal("99.8")],
}


COMMON = (INTEGER, DOUBLE, decimal_type(38, 10))


def constants(column):
    op = st.sampled_from(["=", "<", "<=", "<>", ">", ">="])
    return st.builds(
        lambda o, v: compare(column, o, Literal(v, column.type)), op, st.sampled_from(MIXED_POOL[column.type])
    )


@strategies.tries(400)
@given(st.data())
def test_bounds_carried_between_types_are_true(data):
    """Columns of two numeric types compared, with constants at the edges of the narrower: every row is tried."""
    left, right = data.draw(st.lists(st.sampled_from(MIXED), min_size=2, max_size=2, unique=True))
    common = next(t for t in COMMON if is_monotone(left.type, t) and is_monotone(right.type, t))
    a, b = (c if c.type == common else Cast(c, common) for c in (left, right))
    compared = compare(a, data.draw(st.sampled_from(["=", "<", "<=", "<>", ">", ">="])), b)
    either_one = st.one_of(constants(left), constants(right))
    extra: list[Predicate] = data.draw(st.lists(either_one, max_size=1))
    p = conjunction(compared, *extra)
    satisfying = [
        row
        for values in product([None, *MIXED_POOL[left.type]], [None, *MIXED_POOL[right.type]])
        if evaluate(p, row := dict(zip((left.name, right.name), values, strict=True))) is True
    ]
    for q in [FALSE, *data.draw(st.lists(either_one, min_size=4, max_size=4))]:
        assert not implies(p, q) or all(evaluate(q, row) is True for row in satisfying)


SMALL = tuple(Column(name, BYTE) for name in "abc")
# From below to above every constant: whatever is true of these rows is true of all.
SMALL_ROWS = [dict(zip("abc", values, strict=True)) for values in product([None, *range(-4, 7)], repeat=3)]


def small_predicates(depth):
    @st.composite
    def drawn(draw):
        def build(levels):
            chance = draw(st.integers(0, 5))
            if levels == 0 or chance == 0:
                left, kind = draw(st.sampled_from(SMALL)), draw(st.integers(0, 6))
                if kind == 0:
                    return is_null(left)
                if kind == 1:
                    return one_of(left, draw(st.lists(st.integers(0, 2), min_size=1, max_size=2)))
                right = draw(st.sampled_from(SMALL)) if kind <= 3 else draw(st.integers(0, 2))
                return compare(left, draw(st.sampled_from(["=", "<", "<=", "<>", "<=>", ">", ">="])), right)
            parts = [build(levels - 1) for _ in range(2)]
            return negation(parts[0]) if chance == 1 else (conjunction if chance <= 3 else disjunction)(*parts)

        return build(depth)

    return drawn()


def test_most_of_what_is_true_is_found():
    """Counted on small domains by trying every row: nothing false is claimed, and little that is true is missed."""
    found, true = 0, 0

    @settings(max_examples=250, deadline=None, derandomize=True, database=None)
    @given(small_predicates(2), small_predicates(2))
    def count(p, q):
        nonlocal found, true
        satisfying = [row for row in SMALL_ROWS if evaluate(p, row) is True]
        really = all(evaluate(q, row) is True for row in satisfying)
        claimed = implies(p, q)
        assert really or not claimed
        if satisfying:
            true += really
            found += claimed

    count()
    assert true >= 10
    assert found >= 0.95 * true, f"only {found} of {true} implications found"


@pytest.mark.parametrize("type", [INTEGER, STRING, DOUBLE], ids=str)
def test_a_list_of_100000_values_takes_no_time(type):
    c = column("c", type)
    listed = [f"{n:07}" if type == STRING else 2 * n + 2 for n in range(100_000)]
    p, less, other = (normalize(one_of(c, part)) for part in (listed, listed[:-1], listed[1:]))
    goals = [
        (p, normalize(compare(c, ">=", listed[0])), True),
        (p, normalize(compare(c, ">", listed[0])), False),
        (p, normalize(compare(c, "<>", listed[7])), False),
        (less, normalize(compare(c, "<>", listed[-1])), True),
        (less, p, True),
        (p, less, False),
        (less, other, False),
        (p, normalize(is_not_null(c)), True),
        (p, normalize(disjunction(is_null(c), one_of(c, listed))), True),
    ]
    with counted_work() as work:
        assert [implies(a, b) for a, b, _ in goals] == [expected for _, _, expected in goals]
    assert work.calls < 10_000


def test_a_proof_is_never_exponential():
    columns = [column(f"c{n}", INTEGER) for n in range(30)]
    p = conjunction(
        *(disjunction(compare(a, "=", 1), compare(b, "=", 2)) for a in columns for b in columns[:10] if a != b)
    )
    chain = conjunction(*(compare(a, "<=", b) for a in columns for b in columns if a.name < b.name))
    with counted_work() as work:
        assert not implies(p, compare(column("x", INTEGER), "=", 1))
        assert not implies(chain, compare(columns[-1], "<", columns[0]))
    assert work.calls < 3_000_000


def test_a_long_disjunction_is_followed_to_its_end():
    p = disjunction(*(conjunction(compare(X, "=", n), compare(Y, "=", n + 1)) for n in range(3000)))
    assert implies(p, compare(X, ">=", 0))
    assert not implies(p, compare(X, ">=", 1))
