from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout import unpack
from sidestep.layout.weights import ByteWeights, check_weights, vector_bytes
from tests.layout.inputs import problems
from tests.layout.objective import skippable_per_block, skippable_rows


@given(problems())
def test_each_block_counts_for_every_query_that_skips_it(problem):
    bits = unpack(problem.vectors.words, problem.vectors.features)
    expected = [
        sum(weight * int(count) for weight, bit in zip(problem.weights, row, strict=True) if not bit)
        for row, count in zip(bits, problem.vectors.counts, strict=True)
    ]
    assert skippable_per_block(problem.vectors.words, problem.vectors.counts, problem.weights).tolist() == expected
    assert skippable_rows(problem.vectors.words, problem.vectors.counts, problem.weights) == sum(expected)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, float("nan")]])
def test_what_does_not_fit_is_refused(weights):
    with pytest.raises(SidestepError, match="weight"):
        check_weights(weights, 2)


@given(problems(), st.data())
def test_look_ups_weigh_what_two_vectors_share(problem, data):
    words, features = problem.vectors.words, problem.vectors.features
    bits, codes, weights = (
        unpack(words, features),
        vector_bytes(words, features),
        ByteWeights(np.array(problem.weights)),
    )
    assert weights.weight(codes).tolist() == (bits @ np.array(problem.weights)).tolist()
    if len(words):
        one = data.draw(st.integers(0, len(words) - 1))
        expected = (bits & bits[one]) @ np.array(problem.weights)
        assert weights.shared(codes[:, one], codes).tolist() == expected.tolist()
