"""Union vectors: for each block, which of the workload's features some row of it satisfies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate.formula import All, Any, Formula, Matches, Names, Within, atoms, columns_of_atom, names_in
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.like import LikePattern
from sidestep.predicate.nodes import Column
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.features.feature_index import Subsumption
from sidestep.synopsis.values.forms import Mask, if_any

MOST_REMEMBERED = 4_096
"""So many formulas' answers are kept; beyond that all are forgotten."""


@dataclass(frozen=True, slots=True)
class FeatureStatement:
    """What some features say of one column: that it lies in these ranges, or matches (or does not match) a pattern."""

    column: Column
    says: IntervalSet | LikePattern
    features: frozenset[int]


@dataclass(frozen=True, eq=False)
class UnionVectors:
    """The union vectors of a table's blocks, and the features that their bits stand for (thesis, 3.5; WARP, section 3).

    Contract: bit i of a known block is 0 only if no row of the block satisfies feature i. A feature *answers* a formula
    that it subsumes: a row that satisfies the formula satisfies the feature too, so a block without such a row has
    nothing for the formula. Any conjunct of a query may be opaque, a pattern or a comparison of columns: what counts is
    whether a feature follows from the query, not whether values have an order. A block without a vector, because it was
    laid out with other features or not at all, is unknown.

    The thesis gives the query vector a 0 for each feature that subsumes the query and skips a block if OR with its
    union vector leaves a 0 (in 4.6.1 the bits are turned round). Here the query vector has a 1 for each of those, and a
    block is skipped if its union vector lacks one of them: the same blocks, by one operation per word that has any.

    Example (Figure 3.4): a query on ``event = 'buy' AND product = 'jeans'`` is subsumed by the first two features of
    three. Of the blocks P1, P2, P3 only P1 has both bits.

    >>> from sidestep.predicate import STRING, column, compare, conjunction, normalize
    >>> buy, jeans = compare(column("event", STRING), "=", "buy"), compare(column("product", STRING), "=", "jeans")
    >>> google = compare(column("publisher", STRING), "=", "google")
    >>> blocks = np.array([[0b011, 0b110, 0b001]], dtype=np.uint64)
    >>> vectors = UnionVectors(tuple(map(normalize, (buy, jeans, google))), blocks, np.ones(3, dtype=bool))
    >>> query = normalize(conjunction(buy, jeans))
    >>> vectors.answering(query), vectors.can_satisfy(query).possible.tolist()
    ((0, 1), [True, False, False])
    """

    features: tuple[Formula, ...]
    """In the order of their bits."""
    words: npt.NDArray[np.uint64]
    """One row per word and one column per block: feature j is bit j % 64 of row j // 64."""
    known: Mask
    """The blocks that have a vector of these features."""
    usable: tuple[int, ...] | None = None
    """The features that may answer; None for all of them."""
    name: str = "union vector"
    answers: dict[Formula, tuple[int, ...]] = field(default_factory=dict, repr=False)
    """What was asked before, and the features that answered."""
    branchings: dict[tuple[All, int], tuple[Formula, ...]] | None = field(default=None, repr=False)
    """How conjunctions were taken apart before, if that is remembered: see :mod:`.branches`."""

    def __post_init__(self) -> None:
        shape = (-(-len(self.features) // 64), len(self.known))
        if self.words.shape != shape:
            raise SidestepError(
                f"{len(self.known)} union vectors of {len(self.features)} features take words of shape {shape}, word "
                f"by word, not {self.words.shape}."
            )

    def about(self, columns: Collection[Column]) -> UnionVectors | None:
        """The same vectors, answering only by features that speak of nothing but these columns; None if none do."""
        among = frozenset(columns)
        usable = tuple(
            at
            for at, feature in enumerate(self.features)
            if all(column in among for atom in atoms(feature) for column in columns_of_atom(atom))
        )
        return replace(self, usable=usable, answers={}, branchings=None) if usable else None

    def over(self, words: npt.NDArray[np.uint64], known: Mask) -> UnionVectors:
        """The same features over other blocks; what was found of the features is found, whatever the blocks."""
        other = replace(self, words=words, known=known)
        other.__dict__.update(columns=self.columns, statements=self.statements, _subsumption=self._subsumption)
        return other

    def can_satisfy(self, formula: Formula) -> Answer | None:
        wanted = self.answering(formula)
        if not wanted:
            return None
        holding = self.known.copy()
        for number in sorted({feature // 64 for feature in wanted}):
            bits = np.uint64(sum(1 << feature % 64 for feature in wanted if feature // 64 == number))
            holding &= (self.words[number] & bits) == bits
        return Answer(holding, self.unknown)

    @cached_property
    def unknown(self) -> Mask | None:
        """The blocks that have no vector of these features; None if all have one."""
        return if_any(~self.known)

    def answering(self, formula: Formula) -> tuple[int, ...]:
        """The features that the formula implies: the query vector, as positions in ascending order."""
        found = self.answers.get(formula)
        if found is None:
            if len(self.answers) >= MOST_REMEMBERED:
                self.answers.clear()
            found = self.answers[formula] = self._find(formula)
        return found

    def ruling_out(self, feature: int) -> Mask:
        """The blocks that are known to hold no row which satisfies this feature."""
        bit = np.uint64(1 << feature % 64)
        lacking: Mask = (self.words[feature // 64] & bit) == 0
        return self.known & lacking

    @property
    def may_answer(self) -> Sequence[int]:
        """The usable features, by position."""
        return range(len(self.features)) if self.usable is None else self.usable

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.known.nbytes

    @cached_property
    def columns(self) -> tuple[Names, ...]:
        """The names of the columns of each feature."""
        return tuple(map(names_in, self.features))

    @cached_property
    def statements(self) -> Mapping[str, tuple[FeatureStatement, ...]]:
        """What the features that may answer say of single columns, by the column's name, each thing once."""
        found: dict[str, dict[tuple[Column, IntervalSet | LikePattern], FeatureStatement]] = {}
        for at in self.may_answer:
            for atom in atoms(self.features[at]):
                if isinstance(atom, Within | Matches):
                    says = atom.ranges if isinstance(atom, Within) else atom.pattern
                    about = found.setdefault(atom.column.name, {})
                    before = about.get((atom.column, says))
                    by = {at} if before is None else {at, *before.features}
                    about[atom.column, says] = FeatureStatement(atom.column, says, frozenset(by))
        return {name: tuple(about.values()) for name, about in found.items()}

    @cached_property
    def _subsumption(self) -> Subsumption:
        return Subsumption({at: self.features[at] for at in self.may_answer})

    def _find(self, formula: Formula) -> tuple[int, ...]:
        if isinstance(formula, Any) and formula.children:
            # What every branch implies; each branch is asked for on its own anyway.
            common = set(self.answering(formula.children[0]))
            for child in formula.children[1:]:
                if not common:
                    break
                common.intersection_update(self.answering(child))
            return tuple(sorted(common))
        return self._subsumption.subsuming(formula)


def without_features(features: Sequence[Formula], block: int, blocks: int) -> UnionVectors:
    """Vectors of which one block's alone is known: it stands for rows that satisfy none of some features."""
    words = np.zeros((-(-len(features) // 64), blocks), np.uint64)
    return UnionVectors(tuple(features), words, np.arange(blocks) == block)
