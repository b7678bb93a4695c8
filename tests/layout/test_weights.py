from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout import skippable_per_block, skippable_rows, unpack
from sidestep.layout.weights import ByteWeights, codes_of
from tests.layout.inputs import problems


@given(problems())
def test_each_block_counts_for_every_query_that_skips_it(problem):
    bits = unpack(problem.vectors.words, problem.vectors.features)
    expected = [
        sum(weight * int(count) for weight, bit in zip(problem.weights, row, strict=True) if not bit)
        for row, count in zip(bits, problem.vectors.counts, strict=True)
    ]
    assert skippable_per_block(problem.vectors.words, problem.vectors.counts, problem.weights).tolist() == expected
    assert skippable_rows(problem.vectors.words, problem.vectors.counts, problem.weights) == sum(expected)


@pytest.mark.parametrize(("sizes", "weights"), [([1, 2], [1.0]), ([1], [1.0] * 65)])
def test_what_does_not_fit_is_refused(sizes, weights):
    with pytest.raises(SidestepError, match="one weight per feature"):
        skippable_rows(np.array([[1]], dtype=np.uint64), np.array(sizes), weights)


@given(problems(), st.data())
def test_look_ups_weigh_what_two_vectors_share(problem, data):
    words, features = problem.vectors.words, problem.vectors.features
    bits, codes, weights = unpack(words, features), codes_of(words, features), ByteWeights(np.array(problem.weights))
    assert weights.weight(codes).tolist() == (bits @ np.array(problem.weights)).tolist()
    if len(words):
        one = data.draw(st.integers(0, len(words) - 1))
        expected = (bits & bits[one]) @ np.array(problem.weights)
        assert weights.shared(codes[:, one], codes).tolist() == expected.tolist()
