"""Columns with skew: how often each value occurs, and where along the rows.

Three kinds. *Uniform* data leaves a column as it is. *Independent* skew draws each row by itself: some values are far
more frequent than others, and all of them are everywhere. *Runs* have the same frequencies, but equal values lie
together along the order of the rows, as where data comes in batches, and rare values sit in a few places: a filter on
one column then says something of the others, and of the keys. Data-induced predicates live on that alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Kind = Literal["uniform", "independent", "runs"]


@dataclass(frozen=True, slots=True)
class Skew:
    """A kind of data; ``zipf`` is the exponent of the frequencies."""

    kind: Kind
    zipf: float = 0.0

    @property
    def name(self) -> str:
        """
        >>> Skew("runs", 1).name, Skew("uniform").name
        ('runs-z1', 'uniform')
        """
        return self.kind if self.kind == "uniform" else f"{self.kind}-z{self.zipf:g}"


SKEWS = (
    Skew("uniform"),
    Skew("independent", 1.0),
    Skew("independent", 2.0),
    Skew("runs", 1.0),
    Skew("runs", 2.0),
)


def frequencies(values: int, zipf: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """The share of each of so many values: Zipf's, dealt out to the values at random."""
    shares = 1.0 / np.arange(1, values + 1) ** zipf
    return rng.permutation(shares / shares.sum())


def independent(domain: Array, rows: int, zipf: float, rng: np.random.Generator) -> Array:
    """Each row drawn by itself."""
    return domain[rng.choice(len(domain), size=rows, p=frequencies(len(domain), zipf, rng))]


def runs(domain: Array, rows: int, zipf: float, passes: int, rng: np.random.Generator) -> Array:
    """The values one after the other, each as often as its share says, and that ``passes`` times over.

    >>> runs(np.array(["a", "b"]), 8, 0.0, 2, np.random.default_rng(0)).tolist()
    ['a', 'a', 'b', 'b', 'a', 'a', 'b', 'b']
    """
    ends = np.cumsum(frequencies(len(domain), zipf, rng))
    place = (np.arange(rows) + 0.5) / max(1, rows) * passes % 1.0
    return domain[np.minimum(np.searchsorted(ends, place, side="right"), len(domain) - 1)]


def skewed(skew: Skew, domain: Array, rows: int, passes: int, rng: np.random.Generator) -> Array:
    """So many values of a domain, with this skew; uniform ones are drawn independently, all alike."""
    if skew.kind == "runs":
        return runs(domain, rows, skew.zipf, passes, rng)
    return independent(domain, rows, skew.zipf, rng)
