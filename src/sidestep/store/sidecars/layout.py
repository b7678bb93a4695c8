"""How a table was laid out, kept beside its index so that what comes later can be laid out the same way.

The layout is a numbered sidecar, the feature set that it is made by an addressed one: union vectors of blocks name it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sidestep.errors import SidestepError, check_format
from sidestep.layout.demand import Demand
from sidestep.layout.tree import Cut
from sidestep.store.location import Location
from sidestep.store.sidecars.sidecar import Addressed, JsonObject, Numbered
from sidestep.workload.features.feature_set import FeatureSet

FORMAT = 5
"""In 1, demands were a text of JSON inside the JSON; trees came with 3, what the log calls the table with 4, and how
rows are sorted within their block with 5."""
MIN_SIZE = 20_000
"""The least number of rows per block if no one says otherwise: the file is hardly larger than with big row groups."""
UNIT_ROWS = 4_000_000
FILE_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """What a layout was made by.

    ``by`` is the SQL expression whose values are the units, or None where they are parts of the tree, or without one
    slices of ``unit_rows`` rows.
    Within a group of rows with the same features, ``order`` says along which columns it is cut into blocks, and
    ``page_order`` how the rows of a block are sorted.
    ``features`` is the id of the feature set, None where the table is laid out by unit and order alone.
    """

    by: str | None = None
    min_size: int = MIN_SIZE
    order: tuple[str, ...] = ()
    unit_rows: int = UNIT_ROWS
    file_bytes: int = FILE_BYTES
    features: str | None = None
    buckets: tuple[str, ...] = ()
    """SQL expressions, such as the month of a date, by which rows with the same features are told apart further."""
    demands: tuple[Demand, ...] | None = None
    """What the workload demands of units."""
    demands_of: str | None = None
    """The id of the feature set that the demands are about: for another they say nothing."""
    tree: Cut | None = None
    """How rows are told apart before their features group them; where it tests features, those of ``demands_of``."""
    tree_units: tuple[int, ...] = (0,)
    """Without ``by``, a tree's leaves are the units: each begins with one of these."""
    family: str | None = None
    """The family that it is of, where it was chosen by a log."""
    expected: float | None = None
    """The share of rows that later queries were to read."""
    page_order: tuple[str, ...] = ()
    """The columns by which rows are sorted within their block, as queries pass over most pages of it."""
    page_share: float = 1.0
    """What queries read of the blocks that they do not skip, by what they would with rows in any order."""
    log_name: str | None = None
    """What the log calls the table that it was laid out for: of a copy, the name of what it was made of."""
    source: str = field(default="", compare=False)
    """The file that it was read from, for errors; empty where it was made here."""

    def __post_init__(self) -> None:
        for name, value in (
            ("min_size", self.min_size),
            ("unit_rows", self.unit_rows),
            ("file_bytes", self.file_bytes),
        ):
            if type(value) is not int or value < 1:
                raise SidestepError(f"{name} is {value!r}, but it must be a whole number of at least 1.")
        texts = (*(() if self.by is None else (self.by,)), *self.order, *self.buckets, *self.page_order)
        if not all(isinstance(text, str) for text in texts):
            raise SidestepError("by is a text, and order, buckets and page_order are lists of texts.")
        if not isinstance(self.page_share, float | int) or not 0 <= self.page_share <= 1:
            raise SidestepError("page_share is a share, from 0 to 1.")
        if not isinstance(self.log_name, str | None):
            raise SidestepError("log_name is a text.")
        starts = self.tree_units
        if any(type(one) is not int for one in starts) or starts[:1] != (0,) or sorted(set(starts)) != list(starts):
            raise SidestepError("tree_units are the first leaves of units: ascending numbers from 0 on.")

    @classmethod
    def from_json(cls, written: JsonObject, source: str) -> LayoutSpec:
        """What a layout file says, whichever version wrote it; SidestepError if it is damaged."""
        fields = dict(written)
        version = check_format(fields.pop("format", None), FORMAT, f"The layout {source}")
        try:
            demands = fields.get("demands")
            if version == 1 and demands is not None:
                demands = [_first_demand(one) for one in json.loads(demands)]
            fields["demands"] = None if demands is None else tuple(Demand.from_json(one) for one in demands)
            for name in ("order", "buckets", "page_order", "tree_units"):
                if name in fields:
                    if not isinstance(fields[name], list):
                        raise TypeError(f"{name} is not a list")
                    fields[name] = tuple(fields[name])
            if fields.get("tree") is not None:
                fields["tree"] = Cut.from_json(fields["tree"])
            return cls(**{**fields, "source": source})
        except (ValueError, TypeError, KeyError) as problem:
            raise SidestepError(f"The layout {source} is damaged: {problem}.") from problem

    def to_json(self) -> dict[str, Any]:
        """The layout as plain data."""
        fields = asdict(replace(self, tree=None))
        del fields["source"]
        return {"format": FORMAT, **fields, "tree": None if self.tree is None else self.tree.to_json()}


def _first_demand(written: Any) -> dict[str, Any]:
    """A demand of format 1 as one of format 2."""
    features, ranges, weight = written
    return {"features": features, "ranges": ranges, "weight": weight}


LAYOUTS: Numbered[LayoutSpec] = Numbered("layout", LayoutSpec.to_json, LayoutSpec.from_json)
FEATURES: Addressed[FeatureSet] = Addressed(
    "features", 64, lambda one: one.id, FeatureSet.to_json, FeatureSet.from_json
)


def save_layout(folder: Location, spec: LayoutSpec) -> None:
    """Note how the table is laid out from now on."""
    LAYOUTS.save(folder, spec)


def load_layout(folder: Location) -> LayoutSpec | None:
    """The newest layout that can be read; None if the table was never laid out.

    It only says how to go on, so that going on without a damaged one is safe.
    """
    return LAYOUTS.load(folder)


def save_features(folder: Location, features: FeatureSet) -> None:
    """Put a feature set into an index folder; one that is there already stays, and a damaged one is replaced."""
    FEATURES.save(folder, features)


def load_features(folder: Location, id: str) -> FeatureSet | None:
    """The feature set of an index folder by its id; None if there is none. SidestepError if it is damaged."""
    return FEATURES.load(folder, id)
