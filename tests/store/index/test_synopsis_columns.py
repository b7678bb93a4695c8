"""Synopses beside zone maps, through files and back: sound for every type, kept up to date, and never needed."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate.build import between, column, compare
from sidestep.predicate.formula import Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import And, Column
from sidestep.predicate.normal import normalize
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import DATE, DOUBLE, INTEGER, LONG, STRING, TIME, DataType, Kind, parse_type
from sidestep.store import TableIndex, append_blocks, block_summaries, compact, open_index, read_snapshot, update_index
from sidestep.store.index import table_index as index_module
from sidestep.store.sidecars.range_tables import load_range_table, save_range_table
from sidestep.synopsis import explain_skips, kept_blocks
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.recipe import Recipe
from tests.store.sealed import rewrite
from tests.store.tables import set_age, write_parquet
from tests.synopsis.tables import TYPES, Blocks, arrow_array, blocks_of, predicates
from tests.synopsis.test_soundness import PAIRS, SINGLES, opaque_value

EACH = {
    "range-set": Recipe(range_set=3),
    "gap histogram": Recipe(gap_histogram=3),
    "Bloom filter": Recipe(bloom=64),
    "global range table": Recipe(grt=6),
    "value set": Recipe(values=3),
}
ALL = Recipe(range_set=2, gap_histogram=2, bloom=64, grt=6, values=2)
many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_warned", set())


def write_blocks(path: Path, blocks: Blocks, names: Sequence[str], proleptic: bool = True) -> None:
    """A file with a row group per block, by a writer that names itself or by one that does not."""
    arrays = []
    for name in names:
        array = arrow_array([row[name] for block in blocks for row in block], TYPES[name])
        arrays.append(array.cast(pa.time64("us")) if TYPES[name].kind is Kind.TIME else array)
    table = pa.Table.from_arrays(arrays, names=list(names))
    if proleptic:
        table = table.replace_schema_metadata({"org.apache.spark.version": "4.0.0"})
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, table.schema) as writer:
        begin = 0
        for block in blocks:
            writer.write_table(table.slice(begin, len(block)), row_group_size=max(1, len(block)))
            begin += len(block)
    set_age(path, 10)


@st.composite
def cases(draw: st.DrawFn):
    names = draw(st.sampled_from([list(group) for group in SINGLES + PAIRS]))
    files = [
        [block for block in draw(blocks_of(names, 5)) if block] or [[dict.fromkeys(names)]]
        for _ in range(draw(st.integers(1, 3)))
    ]
    return names, files, draw(predicates(names)), draw(st.booleans()), draw(st.booleans())


@pytest.mark.parametrize("recipe", [*EACH.values(), ALL], ids=[*EACH, "all"])
@many
@given(cases())
def test_no_row_is_lost_through_files_and_later_files(recipe: Recipe, case: Any) -> None:
    names, files, predicate, proleptic, merged = case
    types = {name: TYPES[name] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        for number, blocks in enumerate(files):
            # One by one: all but the first are encoded by a table that was made without them.
            write_blocks(root / f"f{number}", blocks, names, proleptic)
            given_now = dict.fromkeys(names, recipe) if number == 0 else None
            index = update_index(read_snapshot(root), types, recipes=given_now)
        if merged:
            index = compact(index, read_snapshot(root), always=True)
        catalog = index.catalog(types)
        mask = kept_blocks(catalog, normalize(predicate))
        rows = list(itertools.chain.from_iterable(files))
        assert catalog.blocks == len(rows)
        lost = [row for block, keep in zip(rows, mask, strict=True) if not keep for row in block]
        assert [row for row in lost if evaluate(predicate, row, opaque_value) is True] == []
        assert index.recipes == dict.fromkeys(names, recipe)


def kept(index: TableIndex, name: str, type: DataType, *values: Any) -> list[bool]:
    ranges = IntervalSet.points(type, values)
    mask = kept_blocks(index.catalog({name: type}), Within(Column(name, type), ranges))
    return [bool(keep) for keep in mask]


@pytest.fixture
def gaps(tmp_path: Path) -> Path:
    """Three files of a block each, all from 0 to 1,000 with a gap of their own."""
    root = tmp_path / "t"
    for number, middle in enumerate((100, 300, 500)):
        write_parquet(root / f"f{number}", {"x": [0, middle, middle + 9, 1000], "s": [f"k{i}" for i in range(4)]})
    return root


COLUMNS = {"x": LONG, "s": STRING}


@pytest.mark.parametrize("kind", EACH)
def test_a_value_in_a_gap_is_in_no_block(gaps: Path, kind: str) -> None:
    recipe = {
        "range-set": Recipe(range_set=4),
        "gap histogram": Recipe(gap_histogram=4),
        "Bloom filter": Recipe(bloom=1024),
        "global range table": Recipe(grt=64),
        "value set": Recipe(values=4),
    }[kind]
    index = update_index(read_snapshot(gaps), COLUMNS)
    assert kept(index, "x", LONG, 700) == [True, True, True]
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": recipe})
    assert kept(index, "x", LONG, 700) == [False, False, False]
    assert kept(index, "x", LONG, 300, 700) == [False, True, False]
    assert kept(index, "x", LONG, 0) == [True, True, True]
    assert index.recipes == {"x": recipe}
    assert index.decided["s"] == Recipe()
    (skip,) = explain_skips(index.catalog({"x": LONG}), Within(Column("x", LONG), IntervalSet.point(LONG, 700)))[1:]
    assert (skip.synopsis, skip.beyond.blocks) == (kind, 3)
    (held,) = index.held_synopses()
    assert (held.column, held.blocks) == ("x", 3)
    assert held.bytes > 0
    assert index.recipes["x"].to_json() == {held.kind: held.size}
    assert open_index(gaps).held_synopses() == (held,)


def test_conditions_on_one_column_meet_a_range_set_as_one_interval(gaps: Path) -> None:
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(range_set=3)})
    catalog = index.catalog({"x": LONG})
    x = column("x", LONG)
    inside = normalize(And((compare(x, ">", 110), compare(x, "<", 290))))
    assert kept_blocks(catalog, inside).tolist() == [False, False, False]
    assert kept_blocks(catalog, normalize(And((compare(x, ">", 110), compare(x, "<=", 300))))).tolist() == [
        False,
        True,
        False,
    ]
    assert kept_blocks(catalog, normalize(between(x, 510, 999))).tolist() == [False, False, False]


def test_new_files_get_what_the_others_have(gaps: Path) -> None:
    update_index(read_snapshot(gaps), COLUMNS, recipes={"x": ALL}, rates={"x": 0.25, "s": 0.5})
    (table,) = (path for path in (gaps / "_sidestep").iterdir() if path.name.startswith("_grt-"))
    write_parquet(gaps / "f3", {"x": [-50, 2000], "s": ["a", "b"]})
    index = update_index(read_snapshot(gaps), COLUMNS)
    assert index.recipes == {"x": ALL}
    assert index.rates == {"x": 0.25}
    assert kept(index, "x", LONG, 2000) == [False, False, False, True]
    assert kept(index, "x", LONG, 1500) == [False, False, False, False]
    found = [path for path in (gaps / "_sidestep").iterdir() if path.name.startswith("_grt-")]
    assert found == [table], "values outside of the table need no new one"
    bits = index.reader().arrays("x", LONG, GRT)
    assert bits is not None
    assert bits["grttable:x"].null_count == 0
    write_parquet(gaps / "f9", {"x": [700], "s": ["a"]})
    assert index.positions(read_snapshot(gaps).files).tolist() == [0, 1, 2, 3, -1], "what is not indexed is unknown"


def test_a_file_that_is_replaced_is_indexed_anew(gaps: Path) -> None:
    update_index(read_snapshot(gaps), COLUMNS, recipes={"x": ALL})
    write_parquet(gaps / "f1", {"x": [0, 700, 1000], "s": ["a", "b", "c"]}, age=5)
    index = open_index(gaps)
    assert index.positions(read_snapshot(gaps).files).tolist() == [0, -1, 2]
    index = update_index(read_snapshot(gaps), COLUMNS)
    positions = index.positions(read_snapshot(gaps).files)
    assert np.array(kept(index, "x", LONG, 700))[positions].tolist() == [False, True, False]
    assert np.array(kept(index, "x", LONG, 300))[positions].tolist() == [False, False, False]


def test_other_recipes_take_the_place_of_the_old_ones(gaps: Path) -> None:
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(range_set=2), "s": Recipe(bloom=64)})
    assert [held.kind for held in index.held_synopses()] == ["range_set", "bloom"]
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(range_set=4), "s": Recipe(bloom=64)})
    assert kept(index, "x", LONG, 50) == [False, False, False], "of two ranges, one would reach from 0 on"
    assert len(index.index_files) == 1
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(range_set=4)})
    assert index.recipes == {"x": Recipe(range_set=4)}
    assert not any(name.startswith("bloom:") for name in index.index_files[0].reader.schema_arrow.names)
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={})
    assert index.recipes == {}
    assert index.decided == {"x": Recipe(), "s": Recipe()}
    assert kept(index, "x", LONG, 50) == [True, True, True]


def test_only_some_columns_are_spoken_of(gaps: Path) -> None:
    update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(range_set=4)})
    index = update_index(read_snapshot(gaps), {"s": STRING}, recipes={"s": Recipe(bloom=64)})
    assert index.recipes == {"x": Recipe(range_set=4), "s": Recipe(bloom=64)}
    assert kept(index, "x", LONG, 50) == [False, False, False]


def test_nothing_is_read_again_without_need(gaps: Path) -> None:
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": ALL})
    again = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": ALL})
    assert update_index(read_snapshot(gaps), COLUMNS).names == again.names == index.names
    rebuilt = update_index(read_snapshot(gaps), COLUMNS, rebuild=True)
    assert rebuilt.names != index.names
    assert rebuilt.recipes == {"x": ALL}
    assert len(rebuilt.index_files) == 1


def test_a_block_without_a_synopsis_is_unknown_to_that_one_only(gaps: Path) -> None:
    update_index(read_snapshot(gaps), COLUMNS, recipes={"x": ALL})
    write_parquet(gaps / "f3", {"x": [0, 1000], "s": ["a", "b"]})
    snapshot = read_snapshot(gaps)
    rows = block_summaries(snapshot.root, snapshot.files[3], COLUMNS)
    assert rows is not None
    append_blocks(open_index(gaps).folder, [rows], COLUMNS)
    index = open_index(gaps)
    assert kept(index, "x", LONG, 700) == [False, False, False, True]
    assert kept(index, "x", LONG, 2000) == [False, False, False, False], "its zone map still knows"
    merged = compact(index, read_snapshot(gaps), always=True)
    assert kept(merged, "x", LONG, 700) == [False, False, False, True]
    assert kept(update_index(read_snapshot(gaps), COLUMNS), "x", LONG, 700) == [False] * 4


@pytest.mark.parametrize("damage", ["gone", "empty", "other"])
def test_a_range_table_that_is_gone_or_damaged_skips_nothing(gaps: Path, damage: str) -> None:
    update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(grt=64)})
    (table,) = (gaps / "_sidestep").glob("_grt-*")
    if damage == "gone":
        table.unlink()
    else:
        table.write_text("" if damage == "empty" else table.read_text().replace("bigint", "int"))
    index = open_index(gaps)
    with pytest.warns(SidestepWarning, match="cannot be used"):
        assert kept(index, "x", LONG, 700) == [True, True, True]
    assert kept(open_index(gaps), "x", LONG, 701) == [True, True, True], "and that is not said again"
    index = update_index(read_snapshot(gaps), COLUMNS)
    assert kept(index, "x", LONG, 700) == [False, False, False], "it is made anew"


def test_range_tables_are_written_once(gaps: Path) -> None:
    index = update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(grt=64)})
    table = index.reader().newest_table("x", LONG)
    assert table is not None
    save_range_table(index.folder, table)
    found = load_range_table(index.folder, table.identity)
    assert found is not None
    assert found.to_json() == table.to_json()
    assert load_range_table(index.folder, "../escape") is None
    assert load_range_table(index.folder, "0" * 16) is None


def test_old_range_tables_go_when_nothing_names_them(gaps: Path) -> None:
    update_index(read_snapshot(gaps), COLUMNS, recipes={"x": Recipe(grt=64)})
    (old,) = (gaps / "_sidestep").glob("_grt-*")
    set_age(old, 2 * 24 * 3600)
    write_parquet(gaps / "f3", {"x": [5, 7, 9], "s": ["a", "b", "c"]})
    update_index(read_snapshot(gaps), COLUMNS, rebuild=True)
    (new,) = (gaps / "_sidestep").glob("_grt-*")
    assert new != old
    update_index(read_snapshot(gaps), COLUMNS, recipes={})
    assert new.exists(), "a young one may be of a run that has not ended"


def test_synopses_speak_of_wider_types(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f", {"x": pa.array([1, 900], pa.int32())})
    index = update_index(read_snapshot(tmp_path), {"x": INTEGER}, recipes={"x": ALL})
    assert kept(index, "x", LONG, 500) == [False]
    assert kept(index, "x", LONG, 900) == [True]


BAD: dict[str, tuple[pa.Array, DataType, list[Any], list[Any]]] = {
    "nothing but NULL": (pa.nulls(4, pa.int64()), LONG, [1], []),
    "one value": (pa.array([7] * 5), LONG, [6, 8], [7]),
    "all distinct": (pa.array(range(0, 100_000, 3)), LONG, [-1, 100_001], [0, 3, 99_999]),
    "extremes": (pa.array([-(2**63), 0, 2**63 - 1]), LONG, [5, -(2**40), 2**63 - 2], [-(2**63), 0, 2**63 - 1]),
    "NaN and infinities": (
        pa.array([math.nan, -math.inf, 1.5, math.inf]),
        DOUBLE,
        [0.0, 2.0, 1e300],
        [math.nan, -math.inf, 1.5, math.inf],
    ),
    "a long prefix": (
        pa.array(["p" * 100 + tail for tail in ("a", "b", "y")]),
        STRING,
        ["p" * 100 + "m", "p" * 100, "p" * 99, "q", "p" * 100 + "z"],
        ["p" * 100 + tail for tail in ("a", "b", "y")],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_sound_and_still_of_use(tmp_path: Path, case: str) -> None:
    values, type, absent, present = BAD[case]
    write_parquet(tmp_path / "f", pa.table({"c": values}))
    write_parquet(tmp_path / "g", pa.table({"c": pa.nulls(2, values.type)}))
    large = Recipe(range_set=1000, gap_histogram=1000, bloom=1 << 20, grt=512)
    index = update_index(read_snapshot(tmp_path), {"c": type}, recipes={"c": large})
    for value in present:
        assert kept(index, "c", type, value) == [True, False]
    for value in absent:
        assert kept(index, "c", type, value) == [False, False]
    small = Recipe(range_set=1, gap_histogram=1, bloom=32, grt=2)
    index = update_index(read_snapshot(tmp_path), {"c": type}, recipes={"c": small})
    for value in present:
        assert kept(index, "c", type, value) == [True, False]


def test_a_filter_that_would_say_maybe_to_everything_is_not_kept(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f", {"x": range(100_000)})
    index = update_index(read_snapshot(tmp_path), {"x": LONG}, recipes={"x": Recipe(bloom=32)})
    assert index.held_synopses()[0].bytes < 200
    assert kept(index, "x", LONG, 5) == [True]


def test_dates_that_a_session_may_shift_have_no_synopses(tmp_path: Path) -> None:
    days = pa.array([-200_000, 19_000], pa.date32())
    write_parquet(tmp_path / "f", pa.table({"d": days}))
    write_parquet(tmp_path / "g", pa.table({"d": days}).replace_schema_metadata({"org.apache.spark.version": "4.0.0"}))
    write_parquet(tmp_path / "h", pa.table({"d": pa.array([18_000, 19_000], pa.date32())}))
    index = update_index(read_snapshot(tmp_path), {"d": DATE}, recipes={"d": ALL})
    assert kept(index, "d", DATE, 18_500) == [True, False, False]


def test_times_that_lose_digits_have_no_synopses(tmp_path: Path) -> None:
    coarse = parse_type("time(3)")
    write_parquet(tmp_path / "f", pa.table({"c": pa.array([1_500, 900_000_700], pa.time64("us"))}))
    index = update_index(read_snapshot(tmp_path), {"c": coarse}, recipes={"c": ALL})
    assert kept(index, "c", coarse, 1_000_000) == [True], "1,500 microseconds are read as one millisecond"
    index = update_index(
        read_snapshot(tmp_path), {"c": TIME}, open_index(tmp_path, tmp_path / "index"), recipes={"c": ALL}
    )
    assert kept(index, "c", TIME, 2_000_000) == [False]


def test_recipes_that_cannot_be_followed_are_refused(gaps: Path) -> None:
    with pytest.raises(SidestepError, match="Column y cannot have synopses"):
        update_index(read_snapshot(gaps), COLUMNS, recipes={"y": ALL})
    with pytest.raises(SidestepError, match="no order"):
        update_index(read_snapshot(gaps), {"x": parse_type("map<int,int>")}, recipes={"x": ALL})
    with pytest.raises(SidestepError, match="at least 32 bytes"):
        Recipe(bloom=8)
    with pytest.raises(SidestepError, match="at least 2 bits"):
        Recipe(grt=1)
    with pytest.raises(SidestepError, match="whole number"):
        Recipe(range_set=-1)
    assert Recipe.from_json({"range_set": 2, "of the future": 7}) == Recipe(range_set=2)


def test_a_damaged_recipe_leaves_the_index_file_out(gaps: Path) -> None:
    update_index(read_snapshot(gaps), COLUMNS, recipes={"x": ALL})
    (path,) = (gaps / "_sidestep").glob("_index-*")
    rewrite(path, metadata={"sidestep.recipes": '{"x": {"grt": -1}}'})
    with pytest.warns(SidestepWarning, match="left out"):
        assert open_index(gaps).map.blocks == 0


def test_partition_columns_have_no_synopses(tmp_path: Path) -> None:
    write_parquet(tmp_path / "p=1" / "f", {"x": [0, 9]})
    index = update_index(read_snapshot(tmp_path), {"x": LONG, "p": INTEGER}, recipes={"x": ALL, "p": ALL})
    assert kept(index, "x", LONG, 5) == [False]
    again = update_index(read_snapshot(tmp_path), {"x": LONG, "p": INTEGER})
    assert again.names == index.names


@pytest.mark.filterwarnings("ignore:.* is of an older format")
class TestAnIndexOfTheVersionBefore:
    """Written before kinds had descriptors; its README tells what of."""

    FOLDER = Path(__file__).parent / "before"
    RECIPE = Recipe(range_set=3, gap_histogram=3, bloom=256, grt=32)

    def test_its_recipes_and_blocks_are_read(self):
        index = open_index(self.FOLDER)
        assert index.problems == ()
        assert index.recipes == {"x": self.RECIPE, "s": self.RECIPE}
        assert {(held.column, held.kind): held.blocks for held in index.held_synopses()} == {
            ("x", "range_set"): 5,
            ("x", "gap_histogram"): 5,
            ("x", "bloom"): 5,
            ("x", "grt"): 5,
            ("s", "range_set"): 6,
            ("s", "gap_histogram"): 6,
            ("s", "bloom"): 6,
            ("s", "grt"): 6,
        }
        assert index.covered({"x": LONG, "s": STRING}, index.recipes).all(), "nothing has to be indexed again"

    @pytest.mark.parametrize(
        ("id", "files"), [(5, [0]), (1003, [1]), (50_000, [1]), (100_007, [2]), (55, []), (777, [])]
    )
    def test_it_skips_as_it_did(self, id: int, files: list[int]):
        index = open_index(self.FOLDER)
        by_id = kept_blocks(index.catalog({"x": LONG}), normalize(compare(column("x", LONG), "=", id)))
        assert np.flatnonzero(by_id).tolist() == [*files, 5], "the last has an x that is no number"
        text = normalize(compare(column("s", STRING), "=", f"https://e/{id:09d}"))
        assert np.flatnonzero(kept_blocks(index.catalog({"s": STRING}), text)).tolist() == files
