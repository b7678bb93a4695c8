"""Object stores: reached by what Hadoop's configuration says, by the user's scheme, and safe for several writers."""

from __future__ import annotations

import logging
import pickle
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("moto", reason="the tests of object stores run against moto's server")

from sidestep.errors import Conflict, SidestepError
from sidestep.store.access import S3Access, StoreSettings, access_of, store_settings, use_settings
from sidestep.store.commit.transaction import AddedFile, commit
from sidestep.store.index.index_file import index_folder
from sidestep.store.location import delete, is_folder, list_files, list_names, locate, open_file, stat, write_once
from sidestep.store.snapshots.read import read_snapshot
from tests.store.s3 import BUCKET, KEY, SECRET, every, serving, sometimes

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def store():
    with serving() as running:
        yield running


@pytest.fixture
def reached(store, monkeypatch):
    """The store, reached by settings alone: the environment has none."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    use_settings(StoreSettings(store.settings))
    yield store
    use_settings(StoreSettings())


def test_settings_of_a_bucket_win_over_those_of_all():
    said = {
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
        "fs.s3a.session.token": "c",
        "fs.s3a.endpoint": "store.example:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.bucket.own.access.key": "d",
        "fs.s3a.bucket.own.secret.key": "e",
        "fs.s3a.bucket.own.endpoint": "https://other.example",
        "fs.s3a.bucket.own.path.style.access": "true",
    }
    assert access_of(said, "any") == S3Access("a", "b", "c", False, "http", "store.example:9000", None, False)
    assert access_of(said, "own") == S3Access("d", "e", "c", False, "https", "other.example", None, True)


def test_nothing_said_is_left_to_the_environment():
    assert not access_of({}, "any").stated
    assert not access_of({"fs.s3a.access.key": "a", "fs.s3a.path.style.access": "false"}, "any").stated
    assert locate("/data/t").delta_options is None


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("s3.amazonaws.com", None),
        ("https://s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ("s3-us-west-2.amazonaws.com", "us-west-2"),
    ],
)
def test_endpoints_of_amazon_are_regions(endpoint, region):
    access = access_of({"fs.s3a.endpoint": endpoint}, "any")
    assert (access.endpoint, access.region) == (None, region)


def test_both_programs_are_told_the_same():
    access = access_of({"fs.s3a.endpoint": "http://host:1", "fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}, "own")
    assert access.delta_options("own") == {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": "http://own.host:1",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    }
    anonymous = access_of({"fs.s3a.aws.credentials.provider": "org.apache…AnonymousAWSCredentialsProvider"}, "b")
    assert anonymous.stated
    assert anonymous.delta_options("b") == {"AWS_SKIP_SIGNATURE": "true"}


def test_secrets_are_not_shown_and_settings_can_be_sent(reached):
    settings = StoreSettings(reached.settings)
    for shown in (repr(settings), repr(access_of(settings.values, "b")), str(locate("s3a://b/t"))):
        assert SECRET not in shown
        assert KEY not in shown
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert store_settings() == settings


def test_the_scheme_is_kept_and_one_table_has_one_index(reached):
    for scheme in ("s3a", "s3", "s3n"):
        located = locate(f"{scheme}://{BUCKET}/a%20b/t/")
        assert (located.uri, located.path) == (f"{scheme}://{BUCKET}/a%20b/t", f"{BUCKET}/a%20b/t")
        assert located.child("x").parent.uri == located.uri
    folders = {index_folder(locate(f"{scheme}://{BUCKET}/t"), "/indexes").path for scheme in ("s3", "s3a")}
    assert len(folders) == 1


def test_files_of_a_store(reached):
    root = locate(f"s3a://{BUCKET}/files")
    assert stat(root.child("x")) is None
    write_once(root.child("deep/x"), lambda stream: stream.write(b"12345"))
    with pytest.raises(SidestepError, match="exists already"):
        write_once(root.child("deep/x"), lambda stream: stream.write(b"more"))
    assert [(each.path, each.size) for each in list_files(root)] == [("deep/x", 5)]
    assert stat(root.child("deep/x")) is not None
    assert is_folder(root.child("deep"))
    assert list_names(root) == ["deep"]
    assert reached.keys("files") == ["files/deep/x"], "no marks of folders"
    with open_file(root.child("deep/x")) as stream:
        assert stream.read() == b"12345"
    delete(root.child("deep/x"))
    assert stat(root.child("deep/x")) is None
    assert list_files(root) == []


def write_part(root, name, rows):
    place = root.child(name)
    write_once(place, lambda stream: pq.write_table(pa.table({"id": rows}, schema=SCHEMA), stream))
    status = stat(place)
    assert status is not None
    return AddedFile(name, status.size, status.modified, (), "{}", len(rows))


def test_of_several_writers_none_loses_what_it_wrote(reached):
    root = locate(f"s3a://{BUCKET}/writers")
    first = write_part(root, "f0.parquet", [0])
    assert commit(root, add=[first], read_version=None, schema=SCHEMA, operation="LOAD", data_change=True) == 0
    with pytest.raises(Conflict, match="created"):
        commit(root, add=[first], read_version=None, schema=SCHEMA, operation="LOAD", data_change=True)
    problems = []

    def append(writer):
        try:
            part = write_part(root, f"w{writer}.parquet", [writer])
            commit(root, add=[part], read_version=0, schema=SCHEMA, operation="APPEND", data_change=True)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=append, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    snapshot = read_snapshot(root)
    assert (snapshot.version, len(snapshot.files)) == (4, 5)
    assert snapshot.root.uri == root.uri


def test_a_file_that_two_would_replace_is_replaced_once(reached):
    root = locate(f"s3a://{BUCKET}/replaced")
    commit(
        root,
        add=[write_part(root, "f0.parquet", [0])],
        read_version=None,
        schema=SCHEMA,
        operation="LOAD",
        data_change=True,
    )
    old = read_snapshot(root).files
    for number, outcome in enumerate(("goes through", "conflict")):
        part = write_part(root, f"new{number}.parquet", [0])
        replace = {"add": [part], "remove": old, "read_version": 0, "schema": SCHEMA, "operation": "OPTIMIZE"}
        if outcome == "conflict":
            with pytest.raises(Conflict):
                commit(root, **replace, data_change=False)
        else:
            commit(root, **replace, data_change=False)
    assert [file.path for file in read_snapshot(root).files] == ["new0.parquet"]


@pytest.mark.parametrize("kind", ["slow down", "lost"])
def test_requests_that_fail_are_made_again(reached, kind):
    root = locate(f"s3a://{BUCKET}/{kind.replace(' ', '-')}")
    with reached.failing(sometimes(kind, 0.15)) as failed:
        part = write_part(root, "f0.parquet", [0])
        commit(root, add=[part], read_version=None, schema=SCHEMA, operation="LOAD", data_change=True)
        for number in range(1, 3):
            part = write_part(root, f"f{number}.parquet", [number])
            commit(root, add=[part], read_version=0, schema=SCHEMA, operation="APPEND", data_change=True)
        assert [file.path for file in read_snapshot(root).files] == [f"f{number}.parquet" for number in range(3)]
    assert failed


def test_small_parts_of_files_are_read_of_a_store_that_is_busy(reached):
    """What the store says then is longer than the part that was asked for."""
    root = locate(f"s3a://{BUCKET}/busy")
    write_part(root, "f0.parquet", [1, 2, 3])

    def busy(method, path):
        return method == "GET" and path.endswith("f0.parquet")

    with reached.failing(every(2, "slow down", busy)) as failed, open_file(root.child("f0.parquet")) as file:
        assert pq.read_table(file)["id"].to_pylist() == [1, 2, 3]
        assert (file.seek(0), file.read(4), file.seek(-4, 2) > 0, file.read()) == (0, b"PAR1", True, b"PAR1")
    assert failed


def test_a_commit_whose_answer_is_lost_is_there_once(reached):
    root = locate(f"s3a://{BUCKET}/answer")
    commit(
        root,
        add=[write_part(root, "f0.parquet", [0])],
        read_version=None,
        schema=SCHEMA,
        operation="LOAD",
        data_change=True,
    )
    part = write_part(root, "f1.parquet", [1])
    once = every(1, "lost after", lambda method, path: method == "PUT" and path.endswith("0001.json"))
    failures = iter(range(10**9))
    with reached.failing(lambda method, path: once(method, path) and ("lost after" if next(failures) == 0 else None)):
        commit(root, add=[part], read_version=0, schema=SCHEMA, operation="APPEND", data_change=True)
    snapshot = read_snapshot(root)
    assert [file.path for file in snapshot.files] == ["f0.parquet", "f1.parquet"]
    rows = sum(len(pq.read_table(open_file(root.child(file.path)))) for file in snapshot.files)
    assert rows == 2


def test_a_listing_that_lags_hides_no_row_and_overwrites_no_version(reached):
    root = locate(f"s3a://{BUCKET}/lag")
    commit(
        root,
        add=[write_part(root, "f0.parquet", [0])],
        read_version=None,
        schema=SCHEMA,
        operation="LOAD",
        data_change=True,
    )
    part = write_part(root, "f1.parquet", [1])
    reached.late = lambda key: key.endswith("f1.parquet")
    try:
        commit(root, add=[part], read_version=0, schema=SCHEMA, operation="APPEND", data_change=True)
    finally:
        reached.late = lambda key: False
    assert [file.path for file in read_snapshot(root).files] == ["f0.parquet", "f1.parquet"]
    hidden = iter([True] * 2)
    reached.late = lambda key: key.endswith("1.json") and next(hidden, False)
    try:
        part = write_part(root, "f2.parquet", [2])
        commit(root, add=[part], read_version=0, schema=SCHEMA, operation="APPEND", data_change=True)
    finally:
        reached.late = lambda key: False
    assert [file.path for file in read_snapshot(root).files] == ["f0.parquet", "f1.parquet", "f2.parquet"]


def test_a_wrong_key_is_a_sentence_without_the_secret(reached, caplog):
    caplog.set_level(logging.DEBUG)
    with reached.failing(lambda method, path: "denied"), pytest.raises(SidestepError, match="denied") as raised:
        list_files(locate(f"s3a://{BUCKET}/t"))
    assert SECRET not in str(raised.value)
    assert SECRET not in caplog.text
