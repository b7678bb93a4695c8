"""Advice on the layout of a table, as a value that prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from sidestep.advisor.layouts.choose import LayoutChoice


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the judged queries would read under one layout, as shares of reading everything."""

    layout: str
    rows: float
    bytes: float
    """Of the columns that each query reads."""
    detail: str = ""


@dataclass(frozen=True)
class Advice:
    """Estimates for each layout, and the choice that a load would make. Prints as a table; data by ``to_dict``."""

    table: str
    choice: LayoutChoice
    estimates: tuple[Estimate, ...]
    queries: int
    """How many queries the estimates are about."""
    judged_by: str
    sample_rows: int
    total_rows: int
    command: str

    def estimate(self, layout: str) -> Estimate:
        """The estimate for one of the layouts: today, range, sorted, z-order, sop."""
        return next(one for one in self.estimates if one.layout == layout)

    def to_dict(self) -> dict[str, Any]:
        """The advice as plain data."""
        choice = self.choice
        return {
            "table": self.table,
            "estimates": {
                one.layout: {"rows": one.rows, "bytes": one.bytes, "detail": one.detail} for one in self.estimates
            },
            "choice": {
                "by": choice.by,
                "min_size": choice.min_size,
                "order": list(choice.order),
                "buckets": list(choice.buckets),
                "num_features": len(choice.features),
                "features": [str(feature) for feature in choice.features.features],
                "feature_set": choice.features.to_json(),
            },
            "queries": self.queries,
            "judged_by": self.judged_by,
            "sample_rows": self.sample_rows,
            "total_rows": self.total_rows,
            "command": self.command,
        }

    def __rich__(self) -> RenderableType:
        title = f"{self.table}: what {self.queries:,} queries ({self.judged_by}) would read"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("layout")
        table.add_column("rows", justify="right")
        table.add_column("bytes", justify="right")
        table.add_column("", overflow="fold")
        for one in self.estimates:
            table.add_row(one.layout, f"{one.rows:.1%}", f"{one.bytes:.1%}", Text(one.detail))
        chosen = Table(title="chosen for sop", title_justify="left", box=box.SIMPLE_HEAD, show_header=False)
        for name, value in self._parameters():
            chosen.add_row(name, Text(value))
        return Group(
            table,
            chosen,
            Text(f"Estimated from {self.sample_rows:,} of {self.total_rows:,} rows. To lay the table out so:"),
            Text("  " + self.command.replace(" --", " \\\n    --").replace(" -t", " \\\n    -t"), overflow="fold"),
        )

    def _parameters(self) -> list[tuple[str, str]]:
        choice = self.choice
        listed = "\n".join(f"{one.weight:>5,}  {one}" for one in choice.features.features) or "none"
        return [
            ("units", choice.by or "slices of the table"),
            ("rows per block", f"{choice.min_size:,} or more"),
            ("order in groups", ", ".join(choice.order) or "none"),
            *([("kept apart by", ", ".join(choice.buckets))] if choice.buckets else []),
            ("features", listed),
        ]

    def __str__(self) -> str:
        console = Console(width=110, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())
