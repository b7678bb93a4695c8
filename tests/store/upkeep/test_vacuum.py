"""Only what no one needs is deleted: current files, young ones, and those of recent versions stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate import LONG, column, compare
from sidestep.store import append_blocks, block_summaries, index_folder, locate, open_index, read_snapshot
from sidestep.store.parquet.blocks import with_layout
from sidestep.store.sidecars.layout import (
    FEATURES,
    LAYOUTS,
    LayoutSpec,
    load_features,
    load_layout,
    save_features,
    save_layout,
)
from sidestep.store.snapshots.folder import read_folder
from sidestep.store.upkeep.update import update_index
from sidestep.store.upkeep.vacuum import vacuum
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.store.tables import write_parquet

DAY = 24 * 3600.0


def longs(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def rows(root: Path, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(str(root), version=version).to_pyarrow_table()["x"].to_pylist())


def age(path: Path, days: float) -> None:
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment))


def age_all(root: Path, days: float) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            age(path, days)


def data(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file that is gone since version 1, and one that replaced it."""
    folder = tmp_path / "table"
    write_deltalake(str(folder), longs(1, 2))
    write_deltalake(str(folder), longs(3), mode="overwrite")
    return folder


def test_an_old_version_goes_when_the_retention_is_over(root: Path) -> None:
    assert vacuum(root).files == (), "everything is new"
    age_all(root, 8)
    report = vacuum(root, dry_run=True)
    assert len(report.files) == 1
    assert len(data(root)) == 2, "a dry run only tells"
    assert vacuum(root) == report.__class__(report.root, report.files, report.bytes, 0, (), False)
    assert "1 data files" in str(report)
    assert rows(root) == [3]
    assert len(data(root)) == 1
    assert vacuum(root).files == ()


def test_versions_within_the_retention_stay_readable(root: Path) -> None:
    age_all(root, 8)
    age(root / "_delta_log" / f"{1:020d}.json", 1)
    assert vacuum(root).files == (), "version 0 was current a day ago"
    assert rows(root, 0) == [1, 2]
    assert len(vacuum(root, hours=12, force=True).files) == 1


def test_a_version_that_looks_older_than_those_before_it_counts_as_young(root: Path) -> None:
    write_deltalake(str(root), longs(4), mode="overwrite")
    age_all(root, 8)
    age(root / "_delta_log" / f"{1:020d}.json", 1)
    assert vacuum(root).files == ()


def test_orphans_go_by_their_own_age(root: Path) -> None:
    age_all(root, 8)
    write_parquet(root / "part-crashed.parquet", {"x": [9]}, age=8 * DAY)
    write_parquet(root / "part-running.parquet", {"x": [9]}, age=3600)
    assert "part-crashed.parquet" in vacuum(root).files
    assert (root / "part-running.parquet").exists()
    assert vacuum(root, hours=0, force=True).files == ("part-running.parquet",)


def test_what_the_table_did_not_write_stays(root: Path) -> None:
    other = root / "archive"
    write_deltalake(str(other), longs(7))
    for name in ("notes.txt", "_manual/x.parquet", "copy/x.parquet", "p=1/x.parquet", ".hidden.parquet"):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(longs(1), path)
    DeltaTable(str(root)).create_checkpoint()
    age_all(root, 30)
    kept = set(data(other)), {path for path in root.rglob("*") if path.is_file()}
    assert len(vacuum(root).files) == 1, "the file of version 0 alone"
    assert set(data(other)) == kept[0]
    assert len(kept[1] - {path for path in root.rglob("*") if path.is_file()}) == 1
    assert rows(root) == [3]


def test_folders_of_partitions_are_looked_at(tmp_path: Path) -> None:
    table = pa.table({"p": ["a b", "c%"], "x": [1, 2]})
    write_deltalake(str(tmp_path), table, partition_by=["p"])
    write_deltalake(str(tmp_path), table, mode="overwrite")
    age_all(tmp_path, 8)
    assert len(vacuum(tmp_path).files) == 2
    assert rows(tmp_path) == [1, 2]


def test_too_short_a_retention_is_refused(root: Path) -> None:
    with pytest.raises(SidestepError, match=r"168 hours.*force=True"):
        vacuum(root, hours=1)
    with pytest.raises(SidestepError, match="0 or more"):
        vacuum(root, hours=-1, force=True)
    DeltaTable(str(root)).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    with pytest.raises(SidestepError, match=r"720 hours.*interval 30 days"):
        vacuum(root)
    assert vacuum(root, hours=720).files == ()
    assert len(vacuum(root, hours=0, force=True).files) == 1


