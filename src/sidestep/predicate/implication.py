"""Implication: when one predicate's truth forces another's. The papers call it subsumption."""

from __future__ import annotations

from dataclasses import dataclass

from sidestep.predicate.facts import Facts, Fails, Outside
from sidestep.predicate.formula import (
    HOLDS_NEVER,
    All,
    Any,
    Atom,
    Compares,
    Formula,
    Holds,
    Matches,
    Null,
    Within,
    atoms,
)
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Predicate
from sidestep.predicate.normal import normalize

PROOF_STEPS = 2_000
"""Cases that one proof may look at; a proof that needs more is given up, and nothing is implied."""


def implies(p: Predicate | Formula, q: Predicate | Formula) -> bool:
    """Whether every row for which p is TRUE is certain to make q TRUE.

    Contract: never wrong, not always found. With q as a feature and p as a query's filter this is subsumption of the
    filter by the feature (Sun's thesis, section 3.3.1): a block in which no row satisfies q holds no row for p.

    The proof is by contradiction on the normal forms: p together with the opposite of q, taken apart case by case, must
    leave no row. Facts on one column are decided by ranges and patterns, facts between columns by the order they imply
    (:mod:`sidestep.predicate.facts`), opaque predicates by identity alone. The cases looked at are counted, so a long
    disjunction costs a bounded time.

    >>> from sidestep.predicate.build import column, compare, one_of
    >>> from sidestep.predicate.types import INTEGER, STRING
    >>> product, revenue = column("product", STRING), column("revenue", INTEGER)
    >>> implies(compare(product, "=", "shoes"), one_of(product, ["shoes", "shirts"]))
    True
    >>> implies(compare(revenue, ">", 21), compare(revenue, ">", 32))
    False
    """
    return _Proof(_formula(p), _formula(q)).succeeds()


def unsatisfiable(p: Predicate | Formula) -> bool:
    """Whether it is certain that no row makes p TRUE."""
    return _Proof(_formula(p), HOLDS_NEVER).succeeds()


def _formula(p: Predicate | Formula) -> Formula:
    return p if isinstance(p, Formula) else normalize(p)


class _OutOfSteps(Exception):
    """The proof looked at as many cases as it may."""


@dataclass(frozen=True, slots=True)
class _Both:
    """Every part holds."""

    parts: tuple[_Claim, ...]


@dataclass(frozen=True, slots=True)
class _Either:
    """Some part holds."""

    parts: tuple[_Claim, ...]


_Claim = _Both | _Either | Atom | Outside | Fails
"""A formula as a proof has it: with what the opposite of a formula needs besides."""


class _Proof:
    """One proof, and the cases it may still look at: a fixed number, and a few for each part of what it is about."""

    def __init__(self, p: Formula, q: Formula) -> None:
        self.p, self.q = p, q
        self.steps = PROOF_STEPS + 4 * sum(1 for formula in (p, q) for _ in atoms(formula))

    def succeeds(self) -> bool:
        try:
            return self._implies(self.p, self.q)
        except _OutOfSteps:
            return False

    def _implies(self, p: Formula, q: Formula) -> bool:
        if isinstance(q, All):
            return all(self._implies(p, child) for child in q.children)
        if isinstance(p, Any):
            return all(self._implies(child, q) for child in p.children)
        parts = p.children if isinstance(p, All) else (p,)
        facts = Facts()
        facts.add(*(part for part in parts if not isinstance(part, All | Any)))
        self._step()
        if facts.contradictory:
            return True
        cases = [_claim(part) for part in parts if isinstance(part, All | Any)]
        goals = q.children if isinstance(q, Any) else (q,)
        if any(facts.entails_directly(goal) for goal in goals if not isinstance(goal, All | Any)):
            return True
        if not cases and isinstance(q, Within) and facts.only_ranges(q.column):
            return False  # the ranges are all there is, and they are not enough
        return self._no_row(facts, [*cases, _opposite(q)])

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise _OutOfSteps

    def _no_row(self, facts: Facts, claims: list[_Claim]) -> bool:
        """Whether no row satisfies the facts and all claims.

        A case with one way left is taken at once; only when none is does the proof split, on the case with fewest ways.
        """
        cases: list[_Either] = []
        while claims:
            facts.add(*_split(claims, cases))
            if facts.contradictory:
                return True
            claims, left = [], []
            for case in cases:
                ways = self._ways(facts, case)
                if ways is None:
                    continue
                if not ways:
                    return True
                if len(ways) == 1:
                    claims.append(ways[0])
                else:
                    left.append(_Either(tuple(ways)))
            cases = left
        if not cases:
            return False
        cases.sort(key=lambda case: len(case.parts))
        split, *others = cases
        return all(self._no_row(facts.copy(), [way, *others]) for way in split.parts)

    def _ways(self, facts: Facts, case: _Either) -> list[_Claim] | None:
        """The parts of a case that the facts leave open, or None if they already make one true."""
        ways: list[_Claim] = []
        for way in case.parts:
            if not isinstance(way, _Both | _Either) and facts.entails_directly(way):
                return None
            self._step()
            trial = facts.copy()
            trial.add(*_split([way], []))
            if not trial.contradictory:
                ways.append(way)
        return ways


def _split(claims: list[_Claim], cases: list[_Either]) -> list[Atom | Outside | Fails]:
    """The atoms among the claims, conjunctions opened; disjunctions are appended to ``cases``."""
    leaves: list[Atom | Outside | Fails] = []
    pending = claims[::-1]
    while pending:
        claim = pending.pop()
        if isinstance(claim, _Both):
            pending.extend(claim.parts)
        elif isinstance(claim, _Either):
            cases.append(claim)
        else:
            leaves.append(claim)
    return leaves


def _claim(formula: Formula) -> _Claim:
    if isinstance(formula, All):
        return _Both(tuple(_claim(child) for child in formula.children))
    if isinstance(formula, Any):
        return _either([_claim(child) for child in formula.children])
    return formula


def _opposite(formula: Formula) -> _Claim:
    """What is true of a row exactly where the formula does not hold."""
    match formula:
        case All(children=children):
            return _either([_opposite(child) for child in children])
        case Any(children=children):
            return _Both(tuple(_opposite(child) for child in children))
        case Within(column=column, ranges=ranges):
            return Null(column) if ranges.is_full else _Either((Null(column), Outside(column, ranges)))
        case Null(column=column):
            return Within(column, IntervalSet.full(column.type))
        case Matches(column=column, pattern=pattern, negated=negated):
            return _Either((Null(column), Matches(column, pattern, not negated)))
        case Compares(left=left, op="<", right=right):
            return _Either((Null(left), Null(right), Compares(right, "<=", left)))
        case Compares(left=left, op="<=", right=right):
            return _Either((Null(left), Null(right), Compares(right, "<", left)))
        case Compares(left=left, op=op, right=right):
            return _Either((Null(left), Null(right), Compares(left, "<>" if op == "=" else "=", right)))
        case Holds():
            return Fails(formula)
    raise TypeError(f"{formula!r} is not a formula.")


def _either(parts: list[_Claim]) -> _Either:
    return _Either(tuple(inner for part in parts for inner in (part.parts if isinstance(part, _Either) else (part,))))
