"""Documents as HTML: a fragment for notebooks, and whole pages; no scripts, nothing fetched, and all text escaped.

A fragment brings a style of its own, for its own elements alone. It takes its ground and its text's colour from the
page around it, light or dark, and its other colours are of a lightness in the middle.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from sidestep.errors import SidestepError
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
    Paragraph,
    Part,
    Plot,
)
from sidestep.render.svg import map_svg, plot_svg

STYLE = """
.sidestep{font:13px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;max-width:72rem}
.sidestep h3{font-size:15px;font-weight:600;margin:1.2em 0 .3em}
.sidestep p{margin:.4em 0}
.sidestep table.grid{border-collapse:collapse;margin:.4em 0 1em;border:0;width:auto;font-size:13px}
.sidestep table.grid caption{caption-side:top;text-align:left;font-weight:600;color:inherit;padding:.2em 0}
.sidestep table.grid tr{background:none}
.sidestep table.grid th,.sidestep table.grid td{border:0;border-bottom:1px solid rgba(128,128,128,.25);
padding:.22em 1.1em .22em 0;text-align:left;vertical-align:top;color:inherit;max-width:46em;overflow-wrap:anywhere}
.sidestep table.grid th{font-weight:500;opacity:.7;white-space:nowrap}
.sidestep table.grid .n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.sidestep table.grid .dim,.sidestep .dim{opacity:.7}
.sidestep table.grid .good,.sidestep .good{color:#15875a}
.sidestep table.grid .warn,.sidestep .warn{color:#a86500}
.sidestep table.grid .bad,.sidestep .bad{color:#d33f3f}
.sidestep .strong{font-weight:600}
.sidestep .bar{display:block;height:4px;min-width:5em;background:rgba(128,128,128,.25);border-radius:2px;margin-top:2px}
.sidestep .bar i{display:block;height:4px;background:#2f7fd0;border-radius:2px}
.sidestep code,.sidestep pre{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;background:none;color:inherit}
.sidestep pre{border:1px solid rgba(128,128,128,.35);border-radius:4px;padding:.5em .8em;margin:.4em 0 1em;
white-space:pre-wrap;overflow-wrap:anywhere}
.sidestep td code{white-space:pre-wrap;overflow-wrap:anywhere}
.sidestep details{margin:.2em 0}
.sidestep summary{cursor:pointer;opacity:.7}
.sidestep .plots{display:flex;flex-wrap:wrap;gap:1em;margin:.5em 0}
.sidestep svg{display:block;margin:.4em 0}
""".strip()
PAGE_STYLE = """
:root{color-scheme:light dark}
body{margin:2rem auto;max-width:76rem;padding:0 1.5rem;background:Canvas;color:CanvasText}
h1{font:600 22px/1.3 system-ui,sans-serif}
""".strip()


def fragment(parts: Iterable[Part]) -> str:
    """The document as HTML that a notebook shows among other things."""
    return f'<div class="sidestep"><style>{STYLE}</style>{_all(parts)}</div>'


def page(title: str, parts: Iterable[Part]) -> str:
    """The document as a page of its own."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{PAGE_STYLE}\n{STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<div class="sidestep">{_all(parts)}</div>\n</body>\n</html>\n'
    )


def save_page(path: str | os.PathLike[str], title: str, parts: Iterable[Part]) -> None:
    """Write the document as a page."""
    try:
        Path(path).write_text(page(title, parts), encoding="utf-8")
    except OSError as error:
        raise SidestepError(f"The report could not be written to {path}: {error.strerror}.") from error


def _all(parts: Iterable[Part]) -> str:
    """All parts below each other, but plots that follow each other side by side."""
    written = []
    for plots, some in groupby(parts, lambda part: isinstance(part, Plot)):
        inside = "\n".join(filter(None, map(_part, some)))
        written.append(f'<div class="plots">{inside}</div>' if plots else inside)
    return "\n".join(written)


def _part(part: Part) -> str:
    match part:
        case Grid():
            return _grid(part)
        case Facts(rows=rows, title=title):
            body = "".join(f"<tr><th>{escape(name)}</th>{_cell(cell, False)}</tr>" for name, cell in rows)
            return f'<table class="grid">{_caption(title)}{body}</table>'
        case Paragraph(text=text, style=style):
            return f"<p{_classes(style)}>{_lines(text)}</p>"
        case Heading(text=text):
            return f"<h3>{escape(text)}</h3>"
        case Command(text=text):
            return f"<pre>{escape(text)}</pre>"
        case Plot():
            return plot_svg(part)
        case BlockMap():
            return map_svg(part)
        case Drawing(svg=svg):
            return svg
        case Details(summary=summary, parts=parts):
            return f"<details><summary>{escape(summary)}</summary>{_all(parts)}</details>"


def _grid(grid: Grid) -> str:
    columns = [column if isinstance(column, Column) else Column(column) for column in grid.columns]
    head = "".join(f"<th{_classes('n' * column.right)}>{escape(column.name)}</th>" for column in columns)
    body = (
        "<tr>" + "".join(_cell(cell, column.right) for cell, column in zip(row, columns, strict=True)) + "</tr>"
        for row in grid.rows
    )
    return f'<table class="grid">{_caption(grid.title)}<tr>{head}</tr>{"".join(body)}</table>'


def _caption(title: str) -> str:
    return f"<caption>{escape(title)}</caption>" if title else ""


def _cell(cell: Cell | str, right: bool) -> str:
    given = cell if isinstance(cell, Cell) else Cell(cell)
    text = f"<code>{escape(given.text)}</code>" if given.code and given.text else _lines(given.text)
    return f"<td{_classes('n' * right, given.style)}>{text}{''.join(_beside(given))}</td>"


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _beside(cell: Cell) -> Iterator[str]:
    if cell.share is not None:
        yield f'<span class="bar"><i style="width:{100 * min(max(cell.share, 0.0), 1.0):.1f}%"></i></span>'
    if cell.more:
        lines = "".join(f"<li><code>{escape(line)}</code></li>" for line in cell.lines)
        yield f"<details><summary>{escape(cell.more)}</summary><ul>{lines}</ul></details>"


def _classes(*names: str) -> str:
    used = " ".join(filter(None, names))
    return f' class="{used}"' if used else ""
