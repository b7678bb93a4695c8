"""The budget: never worse than a single synopsis of its size, never beyond the bytes, and plain about its limits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.advisor.synopses.budget import Plan, bound_over, drop_useless_parts, spend
from sidestep.advisor.synopses.candidates import (
    BYTES_PER_TABLE_RANGE,
    Profile,
    Share,
    candidates,
    group_profiles,
    zone_map,
)
from sidestep.errors import SidestepError
from sidestep.predicate.types import LONG
from sidestep.synopsis.bloom import BLOOM
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.range_set import RANGE_SET
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes, Coding

CODING = Coding(LONG)


def point(code: int) -> CodeRanges:
    return CodeRanges(np.array([code], dtype=np.uint64), np.array([code], dtype=np.uint64))


def profile(name: str, blocks: list[Codes], queries: list[CodeRanges], sizes=(16, 32, 64), group: str = "") -> Profile:
    rows = np.array([len(block) for block in blocks], dtype=np.int64)
    return Profile(name, CODING, blocks, rows, queries, np.ones(len(queries)), group, sizes=sizes)


def clustered(seed: int, blocks: int = 60, clusters: int = 40, each: int = 6) -> Profile:
    """Sparse ids in clusters, each block with a few of them, asked for by ids that exist."""
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.integers(0, 2**50, clusters)).astype(np.uint64)
    held = []
    for _ in range(blocks):
        chosen = rng.choice(starts, each, replace=False)
        held.append(np.unique(rng.choice(chosen, 400) + rng.integers(0, 2**20, 400).astype(np.uint64)))
    ids = rng.choice(np.concatenate(held), 60)
    return profile("id", held, [point(int(code)) for code in ids])


def gapped(seed: int, blocks: int = 60) -> Profile:
    """Two far clusters of its own in each block: what range-sets are made for."""
    rng = np.random.default_rng(seed)
    held = []
    for _ in range(blocks):
        low, high = rng.integers(0, 2**40), rng.integers(2**60, 2**60 + 2**40)
        held.append(np.unique(np.concatenate([np.arange(40) + low, np.arange(40) + high]).astype(np.uint64)))
    queries = rng.integers(2**41, 2**59, 40)
    return profile("gapped", held, [point(int(code)) for code in queries])


def scattered(seed: int, blocks: int = 40) -> Profile:
    """Few distinct values each, without any order: what Bloom filters are made for."""
    rng = np.random.default_rng(seed)
    held = [np.unique(rng.integers(0, 2**40, 12).astype(np.uint64)) for _ in range(blocks)]
    ids = rng.choice(np.concatenate(held), 40)
    return profile("code", held, [point(int(code)) for code in ids])


def test_each_kind_is_chosen_where_it_is_best():
    def kinds(plan: Plan) -> set[SynopsisKind[Any]]:
        return {part.kind for choice in plan.choices for part in choice.parts}

    assert kinds(spend([clustered(1, blocks=400)], 400 * 32 + 255 * BYTES_PER_TABLE_RANGE)) >= {GRT}
    assert kinds(spend([gapped(2)], 60 * 32)) == {RANGE_SET}
    assert kinds(spend([scattered(3)], 40 * 32)) == {BLOOM}


@settings(max_examples=8)
@given(st.integers(0, 50), st.integers(0, 3), st.integers(0, 30_000))
def test_never_worse_than_the_best_single_one_and_within_the_budget(seed: int, which: int, budget: int):
    everything = [clustered(seed, 20, 15, 3), gapped(seed, 20), scattered(seed, 20)]
    profiles = everything if which == 3 else [everything[which]]
    plan = spend(profiles, budget)
    assert plan.total <= budget
    assert plan.false_rows <= plan.single_false_rows
    for choice in plan.choices:
        assert 0 <= choice.rate <= choice.bound <= 1
        assert choice.profile.column in str(choice)


def test_mixed_columns_get_different_synopses_and_beat_every_single_one():
    profiles = [clustered(1, 40), gapped(2, 40), scattered(3)]
    plan = spend(profiles, 40 * 32 * 3 + 4096)
    assert plan.false_rows < 0.98 * plan.single_false_rows
    assert len({choice.parts[0].kind for choice in plan.choices if choice.parts}) > 1


def test_no_other_choice_within_the_budget_is_much_better():
    """Against every combination of single candidates, for two small columns."""
    profiles = [clustered(5, 12, 10, 3), scattered(6, 12)]
    budget = 12 * 64
    plan = spend(profiles, budget)
    tried = [[None, *candidates(each)] for each in profiles]
    best = min(
        sum(
            each.false_rows(each.answers(zone_map(each)) if part is None else part.kept)
            for each, part in zip(profiles, parts, strict=True)
        )
        for parts in itertools.product(*tried)
        if sum(part.total for part in parts if part) <= budget
    )
    assert plan.false_rows <= 1.1 * best + 1e-9


def test_groups_of_blocks_are_chosen_for_one_by_one():
    early, late = gapped(1, 20), clustered(2, 20, 15, 3)
    plan = spend(
        [
            profile("id", list(early.blocks), list(early.queries), group="2023"),
            profile("id", list(late.blocks), list(late.queries), group="2024"),
        ],
        20 * 64 + 2048,
    )
    assert [choice.profile.group for choice in plan.choices] == ["2023", "2024"]
    assert str(plan.choices[0]).startswith("id in 2023: range-set of")


def test_the_bound_holds_for_later_queries():
    chosen = spend([clustered(1)], 60 * 32 + 4096).choices[0]
    later = clustered(1).blocks
    rng = np.random.default_rng(99)
    ids = rng.choice(np.concatenate(list(later)), 200)
    fresh = profile("id", list(later), [point(int(code)) for code in ids])
    kept = fresh.answers(zone_map(fresh))
    for part in chosen.parts:
        kept &= fresh.answers(part.synopsis)
    assert np.mean((kept & ~fresh.holding).sum(axis=1) / (~fresh.holding).sum(axis=1)) <= chosen.bound


def test_a_budget_too_small_for_anything_says_so():
    plan = spend([gapped(1, 10)], 100)
    assert plan.total == 0
    assert plan.note == "100 bytes are too few for any synopsis beside the zone map: the smallest takes 160."
    assert "zone map only" in str(plan.choices[0])
    assert spend([], 100).choices == ()
    with pytest.raises(SidestepError, match="number of bytes"):
        spend([], -1)


def test_where_nothing_helps_nothing_is_spent():
    dense = [np.arange(n * 100, n * 100 + 100, dtype=np.uint64) for n in range(8)]
    plan = spend([profile("n", dense, [point(n) for n in range(0, 800, 37)])], 10_000)
    assert plan.total == 0
    assert "No synopsis saves anything" in plan.note


def test_columns_without_values_or_queries():
    empty = profile("x", [np.zeros(0, dtype=np.uint64)] * 3, [point(5)])
    assert spend([empty], 10_000).false_rows == 0
    unasked = profile("x", [np.arange(4, dtype=np.uint64)] * 3, [])
    assert spend([unasked], 10_000).total == 0


def test_a_profile_that_does_not_fit_together_is_refused():
    with pytest.raises(SidestepError, match="rows for each of its 1 blocks"):
        Profile("x", CODING, [np.zeros(0, dtype=np.uint64)], np.zeros(2, dtype=np.int64), [], np.zeros(0))


def test_a_sample_is_charged_for_all_the_blocks_it_stands_for():
    whole, part = gapped(2), replace(gapped(2), of_blocks=6_000)
    assert {each.total for each in candidates(part) if each.kind == RANGE_SET} == {
        100 * each.total for each in candidates(whole) if each.kind == RANGE_SET
    }
    zones = whole.answers(zone_map(whole))
    assert part.false_rows(zones) == pytest.approx(100 * whole.false_rows(zones))
    assert spend([part], 60 * 32).total == 0
    assert spend([part], 6_000 * 32).total <= 6_000 * 32


def test_a_sample_does_not_flatter_tables_that_all_blocks_share():
    data = clustered(1, blocks=8)
    (alone,) = (each for each in candidates(replace(data, sizes=(1024,))) if each.kind == GRT)
    (sampled,) = (each for each in candidates(replace(data, sizes=(1024,), of_blocks=900)) if each.kind == GRT)
    assert data.rate(alone.kept) <= data.rate(sampled.kept)
    assert len(sampled.synopsis.table.ranges) < len(alone.synopsis.table.ranges)  # type: ignore[attr-defined]


def test_large_filters_are_tried_where_blocks_hold_many_values():
    rng = np.random.default_rng(1)
    held = [np.unique(rng.integers(0, 2**60, 4_000).astype(np.uint64)) for _ in range(6)]
    many = profile("code", held, [point(int(code)) for code in rng.choice(np.concatenate(held), 40)])
    (choice,) = spend([many], 6 * 8192).choices
    assert [part.kind for part in choice.parts] == [BLOOM]
    assert 4096 < choice.parts[0].per_block <= 8192
    assert choice.rate < 0.05


def test_what_hardly_helps_is_left_out():
    plan = spend([gapped(2)], 60 * 64)
    (choice,) = plan.choices
    assert [part.kind for part in drop_useless_parts(choice).parts] == [RANGE_SET]
    assert drop_useless_parts(choice).rate - choice.rate < 0.02
    assert not drop_useless_parts(choice, least=1.1).parts


def two_groups(seed: int, size: int = 20) -> list[Profile]:
    """A column whose blocks are of two kinds, with the candidates that both share."""
    one, two = clustered(seed, size, 15, 3), gapped(seed, size)
    whole = profile("id", [*one.blocks, *two.blocks], [*one.queries, *two.queries])
    return group_profiles(
        whole,
        [
            Share("clustered", np.arange(size), size, whole.weights),
            Share("gapped", np.arange(size, 2 * size), 5 * size, whole.weights),
        ],
        1 << 20,
    )


@settings(max_examples=8)
@given(st.integers(0, 50), st.integers(0, 60_000))
def test_groups_share_one_table_and_the_budget(seed: int, budget: int):
    plan = spend(two_groups(seed), budget)
    assert plan.total <= budget
    assert plan.false_rows <= plan.single_false_rows
    tables = [choice.table for choice in plan.choices if choice.table is not None]
    assert len({table.per_block for table in tables}) <= 1
    paid = sum(part.total for choice in plan.choices for part in choice.parts)
    assert plan.total == paid - sum(table.shared for table in tables[1:])
    assert 0 < bound_over(plan.choices) <= 1


def test_the_bound_over_groups_is_that_of_the_column_if_there_is_one():
    (choice,) = spend([clustered(1)], 60 * 32 + 4096).choices
    assert bound_over([choice]) == pytest.approx(choice.bound)
    unasked = profile("x", [np.arange(4, dtype=np.uint64)] * 3, [])
    assert bound_over(spend([unasked], 10_000).choices) == 1.0


def test_a_group_that_no_query_asks_of_gets_nothing():
    first, second = two_groups(3)
    plan = spend([first, replace(second, weights=np.zeros(len(second.queries)))], 1 << 20)
    assert plan.choices[0].parts
    assert not plan.choices[1].parts
