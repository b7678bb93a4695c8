"""Defaults: a synopsis where it tells something, the zone map alone everywhere else, and never more than the limit."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.advisor.synopses.candidates import Profile, gap_share
from sidestep.advisor.synopses.choose import RecipeChoice, choose_recipes
from sidestep.advisor.synopses.defaults import (
    ColumnOptions,
    Option,
    column_options,
    identifiers,
    key_like,
    reason,
    share_out,
)
from sidestep.advisor.synopses.queries import hold_out, usual_queries
from sidestep.predicate import Column, IntervalSet, Within
from sidestep.predicate.types import BYTE, DATE, DOUBLE, LONG, STRING, DataType, decimal_type
from sidestep.store import TableIndex, open_index, read_snapshot, update_index
from sidestep.synopsis import kept_blocks
from sidestep.synopsis.bloom import BLOOM
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.range_set import RANGE_SET
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.value_set import VALUES
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.workload.table import ColumnUsage
from tests.store.tables import write_parquet

CODING = Coding(LONG)


def u(values: object) -> Codes:
    return np.unique(np.asarray(values, dtype=np.uint64))


def judged(blocks: list[Codes], *, joined: bool = False, of_blocks: int = 0, limit: int = 1 << 40) -> Recipe:
    rows = np.array([len(block) for block in blocks], dtype=np.int64)
    profile = Profile("id", CODING, blocks, rows, (), np.zeros(0), of_blocks=of_blocks)
    chosen = share_out([column_options(profile, joined=joined)], limit)
    return chosen["id"].recipe if chosen else Recipe()


def clusters(count: int, of: int, blocks: int = 30) -> list[Codes]:
    """Blocks with short runs of ids in a few of many far-apart places."""
    rng = np.random.default_rng(count)
    places = np.sort(rng.choice(2**20, of, replace=False)) << 30
    return [u((rng.choice(places, count)[:, None] + np.arange(50)).ravel()) for _ in range(blocks)]


def test_blocks_of_few_clusters_get_a_range_set():
    assert judged(clusters(3, 40)) == Recipe(range_set=4)


def test_blocks_of_several_clusters_get_a_larger_one():
    assert judged(clusters(8, 100)).size(RANGE_SET) == 8


def test_blocks_of_many_clusters_get_a_table_that_they_share():
    assert judged(clusters(40, 200), of_blocks=3_000, limit=1 << 18).size(GRT) == 256


def test_unique_ids_without_any_order_get_filters():
    rng = np.random.default_rng(5)
    ids = rng.permutation(30 * 400)
    blocks = [u(ids[at : at + 400] * 1_000) for at in range(0, len(ids), 400)]
    assert judged(blocks).sizes == (("bloom", judged(blocks).size(BLOOM)),)
    often = [u(rng.choice(2_000, 400, replace=False)) for _ in range(30)]  # each value in a fifth of the blocks
    assert not judged(often).size(BLOOM)


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
    blocks = [u(rng.choice(every[every // 30 != n], 965, replace=False)) for n in range(20)]  # one small gap in each
    assert not judged(blocks)
    assert judged(blocks, joined=True)


def option(bytes: int, gain: float, most: int = 4) -> Option:
    return Option(Recipe(range_set=most), bytes, 0.5, 1.0, gain)


options = st.lists(st.builds(option, st.integers(1, 1_000), st.floats(-0.1, 3)), max_size=4)


@given(st.lists(options, max_size=5), st.integers(0, 3_000))
def test_a_limit_is_never_exceeded_and_nothing_useless_is_bought(columns: list[list[Option]], limit: int):
    tried = [ColumnOptions(str(number), each) for number, each in enumerate(columns)]
    chosen = share_out(tried, limit)
    assert sum(each.bytes for each in chosen.values()) <= limit
    left = limit - sum(each.bytes for each in chosen.values())
    for column in tried:
        mine = chosen.get(column.column)
        assert mine is None or mine.gain >= column.least
        for each in column.options:
            assert (reason(column, each, chosen, left) == "") == (each is mine)
            if mine is None and each.gain >= column.least:
                assert each.bytes > left, "it was too large"


def test_key_like_types():
    assert [key_like(type) for type in (LONG, DATE, decimal_type(20, 0))] == [True] * 3
    assert [key_like(type) for type in (BYTE, DOUBLE, STRING, decimal_type(12, 2))] == [False] * 4


def test_what_identifiers_look_like():
    rng = np.random.default_rng(1)
    assert identifiers(pa.array([str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(50)], pa.string_view()))
    assert identifiers(pa.array([rng.bytes(16) for _ in range(50)], pa.binary()))
    sentences, long = [f"number {n} of many" for n in range(9)], [f"{n}" * 90 for n in range(9)]
    for texts in ([], [None, "a"], ["a", "b"] * 9, sentences, long):
        assert not identifiers(pa.array(texts, pa.string()))


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


@given(st.lists(st.integers(1, 9), max_size=30))
def test_every_scan_is_in_one_half_of_a_log(counts: list[int]):
    sets = [(IntervalSet.point(LONG, number), count) for number, count in enumerate(counts)]
    made_by, judged_by = (dict(half) for half in hold_out(sets))
    if sum(counts) < 8:
        assert made_by == judged_by == dict(sets)
        return
    assert {each: made_by.get(each, 0) + judged_by.get(each, 0) for each, _ in sets} == dict(sets)
    assert abs(sum(made_by.values()) - sum(judged_by.values())) <= 1


FILES, ROWS = 24, 500
TABLE: dict[str, DataType] = {"id": LONG, "code": STRING, "near": LONG, "note": STRING}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of ids from everywhere, and one column of keys in runs, of which a few files hold the end and the begin."""
    root = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(2)
    ids = rng.permutation(FILES * ROWS) * 997
    near = (np.arange(FILES * ROWS) * 3 + 7_123) % (FILES * ROWS)
    for number in range(FILES):
        rows = slice(number * ROWS, (number + 1) * ROWS)
        columns = {
            "id": ids[rows],
            "code": [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(ROWS)],
            "near": near[rows],
            "note": [f"{rng.bytes(90).hex()} and so on" for _ in range(ROWS)],
        }
        write_parquet(root / f"{number:02}.parquet", columns)
    return root


