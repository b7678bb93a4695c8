"""Groups of units go to files and tasks, and take block ids that no one else has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout import block_sizes
from sidestep.layout.placement import FileMap, map_files


def mapped(rows: list[tuple[str, int, int]], vectors: list[int] | None = None, **wishes: int) -> FileMap:
    labels, groups, counts = zip(*rows, strict=True)
    options: dict[str, Any] = {"min_size": 10, "file_rows": 100, "least_tasks": 1, "first_block": 0} | wishes
    words = np.array(vectors or [0] * len(rows), np.uint64).reshape(len(rows), 1)
    return map_files(
        pa.chunked_array([list(labels)]),
        np.array(groups, np.int32),
        np.array(counts),
        words,
        [3.0, 2.0, 1.0],
        **options,
    )


def test_units_are_files_in_the_order_of_their_labels() -> None:
    found = mapped([("b", 0, 20), ("a", 1, 5), ("a", 0, 30), ("a", 1, 7)])
    assert found.file.tolist() == [1, 0, 0, 0]
    assert [(plan.unit, plan.ids, plan.groups) for plan in found.plans] == [
        ("a", (0, 3), (30, 12)),
        ("b", (4,), (20,)),
    ]
    assert (found.units, found.tasks, found.parted) == (2, 1, False)


def test_blocks_of_like_vectors_are_numbered_together_across_units() -> None:
    """The first feature weighs most: blocks without it come first in all units, then those with it."""
    rows = [("a", 0, 20), ("a", 1, 30), ("a", 2, 10), ("b", 0, 10), ("b", 1, 10)]
    found = mapped(rows, [0b001, 0b010, 0b001, 0b010, 0b111])
    assert found.group.tolist() == [1, 0, 2, 0, 1]
    assert [(plan.unit, plan.ids, plan.groups) for plan in found.plans] == [
        ("a", (0, 4, 6), (30, 20, 10)),
        ("b", (3, 7), (10, 10)),
    ]


def test_the_vectors_of_a_group_are_united_before_groups_are_compared() -> None:
    found = mapped([("a", 0, 5), ("a", 1, 10), ("a", 0, 5)], [0b010, 0b100, 0b001])
    assert found.group.tolist() == [1, 0, 1]


def test_a_large_unit_becomes_several_files_and_a_large_group_too() -> None:
    found = mapped([("a", 0, 80), ("a", 1, 80), ("a", 2, 1_000)])
    assert found.file.tolist() == [0, 1, 2]
    assert found.parts.tolist() == [1, 1, 10]
    assert len(found.plans) == 12
    assert found.plans[2].groups is None
    assert found.tasks == 12


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5), st.integers(1, 400)), min_size=1, max_size=40),
    st.lists(st.integers(0, 7), min_size=40, max_size=40),
    st.integers(1, 60),
    st.integers(1, 500),
    st.integers(1, 8),
)
def test_files_hold_one_unit_and_ids_do_not_overlap(
    rows: list[tuple[str, int, int]], vectors: list[int], min_size: int, file_rows: int, least_tasks: int
) -> None:
    found = mapped(
        rows, vectors[: len(rows)], min_size=min_size, file_rows=file_rows, least_tasks=least_tasks, first_block=7
    )
    sizes: dict[tuple[str, int], int] = {}
    for label, group, count in rows:
        sizes[label, group] = sizes.get((label, group), 0) + count
    taken: set[int] = set()
    for number, plan in enumerate(found.plans):
        if plan.groups is not None and plan.ids is not None:
            placed = zip(rows, found.file, found.group, strict=True)
            members = sorted({(group, row[:2]) for row, file, group in placed if file == number})
            assert plan.groups == tuple(sizes[pair] for _, pair in members)
            assert {label for _, (label, _) in members} == {plan.unit}
            assert list(plan.ids) == sorted(plan.ids)
            blocks = [
                first + at
                for first, size in zip(plan.ids, plan.groups, strict=True)
                for at in range(len(block_sizes(size, min_size)))
            ]
        else:
            blocks = [plan.first_block]
        assert not taken & set(blocks)
        assert min(blocks) >= 7
        taken |= set(blocks)
    last = found.task + found.parts - 1
    assert last.max() < found.tasks
    order = np.lexsort((found.task, found.file))
    assert (np.diff(found.task[order]) >= 0).all(), "a task's files follow each other"


def test_ids_that_would_not_fit_are_refused() -> None:
    with pytest.raises(SidestepError, match="larger min_size"):
        mapped([("a", 0, 100)], min_size=1, first_block=2**31 - 50)


def test_runs_of_leaves_come_before_features() -> None:
    labels, groups = pa.chunked_array([["t"] * 4]), np.array([0, 1, 2, 3], np.int32)
    words = np.array([[0b111], [0b000], [0b100], [0b001]], np.uint64)
    runs = np.array([0, 1, 1, 0], np.int32)
    options: dict[str, Any] = {"min_size": 10, "file_rows": 20, "least_tasks": 1, "first_block": 5}
    found = map_files(labels, groups, np.array([10, 10, 10, 10]), words, [3.0, 2.0, 1.0], runs, **options)
    assert found.group.tolist() == [1, 2, 3, 0] or found.group.tolist() == [0, 2, 3, 1]
    assert found.file.tolist() == [0, 1, 1, 0]
    assert [plan.ids for plan in found.plans] == [(5, 6), (7, 8)]
