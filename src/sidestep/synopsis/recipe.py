"""Which synopses a column gets beside its zone map, and how large each may become in a block.

What a person may wish for: synopses by name, and sizes as one writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.synopsis.bloom import LINE_BYTES
from sidestep.synopsis.values.forms import stored_form
from sidestep.synopsis.zones.partition_values import Partition

_LEAST_BITS = 2
"""A global range table has one range, and one bit for all outside of it."""
KINDS = ("range_set", "gap_histogram", "bloom", "grt")
"""The kinds of synopses, as a recipe names them."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The synopses of one column beside its zone map, each by the most it may take in a block; 0 is none.

    A recipe is a bound, not a size: a block of three values needs three ranges whatever its recipe allows.

    Some partitions may have another recipe than the rest (``groups``); a partition that no group knows, such as one
    that comes later, gets the general one.

    >>> Recipe(range_set=8).to_json()
    {'range_set': 8}
    >>> Recipe.from_json({"range_set": 8}) == Recipe(range_set=8)
    True
    >>> bool(Recipe())
    False
    >>> sparse = (("day", "2024-01-01"),)
    >>> mixed = Recipe(range_set=4, groups=(GroupRecipe(frozenset([sparse]), Recipe(range_set=20)),))
    >>> mixed.of(sparse).range_set, mixed.of((("day", "2024-01-02"),)).range_set, mixed.widest.range_set
    (20, 4, 20)
    """

    range_set: int = 0
    """Most ranges per block."""
    gap_histogram: int = 0
    """Most buckets per block."""
    bloom: int = 0
    """Most bytes per block; fewer where the block's distinct values need less for a false-positive rate of 1%."""
    grt: int = 0
    """Bits per block, one for each range of the column's global range table."""
    groups: tuple[GroupRecipe, ...] = ()
    """What some partitions get instead."""

    def __post_init__(self) -> None:
        for kind in KINDS:
            size = getattr(self, kind)
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SidestepError(f"The size of a {kind} must be a whole number, 0 or more, not {size!r}.")
        if 0 < self.bloom < LINE_BYTES:
            raise SidestepError(f"A Bloom filter takes at least {LINE_BYTES} bytes a block, not {self.bloom}.")
        if 0 < self.grt < _LEAST_BITS:
            raise SidestepError(f"A global range table has at least {_LEAST_BITS} bits a block, not {self.grt}.")
        tables = {each.grt for each in (self, *(group.recipe for group in self.groups)) if each.grt}
        if len(tables) > 1:
            raise SidestepError(f"A column has one global range table, so groups cannot differ in its bits: {tables}.")

    def __bool__(self) -> bool:
        return any(getattr(self, kind) for kind in KINDS) or any(group.recipe for group in self.groups)

    def of(self, partition: Partition) -> Recipe:
        """What blocks of one partition get."""
        found = next((group.recipe for group in self.groups if partition in group.partitions), None)
        return self.general if found is None else found

    @property
    def general(self) -> Recipe:
        """What partitions that no group knows get."""
        return replace(self, groups=()) if self.groups else self

    @property
    def widest(self) -> Recipe:
        """The most that any block may take of each kind."""
        every = (self, *(group.recipe for group in self.groups))
        return Recipe(**{kind: max(getattr(each, kind) for each in every) for kind in KINDS})

    def only(self, kind: str) -> Recipe:
        """The same with one kind alone, without groups that have no more and no less of it than others."""
        groups = (replace(group, recipe=Recipe(**{kind: getattr(group.recipe, kind)})) for group in self.groups)
        found = Recipe(**{kind: getattr(self, kind)})
        return replace(found, groups=tuple(group for group in groups if group.recipe != found))

    def to_json(self) -> dict[str, Any]:
        """The sizes that are not 0, by name."""
        sizes: dict[str, Any] = {kind: size for kind in KINDS if (size := getattr(self, kind))}
        return sizes | ({"groups": [group.to_json() for group in self.groups]} if self.groups else {})

    @classmethod
    def from_json(cls, sizes: Mapping[str, Any]) -> Self:
        """The recipe with these sizes; kinds of synopsis that this version does not know are left out."""
        groups = tuple(GroupRecipe.from_json(group) for group in sizes.get("groups", ()))
        return cls(**{kind: size for kind, size in sizes.items() if kind in KINDS}, groups=groups)


@dataclass(frozen=True, slots=True)
class GroupRecipe:
    """What the blocks of some partitions get of one column."""

    partitions: frozenset[Partition]
    recipe: Recipe
    """Without groups of its own."""
    why: str = field(default="", compare=False)
    """What made the difference, for people."""

    def to_json(self) -> dict[str, Any]:
        ordered = sorted(self.partitions, key=repr)
        return {"partitions": [dict(each) for each in ordered], "why": self.why, **self.recipe.to_json()}

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> Self:
        partitions = frozenset(tuple(values.items()) for values in stated["partitions"])
        return cls(partitions, Recipe.from_json(stated).general, str(stated.get("why", "")))


