"""Files by path or URI, on any file system that pyarrow reaches, named the way Hadoop names them.

Spark keys its listing by Hadoop paths, and sidestep matches that listing against its own. So a path here is what
Hadoop's ``Path.toUri().getPath()`` shows: the name on disk, where ``%20`` is three characters and never a space. A
modification time is ``FileStatus.getModificationTime``: whole milliseconds, rounded down.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import fs

from sidestep.errors import SidestepError, Unreachable
from sidestep.store.access import PatientReader, s3_access, s3_filesystem

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]+):(?://(?P<authority>[^/]*))?(?P<path>/.*|)")
_S3 = frozenset({"s3", "s3a", "s3n"})
"""Names of one store: which of them a user has Spark read by is the user's choice."""
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file of a listing; ``path`` is relative to the listed folder, with ``/`` between names."""

    path: str
    size: int
    modified: int
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder: the file system that holds it, its path there, and its name for people and for Spark."""

    filesystem: fs.FileSystem = field(compare=False, repr=False)
    path: str
    uri: str
    """The scheme is the one that was given: Spark may know a store by that one alone."""

    @property
    def canonical(self) -> str:
        """One name for one place, by whichever scheme it was given."""
        scheme, colon, rest = self.uri.partition(":")
        return f"s3{colon}{rest}" if scheme in _S3 else self.uri

    @property
    def delta_options(self) -> dict[str, str] | None:
        """What ``deltalake`` must be told to reach the place; None if there is nothing to be told."""
        scheme, _, rest = self.uri.partition("://")
        if scheme not in _S3:
            return None
        bucket = rest.partition("/")[0]
        access = s3_access(bucket)
        return access.delta_options(bucket) if access.stated else None

    @property
    def in_store(self) -> bool:
        """Whether it is in an object store: there are no folders there, and no names are changed."""
        return self.filesystem.type_name in _OBJECT_STORES

    @property
    def local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def parent(self) -> Location:
        return Location(self.filesystem, _parent(self.path), _parent(self.uri))

    def child(self, relative: str) -> Location:
        return Location(self.filesystem, _join(self.path, relative), _join(self.uri, relative))


def locate(path: str | os.PathLike[str] | Location) -> Location:
    """The location that a path or URI names, read as Hadoop reads it: nothing in it is percent-decoded.

    >>> locate("file:/data/a%20b/").path, locate("file:///data/t").uri
    ('/data/a%20b', 'file:/data/t')
    """
    if isinstance(path, Location):
        return path
    text = os.fspath(path)
    match = _URI.fullmatch(text)
    if match is None or match["scheme"].lower() == "file":
        raw = text if match is None else match["path"]
        if not raw:
            raise SidestepError("The path is empty: give the folder of a Parquet or Delta table.")
        local = os.path.abspath(raw)
        return Location(fs.LocalFileSystem(), local, f"file:{local}")
    scheme, authority = match["scheme"].lower(), match["authority"] or ""
    tail = re.sub(r"/{2,}", "/", match["path"]).rstrip("/")
    try:
        if scheme in _S3:
            filesystem, base = s3_filesystem(authority), authority
        else:
            # Only the authority goes through pyarrow: it would percent-decode the rest.
            filesystem, base = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SidestepError(
            f"No file system for {text}: {error}. Use a local path, s3://, gs:// or hdfs://."
        ) from error
    return Location(filesystem, (base.rstrip("/") + tail) or "/", f"{scheme}://{authority}{tail}")


