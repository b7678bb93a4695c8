"""Which blocks a query must read: the one place where what the synopses say is put together.

**Contract.** :func:`kept_blocks` returns a mask; a block is left out only if it is proven that no row of it makes the
predicate TRUE.

**Unknown means keep**, and that is decided here and nowhere else, by :func:`kept_by`. A synopsis answers with a mask of
blocks that may hold such a row and a mask of blocks it knows nothing of (:class:`~.contract.answer.Answer`), or with
None if it has nothing to say at all. A block is ruled out only if it is in neither mask; None rules out none. So
whatever a synopsis says of a block that was never looked at, was looked at in vain, was encoded by a table that is gone
or whose stored value is damaged, that block is kept. Whoever asks a synopsis directly asks through :func:`kept_by`.
What a *known* synopsis leaves open (an end without a bound, a pattern it cannot try) is its own to answer: possible.

**Why two values suffice.** SQL predicates have three values, and "the block may hold a TRUE row" is not the negation
of "the block may hold a FALSE row": a block may hold both, or (all NULL) neither. So NOT cannot be taken on answers:
one for ``p`` turned round is none for ``NOT p``. It is taken on the predicate instead, before any block is looked at:
:func:`sidestep.predicate.normal.normalize` gives a formula without NOT that holds for a row exactly when the predicate
is TRUE for it. On that formula only two questions are left, and both are monotone:

* ``Any`` (or): a row of the block satisfies it only if a row satisfies one of the children. "Can satisfy" of an ``Any``
  *is* the OR of its children's, with nothing lost.
* ``All`` (and): a row satisfies it only if it satisfies each child, so each child must be satisfiable in the block. The
  AND of the answers may keep a block whose rows satisfy the children one by one but never together: that is a missed
  skip, never a lost row. (Conjuncts on one column are one interval set by then, so the usual case is not missed.)

**Several features together.** Where there are union vectors, a formula is also taken apart into branches that features
answer one by one (:mod:`.features.branches`): the values of a list, and a choice together with the conjuncts
around it. That is one more AND with an OR of answers, so it is as sound as the answers are; a budget keeps it short.

**The rules for atoms**, for outer bounds ``[lower, upper]`` of a block's values:

=====================  =================================================================================
atom                   a row of the block can satisfy it only if
=====================  =================================================================================
``Within(c, ranges)``  c may hold a value and a range meets ``[lower, upper]``;
                       or c may hold NaN and the ranges do
``Null(c)``            c may hold NULL
``Matches(c, …)``      c may hold a value; and if ``lower = upper``, that value matches
``a < b``              ``lower(a) < upper(b)``; or b may hold NaN, and a a number
``a <= b``             ``lower(a) <= upper(b)``; or b may hold NaN
``a = b``              ``[lower, upper]`` of a and b meet; or both may hold NaN
``a <> b``             not all of both are one same value; or one may hold NaN and the other a number
``Holds(opaque)``      nothing is known; only a synopsis made for that very predicate answers
=====================  =================================================================================

A value set (:mod:`.value_set`) asks these of each of a block's values, as if it were a block of its own.

**Unsound cases avoided.** ``c <> v`` skips only blocks that hold nothing but v (not those whose bounds straddle it).
A block of NULLs alone has no bounds, which means neither "empty" nor "everything". Bounds of strings may be cut, so
they are never taken for values unless they are equal. NaN is in no bound and above all of them, so it is asked for
apart. A bound that is missing is unbounded. Statistics of another type than the query's are not used.

>>> import numpy as np, pyarrow as pa
>>> from sidestep.predicate.intervals import IntervalSet
>>> from sidestep.predicate.nodes import Column
>>> from sidestep.predicate.formula import Within
>>> from sidestep.predicate.types import INTEGER
>>> from sidestep.synopsis.zones.zone_map import zone_maps
>>> rows, files = np.array([9, 9, 9]), np.array([0, 0, 1], dtype=np.int32)
>>> index = {"lower:a": pa.array([1, 5, None]), "upper:a": pa.array([5, 5, 3]), "nulls:a": pa.array([0, 0, None])}
>>> catalog = Catalog(files, rows, rows * 100, 2, (zone_maps({"a": INTEGER}, index, rows),))
>>> a_is_not_5 = Within(Column("a", INTEGER), IntervalSet.point(INTEGER, 5).complement())
>>> kept_blocks(catalog, a_is_not_5).tolist()
[True, False, True]
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from sidestep.predicate.formula import All, Any, Formula, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.synopsis.catalog import Catalog, Synopsis
from sidestep.synopsis.features.branches import branches, divide
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.synopsis.values.forms import Mask

MOST_BRANCHES = 64
"""A formula is taken apart into at most so many branches, however often it is taken apart further."""
_LEAST_PARTS = 16
"""A list of values may always be divided so far: its parts are not taken apart again."""
_MOST_TAKEN_APART = 64
"""Sets of up to so many intervals are taken apart where two synopses know of them."""
_MOST_LOOKED_AT = 4_000_000
"""And no more than so many times blocks: a query is planned in milliseconds, or not for the better."""
_FEW = 4
"""Atoms of up to so many ranges may well come up again in another query,"""
_MOST_KNOWN = 64
"""and of these no more than so many are kept of a catalog."""
_MOST_REMEMBERED = 1 << 26
"""Bytes of answers that are kept while a formula is taken apart: its branches have most parts in common."""


def kept_by(synopsis: Synopsis, formula: Formula) -> Mask | None:
    """The blocks that one synopsis does not rule out, unknown ones among them; None if it has nothing to say."""
    answer = synopsis.can_satisfy(formula)
    if answer is None or answer.unknown is None:
        return None if answer is None else answer.possible
    return answer.possible | answer.unknown


def kept_blocks(catalog: Catalog, formula: Formula) -> Mask:
    """For each block, whether it must be read; see the module's text for the contract."""
    return _Skipping(catalog).kept(formula, MOST_BRANCHES if catalog.union_vectors else 0)


