"""Which tables to denormalize, by the joins of a workload (4.3.3 of the thesis).

From the fact table outwards: a table is looked up if the workload's queries compare columns of a role with columns of
it that are a key there. Whether they are is asked of the data, as is whether every row finds a partner. Of each role
those columns are kept that queries on the fact use of its table, and those that other roles are looked up by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sidestep.errors import SidestepError
from sidestep.layout.join_tree import JoinTree, KeptColumn, Role
from sidestep.predicate import Kind, parse_type
from sidestep.workload.query import LoggedQuery, Workload

LEAST_SHARE = 0.01
"""The share of the fact's queries that must join a table for it to be worth its columns."""
KEY_KINDS = frozenset({Kind.BYTE, Kind.SHORT, Kind.INTEGER, Kind.LONG, Kind.STRING, Kind.DATE, Kind.DECIMAL})
"""Kinds of which equal values are the same value."""
Schemas = Mapping[str, Mapping[str, str]]
"""The types of columns, by table and name, as Spark writes them."""
Pairs = tuple[tuple[str, str], ...]
"""Columns that are compared: (of the one, of the other)."""


class Keys(Protocol):
    """What is known of the data."""

    def unique(self, table: str, columns: tuple[str, ...]) -> bool:
        """Whether no two rows of a table have the same values in all of these columns, none of them NULL."""

    def total(self, parent: str, child: str, on: Pairs) -> bool:
        """Whether every row of a table has a partner in another."""


@dataclass(frozen=True)
class ChosenTree:
    """A join tree, and what is to be said of the choice."""

    tree: JoinTree
    notes: tuple[str, ...]
    queries: int
    """How many queries of the workload read the fact."""


def choose_tree(
    workload: Workload, fact: str, schemas: Schemas, keys: Keys, declared: Mapping[str, Sequence[str]] | None = None
) -> ChosenTree:
    """The join tree of a fact table for a workload. ``declared`` has the keys of tables whose key is not to be guessed.

    A declared key that is none is an error; any other comparison that is not with a key is left to queries.
    """
    queries = [query for query in workload.queries if any(use.table == fact for use in query.uses)]
    total = sum(query.count for query in queries)
    if not total:
        raise SidestepError(f"No query of the log reads {fact}: name the fact table as the log does.")
    compared = _compared(queries)
    roles = [Role(fact, fact)]
    refused: dict[frozenset[frozenset[tuple[str, str]]], int] = {}
    position = 0
    while position < len(roles):
        parent = roles[position]
        above = {role.table for role in JoinTree(tuple(roles), ()).path(position)}
        for (table, other, pairs), count in compared.most_common():
            if table != parent.table or other in above or other not in schemas or count < LEAST_SHARE * total:
                continue
            on = _key(parent.table, other, pairs, schemas, keys, (declared or {}).get(other))
            if on is None:
                refused.setdefault(frozenset(frozenset({(table, a), (other, b)}) for a, b in pairs), count)
                continue
            looked_up = _canonical(roles, position, on)
            if (other, looked_up) not in [(role.table, _canonical(roles, role.parent, role.on)) for role in roles]:
                roles.append(Role(_free_name(roles, parent, other), other, position, on, keys.total(table, other, on)))
        position += 1
    tree = JoinTree(tuple(roles), tuple(_columns(roles, queries, schemas)))
    by_key = {
        frozenset({(roles[role.parent].table, ours), (role.table, key)}) for role in roles for ours, key in role.on
    }
    notes = (
        f"{counted_share(count, total)} join on {_comparisons(pairs)}, which is a key of neither."
        for pairs, count in refused.items()
        if not pairs & by_key
    )
    return ChosenTree(tree, tuple(notes), total)


def _comparisons(pairs: frozenset[frozenset[tuple[str, str]]]) -> str:
    sides = sorted(sorted(".".join(column) for column in pair) for pair in pairs)
    return " and ".join(" = ".join(pair) for pair in sides)