def stat(location: Location) -> FileStatus | None:
    """The status of one file (its path is the file's name), or None if there is no such file."""
    if location.local:
        try:
            with _reaching("look at", location):
                status = os.stat(location.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _local_status(location.name, status) if _is_regular_file(status) else None
    info = location.filesystem.get_file_info(location.path)
    return _status(location.name, info) if info.type == fs.FileType.File else None


def is_folder(location: Location) -> bool:
    if location.local:
        return os.path.isdir(location.path)
    return bool(location.filesystem.get_file_info(location.path).type == fs.FileType.Directory)


def list_files(folder: Location, hidden: Callable[[str], bool] | None = None) -> list[FileStatus]:
    """All files below a folder, sorted by path; folders and files whose own name is ``hidden`` are not entered."""
    unseen = hidden or (lambda name: False)
    with _reaching("list", folder):
        files = _walk_local(folder.path, "", unseen) if folder.local else _walk_remote(folder, unseen)
        return sorted(files, key=lambda status: status.path)


def list_names(folder: Location) -> list[str]:
    """The names of what lies directly in a folder, unsorted; none if there is no folder."""
    try:
        with _reaching("list", folder):
            if folder.local:
                return os.listdir(folder.path)
            selector = fs.FileSelector(folder.path, allow_not_found=True)
            return [info.base_name for info in folder.filesystem.get_file_info(selector)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_file(location: Location) -> pa.NativeFile:
    """A random-access reader of the file; OSError (FileNotFoundError) as pyarrow raises it."""
    file = location.filesystem.open_input_file(location.path)
    return pa.PythonFile(PatientReader(file), mode="r") if location.in_store else file


def make_folder(folder: Location) -> None:
    """See that there is a folder to write to. In an object store there always is, and a mark of it is in the way."""
    if not folder.in_store:
        folder.filesystem.create_dir(folder.path, recursive=True)


def write_addressed(location: Location, content: bytes, whole: Callable[[], bool]) -> None:
    """Put a file there whose name is its content's address: a whole one stays, a damaged one is replaced."""
    if stat(location) is not None:
        if whole():
            return
        delete(location)
    try:
        write_once(location, lambda stream: stream.write(content))
    except SidestepError:
        if not whole():  # another writer may have been quicker: the content is the same
            raise


def write_once(location: Location, write: Callable[[Any], None]) -> None:
    """Create a file of what ``write`` puts into the stream: it appears whole or not at all, and overwrites nothing."""
    folder = location.parent
    try:
        make_folder(folder)
        if location.in_store:
            _refuse_existing(location)
            with location.filesystem.open_output_stream(location.path) as stream:
                write(stream)
            return
        # A leading dot: readers of the folder, Spark's listing among them, do not see it.
        partial = folder.child(f".{location.name}.{uuid.uuid4().hex}.partial")
        try:
            with partial.filesystem.open_output_stream(partial.path) as stream:
                write(stream)
            _rename(partial, location)
        finally:
            delete(partial)
    except (pa.ArrowException, OSError) as error:
        raise SidestepError(
            f"Cannot write {location.uri}: {error}. Make the folder writable, or keep the index elsewhere: index_dir=…"
        ) from error


def delete(location: Location) -> None:
    """Remove a file; one that is gone already is fine."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _reaching("delete", location):
        if location.local:
            os.unlink(location.path)
        else:
            location.filesystem.delete_file(location.path)


@contextlib.contextmanager
def _reaching(verb: str, location: Location) -> Iterator[None]:
    """Say in a sentence what the system refused; that something is not there is for the caller to judge."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, Unreachable):
        raise
    except OSError as error:
        raise Unreachable(f"Cannot {verb} {location.uri}: {error}. Check the disk and the permissions.") from error


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0] or "/"


def _join(folder: str, relative: str) -> str:
    return f"{folder.rstrip('/')}/{relative}"


def _is_regular_file(status: os.stat_result) -> bool:
    return (status.st_mode & 0o170000) == 0o100000


def _local_status(path: str, status: os.stat_result) -> FileStatus:
    return FileStatus(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _status(path: str, info: fs.FileInfo) -> FileStatus:
    nanoseconds = info.mtime_ns
    # Without a time no key can match for sure: -1 never equals a time that Spark lists.
    modified = -1 if nanoseconds is None else nanoseconds // 1_000_000
    return FileStatus(path, info.size or 0, modified)


def _walk_local(folder: str, prefix: str, hidden: Callable[[str], bool]) -> Iterator[FileStatus]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if hidden(entry.name):
                continue
            try:
                entry.name.encode()
                if entry.is_dir():
                    yield from _walk_local(entry.path, f"{prefix}{entry.name}/", hidden)
                    continue
                status = entry.stat()
            except (OSError, UnicodeEncodeError):
                # A file that vanished, a dangling or endless link, a folder that may not be read, or a name that is not
                # UTF-8, which Java spells differently: left out, so it is unknown and always read.
                continue
            if _is_regular_file(status):
                yield _local_status(prefix + entry.name, status)


def _walk_remote(folder: Location, hidden: Callable[[str], bool]) -> Iterator[FileStatus]:
    start = len(folder.path.rstrip("/")) + 1
    for info in folder.filesystem.get_file_info(fs.FileSelector(folder.path, recursive=True)):
        relative = info.path[start:]
        if info.type == fs.FileType.File and not any(hidden(name) for name in relative.split("/")):
            yield _status(relative, info)


def _refuse_existing(location: Location) -> None:
    if stat(location) is not None:
        raise _exists_already(location)


def _exists_already(location: Location) -> SidestepError:
    return SidestepError(f"{location.uri} exists already; sidestep never overwrites an index file.")


def _rename(source: Location, target: Location) -> None:
    if source.local:
        try:
            # Unlike a rename, a link fails if the name is taken.
            os.link(source.path, target.path)
            return
        except FileExistsError as error:
            raise _exists_already(target) from error
        except OSError:
            pass  # a file system without hard links
    _refuse_existing(target)
    source.filesystem.move(source.path, target.path)
