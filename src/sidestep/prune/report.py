"""What an explanation says: per scan, how much there is, how much is kept, and what skipped the rest."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Amounts:
    """So much in all, so much of it kept."""

    total: int
    kept: int

    def to_dict(self) -> dict[str, int]:
        return {"total": self.total, "kept": self.kept}


@dataclass(frozen=True, slots=True)
class Reason:
    """What one condition skipped thanks to one synopsis, or why it skipped nothing."""

    condition: str
    synopsis: str | None
    files: int = 0
    """Files skipped that no earlier reason skips."""
    row_groups: int | None = 0
    bytes: int = 0
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "condition": self.condition,
            "synopsis": self.synopsis,
            "files": self.files,
            "row_groups": self.row_groups,
            "bytes": self.bytes,
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True)
class ScanReport:
    """One scan of a query. What is not known (of a table that is not covered, say) is None."""

    table: str
    root: str
    reason: str | None = None
    """Why sidestep does nothing for this scan, if so."""
    files: Amounts | None = None
    bytes: Amounts | None = None
    row_groups: Amounts | None = None
    """Row groups of indexed files; kept are those in which, for all that is known, a row may match."""
    rows: Amounts | None = None
    """Rows of indexed files."""
    unknown_files: int = 0
    """Files without a valid index entry: always read."""
    reasons: tuple[Reason, ...] = ()

    def with_reasons(self, *reasons: Reason) -> ScanReport:
        return replace(self, reasons=(*self.reasons, *reasons))

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "root": self.root,
            "covered": self.reason is None,
            "reason": self.reason,
            "files": _amounts(self.files),
            "row_groups": _amounts(self.row_groups),
            "rows": _amounts(self.rows),
            "bytes": _amounts(self.bytes),
            "unknown_files": self.unknown_files,
            "reasons": [reason.to_dict() for reason in self.reasons],
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """What sidestep does for a query. Prints as a table, shows as HTML in a notebook, and is data by ``to_dict``."""

    scans: tuple[ScanReport, ...]
    notes: tuple[str, ...] = ()
    problem: str = ""
    """What went wrong last in the rule of this session, if anything did."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "scans": [scan.to_dict() for scan in self.scans],
            "notes": list(self.notes),
            "problem": self.problem,
        }

    def __rich__(self) -> RenderableType:
        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        table = Table(title="What the query reads", title_justify="left")
        table.add_column("scan")
        for name in ("files", "row groups", "rows", "bytes"):
            table.add_column(name, justify="right")
        for scan in self.scans:
            table.add_row(
                scan.table,
                _share(scan.files),
                _share(scan.row_groups),
                _share(scan.rows),
                _share(scan.bytes, size=True),
            )
        yield table
        reasons = Table(title="Why", title_justify="left")
        for name in ("scan", "condition", "skipped by"):
            reasons.add_column(name)
        reasons.add_column("files", justify="right")
        reasons.add_column("row groups", justify="right")
        reasons.add_column("remark")
        for scan in self.scans:
            if scan.reason is not None:
                reasons.add_row(scan.table, "", "nothing", "", "", scan.reason)
            for reason in scan.reasons:
                skipped = str(reason.files) if reason.synopsis else ""
                groups = "" if reason.row_groups is None or not reason.synopsis else str(reason.row_groups)
                reasons.add_row(scan.table, reason.condition, reason.synopsis or "nothing", skipped, groups, reason.why_not)
            if scan.unknown_files and scan.reason is None:
                reasons.add_row(scan.table, "", "nothing", "", "", f"{scan.unknown_files} files are not indexed: always read")
        if reasons.row_count:
            yield reasons
        for note in self.notes:
            yield Text(note, style="bold")
        if self.problem:
            yield Text(f"The rule failed for an earlier query, which Spark then ran as usual: {self.problem}", style="red")

    def __str__(self) -> str:
        console = Console(width=120, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    def _repr_html_(self) -> str:
        console = Console(width=140, record=True, file=io.StringIO())
        console.print(self)
        return console.export_html(inline_styles=True, code_format="<pre style='line-height:1.25'>{code}</pre>")


def _amounts(amounts: Amounts | None) -> dict[str, int | None]:
    return {"total": None, "kept": None} if amounts is None else {**amounts.to_dict()}


def _share(amounts: Amounts | None, size: bool = False) -> str:
    if amounts is None:
        return "?"
    show = size_text if size else "{:,}".format
    return f"{show(amounts.kept)} of {show(amounts.total)}"


def size_text(size: int) -> str:
    """A number of bytes for people.

    >>> size_text(1536)
    '1.5 kB'
    """
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError
