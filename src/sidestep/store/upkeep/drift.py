"""How far today's queries have moved from those that a table was laid out for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sidestep.render.document import Cell, Details, Grid, Paragraph, Part, numbers
from sidestep.render.report import Report

LEAST_GAIN = 0.1
"""What would be read less by at least this share is worth a rewrite, if that pays soon."""
REWRITE = 3.0
"""What a rewrite takes, in reads of the same rows: they are read, sorted and written."""
SOON = 100
"""Within so many queries, or as many as it was judged by, a rewrite is to pay."""

MOST_UNITS = 50
"""Units that a table lists: those that gain most."""


@dataclass(frozen=True, slots=True)
class UnitDrift:
    """What queries read of one unit now, and what they would of it laid out anew; as shares of the table's rows."""

    unit: str
    rows: float
    """How large it is."""
    now: float
    anew: float

    def worthwhile(self, queries: int) -> bool:
        """Whether a rewrite pays within so many queries.

        >>> UnitDrift("a", 0.25, 0.01, 0.005).worthwhile(100), UnitDrift("a", 0.25, 0.2, 0.1).worthwhile(100)
        (False, True)
        """
        gain = self.now - self.anew
        return gain >= LEAST_GAIN * self.now > 0 and gain * queries >= REWRITE * self.rows


@dataclass(frozen=True, slots=True)
class Drift(Report):
    """What the queries of a log read of a table as it is laid out, and what they would under a layout made for them."""

    queries: int
    judged_by: str
    """Which of the queries these are, in words."""
    family: str
    """The family of the layout that would serve them best."""
    expected: float | None
    """The share of rows that queries were to read when the table was laid out; None if no log was given then."""
    now: float
    """The share that these queries read."""
    anew: float
    """The share that they would read if all of the table were laid out anew."""
    units: tuple[UnitDrift, ...]
    of: str = "rows"
    """What these are shares of: of a table in column groups, cells."""

    @property
    def worthwhile(self) -> tuple[str, ...]:
        """The units that are worth a rewrite: of those the ones that save most, until nine tenths are saved."""
        if self.now - self.anew < LEAST_GAIN * self.now:
            return ()
        soon = max(SOON, self.queries)
        gaining = sorted((one for one in self.units if one.worthwhile(soon)), key=lambda one: one.anew - one.now)
        total = sum(one.now - one.anew for one in gaining)
        chosen, saved = [], 0.0
        for one in gaining:
            if saved >= ENOUGH * total:
                break
            chosen.append(one.unit)
            saved += one.now - one.anew
        return tuple(chosen)

    def _document(self) -> Iterator[Part]:
        yield Paragraph(str(self))
        chosen = set(self.worthwhile)
        rows: list[list[Cell | str]] = [
            [
                one.unit,
                Cell(f"{one.rows:.1%}", share=one.rows),
                Cell(f"{one.now:.1%}", share=one.now),
                Cell(f"{one.anew:.1%}", share=one.anew),
                Cell("worth it", "good") if one.unit in chosen else "",
            ]
            for one in sorted(self.units, key=lambda one: one.anew - one.now)[:MOST_UNITS]
        ]
        yield Details(
            f"{len(self.units):,} units",
            (Grid(("unit", *numbers(f"its share of the {self.of}", "read now", "laid out anew"), ""), rows),),
            in_text=False,
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self) | {"worthwhile": list(self.worthwhile)}

    def __str__(self) -> str:
        was = "" if self.expected is None else f", {self.expected:.1%} were expected when it was laid out"
        text = f"{self.queries:,} queries ({self.judged_by}) read {self.now:.1%} of the {self.of}{was}."
        if not (chosen := self.worthwhile):
            return f"{text} Another layout would hardly serve them better ({self.family}: {self.anew:.1%})."
        share = sum(one.rows for one in self.units if one.unit in chosen)
        return (
            f"{text} Laid out anew by {self.family} they would read {self.anew:.1%}; {len(chosen):,} of "
            f"{len(self.units):,} units, {share:.0%} of the rows, are worth it."
        )


ENOUGH = 0.9
