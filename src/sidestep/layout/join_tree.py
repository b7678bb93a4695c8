"""Join trees: which tables a denormalized one is made of, and by which keys.

The *fact* is the root; each row of it is a row of the denormalized table, once. Every other role is a table that is
looked up by a key of its own, which is unique there: ``nation`` may be looked up for the customer and for the supplier,
and then has two roles. Columns of a role without a partner are NULL. So the denormalized table is the fact, left outer
joined with each role in turn, and holds some of the columns of each (4.3.3 of the thesis).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sidestep.errors import SidestepError


@dataclass(frozen=True, slots=True)
class Role:
    """A table in a join tree."""

    name: str
    table: str
    parent: int = -1
    """The position of the role whose rows look it up; -1 for the fact."""
    on: tuple[tuple[str, str], ...] = ()
    """(column of the parent, column of this table's key), for each column of the key."""
    total: bool = True
    """Whether every row of the parent's table has a partner, so that its columns of ``on`` are never NULL."""


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column of a role that the denormalized table holds."""

    role: int
    name: str
    """In the role's table."""
    type: str
    stored: str
    """In the denormalized table."""


@dataclass(frozen=True)
class JoinTree:
    """Roles, the fact first and each after its parent, and the columns that are kept of them."""

    roles: tuple[Role, ...]
    columns: tuple[KeptColumn, ...]

    def __post_init__(self) -> None:
        if not self.roles or self.roles[0].parent != -1:
            raise SidestepError("A join tree begins with its fact table.")
        for position, role in enumerate(self.roles[1:], 1):
            if not 0 <= role.parent < position or not role.on:
                raise SidestepError(f"{role.name} is looked up by a key, for a table that comes before it.")
        if len({role.name for role in self.roles}) < len(self.roles):
            raise SidestepError("Each role of a join tree has a name of its own.")
        stored = [column.stored.lower() for column in self.columns]
        if len(set(stored)) < len(stored):
            raise SidestepError("Each column of a denormalized table has a name of its own.")

    @property
    def fact(self) -> str:
        return self.roles[0].table

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of all roles, each once."""
        return tuple(dict.fromkeys(role.table for role in self.roles))

    @cached_property
    def held(self) -> Mapping[tuple[int, str], KeptColumn]:
        """What holds each column of each role.

        The key of a role with a partner for every row is what the parent has to look it up by, and is not held twice.
        """
        held = {(column.role, column.name): column for column in self.columns}
        for position, role in enumerate(self.roles):
            for ours, key in role.on if role.total else ():
                if (position, key) not in held and (role.parent, ours) in held:
                    held[position, key] = held[role.parent, ours]
        return held

    @cached_property
    def never_null(self) -> frozenset[str]:
        """Stored columns that are never NULL, for every row has a partner all the way from the fact."""
        certain = {0}
        names = set()
        for position, role in enumerate(self.roles[1:], 1):
            if role.total and role.parent in certain:
                certain.add(position)
                names |= {
                    self.held[role.parent, ours].stored for ours, _ in role.on if (role.parent, ours) in self.held
                }
        return frozenset(names)

    def path(self, position: int) -> Iterator[Role]:
        """A role and those that it is looked up for, up to the fact."""
        while position >= 0:
            yield self.roles[position]
            position = self.roles[position].parent
