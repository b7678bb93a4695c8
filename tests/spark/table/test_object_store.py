"""Stores by the settings of a session, on the driver and on workers; the rest is in `make test-stores`."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("moto", reason="the tests of object stores run against moto's server")

import sidestep
from sidestep.spark.jvm.bridge import check_session
from sidestep.store.access import s3_access
from sidestep.store.commit.transaction import AddedFile, commit
from sidestep.store.location import locate, stat, write_once
from tests.spark.tables import changed_settings
from tests.store.s3 import BUCKET, SECRET, serving


@pytest.fixture
def store(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        yield running


def test_settings_of_a_session_reach_driver_and_workers(spark, store, caplog):
    with changed_settings(spark, store.settings):
        check_session(spark)
        assert s3_access(BUCKET).endpoint == store.endpoint.removeprefix("http://")
        root = locate(f"s3a://{BUCKET}/t")
        added = []
        for number in range(2):
            rows = pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())})
            place = root.child(f"f{number}.parquet")
            write_once(place, partial(pq.write_table, rows))
            status = stat(place)
            assert status is not None
            added.append(AddedFile(place.name, status.size, status.modified, (), "{}", 10))
        commit(root, add=added, read_version=None, schema=rows.schema, operation="LOAD", data_change=True)
        made = sidestep.index(spark, root.uri)
        assert (made.root, made.indexed_files, made.indexed_rows) == (root.uri, 2, 20)
        assert sidestep.status(spark, f"s3://{BUCKET}/t").indexed_files == 2, "the same index by another scheme"
        assert any("_sidestep/" in key for key in store.keys("t/"))
    assert SECRET not in caplog.text


def test_settings_of_one_bucket_are_its_own(spark):
    with changed_settings(spark, {"fs.s3a.bucket.own.endpoint": "http://host:1", "fs.s3a.endpoint": "http://host:2"}):
        check_session(spark)
        assert (s3_access("own").endpoint, s3_access("any").endpoint) == ("host:1", "host:2")
    check_session(spark)
    assert not s3_access("own").stated
