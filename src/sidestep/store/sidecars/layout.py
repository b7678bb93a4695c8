"""How a table was laid out, kept beside its index so that what comes later can be laid out the same way.

Feature sets beside the index: union vectors name the one they are about, by its id.

A set is one JSON file of the index folder. Its name is its content's address and it is written once, so a file that is
there is the right one or damaged, and a damaged one is told by its id.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.store.location import Location, list_names, open_file, write_addressed, write_once
from sidestep.workload.features.feature_set import FeatureSet

FORMAT = 1
MIN_SIZE = 20_000
"""The least number of rows per block if no one says otherwise: the file is hardly larger than with big row groups."""
UNIT_ROWS = 4_000_000
FILE_BYTES = 128 << 20
_NAME = re.compile(r"_layout-(\d{8,})-[0-9a-f]{32}\.json")


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """The wishes that a layout was made by.

    ``by`` is the SQL expression whose values are the units, or None where units are slices of ``unit_rows`` rows.
    Within a group of rows with like features, ``order`` says along which columns it is cut into blocks. ``features`` is
    the id of the feature set, None where the table is laid out by unit and order alone.
    """

    by: str | None = None
    min_size: int = MIN_SIZE
    order: tuple[str, ...] = ()
    unit_rows: int = UNIT_ROWS
    file_bytes: int = FILE_BYTES
    features: str | None = None
    buckets: tuple[str, ...] = ()
    """SQL expressions, such as the month of a date, by which rows of like features are told apart further."""
    demands: str | None = None
    """What the workload demands of units, as JSON (:class:`sidestep.layout.demand.Demands`)."""
    demands_of: str | None = None
    """The id of the feature set that the demands are about: for another they say nothing."""

    def __post_init__(self) -> None:
        for name, value in (
            ("min_size", self.min_size),
            ("unit_rows", self.unit_rows),
            ("file_bytes", self.file_bytes),
        ):
            if type(value) is not int or value < 1:
                raise SidestepError(f"{name} is {value!r}, but it must be a whole number of at least 1.")


def save_layout(folder: Location, spec: LayoutSpec) -> None:
    """Note how the table is laid out from now on."""
    numbers = [int(match[1]) for name in list_names(folder) if (match := _NAME.fullmatch(name))]
    name = f"_layout-{max(numbers, default=0) + 1:08d}-{uuid.uuid4().hex}.json"
    text = json.dumps({"format": FORMAT, **asdict(spec)}, indent=1, ensure_ascii=False)
    write_once(folder.child(name), lambda stream: stream.write(text.encode()))


def load_layout(folder: Location) -> LayoutSpec | None:
    """The newest layout that can be read; None if the table was never laid out."""
    names = sorted((name for name in list_names(folder) if _NAME.fullmatch(name)), reverse=True)
    for name in names:
        spec = _read(folder.child(name))
        if spec is not None:
            return spec
    return None


def layout_names(folder: Location) -> tuple[str, ...]:
    """The names of the layout files, oldest first."""
    return tuple(sorted(name for name in list_names(folder) if _NAME.fullmatch(name)))


def _read(location: Location) -> LayoutSpec | None:
    try:
        with open_file(location) as stream:
            written: Any = json.loads(stream.read())
        if not isinstance(written, dict) or written.pop("format", None) != FORMAT:
            return None
        lists = {name: tuple(written[name]) for name in ("order", "buckets") if name in written}
        return LayoutSpec(**{**written, **lists})
    except (OSError, pa.ArrowException, ValueError, TypeError, SidestepError):
        # Damaged or of another version: it only says how to go on, so going on without it is safe.
        return None


_ID = re.compile(r"[0-9a-f]{64}")


def save_features(folder: Location, features: FeatureSet) -> None:
    """Put a feature set into an index folder; one that is there already stays, and a damaged one is replaced."""
    location = features_file(folder, features.id)
    text = json.dumps(features.to_json(), indent=1) + "\n"
    write_addressed(location, text.encode(), lambda: _whole(location, features.id))


def load_features(folder: Location, id: str) -> FeatureSet | None:
    """The feature set of an index folder by its id; None if there is none. SidestepError if it is damaged."""
    if not _ID.fullmatch(id):
        return None
    location = features_file(folder, id)
    try:
        with open_file(location) as stream:
            written = json.loads(stream.read())
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SidestepError(f"The feature set {location.uri} cannot be read: {error}.") from error
    features = FeatureSet.from_json(written, location.uri)
    if features.id != id:
        raise SidestepError(f"{location.uri} holds another feature set than its name says.")
    return features


def features_file(folder: Location, id: str) -> Location:
    """Where the feature set with this id is kept."""
    return folder.child(f"_features-{id}.json")


def _whole(location: Location, id: str) -> bool:
    try:
        return load_features(location.parent, id) is not None
    except SidestepError:
        return False
