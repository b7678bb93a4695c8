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
always occur together. Where there would be too many sets it raises :class:`TooManySets`, and is asked again with fewer
items.
"""

MOST_SETS = 2_000
"""Closed sets that are listed at most."""


class TooManySets(Exception):
    """What a miner raises if it will not go on: it is then given fewer items."""


def closed_sets(transactions: Sequence[Transaction], min_support: int, most: int = MOST_SETS) -> list[Transaction]:
    """Every closed set of items that at least ``min_support`` transactions hold, with its support.

    Sets are grown by the prefix-preserving extension of the LCM algorithm, which meets each closed set once. At each
    step one matrix product counts all pairs, and an item belongs to the closure of another if their pair is as frequent
    as the other alone. More than ``most`` sets are :class:`TooManySets`, so that the time is bounded.

    >>> closed_sets([(frozenset({1, 2}), 3), (frozenset({2}), 1)], 2)
    [(frozenset({2}), 4), (frozenset({1, 2}), 3)]
    """
    items = sorted({item for held, _ in transactions for item in held})
    # Sums below 2**24 are exact in 32 bits, and twice as fast.
    number = np.float32 if sum(weight for _, weight in transactions) < 1 << 24 else np.float64
    weights: npt.NDArray[np.float32 | np.float64] = np.array([weight for _, weight in transactions], number)
    position = {item: at for at, item in enumerate(items)}
    holds = np.zeros((len(transactions), len(items)), np.bool_)
    for row, (held, _) in enumerate(transactions):
        holds[row, [position[item] for item in held]] = True
    sets: list[Transaction] = []
    everywhere: npt.NDArray[np.bool_] = np.all(holds, axis=0)
    if transactions and everywhere.any() and weights.sum() >= min_support:
        sets.append((_item_names(everywhere, items), round(weights.sum())))
    pending = [(np.arange(len(transactions)), everywhere, -1)]
    while pending:
        rows, closed, core = pending.pop()
        support: npt.NDArray[np.float32 | np.float64] = weights[rows] @ holds[rows]
        # An item that is not frequent here can neither extend the set nor belong to a frequent closure.
        frequent = np.flatnonzero(support >= max(min_support, 1))
        here = holds[np.ix_(rows, frequent)]
        extensions = np.flatnonzero((frequent > core) & ~closed[frequent])
        pairs = (here[:, extensions] * weights[rows, None]).T @ here.astype(number)
        joins = pairs >= support[frequent[extensions], None]
        # An item before the extension that joins only now was tried before: that set has been met there.
        met = (joins & ~closed[frequent] & (frequent < frequent[extensions, None])).any(axis=1)
        for at in map(int, np.flatnonzero(~met)):
            item = int(frequent[extensions[at]])
            extended = np.zeros(len(items), np.bool_)
            extended[frequent[joins[at]]] = True
            sets.append((_item_names(extended, items), round(support[item])))
            if len(sets) > most:
                raise TooManySets(f"There are more than {most:,} closed sets.")
            pending.append((rows[here[:, extensions[at]]], extended, item))
    return sets


def _item_names(closed: npt.NDArray[np.bool_], items: Sequence[int]) -> frozenset[int]:
    return frozenset(items[at] for at in np.flatnonzero(closed).tolist())
