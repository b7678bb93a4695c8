"""One version of a Delta log: the actions of a change, put where only one writer can put them.

On a local file system the entry is written here, beside the log, and linked to its name: a link fails if the name is
taken. That lets the change of a schema, the files that come and those that go share one entry. Object stores have no
links; there ``deltalake`` writes the entry with the store's own condition, and a new column is a version of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from deltalake import CommitProperties, DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from sidestep._version import __version__
from sidestep.errors import SidestepError, Unanswered
from sidestep.store.block_column import block_name, is_block_field
from sidestep.store.location import Location, delete, list_names, open_file, stat
from sidestep.store.snapshot import DataFile, Partition

LOG = "_delta_log"
_TYPES = frozenset(
    {"string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp"}
)
_DECIMAL = re.compile(r"decimal\(\d+,\s*-?\d+\)")
_VERSION = re.compile(r"\d{20}\.")
_NTZ = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that was written and is to become part of a table."""

    path: str
    """Relative to the table's root, as the name is on disk."""
    size: int
    modified: int
    """Milliseconds."""
    partition: Partition
    stats_json: str
    """Delta's statistics: ``numRecords``, ``minValues``, ``maxValues``, ``nullCount``."""
    rows: int

    @property
    def data_file(self) -> DataFile:
        """The file as a snapshot lists it once it is committed."""
        return DataFile(self.path, self.size, self.modified, self.partition)


@dataclass(frozen=True)
class Change:
    """What one commit does to a table."""

    add: tuple[AddedFile, ...]
    remove: Mapping[str, DataFile]
    """The files that go, by their paths as the log spells them."""
    schema: str
    partition_columns: tuple[str, ...]
    operation: str
    data_change: bool
    read_version: int | None
    depends: bool = False
    """Whether the files that come depend on rows of the table, though none of its files may go."""
    moment: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """What tells this commit from any other, where a store failed to say whether it is there."""

    def with_removals(self, remove: Mapping[str, DataFile]) -> Change:
        """The same change, taking these files out."""
        return replace(self, remove=remove)

    def info(self) -> dict[str, Any]:
        """The entry's ``commitInfo``; a blind append is one that no other writer's read can miss."""
        metrics = {
            "numAddedFiles": str(len(self.add)),
            "numRemovedFiles": str(len(self.remove)),
            "numOutputRows": str(sum(file.rows for file in self.add)),
        }
        based_on = {} if self.read_version is None else {"readVersion": self.read_version}
        return {
            "timestamp": self.moment,
            "operation": self.operation,
            "operationParameters": {"partitionBy": json.dumps(list(self.partition_columns))},
            **based_on,
            "isolationLevel": "WriteSerializable",
            "isBlindAppend": not self.remove and not self.depends,
            "operationMetrics": metrics,
            "engineInfo": f"sidestep/{__version__}",
        }

    def files(self) -> list[dict[str, Any]]:
        """The actions on files."""
        added = [
            {
                "path": log_path(file.path),
                "partitionValues": dict(file.partition),
                "size": file.size,
                "modificationTime": file.modified,
                "dataChange": self.data_change,
                "stats": file.stats_json,
            }
            for file in self.add
        ]
        removed = [
            {
                "path": raw,
                "deletionTimestamp": self.moment,
                "dataChange": self.data_change,
                "extendedFileMetadata": True,
                "partitionValues": dict(file.partition),
                "size": file.size,
            }
            for raw, file in self.remove.items()
        ]
        return [{"remove": action} for action in removed] + [{"add": action} for action in added]


def log_path(path: str) -> str:
    """A path as this writer writes it in a log, percent-encoded.

    >>> log_path("p=a%20b/é.parquet")
    'p=a%2520b/%C3%A9.parquet'
    """
    return quote(path, safe="/=")


def entry_name(version: int) -> str:
    """The file that holds a version.

    >>> entry_name(12)
    '00000000000000000012.json'
    """
    return f"{version:020d}.json"


