"""Which row groups to read, as ranges of ids or as runs in a file; no session is needed for that."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sidestep.prune.conditions import MOST_RUNS, as_ranges, block_filter, row_groups
from sidestep.synopsis import Catalog

IDS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=60, unique=True).map(
    lambda ids: np.array(sorted(ids), dtype=np.int32)
)


@given(IDS, st.data(), st.integers(1, 40))
def test_ranges_hold_all_ids_and_are_few(numbers, data, most):
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers))))
    wanted[0] |= not wanted.any()
    ids, others = numbers[wanted], numbers[~wanted]
    ranges = as_ranges(ids, others, most).astype(np.int64).reshape(-1, 2)
    assert 1 <= len(ranges) <= most
    assert np.all(ranges[:, 0] <= ranges[:, 1])
    assert np.all(ranges[1:, 0] > ranges[:-1, 1])
    assert all(any(low <= number <= high for low, high in ranges) for number in ids)
    held = [number for number in others if any(low <= number <= high for low, high in ranges)]
    runs = int((np.diff(wanted.astype(int), prepend=0) == 1).sum())
    assert (not held) == (runs <= most), "others are among them only where there are too many runs"


def test_ids_of_files_that_are_not_read_do_not_part_ranges():
    """Two units, numbered by vector first: one range reaches over the blocks of the unit that is passed over."""
    ids = np.array([0, 2, 4, 1, 3, 5], dtype=np.int32)
    found = block_filter(catalog([3, 3]), np.array([True, True, False, False, False, False]), ids)
    assert found is not None
    assert found.ranges.tolist() == [0, 2]


def catalog(blocks_per_file: list[int]) -> Catalog:
    files = np.repeat(np.arange(len(blocks_per_file), dtype=np.int32), blocks_per_file)
    each = np.full(len(files), 100, dtype=np.int64)
    return Catalog(files, each, each, len(blocks_per_file))


def test_only_files_with_all_ids_are_told_by_block():
    ids = np.array([1, 2, -1, 4], dtype=np.int32)
    found = block_filter(catalog([2, 2]), np.array([True, False, True, False]), ids)
    assert found is not None
    assert found.files.tolist() == [True, False]
    assert (found.ranges.tolist(), found.bytes) == ([1, 1], 100)


def test_no_filter_where_it_saves_nothing():
    ids = np.arange(4, dtype=np.int32)
    assert block_filter(catalog([2, 2]), np.array([True, True, False, False]), ids) is None, "whole files"
    assert block_filter(catalog([2, 2]), np.ones(4, dtype=np.bool_), ids) is None
    assert block_filter(catalog([2, 2]), np.zeros(4, dtype=np.bool_), ids) is None
    assert block_filter(catalog([2, 2]), np.array([True, False, True, True]), np.full(4, -1, dtype=np.int32)) is None


def unpacked(runs: list[int]) -> dict[int, tuple[int, list[tuple[int, int]]]]:
    """The files of runs as they are sent, with the row groups and the runs of each."""
    found, at = {}, 0
    while at < len(runs):
        file, groups, count = runs[at : at + 3]
        ends = runs[at + 3 : at + 3 + 2 * count]
        found[file] = (groups, list(zip(ends[::2], ends[1::2], strict=True)))
        at += 3 + 2 * count
    return found


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=50), min_size=1, max_size=6), st.randoms())
def test_runs_hold_all_row_groups_that_are_kept_and_are_few(files, random):
    blocks = [len(file) for file in files]
    sizes = np.array([random.randrange(1, 1000) for _ in range(sum(blocks))], dtype=np.int64)
    kept = np.array([each for file in files for each in file])
    numbers = np.concatenate([np.arange(count, dtype=np.int32) for count in blocks])
    file_of = np.repeat(np.arange(len(blocks), dtype=np.int32), blocks)
    found = row_groups(Catalog(file_of, sizes, sizes, len(blocks)), kept, numbers)
    in_part = [number for number, file in enumerate(files) if any(file) and not all(file)]
    in_read = np.array([any(files[file]) for file in file_of])
    if found is None:
        assert sizes[in_read & ~kept].sum() <= sizes[in_read].sum() * 0.5, "something is left out if it is much"
        return
    assert np.flatnonzero(found.files).tolist() == in_part
    runs = unpacked(found.runs.tolist())
    assert list(runs) == in_part
    read = [np.full(count, any(file)) for count, file in zip(blocks, files, strict=True)]
    for file, (groups, pairs) in runs.items():
        assert groups == blocks[file]
        assert 1 <= len(pairs) <= MOST_RUNS
        read[file][:] = False
        for first, after in pairs:
            assert 0 <= first < after <= groups
            assert not read[file][first:after].any()
            read[file][first:after] = True
        few = sum(1 for at, each in enumerate(files[file]) if each and not (at and files[file][at - 1])) <= MOST_RUNS
        assert not few or read[file].tolist() == files[file], "others are read only where there are too many runs"
    assert np.array_equal(np.concatenate(read), found.read)
    assert not (kept & ~found.read).any()
    assert found.spared == sizes[in_read & ~found.read].sum()


def test_a_file_whose_blocks_are_not_its_row_groups_in_order_is_read_whole():
    kept = np.array([True, False, True, False])
    found = row_groups(catalog([2, 2]), kept, np.array([0, 1, 1, 0], dtype=np.int32))
    assert found is not None
    assert (found.files.tolist(), found.read.tolist()) == ([True, False], [True, False, True, True])
