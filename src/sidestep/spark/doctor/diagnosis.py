"""A diagnosis: what was looked at, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from sidestep.render import counted
from sidestep.render.document import Cell, Grid, Paragraph, Part, Style
from sidestep.render.report import Report

State = Literal["good", "note", "warn", "bad"]
"""All is well; good to know; worth doing something about; sidestep cannot do its work like that."""
STYLES: dict[State, Style] = {"good": "good", "note": "", "warn": "warn", "bad": "bad"}
MARKS: dict[State, str] = {"good": "ok", "note": "-", "warn": "look", "bad": "wrong"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    about: str
    state: State
    found: str
    advice: str = ""
    """What to do; empty where there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Diagnosis(Report):
    """All that was found. Prints as a table, shows as HTML in a notebook, and is data by ``to_dict``."""

    _title: ClassVar[str] = "sidestep doctor"

    findings: tuple[Finding, ...]

    @property
    def well(self) -> bool:
        """Whether nothing keeps sidestep from its work."""
        return all(finding.state != "bad" for finding in self.findings)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do, what is wrong first."""
        wrong = [one.advice for state in ("bad", "warn", "note") for one in self.findings if one.state == state]
        return tuple(filter(None, wrong))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {"well": self.well, "findings": [asdict(finding) for finding in self.findings]}

    def _document(self) -> Iterator[Part]:
        rows: list[list[Cell | str]] = [
            [Cell(MARKS[one.state], STYLES[one.state]), one.about, one.found, Cell(one.advice, STYLES[one.state])]
            for one in self.findings
        ]
        yield Grid(("", "about", "found", "what to do"), rows)
        wrong = sum(one.state == "bad" for one in self.findings)
        look = sum(one.state == "warn" for one in self.findings)
        if wrong:
            yield Paragraph(f"{counted(wrong, 'thing')} must be put right before sidestep can do its work.", "bad")
        elif look:
            yield Paragraph(f"sidestep works; {counted(look, 'thing')} could be better.", "warn")
        else:
            yield Paragraph("All is well.", "good")