def adds_block_column(current: DeltaSchema, wanted: DeltaSchema) -> bool:
    """Whether ``wanted`` is ``current`` with the hidden column added, which old files lack and so hold NULLs in."""
    before, after = (json.loads(schema.to_json())["fields"] for schema in (current, wanted))
    rest = [one for one in after if not is_block_field(one)]
    return rest == before and len(rest) == len(after) - 1 and all(one["nullable"] for one in after if one not in rest)


def foreign_types(type: Any) -> Iterator[str]:
    """The names in a type, given as in Spark's JSON, that Delta has no type for.

    >>> list(foreign_types({"type": "array", "elementType": "interval year", "containsNull": True}))
    ['interval year']
    """
    for name in _primitives(type):
        if name not in _TYPES and name != "timestamp_ntz" and not _DECIMAL.fullmatch(name):
            yield name


def blind_append(root: Location, version: int) -> bool:
    """Whether a version only added rows without a look at those that are there, or rows as they were in other files.

    What cannot be read, or does not say, is not known to be one.
    """
    try:
        actions = _actions(root, version)
    except (OSError, ValueError):
        return False
    files = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    if not any(file.get("dataChange", True) for file in files):
        return True
    if any("remove" in action for action in actions):
        return False
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    if "isBlindAppend" in info:
        return info["isBlindAppend"] is True
    # deltalake does not say, and its WRITE reads nothing; through it this writer notes what it did in its own words.
    said = (info.get("sidestep") or {}).get("operation", info.get("operation"))
    return said == "WRITE" and (info.get("operationParameters") or {}).get("mode") == "Append"


def _actions(root: Location, version: int) -> list[dict[str, Any]]:
    with open_file(root.child(LOG).child(entry_name(version))) as stream:
        return [json.loads(line) for line in stream.read().splitlines() if line.strip()]


def _is_there(root: Location, version: int, change: Change) -> bool:
    """Whether a version is this very change."""
    try:
        infos = [action["commitInfo"] for action in _actions(root, version) if "commitInfo" in action]
    except FileNotFoundError:
        return False
    return any((info.get("sidestep") or {}).get("id") == change.id for info in infos)


def begin_log(root: Location) -> None:
    """The log of a table that is about to be created, still without a version; on object stores there are no folders.

    It comes before the first data file: what a load that is killed leaves behind is then a table without a version,
    not a folder of Parquet files that someone might read, and the next load can tell that it may go on there.
    """
    if root.local:
        try:
            os.makedirs(root.child(LOG).path, exist_ok=True)
        except OSError as error:
            raise SidestepError(
                f"Cannot create a table at {root.uri}: {error}. The folder must be writable."
            ) from error


def has_version(root: Location) -> bool:
    """Whether a log has an entry or a checkpoint: old entries may be gone, so the first one tells nothing."""
    return any(_VERSION.match(name) for name in list_names(root.child(LOG)))


def create_entry(root: Location, change: Change) -> bool:
    """Version 0 of a new table; False if there is one already."""
    if not root.local:
        return _create_remote(root, change)
    metadata = _metadata(str(uuid.uuid4()), change, created=change.moment)
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if "timestamp_ntz" in set(_primitives(json.loads(change.schema))):
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **_NTZ}
    head = [{"commitInfo": change.info()}, {"protocol": protocol}, {"metaData": metadata}]
    return _link(root, 0, head + change.files())


def put_entry(root: Location, table: DeltaTable, change: Change, grows: bool) -> int | None:
    """The version after the one that ``table`` is at; None if it exists already."""
    head: list[dict[str, Any]] = [{"commitInfo": change.info()}]
    if grows:
        known = table.metadata()
        metadata = _metadata(str(known.id), change, created=known.created_time)
        metadata |= {"name": known.name, "description": known.description, "configuration": known.configuration}
        head.append({"metaData": {key: value for key, value in metadata.items() if value is not None}})
    version = table.version() + 1
    return version if _link(root, version, head + change.files()) else None


