"""Commits to a Delta table beside other writers: nothing is lost, nothing comes back, nothing is there twice."""

from __future__ import annotations

import json
import multiprocessing
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.errors import Conflict, SidestepError, UnsupportedTable
from sidestep.store.block_column import BLOCK, block_name, with_block_column
from sidestep.store.commit import log_entry as logentry
from sidestep.store.commit import transaction
from sidestep.store.commit.transaction import AddedFile, check_writable, commit, with_retries
from sidestep.store.location import Location, locate
from sidestep.store.snapshot import DataFile, Snapshot
from sidestep.store.snapshots.read import read_snapshot
from tests.store.tables import LONG_X, write_delta_log

LONGS = pa.schema([("x", pa.int64())])


def longs(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def new_file(root: Path, *values: int, path: str = "") -> AddedFile:
    """A data file beside the others, not yet part of the table."""
    name = path or f"part-{uuid.uuid4().hex}.parquet"
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(longs(*values), root / name)
    stat = (root / name).stat()
    stats = json.dumps({"numRecords": len(values)})
    return AddedFile(name, stat.st_size, stat.st_mtime_ns // 10**6, (), stats, len(values))


def rows(root: Path) -> list[int]:
    return sorted(DeltaTable(str(root)).to_pyarrow_table()["x"].to_pylist())


def values_of(root: Path, files: Sequence[DataFile]) -> list[int]:
    return [x for file in files for x in pq.read_table(root / file.path)["x"].to_pylist()]


def replace(root: Path, snapshot: Snapshot, remove: Sequence[DataFile], *, data_change: bool = False) -> int:
    """Put the rows of some files into one new file."""
    assert snapshot.schema is not None
    return commit(
        locate(root),
        add=[new_file(root, *values_of(root, remove))],
        remove=remove,
        read_version=snapshot.version,
        schema=snapshot.schema,
        operation="OPTIMIZE",
        data_change=data_change,
    )


@pytest.fixture(params=["links", "deltalake"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which an entry gets into a log: the second is what object stores need."""
    if request.param == "deltalake":
        monkeypatch.setattr(transaction, "put_entry", logentry.remote_entry)
        monkeypatch.setattr(transaction, "create_entry", logentry._create_remote)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of three files of two rows each."""
    folder = tmp_path / "table"
    for number in range(3):
        write_deltalake(str(folder), longs(10 * number, 10 * number + 1), mode="append")
    return folder


ALL = [0, 1, 10, 11, 20, 21]


@pytest.mark.usefixtures("way")
def test_files_come_and_go_in_one_version(root: Path) -> None:
    snapshot = read_snapshot(root)
    assert replace(root, snapshot, snapshot.files[:2]) == 3
    after = read_snapshot(root)
    assert (len(after.files), rows(root)) == (2, ALL)
    assert rows(root) == sorted(values_of(root, after.files))
    assert set(read_snapshot(root, version=2).files) == set(snapshot.files), "should still be there to be read"


def test_history_tells_what_was_done(root: Path) -> None:
    snapshot = read_snapshot(root)
    replace(root, snapshot, snapshot.files[:1])
    last = DeltaTable(str(root)).history(1)[0]
    assert (last["operation"], last["readVersion"], last["isBlindAppend"]) == ("OPTIMIZE", 2, False)
    assert last["operationMetrics"]["numRemovedFiles"] == "1"


@pytest.mark.usefixtures("way")
def test_a_table_is_created_once(tmp_path: Path) -> None:
    folder = tmp_path / "new table"
    folder.mkdir()

    def create() -> int:
        file = new_file(folder, 1, 2)
        return commit(
            locate(folder), add=[file], read_version=None, schema=LONGS, operation="CREATE TABLE", data_change=True
        )

    assert create() == 0
    assert rows(folder) == [1, 2]
    with pytest.raises(Conflict, match="created"):
        create()
    assert rows(folder) == [1, 2]


def test_a_folder_that_deltalake_would_not_find_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SidestepError, match="percent sign"):
        commit(locate(tmp_path / "a%20b"), add=[], read_version=None, schema=LONGS, operation="WRITE", data_change=True)


def test_a_table_with_local_timestamps_says_so_in_its_protocol(tmp_path: Path) -> None:
    schema = pa.schema([("s", pa.struct([("t", pa.list_(pa.timestamp("us")))]))])
    commit(locate(tmp_path), add=[], read_version=None, schema=schema, operation="CREATE TABLE", data_change=True)
    assert DeltaTable(str(tmp_path)).protocol().reader_features == ["timestampNtz"]
    check_writable(locate(tmp_path))


def test_columns_that_delta_has_no_type_for_are_refused(tmp_path: Path) -> None:
    schema = json.dumps({"type": "struct", "fields": [{**LONG_X[0], "type": "interval day to second"}]})
    with pytest.raises(SidestepError, match="cannot have these columns"):
        commit(locate(tmp_path), add=[], read_version=None, schema=schema, operation="WRITE", data_change=True)
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.usefixtures("way")
def test_the_hidden_column_comes_with_the_files_that_have_it(root: Path) -> None:
    DeltaTable(str(root)).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    DeltaTable(str(root)).alter.set_table_description("kept")
    snapshot = read_snapshot(root)
    assert snapshot.schema is not None
    commit(
        locate(root),
        add=[new_file(root, *ALL)],
        remove=snapshot.files,
        read_version=snapshot.version,
        schema=with_block_column(snapshot.schema),
        operation="OPTIMIZE",
        data_change=False,
    )
    after = read_snapshot(root)
    table = DeltaTable(str(root))
    assert block_name(after.schema) == BLOCK, "should keep its mark"
    assert rows(root) == ALL
    assert table.metadata().configuration == {"delta.logRetentionDuration": "interval 9 days"}
    assert table.metadata().description == "kept"
    write_deltalake(str(root), longs(5), mode="append", schema_mode="merge")
    assert block_name(read_snapshot(root).schema) == BLOCK, "should outlive other writers"


def test_with_links_the_column_and_the_files_are_one_version(root: Path) -> None:
    snapshot = read_snapshot(root)
    assert snapshot.schema is not None
    schema = with_block_column(snapshot.schema)
    version = commit(
        locate(root),
        add=[new_file(root, *ALL)],
        remove=snapshot.files,
        read_version=2,
        schema=schema,
        operation="OPTIMIZE",
        data_change=False,
    )
    assert version == 3


Foreign = Callable[[str], object]

HARMLESS: dict[str, Foreign] = {
    "append": lambda root: write_deltalake(root, longs(77), mode="append", schema_mode="merge"),
    "delete elsewhere": lambda root: DeltaTable(root).delete("x = 20"),
    "update elsewhere": lambda root: DeltaTable(root).update(updates={"x": "77"}, predicate="x = 20"),
    "checkpoint": lambda root: DeltaTable(root).create_checkpoint(),
}
HARMFUL: dict[str, Foreign] = {
    "delete": lambda root: DeltaTable(root).delete("x = 0"),
    "update": lambda root: DeltaTable(root).update(updates={"x": "77"}, predicate="x = 0"),
    "delete all": lambda root: DeltaTable(root).delete(),
    "overwrite": lambda root: write_deltalake(root, longs(77), mode="overwrite", schema_mode="merge"),
    "compaction": lambda root: DeltaTable(root).optimize.compact(),
    "new column": lambda root: DeltaTable(root).alter.add_columns([Field("y", PrimitiveType("long"))]),
    "restore": lambda root: DeltaTable(root).restore(0),
}


def oldest(snapshot: Snapshot, root: Path) -> DataFile:
    return next(file for file in snapshot.files if values_of(root, [file]) == [0, 1])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("what", HARMLESS)
def test_what_others_did_elsewhere_stays(root: Path, what: str) -> None:
    snapshot = read_snapshot(root)
    HARMLESS[what](str(root))
    before = rows(root)
    replace(root, snapshot, [oldest(snapshot, root)])
    assert rows(root) == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("what", HARMFUL)
@pytest.mark.parametrize("data_change", [False, True])
def test_what_others_did_to_the_same_files_is_a_conflict(root: Path, what: str, data_change: bool) -> None:
    snapshot = read_snapshot(root)
    HARMFUL[what](str(root))
    before, version = rows(root), DeltaTable(str(root)).version()
    file = snapshot.files[-1] if what == "restore" else oldest(snapshot, root)
    if what == "restore":
        file = next(one for one in snapshot.files if values_of(root, [one]) == [20, 21])
    with pytest.raises(Conflict):
        replace(root, snapshot, [file], data_change=data_change)
    assert (rows(root), DeltaTable(str(root)).version()) == (before, version)


@pytest.mark.usefixtures("way")
def test_a_writer_that_comes_between_check_and_commit_is_seen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other commit lands after everything was checked, right before the entry is written."""
    snapshot = read_snapshot(root)
    put = transaction._put
    others: list[Foreign] = [HARMLESS["append"], HARMLESS["delete elsewhere"], HARMFUL["compaction"]]

    def late(place: Location, *rest: object) -> int | None:
        if others:
            others.pop(0)(place.path)
        return put(place, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(transaction, "_put", late)
    with pytest.raises(Conflict, match="no longer part"):
        replace(root, snapshot, [oldest(snapshot, root)])
    assert rows(root) == [0, 1, 10, 11, 21, 77]
    assert not others


def insert(root: Path, version: int, *values: int, operation: str = "MERGE", depends: bool = True) -> int:
    """Add rows, by default because they were not there."""
    schema = read_snapshot(root).schema
    assert schema is not None
    return commit(
        locate(root),
        add=[new_file(root, *values)],
        read_version=version,
        schema=schema,
        operation=operation,
        data_change=True,
        depends=depends,
    )


@pytest.mark.usefixtures("way")
def test_rows_that_depend_on_others_meet_only_blind_appends(root: Path) -> None:
    write_deltalake(str(root), longs(30), mode="append")
    insert(root, 2, 31, operation="WRITE", depends=False)
    snapshot = read_snapshot(root)
    replace(root, snapshot, snapshot.files[:2])
    assert insert(root, 2, 40) == 6, "appends, and the same rows in other files, are not in the way"
    with pytest.raises(Conflict, match="in version 6"):
        insert(root, 2, 40)
    assert rows(root) == sorted([*ALL, 30, 31, 40])


@pytest.mark.parametrize(
    "other",
    [
        lambda table: table.delete("x = 10"),
        lambda table: table.update(updates={"x": "5"}, predicate="x = 10"),
        lambda table: write_deltalake(table, longs(1), mode="overwrite"),
    ],
)
def test_rows_that_depend_on_others_conflict_with_changes(root: Path, other: Callable[[DeltaTable], object]) -> None:
    other(DeltaTable(str(root)))
    with pytest.raises(Conflict):
        insert(root, 2, 40)
    assert insert(root, 3, 40) == 4


def test_a_version_that_is_no_longer_there_may_have_been_anything(root: Path) -> None:
    write_deltalake(str(root), longs(30), mode="append")
    DeltaTable(str(root)).create_checkpoint()
    (root / "_delta_log" / f"{3:020d}.json").unlink()
    with pytest.raises(Conflict):
        insert(root, 2, 40)


def test_a_table_put_in_the_place_of_another_is_a_conflict(root: Path, tmp_path: Path) -> None:
    snapshot = read_snapshot(root)
    root.rename(tmp_path / "old")
    write_deltalake(str(root), longs(1))
    with pytest.raises(Conflict, match="replaced"):
        replace(root, snapshot, [])


def test_paths_are_removed_as_the_log_spells_them(tmp_path: Path) -> None:
    """Log replay compares the text of paths, and other writers escape what this one would not."""
    names = ["a+b,(c).parquet", "a b%25.parquet", "é.parquet"]
    files = [new_file(tmp_path, number, path=name) for number, name in enumerate(names)]
    raw = ["a+b,(c).parquet", "a%20b%2525.parquet", "%C3%A9.parquet"]
    sizes = [{"size": file.size, "modificationTime": file.modified} for file in files]
    write_delta_log(tmp_path, [{"path": path, **size} for path, size in zip(raw, sizes, strict=True)])
    snapshot = read_snapshot(tmp_path)
    assert {file.path for file in snapshot.files} == set(names)
    replace(tmp_path, snapshot, snapshot.files)
    assert rows(tmp_path) == [0, 1, 2]
    odd = new_file(tmp_path, 3, path="p=x y%20z:é/f+g.parquet")
    commit(tmp_path.as_posix(), add=[odd], read_version=1, schema=LONGS, operation="WRITE", data_change=True)
    assert rows(tmp_path) == [0, 1, 2, 3]


def test_a_file_is_added_once(root: Path) -> None:
    file = new_file(root, 5)
    with pytest.raises(SidestepError, match="more than once"):
        commit(locate(root), add=[file, file], read_version=2, schema=LONGS, operation="WRITE", data_change=True)
    with pytest.raises(SidestepError, match="more than once"):
        commit(
            locate(root),
            add=[file],
            remove=[file.data_file],
            read_version=2,
            schema=LONGS,
            operation="WRITE",
            data_change=True,
        )


def test_checkpoints_are_written_as_the_table_asks(root: Path) -> None:
    DeltaTable(str(root)).alter.set_table_properties({"delta.checkpointInterval": "2"})
    for _ in range(3):
        snapshot = read_snapshot(root)
        replace(root, snapshot, snapshot.files[:1])
    assert [path.name[:20] for path in root.glob("_delta_log/*.checkpoint.parquet")] != []
    assert rows(root) == ALL
    assert not list(root.glob("_delta_log/.*partial*"))


def test_work_is_done_again_and_then_given_up() -> None:
    attempts: list[int] = []

    def work() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise Conflict("Another writer was first.")
        return "done"

    assert with_retries(work) == "done"
    assert len(attempts) == 3
    attempts.clear()
    with pytest.raises(Conflict, match=r"Gave up after 2 attempts.*was first"):
        with_retries(work, attempts=2)


PROPERTIES = {
    "change data feed": {"delta.enableChangeDataFeed": "true"},
    "constraint": {"delta.constraints.positive": "x > 0"},
}
OF_COLUMNS = {
    "invariant": {"delta.invariants": '{"expression":{"expression":"x > 0"}}'},
    "generated": {"delta.generationExpression": "1"},
    "identity": {"delta.identity.start": 1},
    "default": {"CURRENT_DEFAULT": "7"},
}


@pytest.mark.parametrize("what", PROPERTIES)
def test_tables_with_duties_are_refused(tmp_path: Path, what: str) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 4}
    write_delta_log(tmp_path, [], protocol=protocol, configuration=PROPERTIES[what])
    with pytest.raises(UnsupportedTable, match=what):
        check_writable(locate(tmp_path))
    with pytest.raises(UnsupportedTable, match=what):
        commit(
            locate(tmp_path),
            add=[new_file(tmp_path, 1)],
            read_version=0,
            schema=LONGS,
            operation="WRITE",
            data_change=True,
        )


@pytest.mark.parametrize("what", OF_COLUMNS)
def test_columns_with_duties_are_refused(tmp_path: Path, what: str) -> None:
    write_delta_log(tmp_path, [], fields=[{**LONG_X[0], "metadata": OF_COLUMNS[what]}])
    with pytest.raises(UnsupportedTable, match=what):
        check_writable(locate(tmp_path))


@pytest.mark.parametrize("feature", ["rowTracking", "inCommitTimestamp", "clustering", "icebergCompatV2", "unheardOf"])
def test_writer_features_are_refused_by_name(tmp_path: Path, feature: str) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", feature]}
    write_delta_log(tmp_path, [], protocol=protocol)
    with pytest.raises(UnsupportedTable, match=feature):
        check_writable(locate(tmp_path))


def test_append_only_tables_keep_their_rows(root: Path) -> None:
    DeltaTable(str(root)).alter.set_table_properties({"delta.appendOnly": "true"})
    snapshot = read_snapshot(root)
    check_writable(locate(root))
    with pytest.raises(UnsupportedTable, match="append-only"):
        check_writable(locate(root), removes_rows=True)
    with pytest.raises(UnsupportedTable, match="append-only"):
        replace(root, snapshot, snapshot.files[:1], data_change=True)
    replace(root, snapshot, snapshot.files[:1])
    assert rows(root) == ALL


CALM = st.sampled_from(sorted(HARMLESS) + sorted(HARMFUL.keys() - {"restore", "delete all"}))


@settings(max_examples=25)
@given(before=st.lists(CALM, max_size=2), between=st.lists(CALM, max_size=2), chosen=st.sets(st.integers(0, 5)))
def test_whatever_others_do_rows_stay_as_they_left_them(tmp_path, before, between, chosen) -> None:
    """Rearranging some files either goes through and changes no row, or is a conflict and changes nothing."""
    root = tmp_path / uuid.uuid4().hex
    for number in range(3):
        write_deltalake(str(root), longs(10 * number, 10 * number + 1), mode="append")
    for what in before:
        disturb(root, what)
    snapshot = read_snapshot(root)
    files = [file for at, file in enumerate(snapshot.files) if at in chosen]
    for what in between:
        disturb(root, what)
    expected, version = rows(root), DeltaTable(str(root)).version()
    live = {file.key for file in read_snapshot(root).files}
    fits = read_snapshot(root).schema == snapshot.schema and all(file.key in live for file in files)
    try:
        assert replace(root, snapshot, files) == version + 1
        assert fits
    except Conflict:
        assert not fits
        assert DeltaTable(str(root)).version() == version
    assert rows(root) == expected


def disturb(root: Path, what: str) -> None:
    if what == "new column" and len(DeltaTable(str(root)).schema().fields) > 1:
        return
    (HARMLESS | HARMFUL)[what](str(root))


# ---- many writers at once


def append_many(folder: str, first: int, count: int) -> None:
    for value in range(first, first + count):
        root = Path(folder)
        commit(
            locate(root),
            add=[new_file(root, value)],
            read_version=0,
            schema=LONGS,
            operation="WRITE",
            data_change=True,
        )


def rewrite_many(folder: str, count: int) -> None:
    for _ in range(count):

        def work() -> None:
            snapshot = read_snapshot(folder)
            replace(Path(folder), snapshot, snapshot.files[: max(2, len(snapshot.files) // 2)])

        with_retries(work, attempts=40)


@pytest.mark.usefixtures("way")
def test_threads_lose_nothing(root: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(append_many, str(root), 100, 8),
            pool.submit(append_many, str(root), 200, 8),
            pool.submit(rewrite_many, str(root), 4),
            pool.submit(foreign_appends, str(root), 300, 5),
        ]
        for job in jobs:
            job.result()
    assert rows(root) == sorted([*ALL, *range(100, 108), *range(200, 208), *range(300, 305)])


def foreign_appends(folder: str, first: int, count: int) -> None:
    for value in range(first, first + count):
        write_deltalake(folder, longs(value), mode="append")


def test_processes_lose_nothing(root: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=append_many, args=(str(root), 100, 10)),
        context.Process(target=rewrite_many, args=(str(root), 5)),
    ]
    for worker in workers:
        worker.start()
    foreign = threading.Thread(target=foreign_appends, args=(str(root), 300, 5))
    foreign.start()
    foreign.join()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert rows(root) == sorted([*ALL, *range(100, 110), *range(300, 305)])
