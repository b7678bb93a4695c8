from __future__ import annotations

import numpy as np
from hypothesis import given

from sidestep.layout import unite, unpack
from sidestep.layout.merge import merge_up, move_vectors
from sidestep.layout.weights import ByteWeights, vector_bytes
from tests.layout.inputs import many, problems
from tests.layout.objective import skippable_rows


def moved(words, counts, features, weights, group, min_size):
    bits, codes = unpack(words, features), vector_bytes(words, features)
    return move_vectors(bits, codes, counts, ByteWeights(np.array(weights)), np.array(group), min_size)


def test_a_vector_goes_where_it_fits():
    # The third has the feature of the second group, and is alone in the first with it.
    words = np.array([[1], [1], [2], [2]], dtype=np.uint64)
    assert moved(words, np.array([4, 4, 1, 8]), 2, [1.0, 1.0], [0, 0, 0, 1], 8).tolist() == [0, 0, 1, 1]


def test_a_group_keeps_its_least_size():
    words = np.array([[1], [1], [2], [2]], dtype=np.uint64)
    assert moved(words, np.array([4, 4, 1, 8]), 2, [1.0, 1.0], [0, 0, 0, 1], 9).tolist() == [0, 0, 0, 1]


def test_a_full_group_takes_nothing():
    words = np.array([[1], [1], [2], [2]], dtype=np.uint64)
    assert moved(words, np.array([4, 4, 1, 15]), 2, [1.0, 1.0], [0, 0, 0, 1], 8).tolist() == [0, 0, 0, 1]


def test_a_vector_may_leave_the_leftover():
    # Its union has both features, so no query skips its two rows. One goes where it is at home; the other then is, too.
    words = np.array([[1], [2], [1], [2]], dtype=np.uint64)
    assert moved(words, np.array([8, 8, 1, 1]), 2, [1.0, 1.0], [0, 1, 2, 2], 8).tolist() == [0, 1, 0, 2]


def test_a_vector_at_home_stays():
    words = np.array([[1], [2], [2]], dtype=np.uint64)
    assert moved(words, np.array([8, 8, 1]), 2, [1.0, 1.0], [0, 1, 2], 8).tolist() == [0, 1, 2]


@given(problems())
def test_moving_never_loses_and_keeps_the_bounds(problem):
    small = problem.vectors.counts < problem.min_size
    words, counts, features = problem.vectors.words[small], problem.vectors.counts[small], problem.vectors.features
    weights = ByteWeights(np.array(problem.weights))
    codes = vector_bytes(words, features)
    before = merge_up(codes, counts, weights, problem.min_size)
    after = move_vectors(unpack(words, features), codes, counts, weights, before, problem.min_size)
    was, now = (unite(words, counts, group) for group in (before, after))
    assert skippable_rows(*now, problem.weights) >= skippable_rows(*was, problem.weights)
    assert (now[1] < 2 * problem.min_size).all()
    assert (now[1] < problem.min_size).sum() <= 1


def test_moving_gains_on_many_vectors():
    vectors, weights = many(800, 40), [float(1 + at % 9) for at in range(40)]
    byte_weights, codes = ByteWeights(np.array(weights)), vector_bytes(vectors.words, 40)
    before = merge_up(codes, vectors.counts, byte_weights, 500)
    after = move_vectors(unpack(vectors.words, 40), codes, vectors.counts, byte_weights, before, 500)
    read = [
        vectors.rows * sum(weights) - skippable_rows(*unite(vectors.words, vectors.counts, group), weights)
        for group in (before, after)
    ]
    assert read[1] < 0.97 * read[0]
