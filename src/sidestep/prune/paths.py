"""Retrieval paths (thesis, 5.6): from which copies a query reads the cells that a table has more than once.

A group of columns may have some rows of its table alone: those that satisfy at least one of its features. A query may
read it if every row that it wants is among them. That is when rows without any of the features need not be read: a
block of such rows, with a union vector in which all bits are 0, would be skipped. So it is asked in these words, of the
code that skips blocks (:func:`sidestep.synopsis.kept_blocks`), with all that this knows of lists, choices, opaque parts
and settings; and what it cannot prove, it keeps, which here means that the group is not eligible.

This rests on the query's own predicates alone, like static pruning, and on nothing that changes: which rows a group of
some number has is decided once. A row is in a group at most once, and a path is joined by row, so none comes twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sidestep.layout.replicas.paths import find_path
from sidestep.predicate import Formula
from sidestep.prune.analysis import Accesses, AnalyzedQuery, ColumnAccess, Decision, by_scan
from sidestep.prune.plan.algebra import Scan
from sidestep.synopsis import Mask, kept_blocks


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group that a query may read, and how many rows it reads there."""

    access: ColumnAccess
    rows: float


def choose_paths(query: AnalyzedQuery, decision: Decision) -> Decision:
    """Choose the copies that each scan reads, where its table has cells more than once; the others stay as they are."""
    copied = {key: query.scans[key] for key in decision.catalogs if query.scans[key].copies is not None}
    if not copied:
        return decision
    kept = by_scan(query, decision.kept)
    paths = dict(decision.paths)
    for key, scan in copied.items():
        formulas = [
            formula for place, formula in zip(query.places, query.formulas, strict=True) if place.scan.key == key
        ]
        if len(decision.catalogs[key]) == 1:
            path = _path(query, scan, formulas, kept[key][0])
            if path:
                paths[key] = path
    return replace(decision, paths=paths)


def _path(query: AnalyzedQuery, scan: Scan, formulas: Sequence[Formula], kept: Mask) -> tuple[int, ...]:
    """The groups that a scan reads, the one with the fewest rows first; none if that is left to who reads."""
    known = query.tables.accesses(scan, query.columns[scan.key])
    if known is None:
        return ()
    open_to = open_groups(known, formulas, kept)
    if not scan.needs:
        fewest = min(open_to, key=lambda each: (each.rows, len(each.access.columns), each.access.number), default=None)
        return () if fewest is None else (fewest.access.number,)
    used = set(retrieval_path(open_to, scan.needs).values())
    return tuple(each.access.number for each in sorted(used, key=lambda each: (each.rows, each.access.number)))


def open_groups(known: Accesses, formulas: Collection[Formula], kept: Mask) -> tuple[OpenGroup, ...]:
    """The groups that have every row which one of the formulas wants; ``kept`` are the blocks that are not skipped.

    There are several formulas where one scan is read at several places: the rows that any of them wants must be there.
    """
    wanted = [kept_blocks(known.lacking, formula) for formula in dict.fromkeys(formulas)]
    return tuple(
        OpenGroup(each, float(known.rows[kept & each.blocks].sum()))
        for each in known.groups
        if each.lacks is None or not any(mask[each.lacks] for mask in wanted)
    )


def retrieval_path(open_to: Sequence[OpenGroup], needs: Sequence[str]) -> dict[str, OpenGroup]:
    """The group that each of some columns is read from; nothing if one of them is in no group that is open."""
    eligible = {
        at: [position for position, each in enumerate(open_to) if name in each.access.columns]
        for at, name in enumerate(needs)
    }
    if not all(eligible.values()):
        return {}
    path = find_path(eligible, [each.rows for each in open_to])
    return {name: open_to[path[at]] for at, name in enumerate(needs)}
