"""The analysis on a terminal: tables, and curves drawn with dots."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sidestep.workload.features.feature_set import features_table
from sidestep.workload.features.quality import Curve
from sidestep.workload.report import Analysis, TableAnalysis

WIDTH, HEIGHT = 44, 10
"""Characters of a plot; each holds two by four dots."""

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def show(analysis: Analysis, console: Console | None = None) -> None:
    """Print the analysis."""
    for part in rendered(analysis):
        (console or Console()).print(part)


def rendered(analysis: Analysis) -> Iterator[RenderableType]:
    """The analysis as parts that rich can print, from the whole to the single table."""
    yield Text(f"{analysis.queries:,} queries understood, {analysis.failures:,} statements not", style="bold")
    if analysis.reasons:
        table = Table("not understood because", "statements", box=box.SIMPLE_HEAD)
        for reason, count in analysis.reasons:
            table.add_row(Text(" ".join(reason.split())[:200]), f"{count:,}")
        yield table
    for table_analysis in analysis.tables:
        yield from _table(table_analysis)


def _table(table: TableAnalysis) -> Iterator[RenderableType]:
    yield Text(f"\n{table.table}", style="bold underline")
    yield Text(
        f"{table.scans:,} scans: {table.filtered:,} with a filter, {table.unfiltered:,} without, "
        f"{table.empty:,} that no row can satisfy\n"
        f"{table.distinct_filters:,} distinct filters of {table.distinct_predicates:,} distinct predicates"
    )
    if table.refused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in table.refused.items())
        yield Text(f"predicates that may not become features: {reasons}")
    for note in table.notes:
        yield Text(note, style="yellow")
    if table.choice is not None:
        chosen = f"{table.choice.num_features} features, T = {table.choice.threshold:,}"
        yield Text(f"chosen by cross-validation over time: {chosen}")
    if len(table.features):
        yield features_table(table.features)
        yield Text(
            f"together they subsume {table.features.coverage:.1%} of the queries with a filter "
            f"(T = {table.features.threshold:,})"
        )
    for curve in (table.commonality, table.stability, table.coverage):
        if len(curve.points) > 1:
            yield Panel(Group(*plot(curve)), title=curve.name, expand=False)


def plot(curve: Curve, width: int = WIDTH, height: int = HEIGHT) -> list[Text]:
    """The curve as lines of text; y runs from 0 to 1, x over the curve's own range.

    >>> for line in plot(Curve("c", "x", "y", ((0.0, 0.0), (1.0, 1.0))), width=8, height=2): print(line.plain)
    100% │⠀⠀⠀⠀⣀⠤⠒⠉
      0% │⣀⠤⠒⠉⠀⠀⠀⠀
         └────────
          0%  100%
          x; y
    """
    last = curve.points[-1][0] if curve.points else 1.0
    grid = [[0] * width for _ in range(height)]
    before: int | None = None
    for column in range(2 * width):
        y = curve.at(last * column / (2 * width - 1))
        row = round((1 - min(max(y, 0.0), 1.0)) * (4 * height - 1))
        # A steep piece is drawn all the way, or it would be a few dots far apart.
        nearest = row if before is None or abs(before - row) < 2 else before - 1 if before > row else before + 1
        for dot in range(min(row, nearest), max(row, nearest) + 1):
            grid[dot // 4][column // 2] |= _DOTS[dot % 4][column % 2]
        before = row
    lines = []
    for number, cells in enumerate(grid):
        label = "100%" if number == 0 else "  0%" if number == height - 1 else "    "
        lines.append(Text(f"{label} │" + "".join(chr(0x2800 + cell) for cell in cells)))
    low, high = ("0%", "100%") if last <= 1.0 else ("0", f"{last:g}")
    lines.append(Text("     └" + "─" * width))
    lines.append(Text("      " + low + high.rjust(width - len(low))))
    lines.append(Text(f"      {curve.x_name}; {curve.y_name}"))
    return lines
