"""An index beside writers that know nothing of it: files of a folder are replaced while they are indexed.

A foreign writer replaces files, in one step or in place, now and then by one of the very same size. Indexers run beside
it. A checker looks at files as Spark would, by path, size and time: what the index says of the file with that key is
held against what is in it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate import LONG, Column, IntervalSet, Within
from sidestep.store import DataFile, locate, open_index
from sidestep.store.location import stat
from sidestep.synopsis import kept_blocks
from tests.faults import writes

FILES = 5
NAMES = [f"f{number}.parquet" for number in range(FILES)]


def _write(path: Path, first: int, in_place: bool) -> None:
    """Ten rows from ``first`` on: always as many bytes."""
    table = pa.table({"x": np.arange(first, first + 10), "v": np.full(10, first), "s": ["s"] * 10}, writes.ARROW)
    target = path if in_place else path.with_name(f".{path.name}.new")
    pq.write_table(table, target, compression="none", use_dictionary=False)
    if not in_place:
        os.replace(target, path)


def replace_files(root: str, turns: int, seed: int, ready: Any, over: Any) -> None:
    """The foreign writer; now and then it waits until the indexers have come after, and surprises them again."""
    rng = random.Random(seed)
    ready.wait()
    for turn in range(turns):
        path = Path(root) / f"f{rng.randrange(FILES)}.parquet"
        _write(path, rng.randrange(1_000) * 10 + 100_000, rng.random() < 0.3)
        time.sleep(rng.choice([0, 0, 0.02]))
        if turn % 10 == 9:
            until = time.monotonic() + 120
            while time.monotonic() < until and not all(map(_known, map(Path(root).joinpath, NAMES))):
                time.sleep(0.01)
    over.set()


def _known(path: Path) -> bool:
    status = stat(locate(path))
    if status is None:
        return False
    return bool(open_index(path.parent).positions([DataFile(path.name, status.size, status.modified)])[0] >= 0)


def index_files(root: str, turns: int, seed: int, ready: Any, over: Any) -> None:
    """An indexer, which now and then wants other synopses."""
    rng = random.Random(seed)
    ready.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidestepWarning)
        while not over.is_set():
            try:
                writes.index(Path(root), rng.choice([None, None, "x=range-set:4", "x=bloom:64", "x=grt:16"]))
            except SidestepError as problem:  # a file that is half written has no footer
                if "Parquet" not in str(problem) and "changing" not in str(problem):
                    raise


def check_file(root: Path, name: str) -> bool:
    """Hold what the index says of a file against what is in it; False if it is not indexed or just being written."""
    location = locate(root / name)
    before = stat(location)
    index = open_index(root)
    try:
        values = pq.read_table(root / name, columns=["x"])["x"].to_pylist()
    except (pa.ArrowException, OSError):
        return False
    if before is None or stat(location) != before:
        return False
    (position,) = index.positions([DataFile(name, before.size, before.modified)]).tolist()
    if position < 0:
        return False
    catalog = index.catalog({"x": LONG})
    for value in values:
        wanted = Within(Column("x", LONG), IntervalSet.points(LONG, [value]))
        if not catalog.files_kept(kept_blocks(catalog, wanted))[position] and stat(location) == before:
            raise AssertionError(f"{name} holds {value}, and its index says that it does not")
    return True


def live_together(root: Path, *, turns: int, seed: int = 1) -> tuple[int, int]:
    """How often files were looked at, and how often the index knew them."""
    root.mkdir()
    for number, name in enumerate(NAMES):
        _write(root / name, 100_000 + 10 * number, False)
    context = multiprocessing.get_context("spawn")
    ready, over = context.Barrier(4), context.Event()
    processes = [
        context.Process(target=role, args=(str(root), turns, seed * 100 + number, ready, over))
        for number, role in enumerate((replace_files, index_files, index_files))
    ]
    for process in processes:
        process.start()
    ready.wait()
    looked = known = 0
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidestepWarning)
        while not over.is_set():
            looked += 1
            known += check_file(root, rng.choice(NAMES))
    for process in processes:
        process.join()
        assert process.exitcode == 0
    writes.index(root)
    assert all(check_file(root, name) for name in NAMES), "in the end all is indexed"
    return looked, known
