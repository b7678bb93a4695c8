"""Which file and task each group of each unit goes to, and which block ids that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.layout.order import rank_unions
from sidestep.layout.vectors import Words, unite

Ints = npt.NDArray[np.int32]
GREATEST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What is to become one file."""

    first_block: int
    unit: str | None = None
    """What the file is organized as; None says that it is not."""
    groups: tuple[int, ...] | None = None
    """The sizes of its groups in order, if known: then they are cut evenly, and must come out as planned."""
    ids: tuple[int, ...] | None = None
    """The first block id of each of these groups; without, they follow each other from ``first_block`` on."""


@dataclass(frozen=True, slots=True)
class FileMap:
    """For each vector of each unit its group, file and task, and for each file what it is to hold."""

    group: Ints
    """Its number in its unit, in the order of block ids."""
    file: Ints
    task: Ints
    parts: Ints
    """Into how many files, from ``file`` on, the rows are dealt: more than one where a group is larger than a file."""
    plans: tuple[FilePlan, ...]
    tasks: int
    units: int

    @property
    def parted(self) -> bool:
        return bool((self.parts > 1).any())


def map_files(
    labels: pa.ChunkedArray,
    groups: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    words: Words,
    weights: Sequence[float],
    runs: npt.NDArray[np.int32] | None = None,
    *,
    min_size: int,
    file_rows: int,
    least_tasks: int,
    first_block: int,
) -> FileMap:
    """Assign the groups of all units to files of about ``file_rows`` rows, and small files to common tasks.

    Units come in the order of their labels. The groups of a unit, and the ids of all blocks, come in the order of
    their union vectors (:mod:`sidestep.layout.order`). Where ``runs`` says which run of a tree's leaves each vector is
    in, that comes first: neighbours in the tree are what a query wants together. A file holds neighbouring groups of
    one unit. A group of more than two files' rows is dealt out to several.
    """
    encoded = labels.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    rank = np.argsort(np.argsort(np.array(names, dtype=object)))
    held = _group_units(rank[encoded.indices.to_numpy()], groups, rows, words, weights, runs)
    file_of, parts_of, task_of = (np.zeros(len(held.sizes), np.int32) for _ in range(3))
    files: list[tuple[str, slice, int]] = []
    sizes_of_task: list[int] = []
    task_rows = max(min_size, min(file_rows, int(held.sizes.sum()) // least_tasks))
    for number, label in enumerate(sorted(names)):
        start, end = np.searchsorted(held.unit, [number, number + 1])
        for first, last, parts in _files_of(held.sizes[start:end], file_rows):
            members = slice(start + first, start + last)
            file_of[members], parts_of[members] = len(files), parts
            count = int(held.sizes[members].sum())
            if parts > 1 or not sizes_of_task or sizes_of_task[-1] + count > task_rows:
                sizes_of_task.append(0)
            task_of[members] = len(sizes_of_task) - 1
            sizes_of_task[-1] += count
            if parts > 1:
                sizes_of_task.extend([count] * (parts - 1))
            files += [(label, members, part) for part in range(parts)]
    # Whichever way the rows of a group are dealt out, no part gets more than all; ids that are not used cost nothing.
    needed = (np.maximum(held.sizes // min_size, 1) + (parts_of > 1)).astype(np.int64)
    ids = first_block + _starts(needed * parts_of, held.turn)
    if int((ids + needed * parts_of).max(initial=0)) > GREATEST_ID:
        raise SidestepError(f"The table would need block ids above {GREATEST_ID:,}: choose a larger min_size.")
    plans = [_plan(label, members, part, held.sizes, ids, needed, parts_of) for label, members, part in files]
    return FileMap(
        held.group[held.place],
        file_of[held.place],
        task_of[held.place],
        parts_of[held.place],
        tuple(plans),
        max(1, len(sizes_of_task)),
        len(names),
    )


@dataclass(frozen=True, slots=True)
class _UnitGroups:
    """The groups of all units, by unit and in it in the order of ids."""

    unit: npt.NDArray[np.int64]
    group: Ints
    """Its number in its unit, from 0 on."""
    sizes: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int64]
    """The groups in the order in which they take ids."""
    place: npt.NDArray[np.int64]
    """For each vector its group's position here."""


def _group_units(
    unit: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    words: Words,
    weights: Sequence[float],
    runs: npt.NDArray[np.int32] | None,
) -> _UnitGroups:
    pairs, place = np.unique(np.stack([unit, groups.astype(np.int64)], axis=1), axis=0, return_inverse=True)
    place = place.ravel()
    unions, sizes = unite(words, rows, place)
    ranks, units = rank_unions(unions, weights), pairs[:, 0]
    run = np.zeros(len(pairs), np.int64)
    if runs is not None:
        run[place] = runs
    order = np.lexsort((ranks, run, units))
    moved = np.empty(len(order), np.int64)
    moved[order] = np.arange(len(order))
    first = np.searchsorted(units, units)  # sorting within units leaves each unit where it was
    return _UnitGroups(
        units,
        (np.arange(len(units)) - first).astype(np.int32),
        sizes[order],
        np.argsort(ranks[order], kind="stable") if runs is None else np.arange(len(order)),
        moved[place],
    )


def _starts(counts: npt.NDArray[np.int64], turn: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The first of the numbers that each takes, ``counts`` of them, one after the other by turn.

    >>> _starts(np.array([5, 2, 4]), np.array([1, 2, 0])).tolist()
    [6, 0, 2]
    """
    starts = np.empty(len(counts), np.int64)
    starts[turn] = np.cumsum(counts[turn]) - counts[turn]
    return starts


def _plan(
    label: str,
    members: slice,
    part: int,
    sizes: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
    needed: npt.NDArray[np.int64],
    parts: Ints,
) -> FilePlan:
    if parts[members][0] > 1:
        return FilePlan(int(ids[members][0] + part * needed[members][0]), label)
    firsts = tuple(ids[members].tolist())
    return FilePlan(firsts[0], label, tuple(sizes[members].tolist()), firsts)


def _files_of(sizes: npt.NDArray[np.int64], file_rows: int) -> list[tuple[int, int, int]]:
    """The groups of a unit as files: (first, beyond the last, parts), in order.

    >>> _files_of(np.array([5, 5, 5, 5, 90]), 10)
    [(0, 2, 1), (2, 4, 1), (4, 5, 9)]
    """
    files: list[tuple[int, int, int]] = []
    first = 0
    for at, size in enumerate(sizes.tolist()):
        if size > 2 * file_rows:
            files += [(first, at, 1)] if first < at else []
            files.append((at, at + 1, -(-size // file_rows)))
            first = at + 1
        elif first < at and sizes[first:at].sum() + size / 2 > file_rows:
            files.append((first, at, 1))
            first = at
    return [*files, (first, len(sizes), 1)] if first < len(sizes) else files
