"""Documents: what a report says, in parts that know nothing of terminals and browsers.

A report lists its parts once; :mod:`sidestep.render.terminal` prints them and :mod:`sidestep.render.html` writes them.
All text in a document is plain text: whatever shows it sees to it that none of it is taken for markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Style = Literal["", "strong", "dim", "good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A text of a table, as it is to look."""

    text: str
    style: Style = ""
    share: float | None = None
    """Drawn as a bar from 0 to 1 where there is room for one."""
    code: bool = False
    """Whether it is SQL or the like."""
    more: str = ""
    """What is folded up below it on a page: the line that is seen,"""
    lines: tuple[str, ...] = ()
    """and the lines that are not."""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column."""

    name: str
    right: bool = False
    """Numbers stand to the right, so that their digits are below each other."""


def number(name: str) -> Column:
    """The head of a column of numbers."""
    return Column(name, right=True)


def numbers(*names: str) -> tuple[Column | str, ...]:
    """The heads of columns of numbers."""
    return tuple(map(number, names))


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell | str]]
    title: str = ""
    rules: frozenset[int] = frozenset()
    """The rows below which there is a line."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what there is to say of each."""

    rows: Sequence[tuple[str, Cell | str]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or more."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """The name of what follows."""

    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """Something to type: a command, or a call."""

    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over one axis; heights are shares."""

    title: str
    x_name: str
    y_name: str
    lines: tuple[Line, ...]
    log: bool = False
    """Whether equal steps to the right are equal factors; the points' own places are then its ticks."""
    in_text: bool = True
    """Whether a terminal shows it too."""


@dataclass(frozen=True, eq=False, slots=True)
class BlockMap:
    """The blocks of a scan in their order, each as a small square in the colour of what became of it."""

    title: str
    kinds: tuple[str, ...]
    """What may become of a block; the first is that it is read."""
    blocks: npt.NDArray[np.integer]
    """For each block, the number of its kind."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture as SVG, made by sidestep of texts that it has escaped; a terminal does without."""

    svg: str


@dataclass(frozen=True, slots=True)
class Details:
    """Parts that a page folds up below a line; a terminal shows them, unless they are for pages alone."""

    summary: str
    parts: tuple[Part, ...]
    in_text: bool = True


Part = Grid | Facts | Paragraph | Heading | Command | Plot | BlockMap | Drawing | Details
