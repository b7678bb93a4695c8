"""Kinds of synopses: adding one takes a line, and of none does an unknown block get lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import sidestep
from sidestep.cli import commands
from sidestep.cli.show import print_status, status_data
from sidestep.errors import SidestepError
from sidestep.predicate import column, compare, normalize
from sidestep.predicate.formula import Compares, Formula, Matches, Null, Within, atoms
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.like import parse
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import LONG, STRING
from sidestep.store import compact, open_index, read_snapshot, status, update_index
from sidestep.synopsis import Synopsis, UnionVectors, explain_skips, kept_blocks, partition_values, zone_maps
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.kinds import KINDS, register
from sidestep.synopsis.range_set import RANGE_SET
from sidestep.synopsis.recipe import Recipe, parse_recipes, recipe_text
from tests.spark.tables import rows_of, switched_off
from tests.synopsis.remainders import REMAINDERS
from tests.synopsis.stored import stored, table_for
from tests.synopsis.tables import COLUMNS, TYPES, arrow_array, blocks_of, catalog_of, predicates
from tests.synopsis.test_exhaustive import sets_of
from tests.synopsis.test_soundness import PAIRS, SINGLES, opaque_value

X = column("x", LONG)


@pytest.fixture
def remainders() -> Iterator[SynopsisKind[Any]]:
    """The one line that it takes to add a kind, taken back afterwards."""
    register(REMAINDERS)
    yield REMAINDERS
    del KINDS[REMAINDERS.key]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three files from 0 to 700, whose values leave 0, 1 and 2 when they are divided by 7."""
    for number in range(3):
        rows = {"x": [*range(number, 700, 7)], "s": [f"{number}"] * 100}
        pq.write_table(pa.table(rows), tmp_path / f"f{number}.parquet")
    return tmp_path


class TestAKindThatWasAdded:
    def kept(self, root: Path, value: int) -> list[bool]:
        return list(kept_blocks(open_index(root).catalog({"x": LONG}), normalize(compare(X, "=", value))))

    def test_it_is_collected_stored_read_used_explained_and_counted(self, remainders, table: Path):
        columns = {"x": LONG, "s": STRING}
        recipes = parse_recipes("x=remainders:7", columns)
        assert recipe_text(recipes["x"]) == "remainders:7"
        index = update_index(read_snapshot(table), columns, recipes=recipes)
        assert index.recipes == {"x": Recipe(remainders=7)}
        assert {"remainders:x", "divisor:x"} <= index.index_files[0].names
        assert self.kept(table, 50) == [False, True, False], "50 leaves 1"
        assert self.kept(table, 55) == [False, False, False], "55 leaves 6"
        (zones, found) = explain_skips(index.catalog({"x": LONG}), normalize(compare(X, "=", 50)))
        assert (zones.synopsis, zones.alone.blocks) == ("zone map", 0)
        assert (found.synopsis, found.beyond.blocks) == ("set of remainders", 2)
        (held,) = status(table).synopses["x"].held
        assert (held.kind, held.size, held.blocks) == ("remainders", 7, 3)
        assert held.text == "set of remainders of 7 remainders"
        assert held.bytes > 0

    def test_it_is_shown(self, remainders, table: Path):
        update_index(read_snapshot(table), {"x": LONG}, recipes={"x": Recipe(remainders=7)})
        out = Console(width=300)
        with out.capture() as text:
            print_status(out, status(table))
        assert "set of remainders of 7 remainders" in text.get()
        assert status_data(status(table))["columns"]["x"]["synopses"]["kinds"]["remainders"]["blocks"] == 3

    def test_it_is_kept_by_later_files_and_compaction(self, remainders, table: Path):
        recipe = Recipe(range_set=2, remainders=7)
        update_index(read_snapshot(table), {"x": LONG}, recipes={"x": recipe})
        pq.write_table(pa.table({"x": [*range(6, 700, 7)]}), table / "f3.parquet")
        pq.write_table(pa.table({"x": ["text"]}), table / "f4.parquet")
        index = update_index(read_snapshot(table), {"x": LONG})
        index = compact(index, read_snapshot(table), always=True)
        assert index.recipes == {"x": recipe}
        assert self.kept(table, 55) == [False, False, False, True, True], "what is no number is unknown"
        assert [held.blocks for held in status(table).synopses["x"].held] == [4, 4]

    def test_without_it_its_index_is_read_all_the_same(self, table: Path):
        register(REMAINDERS)
        try:
            update_index(read_snapshot(table), {"x": LONG}, recipes={"x": Recipe(range_set=2, remainders=7)})
        finally:
            del KINDS[REMAINDERS.key]
        assert open_index(table).recipes == {"x": Recipe(range_set=2)}
        assert self.kept(table, 55) == [True, True, True]

    @pytest.mark.spark
    def test_it_works_on_spark(self, remainders, spark, table: Path):
        sidestep.enable(spark)
        found = sidestep.index(spark, str(table), synopses="x=remainders:7,none")
        assert found.synopses["x"].held[0].blocks == 3
        df = spark.read.parquet(str(table)).where("x = 50")
        with switched_off(spark):
            expected = rows_of(spark.read.parquet(str(table)).where("x = 50"))
        assert rows_of(df) == expected
        assert len(expected) == 1
        (scan,) = sidestep.metrics(df).scans
        assert scan.files == 1
        assert "set of remainders" in str(sidestep.explain(df))

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def test_it_loses_no_row(self, data: st.DataObject):
        names = data.draw(st.sampled_from([list(group) for group in SINGLES + PAIRS]))
        blocks, predicate = data.draw(blocks_of(names)), data.draw(predicates(names))
        columns = {}
        for name in names:
            arrays = [arrow_array([row[name] for row in block], TYPES[name]) for block in blocks]
            columns[name] = REMAINDERS.read(TYPES[name], added(REMAINDERS, name, arrays), [])[0]
        kept = kept_blocks(catalog_of(blocks, REMAINDERS.synopsis(columns)), normalize(predicate))
        skipped = itertools.chain.from_iterable(block for block, keep in zip(blocks, kept, strict=True) if not keep)
        assert [row for row in skipped if evaluate(predicate, row, opaque_value) is True] == []


