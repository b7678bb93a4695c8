"""Partitioned tables: what each partition may hold, where a row goes, and which partitions a predicate needs.

A table is partitioned by one or several keys, a level each. A leaf partition has a constraint for each level: a union
of intervals, open or closed, or of single values (categories), and whether NULL is among them. That is what a folder
``date=2024-01/region=3`` says, and what a synopsis says of a file or a block; the constraints of blocks may overlap.

Two functions, after section 2.1 of the paper: :meth:`PartitionedTable.partition_of` (f_T) takes a row's keys to its
partition or to none, :meth:`PartitionedTable.select` (f_T*) takes predicates to every partition that may satisfy them.
The paper has no rule for NULL. Here it belongs to the partition whose constraint has it, a default partition has it if
no other of its level does, and if none has it, it belongs to none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sidestep.errors import SidestepError
from sidestep.predicate import (
    And,
    Cast,
    Column,
    Comparison,
    Formula,
    Interval,
    IntervalSet,
    Literal,
    Not,
    Or,
    Predicate,
    Value,
    normalize,
)
from sidestep.predicate.columns import columns_of
from sidestep.predicate.formula import Null, Within, all_of, any_of
from sidestep.predicate.implication import unsatisfiable


@dataclass(frozen=True, slots=True)
class Constraint:
    """The values that a partition may hold in one of its keys."""

    values: IntervalSet
    nulls: bool = False

    @classmethod
    def anything(cls, key: Column) -> Constraint:
        return cls(IntervalSet.full(key.type), nulls=True)

    def holds(self, value: Value | None) -> bool:
        return self.nulls if value is None else self.values.contains(value)

    def about(self, key: Column) -> Formula:
        """The constraint as a statement about the key."""
        return any_of([Within(key, self.values), *([Null(key)] if self.nulls else [])])


@dataclass(frozen=True, slots=True)
class Partition:
    """A leaf partition."""

    oid: str
    constraints: tuple[Constraint, ...]
    """One for each level."""


DEFAULT = None
"""Instead of a constraint: whatever no other partition of the level takes."""


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy: a key, and the partitions that each partition above is split into."""

    key: Column
    parts: Mapping[str, Constraint | None]
    """By name; :data:`DEFAULT` for the partition that takes the rest."""

    @cached_property
    def constraints(self) -> dict[str, Constraint]:
        """The parts with what the default one takes worked out."""
        named = [constraint for constraint in self.parts.values() if constraint is not None]
        if len(self.parts) - len(named) > 1:
            raise SidestepError(f"A level has one default partition at most, but {self.key.name} has more.")
        taken = IntervalSet.union_all(self.key.type, [constraint.values for constraint in named])
        rest = Constraint(taken.complement(), not any(constraint.nulls for constraint in named))
        return {name: rest if constraint is None else constraint for name, constraint in self.parts.items()}


@dataclass(frozen=True)
class PartitionedTable:
    """A table's partitioning keys and its leaf partitions."""

    name: str
    keys: tuple[Column, ...]
    partitions: tuple[Partition, ...]

    def __post_init__(self) -> None:
        if any(len(part.constraints) != len(self.keys) for part in self.partitions):
            raise SidestepError(f"Each partition of {self.name} needs a constraint for each of {len(self.keys)} keys.")
        if len({part.oid for part in self.partitions}) < len(self.partitions):
            raise SidestepError(f"Two partitions of {self.name} have the same name.")

    @classmethod
    def by_levels(cls, name: str, levels: Sequence[Level]) -> PartitionedTable:
        """Every partition of a level split by the next; a leaf's name is those on the way to it, joined by slashes."""
        leaves: list[tuple[str, tuple[Constraint, ...]]] = [("", ())]
        for level in levels:
            leaves = [
                (f"{path}/{part}" if path else part, (*above, constraint))
                for path, above in leaves
                for part, constraint in level.constraints.items()
            ]
        return cls(name, tuple(level.key for level in levels), tuple(Partition(*leaf) for leaf in leaves))

    @cached_property
    def oids(self) -> frozenset[str]:
        return frozenset(part.oid for part in self.partitions)

    def partition_of(self, values: Sequence[Value | None]) -> str | None:
        """The partition of a row with these keys; None if there is none for it.

        Where constraints overlap, as those of blocks do, keys alone do not say where a row is.
        """
        holding = [
            part.oid
            for part in self.partitions
            if all(each.holds(value) for each, value in zip(part.constraints, values, strict=True))
        ]
        if len(holding) > 1:
            raise SidestepError(f"Partitions {', '.join(holding)} of {self.name} all may hold {tuple(values)}.")
        return holding[0] if holding else None

    def select(self, predicates: Sequence[Predicate | None]) -> frozenset[str]:
        """Every partition that may hold a row whose keys satisfy the predicates, one for each key or None.

        Never too few: what cannot be decided is selected.
        """
        asked = [None if predicate is None else normalize(predicate) for predicate in predicates]
        decided: dict[tuple[int, Constraint], bool] = {}

        def may_hold(level: int, constraint: Constraint) -> bool:
            formula = asked[level]
            if formula is None:
                return True
            if (level, constraint) not in decided:
                both = all_of([formula, constraint.about(self.keys[level])])
                decided[level, constraint] = not unsatisfiable(both)
            return decided[level, constraint]

        return frozenset(
            part.oid
            for part in self.partitions
            if all(may_hold(level, constraint) for level, constraint in enumerate(part.constraints))
        )

    def bounds(self, level: int = 0) -> Iterator[tuple[str, Interval]]:
        """Each partition with each interval of its constraint on a key: partition_constraints of Table 1."""
        for part in self.partitions:
            for interval in part.constraints[level].values.intervals:
                yield part.oid, interval

    def choose(
        self, predicates: Sequence[Predicate | None], rows: Iterable[Mapping[str, Literal]] | None = None
    ) -> frozenset[str]:
        """What a selector with these predicates chooses, by constants alone or by the rows that pass it.

        Static and dynamic selection are one: the columns of a row are constants that come late. Without any row nothing
        is chosen, since nothing can find a partner. Rows that put the same values in are looked at once.
        """
        if rows is None:
            return self.select(predicates)
        names = {column.name for each in predicates if each is not None for column in columns_of(each)}
        names -= {key.name for key in self.keys}
        chosen: frozenset[str] = frozenset()
        for values in dict.fromkeys(tuple((name, row[name]) for name in sorted(names)) for row in rows):
            known = dict(values)
            chosen |= self.select([None if each is None else bind(each, known) for each in predicates])
            if chosen == self.oids:
                break
        return chosen


def bind(predicate: Predicate, values: Mapping[str, Literal]) -> Predicate:
    """The predicate with the columns of a row put in: what is left speaks of the keys alone."""
    match predicate:
        case Comparison(left=left, right=right):
            return replace(predicate, left=_bind_operand(left, values), right=_bind_operand(right, values))
        case And(children=below) | Or(children=below):
            return replace(predicate, children=tuple(bind(child, values) for child in below))
        case Not(child=child):
            return Not(bind(child, values))
        case _:
            return predicate


def _bind_operand(operand: Column | Cast | Literal, values: Mapping[str, Literal]) -> Column | Cast | Literal:
    return values.get(operand.name, operand) if isinstance(operand, Column) else operand
