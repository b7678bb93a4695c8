"""What-if: what the queries of a log would read of a table under several sizes of blocks and layouts of its columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from sidestep.advisor.layouts.replica_trials import WhatIfReplica
from sidestep.render import as_text
from sidestep.workload.features.quality import Curve

SOP, GSOP, GSOP_R = "sop", "gsop", "gsop-r"


@dataclass(frozen=True, slots=True)
class WhatIfPoint:
    """One layout with one size of blocks."""

    layout: str
    """sop: all columns in one group; gsop: column groups, each with a row order of its own; gsop-r: groups that hold
    some cells once more, for queries that another row order suits better."""
    min_size: int
    """Rows of a block, at least."""
    read: float
    """The share of cells that queries would read, of the columns that they ask for; row ids count as cells."""
    storage: float
    """What it takes on disk in cells, row ids included, as a multiple of the table."""
    groups: tuple[tuple[str, ...], ...]
    """The columns of each group."""
    replicas: tuple[WhatIfReplica, ...] = ()
    """For gsop-r, what each of the groups holds."""


@dataclass(frozen=True)
class WhatIf:
    """What queries would read, by layout and size of blocks. Prints as a table; data by ``to_dict``."""

    table: str
    points: tuple[WhatIfPoint, ...]
    queries: int
    """How many queries it was worked out for."""
    sample_rows: int
    total_rows: int

    @property
    def layouts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.layout for point in self.points))

    @property
    def curves(self) -> dict[str, Curve]:
        """For each layout, the least that is read by the size of blocks, whatever it takes on disk."""
        least: dict[str, dict[float, float]] = {layout: {} for layout in self.layouts}
        for one in self.points:
            of_size = least[one.layout]
            of_size[float(one.min_size)] = min(one.read, of_size.get(float(one.min_size), one.read))
        return {
            layout: Curve(layout, "rows of a block, at least", "cells read", tuple(sorted(of_size.items())))
            for layout, of_size in least.items()
        }

    @property
    def by_storage(self) -> Curve:
        """The least that is read with so much storage, whatever the layout."""
        best, points = float("inf"), []
        for point in sorted(self.points, key=lambda one: (one.storage, one.read)):
            if point.read < best:
                best = point.read
                points.append((point.storage, point.read))
        return Curve("cost against storage", "storage, as a multiple of the table", "cells read", tuple(points))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "table": self.table,
            "queries": self.queries,
            "sample_rows": self.sample_rows,
            "total_rows": self.total_rows,
            "points": [asdict(point) for point in self.points],
            "curves": {name: [list(point) for point in curve.points] for name, curve in self.curves.items()},
            "by_storage": [list(point) for point in self.by_storage.points],
        }

    def __rich__(self) -> RenderableType:
        title = f"{self.table}: what {self.queries:,} queries would read of the columns that they ask for"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("layout")
        for heading in ("rows per block", "cells read", "storage", "groups"):
            table.add_column(heading, justify="right")
        for one in self.points:
            table.add_row(
                one.layout, f"{one.min_size:,}", f"{one.read:.1%}", f"{one.storage:.2f} ×", f"{len(one.groups):,}"
            )
        return table

    def __str__(self) -> str:
        return as_text(self)
