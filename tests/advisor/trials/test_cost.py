"""What reading costs: files, row groups and rows, each once."""

from __future__ import annotations

import numpy as np
import pytest

from sidestep.advisor.trials.cost import PER_BYTE, PER_FILE, PER_GROUP, PER_ROW, files_by_size, reading
from sidestep.advisor.trials.trial import Blocks


def test_what_is_read_is_counted():
    blocks = Blocks(np.arange(10), np.array([4, 3, 2, 1]))
    kept = np.array([[True, True, False, False], [False, False, False, False], [True, False, True, True]])
    read = reading(blocks, np.array([0, 0, 1, 2]), kept)
    assert read.rows.tolist() == pytest.approx([0.7, 0.0, 0.7])
    assert (read.files.tolist(), read.groups.tolist(), read.total_files) == ([1, 0, 3], [2, 0, 3], 3)
    seconds = read.seconds(1_000, np.array([8.0, 8.0, 16.0]))
    assert seconds[1] == 0
    assert seconds[2] == pytest.approx(3 * PER_FILE + 3 * PER_GROUP + 700 * (PER_ROW + 16 * PER_BYTE))


@pytest.mark.parametrize(
    ("sizes", "file_rows", "files"),
    [([5, 5, 5, 5], 10, [0, 0, 1, 1]), ([50, 5, 5], 10, [0, 1, 1]), ([1, 1], 100, [0, 0]), ([], 10, [])],
)
def test_files_are_filled_one_after_the_other(sizes, file_rows, files):
    assert files_by_size(np.array(sizes, np.int64), file_rows).tolist() == files