def partitions_text(partitions: Iterable[Partition]) -> str:
    """Some partitions as a person would call them.

    >>> partitions_text([(("day", "2024-02"),), (("day", "2024-01"),), (("day", None),)])
    'day=2024-01 and 2 others'
    """
    named = sorted("/".join(f"{n}={'NULL' if v is None else v}" for n, v in partition) for partition in partitions)
    more = len(named) - 1
    return named[0] + (f" and {more:,} other{'s' * (more > 1)}" if more else "")


Recipes = Mapping[str, Recipe]
"""Recipes by column name."""
USUAL = {"range-set": 8, "gap-histogram": 8, "bloom": 1 << 20, "grt": 256}
"""The kinds by their names, with the size each has if none is given: ranges, buckets, bytes at most, and bits."""
LIMITS = {"range-set": 1 << 12, "gap-histogram": 1 << 12, "bloom": 1 << 24, "grt": 1 << 13}
LEAST = {"range-set": 1, "gap-histogram": 1, "bloom": 32, "grt": 2}
NOTHING = ("none", "zone-map")
ALL = "*"
RecipeText = str | Mapping[str, str]
"""Synopses by column, or as one text; see :func:`parse_recipes`."""
_UNITS = {"": 1, "b": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def parse_recipes(wishes: RecipeText, columns: Mapping[str, DataType]) -> dict[str, Recipe]:
    """The recipes that a text or a mapping asks for, of the columns that there are.

    ``column=kind:size``, several with commas between; ``+`` gives a column several kinds. A kind without a column is
    for all columns that are not named; ``none`` is the zone map alone. As a mapping, columns are its keys (``*`` is for
    the rest) and may have any name.

    >>> from sidestep.predicate.types import LONG, STRING
    >>> found = parse_recipes("id=range-set:20+bloom:4096,grt", {"id": LONG, "name": STRING})
    >>> found["id"].to_json(), found["name"].to_json()
    ({'range_set': 20, 'bloom': 4096}, {'grt': 256})
    >>> bool(parse_recipes({"name": "bloom", "*": "none"}, {"id": LONG, "name": STRING})["id"])
    False
    """
    pairs = list(_pairs(wishes)) if isinstance(wishes, str) else list(wishes.items())
    usable = [name for name, type in columns.items() if stored_form(type) is not None]
    recipes: dict[str, Recipe] = {}
    for name, text in pairs:
        recipe = _parse_recipe(text)
        if name == ALL:
            continue
        if name not in columns:
            known = ", ".join(columns)
            raise SidestepError(f"There is no column {name} to give a synopsis to; there are {known}.")
        if name not in usable:
            raise SidestepError(f"The order of {name}, a {columns[name]}, is unknown: it can have no synopsis.")
        if name in recipes:
            raise SidestepError(f"The column {name} is named twice: join its synopses with a plus sign.")
        recipes[name] = recipe
    for text in (text for name, text in pairs if name == ALL):
        recipes |= {name: _parse_recipe(text) for name in usable if name not in recipes}
    return recipes


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, kinds = part.strip().rpartition("=")
        yield (name.strip() if equals else ALL), kinds.strip()


def _parse_recipe(text: str) -> Recipe:
    recipe = Recipe()
    for part in text.lower().split("+"):
        kind, colon, size = (each.strip() for each in part.partition(":"))
        if kind in NOTHING and not colon:
            continue
        if kind not in USUAL:
            raise SidestepError(f"There is no synopsis {kind!r}: name one of {', '.join([*USUAL, NOTHING[0]])}.")
        number = USUAL[kind]
        if colon:
            if not size.isdecimal() or not LEAST[kind] <= int(size) <= LIMITS[kind]:
                raise SidestepError(
                    f"The size of a {kind} is a whole number from {LEAST[kind]} to {LIMITS[kind]:,}, not {size!r}."
                )
            number = int(size)
        recipe = Recipe.from_json({**recipe.to_json(), kind.replace("-", "_"): number})
    return recipe


def recipe_text(recipe: Recipe) -> str:
    """A recipe as :func:`parse_recipes` reads it, but for what some partitions get instead.

    >>> recipe_text(Recipe(range_set=4, grt=256)), recipe_text(Recipe())
    ('range-set:4+grt:256', 'none')
    """
    sizes = recipe.general.to_json()
    return "+".join(f"{kind.replace('_', '-')}:{size}" for kind, size in sizes.items()) or NOTHING[0]


def bytes_of(size: int | str) -> int:
    """A number of bytes, from a number or a text such as ``8MB``, ``1.5 GiB`` or ``512k``.

    >>> bytes_of("8MB"), bytes_of("1.5 KiB"), bytes_of(17)
    (8000000, 1536, 17)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(size).lower())
    if isinstance(size, bool) or found is None or found[2] not in _UNITS:
        raise SidestepError(f"{size!r} is no number of bytes: write it like 8MB, 512kB or 1.5GiB.")
    return int(float(found[1]) * _UNITS[found[2]])
