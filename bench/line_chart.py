"""A line chart as SVG, for the documentation: a few series over one axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 48
COLOURS = ("#1f6feb", "#d9480f", "#2b8a3e", "#862e9c")

Points = Sequence[tuple[float, float]]


def line_chart(series: Mapping[str, Points], x_label: str, y_label: str, *, log_x: bool = False) -> str:
    """The chart as the text of an SVG file; the vertical axis begins at zero.

    >>> text = line_chart({"a": [(1, 2), (10, 4)]}, "x", "y", log_x=True)
    >>> text.count("<polyline"), text.count("<circle")
    (1, 2)
    """
    every = [point for points in series.values() for point in points]
    ticks = sorted({x for x, _ in every})
    across = [math.log10(x) if log_x else x for x in ticks]
    top = max(y for _, y in every) * 1.1 or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        at = math.log10(x) if log_x else x
        share = (at - across[0]) / ((across[-1] - across[0]) or 1)
        return LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    step = 10 ** math.floor(math.log10(top))
    step = next(size for size in (step / 5, step / 2, step, 2 * step) if top / size <= 8)
    for number in range(int(top / step) + 1):
        _, y = place(ticks[0], number * step)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number * step:g}</text>')
    for tick in ticks:
        x, _ = place(tick, 0)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:,g}</text>')
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(x, y) for x, y in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(f'<text x="{LEFT + 12 + 110 * number}" y="{TOP + 8}" fill="{colour}">{escape(name)}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(y_label)}</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"