def test_a_folder_of_parquet_files_is_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f.parquet", {"x": [1]})
    with pytest.raises(SidestepError, match="not a Delta table"):
        vacuum(tmp_path)


def test_a_log_that_cannot_be_read_stops_it(root: Path) -> None:
    age_all(root, 8)
    log = root / "_delta_log" / f"{1:020d}.json"
    DeltaTable(str(root)).create_checkpoint()
    text = log.read_text()
    log.write_text(text[: len(text) // 2])
    with pytest.raises(SidestepError):
        vacuum(root)
    assert len(data(root)) == 2


def test_entries_go_with_their_files(root: Path) -> None:
    age_all(root, 8)
    update_index(read_snapshot(root), {"x": LONG})
    update_index(read_snapshot(root, version=0), {"x": LONG})
    orphan = write_parquet(root / "part-running.parquet", {"x": [9]})
    (file,) = [one for one in read_folder(locate(root)).files if one.path == orphan.name]
    summaries = block_summaries(locate(root), file, {"x": LONG})
    assert summaries is not None
    append_blocks(index_folder(locate(root)), [summaries], {"x": LONG})
    assert len(open_index(root).files) == 3
    assert vacuum(root, dry_run=True).entries == 1
    assert vacuum(root).entries == 1
    left = open_index(root)
    assert "part-running.parquet" in left.files["path"].to_pylist(), "a load that runs now will commit it"
    assert (left.positions(read_snapshot(root).files) >= 0).all()
    assert len(left.files) == 2


def features(number: int) -> FeatureSet:
    return FeatureSet("t", (Feature((compare(column("x", LONG), "<", number),)),))


def test_feature_sets_and_layouts_that_nothing_names_go(root: Path) -> None:
    folder = index_folder(locate(root))
    sets = [features(number) for number in range(5)]
    for one in sets:
        save_features(folder, one)
    snapshot = read_snapshot(root)
    table = block_summaries(locate(root), snapshot.files[0], {"x": LONG}, log_times=True)
    assert table is not None
    append_blocks(folder, [with_layout(table, [b"\x01"], sets[0].id, "u")], {"x": LONG})
    old = read_snapshot(root, version=0)
    table = block_summaries(locate(root), old.files[0], {"x": LONG}, log_times=True)
    assert table is not None
    append_blocks(folder, [with_layout(table, [b"\x01"], sets[1].id, "u")], {"x": LONG})
    save_layout(folder, LayoutSpec(features=sets[2].id))
    save_layout(folder, LayoutSpec(features=sets[3].id))
    assert vacuum(root).leftovers == (), "all is young"
    (root / "_sidestep" / f".x.{'0' * 32}.partial").write_text("half")
    (root / "_delta_log" / f".{2:020d}.json.{'0' * 32}.partial").write_text("half")
    age_all(root, 8)
    save_features(folder, features(9))
    names = set(vacuum(root).leftovers)
    assert {f"_features-{sets[at].id}.json" for at in (1, 2, 4)} < names, "1 was that of a file just deleted"
    assert len([name for name in names if name.endswith(".partial")]) == 2
    assert len([name for name in names if name.startswith("_layout")]) == 1
    assert load_features(folder, sets[0].id) is not None
    layout = load_layout(folder)
    assert layout is not None
    assert layout.features == sets[3].id
    assert load_features(folder, sets[3].id) is not None
    assert load_features(folder, features(9).id) is not None, "a load that runs now has just saved it"


def test_a_damaged_newest_layout_does_not_cost_the_one_before(root: Path) -> None:
    folder = index_folder(locate(root))
    save_features(folder, features(1))
    save_layout(folder, LayoutSpec(features=features(1).id))
    save_layout(folder, LayoutSpec(features=features(2).id))
    newest = root / "_sidestep" / LAYOUTS.names(folder)[-1]
    newest.write_text("{half")
    age_all(root, 8)
    vacuum(root)
    with pytest.warns(SidestepWarning, match=newest.name):
        layout = load_layout(folder)
    assert layout is not None
    assert FEATURES.file(folder, layout.features or "").name.startswith("_features")
    assert load_features(folder, features(1).id) is not None
