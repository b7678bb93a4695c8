"""What-if: what the queries of a log would read of a table under several sizes of blocks and layouts of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from sidestep.advisor.layouts.replica_trials import WhatIfReplica
from sidestep.render.document import Cell, Grid, Line, Paragraph, Part, Plot, numbers
from sidestep.render.report import Report
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
class WhatIf(Report):
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

    def _document(self) -> Iterator[Part]:
        title = f"{self.table}: what {self.queries:,} queries would read of the columns that they ask for"
        rows: list[list[Cell | str]] = [
            [
                one.layout,
                f"{one.min_size:,}",
                Cell(f"{one.read:.1%}", share=one.read),
                f"{one.storage:.2f} ×",
                f"{len(one.groups):,}",
            ]
            for one in self.points
        ]
        heads = ("layout", *numbers("rows per block", "cells read", "storage", "groups"))
        yield Grid(heads, rows, title)
        lines = tuple(Line(name, curve.points) for name, curve in self.curves.items())
        some = next(iter(self.curves.values()), None)
        if some is not None:
            yield Plot("by the size of blocks", some.x_name, some.y_name, lines, log=True, in_text=False)
        if len(self.by_storage.points) > 1:
            yield replace(self.by_storage.plot, log=True, in_text=False)
        yield Paragraph(f"Estimated from {self.sample_rows:,} of {self.total_rows:,} rows.", "dim")
