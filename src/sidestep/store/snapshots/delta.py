"""A Delta table: the files that its log says are the table, through the ``deltalake`` package.

Anything in the log that could change which rows a file holds, or what its columns are called, and that sidestep does
not handle, is an :class:`UnsupportedTable` by name. Guessing would give wrong answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
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


def read_delta(location: Location, version: int | None = None) -> Snapshot:
    """The snapshot of a Delta table, now or at an older ``version``."""
    try:
        table = open_delta(location, version)
        _check_features(location, table)
        _check_deletion_vectors(location, table)
        actions = pa.table(table.get_add_actions())
        schema = table.schema().to_json()
        metadata = table.metadata()
        partition_columns = tuple(metadata.partition_columns)
        read_version = table.version()
    except TableNotFoundError as error:
        raise TableNotFound(f"The Delta log of {location.uri} has no version to read: {error}.") from error
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        _raise_for(location, version, error)
    _check_partition_types(location, schema, partition_columns)
    return Snapshot(
        location,
        "delta",
        read_version,
        tuple(sorted(_data_files(location, actions, partition_columns), key=lambda file: file.path)),
        partition_columns,
        schema,
        whole=version is None,
        table_id=str(metadata.id),
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
    mode = table.metadata().configuration.get("delta.columnMapping.mode") or "none"
    if mode != "none":
        raise UnsupportedTable(_unsupported(location, f"the feature columnMapping (mode {mode})"))


def _check_deletion_vectors(location: Location, table: DeltaTable) -> None:
    message = _unsupported(location, "the feature deletionVectors on some of its files")
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


def _data_files(location: Location, actions: pa.Table, columns: tuple[str, ...]) -> list[DataFile]:
    paths = [_relative(location, path) for path in actions["path"].to_pylist()]
    raw: list[Sequence[str | None]] = []
    if columns:
        struct = actions["partition"].combine_chunks()
        raw = [[_raw_text(value) for value in struct.field(column).to_pylist()] for column in columns]
    sizes, times = actions["size_bytes"].to_pylist(), actions["modification_time"].to_pylist()
    return [
        DataFile(path, sizes[i], times[i], tuple((column, raw[c][i]) for c, column in enumerate(columns)))
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
