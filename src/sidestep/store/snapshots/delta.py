"""A Delta table: the files that its log says are the table, through the ``deltalake`` package.

Anything in the log that could change which rows a file holds, or what its columns are called, and that sidestep does
not handle, is an :class:`UnsupportedTable` by name. Guessing would give wrong answers.

Deletion vectors and mapped columns are for Delta's own reader: who reads rows through sidestep is told so. An index
takes both. What it says of a file holds for all of its rows, so for those that are left, too; and it calls columns as
the files do. Those names stay when a column is renamed, and a new column never gets one that was there before, whereas
the table's own names may mean one column today and another tomorrow.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from sidestep.errors import SidestepError, TableNotFound, UnsupportedTable
from sidestep.store.location import Location, is_folder
from sidestep.store.snapshot import DataFile, Snapshot

_HARMLESS = frozenset({"timestampNtz", "deletionVectors", "columnMapping", "v2Checkpoint", "vacuumProtocolCheck"})
"""Reader features that do not matter here, or that are checked for actual use."""
_PHYSICAL_NAME, _FIELD_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|/")
_NO_RAW_TEXT = {
    "timestamp": "the text of its values means an instant only together with a time zone",
    "binary": "its values have no certain text",
}


def is_delta(location: Location) -> bool:
    return is_folder(location.child("_delta_log"))


def open_delta(location: Location, version: int | None = None) -> DeltaTable:
    """The table as ``deltalake`` has it, which reaches stores by the same settings as everything else."""
    place = location.path if location.local else location.canonical
    return DeltaTable(place, version=version, storage_options=location.delta_options)


def read_delta(location: Location, version: int | None = None, *, to_index: bool = False) -> Snapshot:
    """The snapshot of a Delta table, now or at an older ``version``.

    ``to_index`` takes tables with deletion vectors and mapped columns, too, which then are called as the files do:
    whoever reads rows from the files of such a snapshot would read deleted ones.
    """
    try:
        table = open_delta(location, version)
        metadata = table.metadata()
        mapping = metadata.configuration.get("delta.columnMapping.mode") or "none"
        _check_features(location, table)
        if not to_index:
            _check_mapping(location, mapping)
            _check_deletion_vectors(location, table)
        actions = pa.table(table.get_add_actions())
        schema = table.schema().to_json()
        partition_columns = tuple(metadata.partition_columns)
        read_version = table.version()
    except TableNotFoundError as error:
        raise TableNotFound(f"The Delta log of {location.uri} has no version to read: {error}.") from error
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        _raise_for(location, version, error)
    if to_index:
        told = _columns_with_text(schema, partition_columns)
        schema = _without_columns(schema, set(partition_columns) - set(told))
        partition_columns = told
    else:
        _check_partition_types(location, schema, partition_columns)
    stored = _stored_names(schema) if mapping != "none" else {}
    return Snapshot(
        location,
        "delta",
        read_version,
        tuple(sorted(_data_files(location, actions, partition_columns, stored), key=lambda file: file.path)),
        tuple(stored.get(column, column) for column in partition_columns),
        _with_names(schema, stored) if stored else schema,
        whole=version is None,
        table_id=str(metadata.id),
        stored_names=tuple((name, other) for name, other in stored.items() if name != other),
        field_ids=_field_ids(schema, stored) if mapping == "id" else (),
    )


def _raise_for(location: Location, version: int | None, error: Exception) -> Any:
    message = str(error)
    feature = re.search(
        r"[Ff]eature '([^']+)' is not supported|Unsupported table features required: \[(.+?)\]", message
    )
    if feature:
        raise UnsupportedTable(_unsupported(location, f"the feature {feature[1] or feature[2]}")) from error
    if "nsupported" in message or "rotocol" in message:
        raise UnsupportedTable(_unsupported(location, f"something its reader does not know ({message})")) from error
    what = "" if version is None else f" at version {version}"
    raise SidestepError(f"Cannot read the Delta log of {location.uri}{what}: {message}") from error


def _unsupported(location: Location, what: str) -> str:
    return f"The Delta table {location.uri} uses {what}, which sidestep does not support. Read it without sidestep."


def _check_features(location: Location, table: DeltaTable) -> None:
    protocol = table.protocol()
    features = set(protocol.reader_features or ())
    unknown = sorted(features - _HARMLESS)
    if unknown:
        raise UnsupportedTable(_unsupported(location, f"the feature {', '.join(unknown)}"))
    if protocol.min_reader_version > 3:
        raise UnsupportedTable(_unsupported(location, f"reader version {protocol.min_reader_version}"))


def _for_delta(location: Location, what: str) -> str:
    return (
        f"The Delta table {location.uri} uses {what}, which only Delta's own reader applies. Read it with delta-spark, "
        f'spark.read.format("delta").load({location.uri!r}): in a session with sidestep, that skips by the same index.'
    )


def _check_mapping(location: Location, mode: str) -> None:
    if mode != "none":
        raise UnsupportedTable(_for_delta(location, f"the feature columnMapping (mode {mode})"))


def _check_deletion_vectors(location: Location, table: DeltaTable) -> None:
    message = _for_delta(location, "the feature deletionVectors on some of its files")
    remedy = f"{message} REORG TABLE … APPLY (PURGE) writes them away."
    try:
        # Asked whatever the protocol says: a vector that is ignored gives deleted rows back.
        if any(batch.num_rows for batch in table.deletion_vectors()):
            raise UnsupportedTable(remedy)
    except DeltaError as error:
        raise UnsupportedTable(f"{remedy} (They could not be read: {error}.)") from error


def _check_partition_types(location: Location, schema: str, partition_columns: tuple[str, ...]) -> None:
    types = {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
    for column in partition_columns:
        reason = _NO_RAW_TEXT.get(str(types.get(column)))
        if reason:
            what = f"the partition column {column} of type {types[column]}: {reason}"
            raise UnsupportedTable(_unsupported(location, what))


def _columns_with_text(schema: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the partition columns whose values have a certain text."""
    types = {field["name"]: str(field["type"]) for field in json.loads(schema)["fields"]}
    return tuple(column for column in columns if types.get(column) not in _NO_RAW_TEXT)