_KNOWN: WeakKeyDictionary[Catalog, dict[Within, Mask]] = WeakKeyDictionary()
"""A catalog serves many queries, and never changes: what was found of a few ranges is kept for as long as it is."""


class _Skipping:
    """One formula's evaluation, with the answers for those of its parts that come up again in its branches."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.vectors = catalog.union_vectors
        self.remembered: dict[Formula, Mask] = {}

    def kept(self, formula: Formula, budget: int) -> Mask:
        """The blocks that the formula does not rule out, looking at no more branches than the budget allows."""
        if not self.vectors and isinstance(formula, Within) and len(formula.ranges.intervals) <= _FEW:
            return self._known(formula, budget)
        if not self.vectors or isinstance(formula, All):
            return self._kept(formula, budget)
        found = self.remembered.get(formula)
        if found is None:
            found = self._kept(formula, budget)
            if len(self.remembered) * self.catalog.blocks < _MOST_REMEMBERED:
                self.remembered[formula] = found
        return found

    def _known(self, atom: Within, budget: int) -> Mask:
        """The same, of an atom that other queries may have too: Spark wants a value in each column that is joined."""
        known = _KNOWN.setdefault(self.catalog, {})
        mask = known.get(atom)
        if mask is None:
            mask = self._kept(atom, budget)
            mask.flags.writeable = False
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[atom] = mask
        return mask

    def _kept(self, formula: Formula, budget: int) -> Mask:
        kept = np.ones(self.catalog.blocks, dtype=np.bool_)
        answered = 0
        for synopsis in self.catalog.synopses:
            mask = kept_by(synopsis, formula)
            if mask is not None:
                kept &= mask
                answered += not isinstance(synopsis, UnionVectors)
        match formula:
            case All(children):
                for child in children:
                    if not kept.any():
                        break
                    kept &= self.kept(child, _share(budget, children))
                if budget > 1 and kept.any():
                    kept = self._in_some(branches(self.vectors, formula, budget), kept, budget)
            case Any(children):
                kept = self._in_some(children, kept, budget) if children else np.zeros_like(kept)
            case Within(_, ranges) if ranges.is_empty:
                kept = np.zeros_like(kept)  # no value is in it, whatever is known of a block
            case Within():
                parts = divide(self.vectors, formula, max(budget, _LEAST_PARTS)) if budget else ()
                if len(parts) < 2 and answered > 1:
                    parts = _range_by_range(formula, self.catalog.blocks)
                if len(parts) > 1:
                    kept = self._in_some(parts, kept, 0)
        return kept

    def _in_some(self, parts: Sequence[Formula], kept: Mask, budget: int) -> Mask:
        """Those of the kept blocks that some part does not rule out; all of them if there are no parts."""
        if not parts or not kept.any():
            return kept
        some = np.zeros_like(kept)
        for part in parts:
            some |= self.kept(part, budget // len(parts))
            if not np.any(kept & ~some):
                break
        return kept & some


def _share(budget: int, children: Sequence[Formula]) -> int:
    """What each child may spend: those that can be taken apart share what there is."""
    return budget // max(1, sum(isinstance(child, All | Any) for child in children))


def _range_by_range(atom: Within, blocks: int) -> tuple[Formula, ...]:
    """Each interval alone: where one synopsis rules some of them out and another the rest, none is left."""
    many = len(atom.ranges.intervals)
    if many > _MOST_TAKEN_APART or many * blocks > _MOST_LOOKED_AT:
        return ()
    return tuple(Within(atom.column, IntervalSet(atom.ranges.type, (each,))) for each in atom.ranges.intervals)
