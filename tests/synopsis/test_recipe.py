"""Synopses by name, and sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate.types import LONG, STRING, parse_type
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipe, bytes_of, parse_recipes, recipe_text

COLUMNS = {"id": LONG, "name": STRING, "tags": parse_type("array<int>")}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("id=range-set:20", {"id": Recipe(range_set=20)}),
        (
            "id = Bloom:64 + GRT , name=gap-histogram:3",
            {"id": Recipe(bloom=64, grt=256), "name": Recipe(gap_histogram=3)},
        ),
        ("range-set", {"id": Recipe(range_set=8), "name": Recipe(range_set=8)}),
        ("none,id=grt:64", {"id": Recipe(grt=64), "name": Recipe()}),
        ({"id": "zone-map"}, {"id": Recipe()}),
        ({"*": "bloom:96", "id": "none"}, {"id": Recipe(), "name": Recipe(bloom=96)}),
    ],
)
def test_notation(written, found):
    assert parse_recipes(written, COLUMNS) == found


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("nope=bloom", "no column nope"),
        ("tags=bloom", "order of tags"),
        ("id=magic", "no synopsis 'magic'"),
        ("id=range-set:0", "from 1 to"),
        ("id=grt:1", "from 2 to"),
        ("id=bloom:many", "not 'many'"),
        ("id=bloom,id=grt", "named twice"),
        ("", "no synopsis ''"),
    ],
)
def test_what_is_not_understood_is_said(written, said):
    with pytest.raises(SidestepError, match=said):
        parse_recipes(written, COLUMNS)


@given(st.dictionaries(st.sampled_from(sorted(KINDS)), st.integers(2, 4096), max_size=4))
def test_texts_of_recipes_are_read_back(wanted):
    sizes = {key: max(KINDS[key].sizes.least, min(size, KINDS[key].sizes.limit)) for key, size in wanted.items()}
    recipe = Recipe(**sizes)
    assert parse_recipes({"id": recipe_text(recipe)}, COLUMNS) == {"id": recipe}


@pytest.mark.parametrize(
    ("text", "size"), [("8MB", 8_000_000), ("1.5GiB", 3 << 29), ("512k", 512_000), ("7", 7), ("0b", 0), (99, 99)]
)
def test_sizes(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-3", "8 mebibytes", "1e6", True])
def test_what_is_no_size_is_said(text):
    with pytest.raises(SidestepError, match="no number of bytes"):
        bytes_of(text)
