from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout import block_sizes


@given(st.integers(1, 100_000), st.integers(1, 5_000))
def test_blocks_are_even_and_within_bounds(size, min_size):
    blocks = block_sizes(size, min_size)
    assert sum(blocks) == size
    assert max(blocks) - min(blocks) <= 1
    if size < min_size:
        assert blocks == (size,)
    else:
        assert min_size <= min(blocks)
        assert max(blocks) < 2 * min_size


def test_no_rows_make_no_blocks():
    assert block_sizes(0, 10) == ()


@pytest.mark.parametrize(("size", "min_size"), [(-1, 10), (10, 0)])
def test_what_makes_no_sense_is_refused(size, min_size):
    with pytest.raises(SidestepError):
        block_sizes(size, min_size)
