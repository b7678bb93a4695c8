"""Which file and task each group of each unit goes to, and which block ids that takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.spark.blockwriter import FilePlan

Ints = npt.NDArray[np.int32]
GREATEST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FileMap:
    """For each vector of each unit its file and task, and for each file what it is to hold."""

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
    *,
    min_size: int,
    file_rows: int,
    least_tasks: int,
    first_block: int,
) -> FileMap:
    """Assign the groups of all units to files of about ``file_rows`` rows, and small files to common tasks.

    Units come in the order of their labels, so that the ids of blocks that are near in time are near each other. A
    file holds neighbouring groups of one unit. A group of more than two files' rows is dealt out to several.
    """
    encoded = labels.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    rank = np.argsort(np.argsort(np.array(names, dtype=object)))
    unit = rank[encoded.indices.to_numpy()]
    ordered = sorted(names)
    pair, place = np.unique(np.stack([unit, groups.astype(np.int64)], axis=1), axis=0, return_inverse=True)
    place = place.ravel()
    sizes = np.zeros(len(pair), np.int64)
    np.add.at(sizes, place, rows)
    file_of, parts_of, task_of = (np.zeros(len(pair), np.int32) for _ in range(3))
    plans: list[FilePlan] = []
    sizes_of_task: list[int] = []
    block, task_rows = first_block, max(min_size, min(file_rows, int(sizes.sum()) // least_tasks))
    for number, label in enumerate(ordered):
        start, end = np.searchsorted(pair[:, 0], [number, number + 1])
        for first, last, parts in _files_of(sizes[start:end], file_rows):
            members = slice(start + first, start + last)
            file_of[members], parts_of[members] = len(plans), parts
            held = sizes[members]
            count = int(held.sum())
            if parts > 1 or not sizes_of_task or sizes_of_task[-1] + count > task_rows:
                sizes_of_task.append(0)
            task_of[members] = len(sizes_of_task) - 1
            sizes_of_task[-1] += count
            if parts > 1:
                sizes_of_task.extend([count] * (parts - 1))
            most = int(np.maximum(held // min_size, 1).sum()) + (parts > 1)
            for _ in range(parts):
                planned = tuple(held.tolist()) if parts == 1 else None
                plans.append(FilePlan(block, label, planned))
                block += most
    if block > GREATEST_ID:
        raise SidestepError(f"The table would need {block:,} block ids, more than there are: choose a larger min_size.")
    return FileMap(
        file_of[place], task_of[place], parts_of[place], tuple(plans), max(1, len(sizes_of_task)), len(ordered)
    )


def _files_of(sizes: npt.NDArray[np.int64], file_rows: int) -> list[tuple[int, int, int]]:
    """The groups of a unit as files: (first, beyond the last, parts), in order.

    >>> _files_of(np.array([5, 5, 5, 5, 90]), 10)
    [(0, 2, 1), (2, 4, 1), (4, 5, 9)]
    """
    found: list[tuple[int, int, int]] = []
    first = 0
    for at, size in enumerate(sizes.tolist()):
        if size > 2 * file_rows:
            found += [(first, at, 1)] if first < at else []
            found.append((at, at + 1, -(-size // file_rows)))
            first = at + 1
        elif first < at and sizes[first:at].sum() + size / 2 > file_rows:
            found.append((first, at, 1))
            first = at
    return [*found, (first, len(sizes), 1)] if first < len(sizes) else found
