"""The analysis for people: on a terminal, with curves drawn as dots, and as one HTML file.

The file needs no network: it holds plotly's own script, which draws its curves.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sidestep.errors import SidestepError
from sidestep.workload.analysis.analysis import Analysis, TableAnalysis
from sidestep.workload.features.feature_set import features_table
from sidestep.workload.features.quality import Curve

WIDTH, HEIGHT = 44, 10
"""Characters of a plot; each holds two by four dots."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def render_analysis(analysis: Analysis) -> Iterator[RenderableType]:
    """The analysis as parts that rich can print, from the whole to the single table."""
    yield Text(f"{analysis.queries:,} queries understood, {analysis.failures:,} statements not", style="bold")
    if analysis.reasons:
        table = Table("not understood because", "statements", box=box.SIMPLE_HEAD)
        for reason, count in analysis.reasons:
            table.add_row(Text(" ".join(reason.split())[:200]), f"{count:,}")
        yield table
    for table_analysis in analysis.tables:
        yield from _terminal_table(table_analysis)


def _terminal_table(table: TableAnalysis) -> Iterator[RenderableType]:
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


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430; }
h1, h2 { font-weight: 600; } h2 { border-bottom: 1px solid #d5dbe3; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; color: #5b6675; font-weight: 500; }
td, th { padding: .3rem .6rem; border-bottom: 1px solid #e6eaef; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; } code { font-size: 13px; overflow-wrap: anywhere; }
.note { background: #fff6df; padding: .4rem .8rem; } .plots { display: flex; flex-wrap: wrap; gap: 1rem; }
.plot { width: 22rem; height: 19rem; } details { color: #5b6675; }
"""
_DRAW = """
for (const plot of document.querySelectorAll(".plot")) {
  const figure = JSON.parse(plot.dataset.figure);
  Plotly.newPlot(plot, figure.data, figure.layout, {displayModeBar: false, responsive: true});
}
"""


def save_page(analysis: Analysis, path: str | os.PathLike[str], title: str = "Workload analysis") -> None:
    """Write the analysis as an HTML file."""
    try:
        Path(path).write_text(page(analysis, title), encoding="utf-8")
    except OSError as error:
        raise SidestepError(f"The report could not be written to {path}: {error.strerror}.") from error


def page(analysis: Analysis, title: str = "Workload analysis") -> str:
    """The analysis as HTML, with all it needs inside."""
    body = "\n".join(_body(analysis, title))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<script>{_plotly()}</script>\n</head>\n<body>\n{body}\n<script>{_DRAW}</script>\n"
        "</body>\n</html>\n"
    )


def _plotly() -> str:
    """Plotly's script; a closing tag inside a text of it must not end the page's."""
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    return script.replace("</script", "<\\/script")


def _body(analysis: Analysis, title: str) -> Iterator[str]:
    yield f"<h1>{html.escape(title)}</h1>"
    yield f"<p>{analysis.queries:,} queries understood, {analysis.failures:,} statements not.</p>"
    if analysis.reasons:
        yield "<details><summary>Why statements were not understood</summary><table>"
        for reason, count in analysis.reasons:
            yield f'<tr><td class="number">{count:,}</td><td>{html.escape(reason[:500])}</td></tr>'
        yield "</table></details>"
    for table in analysis.tables:
        yield from _page_table(table)


def _page_table(table: TableAnalysis) -> Iterator[str]:
    yield f"<h2>{html.escape(table.table)}</h2>"
    yield (
        f"<p>{table.scans:,} scans: {table.filtered:,} with a filter, {table.unfiltered:,} without, {table.empty:,} "
        f"that no row can satisfy. {table.distinct_filters:,} distinct filters of {table.distinct_predicates:,} "
        "distinct predicates.</p>"
    )
    for note in table.notes:
        yield f'<p class="note">{html.escape(note)}</p>'
    if table.choice is not None:
        chosen = table.choice
        yield f"<p>Chosen by cross-validation over time: {chosen.num_features} features, T = {chosen.threshold:,}.</p>"
    if len(table.features):
        share = f"{table.features.coverage:.1%}"
        yield f"<p>{len(table.features)} features subsume {share} of the queries with a filter.</p>"
        yield '<table><tr><th class="number">#</th><th>feature</th><th class="number">queries</th></tr>'
        pairs = zip(table.features.features, table.subsumed, strict=True)
        for number, (feature, subsumed) in enumerate(pairs, 1):
            examples = "".join(f"<li><code>{html.escape(example)}</code></li>" for example in subsumed.examples)
            yield (
                f'<tr><td class="number">{number}</td><td><code>{html.escape(str(feature))}</code><details><summary>'
                f"{subsumed.filters:,} distinct filters</summary><ul>{examples}</ul></details></td>"
                f'<td class="number">{feature.weight:,}</td></tr>'
            )
        yield "</table>"
    yield '<div class="plots">'
    for curve in (table.commonality, table.stability, table.coverage):
        if len(curve.points) > 1:
            figure = html.escape(json.dumps(_figure(curve)), quote=True)
            yield f'<div class="plot" data-figure="{figure}"></div>'
    yield "</div>"


def _figure(curve: Curve) -> dict[str, Any]:
    """The curve as plotly's own kind of data."""
    xs, ys = ([round(point[side], 5) for point in curve.points] for side in (0, 1))
    shares = {"tickformat": ".0%"} if xs[-1] <= 1 else {}
    return {
        "data": [{"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": {"color": "#2563a8"}}],
        "layout": {
            "title": {"text": curve.name, "font": {"size": 14}},
            "margin": {"l": 48, "r": 12, "t": 36, "b": 44},
            "xaxis": {"title": {"text": curve.x_name, "font": {"size": 12}}, **shares},
            "yaxis": {"title": {"text": curve.y_name, "font": {"size": 12}}, "tickformat": ".0%", "range": [0, 1.02]},
        },
    }
