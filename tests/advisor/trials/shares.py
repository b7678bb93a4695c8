"""What queries would read of blocks of a sample, query by query: what trials in flat arrays are held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidestep.advisor.trials.sample import Sample
from sidestep.advisor.trials.trial import Blocks, Shares, catalog_of
from sidestep.layout.vectors import Words
from sidestep.predicate import Formula
from sidestep.synopsis import kept_blocks


def shares_read(
    sample: Sample,
    blocks: Blocks,
    queries: Sequence[Formula],
    features: Sequence[Formula] = (),
    words: Words | None = None,
) -> Shares:
    """The share of rows that each query would read, by zone maps of all columns of the sample and union vectors.

    The blocks are judged by the same code as those of a table, so what is skipped here is skipped there, given that
    the sample's blocks stand for the table's. They are a little too narrow: what few rows of a block have is missed.
    """
    catalog = catalog_of(sample, blocks, features, words)
    total = max(1, len(sample))
    return np.array([catalog.rows[kept_blocks(catalog, query)].sum() / total for query in queries], np.float64)