def added(kind: SynopsisKind[Any], name: str, arrays: Sequence[pa.Array]) -> dict[str, Any]:
    register(kind)
    try:
        return stored(kind, TYPES[name], arrays, kind.sizes.usual)
    finally:
        del KINDS[kind.key]


def test_names_and_columns_are_each_kinds_own():
    with pytest.raises(SidestepError, match="range-set has not"):
        register(RANGE_SET)
    with pytest.raises(SidestepError, match="range-set has not"):
        register(replace(REMAINDERS, columns={"ranges": pa.int64()}))
    with pytest.raises(SidestepError, match="no synopsis remainders"):
        Recipe(remainders=3)


def test_the_command_line_names_every_kind():
    """It speaks to the public API alone, so its help is a text: this is what keeps it true."""
    option = get_type_hints(commands.index, include_extras=True)["synopsis"].__metadata__[0]
    assert all(kind.name in option.help for kind in KINDS.values())


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_what_means_unknown_is_no_synopsis(kind: SynopsisKind[Any]):
    """Blocks with values, with NULLs alone, looked at in vain, and never looked at."""
    parts = stored(kind, LONG, [pa.array([1, 5]), pa.nulls(2, pa.int64()), None], kind.sizes.usual)
    first = pa.concat_arrays([parts[next(iter(kind.columns))], pa.nulls(1, next(iter(kind.columns.values())))])
    assert kind.known(first).tolist() == [True, True, False, False]
    assert kind.sizes.least <= kind.sizes.usual <= kind.sizes.limit


# ---- unknown means keep


class Silenced:
    """A synopsis that answers no for every block, and says truly which ones it knows nothing of."""

    def __init__(self, synopsis: Synopsis) -> None:
        self.synopsis, self.name, self.nbytes = synopsis, synopsis.name, 0

    def can_satisfy(self, formula: Formula) -> Answer | None:
        answer = self.synopsis.can_satisfy(formula)
        return None if answer is None else Answer(np.zeros_like(answer.possible), answer.unknown)


