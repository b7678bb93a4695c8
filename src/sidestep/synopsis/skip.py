"""Which blocks a query must read: the one place where what the synopses say is put together.

**Contract.** :func:`kept_blocks` returns a mask; a block is left out only if it is proven that no row of it makes the
predicate TRUE. What is unknown is kept, and that is decided here and nowhere else: a synopsis that has nothing to say
returns None, and None keeps every block.

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

**Unsound cases avoided.** ``c <> v`` skips only blocks that hold nothing but v (not those whose bounds straddle it).
A block of NULLs alone has no bounds, which means neither "empty" nor "everything". Bounds of strings may be cut, so
they are never taken for values unless they are equal. NaN is in no bound and above all of them, so it is asked for
apart. A bound that is missing is unbounded. Statistics of another type than the query's are not used.

>>> import numpy as np, pyarrow as pa
>>> from sidestep.predicate.intervals import IntervalSet
>>> from sidestep.predicate.nodes import Column
>>> from sidestep.predicate.formula import Within
>>> from sidestep.predicate.types import INTEGER
>>> from sidestep.synopsis.zonemap import zone_maps
>>> rows, files = np.array([9, 9, 9]), np.array([0, 0, 1], dtype=np.int32)
>>> index = {"lower:a": pa.array([1, 5, None]), "upper:a": pa.array([5, 5, 3]), "nulls:a": pa.array([0, 0, None])}
>>> catalog = Catalog(files, rows, rows * 100, 2, (zone_maps({"a": INTEGER}, index, rows),))
>>> a_is_not_5 = Within(Column("a", INTEGER), IntervalSet.point(INTEGER, 5).complement())
>>> kept_blocks(catalog, a_is_not_5).tolist()
[True, False, True]
"""

from __future__ import annotations

import numpy as np

from sidestep.predicate.formula import All, Any, Formula, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.synopsis.catalog import Catalog
from sidestep.synopsis.stored import Mask

_MOST_TAKEN_APART = 64
"""Sets of up to so many intervals are taken apart where two synopses know of them."""


def kept_blocks(catalog: Catalog, formula: Formula) -> Mask:
    """For each block, whether it must be read; see the module's text for the contract."""
    kept = np.ones(catalog.blocks, dtype=np.bool_)
    answers = [answer for synopsis in catalog.synopses if (answer := synopsis.can_satisfy(formula)) is not None]
    for answer in answers:
        kept &= answer
    match formula:
        case All(children):
            for child in children:
                if not kept.any():
                    break
                kept &= kept_blocks(catalog, child)
        case Any(children):
            if kept.any():
                any_kept = np.zeros(catalog.blocks, dtype=np.bool_)
                for child in children:
                    any_kept |= kept_blocks(catalog, child)
                    if any_kept.all():
                        break
                kept &= any_kept
        case Within() if len(answers) > 1 and kept.any():
            kept &= _range_by_range(catalog, formula)
    return kept


def _range_by_range(catalog: Catalog, atom: Within) -> Mask:
    """Each interval asked for alone: where one synopsis rules some of them out and another the rest, none is left."""
    if not 1 < len(atom.ranges.intervals) <= _MOST_TAKEN_APART:
        return np.ones(catalog.blocks, dtype=np.bool_)
    kept = np.zeros(catalog.blocks, dtype=np.bool_)
    for interval in atom.ranges.intervals:
        kept |= kept_blocks(catalog, Within(atom.column, IntervalSet(atom.ranges.type, (interval,))))
    return kept
