"""Feature sets beside the index: union vectors name the one they are about, by its id.

A set is one JSON file of the index folder. Its name is its content's address and it is written once, so a file that is
there is the right one or damaged, and a damaged one is told by its id.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.store.location import Location, open_file, write_addressed
from sidestep.workload.features.feature_set import FeatureSet

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
