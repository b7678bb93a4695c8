"""Small JSON files beside an index: written, listed, read and cleaned up here, whatever they hold.

There are two kinds. An *addressed* one is named by the digest of its content, ``_features-<digest>.json``: it is
written once, who has the name gets that very content, and a damaged file is told by its digest. A *numbered* one says
how things are from now on, ``_layout-<number>-<stamp>.json``: the newest that can be read counts. Its stamp is a digest
of its content as well: no two writers choose the same name, unless they say the same. Both hold one JSON object that
says its format (docs/formats.md).

What cannot be used, because it is damaged or of a newer sidestep, is never taken for something else: an addressed file
raises an error that names it, a numbered one is passed over with a warning that does.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from sidestep.errors import DamagedContent, SidestepError, SidestepWarning
from sidestep.store.digest import check_stamp, stamp
from sidestep.store.location import Location, list_files, list_names, open_file, write_addressed

T = TypeVar("T")
JsonObject = dict[str, Any]
"""A JSON object."""
MOST_BYTES = 1 << 28
"""A larger file is none of these, and is not read."""


def read_object(location: Location) -> JsonObject:
    """The JSON object of a file: FileNotFoundError if there is no file, SidestepError if it holds anything else."""
    return _object_of(_read_bytes(location), location)


def _read_bytes(location: Location) -> bytes:
    try:
        with open_file(location) as stream:
            size = stream.size()
            if size > MOST_BYTES:
                raise SidestepError(f"{location.uri} cannot be read: it is larger ({size:,} bytes) than any such file.")
            return bytes(stream.read())
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise SidestepError(f"{location.uri} cannot be read: {error}.") from error


def _object_of(text: bytes, location: Location) -> JsonObject:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SidestepError(f"{location.uri} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise SidestepError(f"{location.uri} cannot be read: it holds no JSON object.")
    return content


@dataclass(frozen=True, slots=True)
class Numbered(Generic[T]):
    """A kind of sidecar of which the newest counts."""

    kind: str
    """The beginning of the name."""
    dump: Callable[[T], Mapping[str, Any]]
    parse: Callable[[JsonObject, str], T]
    """The value of an object, given its place for errors; it checks the format. SidestepError if it is damaged."""

    def save(self, folder: Location, value: T) -> Location:
        """Say how things are from now on; where that is said."""
        number = max((self._number(name) for name in self.names(folder)), default=0) + 1
        text = json.dumps(self.dump(value), indent=1, ensure_ascii=False).encode()
        location = folder.child(f"_{self.kind}-{number:08d}-{stamp(text)}.json")
        write_addressed(location, text, lambda: self._is_whole(location))
        return location

    def load(self, folder: Location) -> T | None:
        """The newest that can be read; None if there is none. Each that is passed over is warned of."""
        for name in reversed(self.names(folder)):
            location = folder.child(name)
            try:
                return self.parse(self._read(location), location.uri)
            except FileNotFoundError:
                continue
            except SidestepError as problem:
                why = str(problem)
            except Exception as problem:
                why = f"it is damaged ({problem!r})."
            message = f"{name} is left out, and the one before it used, if there is one: {why}"
            warnings.warn(message, SidestepWarning, stacklevel=3)
        return None

    def names(self, folder: Location) -> tuple[str, ...]:
        """The names of the files in a folder, oldest first."""
        names = (name for name in list_names(folder) if self._pattern.fullmatch(name))
        return tuple(sorted(names, key=lambda name: (self._number(name), name)))

    def objects(self, folder: Location) -> dict[str, JsonObject]:
        """What the files say that hold an object, of this or another format, by name, oldest first."""
        objects = {}
        for name in self.names(folder):
            try:
                objects[name] = self._read(folder.child(name))
            except (FileNotFoundError, SidestepError):
                continue
        return objects

    def _read(self, location: Location) -> JsonObject:
        """What a file holds, if that is what its name says."""
        text = _read_bytes(location)
        try:
            check_stamp(self._match(location.name)[2], text)
        except DamagedContent as problem:
            raise SidestepError(f"{location.uri} cannot be used: {problem}.") from problem
        return _object_of(text, location)

    def _is_whole(self, location: Location) -> bool:
        try:
            self._read(location)
        except (FileNotFoundError, SidestepError):
            return False
        return True

    def _number(self, name: str) -> int:
        return int(self._match(name)[1])

    def _match(self, name: str) -> re.Match[str]:
        match = self._pattern.fullmatch(name)
        assert match is not None
        return match

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"_{self.kind}-(\d{{8,}})-([0-9a-f]{{32}})\.json")


@dataclass(frozen=True, slots=True)
class Addressed(Generic[T]):
    """A kind of sidecar that is named by the digest of its content."""

    kind: str
    """The beginning of the name."""
    digits: int
    """How many hexadecimal digits an address has."""
    address: Callable[[T], str]
    dump: Callable[[T], Mapping[str, Any]]
    parse: Callable[[JsonObject, str], T]
    """The value of an object, given its place for errors; it checks the format. SidestepError if it is damaged."""
    indent: int | None = 1
    """How the file is laid out for people."""

    def save(self, folder: Location, value: T) -> None:
        """Put a value into a folder; one that is there already stays, and a damaged one is replaced."""
        location = self.file(folder, self.address(value))
        text = json.dumps(self.dump(value), indent=self.indent) + "\n"
        write_addressed(location, text.encode(), lambda: self._is_whole(folder, self.address(value)))

    def load(self, folder: Location, address: str) -> T | None:
        """The value with this address; None if there is none. SidestepError, with the file's name, if it is damaged."""
        if not self._address_pattern.fullmatch(address):
            return None
        location = self.file(folder, address)
        try:
            value = self.parse(read_object(location), location.uri)
        except FileNotFoundError:
            return None
        except SidestepError as problem:
            if location.name in str(problem):
                raise
            raise SidestepError(f"{location.uri} is damaged: {problem}") from problem
        except Exception as problem:
            raise SidestepError(f"{location.uri} is damaged: {problem!r}.") from problem
        if self.address(value) != address:
            raise SidestepError(f"{location.uri} is damaged: its content is another than its name says.")
        return value

    def file(self, folder: Location, address: str) -> Location:
        """Where the value with this address is kept."""
        return folder.child(f"_{self.kind}-{address}.json")

    def unused(self, folder: Location, named: Collection[str], cutoff: float) -> list[Location]:
        """The files whose address is not among those named and that are older than the cutoff, in milliseconds.

        A younger one may be of a writer that has not yet written what names it.
        """
        pattern = re.compile(rf"_{self.kind}-({self._address_pattern.pattern})\.json")
        try:
            listed = [(status, pattern.fullmatch(status.path)) for status in list_files(folder)]
        except FileNotFoundError:
            return []
        return [
            folder.child(status.path)
            for status, match in listed
            if match is not None and match[1] not in named and status.modified <= cutoff
        ]

    def _is_whole(self, folder: Location, address: str) -> bool:
        try:
            return self.load(folder, address) is not None
        except SidestepError:
            return False

    @property
    def _address_pattern(self) -> re.Pattern[str]:
        return re.compile(rf"[0-9a-f]{{{self.digits}}}")
