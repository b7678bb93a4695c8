"""Frequent predicate sets: the contract of a miner, and one in plain numpy that finds closed sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

Transaction = tuple[frozenset[int], int]
"""Items by number, and how often such a set of them occurred."""

Miner = Callable[[Sequence[Transaction], int], Iterable[Transaction]]
"""Sets of items with their support: at least every closed set whose support reaches the given minimum.

A set is closed if no item can join it without loss of support. A miner may give all frequent sets instead, in any
order: what is not closed is closed afterwards. It is given no item that is not frequent alone, and no two items that
always occur together.
"""

MOST_SETS = 20_000
"""Closed sets that are found at most; were there more, the rarest would be left out."""


def closed_sets(transactions: Sequence[Transaction], min_support: int, most: int = MOST_SETS) -> list[Transaction]:
    """Every closed set of items that at least ``min_support`` transactions hold, with its support.

    Sets are grown by the prefix-preserving extension of the LCM algorithm, which meets each closed set once. At each
    step one matrix product counts all pairs, and an item belongs to the closure of another if their pair is as frequent
    as the other alone. If there are more than ``most``, the minimum is doubled: workloads with so many are better
    served by their frequent sets, and the time stays bounded.

    >>> closed_sets([(frozenset({1, 2}), 3), (frozenset({2}), 1)], 2)
    [(frozenset({2}), 4), (frozenset({1, 2}), 3)]
    """
    while True:
        found = _closed_sets(transactions, max(1, min_support), most)
        if found is not None:
            return found
        min_support *= 2


def _closed_sets(transactions: Sequence[Transaction], min_support: int, most: int) -> list[Transaction] | None:
    items = sorted({item for held, _ in transactions for item in held})
    weights = np.array([weight for _, weight in transactions], np.float64)
    position = {item: at for at, item in enumerate(items)}
    holds = np.zeros((len(transactions), len(items)), np.bool_)
    for row, (held, _) in enumerate(transactions):
        holds[row, [position[item] for item in held]] = True
    total = int(weights.sum())
    closure: npt.NDArray[np.bool_] = np.all(holds[weights > 0], axis=0)
    found: list[Transaction] = []
    if closure.any() and total >= min_support:
        found.append((_named(closure, items), total))
    pending: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_], int]] = [
        (np.arange(len(transactions)), closure, -1)
    ]
    while pending:
        rows, closed, core = pending.pop()
        here = holds[rows]
        pairs = (here * weights[rows, None]).T @ here.astype(np.float64)
        support = np.diagonal(pairs)
        for item in np.flatnonzero(~closed & (support >= min_support)):
            if item <= core:
                continue
            extended = pairs[item] >= support[item]
            # An item before this one that joins only now was tried before: this set has been met there.
            if np.array_equal(extended[:item], closed[:item]):
                found.append((_named(extended, items), round(support[item])))
                if len(found) > most:
                    return None
                pending.append((rows[here[:, item]], extended, int(item)))
    return found


def _named(closed: npt.NDArray[np.bool_], items: Sequence[int]) -> frozenset[int]:
    return frozenset(items[at] for at in map(int, np.flatnonzero(closed)))
