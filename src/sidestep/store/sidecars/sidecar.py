"""Small JSON files beside an index: written, listed, read and cleaned up here, whatever they hold.

There are two kinds. An *addressed* one is named by the digest of its content, ``_features-<digest>.json``: it is
written once, who has the name gets that very content, and a damaged file is told by its digest. A *numbered* one says
how things are from now on, ``_layout-<number>-<random>.json``: the newest that can be read counts, and no two writers
ever choose the same name. Both hold one JSON object that says its format (docs/formats.md).

What cannot be used, because it is damaged or of a newer sidestep, is never taken for something else: an addressed file
raises an error that names it, a numbered one is passed over with a warning that does.
"""

from __future__ import annotations

import json
import re
import uuid
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.store.location import Location, list_files, list_names, open_file, write_addressed, write_once

T = TypeVar("T")
JsonObject = dict[str, Any]
"""A JSON object."""


def read_object(location: Location) -> JsonObject:
    """The JSON object of a file: FileNotFoundError if there is no file, SidestepError if it holds anything else."""
    try:
        with open_file(location) as stream:
            content = json.loads(stream.read())
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
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

    def save(self, folder: Location, value: T) -> None:
        """Say how things are from now on."""
        number = max((self._number(name) for name in self.names(folder)), default=0) + 1
        name = f"_{self.kind}-{number:08d}-{uuid.uuid4().hex}.json"
        text = json.dumps(self.dump(value), indent=1, ensure_ascii=False)
        write_once(folder.child(name), lambda stream: stream.write(text.encode()))

    def load(self, folder: Location) -> T | None:
        """The newest that can be read; None if there is none. Each that is passed over is warned of."""
        for name in reversed(self.names(folder)):
            location = folder.child(name)
            try:
                return self.parse(read_object(location), location.uri)
            except FileNotFoundError:
                continue
            except SidestepError as problem:
                why = str(problem)
            except (ValueError, TypeError, KeyError, AttributeError) as problem:
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
                objects[name] = read_object(folder.child(name))
            except (FileNotFoundError, SidestepError):
                continue
        return objects

    def _number(self, name: str) -> int:
        match = self._pattern.fullmatch(name)
        assert match is not None
        return int(match[1])

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"_{self.kind}-(\d{{8,}})-[0-9a-f]{{32}}\.json")


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
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
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
