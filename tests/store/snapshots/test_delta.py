from __future__ import annotations

import datetime
import json
import os
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sidestep.errors import DamagedFile, SidestepError, TableNotFound, UnsupportedTable
from sidestep.predicate import parse_type
from sidestep.store import DataFile, block_summaries, locate, read_snapshot
from tests.store.tables import write_delta_log, write_parquet

TABLE_FEATURES = {"minReaderVersion": 3, "minWriterVersion": 7}


def features(*names: str) -> dict[str, Any]:
    return TABLE_FEATURES | {"readerFeatures": list(names), "writerFeatures": list(names)}


def field(name: str, type: str) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {}}


def test_awkward_partition_values(tmp_path: Path) -> None:
    values = ["a b", "x%y", "k=v", "né", "a/b", "a:b", "10%25", "+", "日本", None]
    write_deltalake(str(tmp_path), pa.table({"p": values, "x": range(len(values))}), partition_by=["p"])
    snapshot = read_snapshot(tmp_path)
    assert (snapshot.format, snapshot.version, snapshot.partition_columns) == ("delta", 0, ("p",))
    assert sorted(str(dict(file.partition)["p"]) for file in snapshot.files) == sorted(map(str, values))
    for file in snapshot.files:
        assert os.stat(tmp_path / file.path).st_size == file.size, "should be the name on disk"


def test_paths_are_decoded_once(tmp_path: Path) -> None:
    names = {"p=a%20b%2525/f%20g.parquet": "p=a b%25/f g.parquet", "p=%C3%A9%3D/f+g": "p=é=/f+g"}
    adds = [{"path": name, "partitionValues": {"p": "v"}} for name in names]
    write_delta_log(tmp_path, adds, fields=[field("x", "long"), field("p", "string")], partition_columns=["p"])
    assert {file.path for file in read_snapshot(tmp_path).files} == set(names.values())


def test_size_and_time_are_the_logs(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f.parquet", {"x": [1]})
    write_delta_log(tmp_path, [{"path": "f.parquet", "size": 77, "modificationTime": 123_456}])
    assert [file.key for file in read_snapshot(tmp_path).files] == [("f.parquet", 77, 123_456)]


def test_time_travel(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"x": [number]}), mode="append")
    assert [len(read_snapshot(tmp_path, version=v).files) for v in (0, 1, 2)] == [1, 2, 3]
    assert read_snapshot(tmp_path).whole
    assert not read_snapshot(tmp_path, version=1).whole, "newer files are not dead"
    with pytest.raises(SidestepError, match="version 9"):
        read_snapshot(tmp_path, version=9)


def test_removed_files_are_gone_and_checkpoints_are_read(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"x": [1, 2]}))
    write_deltalake(str(tmp_path), pa.table({"x": [3]}), mode="overwrite")
    DeltaTable(str(tmp_path)).create_checkpoint()
    write_deltalake(str(tmp_path), pa.table({"x": [4]}), mode="append")
    snapshot = read_snapshot(tmp_path)
    assert (snapshot.version, len(snapshot.files)) == (2, 2)


def test_schema_is_sparks_json(tmp_path: Path) -> None:
    write_delta_log(tmp_path, [], fields=[field("x", "long"), field("d", "decimal(10,2)")])
    snapshot = read_snapshot(tmp_path)
    assert snapshot.schema is not None
    assert '"decimal(10,2)"' in snapshot.schema
    assert snapshot.files == ()


def test_partition_values_as_text(tmp_path: Path) -> None:
    row = {
        "i": [7],
        "d": [datetime.date(2020, 2, 29)],
        "b": [True],
        "m": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "g": [0.1],
        "h": [float("nan")],
        "s": ["x"],
        "x": [1],
    }
    write_deltalake(str(tmp_path), pa.table(row), partition_by=["i", "d", "b", "m", "g", "h", "s"])
    (file,) = read_snapshot(tmp_path).files
    expected = {"i": "7", "d": "2020-02-29", "b": "true", "m": "1.50", "g": "0.1", "h": "NaN", "s": "x"}
    assert dict(file.partition) == expected


VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 2,
}


@pytest.mark.parametrize("protocol", [features("deletionVectors"), {"minReaderVersion": 1, "minWriterVersion": 2}])
def test_deletion_vectors_are_refused(tmp_path: Path, protocol: dict[str, Any]) -> None:
    write_delta_log(tmp_path, [{"path": "f", "deletionVector": VECTOR}], protocol=protocol)
    with pytest.raises(UnsupportedTable, match="deletionVectors"):
        read_snapshot(tmp_path)


def test_deletion_vectors_that_nothing_uses_are_fine(tmp_path: Path) -> None:
    write_delta_log(tmp_path, [{"path": "f"}], protocol=features("deletionVectors", "timestampNtz"))
    assert len(read_snapshot(tmp_path).files) == 1


