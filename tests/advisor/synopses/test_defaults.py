"""Defaults: a synopsis where it tells something, the zone map alone everywhere else."""

from __future__ import annotations

import numpy as np
import pytest

from sidestep.advisor.synopses.candidates import Profile
from sidestep.advisor.synopses.defaults import default_recipe, gap_share, key_like
from sidestep.advisor.synopses.queries import usual_queries
from sidestep.predicate.types import BYTE, DATE, DOUBLE, LONG, STRING, decimal_type
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.range_set import RANGE_SET
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.values.codes import Codes, Coding

CODING = Coding(LONG)


def u(values: object) -> Codes:
    return np.unique(np.asarray(values, dtype=np.uint64))


def judged(blocks: list[Codes], **options: bool) -> Recipe:
    rows = np.array([len(block) for block in blocks], dtype=np.int64)
    queries = usual_queries(blocks)
    return default_recipe(Profile("id", CODING, blocks, rows, queries, np.ones(len(queries))), **options)


def clusters(count: int, of: int, blocks: int = 30) -> list[Codes]:
    """Blocks with short runs of ids in a few of many far-apart places."""
    rng = np.random.default_rng(count)
    places = np.sort(rng.choice(2**20, of, replace=False)) << 30
    return [u((rng.choice(places, count)[:, None] + rng.integers(0, 1000, 50)).ravel()) for _ in range(blocks)]


def test_blocks_of_few_clusters_get_a_range_set():
    assert judged(clusters(3, 40)) == Recipe(range_set=4)


def test_blocks_of_several_clusters_get_a_larger_one():
    assert judged(clusters(8, 100)).size(RANGE_SET) == 8


def test_blocks_of_many_clusters_get_a_table_that_they_share():
    assert judged(clusters(40, 200)).size(GRT) == 256


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([u(range(10 * n, 10 * n + 10)) for n in range(20)], id="zone maps that are apart"),
        pytest.param([u(range(0, 1000))] * 20, id="dense and alike"),
        pytest.param([u([0, 10**9, 2**60])] * 20, id="the same few values everywhere"),
        pytest.param([u(np.delete(np.arange(1000), range(n, n + 9))) for n in range(20)], id="hardly any gap"),
        pytest.param([u([])] * 5, id="no value at all"),
        pytest.param([u([7])] * 5, id="one value"),
        pytest.param([u([0, 2**64 - 1])] * 5, id="the ends of everything"),
    ],
)
def test_where_nothing_is_gained_the_zone_map_is_all(blocks):
    assert not judged(blocks)


def test_join_keys_are_served_for_less():
    rng = np.random.default_rng(1)
    every = np.arange(1000)
    blocks = [u(rng.choice(every[every // 50 != n], 900, replace=False)) for n in range(20)]  # one small gap in each
    assert not judged(blocks)
    assert judged(blocks, joined=True).size(RANGE_SET)


def test_key_like_types():
    assert [key_like(type) for type in (LONG, DATE, decimal_type(20, 0))] == [True] * 3
    assert [key_like(type) for type in (BYTE, DOUBLE, STRING, decimal_type(12, 2))] == [False] * 4


def test_the_share_of_gaps_has_no_ends_to_fall_over():
    assert gap_share(CODING, u([])) == gap_share(CODING, u([5])) == 0.0
    assert gap_share(CODING, u([0, 2**64 - 1])) == pytest.approx(1.0)
    assert gap_share(Coding(DOUBLE), u([0, 2**64 - 1])) == pytest.approx(1.0)


def test_usual_queries_ask_for_what_is_there():
    blocks = clusters(3, 40)
    held = np.concatenate(blocks)
    queries = usual_queries(blocks, 20)
    assert all(query.lows[0] in held for query in queries)
    assert [len(query) for query in queries] == [1] * 20
    assert usual_queries([u([])]) == []
