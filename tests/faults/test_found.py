"""What the sweep found, each by itself."""

from __future__ import annotations

import itertools
import json
import shutil
import warnings
from contextlib import suppress
from unittest.mock import patch

import pytest
from deltalake import write_deltalake

from sidestep.errors import SidestepError, SidestepWarning, TableNotFound
from sidestep.spark.table.load import _check_target
from sidestep.store import locate, open_index, read_snapshot
from sidestep.store.commit.transaction import commit
from sidestep.store.location import list_files
from sidestep.store.sidecars.layout import LAYOUTS, save_layout
from sidestep.store.sidecars.sidecar import Numbered
from sidestep.store.upkeep import compact
from sidestep.store.upkeep import vacuum as vacuuming
from sidestep.store.upkeep.false_positives import ESTIMATES, Estimates, KeptShare, save_estimates
from sidestep.store.upkeep.vacuum import vacuum
from tests.faults import writes
from tests.faults.disk import Disk, Fault, Killed, mounted
from tests.faults.sweep import leftovers
from tests.faults.writes import append, contents, create, delete, index, optimize, rows_from


@pytest.fixture
def root(tmp_path):
    create(tmp_path / "table", rows_from(0, 10), rows_from(10, 10))
    return tmp_path / "table"


def test_a_write_that_is_committed_does_not_say_that_it_failed(root):
    """Whoever is told that an append failed appends again, and has all rows twice."""
    with mounted(Disk(root)) as disk, patch.object(compact, "MOST_FILES", 0):
        append(root, rows_from(20, 5))
    links = [number for number, point in enumerate(disk.points) if point.kind == "link"]
    merged = links[[disk.points[number].path.startswith(f"{root}/_delta_log") for number in links].index(True) + 1]
    with (
        mounted(Disk(root, fault=Fault.FULL, at=merged - 2)),
        patch.object(compact, "MOST_FILES", 0),
        pytest.warns(SidestepWarning, match=r"is committed, but its index could not be tidied up.*Nothing is lost"),
    ):
        append(root, rows_from(30, 5))
    assert len(contents(root) or ()) == 30


def test_a_load_that_was_cut_short_can_be_run_again(tmp_path):
    root = tmp_path / "table"
    with mounted(Disk(tmp_path)) as disk:
        create(root, rows_from(0, 10))
    shutil.rmtree(root)
    link = max(n for n, point in enumerate(disk.points) if point.kind == "link" and "_delta_log" in point.path)
    with mounted(Disk(tmp_path, fault=Fault.KILLED, at=link)), pytest.raises(Killed):
        create(root, rows_from(0, 10))
    assert list(root.glob("*.parquet"))
    with pytest.raises(TableNotFound):
        read_snapshot(root)  # and not a folder of files that hold some of the rows
    create(root, rows_from(0, 10))
    assert len(contents(root) or ()) == 10
    vacuum(root, hours=0, force=True)
    assert list(leftovers(root)) == []


def test_the_files_of_others_are_not_taken_for_what_a_load_left(tmp_path):
    target = tmp_path / "table"
    write_deltalake(str(target), rows_from(0, 5))
    for path in (target / "_delta_log").iterdir():
        path.unlink()
    with pytest.raises(SidestepError, match="There is something"):
        _check_target(locate(tmp_path), locate(target))


def test_a_file_that_is_gone_is_not_committed(root):
    state = writes._open(root)
    (file,) = writes.write_files(state, rows_from(50, 5))
    (root / file.path).unlink()
    before = contents(root)
    with pytest.raises(SidestepError, match=r"are gone or changed|is not there"):
        writes._commit(state, [file], (), "WRITE", True)
    assert contents(root) == before
    with pytest.raises(SidestepError, match=r"are gone or changed|is not there"):
        commit(
            locate(root),
            add=[writes.added(file)],
            read_version=0,
            schema=state.snapshot.schema or "",
            operation="WRITE",
            data_change=True,
        )


def test_vacuum_deletes_range_tables_and_estimates_that_nothing_names(root):
    delete(root, lambda x: x < 15)
    index(root, "x=grt:4,v=grt:4")
    optimize(root)
    for kept in (0.1, 0.2):
        save_estimates(open_index(root).folder, Estimates({"x": KeptShare(0.5, kept)}))
    index(root, "x=bloom:64")
    assert len(list((root / "_sidestep").glob("_grt-*"))) > 0
    assert len(ESTIMATES.names(open_index(root).folder)) > 1
    vacuum(root, hours=0, force=True)
    assert list(leftovers(root)) == []
    assert list((root / "_sidestep").glob("_grt-*")) == []
    assert ESTIMATES.load(open_index(root).folder) == Estimates({"x": KeptShare(0.5, 0.2)})


def test_vacuum_that_is_killed_leaves_no_entry_without_what_it_names(root):
    """Entries go before the sidecars that they name: whoever opens the index between is not warned."""
    delete(root, lambda x: True)
    copy = shutil.copytree(root, root.parent / "copy")
    with mounted(Disk(copy)) as disk:
        vacuum(copy, hours=0, force=True)
    assert len([point for point in disk.points if point.kind == "delete"]) > 3
    for number in range(len(disk.points)):
        copy = shutil.copytree(root, root.parent / f"copy-{number}")
        with mounted(Disk(copy, fault=Fault.KILLED, at=number)), suppress(Killed):
            vacuum(copy, hours=0, force=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            open_index(copy).catalog(writes.COLUMNS)


def test_vacuum_keeps_what_a_version_needs_whose_age_is_not_known(root):
    """A version that cannot be looked at may be a young one: what it removed is still needed."""
    optimize(root)

    def partly(folder, hidden=None):
        return [status for status in list_files(folder, hidden) if status.path != f"{1:020d}.json"]

    with patch.object(vacuuming, "list_files", partly):
        assert vacuum(root, hours=0, force=True).files == ()
    removed = [json.loads(line) for line in (root / "_delta_log" / f"{1:020d}.json").read_text().splitlines()]
    assert all((root / action["remove"]["path"]).exists() for action in removed if "remove" in action)


def test_vacuum_beside_a_writer_that_notes_a_layout(root):
    """Layouts are listed twice: one that is seen the first time may be gone the second, and a new one there."""
    folder = open_index(root).folder
    save_layout(folder, writes.SPEC)
    older, newer = LAYOUTS.names(folder)
    for first, second, stale in (
        ((older,), (older, newer), ()),
        ((older, newer), (), ()),
        ((older, newer), (older, newer), (older,)),
    ):
        with patch.object(Numbered, "names", side_effect=itertools.chain((first, second), itertools.repeat(()))):
            leftovers = vacuuming._index_leftovers(open_index(root), set(), cutoff=2**62)
        assert tuple(each.name for each in leftovers if each.name.startswith("_layout")) == stale


def test_what_the_system_refuses_is_told_in_a_sentence(root):
    copy = shutil.copytree(root, root.parent / "copy")
    with mounted(Disk(copy)) as disk:
        append(copy, rows_from(30, 5))
    for kind, said in (("stat", "Cannot look at"), ("list", "Cannot list"), ("create", "Cannot write")):
        at = next(number for number, point in enumerate(disk.points) if point.kind == kind)
        with mounted(Disk(root, fault=Fault.DENIED, at=at)), pytest.raises(SidestepError, match=said):
            append(root, rows_from(30, 5))
