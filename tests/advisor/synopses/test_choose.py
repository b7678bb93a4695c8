"""Recipes that groups of partitions have of their own: who gets what by a budget, and that no row is lost by it."""

from __future__ import annotations

import io
import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sidestep.advisor.synopses.choose import RecipeChoice, choose_recipes
from sidestep.advisor.synopses.groups import block_groups
from sidestep.advisor.synopses.sample import sample_blocks
from sidestep.cli.show import print_status, status_data
from sidestep.errors import SidestepError
from sidestep.predicate import Column, IntervalSet, Within
from sidestep.predicate.normal import normalize
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import DOUBLE, INTEGER, LONG
from sidestep.store import TableIndex, compact, open_index, read_snapshot, status, update_index
from sidestep.synopsis import kept_blocks
from sidestep.synopsis.bloom import BLOOM
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.range_set import RANGE_SET
from sidestep.synopsis.recipe import GroupRecipe, Recipe
from sidestep.workload.table import ColumnUsage
from tests.store.index.test_synopsis_columns import cases, many, write_blocks
from tests.store.tables import write_parquet
from tests.synopsis.tables import TYPES
from tests.synopsis.test_soundness import opaque_value

COLUMNS = {"id": LONG}
BLOCKS, ROWS = 4, 300


def day(number: int) -> tuple[tuple[str, str | None], ...]:
    return (("day", f"{number:02}"),)


def dense(rng: np.random.Generator) -> list[np.ndarray]:
    """Ids that lie close together, with no gap that is worth a range."""
    starts = rng.integers(0, 20 * ROWS, BLOCKS)
    return [np.sort(rng.choice(ROWS + 20, ROWS, replace=False)) + start for start in starts]


