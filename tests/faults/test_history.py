"""Many processes at once: every read is a committed version, and nothing that was done is lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable, write_deltalake

import sidestep
from tests.faults import foreign, history
from tests.faults.history import Findings, Journal, check_history
from tests.faults.kills import in_long_runs, run_child
from tests.faults.spark_history import SPAN
from tests.faults.sweep import check_index
from tests.faults.writes import ARROW, append, contents, create, delete, rows_from
from tests.spark.tables import switched_off


def test_processes_that_write_read_and_die(tmp_path):
    findings = history.live_together(tmp_path, turns=6)
    assert findings.wrong == []
    assert findings.done >= 12, "the two writers that lived had their turns"
    assert findings.reads >= 2


def test_an_index_beside_a_foreign_writer(tmp_path):
    looked, known = foreign.live_together(tmp_path / "table", turns=40)
    assert 0 < known <= looked


@pytest.fixture
def lived(tmp_path):
    """A table of one append and one delete, and the journal of its one writer."""
    root = tmp_path / "table"
    create(root, rows_from(-10, 10))
    append(root, rows_from(1, 3).set_column(1, "v", [[7] * 3]), "0-0")
    delete(root, lambda x: x == 2, "0-1")
    return root, [
        {"about": "0-0", "kind": "append", "ids": [1, 2, 3], "value": 7},
        {"done": "0-0"},
        {"about": "0-1", "kind": "delete", "ids": [2], "value": 0},
        {"done": "0-1"},
    ]


def test_a_right_history_passes(lived):
    root, lines = lived
    rows = sorted([x, v] for x, v, _ in contents(root) or ())
    seen = [{"saw": 2, "rows": rows}]
    assert check_history(root, [lines, seen], Findings()).wrong == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"about": "0-2", "kind": "append", "ids": [9], "value": 0}, {"done": "0-2"}], "done and is not in the log"),
        ([{"refused": "0-1", "why": "no"}], "refused and is in the log"),
        ([{"saw": 1, "rows": [[1, 7]]}], "not version 1"),
        ([{"saw": 2, "rows": []}, {"saw": 1, "rows": []}], "went back"),
    ],
)
def test_a_wrong_history_is_seen(lived, lines, said):
    root, before = lived
    assert any(said in wrong for wrong in check_history(root, [before, lines], Findings()).wrong)


def test_half_a_line_of_a_killed_process_is_left_out(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.note(done="0-1")
    with open(journal.path, "a") as file:
        file.write('{"about": "0-')
    assert journal.lines() == [{"done": "0-1"}]


@in_long_runs
@pytest.mark.aside
def test_processes_with_sparks_of_their_own(spark, enabled, tmp_path):
    """Two processes write with Spark while this one reads, with and without skipping."""
    root = tmp_path / "table"
    write_deltalake(str(root), rows_from(0, 20))
    sidestep.load(spark, str(root), min_size=5)
    children = ["-m", "tests.faults.spark_history", str(root)]
    seen = []
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run_child, [*children, str(n), "2", str(tmp_path / f"spark-{n}")]) for n in range(2)]
        while not all(job.done() for job in jobs):
            version = DeltaTable(str(root)).version()
            rows = sidestep.read(spark, str(root), version=version).select(ARROW.names).where("x >= 1000 OR v = 1")
            skipping = sorted(map(tuple, rows.collect()))
            with switched_off(spark):
                assert skipping == sorted(map(tuple, rows.select("*").collect()))
            seen.append((version, skipping))
    expected = {x: v for x, v, _ in zip(*rows_from(0, 20).to_pydict().values(), strict=True)}
    for number, job in enumerate(jobs):
        ended, said = job.result()
        assert ended == 0, said[-3000:]
        told = [json.loads(line) for line in said.splitlines() if line.startswith('{"append"')]
        assert [done["append"] for done in told] == [SPAN * (number + 1) + 20 * turn for turn in range(2)]
        for done in told:
            new = rows_from(done["append"], 10).to_pydict()
            expected |= dict(zip(new["x"], new["v"], strict=True))
            del expected[done["deleted"]]
            expected[done["updated"]] = 77
    assert {x: v for x, v, _ in contents(root) or ()} == expected
    check_index(root)
    assert [version for version, _ in seen] == sorted(version for version, _ in seen)
    for version, found in dict(seen).items():
        table = DeltaTable(str(root), version=version).to_pyarrow_table(columns=ARROW.names)
        whole = list(zip(*(table[name].to_pylist() for name in ARROW.names), strict=True))
        assert found == sorted(row for row in whole if row[0] >= 1000 or row[1] == 1)
