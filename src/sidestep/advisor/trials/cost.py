"""What reading costs: a small model of a scan in Spark, by the files and row groups that it opens and what is in them.

The figures are processor seconds of Spark 4.3 on two cores of an AMD EPYC, for four whole numbers of 4,000,000 rows
summed up (medians of four runs): 0.34 s in one file of two row groups, and 0.28 s for one of the four; 0.48 s in 400
row groups; 0.76 s in 200 files of one row group each. Only their proportions matter here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidestep.advisor.trials.sample import RowNumbers
from sidestep.advisor.trials.trial import Blocks, Shares
from sidestep.layout.vectors import Bits

PER_FILE, PER_GROUP, PER_ROW, PER_BYTE = 2e-3, 3e-4, 2e-8, 6e-10
PER_JOINED, ID_BYTES = 1e-7, 8
"""Where column groups are joined: a row of any of them, and the bytes of its id."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What each of some queries reads."""

    rows: Shares
    """The share of rows."""
    files: Shares
    """How many files."""
    groups: Shares
    """How many row groups."""
    total_files: int

    def seconds(self, rows: int, width: Shares) -> Shares:
        """What it costs to read them of a table of so many rows, of which a query reads ``width`` bytes each."""
        scanned = self.rows * rows * (PER_ROW + width * PER_BYTE)
        return np.asarray(self.files * PER_FILE + self.groups * PER_GROUP + scanned)


def reading(blocks: Blocks, file_of_block: RowNumbers, kept: Bits) -> Reading:
    """What queries read that keep these blocks (queries by blocks)."""
    total = max(1, int(blocks.sizes.sum()))
    files = int(file_of_block.max(initial=-1)) + 1
    in_file = np.zeros((len(file_of_block), files), np.float32)
    in_file[np.arange(len(file_of_block)), file_of_block] = 1
    opened = kept.astype(np.float32) @ in_file > 0
    return Reading(
        (kept @ blocks.sizes) / total,
        opened.sum(axis=1).astype(np.float64),
        kept.sum(axis=1).astype(np.float64),
        files,
    )


def files_by_size(sizes: RowNumbers, file_rows: float) -> RowNumbers:
    """The file of each block, where files of about ``file_rows`` rows are filled one after the other."""
    number = ((np.cumsum(sizes) - sizes / 2) / max(1.0, file_rows)).astype(np.int64)
    return np.unique(number, return_inverse=True)[1].ravel().astype(np.int64)