@pytest.mark.parametrize("protocol", [features("deletionVectors"), {"minReaderVersion": 1, "minWriterVersion": 2}])
def test_an_index_takes_files_with_deletion_vectors(tmp_path: Path, protocol: dict[str, Any]) -> None:
    write_delta_log(tmp_path, [{"path": "f", "deletionVector": VECTOR}, {"path": "g"}], protocol=protocol)
    assert [file.path for file in read_snapshot(tmp_path, to_index=True).files] == ["f", "g"]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_an_index_calls_columns_as_the_files_do(tmp_path: Path, mode: str) -> None:
    mapped = [
        field(name, "long") | {"metadata": {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": physical}}
        for name, id, physical in (("x", 1, "c1"), ("p", 2, "c2"), ("same", 3, "same"))
    ]
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "3"}
    write_delta_log(
        tmp_path,
        [{"path": "f", "partitionValues": {"c2": "7"}}],
        fields=mapped,
        partition_columns=["p"],
        protocol={"minReaderVersion": 2, "minWriterVersion": 5},
        configuration=configuration,
    )
    snapshot = read_snapshot(tmp_path, to_index=True)
    assert [each["name"] for each in json.loads(snapshot.schema or "")["fields"]] == ["c1", "c2", "same"]
    assert snapshot.stored_names == (("x", "c1"), ("p", "c2"))
    assert snapshot.partition_columns == ("c2",)
    assert [file.partition for file in snapshot.files] == [(("c2", "7"),)]
    assert snapshot.field_ids == ((("c1", 1), ("c2", 2), ("same", 3)) if mode == "id" else ())


def test_an_index_knows_nothing_of_partition_values_without_a_certain_text(tmp_path: Path) -> None:
    fields = [field("x", "long"), field("at", "timestamp"), field("p", "string")]
    values = {"at": "2024-01-01 00:00:00", "p": "a"}
    write_delta_log(tmp_path, [{"path": "f", "partitionValues": values}], fields=fields, partition_columns=["at", "p"])
    with pytest.raises(UnsupportedTable, match="time zone"):
        read_snapshot(tmp_path)
    snapshot = read_snapshot(tmp_path, to_index=True)
    assert (snapshot.partition_columns, snapshot.files[0].partition) == (("p",), (("p", "a"),))
    assert [each["name"] for each in json.loads(snapshot.schema or "")["fields"]] == ["x", "p"]


@pytest.mark.parametrize("ids", [{"x": 1}, {"x": 2}, {"y": 1}])
def test_a_file_whose_names_are_not_those_of_its_ids_is_not_indexed(tmp_path: Path, ids: dict[str, int]) -> None:
    with_id = pa.schema([pa.field("x", pa.int64(), metadata={b"PARQUET:field_id": b"1"})])
    path = write_parquet(tmp_path / "f.parquet", pa.table({"x": [1, 2]}, with_id))
    file = DataFile("f.parquet", path.stat().st_size, 1)
    summarize = partial(block_summaries, locate(tmp_path), file, {"x": parse_type("bigint")}, log_times=True, ids=ids)
    if ids == {"x": 1}:
        assert summarize() is not None
    else:
        with pytest.raises(DamagedFile, match="not indexed"):
            summarize()


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_is_refused(tmp_path: Path, mode: str) -> None:
    mapped = field("x", "long") | {"metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}}
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "1"}
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    write_delta_log(tmp_path, [{"path": "f"}], fields=[mapped], protocol=protocol, configuration=configuration)
    with pytest.raises(UnsupportedTable, match=r"columnMapping .* spark\.read\.format"):
        read_snapshot(tmp_path)


@pytest.mark.parametrize("feature", ["typeWidening", "fancyThing", "variantType"])
def test_unknown_features_are_refused_by_name(tmp_path: Path, feature: str) -> None:
    write_delta_log(tmp_path, [{"path": "f"}], protocol=features(feature))
    with pytest.raises(UnsupportedTable, match=feature):
        read_snapshot(tmp_path)


def test_a_newer_protocol_is_refused(tmp_path: Path) -> None:
    write_delta_log(tmp_path, [{"path": "f"}], protocol={"minReaderVersion": 4, "minWriterVersion": 7})
    with pytest.raises(UnsupportedTable, match="does not support"):
        read_snapshot(tmp_path)


@pytest.mark.parametrize("path", ["file:///elsewhere/f", "s3://b/f", "/abs/f", "../f", "a/%2E%2E/f"])
def test_files_outside_the_table_are_refused(tmp_path: Path, path: str) -> None:
    write_delta_log(tmp_path, [{"path": path}])
    with pytest.raises(UnsupportedTable, match="outside"):
        read_snapshot(tmp_path)


@pytest.mark.parametrize("type", ["timestamp", "binary"])
def test_partition_columns_without_certain_text_are_refused(tmp_path: Path, type: str) -> None:
    write_delta_log(tmp_path, [], fields=[field("x", "long"), field("p", type)], partition_columns=["p"])
    with pytest.raises(UnsupportedTable, match=f"partition column p of type {type}"):
        read_snapshot(tmp_path)


def test_an_empty_or_broken_log_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(TableNotFound, match="no version to read"):
        read_snapshot(tmp_path)
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text("{broken")
    with pytest.raises(SidestepError, match="Delta"):
        read_snapshot(tmp_path)
