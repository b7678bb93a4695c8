"""Which synopses a column gets beside its zone map, how large each may become in a block, and how people write that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.values.forms import stored_form
from sidestep.synopsis.zones.partition_values import Partition


@dataclass(frozen=True, slots=True, init=False)
class Recipe:
    """The synopses of one column beside its zone map, each by the most it may take in a block.

    A recipe is a bound, not a size: a block of three values needs three ranges whatever its recipe allows. Sizes are
    given by the keys of :data:`~sidestep.synopsis.kinds.KINDS`; what is not given, or 0, the column does not get.

    Some partitions may have another recipe than the rest (``groups``); a partition that no group knows, such as one
    that comes later, gets the general one.

    >>> from sidestep.synopsis.kinds import RANGE_SET
    >>> Recipe(range_set=8).to_json()
    {'range_set': 8}
    >>> Recipe.from_json({"range_set": 8}) == Recipe(range_set=8)
    True
    >>> bool(Recipe())
    False
    >>> sparse = (("day", "2024-01-01"),)
    >>> apart = Recipe(range_set=4, groups=(GroupRecipe(frozenset([sparse]), Recipe(range_set=20)),))
    >>> [each.size(RANGE_SET) for each in (apart.of(sparse), apart.of((("day", "2024-01-02"),)), apart.widest)]
    [20, 4, 20]
    """

    sizes: tuple[tuple[str, int], ...]
    """The size of each kind that there is to be, by its key, in the order of the kinds."""
    groups: tuple[GroupRecipe, ...]
    """What some partitions get instead."""

    def __init__(self, *, groups: tuple[GroupRecipe, ...] = (), **sizes: int) -> None:
        unknown = [key for key in sizes if key not in KINDS]
        if unknown:
            raise SidestepError(f"There is no synopsis {unknown[0]}; there are {', '.join(KINDS)}.")
        for key, size in sizes.items():
            KINDS[key].sizes.check(KINDS[key].title, size)
        _set(self, sizes, groups)
        for kind in (kind for kind in KINDS.values() if kind.tables is not None):
            shared = {size for each in (self, *(group.recipe for group in groups)) if (size := each.size(kind))}
            if len(shared) > 1:
                raise SidestepError(
                    f"A column has one {kind.title}, so groups cannot differ in its {kind.sizes.unit}: {shared}."
                )

    def __bool__(self) -> bool:
        return bool(self.sizes) or any(group.recipe for group in self.groups)

    def size(self, kind: SynopsisKind[Any]) -> int:
        """The most that a block may have of a kind; 0 if it has none."""
        return next((size for key, size in self.sizes if key == kind.key), 0)

    def of(self, partition: Partition) -> Recipe:
        """What blocks of one partition get."""
        own = next((group.recipe for group in self.groups if partition in group.partitions), None)
        return self.general if own is None else own

    @property
    def general(self) -> Recipe:
        """What partitions that no group knows get."""
        return _recipe(dict(self.sizes)) if self.groups else self

    @property
    def widest(self) -> Recipe:
        """The most that any block may take of each kind."""
        if not self.groups:
            return self
        most: dict[str, int] = {}
        for each in (self, *(group.recipe for group in self.groups)):
            most |= {key: max(size, most.get(key, 0)) for key, size in each.sizes}
        return _recipe(most)

    def only(self, kind: SynopsisKind[Any]) -> Recipe:
        """The same with one kind alone, without groups that have no more and no less of it than others."""
        general = _recipe({kind.key: self.size(kind)})
        groups = (
            GroupRecipe(group.partitions, _recipe({kind.key: group.recipe.size(kind)}), group.why)
            for group in self.groups
        )
        return _recipe(dict(general.sizes), tuple(group for group in groups if group.recipe != general))

    def with_size(self, kind: SynopsisKind[Any], size: int) -> Recipe:
        """The same with another size of one kind."""
        return Recipe(**{**dict(self.sizes), kind.key: size}, groups=self.groups)

    def with_groups(self, groups: tuple[GroupRecipe, ...]) -> Recipe:
        """The same with other groups."""
        return Recipe(**dict(self.sizes), groups=groups)

    def to_json(self) -> dict[str, Any]:
        """The sizes by key, and the groups if there are any."""
        sizes: dict[str, Any] = dict(self.sizes)
        return sizes | ({"groups": [group.to_json() for group in self.groups]} if self.groups else {})

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> Self:
        """The recipe with these sizes; kinds of synopsis that this version does not know are left out."""
        groups = tuple(GroupRecipe.from_json(group) for group in stated.get("groups", ()))
        return cls(**{key: size for key, size in stated.items() if key in KINDS}, groups=groups)


def _recipe(sizes: Mapping[str, int], groups: tuple[GroupRecipe, ...] = ()) -> Recipe:
    """A recipe made of others, which were checked: a worker need not know all kinds."""
    recipe = object.__new__(Recipe)
    _set(recipe, sizes, groups)
    return recipe


def _set(recipe: Recipe, sizes: Mapping[str, int], groups: tuple[GroupRecipe, ...]) -> None:
    order = {key: place for place, key in enumerate(KINDS)}
    given = sorted((pair for pair in sizes.items() if pair[1]), key=lambda pair: order.get(pair[0], len(order)))
    object.__setattr__(recipe, "sizes", tuple(given))
    object.__setattr__(recipe, "groups", groups)


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
NOTHING = ("none", "zone-map")
ALL = "*"
RecipeText = str | Mapping[str, str]
"""Recipes as people write them: by column, or as one text; see :func:`parse_recipes`."""
_UNITS = {"": 1, "b": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def parse_recipes(written: RecipeText, columns: Mapping[str, DataType]) -> dict[str, Recipe]:
    """The recipes that a text or a mapping gives, of the columns that there are.

    ``column=kind:size``, several with commas between; ``+`` gives a column several kinds. A kind without a column is
    for all columns that are not named; ``none`` is the zone map alone. As a mapping, columns are its keys (``*`` is for
    the rest) and may have any name.

    >>> from sidestep.predicate.types import LONG, STRING
    >>> recipes = parse_recipes("id=range-set:20+bloom:4096,grt", {"id": LONG, "name": STRING})
    >>> recipes["id"].to_json(), recipes["name"].to_json()
    ({'range_set': 20, 'bloom': 4096}, {'grt': 256})
    >>> bool(parse_recipes({"name": "bloom", "*": "none"}, {"id": LONG, "name": STRING})["id"])
    False
    """
    pairs = list(_pairs(written)) if isinstance(written, str) else list(written.items())
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


def rename_recipes(written: RecipeText, names: Mapping[str, str]) -> RecipeText:
    """The same for columns that go by other names.

    >>> rename_recipes("id=bloom,grt", {"id": "col-1"})
    {'col-1': 'bloom', '*': 'grt'}
    """
    if not names:
        return written
    pairs = list(_pairs(written)) if isinstance(written, str) else list(written.items())
    named = [name for name, _ in pairs]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise SidestepError(f"The column {twice} is named twice: join its synopses with a plus sign.")
    return {names.get(name, name): text for name, text in pairs}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, kinds = part.strip().rpartition("=")
        yield (name.strip() if equals else ALL), kinds.strip()


def _parse_recipe(text: str) -> Recipe:
    kinds = {kind.name: kind for kind in KINDS.values()}
    recipe = Recipe()
    for part in text.lower().split("+"):
        name, colon, size = (each.strip() for each in part.partition(":"))
        if name in NOTHING and not colon:
            continue
        if name not in kinds:
            raise SidestepError(f"There is no synopsis {name!r}: name one of {', '.join([*kinds, NOTHING[0]])}.")
        sizes = kinds[name].sizes
        if colon and (not size.isdecimal() or not sizes.least <= int(size) <= sizes.limit):
            raise SidestepError(
                f"The size of a {name} is a whole number from {sizes.least} to {sizes.limit:,}, not {size!r}."
            )
        recipe = recipe.with_size(kinds[name], int(size) if colon else sizes.usual)
    return recipe


def recipe_text(recipe: Recipe) -> str:
    """A recipe as :func:`parse_recipes` reads it, but for what some partitions get instead.

    >>> recipe_text(Recipe(range_set=4, grt=256)), recipe_text(Recipe())
    ('range-set:4+grt:256', 'none')
    """
    return "+".join(f"{key.replace('_', '-')}:{size}" for key, size in recipe.sizes) or NOTHING[0]


def is_share(size: int | str) -> bool:
    """Whether a size is given as a share of something."""
    return str(size).strip().endswith("%")


def bytes_of(size: int | str, of: int | None = None) -> int:
    """A number of bytes, from a number or a text such as ``8MB``, ``1.5 GiB`` or ``512k``; with ``of``, or a share.

    >>> bytes_of("8MB"), bytes_of("1.5 KiB"), bytes_of(17), bytes_of("1%", 4000)
    (8000000, 1536, 17, 40)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*|%)\s*", str(size).lower())
    known = match is not None and (match[2] in _UNITS or (match[2] == "%" and of is not None))
    if isinstance(size, bool) or match is None or not known:
        raise SidestepError(f"{size!r} is no number of bytes: write it like 8MB, 512kB or 1.5GiB.")
    if match[2] == "%":
        return int(float(match[1]) / 100 * (of or 0))
    return int(float(match[1]) * _UNITS[match[2]])
