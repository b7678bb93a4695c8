"""Cut trees: where a row goes by its own values, test after test from the top (Yang et al., SIGMOD 2020, call such a
tree a query-data routing tree).

An inner node tests a row: a comparison of one column with constants, or one of the layout's features. Rows for which
the test is TRUE go to one side, all others, NULL among them, to the other; leaves are numbered from left to right, so
that near numbers are near in the tree. One column cut at quantiles is a sort, columns in turn are a Z-order, cuts by
what queries ask for are a layout by the workload.

A tree only says where rows go. What may be skipped is decided by what blocks are known to hold, so a row that a tree
would send elsewhere today costs time, never a result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sidestep.predicate import Comparison, In, Predicate
from sidestep.predicate.nodes import Column, Literal
from sidestep.predicate.serial import from_dict, to_dict

Test = Comparison | In | int
"""A comparison of a column with constants, or the number of a feature."""

MOST_DEPTH = 64
"""Levels of a tree: Spark evaluates it by recursion, and 400 were too many for it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """An inner node. A side is another one, or None for a leaf."""

    test: Test
    no: Cut | None
    yes: Cut | None

    @property
    def leaves(self) -> int:
        return sum(1 if side is None else side.leaves for side in (self.no, self.yes))

    @property
    def depth(self) -> int:
        return 1 + max(0 if side is None else side.depth for side in (self.no, self.yes))

    @property
    def tests(self) -> Iterator[Test]:
        """The tests of all nodes."""
        yield self.test
        for side in (self.no, self.yes):
            if side is not None:
                yield from side.tests

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tests compare, by name."""
        return tuple(sorted({column_of(test).name for test in self.tests if not isinstance(test, int)}))

    @property
    def id(self) -> str:
        """Two trees that send rows to the same leaves by the same tests have the same one."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:12]

    def renumber(self, place: Mapping[int, int]) -> Cut | None:
        """The tree with other numbers for its features. Of a feature that has none, no row is known to have it."""
        no, yes = (None if side is None else side.renumber(place) for side in (self.no, self.yes))
        if not isinstance(self.test, int):
            return Cut(self.test, no, yes)
        return no if self.test not in place else Cut(place[self.test], no, yes)

    def to_json(self) -> dict[str, Any]:
        """The tree as plain data."""
        return {
            "test": self.test if isinstance(self.test, int) else to_dict(self.test),
            "no": None if self.no is None else self.no.to_json(),
            "yes": None if self.yes is None else self.yes.to_json(),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any], depth: int = 0) -> Cut:
        """The tree that :meth:`to_json` wrote; ValueError or TypeError if it is none."""
        if not isinstance(written, dict):
            raise TypeError("a node of the tree that is none")
        if depth > MOST_DEPTH:
            raise ValueError(f"a tree of more than {MOST_DEPTH} levels")
        sides = [None if written[side] is None else cls.from_json(written[side], depth + 1) for side in ("no", "yes")]
        test = written["test"]
        if isinstance(test, dict):
            return cls(check_test(from_dict(test)), *sides)
        if type(test) is not int:
            raise TypeError("a test that is none")
        return cls(test, *sides)


def merge_leaves(rows: Sequence[int], least: int) -> list[int]:
    """Leaves as runs of neighbours: a run of fewer than ``least`` rows joins the smaller of those beside it.

    >>> merge_leaves([5, 1, 9, 2, 2, 2], least=4), merge_leaves([1], least=4), merge_leaves([], least=4)
    ([0, 0, 1, 2, 2, 2], [0], [])
    """
    runs: list[list[int]] = []  # (first leaf, rows)
    for leaf, count in enumerate(rows):
        if runs and runs[-1][1] < least and count < least:
            runs[-1][1] += count
        else:
            runs.append([leaf, count])
    while len(runs) > 1 and (small := next((at for at, run in enumerate(runs) if run[1] < least), None)) is not None:
        beside = [at for at in (small - 1, small + 1) if 0 <= at < len(runs)]
        other = min(beside, key=lambda at: runs[at][1])
        first, second = sorted((small, other))
        runs[first][1] += runs[second][1]
        del runs[second]
    starts = {first for first, _ in runs}
    number, numbers = -1, []
    for leaf in range(len(rows)):
        number += leaf in starts
        numbers.append(number)
    return numbers


def check_test(predicate: Predicate) -> Comparison | In:
    """The predicate as a test, if it compares a column with constants; else ValueError."""
    match predicate:
        case Comparison(left=Column(), right=Literal()) | In(operand=Column()):
            return predicate
    raise ValueError("a test that does not compare a column with constants")


def column_of(test: Comparison | In) -> Column:
    """The column that a test compares."""
    operand = test.left if isinstance(test, Comparison) else test.operand
    assert isinstance(operand, Column)
    return operand
