from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from sidestep.errors import SidestepError
from sidestep.layout import Grouping, VectorCounts, pack, partition, unpack
from sidestep.layout.maxskip import group_vectors
from sidestep.layout.merge import merge_up
from sidestep.layout.weights import ByteWeights, vector_bytes
from tests.layout.inputs import Problem, many, problems
from tests.layout.objective import skippable_rows


def reference(problem: Problem) -> list[list[int]]:
    """The vectors of each group after merging as in 3.4.4, plainly: every merge looks at all pairs there are."""
    bits = unpack(problem.vectors.words, problem.vectors.features)
    weights = np.array(problem.weights)

    def skippable(group):
        return int(problem.vectors.counts[group].sum()) * weights[~bits[group].any(axis=0)].sum()

    @cache
    def cost(i, j):
        return skippable(active[i]) + skippable(active[j]) - skippable(active[i] + active[j])

    done = [[at] for at in range(len(bits)) if problem.vectors.counts[at] >= problem.min_size]
    # Groups by the number they were made with: vectors first.
    active = {at: [at] for at in range(len(bits)) if [at] not in done}
    made = len(bits)
    while len(active) > 1:
        _, younger, older = min((cost(i, j), j, i) for j in active for i in active if i < j)
        merged = active.pop(older) + active.pop(younger)
        if problem.vectors.counts[merged].sum() >= problem.min_size:
            done.append(merged)
        else:
            active[made] = merged
        made += 1
    return done + list(active.values())


def objective(problem: Problem, groups: list[list[int]]) -> float:
    unions = np.zeros((len(groups), problem.vectors.words.shape[1]), dtype=np.uint64)
    for at, group in enumerate(groups):
        unions[at] = np.bitwise_or.reduce(problem.vectors.words[group], axis=0)
    sizes = np.array([problem.vectors.counts[group].sum() for group in groups], dtype=np.int64)
    return skippable_rows(unions, sizes, problem.weights)


def groups_of(grouping: Grouping) -> list[list[int]]:
    return [np.flatnonzero(grouping.group_of_vector == g).tolist() for g in range(len(grouping))]


def check(problem: Problem, grouping: Grouping) -> None:
    """What the contract says of every grouping."""
    vectors, bound = problem.vectors, problem.min_size
    groups = groups_of(grouping)
    assert sorted(at for group in groups for at in group) == list(range(len(vectors)))
    small = 0
    for group, union, size in zip(groups, grouping.unions, grouping.sizes, strict=True):
        assert union.tolist() == np.bitwise_or.reduce(vectors.words[group], axis=0).tolist()
        assert size == vectors.counts[group].sum()
        if (vectors.counts[group] >= bound).any():
            assert len(group) == 1
        else:
            assert size < 2 * bound
            small += size < bound
    assert small <= 1
    assert grouping.group_of_vector.dtype == np.int32
    assert grouping.unions.dtype == np.uint64
    assert grouping.sizes.dtype == np.int64


@given(problems())
def test_every_group_keeps_the_contract(problem):
    check(problem, partition(problem.vectors, problem.weights, problem.min_size))


@given(problems())
def test_merging_is_what_the_plain_algorithm_does(problem):
    vectors = problem.vectors
    small = np.flatnonzero(vectors.counts < problem.min_size)
    codes = vector_bytes(vectors.words[small], vectors.features)
    found = merge_up(codes, vectors.counts[small], ByteWeights(np.array(problem.weights)), problem.min_size)
    groups = [small[found == g].tolist() for g in range(found.max(initial=-1) + 1)]
    plain = [group for group in reference(problem) if vectors.counts[group[0]] < problem.min_size]
    assert sorted(groups) == sorted(map(sorted, plain))


@given(problems())
def test_groups_without_an_order_are_the_same_groups(problem):
    ordered = partition(problem.vectors, problem.weights, problem.min_size)
    plain = group_vectors(problem.vectors, problem.weights, problem.min_size)
    assert sorted(map(sorted, groups_of(plain))) == sorted(map(sorted, groups_of(ordered)))
    assert sorted(plain.sizes.tolist()) == sorted(ordered.sizes.tolist())


@given(problems())
def test_the_result_skips_at_least_what_plain_merging_does(problem):
    grouping = partition(problem.vectors, problem.weights, problem.min_size)
    assert objective(problem, groups_of(grouping)) >= objective(problem, reference(problem))


@pytest.mark.parametrize(("vectors", "features"), [(140, 20), (100, 70), (60, 130)])
def test_merging_with_many_rounds_is_what_the_plain_algorithm_does(vectors, features):
    # Enough merges for the slots to be closed up several times.
    problem = Problem(many(vectors, features), [float(1 + at % 7) for at in range(features)], 300)
    codes = vector_bytes(problem.vectors.words, features)
    found = merge_up(codes, problem.vectors.counts, ByteWeights(np.array(problem.weights)), problem.min_size)
    groups = [np.flatnonzero(found == g).tolist() for g in range(found.max() + 1)]
    assert sorted(groups) == sorted(map(sorted, reference(problem)))


