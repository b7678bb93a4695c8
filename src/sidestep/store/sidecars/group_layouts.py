"""How each column group of a table was laid out, so that rows which come later can be laid out the same way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sidestep.errors import SidestepError, check_format
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.store.sidecars.sidecar import JsonObject, Numbered

FORMAT = 4
"""In 2, layouts are of format 4; 3 has how many times cells may be stored; in 4, layouts are of format 5."""


@dataclass(frozen=True, slots=True)
class GroupLayouts:
    """The layouts of a table's column groups, by the number of the group."""

    layouts: tuple[LayoutSpec, ...]
    filtered: tuple[str, ...] = ()
    """Columns that blocks of every group may know, whether the group holds them or not."""
    storage: float | None = None
    """How many times the cells of the table may be stored; None: once, or nothing was noted."""

    def __post_init__(self) -> None:
        known = self.storage is None or (type(self.storage) in (int, float) and 1 <= self.storage < math.inf)
        if not known:
            raise SidestepError(f"A table's cells may be stored {self.storage!r} times, but it must be 1 or more.")

    @classmethod
    def from_json(cls, written: JsonObject, source: str) -> GroupLayouts:
        """What a file says; SidestepError if it is damaged."""
        check_format(written.get("format"), FORMAT, f"The layouts {source}")
        try:
            layouts = tuple(LayoutSpec.from_json(one, source) for one in written["layouts"])
            return cls(layouts, tuple(str(name) for name in written["filtered"]), written.get("storage"))
        except (ValueError, TypeError, KeyError) as problem:
            raise SidestepError(f"The layouts {source} are damaged: {problem}.") from problem

    def to_json(self) -> dict[str, Any]:
        """The layouts as plain data."""
        layouts = [layout.to_json() for layout in self.layouts]
        return {"format": FORMAT, "layouts": layouts, "filtered": list(self.filtered), "storage": self.storage}


GROUP_LAYOUTS: Numbered[GroupLayouts] = Numbered("group-layouts", GroupLayouts.to_json, GroupLayouts.from_json)