def remote_entry(root: Location, table: DeltaTable, change: Change, grows: bool) -> int | None:
    """As :func:`put_entry`, through ``deltalake`` and in exactly one attempt: it would check a second one less well.

    A write on a condition cannot simply be made again when its answer is lost, for it may have been done: then the
    log is asked whether the version is this one, and the commit is :class:`Unanswered` if it is not there.
    """
    before = table.version()
    once = CommitProperties(max_commit_retries=0, custom_metadata=_custom_metadata(change))
    try:
        if grows:
            wanted = DeltaSchema.from_json(change.schema)
            column = [one for one in wanted.fields if one.name == block_name(change.schema)]
            table.alter.add_columns(column, commit_properties=CommitProperties(max_commit_retries=0))
            before += 1
            if table.version() != before:
                return None
        removed = [
            RemoveAction(raw, change.data_change, change.moment, file.size, dict(file.partition))
            for raw, file in change.remove.items()
        ]
        actions: list[AddAction | RemoveAction] = [*_add_actions(change), *removed]
        table.create_write_transaction(
            actions,
            "append",
            DeltaSchema.from_json(change.schema),
            list(change.partition_columns),
            commit_properties=once,
        )
    except CommitFailedError:
        return None
    except OSError as error:
        return _settle(root, before + 1, change, error)
    except DeltaError as error:
        raise SidestepError(f"Cannot write version {before + 1} of {root.uri}: {error}") from error
    return before + 1


def _settle(root: Location, version: int, change: Change, error: Exception) -> int:
    try:
        if _is_there(root, version, change):
            return version
    except (OSError, ValueError):
        pass
    raise Unanswered(f"Cannot write version {version} of {root.uri}: {error}") from error


def _metadata(id: str, change: Change, created: int | None) -> dict[str, Any]:
    return {
        "id": id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": change.schema,
        "partitionColumns": list(change.partition_columns),
        "configuration": {},
        "createdTime": created,
    }


def _primitives(type: Any) -> Iterator[str]:
    if isinstance(type, str):
        yield type
    elif type["type"] == "struct":
        for column in type["fields"]:
            yield from _primitives(column["type"])
    elif type["type"] in ("array", "map"):
        for part in ("elementType", "keyType", "valueType"):
            if part in type:
                yield from _primitives(type[part])
    else:
        yield str(type["type"])


def _link(root: Location, version: int, actions: Iterable[Mapping[str, Any]]) -> bool:
    """Write an entry whole under its name; False if the name is taken."""
    folder = root.child(LOG)
    target = folder.child(entry_name(version))
    # Readers of the log take only names of digits for versions.
    partial = folder.child(f".{entry_name(version)}.{uuid.uuid4().hex}.partial")
    lines = "\n".join(json.dumps(action, ensure_ascii=False, separators=(",", ":")) for action in actions)
    try:
        os.makedirs(folder.path, exist_ok=True)
        with open(partial.path, "x", encoding="utf-8") as stream:
            stream.write(lines)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            # Not a rename, which would put this version in the place of another writer's.
            os.link(partial.path, target.path)
        except FileExistsError:
            return False
        return True
    except OSError as error:
        raise SidestepError(
            f"Cannot write version {version} of {root.uri}: {error}. The log's folder must be writable, on a file "
            "system with hard links."
        ) from error
    finally:
        # Once it is linked the version is there, whatever becomes of this: vacuum deletes it.
        with contextlib.suppress(OSError):
            delete(partial)


def _create_remote(root: Location, change: Change) -> bool:
    try:
        create_table_with_add_actions(
            root.canonical,
            DeltaSchema.from_json(change.schema),
            _add_actions(change),
            mode="error",
            partition_by=list(change.partition_columns),
            storage_options=root.delta_options,
            commit_properties=CommitProperties(custom_metadata=_custom_metadata(change)),
        )
    except OSError as error:
        _settle(root, 0, change, error)
    except (CommitFailedError, DeltaError) as error:
        if "already exists" in str(error) or stat(root.child(LOG).child(entry_name(0))) is not None:
            return False
        raise SidestepError(f"Cannot create a Delta table at {root.uri}: {error}") from error
    return True


def _add_actions(change: Change) -> list[AddAction]:
    return [
        AddAction(
            log_path(file.path), file.size, dict(file.partition), file.modified, change.data_change, file.stats_json
        )
        for file in change.add
    ]


def _custom_metadata(change: Change) -> dict[str, Any]:
    return {"sidestep": {"operation": change.operation, "version": __version__, "id": change.id}}
