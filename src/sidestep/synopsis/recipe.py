"""Which synopses a column gets beside its zone map, and how large each may become in a block."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from sidestep.errors import SidestepError
from sidestep.synopsis.bloom import LINE_BYTES

_LEAST_BITS = 2
"""A global range table has one range, and one bit for all outside of it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The synopses of one column beside its zone map, each by the most it may take in a block; 0 is none.

    A recipe is a bound, not a size: a block of three values needs three ranges whatever its recipe allows.

    >>> Recipe(range_set=8).to_json()
    {'range_set': 8}
    >>> Recipe.from_json({"range_set": 8}) == Recipe(range_set=8)
    True
    >>> bool(Recipe())
    False
    """

    range_set: int = 0
    """Most ranges per block."""
    gap_histogram: int = 0
    """Most buckets per block."""
    bloom: int = 0
    """Most bytes per block; fewer where the block's distinct values need less for a false-positive rate of 1%."""
    grt: int = 0
    """Bits per block, one for each range of the column's global range table."""

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SidestepError(f"The size of a {field.name} must be a whole number, 0 or more, not {size!r}.")
        if 0 < self.bloom < LINE_BYTES:
            raise SidestepError(f"A Bloom filter takes at least {LINE_BYTES} bytes a block, not {self.bloom}.")
        if 0 < self.grt < _LEAST_BITS:
            raise SidestepError(f"A global range table has at least {_LEAST_BITS} bits a block, not {self.grt}.")

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def to_json(self) -> dict[str, int]:
        """The sizes that are not 0, by name."""
        return {kind: size for kind, size in asdict(self).items() if size}

    @classmethod
    def from_json(cls, sizes: Mapping[str, Any]) -> Self:
        """The recipe with these sizes; kinds of synopsis that this version does not know are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{kind: size for kind, size in sizes.items() if kind in known})


Recipes = Mapping[str, Recipe]
"""Recipes by column name."""
