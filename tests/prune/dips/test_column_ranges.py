"""What blocks hold in a column, as ranges: by every synopsis, of every type, nothing that is there is left out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate import Column, Op
from sidestep.predicate.formula import Null, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import INTEGER, STRING
from sidestep.prune import Join, Query, Scan
from sidestep.prune.dips.carry import Comparand, carry_ranges
from sidestep.prune.dips.column_ranges import EVERYTHING, ColumnRanges, column_ranges
from sidestep.prune.dips.model import InducedOptions, TableView
from sidestep.synopsis import Catalog, Synopsis, partition_values
from sidestep.synopsis.bloom import BLOOM, BloomFilters
from sidestep.synopsis.gap_histogram import GAP_HISTOGRAM, GapHistograms
from sidestep.synopsis.global_ranges import GRT, GlobalRanges
from sidestep.synopsis.range_set import RANGE_SET, RangeSets
from sidestep.synopsis.value_set import VALUES, ValueSets
from sidestep.synopsis.values.code_ranges import code_ranges, value_ranges
from sidestep.synopsis.values.codes import codes_of
from sidestep.synopsis.values.forms import ArrowColumn
from tests.prune.joins import INNER
from tests.prune.plans import equal, prune
from tests.synopsis.stored import held, stored, table_for
from tests.synopsis.tables import COLUMNS, NAMES, TYPES, Blocks, arrow_array, blocks_of, catalog_of, zone_maps_of

KINDS = ("zone map", "range-set", "gap histogram", "value set", "global range table", "both", "all")


def arrays(blocks: Blocks, name: str) -> list[pa.Array]:
    return [arrow_array([row[name] for row in block], TYPES[name]) for block in blocks]


def known(blocks: Blocks, name: str, kind: str) -> ColumnRanges | None:
    made: dict[str, Synopsis] = {
        "zone map": zone_maps_of(blocks, [name]),
        "range-set": RangeSets({name: held(RANGE_SET, TYPES[name], arrays(blocks, name), 2)}),
        "gap histogram": GapHistograms({name: held(GAP_HISTOGRAM, TYPES[name], arrays(blocks, name), 2)}),
        "value set": ValueSets({name: held(VALUES, TYPES[name], arrays(blocks, name), 2)}),
        "global range table": some_bits(name, arrays(blocks, name), all_known=kind != "both"),
    }
    some = {"all": list(made), "both": ["zone map", "global range table"]}.get(kind, [kind])
    chosen = [made[each] for each in some]
    return column_ranges(catalog_of(blocks, *chosen), COLUMNS[name])


def some_bits(name: str, values: list[pa.Array], *, all_known: bool) -> GlobalRanges:
    """Bits by a table that the first blocks were not there for: what they hold may lie outside, below its prefix too.

    Unless all are to be known, the last block has none.
    """
    if not any(array.null_count < len(array) for array in values[1:]):
        return GlobalRanges({})
    table = table_for(TYPES[name], values[1:], 4)
    assert table is not None
    made: list[ArrowColumn | None] = [*values]
    if not all_known:
        made[-1] = None
    (bits,) = GRT.read(TYPES[name], stored(GRT, TYPES[name], made, 4, table), [table])
    return GlobalRanges({name: bits})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(data=st.data())
def test_the_union_of_blocks_covers_their_values_and_meets_them(name, kind, data):
    blocks = data.draw(blocks_of([name]))
    found = known(blocks, name, kind)
    if found is None:
        assert kind == "global range table", "no block has a value to make it of"
        return
    kept = np.array([data.draw(st.booleans()) for _ in blocks])
    union = found.union(kept)
    for block, array in enumerate(arrays(blocks, name)):
        codes = codes_of(array, found.coding)
        assert codes is not None
        if kept[block]:
            assert all(any(low <= code <= high for low, high in union) for code in codes.tolist())
        for value in array.drop_null().to_pylist()[:1] if name in ("int", "double", "text", "long") else ():
            wanted = code_ranges(IntervalSet.point(TYPES[name], value), found.coding)
            assert wanted is not None
            assert found.meeting(wanted, False)[block]
        if array.null_count:
            assert found.may_be_null[block]
            assert found.meeting(found.union(np.zeros(len(blocks), np.bool_)), True)[block]
    met = found.meeting(union, False)
    valued = np.array([array.null_count < len(array) for array in arrays(blocks, name)])
    assert met[kept & valued].all()


def test_a_column_that_nothing_is_known_of_has_no_ranges():
    assert column_ranges(catalog_of([[]]), COLUMNS["int"]) is None
    assert column_ranges(catalog_of([[]], zone_maps_of([[]], ["int"])), Column("int", STRING)) is None


def test_what_was_made_of_a_catalog_is_kept_with_it():
    catalog = catalog_of([[{"int": 1}]], zone_maps_of([[{"int": 1}]], ["int"]))
    assert column_ranges(catalog, COLUMNS["int"]) is column_ranges(catalog, COLUMNS["int"])


def test_a_block_without_a_range_set_is_taken_from_its_zone_map():
    blocks: Blocks = [[{"int": 1}], [{"int": 7}]]
    sets = held(RANGE_SET, INTEGER, [pa.array([1], pa.int32()), pa.array(["?"])], 2)
    catalog = catalog_of(blocks, RangeSets({"int": sets}), zone_maps_of(blocks, ["int"]))
    found = column_ranges(catalog, COLUMNS["int"])
    assert found is not None
    assert [high - low for low, high in found.union(np.array([True, True]))] == [0, 0]
    alone = column_ranges(catalog_of(blocks, RangeSets({"int": sets})), COLUMNS["int"])
    assert alone is not None
    assert list(alone.union(np.array([True, True]))) == list(EVERYTHING)


def test_a_value_set_is_a_range_for_each_value():
    blocks: Blocks = [[{"text": "AIR"}, {"text": "TRUCK"}], [{"text": "SHIP"}]]
    found, zones = (known(blocks, "text", kind) for kind in ("value set", "zone map"))
    assert found is not None
    assert zones is not None
    both = np.array([True, True])
    assert len(found.union(both)) == 3
    assert len(zones.union(both)) == 1, "from AIR to TRUCK"
    rail = code_ranges(IntervalSet.point(STRING, "RAIL"), found.coding)
    assert rail is not None
    assert found.meeting(rail, False).tolist() == [False, False]


@pytest.mark.parametrize("texts", [["Customer#00"], ["Customer#00", "Customer#001"]])
def test_a_value_that_all_others_begin_with_is_told_from_those_below(texts):
    found = known([[{"text": text} for text in texts]], "text", "value set")
    assert found is not None
    outer = value_ranges(found.union(np.array([True])), found.coding)
    assert all(outer.contains(text) for text in texts)
    assert not outer.contains("Customer#")
    assert not outer.contains("Aaron")


def test_a_block_without_a_value_set_is_taken_from_its_zone_map():
    """Also of strings, whose codes leave out another prefix in each of the two."""
    texts = [["Customer#11"], [f"Customer#{n}" for n in range(20, 26)], ["Customer#12"]]
    blocks: Blocks = [[{"text": text} for text in some] for some in texts]
    sets = held(VALUES, STRING, arrays(blocks, "text"), 2)
    assert sets.unknown is not None
    assert sets.ranges.coding.prefix == b"Customer#1"
    catalog = catalog_of(blocks, zone_maps_of(blocks, ["text"]), ValueSets({"text": sets}))
    found = column_ranges(catalog, COLUMNS["text"])
    assert found is not None
    outer = value_ranges(found.union(np.array([True, True, True])), found.coding)
    assert all(outer.contains(str(row["text"])) for block in blocks for row in block)
    assert not outer.contains("Customer#17")
    assert not outer.contains("Customer#3")


def test_partition_values_are_ranges_of_one_value():
    files = np.array([0, 1, 2], dtype=np.int32)
    values = partition_values({"int": INTEGER}, {"int": ["3", "9", None]}, files)
    one = np.ones(3, np.int64)
    found = column_ranges(Catalog(files, one, one, 3, (values,)), COLUMNS["int"])
    assert found is not None
    assert [low - 2**63 for low, _ in found.union(np.array([True, True, True]))] == [3, 9]
    assert found.may_be_null.tolist() == [False, False, True]


def test_strings_with_different_prefixes_meet_by_value():
    names = [f"Customer#00000000{n}" for n in range(8)]
    blocks: Blocks = [[{"text": name}] for name in names]
    left, right = known(blocks[2:4], "text", "zone map"), known(blocks, "text", "zone map")
    assert left is not None
    assert right is not None
    assert len(left.coding.prefix) > 8
    side = Comparand(COLUMNS["text"], STRING)
    union = left.union(np.array([True, True]))
    message = carry_ranges(union, left.coding, side, Op.EQ, side, right.coding)
    assert message is not None
    assert right.meeting(message, False).nonzero()[0].tolist() == [2, 3]


def test_bloom_filters_receive():
    """Range-sets of one range cannot tell 4 from between 0 and 9; the Bloom filter can, for single values."""
    values = [pa.array([0, 9], pa.int32()), pa.array([0, 4, 9], pa.int32())]
    filters = held(BLOOM, INTEGER, values, 1 << 20)
    one = np.full(2, 3)
    zones = zone_maps_of([[{"int": 0}, {"int": 9}]] * 2, ["int"])
    partner = Catalog(np.arange(2, dtype=np.int32), one, one, 2, (zones, BloomFilters({"int": filters})))
    point = catalog_of([[{"int": 4}]], zone_maps_of([[{"int": 4}]], ["int"]))
    assert partner.synopses[1].can_satisfy(Null(COLUMNS["int"])) is None
    wanted = Within(COLUMNS["int"], IntervalSet.point(INTEGER, 4))
    assert partner.synopses[1].can_satisfy(wanted) is not None
    a, b = (Scan(key, key, (), ((number, COLUMNS["int"]),)) for key, number in (("a", "1"), ("b", "11")))
    views = {"a": TableView((point,), True), "b": TableView((partner,), True)}
    found = prune(Query((Join(INNER, a, b, equal(1, 11)),)), views, InducedOptions(seconds=60))
    assert found.kept["b"][0].tolist() == [False, True]


def partners(of_origin: Synopsis, held: list[list[int]], ids: list[int]) -> list[bool]:
    """Which blocks of a partner are kept, of which each has one of the ids, by what the blocks of the origin hold."""
    blocks: list[Blocks] = [[[{"int": each} for each in some] for some in held], [[{"int": each}] for each in ids]]
    origin = catalog_of(blocks[0], zone_maps_of(blocks[0], ["int"]), of_origin)
    target = catalog_of(blocks[1], zone_maps_of(blocks[1], ["int"]))
    a, b = (Scan(key, key, (), ((number, COLUMNS["int"]),)) for key, number in (("a", "1"), ("b", "11")))
    views = {"a": TableView((origin,), True), "b": TableView((target,), True)}
    found = prune(Query((Join(INNER, a, b, equal(1, 11)),)), views, InducedOptions(seconds=60))
    return [bool(each) for each in found.kept["b"][0]]


def test_bits_of_blocks_together_are_an_origin():
    """The OR of bits is a set of ranges that a partner's rows must lie in (GRT, section 6).

    Each block has ids in far-apart places, as of several sources: more gaps than ranges of as many bytes can tell.
    """
    rng = np.random.default_rng(7)
    sources = np.sort(rng.choice(np.arange(20), (12, 8))) * 50
    used = np.unique(sources).tolist()
    values = [pa.array(some.tolist(), pa.int32()) for some in sources]
    ids = [each for each in range(25, used[-1] + 1, 25) if each >= used[0]]
    sets = RangeSets({"int": held(RANGE_SET, INTEGER, values, 2)})
    assert all(partners(sets, sources.tolist(), ids))
    bits = GlobalRanges({"int": held(GRT, INTEGER, values, 256)})
    assert partners(bits, sources.tolist(), ids) == [each in used for each in ids]


def test_bits_receive_more_ranges_than_other_synopses_are_asked_for():
    """Odd numbers from one side, more than a hundred ranges of one: a block of even ones is skipped, by its bits."""
    origin: Blocks = [[{"int": each} for each in range(1, 401, 2)]]
    target: Blocks = [[{"int": each} for each in range(0, 401, 2)], origin[0], [{"int": 0}, {"int": 401}]]
    sent, known = (
        column_ranges(
            catalog_of(
                blocks,
                zone_maps_of(blocks, ["int"]),
                GlobalRanges({"int": held(GRT, INTEGER, arrays(blocks, "int"), 1_024)}),
            ),
            COLUMNS["int"],
        )
        for blocks in (origin, target)
    )
    assert sent is not None
    assert known is not None
    wanted = sent.union(np.array([True]))
    assert len(wanted) > 64
    assert known.meeting(wanted, False).tolist() == [False, True, False]


def test_blocks_of_another_table_and_without_bits_are_taken_by_themselves():
    blocks: Blocks = [[{"int": each} for each in some] for some in ([0, 90], [5, 95], [40, 60])]
    values = arrays(blocks, "int")
    synopses: list[Synopsis] = [zone_maps_of(blocks, ["int"])]
    for number in (0, 1):
        table = table_for(INTEGER, [values[number]], 8)
        assert table is not None
        made: list[ArrowColumn | None] = [array if at == number else None for at, array in enumerate(values)]
        synopses.append(GlobalRanges({"int": GRT.read(INTEGER, stored(GRT, INTEGER, made, 8, table), [table])[0]}))
    found = column_ranges(catalog_of(blocks, *synopses), COLUMNS["int"])
    assert found is not None
    every = [(low - 2**63, high - 2**63) for low, high in found.union(np.ones(3, np.bool_))]
    assert every == [(0, 0), (5, 5), (40, 60), (90, 90), (95, 95)]


def test_a_scan_of_several_indexes_is_one_table():
    """Two folders read as one: what each holds goes out together, and each skips by what comes in."""

    def catalog(*values: int) -> Catalog:
        return catalog_of([[{"int": n}] for n in values], zone_maps_of([[{"int": n}] for n in values], ["int"]))

    a, b = (Scan(key, key, (), ((number, COLUMNS["int"]),)) for key, number in (("a", "1"), ("b", "11")))
    query = Query((Join(INNER, a, b, equal(1, 11)),))
    views = {"a": TableView((catalog(1, 2), catalog(8, 9)), True), "b": TableView((catalog(1, 5, 9),), True)}
    found = prune(query, views, InducedOptions(seconds=60))
    assert found.kept["b"][0].tolist() == [True, False, True]
    assert [mask.tolist() for mask in found.kept["a"]] == [[True, False], [False, True]]