def _without_columns(schema: str, gone: set[str]) -> str:
    struct = json.loads(schema)
    return json.dumps({**struct, "fields": [field for field in struct["fields"] if field["name"] not in gone]})


def _stored_names(schema: str) -> dict[str, str]:
    """What each column is called in the files."""
    return {field["name"]: field["metadata"][_PHYSICAL_NAME] for field in json.loads(schema)["fields"]}


def _with_names(schema: str, names: Mapping[str, str]) -> str:
    struct = json.loads(schema)
    return json.dumps({**struct, "fields": [{**field, "name": names[field["name"]]} for field in struct["fields"]]})


def _field_ids(schema: str, names: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    fields = json.loads(schema)["fields"]
    return tuple((names[field["name"]], int(field["metadata"][_FIELD_ID])) for field in fields)


def _data_files(
    location: Location, actions: pa.Table, columns: tuple[str, ...], names: Mapping[str, str]
) -> list[DataFile]:
    paths = [_relative(location, path) for path in actions["path"].to_pylist()]
    raw: list[Sequence[str | None]] = []
    if columns:
        struct = actions["partition"].combine_chunks()
        raw = [[_raw_text(value) for value in struct.field(column).to_pylist()] for column in columns]
    sizes, times = actions["size_bytes"].to_pylist(), actions["modification_time"].to_pylist()
    return [
        DataFile(
            path, sizes[i], times[i], tuple((names.get(column, column), raw[c][i]) for c, column in enumerate(columns))
        )
        for i, path in enumerate(paths)
    ]


def _relative(location: Location, path: str) -> str:
    """The log percent-encodes a path once more than the disk does."""
    decoded = unquote(path, errors="strict")
    if not _ABSOLUTE.match(path) and ".." not in decoded.split("/"):
        return decoded
    raise UnsupportedTable(_unsupported(location, f"a file outside its own folder, {path} (a shallow clone?)"))


def _raw_text(value: Any) -> str | None:
    """A partition value as text that Spark casts back to the very same value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return str(value)