def check_unknown(synopsis: Synopsis, formulas: Sequence[Formula], unknown: Sequence[int]) -> None:
    """Unknown blocks are kept whatever the synopsis answers for them, which is nothing; the others it decides."""
    answered = 0
    for formula in formulas:
        answer = synopsis.can_satisfy(formula)
        if answer is None:
            continue
        answered += 1
        assert np.flatnonzero(answer.unknown if answer.unknown is not None else []).tolist() == list(unknown)
        assert not answer.possible[list(unknown)].any(), "what is unknown is not the synopsis's to keep"
        rows: list[list[Any]] = [[] for _ in answer.possible]
        for told in (synopsis, Silenced(synopsis)):
            kept = kept_blocks(catalog_of(rows, told), formula)
            assert kept[list(unknown)].all()
        assert np.flatnonzero(kept).tolist() == list(unknown), "of the others it is the synopsis's word that counts"
    assert answered


@pytest.mark.parametrize("name", ["int", "double", "text", "wide"])
@pytest.mark.parametrize("kind", [*KINDS.values(), REMAINDERS], ids=str)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_blocks_that_a_kind_knows_nothing_of_are_kept(kind: SynopsisKind[Any], name: str, data: st.DataObject):
    """Of some blocks the job could read no values, and some it never looked at."""
    type, added_now = TYPES[name], kind.key not in KINDS
    blocks = data.draw(blocks_of([name]))
    state = [data.draw(st.sampled_from(["known", "in vain", "never"])) for _ in blocks]
    arrays: list[pa.Array | None] = [arrow_array([row[name] for row in block], type) for block in blocks]
    if added_now:
        register(kind)
    try:
        size = max(kind.sizes.least, 3)
        table = table_for(type, arrays, size) if kind.tables is not None else None
        seen = [array if told == "known" else None for array, told in zip(arrays, state, strict=True)]
        parts = stored(kind, type, seen, size, table)
    finally:
        if added_now:
            del KINDS[kind.key]
    looked_at = pa.array([told != "never" for told in state])
    parts = {part: pa.compute.if_else(looked_at, values, None) for part, values in parts.items()}
    read = kind.read(type, parts, [] if table is None else [table])
    unknown = [at for at, told in enumerate(state) if told != "known"]
    for held in read if kind is not REMAINDERS or name == "int" else ():
        formulas = [Within(COLUMNS[name], ranges) for ranges in sets_of(type) if not ranges.is_empty]
        check_unknown(kind.synopsis({name: held}), formulas, unknown)


def test_blocks_without_a_zone_map_are_kept():
    index = {
        "lower:x": pa.array([1, None, None, None]),
        "upper:x": pa.array([1, None, None, None]),
        "nulls:x": pa.array([0, None, 9, None]),
        "lower:y": pa.array([5, None, 5, 5]),
        "upper:y": pa.array([9, None, 9, 9]),
        "nulls:y": pa.array([0, None, 0, 0]),
    }
    maps = zone_maps({"x": LONG, "y": LONG}, index, np.full(4, 9))
    y = column("y", LONG)
    check_unknown(
        maps, [Within(X, IntervalSet.point(LONG, 7)), Null(X), Compares(y, "<", X), Compares(y, "=", X)], [1, 3]
    )
    texts = zone_maps(
        {"s": STRING}, {"lower:s": pa.array([b"a", None]), "upper:s": pa.array([b"a", None])}, np.full(2, 9)
    )
    check_unknown(texts, [Matches(column("s", STRING), parse("%z"), False)], [1])


def test_a_bound_that_is_missing_is_known_to_be_missing():
    """Of NULLs nothing is known, of values something is: each atom has its own unknown blocks."""
    maps = zone_maps({"x": LONG}, {"lower:x": pa.array([3]), "upper:x": pa.array([5])}, np.full(1, 9))
    check_unknown(maps, [Null(X)], [0])
    check_unknown(maps, [Within(X, IntervalSet.point(LONG, 7))], [])


def test_blocks_whose_partition_value_is_not_understood_are_kept():
    files = np.array([0, 1, 1, 2], dtype=np.int32)
    values = partition_values({"x": LONG}, {"x": ["5", "0x5", None]}, files)
    check_unknown(values, [Within(X, IntervalSet.point(LONG, 7)), Null(X)], [1, 2])


def test_blocks_without_a_union_vector_are_kept():
    feature = normalize(compare(X, ">", 5))
    words = np.array([[1, 0, 1, 0]], dtype=np.uint64)
    vectors = UnionVectors((feature,), words, np.array([True, True, False, False]))
    check_unknown(vectors, [feature, *atoms(feature)], [2, 3])
