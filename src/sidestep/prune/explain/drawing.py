"""The join graph of a query with every induced predicate in it, as a table and as a picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from sidestep.prune.dips.induced import Edge, Induced, Node
from sidestep.prune.dips.model import Dip

WIDTH, HEIGHT = 760, 90
"""Of the picture: its width, and the height that each row of tables takes."""
BOX = 132, 40
MOST_ROWS = 40
"""Predicates that are listed; a query of thirty tables may have hundreds that do nothing."""


def labels(nodes: Sequence[Node]) -> dict[int, str]:
    """Names that tell the nodes apart: a table that is read twice is numbered.

    >>> labels([Node(0, "t", None), Node(1, "t", None), Node(2, "u", None)])
    {0: 't (1)', 1: 't (2)', 2: 'u'}
    """
    times, seen = Counter(node.label for node in nodes), Counter[str]()
    names = {}
    for node in nodes:
        seen[node.label] += 1
        names[node.id] = f"{node.label} ({seen[node.label]})" if times[node.label] > 1 else node.label
    return names


def dip_rows(induced: Induced) -> Iterator[tuple[str, str, str, str, int]]:
    """For each induced predicate worth telling of: from, to, what it says, when, and the blocks it removed.

    Those that removed something come as they were derived; if none did, all come, so that one sees what was tried.
    """
    name = labels(induced.nodes)
    useful = [dip for dip in induced.dips if dip.removed] or list(induced.dips)
    for dip in useful[:MOST_ROWS]:
        yield (
            f"{name[dip.origin]}.{dip.origin_column.name}",
            f"{name[dip.target]}.{dip.column.name}",
            describe_dip(dip),
            f"round {dip.round}, step {dip.step}",
            dip.removed,
        )


def graph_data(induced: Induced) -> dict[str, Any]:
    """The join graph as plain data: tables, the conditions between them, and every predicate that was sent."""
    name = labels(induced.nodes)
    return {
        "nodes": [
            {"id": node.id, "label": name[node.id], "blocks": node.blocks, "static": node.static, "kept": node.kept}
            for node in induced.nodes
        ],
        "edges": [{"left": edge.left, "right": edge.right, "text": edge.text} for edge in induced.edges],
        "flows": [
            {
                "from": dip.origin,
                "to": dip.target,
                "column": dip.column.name,
                "origin_column": dip.origin_column.name,
                "says": describe_dip(dip),
                "round": dip.round,
                "removed": dip.removed,
            }
            for dip in induced.dips
        ],
    }


def describe_dip(dip: Dip) -> str:
    """What a predicate says, in short: its ranges, or how many there are, and from how many they were compacted."""
    lost = f" (of {dip.full_count})" if dip.full_count > dip.count else ""
    if not dip.count:
        return "NULL only" if dip.nulls else "nothing matches"
    return f"{dip.count} range{'s' * (dip.count != 1)}{lost}{', or NULL' * dip.nulls}"


def svg(induced: Induced) -> str:
    """The join graph as a picture: tables with what is left of their blocks, arrows for predicates that removed some.

    Tables are in rows by their distance from the one that is read most, so that a star or a chain looks like one.
    """
    drawn = [node for node in induced.nodes if any(node.id in (edge.left, edge.right) for edge in induced.edges)]
    if not drawn:
        return ""
    rows = _rows(drawn, induced.edges)
    places = {}
    for number, row in enumerate(rows):
        for at, each in enumerate(row):
            places[each] = (WIDTH * (at + 1) / (len(row) + 1), HEIGHT * number + HEIGHT / 2)
    name, parts = labels(induced.nodes), []
    for edge in induced.edges:
        (x1, y1), (x2, y2) = _short_of_boxes(places[edge.left], places[edge.right])
        parts.append(
            f"<line x1='{x1:.0f}' y1='{y1:.0f}' x2='{x2:.0f}' y2='{y2:.0f}' stroke='currentColor' stroke-opacity='.3'/>"
        )
        parts.append(_text((x1 + x2) / 2 - 8, (y1 + y2) / 2 + 3, edge.text, "currentColor", 10, anchor="end"))
    removed = Counter[tuple[int, int]]()
    for dip in induced.dips:
        removed[dip.origin, dip.target] += dip.removed
    for (origin, target), blocks in removed.items():
        if blocks:
            parts.append(_arrow(places[origin], places[target], f"\u2212{blocks:,}"))
    for node in drawn:
        parts.append(_box(node, name[node.id], *places[node.id]))
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT * len(rows)}' width='{WIDTH}' "
        "style='max-width:100%' font-family='system-ui,sans-serif'><defs><marker id='sidestep-tip' markerWidth='8' "
        "markerHeight='8' refX='6' refY='3' "
        "orient='auto'><path d='M0,0 L6,3 L0,6 z' fill='#15875a'/></marker></defs>"
    )
    return head + "".join(parts) + "</svg>"


def _rows(nodes: Sequence[Node], edges: Sequence[Edge]) -> list[list[int]]:
    """Nodes by their distance from the largest of their part of the graph."""
    near: dict[int, set[int]] = {node.id: set() for node in nodes}
    for edge in edges:
        near[edge.left].add(edge.right)
        near[edge.right].add(edge.left)
    rows: list[list[int]] = []
    left = {node.id: node for node in nodes}
    while left:
        row = [max(left, key=lambda number: (left[number].blocks, -number))]
        depth = 0
        while row:
            for number in row:
                left.pop(number)
            if len(rows) <= depth:
                rows.append([])
            rows[depth] += row
            row = sorted({far for number in row for far in near[number]} & left.keys())
            depth += 1
    return rows


def _box(node: Node, name: str, x: float, y: float) -> str:
    width, height = BOX
    share = node.kept / node.blocks if node.blocks else 1.0
    left, top = x - width / 2, y - height / 2
    known = f"{node.kept:,} of {node.blocks:,} blocks" if node.blocks else "not indexed"
    return (
        f"<rect x='{left:.0f}' y='{top:.0f}' width='{width}' height='{height}' rx='5' fill='none' "
        "stroke='currentColor' stroke-opacity='.6'/>"
        f"<rect x='{left:.0f}' y='{top + height - 5:.0f}' width='{width * share:.1f}' height='5' rx='2' "
        "fill='#2f7fd0'/>"
        + _text(x, y - 4, name if len(name) < 22 else name[:20] + "\u2026", "currentColor", 12)
        + _text(x, y + 10, known, "currentColor", 10)
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], label: str) -> str:
    """Beside the straight line, so that the ways there and back are two arrows, and short of both boxes."""
    (x1, y1), (x2, y2) = _short_of_boxes(start, end, gap=3)
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    side_x, side_y = -6 * (y2 - y1) / length, 6 * (x2 - x1) / length
    x1, y1, x2, y2 = x1 + side_x, y1 + side_y, x2 + side_x, y2 + side_y
    line = (
        f"<line x1='{x1:.0f}' y1='{y1:.0f}' x2='{x2:.0f}' y2='{y2:.0f}' stroke='#15875a' stroke-width='1.6' "
        "marker-end='url(#sidestep-tip)'/>"
    )
    # Away from the straight line, whose own text is to its left.
    anchor = "middle" if abs(side_x) < 2 else "start" if side_x > 0 else "end"
    x, y = x1 + 0.62 * (x2 - x1) + side_x, y1 + 0.62 * (y2 - y1) + 2 * side_y + 3
    return line + _text(x, y, label, "#15875a", 10, anchor)


def _short_of_boxes(
    start: tuple[float, float], end: tuple[float, float], gap: float = 0.0
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The straight line between two boxes, given by their middles; boxes are see-through, so it must not enter them."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    reach = min(BOX[0] / 2 / max(abs(dx), 1e-9), BOX[1] / 2 / max(abs(dy), 1e-9)) + gap
    return (x1 + reach * dx, y1 + reach * dy), (x2 - reach * dx, y2 - reach * dy)


def _text(x: float, y: float, text: str, colour: str, size: int, anchor: str = "middle") -> str:
    style = f"font-size='{size}' fill='{colour}' text-anchor='{anchor}'"
    return f"<text x='{x:.0f}' y='{y:.0f}' {style}>{escape(text)}</text>"
