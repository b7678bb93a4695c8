from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidestep.errors import UnsupportedTable
from sidestep.predicate.types import DOUBLE, INTEGER, LONG
from sidestep.store import open_index, read_snapshot, update_index
from sidestep.store.index.table_index import TableIndex
from sidestep.store.snapshot import Field, Snapshot
from sidestep.store.snapshots.iceberg import iceberg_snapshot, is_iceberg
from sidestep.store.upkeep.status import index_status


def account(root: str, files: list[list[Any]], *fields: list[Any], **more: Any) -> str:
    told = {"location": root, "metadata": False, "snapshot": "7", "fields": list(fields), "files": files}
    return json.dumps(told | more)


def write(path: Path, columns: dict[str, tuple[int | None, list[Any]]]) -> Path:
    """A Parquet file whose columns have ids."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [
        pa.field(name, pa.array(values).type, metadata=None if id is None else {"PARQUET:field_id": str(id)})
        for name, (id, values) in columns.items()
    ]
    pq.write_table(
        pa.Table.from_arrays([pa.array(values) for _, values in columns.values()], schema=pa.schema(fields)), path
    )
    return path


def index_of(snapshot: Snapshot, **columns: Any) -> TableIndex:
    return update_index(snapshot, columns, open_index(snapshot.root))


def bounds(index: TableIndex, key: str, type: Any = LONG) -> list[tuple[Any, Any, Any]]:
    """What is known of each file: least and greatest value, and how many are NULL (-1: nothing is known)."""
    arrays = index.stored_arrays(key, type) or {}
    ends = (arrays[f"{name}:{key}"].to_pylist() for name in ("lower", "upper", "nulls"))
    return list(zip(*ends, strict=True))


def test_files_of_the_snapshot() -> None:
    files = [["/w/t/data/b.parquet", 9, 2], ["/w/t/data/a.parquet", 5, 1]]
    snapshot = iceberg_snapshot(account("file:/w/t", files, [1, "a", "bigint", True, True]))
    assert (snapshot.format, snapshot.version, snapshot.whole, snapshot.fixed) == ("iceberg", 7, True, True)
    assert [file.key for file in snapshot.files] == [("data/a.parquet", 5, 1), ("data/b.parquet", 9, 2)]
    assert snapshot.fields == (Field(1, "a", "bigint"),)
    assert iceberg_snapshot(account("/w/t", [], snapshot=None)).version is None


def test_files_of_other_kinds_and_places_stay_unknown() -> None:
    files = [["/w/t/data/a.orc", 9, -1], ["/elsewhere/a.parquet", 5, 1], ["/w/t2/a.parquet", 5, 1]]
    snapshot = iceberg_snapshot(account("/w/t", files))
    assert (snapshot.files, snapshot.whole) == ((), False)


def test_a_metadata_table_is_refused() -> None:
    with pytest.raises(UnsupportedTable, match="index the table itself"):
        iceberg_snapshot(account("/w/t", [], metadata=True))


def test_a_folder_alone_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.parquet", {"a": (1, [1])})
    (tmp_path / "metadata").mkdir()
    location = read_location(tmp_path)
    assert not is_iceberg(location)
    (tmp_path / "metadata" / "v1.metadata.json").write_text("{}")
    assert is_iceberg(location)
    with pytest.raises(UnsupportedTable, match="a catalog knows"):
        read_snapshot(tmp_path)


def read_location(path: Path) -> Any:
    return iceberg_snapshot(account(str(path), [])).root


def snapshot_at(root: Path, *fields: list[Any]) -> Snapshot:
    files = [[str(path), path.stat().st_size, 1] for path in sorted((root / "data").iterdir())]
    return iceberg_snapshot(account(str(root), files, *fields))


def test_columns_are_found_by_id(tmp_path: Path) -> None:
    """The first file has them under other names, the second lacks one, the third has a name that went elsewhere."""
    write(tmp_path / "data" / "1", {"old": (1, [1, 2]), "b": (2, [30, 40])})
    write(tmp_path / "data" / "2", {"a": (1, [5, 6])})
    write(tmp_path / "data" / "3", {"b": (1, [7, 8]), "a": (9, [1000, 1000]), "c": (2, [50, None])})
    snapshot = snapshot_at(tmp_path, [1, "a", "bigint", True, True], [2, "b", "bigint", True, True])
    index = index_of(snapshot, **{"a#1": LONG, "b#2": LONG})
    assert bounds(index, "a#1") == [(1, 2, 0), (5, 6, 0), (7, 8, 0)]
    assert bounds(index, "b#2") == [(30, 40, 0), (None, None, 2), (50, 50, 1)]
    assert index.columns_by_id == {1: "a#1", 2: "b#2"}
    status = index_status(snapshot, index)
    assert (set(status.columns), status.column_files) == ({"a", "b"}, {"a": 3, "b": 3})


@pytest.mark.parametrize(
    ("field", "known"),
    [([1, "a", "bigint", True, True], (None, None, 2)), ([1, "a", "bigint", False, True], (None, None, -1))],
)
def test_absent_is_null_unless_there_is_a_default(tmp_path: Path, field: list[Any], known: object) -> None:
    write(tmp_path / "data" / "1", {"b": (2, [1, 2])})
    assert bounds(index_of(snapshot_at(tmp_path, field), **{"a#1": LONG}), "a#1") == [known]


def test_nothing_is_known_of_what_cannot_be_told(tmp_path: Path) -> None:
    """Files without ids, an id that is there twice, and a partition's constant."""
    write(tmp_path / "data" / "1", {"a": (None, [1, 2])})
    write(tmp_path / "data" / "2", {"a": (1, [1, 2]), "b": (None, [1, 2])})
    write(tmp_path / "data" / "3", {"a": (1, [1, 2]), "b": (1, [1, 2])})
    index = index_of(snapshot_at(tmp_path, [1, "a", "bigint", True, True]), **{"a#1": LONG})
    assert bounds(index, "a#1") == [(None, None, -1)] * 3
    write(tmp_path / "other" / "data" / "1", {"a": (1, [1, 2])})
    index = index_of(snapshot_at(tmp_path / "other", [1, "a", "bigint", True, False]), **{"a#1": LONG})
    assert bounds(index, "a#1") == [(None, None, -1)]


def test_types_that_were_widened(tmp_path: Path) -> None:
    path = write(tmp_path / "data" / "1", {"n": (1, [1, 2]), "f": (2, [0.5, 1.5])})
    narrow = pa.schema(
        [
            pa.field("n", pa.int32(), metadata={"PARQUET:field_id": "1"}),
            pa.field("f", pa.float32(), metadata={"PARQUET:field_id": "2"}),
        ]
    )
    pq.write_table(
        pa.table({"n": [1, 2], "f": [0.5, 1.5]}).cast(pa.schema([("n", "int32"), ("f", "float32")])).cast(narrow), path
    )
    snapshot = snapshot_at(tmp_path, [1, "n", "bigint", True, True], [2, "f", "double", True, True])
    index = index_of(snapshot, **{"n#1": LONG, "f#2": DOUBLE})
    assert bounds(index, "n#1") == [(1, 2, 0)]
    assert bounds(index, "f#2", DOUBLE) == [(0.5, 1.5, 0)]


def test_a_catalog_by_other_names(tmp_path: Path) -> None:
    write(tmp_path / "data" / "1", {"a": (1, [1, 2])})
    index = index_of(snapshot_at(tmp_path, [1, "a", "bigint", True, True]), **{"a#1": INTEGER})
    assert index.catalog({"renamed": LONG}, {"renamed": "a#1"}).synopses
    assert not index.catalog({"a": LONG}).synopses
