"""Pictures as static SVG: curves and maps of blocks, with no scripts and in colours that light and dark grounds bear.

Text and axes are of the colour of the text around them; all other colours are of a lightness in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from sidestep.render.document import BlockMap, Line, Plot

Numbers = npt.NDArray[np.integer]
Mask = npt.NDArray[np.bool_]

COLOURS = ("#2f7fd0", "#c4690b", "#15875a", "#a04fc0", "#c03f5f", "#6f7f1f")
WIDTH, HEIGHT = 322, 232
"""Of a plot, with its margins: left, right, top and bottom."""
LEFT, RIGHT, TOP, BOTTOM = 52, 22, 30, 46
MOST_POINTS = 90
"""Of a line; more would be closer to each other than a reader can tell."""
FEW_POINTS = 16
"""So many are drawn as dots that say their values under the pointer."""
SIZE, GAP, ACROSS, MOST_ROWS = 8, 1, 84, 12
"""Of a map: a block's side and the gap beside it in pixels, blocks in a row, and rows."""
READ = "#2f7fd0"
SKIPPED = ("#9aa5b1", "#7fb8a0", "#cdb380", "#b79ac8", "#c99a9a", "#98b4d4")


def plot_svg(plot: Plot) -> str:
    """Lines with axes, ticks and, if there are several, a legend."""
    lines = [line for line in plot.lines if line.points]
    if not lines:
        return ""
    xs = [x for line in lines for x, _ in line.points]
    log = plot.log and min(xs) > 0
    low, high = (min(xs), max(xs)) if log else (min(0.0, *xs), max(xs))
    top = _ceiling(max(y for line in lines for _, y in line.points))
    legend = 16 * math.ceil(len(lines) / 3) if len(lines) > 1 else 0
    height = HEIGHT + legend

    def place(x: float, y: float) -> tuple[float, float]:
        if log:
            along = math.log(x / low) / math.log(high / low) if high > low else 0.5
        else:
            along = (x - low) / (high - low) if high > low else 0.5
        return LEFT + along * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 16, plot.title, size=12, weight=600)]
    for share in np.linspace(0, top, 5):
        _, y = place(high, float(share))
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".15"/>')
        parts.append(_text(LEFT - 6, y + 4, _percent(float(share), top), anchor="end", opacity=0.75))
    for x in _ticks(sorted(set(xs)), low, high, log):
        across, _ = place(x, 0)
        parts.append(f'<path d="M{across:.1f} {HEIGHT - BOTTOM}v4" stroke="currentColor" stroke-opacity=".5"/>')
        parts.append(_text(across, HEIGHT - BOTTOM + 16, _number(x, high), anchor="middle", opacity=0.75))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 12, plot.x_name, anchor="middle", opacity=0.75))
    parts.append(_text(12, (TOP + HEIGHT - BOTTOM) / 2, plot.y_name, anchor="middle", opacity=0.75, upright=True))
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = [place(x, y) for x, y in line.points]
        parts.append(f'<polyline points="{_path(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(points) <= FEW_POINTS:
            parts += _dots(line, points, colour, high, top)
        if legend:
            x, y = LEFT + 96 * (number % 3), HEIGHT + 8 + 16 * (number // 3)
            parts.append(f'<rect x="{x}" y="{y - 8}" width="10" height="10" rx="2" fill="{colour}"/>')
            parts.append(_text(x + 15, y + 1, line.name[:14]))
    return _svg(WIDTH, height, f"{plot.title}: {plot.y_name} by {plot.x_name}", parts)


def _dots(line: Line, points: Sequence[tuple[float, float]], colour: str, high: float, top: float) -> Iterator[str]:
    for (x, y), (across, up) in zip(line.points, points, strict=True):
        said = escape(f"{_number(x, high)}: {_percent(y, top / 100)}")
        yield f'<circle cx="{across:.1f}" cy="{up:.1f}" r="2.6" fill="{colour}"><title>{said}</title></circle>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    """The points, but for those that lie where another one does; of many, evenly chosen ones and both ends."""
    if len(points) > MOST_POINTS:
        chosen = np.unique(np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int))
        points = [points[at] for at in chosen]
    return " ".join(dict.fromkeys(f"{x:.1f},{y:.1f}" for x, y in points))


def _ceiling(highest: float) -> float:
    """Where an axis of shares ends.

    >>> _ceiling(0.031), _ceiling(0.7), _ceiling(1.0), _ceiling(0.0), _ceiling(1.3)
    (0.04, 1.0, 1.0, 1.0, 2.0)
    """
    if not 0 < highest < 0.5:
        return float(max(1, math.ceil(highest - 1e-9)))
    step = 10 ** math.floor(math.log10(highest))
    return float(min(1.0, round(next(step * by for by in (1, 2, 4, 8, 10) if step * by >= highest - 1e-12), 12)))


def _percent(share: float, top: float) -> str:
    """
    >>> _percent(0.25, 1.0), _percent(0.01, 0.04), _percent(0.0025, 0.01)
    ('25%', '1%', '0.25%')
    """
    return f"{100 * share:.{0 if top >= 0.04 else 2}f}%"


def _number(x: float, high: float) -> str:
    """
    >>> _number(0.2, 1.0), _number(1.48567, 1.5), _number(20_000, 1e6), _number(30, 40), _number(1_234, 2_000)
    ('20%', '1.49', '20k', '30', '1,234')
    """
    if high <= 1:
        return f"{100 * x:.0f}%"
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if x >= 10 * unit or (x >= unit and x % (unit / 10) == 0):
            return f"{x / unit:g}{letter}"
    return f"{x:.3g}" if x < 100 else f"{x:,.0f}"


def _ticks(xs: Sequence[float], low: float, high: float, log: bool) -> list[float]:
    """Five or six round numbers; on an axis of factors, places of points as far as they leave each other room.

    >>> _ticks([0.0, 37.0], 0.0, 37.0, False), _ticks([1.0, 2.0, 4.0], 1.0, 4.0, True)
    ([0, 10, 20, 30], [1.0, 2.0, 4.0])
    """
    if log:
        room = math.log(high / low) / 6 if high > low else 1.0
        chosen = [xs[0]]
        for x in xs[1:]:
            if math.log(x / chosen[-1]) >= room:
                chosen.append(x)
        return chosen
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step = next(step * by for by in (1, 2, 2.5, 5, 10) if (high - low) / (step * by) <= 5)
    if high > 5:
        step = max(1.0, round(step))
    first = math.ceil(low / step - 1e-9)
    return [round(step * at, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]


def map_svg(map: BlockMap) -> str:
    """The blocks of a scan, row by row in their order; of very many, some share a square.

    One path for each kind: a run of squares is one dashed line, so that a map of a thousand blocks is small.
    """
    blocks = np.asarray(map.blocks)
    if not len(blocks):
        return ""
    each = math.ceil(len(blocks) / (ACROSS * MOST_ROWS))
    squares, partly = _share_squares(blocks, each, len(map.kinds))
    rows = math.ceil(len(squares) / ACROSS)
    colours = [READ, *(SKIPPED[at % len(SKIPPED)] for at in range(len(map.kinds) - 1))]
    pitch, parts = SIZE + GAP, []
    top = 22
    counts = np.bincount(blocks, minlength=len(map.kinds))
    shown = [at for at in range(len(map.kinds)) if counts[at]]
    for at in shown:
        for some in (False, True):
            if run := _runs(squares, (squares == at) & (partly == some), top, pitch):
                faint = ' stroke-opacity=".55"' if some else ""
                parts.append(
                    f'<path d="{run}" fill="none" stroke="{colours[at]}" stroke-width="{SIZE}" '
                    f'stroke-dasharray="{SIZE} {GAP}"{faint}/>'
                )
    x, y = 0, top + rows * pitch + 14
    legend = [(colours[at], f"{counts[at]:,} {map.kinds[at]}", 1.0) for at in shown]
    if partly.any():
        legend.append((READ, f"some of {each:,} read", 0.55))
    for colour, said, opacity in legend:
        wide = 26 + 7 * len(said)
        if x and x + wide > ACROSS * pitch:
            x, y = 0, y + 18
        parts.append(
            f'<rect x="{x}" y="{y - 8}" width="{SIZE}" height="{SIZE}" fill="{colour}" fill-opacity="{opacity:g}"/>'
        )
        parts.append(_text(x + 14, y, said))
        x += wide
    also = f" (a square is {each:,} blocks)" if each > 1 else ""
    parts.insert(0, _text(0, 12, f"{map.title}{also}", size=12, weight=600))
    return _svg(ACROSS * pitch, y + 8, map.title, parts)


def _share_squares(blocks: Numbers, each: int, kinds: int) -> tuple[Numbers, Mask]:
    """For each square its kind, and whether only some of its blocks are read: one that is read has the square."""
    if each == 1:
        return blocks, np.zeros(len(blocks), np.bool_)
    squares, partly = [], []
    for start in range(0, len(blocks), each):
        counts = np.bincount(blocks[start : start + each], minlength=kinds)
        squares.append(0 if counts[0] else int(counts.argmax()))
        partly.append(0 < counts[0] < counts.sum())
    return np.array(squares), np.array(partly, np.bool_)


def _runs(squares: Numbers, chosen: Mask, top: int, pitch: int) -> str:
    parts = []
    for row, start in enumerate(range(0, len(squares), ACROSS)):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen[start : start + ACROSS].astype(np.int8), [0]))))
        y = top + row * pitch + SIZE // 2
        parts += [f"M{pitch * a} {y}h{pitch * (b - a) - GAP}" for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return "".join(parts)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 11,
    anchor: str = "start",
    weight: int = 400,
    opacity: float = 1.0,
    upright: bool = False,
) -> str:
    style = f'font-size="{size}" fill="currentColor"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    style += f' font-weight="{weight}"' if weight != 400 else ""
    style += f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
    turn = f' transform="rotate(-90 {x:.0f} {y:.0f})"' if upright else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}{turn}>{escape(text)}</text>'


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:100%" '
        f'font-family="system-ui,sans-serif">{"".join(parts)}</svg>'
    )
