"""Documents on a terminal, and as text: tables of characters, plots of dots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sidestep.render.document import (
    BlockMap,
    Cell,
    Column,
    Command,
    Details,
    Drawing,
    Facts,
    Grid,
    Heading,
    Line,
    Paragraph,
    Part,
    Plot,
    Style,
)

WIDTH, HEIGHT = 44, 10
"""Characters of a plot; each holds two by four dots."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
STYLES: dict[Style, str] = {
    "": "",
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
}


def on_terminal(parts: Iterable[Part]) -> RenderableType:
    """What rich prints."""
    return Group(*(shown for part in parts for shown in _shown(part)))


def _shown(part: Part) -> Iterator[RenderableType]:
    match part:
        case Grid():
            yield _grid(part)
        case Facts(rows=rows, title=title):
            if title:
                yield Text(title, "bold")
            facts = Table.grid(padding=(0, 2))
            for name, cell in rows:
                facts.add_row(Text(name), _cell(cell))
            yield facts
        case Paragraph(text=text, style=style):
            yield Text(text, STYLES[style])
        case Heading(text=text):
            yield Text(f"\n{text}", "bold underline")
        case Command(text=text):
            yield Text("\n".join(f"  {line}" for line in text.splitlines()), overflow="fold")
        case Plot(in_text=True) if any(len(line.points) > 1 for line in part.lines):
            yield Panel(Group(*plot(part)), title=Text(part.title), expand=False)
        case Details(parts=parts, in_text=True):
            for inner in parts:
                yield from _shown(inner)
        case BlockMap() | Drawing() | Plot() | Details():
            return


def _grid(grid: Grid) -> Table:
    title = Text(grid.title, "bold") if grid.title else None
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in grid.columns:
        head = column if isinstance(column, Column) else Column(column)
        table.add_column(Text(head.name), justify="right" if head.right else "left", overflow="fold")
    for number, row in enumerate(grid.rows):
        table.add_row(*map(_cell, row), end_section=number in grid.rules)
    return table


def _cell(cell: Cell | str) -> Text:
    if isinstance(cell, str):
        return Text(cell, overflow="fold")
    return Text(cell.text, STYLES[cell.style], overflow="fold")


def plot(figure: Plot, width: int = WIDTH, height: int = HEIGHT) -> list[Text]:
    """The lines as lines of text; y runs from 0 to 1, x over the lines' own range.

    >>> for line in plot(Plot("c", "x", "y", (Line("", ((0.0, 0.0), (1.0, 1.0))),)), 8, 2): print(line.plain)
    100% │⠀⠀⠀⠀⣀⠤⠒⠉
      0% │⣀⠤⠒⠉⠀⠀⠀⠀
         └────────
          0%  100%
          x; y
    """
    last = max((line.points[-1][0] for line in figure.lines if line.points), default=1.0)
    grid = [[0] * width for _ in range(height)]
    for line in figure.lines:
        _draw(line, last, grid)
    lines = []
    for number, cells in enumerate(grid):
        label = "100%" if number == 0 else "  0%" if number == height - 1 else "    "
        lines.append(Text(f"{label} │" + "".join(chr(0x2800 + cell) for cell in cells)))
    low, high = ("0%", "100%") if last <= 1.0 else ("0", f"{last:g}")
    lines.append(Text("     └" + "─" * width))
    lines.append(Text("      " + low + high.rjust(width - len(low))))
    lines.append(Text(f"      {figure.x_name}; {figure.y_name}"))
    return lines


def _draw(line: Line, last: float, grid: list[list[int]]) -> None:
    width, height = len(grid[0]), len(grid)
    if not line.points:
        return
    xs, ys = zip(*line.points, strict=True)
    before: int | None = None
    for column in range(2 * width):
        y = float(np.interp(last * column / (2 * width - 1), xs, ys))
        row = round((1 - min(max(y, 0.0), 1.0)) * (4 * height - 1))
        # A steep piece is drawn all the way, or it would be a few dots far apart.
        nearest = row if before is None or abs(before - row) < 2 else before - 1 if before > row else before + 1
        for dot in range(min(row, nearest), max(row, nearest) + 1):
            grid[dot // 4][column // 2] |= _DOTS[dot % 4][column % 2]
        before = row
