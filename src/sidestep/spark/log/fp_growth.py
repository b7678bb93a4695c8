"""Frequent predicate sets by MLlib's FP-growth, as a miner for :mod:`sidestep.workload.features.extract`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sidestep.workload.features.mining import Transaction, closed_sets

MOST_SUBSETS = 1 << 16
"""FP-growth lists every frequent set, closed or not: where there may be more, closed sets are grown instead."""
MOST_ROWS = 200_000
"""FP-growth counts rows, so that a transaction that occurred ten times is ten of them. Above this, all are scaled."""


class FrequentSets:
    """A miner: the closed sets among those that FP-growth finds in a session of Spark, each with its exact support.

    ``FrequentSets(spark)(transactions, min_support)`` is what :func:`sidestep.workload.closed_sets` returns, in some
    order. The same question is answered once: an analysis asks it for the features, and again for those beyond.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._answers: dict[tuple[tuple[Transaction, ...], int], list[Transaction]] = {}

    def __call__(self, transactions: Sequence[Transaction], min_support: int) -> list[Transaction]:
        held = [(items, weight) for items, weight in transactions if items and weight > 0]
        question = (tuple(held), min_support)
        if question not in self._answers:
            self._answers[question] = self._mine(held, max(1, min_support)) if held else []
        return self._answers[question]

    def _mine(self, transactions: list[Transaction], min_support: int) -> list[Transaction]:
        if _subsets(transactions) > MOST_SUBSETS:
            return closed_sets(transactions, min_support)
        return _closed(transactions, self._frequent(transactions, min_support), min_support)

    def _frequent(self, transactions: list[Transaction], min_support: int) -> Iterable[frozenset[int]]:
        from pyspark.ml.fpm import FPGrowth  # a second of imports that no one else needs

        total = sum(weight for _, weight in transactions)
        scale = max(1, -(-total // MOST_ROWS))
        # Weights are rounded up and the minimum down, so that no frequent set is missed; exact supports come after.
        rows = [(sorted(items), -(-weight // scale)) for items, weight in transactions]
        count = sum(weight for _, weight in rows)
        # MLlib takes a share of the rows and rounds the product up: half a row less meets the very number.
        share = max(0.0, (max(1, min_support // scale) - 0.5) / count)
        frame = self.spark.createDataFrame(rows, "items array<int>, weight int")
        repeated = frame.select("items", f.explode(f.sequence(f.lit(1), "weight"))).select("items")
        parts = min(8, self.spark.sparkContext.defaultParallelism)
        model = FPGrowth(itemsCol="items", minSupport=share, numPartitions=parts).fit(repeated)
        for row in model.freqItemsets.select("items").collect():
            yield frozenset(row["items"])


def _subsets(transactions: Iterable[Transaction]) -> int:
    """No more frequent sets than this can there be: each is part of a transaction."""
    return sum(1 << min(len(items), 60) for items, _ in transactions)


def _closed(transactions: list[Transaction], found: Iterable[frozenset[int]], min_support: int) -> list[Transaction]:
    """The closures of the sets found, each once: a set and its closure are held by the same transactions."""
    items = sorted({item for held, _ in transactions for item in held})
    position = {item: at for at, item in enumerate(items)}
    holds = np.zeros((len(transactions), len(items)), np.bool_)
    for row, (held, _) in enumerate(transactions):
        holds[row, [position[item] for item in held]] = True
    weights: npt.NDArray[np.int64] = np.array([weight for _, weight in transactions], np.int64)
    closed: dict[frozenset[int], int] = {}
    for members in found:
        rows = holds[:, [position[item] for item in members]].all(axis=1)
        support = int(weights[rows].sum())
        if support >= min_support:
            closed[frozenset(items[at] for at in np.flatnonzero(holds[rows].all(axis=0)))] = support
    return sorted(closed.items(), key=lambda pair: (-pair[1], sorted(pair[0])))
