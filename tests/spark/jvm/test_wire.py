"""Messages between Python and Java: packed as the other side reads them, and unpacked as it packs them."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from sidestep.errors import SidestepError
from sidestep.prune.conditions import BlockFilter, RowGroups
from sidestep.spark.jvm.bridge import Bridge, java_sources
from sidestep.spark.jvm.wire import (
    IndexAnswer,
    OwnAnswer,
    PlanRequest,
    Refusal,
    Requests,
    ScanAnswer,
    pack_answers,
    pack_bits,
    pack_coverage,
    pack_files,
    pack_statements,
    unpack_bits,
    unpack_meaning,
)
from sidestep.synopsis import Mask


def bits(*flags: int) -> Mask:
    return np.array(flags, dtype=np.bool_)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_bits_come_back(count: int) -> None:
    mask = np.random.default_rng(count).random(count) < 0.5
    assert unpack_bits(pack_bits(mask), count).tolist() == mask.tolist()


def test_java_leaves_out_the_zeros_at_the_end() -> None:
    assert unpack_bits(base64.b64encode(b"\x05").decode(), 20).tolist() == [True, False, True] + [False] * 17
    assert unpack_bits("", 3).tolist() == [False] * 3


def test_pieces_of_two_plans_do_not_mix() -> None:
    requests = Requests()
    first, second = requests.receive("more\n\nab"), requests.receive("more\n\nAB")
    assert isinstance(first, str)
    assert first != second
    assert requests.receive(f"more\n{first}\ncd") == first
    assert requests.receive(f"plan\t2\t\n{second}\nCD") == PlanRequest("2", "", "ABCD")
    assert requests.receive(f"plan\t1\ta=1\tb=2\n{first}\ne\nf") == PlanRequest("1", "a=1\tb=2", "abcde\nf")
    assert requests.receive("plan\t3\t\n\nwhole") == PlanRequest("3", "", "whole")


def test_answers_have_a_line_per_scan_and_one_per_bound() -> None:
    blocks = BlockFilter(bits(1, 1), np.array([1, 4], np.int32), 99)
    groups = RowGroups(bits(1, 0), bits(1), np.array([7, 2, 1, 0, 1], np.int32), 50)
    answers = [
        ScanAnswer("1,2", (IndexAnswer("7", bits(1, 0)), IndexAnswer("8", bits(0, 1), blocks, groups))),
        ScanAnswer("3", (IndexAnswer("7", bits(0, 0)),), "day\t3:9,20:"),
        ScanAnswer("4", (), rows={0: 1}),
        ScanAnswer("5", (), path=(2, 0), rows={2: 7, 0: 2**40}),
    ]
    assert pack_answers(answers).split("\n") == [
        "1,2\t7\tAQ==\t\t\t=\t\t\t8\tAg==\tAw==:AQAAAAQAAAA=:99\tBwAAAAIAAAABAAAAAAAAAAEAAAA=:50\t=\t\t",
        "3\t7\tAA==\t\t\t=\t\t",
        "bound\t3\tday\t3:9,20:",
        "path\t5\t2,0",
        "rows\t5\t2147483647,-1,7",
    ]


def test_what_rests_on_other_scans_has_a_part_that_does_not() -> None:
    blocks = BlockFilter(bits(1, 1), np.array([1, 4], np.int32), 99)
    induced = IndexAnswer("7", bits(1, 1), own=OwnAnswer(bits(1, 0), blocks))
    assert pack_answers([ScanAnswer("1", (induced,))], {"2": ["8", "9"], "3": ["7"]}).split("\n") == [
        "rests\t2\t8\t9",
        "rests\t3\t7",
        "1\t7\tAw==\t\t\tAQ==\tAw==:AQAAAAQAAAA=:99\t",
    ]


@pytest.mark.parametrize("name", ["x\t0:5\ny", "x\t0:5", "a\nb"])
def test_no_bound_on_a_column_whose_name_java_would_misread(name: str) -> None:
    assert "bound" not in pack_answers([ScanAnswer("1", (IndexAnswer("7", bits(1)),), f"{name}\t1:2")])


def test_questions_statements_and_files() -> None:
    assert pack_coverage({"1,2": ["7", "8"], "3": ["7"]}) == "1,2\t7\t8\n3\t7"
    assert pack_statements(["SELECT 1", "SELECT '\0'"]) == "SELECT 1\0SELECT '\ufffd'"
    assert pack_files(["a", ""], [1, 2], [3, 4]) == (
        "a\0",
        base64.b64encode(b"".join(n.to_bytes(8, "big") for n in (1, 3, 2, 4))).decode(),
    )
    assert unpack_meaning('+{"plans":[]}') == '{"plans":[]}'
    assert unpack_meaning('-["PARSE","t","no"]') == Refusal("PARSE", "t", "no")


def test_every_source_compiles(spark) -> None:
    bridge = Bridge(spark)
    sources = list(java_sources())
    assert "LogAnalyzer.java" in sources, "compiled only when it is asked for"
    for name in sources:
        assert bridge.load(name.removesuffix(".java")).getName() == f"sidestep.{name.removesuffix('.java')}"


def test_what_does_not_compile_is_named(spark) -> None:
    with pytest.raises(SidestepError, match=r"could not compile Nothing\.java against this Spark"):
        Bridge(spark).load("Nothing")
