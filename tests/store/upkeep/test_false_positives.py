"""What an index says of its synopses: what they take, what they are good for, and when they are outgrown."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from sidestep.errors import SidestepWarning
from sidestep.predicate.types import DATE, DOUBLE, LONG, STRING
from sidestep.store import locate, read_snapshot, status
from sidestep.store.index.table_index import open_index
from sidestep.store.upkeep.false_positives import (
    Estimates,
    KeptShare,
    TriedSynopsis,
    kept_shares,
    load_estimates,
    save_estimates,
)
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis.gap_histogram import GAP_HISTOGRAM
from sidestep.synopsis.recipe import Recipe
from tests.store.tables import write_parquet

EVERY = Recipe(range_set=4, gap_histogram=4, bloom=256, grt=64)
COLUMNS = {"id": LONG, "name": STRING, "v": DOUBLE, "day": DATE}


def write(folder, files, runs, seed=1):
    """Files whose ids come in so many short runs, far apart."""
    rng = np.random.default_rng(seed)
    for number in files:
        ids = (rng.integers(0, 2**60, runs)[:, None] + np.arange(200 // runs)).ravel()
        columns = {
            "id": ids,
            "name": [f"n{each:020}" for each in ids],
            "v": ids.astype(np.float64),
            "day": pa.array((ids % 10_000).astype(np.int32)).cast(pa.date32()),
        }
        write_parquet(folder / f"{number:03}.parquet", columns)


def remember(folder):
    view = open_index(folder)
    save_estimates(view.folder, Estimates(kept_shares(view, np.ones(view.map.blocks, dtype=np.bool_))))


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(range_set=4),
        Recipe(grt=128),
        Recipe(bloom=1024),
        Recipe(gap_histogram=8),
        EVERY,
    ],
)
def test_each_synopsis_has_bytes_and_a_rate(tmp_path, recipe):
    write(tmp_path, range(12), runs=2)
    update_index(read_snapshot(tmp_path), COLUMNS, recipes=dict.fromkeys(COLUMNS, recipe), rates={"id": 0.25})
    found = status(tmp_path)
    assert found.synopses.keys() == COLUMNS.keys()
    for name, each in found.synopses.items():
        assert each.recipe == recipe
        assert {held.kind for held in each.held} == recipe.to_json().keys()
        assert all(held.blocks == 12 and held.bytes > 0 for held in each.held)
        assert each.bytes == sum(held.bytes for held in each.held)
        assert each.kept is not None
        assert each.zone_map_kept is not None
        assert 0 <= each.kept <= each.zone_map_kept <= 1
        assert 0 <= each.saved <= 1
        assert each.first_kept is None
        if name in ("id", "v") and not recipe.size(GAP_HISTOGRAM):
            assert each.kept < 0.1 < each.zone_map_kept
    assert found.synopses["id"].false_positives <= 0.25  # type: ignore[operator]
    assert found.advice == ""


def test_zone_maps_alone_have_nothing_to_say(tmp_path):
    write(tmp_path, range(3), runs=2)
    update_index(read_snapshot(tmp_path), COLUMNS)
    assert status(tmp_path).synopses == {}


def test_a_rebuild_is_advised_when_twice_as_much_is_kept(tmp_path):
    write(tmp_path, range(10), runs=2)
    update_index(read_snapshot(tmp_path), COLUMNS, recipes={"id": Recipe(range_set=2)})
    remember(tmp_path)
    assert not status(tmp_path).synopses["id"].outgrown
    write(tmp_path, range(10, 40), runs=10, seed=2)
    update_index(read_snapshot(tmp_path), COLUMNS)
    found = status(tmp_path)
    each = found.synopses["id"]
    assert each.outgrown
    assert each.kept >= 2 * each.first_kept  # type: ignore[operator]
    assert found.advice.startswith("The synopses of id let through twice as much")


def test_files_that_are_gone_do_not_count(tmp_path):
    write(tmp_path, range(10), runs=2)
    write(tmp_path, range(10, 40), runs=10, seed=2)
    update_index(read_snapshot(tmp_path), COLUMNS, recipes={"id": Recipe(range_set=2)})
    every = status(tmp_path).synopses["id"].kept
    for number in range(10, 40):
        (tmp_path / f"{number:03}.parquet").unlink()
    assert status(tmp_path).synopses["id"].kept < every  # type: ignore[operator]


def test_all_null_single_values_and_one_block(tmp_path):
    for number in range(3):
        write_parquet(tmp_path / f"{number}.parquet", {"id": pa.array([None] * 5, pa.int64()), "one": [7] * 5})
    recipes = {
        "id": EVERY,
        "one": EVERY,
    }
    update_index(read_snapshot(tmp_path), {"id": LONG, "one": LONG}, recipes=recipes)
    found = status(tmp_path).synopses
    assert found["id"].kept is None
    assert found["one"].kept == found["one"].zone_map_kept == 1.0


def test_notes_are_kept_and_the_newest_counts(tmp_path):
    folder = locate(tmp_path)
    assert load_estimates(folder) == Estimates()
    first = Estimates({"a": KeptShare(0.9, 0.1)}, (TriedSynopsis("a", "bloom:64", 640, 1.0, 0.1, "too large"),))
    second = Estimates({"a": KeptShare(0.8, 0.2), "b": KeptShare(1.0, 0.0)})
    save_estimates(folder, first)
    save_estimates(folder, second)
    assert load_estimates(folder) == second
    newest = max(path for path in tmp_path.iterdir())
    for damaged in ("", "[]", json.dumps({"format": 9, "columns": {}}), json.dumps({"format": 1, "columns": {"a": 1}})):
        newest.write_text(damaged)
        with pytest.warns(SidestepWarning, match=newest.name):
            assert load_estimates(folder) == first
