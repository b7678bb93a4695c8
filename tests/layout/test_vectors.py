from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sidestep.errors import SidestepError
from sidestep.layout import VectorCounts, from_bytes, locate, pack, reduce_vectors, to_bytes, unpack

matrices = st.tuples(st.integers(0, 12), st.integers(0, 140)).flatmap(lambda shape: arrays.arrays(np.bool_, shape))


@given(matrices)
def test_packing_and_unpacking(bits):
    words = pack(bits)
    assert words.shape == (len(bits), -(-bits.shape[1] // 64))
    assert words.dtype == np.uint64
    assert unpack(words, bits.shape[1]).tolist() == bits.tolist()


@given(st.integers(1, 200), st.data())
def test_feature_j_is_bit_j_of_its_word(features, data):
    at = data.draw(st.integers(0, features - 1))
    bits = np.zeros((1, features), dtype=bool)
    bits[0, at] = True
    words = pack(bits)
    assert int(words[0, at // 64]) == 1 << (at % 64)
    assert int(words.sum()) == 1 << (at % 64)
    assert to_bytes(words, features) == [(1 << at).to_bytes(-(-features // 8), "little")]


@given(matrices)
def test_bytes_there_and_back(bits):
    features = bits.shape[1]
    written = to_bytes(pack(bits), features)
    assert all(len(vector) == -(-features // 8) for vector in written)
    assert from_bytes(written, features).tolist() == pack(bits).tolist()


def test_words_that_are_a_slice_or_in_fortran_order():
    words = np.asfortranarray(np.arange(12, dtype=np.uint64).reshape(4, 3))
    assert from_bytes(to_bytes(words[::2], 192), 192).tolist() == words[::2].tolist()
    assert pack(unpack(words[::2], 192)).tolist() == words[::2].tolist()


@pytest.mark.parametrize("wrong", [b"", b"\0", b"\0\0\0"])
def test_bytes_of_another_length_are_refused(wrong):
    with pytest.raises(SidestepError, match="takes 2 bytes"):
        from_bytes([b"\0\0", wrong], 9)


def test_a_bit_beyond_the_features_is_refused():
    with pytest.raises(SidestepError, match="another feature set"):
        from_bytes([b"\0\x02"], 9)


@given(matrices, st.data())
def test_reduction_sums_the_counts_of_equal_vectors(bits, data):
    counts = data.draw(arrays.arrays(np.int64, len(bits), elements=st.integers(1, 1_000)))
    reduced = reduce_vectors(pack(bits), bits.shape[1], counts)
    expected: Counter[tuple[bool, ...]] = Counter()
    for row, count in zip(bits.tolist(), counts.tolist(), strict=True):
        expected[tuple(row)] += count
    found = [tuple(row) for row in unpack(reduced.words, bits.shape[1]).tolist()]
    assert len(set(found)) == len(found)
    assert dict(zip(found, reduced.counts.tolist(), strict=True)) == expected
    assert reduced.rows == counts.sum()


@given(matrices)
def test_reduction_is_a_fixpoint_and_ignores_the_order(bits):
    reduced = reduce_vectors(pack(bits), bits.shape[1])
    again = reduce_vectors(reduced.words[::-1], bits.shape[1], reduced.counts[::-1])
    assert again.words.tolist() == reduced.words.tolist()
    assert again.counts.tolist() == reduced.counts.tolist()


@given(matrices)
def test_every_row_is_located(bits):
    words = pack(bits)
    reduced = reduce_vectors(words, bits.shape[1])
    assert reduced.words[locate(reduced, words)].tolist() == words.tolist()


def test_a_vector_that_is_not_there_is_at_minus_one():
    vectors = VectorCounts(np.array([[6], [1]], dtype=np.uint64), np.array([1, 1]), 3)
    assert locate(vectors, np.array([[1], [2], [6], [1]], dtype=np.uint64)).tolist() == [1, -1, 0, 1]


def test_a_count_below_one_is_refused():
    with pytest.raises(SidestepError, match="at least one row"):
        VectorCounts(np.array([[1]], dtype=np.uint64), np.array([0]), 1)


def test_words_of_another_width_are_refused():
    with pytest.raises(SidestepError, match="shape"):
        VectorCounts(np.array([[1]], dtype=np.uint64), np.array([1]), 65)
