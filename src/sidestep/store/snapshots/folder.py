"""A folder of Parquet files, listed as Spark's ``InMemoryFileIndex`` lists it.

Hidden names, empty files and Hive-style partition folders follow Spark's rules. A file too many here would only be
indexed for nothing; one too few stays unknown and is always read.
"""

from __future__ import annotations

import re

from sidestep.errors import TableNotFound
from sidestep.store.location import FileStatus, Location, is_folder, list_files, open_file, stat
from sidestep.store.snapshot import DataFile, Partition, Snapshot

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_GLOB = re.compile(r"[*?\[\]{}]")
_MAGIC = (b"PAR1", b"PARE")


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name.

    >>> [is_hidden(name) for name in ("_SUCCESS", ".x.crc", "a._COPYING_", "_year=2020", "part-0")]
    [True, True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def unescape(text: str) -> str:
    """Undo Spark's escaping in partition folder names: ``%3A`` is the *character* U+003A, never a byte of UTF-8.

    >>> unescape("10%3A30 %zz 100%")
    '10:30 %zz 100%'
    """
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def partition_of(path: str) -> Partition:
    """The partition values that the folders above a file name, as raw text.

    Spark looks upwards from the file: it passes over folders that are no partition until it meets one, and stops at the
    first that is none after that.

    >>> partition_of("a=1/b=__HIVE_DEFAULT_PARTITION__/part-0.parquet")
    (('a', '1'), ('b', None))
    """
    values: list[tuple[str, str | None]] = []
    for folder in reversed(path.split("/")[:-1]):
        column, equals, raw = folder.partition("=")
        if equals:
            values.append((unescape(column), None if raw == NULL_PARTITION else unescape(raw)))
        elif values:
            break
    return tuple(reversed(values))


def read_folder(location: Location) -> Snapshot:
    """The snapshot of a folder of Parquet files, or of one Parquet file (whose root is then the folder around it)."""
    single = stat(location)
    if single is not None:
        if single.size == 0:
            raise TableNotFound(f"{location.uri} is an empty file, not Parquet.")
        _check_magic(location)
        only = DataFile(location.name, single.size, single.modified)
        return Snapshot(location.parent, "parquet", None, (only,), whole=False)
    if not is_folder(location):
        raise TableNotFound(_missing(location))
    try:
        listed = [status for status in list_files(location, is_hidden) if status.size > 0]
    except FileNotFoundError as error:
        raise TableNotFound(_missing(location)) from error
    files = _data_files(listed)
    if not files:
        nested = f" There are {len(listed)} files in its subfolders: give one of those folders." if listed else ""
        raise TableNotFound(f"{location.uri} holds no data files.{nested or ' Write the table first.'}")
    _check_magic(location.child(files[0].path))
    columns = tuple(dict.fromkeys(name for file in files for name, _ in file.partition))
    return Snapshot(location, "parquet", None, files, columns)


def _data_files(listed: list[FileStatus]) -> tuple[DataFile, ...]:
    """Once there is a partition column, Spark reads only what lies in partitions; before that, only the root itself."""
    files = [DataFile(status.path, status.size, status.modified, partition_of(status.path)) for status in listed]
    if any(file.partition for file in files):
        return tuple(file for file in files if file.partition)
    return tuple(file for file in files if "/" not in file.path)


def _missing(location: Location) -> str:
    if _GLOB.search(location.path):
        return f"{location.uri} is a pattern, and sidestep indexes one table at a time: give the table's own folder."
    return f"There is nothing at {location.uri}: check the path; it must be a Parquet folder or a Delta table."


def _check_magic(location: Location) -> None:
    try:
        with open_file(location) as stream:
            magic = stream.read(4)
    except OSError as error:
        raise TableNotFound(f"Cannot read {location.uri}: {error}. Check the permissions.") from error
    if magic not in _MAGIC:
        raise TableNotFound(f"{location.uri} is not a Parquet file: sidestep indexes Parquet folders and Delta tables.")