def share_kept(root: Path, index: TableIndex, column: str, values: Sequence[Any]) -> float:
    """The share of blocks that lookups keep; the one that holds the value is among them."""
    catalog, type = index.catalog({column: TABLE[column]}), TABLE[column]
    files = index.files["path"].to_pylist()
    held = {path: set(held_values(root, path, column)) for path in files}
    shares = []
    for value in values:
        mask = kept_blocks(catalog, Within(Column(column, type), IntervalSet.point(type, value)))
        holding = np.array([value in held[files[at]] for at in index.map.file_of_block])
        assert not (holding & ~mask).any(), "a block that holds it is kept"
        shares.append(float(mask.mean()))
    return float(np.mean(shares))


def held_values(root: Path, path: str, column: str = "id") -> list[Any]:
    return list(pq.read_table(root / path, columns=[column]).column(0).to_pylist())


def made(root: Path, folder: Path, choice: RecipeChoice) -> TableIndex:
    return update_index(read_snapshot(root), TABLE, open_index(root, folder), recipes=choice.recipes)


def test_ids_and_codes_from_everywhere_are_told_apart_by_default(events: Path, tmp_path: Path):
    choice = choose_recipes(read_snapshot(events), TABLE)
    assert choice.recipes["id"].size(BLOOM)
    assert choice.recipes["code"].size(BLOOM)
    assert not choice.recipes["note"], "no one looks texts up"
    index = made(events, tmp_path, choice)
    for column in ("id", "code"):
        values = [each for path in ("03.parquet", "17.parquet") for each in held_values(events, path, column)[:20]]
        assert share_kept(events, index, column, values) < 0.15


def test_the_few_blocks_that_are_wide_count(events: Path):
    recipe = choose_recipes(read_snapshot(events), {"near": LONG}).recipes["near"]
    assert recipe.size(RANGE_SET) == 4


@pytest.mark.parametrize("limit", [0, "0%", "0.0"])
def test_a_limit_of_nothing_is_for_zone_maps_alone(events: Path, limit: int | str):
    choice = choose_recipes(read_snapshot(events), TABLE, limit=limit)
    assert choice.recipes == dict.fromkeys(TABLE, Recipe())


def test_what_the_limit_has_no_room_for_is_said(events: Path):
    choice = choose_recipes(read_snapshot(events), TABLE, limit=12_000)
    assert 0 < choice.spent <= 12_000
    refused = [each for each in choice.tried if each.why_not]
    assert refused
    assert all("the limit leaves" in each.why_not for each in refused)
    assert all(each.reads < each.zone_map for each in choice.tried)


def test_a_log_of_lookups_is_no_list_of_what_comes(events: Path, tmp_path: Path):
    """A global range table by the very ids of the log would keep those apart, and nothing else."""
    ids = [value for number in range(0, FILES, 2) for value in held_values(events, f"{number:02}.parquet")[:5]]
    asked = ColumnUsage({Column("id", LONG): {IntervalSet.point(LONG, value): 1 for value in ids}})
    choice = choose_recipes(read_snapshot(events), TABLE, asked=asked)
    assert choice.recipes["id"].size(BLOOM)
    assert not choice.recipes["id"].size(GRT)
    assert not choice.recipes["id"].size(VALUES)
    index = made(events, tmp_path, choice)
    others = [value for number in range(1, FILES, 2) for value in held_values(events, f"{number:02}.parquet")[7:9]]
    bound = choice.bounds["id"]
    assert share_kept(events, index, "id", others) <= 1 / FILES + bound