def sparse(rng: np.random.Generator) -> list[np.ndarray]:
    """Ids from all over, in three clusters a block."""
    return [
        np.sort(np.concatenate([np.arange(ROWS // 3) + start for start in rng.integers(0, 2**40, 3)]))
        for _ in range(BLOCKS)
    ]


def write_days(root: Path, days: int, sparse_days: range, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for number in range(days):
        blocks = sparse(rng) if number in sparse_days else dense(rng)
        write_parquet(root / f"day={number:02}" / "f.parquet", {"id": np.concatenate(blocks)}, row_group_size=ROWS)


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Twelve partitions, the last three of which are sparse."""
    write_days(tmp_path / "t", 12, range(9, 12))
    return tmp_path / "t"


SPARSE = frozenset(day(number) for number in range(9, 12))


def made(root: Path, choice: RecipeChoice) -> TableIndex:
    return update_index(read_snapshot(root), COLUMNS, recipes=choice.recipes, rates=choice.bounds)


def false_blocks(index: TableIndex, root: Path, seed: int = 5) -> int:
    """Blocks that are kept for nothing, for ids that exist: by the catalog, against the files themselves."""
    import pyarrow.parquet as pq

    files = [pq.ParquetFile(root / path) for path in index.files["path"].to_pylist()]
    held = [
        files[file].read_row_group(int(group), columns=["id"])["id"].to_numpy()
        for file, group in zip(index.map.file_of_block, index.map.row_group, strict=True)
    ]
    catalog = index.catalog(COLUMNS)
    found = 0
    for value in np.random.default_rng(seed).choice(np.concatenate(held), 200):
        mask = kept_blocks(catalog, Within(Column("id", LONG), IntervalSet.point(LONG, int(value))))
        holding = np.array([value in ids for ids in held])
        assert not (holding & ~mask).any()
        found += int((mask & ~holding).sum())
    return found


def test_sparse_partitions_get_what_dense_ones_would_waste(days: Path) -> None:
    blocks, sparse_blocks = 12 * BLOCKS, 3 * BLOCKS
    budget = 32 * blocks
    choice = choose_recipes(read_snapshot(days), COLUMNS, budget=budget)
    recipe = choice.recipes["id"]
    assert not recipe.general
    (group,) = recipe.groups
    assert group.partitions == SPARSE
    assert group.recipe.size(RANGE_SET) >= 3
    assert 16 * group.recipe.size(RANGE_SET) * sparse_blocks <= budget
    assert 0 < choice.bounds["id"] < 1
    chosen = false_blocks(made(days, choice), days)
    evenly = update_index(read_snapshot(days), COLUMNS, recipes={"id": Recipe(range_set=2)})
    assert chosen < 0.5 * false_blocks(evenly, days)


def test_what_a_group_goes_without_is_not_looked_for_again(days: Path) -> None:
    index = made(days, choose_recipes(read_snapshot(days), COLUMNS, budget=1_000))
    assert index.recipes["id"].groups
    (held,) = index.held_synopses()
    assert (held.kind, held.blocks) == ("range_set", 3 * BLOCKS)
    assert update_index(read_snapshot(days), COLUMNS).names == index.names
    assert update_index(read_snapshot(days), COLUMNS, recipes=index.decided).names == index.names
    merged = compact(index, read_snapshot(days), always=True)
    assert merged.recipes == index.recipes
    assert update_index(read_snapshot(days), COLUMNS).names == merged.names


def test_new_files_get_what_their_partition_has_and_new_partitions_the_general_recipe(days: Path) -> None:
    recipe = Recipe(range_set=2, groups=(GroupRecipe(SPARSE, Recipe(range_set=6, grt=16)),))
    update_index(read_snapshot(days), COLUMNS, recipes={"id": recipe})
    ids = [0, 10, 100, 1_000, 10_000, 100_000]
    for number in (1, 10, 77):
        write_parquet(days / f"day={number:02}" / "g.parquet", {"id": ids})
    index = update_index(read_snapshot(days), COLUMNS)
    ranges, bits = (index.reader().arrays("id", LONG, kind) for kind in (RANGE_SET, GRT))
    assert ranges is not None
    assert bits is not None
    new = {path: at for at, path in enumerate(index.files["path"].to_pylist()) if path.endswith("g.parquet")}
    lengths, known = {}, {}
    for path, file in new.items():
        (block,) = np.flatnonzero(index.map.file_of_block == file)
        lengths[path[4:6]] = len(ranges["ranges:id"][int(block)]) // 2
        known[path[4:6]] = bool(bits["grt:id"][int(block)].as_py())
    assert lengths == {"01": 2, "10": 6, "77": 2}
    assert known == {"01": False, "10": True, "77": False}
    assert len(bits["grttable:id"].unique().drop_null()) == 1, "one table for the column"
    assert [each.blocks for each in index.held_synopses()] == [12 * BLOCKS + 3, 3 * BLOCKS + 1]
    assert false_blocks(index, days) >= 0


def test_an_index_from_before_groups(days: Path) -> None:
    assert Recipe.from_json({"range_set": 4}) == Recipe(range_set=4)
    assert Recipe(range_set=4).to_json() == {"range_set": 4}, "and as it was written then"
    index = update_index(read_snapshot(days), COLUMNS, recipes={"id": Recipe(range_set=4)})
    assert index.recipes["id"].of(day(10)) == Recipe(range_set=4)
    mixed = Recipe(range_set=4, groups=(GroupRecipe(SPARSE, Recipe(range_set=8), "reasons"),))
    assert Recipe.from_json(mixed.to_json()) == mixed
    assert Recipe.from_json(mixed.to_json()).groups[0].why == "reasons"
    changed = update_index(read_snapshot(days), COLUMNS, recipes={"id": mixed})
    assert open_index(days).recipes == {"id": mixed}
    assert changed.rates == {}
    back = update_index(read_snapshot(days), COLUMNS, recipes={"id": Recipe(range_set=4)})
    assert back.recipes == index.recipes


def test_status_says_who_has_what_and_why(days: Path) -> None:
    made(days, choose_recipes(read_snapshot(days), COLUMNS, budget=1_000))
    found = status(days)
    (line,) = found.synopses["id"].apart
    assert line.startswith("day=09 and 2 others: range-set:")
    assert "; others: none (spares queries " in line
    assert line.endswith("% of the rows there, and 0% in the others)")
    out = io.StringIO()
    print_status(Console(file=out, width=200), found)
    assert f"id in {line}" in out.getvalue()
    (group,) = status_data(found)["columns"]["id"]["synopses"]["recipe"]["groups"]
    assert group["partitions"][0] == {"day": "09"}


def test_a_budget_that_is_too_small_for_one_group_says_so(days: Path) -> None:
    choice = choose_recipes(read_snapshot(days), COLUMNS, budget=432)
    assert choice.recipes["id"].groups[0].partitions == SPARSE
    (note,) = (note for note in choice.notes if "too few" in note)
    assert (
        note
        == "432 bytes are too few for a synopsis in some partitions: day=00 and 8 others (the smallest synopsis "
        + ("takes 576).")
    )
    nothing = choose_recipes(read_snapshot(days), COLUMNS, budget=100)
    assert not nothing.recipes["id"]
    assert "100 bytes are too few for any synopsis beside the zone map: the smallest takes 192." in nothing.notes


def test_queries_that_pick_partitions_count_there_alone(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_days(root, 12, range(12))
    for number in range(6, 12):  # alike but for their size, so that they are told apart
        ids = np.concatenate([block[::5] for block in sparse(np.random.default_rng(number))])
        write_parquet(root / f"day={number:02}" / "f.parquet", {"id": ids}, row_group_size=ROWS // 5)
    chance, id_of, date = np.random.default_rng(3), Column("id", LONG), Column("day", INTEGER)
    points = [IntervalSet.point(LONG, int(value)) for value in chance.integers(0, 2**40, 40)]
    late = IntervalSet.points(INTEGER, range(6, 12))
    asked = ColumnUsage(
        {id_of: dict.fromkeys(points, 2), date: {late: 80}},
        filters={frozenset([(id_of, point), (date, late)]): 2 for point in points},
    )
    recipe = choose_recipes(read_snapshot(root), COLUMNS, budget=24 * 64, asked=asked).recipes["id"]
    assert recipe.of(day(7)).size(RANGE_SET) >= 3
    assert not recipe.of(day(2))
    everywhere = ColumnUsage(asked.ranges, filters={frozenset([(id_of, point)]): 2 for point in points})
    assert choose_recipes(read_snapshot(root), COLUMNS, budget=48 * 64, asked=everywhere).recipes["id"].of(day(2))


def test_few_partitions_of_a_kind_are_in_the_sample(tmp_path: Path) -> None:
    write_days(tmp_path, 90, range(41, 42))
    snapshot = read_snapshot(tmp_path)
    sample = sample_blocks(snapshot, columns=["id"])
    assert sum(block.file.partition == day(41) for block in sample.blocks) == BLOCKS
    assert len(sample.blocks) <= 32 + BLOCKS
    many_alike, one = block_groups(sample, sample.codes(COLUMNS))
    assert one.partitions == (day(41),)
    assert (len(many_alike.partitions), many_alike.of_blocks, one.of_blocks) == (89, 89 * BLOCKS, BLOCKS)
    assert str(one) == "day=41"


def test_tables_whose_partitions_are_alike_are_one_group(tmp_path: Path) -> None:
    write_days(tmp_path / "alike", 9, range(9))
    sample = sample_blocks(read_snapshot(tmp_path / "alike"), columns=["id"])
    assert block_groups(sample, sample.codes(COLUMNS)) == []
    assert not choose_recipes(read_snapshot(tmp_path / "alike"), COLUMNS, budget=10_000).recipes["id"].groups
    write_parquet(tmp_path / "single" / "f.parquet", {"id": [1, 2**40]})
    assert block_groups(sample_blocks(read_snapshot(tmp_path / "single")), {}) == []


@pytest.mark.parametrize(
    "options", [{}, {"budget": 10_000}, {"asked": ColumnUsage()}], ids=["default", "budget", "log"]
)
def test_a_table_of_empty_and_broken_files_has_zone_maps_alone(tmp_path: Path, options: dict[str, Any]) -> None:
    for number in range(2):
        write_parquet(tmp_path / f"{number}.parquet", {"x": pa.array([], pa.int64())})
    (tmp_path / "2.parquet").write_bytes(b"PAR1 no more")
    choice = choose_recipes(read_snapshot(tmp_path), {"x": LONG}, **options)
    assert choice.recipes == {"x": Recipe()}


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ids in no order, 24 bytes a row: a hundredth of that is less than two bits for each."""
    root = tmp_path_factory.mktemp("orders")
    rng = np.random.default_rng(2)
    ids = rng.permutation(160_000).reshape(8, -1)
    for number, each in enumerate(ids):
        write_parquet(root / f"{number}.parquet", {"id": each, "x": rng.random(len(each)), "y": rng.random(len(each))})
    return root


def lookups_of(ids: range, others: int) -> ColumnUsage:
    """A log of lookups and of as many other queries as given."""
    id_of, x = Column("id", LONG), Column("x", DOUBLE)
    points = [IntervalSet.point(LONG, value) for value in ids]
    low = IntervalSet.at_least(DOUBLE, 0.5)
    return ColumnUsage(
        {id_of: dict.fromkeys(points, 1), x: {low: others}},
        filters={**{frozenset([(id_of, point)]): 1 for point in points}, frozenset([(x, low)]): others},
    )


def test_the_limit_gives_way_to_what_spares_queries_more_than_it_takes(orders: Path) -> None:
    snapshot, columns = read_snapshot(orders), {"id": LONG, "x": DOUBLE, "y": DOUBLE}
    limit = snapshot.bytes // 100
    often, seldom = lookups_of(range(0, 160_000, 8_000), 80), lookups_of(range(0, 160_000, 8_000), 20_000)
    paid = choose_recipes(snapshot, columns, asked=often)
    assert limit < paid.spent <= 4 * limit
    assert paid.recipes["id"].size(BLOOM)
    assert any("beyond the usual limit" in note and "20 of the log's queries" in note for note in paid.notes)
    for options in ({"asked": seldom}, {"asked": often, "limit": "1%"}, {"asked": often, "arranged": ["id"]}):
        kept = choose_recipes(snapshot, columns, **options)
        assert kept.spent <= limit, options
        assert not any("beyond" in note for note in kept.notes)


def test_a_column_has_one_global_range_table() -> None:
    with pytest.raises(SidestepError, match="one global range table"):
        Recipe(grt=64, groups=(GroupRecipe(SPARSE, Recipe(grt=128)),))


flat = st.sampled_from(
    [
        Recipe(),
        Recipe(range_set=2),
        Recipe(range_set=5, bloom=64),
        Recipe(gap_histogram=3),
        Recipe(grt=6),
        Recipe(range_set=2, gap_histogram=2, bloom=64, grt=6),
    ]
)


@many
@given(cases(), flat, flat, st.booleans())
def test_no_row_is_lost_by_recipes_of_groups(case: Any, general: Recipe, apart: Recipe, merged: bool) -> None:
    names, files, predicate, proleptic, later = case
    types = {name: TYPES[name] for name in names}
    recipe = Recipe(**dict(general.sizes), groups=(GroupRecipe(frozenset([(("p", "1"),)]), apart),))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        for number, blocks in enumerate(files):
            write_blocks(root / f"p={number % 2}" / f"f{number}", blocks, names, proleptic)
            if later or number == len(files) - 1:
                first = number == 0 or not later
                index = update_index(
                    read_snapshot(root), types, recipes=dict.fromkeys(names, recipe) if first else None
                )
        if merged:
            index = compact(index, read_snapshot(root), always=True)
        catalog = index.catalog(types)
        mask = kept_blocks(catalog, normalize(predicate))
        order = {path: number for number, path in enumerate(index.files["path"].to_pylist())}
        by_path = sorted(
            ((order[f"p={number % 2}/f{number}"], blocks) for number, blocks in enumerate(files)),
            key=lambda each: each[0],
        )
        rows = list(itertools.chain.from_iterable(blocks for _, blocks in by_path))
        assert catalog.blocks == len(rows)
        lost = [row for block, keep in zip(rows, mask, strict=True) if not keep for row in block]
        assert [row for row in lost if evaluate(predicate, row, opaque_value) is True] == []
        assert index.decided == dict.fromkeys(names, recipe)
        assert update_index(read_snapshot(root), types).names == index.names, "nothing is missing"
