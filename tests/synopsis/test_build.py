"""What is made of a block's values, and the table that is made of what blocks leave."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.types import LONG, STRING, parse_type
from sidestep.synopsis.bloom import NO_FILTER
from sidestep.synopsis.build import BuildPlan, block_synopses
from sidestep.synopsis.contract.block_ranges import NO_RANGES, STORED
from sidestep.synopsis.grt.encoding import NO_BITS, table_of_parts
from sidestep.synopsis.grt.popularity import learn_popularity
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.values.codes import Coding, codes_of
from sidestep.synopsis.values.forms import ArrowColumn
from tests.synopsis.stored import encode

ALL = Recipe(range_set=2, gap_histogram=2, bloom=64, grt=8)
BLOCKS = [[1, 2, 900], [3, 500, 501], [499, 903], [None]]


def parts_of(plan: BuildPlan, type, blocks: list[ArrowColumn | None]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    made = [block_synopses("c", type, values, plan) for values in blocks]
    parts = pa.array([each["grtparts:c"] for each in made], STORED)
    prefixes = pa.array([each.get("grtpartsprefix:c") for each in made], pa.binary())
    return pa.chunked_array([parts]), pa.chunked_array([prefixes])


@pytest.mark.parametrize("type", [LONG, STRING])
def test_what_is_made_has_the_columns_that_were_announced(type):
    plan = BuildPlan({"c": ALL})
    values = pa.array(["a", "b", None]) if type == STRING else pa.array([1, 5, None])
    announced = plan.columns("c", type)
    for block in (values, None, values.slice(2), values.slice(0, 0)):
        made = block_synopses("c", type, block, plan)
        kept = {name: pa.array([made.get(name)], arrow) for name, arrow in announced.items()}
        empty = {name for name, array in kept.items() if array.null_count}
        assert empty <= {f"{k}prefix:c" for k in _PREFIXED} | {"depths:c"}
        assert {name.partition(":")[0] for name in set(made) - set(announced)} <= {f"{k}prefix" for k in _PREFIXED}
    assert plan.columns("d", type) == {}
    assert block_synopses("d", type, values, plan) == {}


_PREFIXED = ("ranges", "buckets", "grtparts")


def test_a_block_that_is_not_known_leaves_nothing_that_could_be_taken_for_something():
    made = block_synopses("c", LONG, pa.array(["text"]), BuildPlan({"c": ALL}))
    assert made["ranges:c"] is NO_RANGES
    assert made["bloom:c"] == NO_FILTER
    assert len(NO_RANGES) % 2 == 1
    table = encode([np.array([1], dtype=np.uint64)], 2, learn_popularity(Coding(LONG), [])).table
    assert block_synopses("c", LONG, None, BuildPlan({"c": ALL}, {"c": table}))["grt:c"] == NO_BITS
    other = block_synopses("c", STRING, pa.array(["a"]), BuildPlan({"c": ALL}, {"c": table}))
    assert (other["grt:c"], other.get("grttable:c")) == (NO_BITS, None), "a table of another type says nothing"


def test_times_that_lose_digits_get_nothing():
    assert BuildPlan({"c": ALL}).columns("c", parse_type("time(3)")) == {}


def test_a_table_of_parts_is_the_table_of_the_values():
    plan = BuildPlan({"c": ALL}, partitions=len(BLOCKS))
    arrays: list[ArrowColumn | None] = [pa.array(block, pa.int64()) for block in BLOCKS]
    parts, _ = parts_of(plan, LONG, [*arrays, None])
    table, bits = table_of_parts(LONG, parts, None, 8)
    assert table is not None
    codes = [np.unique(codes_of(array, Coding(LONG))) for array in arrays]  # type: ignore[arg-type]
    whole = encode(codes[:3], 8, learn_popularity(Coding(LONG), []))
    assert table.to_json() == whole.table.to_json()
    assert [each and int.from_bytes(each, "little") for each in bits] == [*whole.words[0].tolist(), 0, b""]
    assert table_of_parts(LONG, parts.slice(4), None, 8) == (None, [b""])


def test_strings_with_prefixes_of_their_own_share_a_table():
    plan = BuildPlan({"c": ALL}, partitions=3)
    texts = [["p" * 99 + "a1", "p" * 99 + "a9"], ["p" * 99 + "b5"], [None]]
    blocks: list[ArrowColumn | None] = [pa.array(block, pa.string()) for block in texts]
    table, bits = table_of_parts(STRING, *parts_of(plan, STRING, [*blocks, None]), 8)
    assert table is not None
    assert table.coding.prefix == b"p" * 99, "neither NULLs nor what is unknown has a say"
    assert bits[0] != bits[1]
    assert [len(each or b"") for each in bits] == [8, 8, 8, 0]


def test_what_is_asked_for_is_kept_apart():
    """Of two gaps the narrower is asked for."""
    asked = [(IntervalSet(LONG, (Interval(11, 19),)), 1.0)]
    blocks: list[ArrowColumn | None] = [pa.array([10, 20, 5000])] * 2
    for queries, kept_apart in (([], False), (asked, True)):
        plan = BuildPlan({"c": Recipe(grt=3)}, asked={"c": queries}, partitions=2)
        parts, _ = parts_of(plan, LONG, blocks)
        table, _ = table_of_parts(LONG, parts, None, 3, queries)
        assert table is not None
        inside = codes_of(pa.array([15]), Coding(LONG))
        assert inside is not None
        outside = bool(table.encode(inside)[0] >> np.uint64(len(table.ranges)) & np.uint64(1))
        assert outside is kept_apart


def test_a_plan_travels_to_workers():
    plan = BuildPlan({"c": ALL}, asked={"c": [(IntervalSet.point(LONG, 7), 2.0)]})
    block_synopses("c", LONG, pa.array([1, 2]), plan)
    assert pickle.loads(pickle.dumps(plan)) == plan