@settings(max_examples=50)
@given(problems(most_vectors=30, most_features=6))
def test_parts_keep_the_contract(problem):
    check(problem, partition(problem.vectors, problem.weights, problem.min_size, at_once=4))


def test_parts_lose_little():
    vectors, weights = many(1_500, 40), [float(1 + at % 11) for at in range(40)]
    everything = vectors.rows * sum(weights)
    read = []
    for at_once in (10_000, 400):
        grouping = partition(vectors, weights, 500, at_once)
        check(Problem(vectors, weights, 500), grouping)
        read.append(everything - skippable_rows(grouping.unions, grouping.sizes, weights))
    assert read[0] < read[1] < 1.15 * read[0]


def test_no_vectors():
    empty = VectorCounts(np.zeros((0, 1), dtype=np.uint64), np.zeros(0, dtype=np.int64), 5)
    grouping = partition(empty, [1.0] * 5, 10)
    assert len(grouping) == 0
    assert grouping.unions.shape == (0, 1)


@pytest.mark.parametrize(("count", "size"), [(3, 3), (10, 10), (1_000, 1_000)])
def test_one_vector_is_one_group_of_any_size(count, size):
    grouping = partition(VectorCounts(pack(np.array([[True]])), np.array([count]), 1), [2.0], 10)
    assert grouping.sizes.tolist() == [size]
    assert grouping.unions.tolist() == [[1]]


def test_no_features():
    grouping = partition(VectorCounts(np.zeros((1, 0), dtype=np.uint64), np.array([77]), 0), [], 10)
    assert grouping.group_of_vector.tolist() == [0]
    assert grouping.unions.shape == (1, 0)
    assert grouping.sizes.tolist() == [77]


def test_features_without_weight_only_balance_sizes():
    vectors = many(300, 10)
    grouping = partition(vectors, [0.0] * 10, 200)
    check(Problem(vectors, [0.0] * 10, 200), grouping)
    assert len(grouping) > vectors.rows // 400


def test_a_frequent_vector_is_a_group_of_its_own():
    # 0b01 and 0b11 would cost nothing together with weight 0, but 0b01 has enough rows.
    vectors = VectorCounts(np.array([[1], [3], [2]], dtype=np.uint64), np.array([10, 9, 2]), 2)
    grouping = partition(vectors, [1.0, 0.0], 10)
    assert sorted(groups_of(grouping)) == [[0], [1, 2]]


def test_the_leftover_stays_alone():
    # Every merge is at a cost; 4 + 4 rows make a group of 8, and the third vector has none to go with.
    vectors = VectorCounts(np.array([[1], [2], [4]], dtype=np.uint64), np.array([4, 4, 4]), 3)
    grouping = partition(vectors, [1.0, 1.0, 9.0], 8)
    assert sorted(grouping.sizes.tolist()) == [4, 8]
    assert sorted(groups_of(grouping)) == [[0, 1], [2]]


def test_weights_decide_what_goes_together():
    vectors = VectorCounts(np.array([[0b01], [0b10], [0b11], [0b00]], dtype=np.uint64), np.array([5, 5, 5, 5]), 2)
    by_first = partition(vectors, [9.0, 1.0], 10)
    by_second = partition(vectors, [1.0, 9.0], 10)
    assert sorted(groups_of(by_first)) == [[0, 2], [1, 3]]
    assert sorted(groups_of(by_second)) == [[0, 3], [1, 2]]


def test_neighbours_resemble_each_other():
    vectors, weights = many(400, 30), [float(1 + at % 5) for at in range(30)]
    grouping = partition(vectors, weights, 100)

    def weight_of_changes(order):
        bits = unpack(grouping.unions, 30)[order]
        return float(((bits[1:] != bits[:-1]) @ np.array(weights)).sum())

    shuffled = [np.random.default_rng(seed).permutation(len(grouping)) for seed in range(20)]
    assert weight_of_changes(np.arange(len(grouping))) < 0.7 * min(map(weight_of_changes, shuffled))


def test_fractions_as_weights():
    vectors, weights = many(300, 30), [1 / (at + 3) for at in range(30)]
    grouping = partition(vectors, weights, 200)
    check(Problem(vectors, weights, 200), grouping)
    again = partition(vectors, weights, 200)
    assert grouping.group_of_vector.tolist() == again.group_of_vector.tolist()


@pytest.mark.parametrize(
    ("weights", "min_size", "message"),
    [
        ([1.0], 5, "1 weights were given for 2 features"),
        ([1.0, -1.0], 5, "at least 0"),
        ([1.0, float("nan")], 5, "finite"),
        ([1.0, 1.0], 0, "rows per block is 0"),
    ],
)
def test_what_makes_no_sense_is_refused(weights, min_size, message):
    vectors = VectorCounts(np.array([[1], [2]], dtype=np.uint64), np.array([1, 1]), 2)
    with pytest.raises(SidestepError, match=message):
        partition(vectors, weights, min_size)
