"""What a person may wish for: synopses by name, and sizes as one writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.values.forms import stored_form

USUAL = {"range-set": 8, "gap-histogram": 8, "bloom": 1 << 20, "grt": 256}
"""The kinds by their names, with the size each has if none is given: ranges, buckets, bytes at most, and bits."""
LIMITS = {"range-set": 1 << 12, "gap-histogram": 1 << 12, "bloom": 1 << 24, "grt": 1 << 13}
LEAST = {"range-set": 1, "gap-histogram": 1, "bloom": 32, "grt": 2}
NOTHING = ("none", "zone-map")
ALL = "*"

Wishes = str | Mapping[str, str]
"""Synopses by column, or as one text; see :func:`wished`."""

_UNITS = {"": 1, "b": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def wished(wishes: Wishes, columns: Mapping[str, DataType]) -> dict[str, Recipe]:
    """The recipes that a text or a mapping asks for, of the columns that there are.

    ``column=kind:size``, several with commas between; ``+`` gives a column several kinds. A kind without a column is
    for all columns that are not named; ``none`` is the zone map alone. As a mapping, columns are its keys (``*`` is for
    the rest) and may have any name.

    >>> from sidestep.predicate.types import LONG, STRING
    >>> found = wished("id=range-set:20+bloom:4096,grt", {"id": LONG, "name": STRING})
    >>> found["id"].to_json(), found["name"].to_json()
    ({'range_set': 20, 'bloom': 4096}, {'grt': 256})
    >>> bool(wished({"name": "bloom", "*": "none"}, {"id": LONG, "name": STRING})["id"])
    False
    """
    pairs = list(_pairs(wishes)) if isinstance(wishes, str) else list(wishes.items())
    usable = [name for name, type in columns.items() if stored_form(type) is not None]
    recipes: dict[str, Recipe] = {}
    for name, text in pairs:
        recipe = _recipe(text)
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
        recipes |= {name: _recipe(text) for name in usable if name not in recipes}
    return recipes


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, kinds = part.strip().rpartition("=")
        yield (name.strip() if equals else ALL), kinds.strip()


def _recipe(text: str) -> Recipe:
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
    """A recipe as :func:`wished` reads it, but for what some partitions get instead.

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
