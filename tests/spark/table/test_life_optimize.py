"""What has come since is organized when enough of it has, and units are laid out anew for new features."""

from __future__ import annotations

import shutil
from importlib import import_module

import pytest
from deltalake import DeltaTable, write_deltalake

import sidestep
from sidestep.errors import SidestepError
from sidestep.spark.change.rewrite import delete
from sidestep.spark.table import state
from sidestep.spark.table.append import append
from sidestep.spark.table.optimize import optimize
from sidestep.store import open_index, read_snapshot
from sidestep.store.sidecars.layout import load_layout
from tests.spark.living import FEATURES, MIN_SIZE, OTHERS, arrow, check, frame, made, new_table, paths, units

module = import_module("sidestep.spark.table.optimize")

pytestmark = pytest.mark.spark
ROWS = made(0, 240)


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    return new_table(spark, tmp_path_factory.mktemp("optimize") / "table", ROWS)


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


def features_of_files(root):
    snapshot, index = read_snapshot(root), open_index(root)
    positions = set(index.positions(snapshot.files).tolist())
    named = zip(index.map.file_of_block.tolist(), index.features_of_block.to_pylist(), strict=True)
    return {id for file, id in named if file in positions}


def test_new_rows_wait_until_enough_have_come(spark, enabled, root):
    loaded = paths(root)
    assert optimize(spark, str(root)).batches == 0, "nothing has come"
    first = [{**row, "month": 2} for row in made(1000, 50)]
    append(spark, str(root), frame(spark, first))
    report = optimize(spark, str(root))
    assert (report.batches, report.waiting_rows) == (0, 50), "a unit wants four blocks' rows"
    assert "wait until enough" in str(report)
    second = [{**row, "month": 2} for row in made(2000, 40)]
    write_deltalake(str(root), arrow(second), mode="append", schema_mode="merge")
    report = optimize(spark, str(root))
    assert (report.batches, report.rows, report.units, report.waiting_files) == (1, 90, 1, 0)
    assert loaded <= paths(root), "what was organized before is untouched"
    assert None not in units(root).values()
    check(spark, root, ROWS + first + second)
    last = DeltaTable(str(root)).history(1)[0]
    assert last["operation"] == "OPTIMIZE"
    assert optimize(spark, str(root), all=True).batches == 0


def test_all_and_enough_decide(spark, root):
    append(spark, str(root), frame(spark, made(1000, 12)))
    assert optimize(spark, str(root), enough=10).waiting_files > 0
    assert optimize(spark, str(root), enough=3).batches == 1
    append(spark, str(root), frame(spark, made(2000, 5)))
    assert optimize(spark, str(root), all=True).rows == 5


def test_new_features_lay_out_unit_by_unit(spark, enabled, root):
    assert features_of_files(root) == {FEATURES.id}
    before = units(root)
    report = optimize(spark, str(root), features=OTHERS, where="month = 1")
    assert (report.batches, report.units) == (1, 1)
    kept = {path for path, unit in before.items() if "1" not in str(unit)}
    assert kept <= paths(root)
    assert len(kept) == 3, "the other months' files are untouched"
    assert features_of_files(root) == {FEATURES.id, OTHERS.id}
    check(spark, root, ROWS)
    report = optimize(spark, str(root))
    assert report.units == 3, "goes on where it was left"
    assert features_of_files(root) == {OTHERS.id}
    check(spark, root, ROWS)


def test_each_batch_is_a_commit_so_that_a_run_can_be_resumed(spark, root, monkeypatch):
    monkeypatch.setattr(module, "BATCH_BYTES", 1)
    commit_files, calls = state.commit_files, []

    def dies_in_the_third(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return commit_files(*arguments, **options)

    monkeypatch.setattr(state, "commit_files", dies_in_the_third)
    version = DeltaTable(str(root)).version()
    with pytest.raises(KeyboardInterrupt):
        optimize(spark, str(root), features=OTHERS)
    assert DeltaTable(str(root)).version() == version + 2
    check(spark, root, ROWS)
    report = optimize(spark, str(root))
    assert (report.batches, report.units) == (2, 2)
    check(spark, root, ROWS)


def test_other_units(spark, enabled, root):
    optimize(spark, str(root), by="month % 2")
    layout = load_layout(open_index(root).folder)
    assert layout is not None
    assert (layout.by, layout.min_size) == ("month % 2", MIN_SIZE)
    assert len(set(units(root).values())) == 2
    check(spark, root, ROWS)
    with pytest.raises(SidestepError, match="not an expression"):
        optimize(spark, str(root), by="nope")
    with pytest.raises(SidestepError, match="one time"):
        optimize(spark, str(root), where="rand() < 1")


def test_a_file_changed_meanwhile_is_organized_as_it_is_then(spark, enabled, root, monkeypatch):
    """Another writer replaces a file after the batch was read: the batch is done again on what is there."""
    append(spark, str(root), frame(spark, made(1000, 40)))
    commit_files, calls = state.commit_files, []

    def overtaken(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            DeltaTable(str(root)).delete("id = 1003")
            delete(spark, str(root), "id = 5")
        return commit_files(*arguments, **options)

    monkeypatch.setattr(state, "commit_files", overtaken)
    optimize(spark, str(root), all=True)
    assert len(calls) == 2
    check(spark, root, [row for row in ROWS + made(1000, 40) if row["id"] not in (5, 1003)])


def test_compacted_by_others_and_then_organized(spark, enabled, root):
    DeltaTable(str(root)).optimize.compact()
    check(spark, root, ROWS)
    assert set(units(root).values()) == {None}
    report = optimize(spark, str(root), all=True)
    assert report.units == 4
    check(spark, root, ROWS)
    hit = sidestep.read(spark, str(root)).where("color = 'red' AND month = 2")
    hit.collect()
    assert sidestep.metrics(hit).files == 1