def _canonical(roles: Sequence[Role], parent: int, on: Pairs) -> tuple[tuple[int, str, str], ...]:
    """A look-up by the columns nearest to the fact that are equal to its own: a role has the keys of its parent."""

    def nearest(position: int, name: str) -> tuple[int, str]:
        for ours, key in roles[position].on if position >= 0 else ():
            if key == name:
                return nearest(roles[position].parent, ours)
        return position, name

    return tuple(sorted((*nearest(parent, ours), key) for ours, key in on))


def counted_share(count: int, total: int) -> str:
    """So many of so many queries, in words.

    >>> counted_share(1, 4)
    '1 of 4 queries'
    """
    return f"{count:,} of {total:,} queries"


def _compared(queries: Sequence[LoggedQuery]) -> Counter[tuple[str, str, Pairs]]:
    """How often queries compare columns of one table with columns of another, either way round."""
    compared: Counter[tuple[str, str, Pairs]] = Counter()
    for query in queries:
        together: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for join in query.joins:
            for (one, a), (other, b) in ((join.left, join.right), (join.right, join.left)):
                together.setdefault((one, other), set()).add((a, b))
        for (one, other), pairs in together.items():
            compared[one, other, tuple(sorted(pairs))] += query.count
    return compared


def _key(
    table: str, other: str, pairs: Pairs, schemas: Schemas, keys: Keys, declared: Sequence[str] | None
) -> Pairs | None:
    """Those of the comparisons that look up rows of the other table by its key."""
    fitting = tuple((a, b) for a, b in pairs if _same_type(schemas[table].get(a), schemas[other].get(b)))
    if declared is not None:
        chosen = tuple(pair for pair in fitting if pair[1] in declared)
        if {b for _, b in chosen} != set(declared) or len(chosen) != len(declared):
            return None
        if not keys.unique(other, tuple(b for _, b in chosen)):
            raise SidestepError(
                f"{', '.join(declared)} is no key of {other}: some rows have the same. Leave it out of keys, and "
                "other comparisons are looked at."
            )
        return chosen
    candidates = [(pair,) for pair in fitting] + ([fitting] if len(fitting) > 1 else [])
    for candidate in candidates:
        names = tuple(b for _, b in candidate)
        if len(set(names)) == len(names) and keys.unique(other, names):
            return candidate
    return None


def _same_type(one: str | None, other: str | None) -> bool:
    return one is not None and one == other and parse_type(one).kind in KEY_KINDS


def _free_name(roles: Sequence[Role], parent: Role, table: str) -> str:
    taken = {role.name for role in roles}
    name = table if table not in taken else f"{parent.name}_{table}"
    number = 2
    while name in taken:
        name, number = f"{parent.name}_{table}_{number}", number + 1
    return name


def _columns(roles: Sequence[Role], queries: Sequence[LoggedQuery], schemas: Schemas) -> Iterator[KeptColumn]:
    used: dict[str, set[str]] = {}
    for query in queries:
        for use in query.uses:
            used.setdefault(use.table, set()).update(use.columns)
    kept: list[tuple[int, str]] = []
    for position, role in enumerate(roles):
        by = {ours for child in roles if child.parent == position for ours, _ in child.on}
        keys = {key for _, key in role.on}
        # The key of a table that every row finds a partner in is what it is looked up by; else it tells who found one.
        names = (used.get(role.table, set()) | by) - (keys if role.total else set()) | (set() if role.total else keys)
        kept += [(position, name) for name in schemas[role.table] if name in names]
    times = Counter(name.lower() for _, name in kept)
    taken = {name.lower() for _, name in kept if times[name.lower()] == 1}
    for position, name in kept:
        stored = name
        if times[name.lower()] > 1:
            stored, number = f"{roles[position].name}_{name}", 2
            while stored.lower() in taken:
                stored, number = f"{roles[position].name}_{name}_{number}", number + 1
            taken.add(stored.lower())
        yield KeptColumn(position, name, schemas[roles[position].table][name], stored)
