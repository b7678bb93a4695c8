"""Advice on the layout of a table, as a value that prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sidestep.advisor.layouts.choose import LEAST_GAIN, LayoutChoice
from sidestep.advisor.layouts.column_groups import FAMILY, clearly_cheaper
from sidestep.advisor.layouts.replicas import COPIES, StoragePoint
from sidestep.layout.tree import column_of
from sidestep.render.document import Cell, Command, Details, Facts, Grid, Paragraph, Part, numbers
from sidestep.render.report import Report
from sidestep.workload.query import FailureGroup, failures_table


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the judged queries would read under one layout, as shares of reading everything."""

    layout: str
    rows: float
    bytes: float
    """Of the columns that each query reads."""
    files: float
    seconds: float
    """What reading costs a query by a model: only its proportions mean something."""
    detail: str = ""


@dataclass(frozen=True)
class Advice(Report):
    """Estimates for each layout, and the choice that a load would make. Prints as a table; data by ``to_dict``."""

    table: str
    choice: LayoutChoice
    estimates: tuple[Estimate, ...]
    queries: int
    """How many queries the estimates are about."""
    judged_by: str
    sample_rows: int
    total_rows: int
    command: str
    groups: tuple[tuple[str, ...], ...] | None = None
    """The column groups that were weighed; a single one if no division of the columns was better. None: not weighed."""
    groups_command: str = ""
    """The command that loads the table into column groups."""
    curve: tuple[StoragePoint, ...] = ()
    """What queries would cost by how many times the table's cells may be stored, if that was asked for."""
    copies_command: str = ""
    """The command that loads the table with copies of some cells."""
    notes: tuple[str, ...] = ()
    """What a person should know of the log, in sentences."""
    not_understood: tuple[FailureGroup, ...] = ()
    """The statements of the log that could not be used, by reason, with what to pass."""

    def estimate(self, layout: str) -> Estimate:
        """The estimate for today, or for one of the families."""
        return next(one for one in self.estimates if one.layout == layout)

    def to_dict(self) -> dict[str, Any]:
        """The advice as plain data."""
        choice = self.choice
        return {
            "table": self.table,
            "estimates": {
                one.layout: {
                    "rows": one.rows,
                    "bytes": one.bytes,
                    "files": one.files,
                    "seconds": one.seconds,
                    "detail": one.detail,
                }
                for one in self.estimates
            },
            "choice": {
                "family": choice.family,
                "detail": choice.detail,
                "leaves": 0 if choice.tree is None else choice.tree.leaves,
                "by": choice.by,
                "min_size": choice.min_size,
                "order": list(choice.order),
                "buckets": list(choice.buckets),
                "num_features": len(choice.features),
                "features": [str(feature) for feature in choice.features.features],
                "feature_set": choice.features.to_json(),
            },
            "queries": self.queries,
            "judged_by": self.judged_by,
            "sample_rows": self.sample_rows,
            "total_rows": self.total_rows,
            "command": self.command,
            "column_groups": None
            if self.groups is None
            else {
                "groups": [list(names) for names in self.groups],
                "recommended": self.recommends_groups,
                "why": self.groups_verdict,
                "command": self.groups_command,
            },
            "storage": None
            if not self.curve
            else {
                "curve": [asdict(point) for point in self.curve],
                "why": self.copies_verdict,
                "command": self.copies_command,
            },
            "notes": list(self.notes),
            "not_understood": [asdict(group) for group in self.not_understood],
        }

    def _document(self) -> Iterator[Part]:
        title = f"{self.table}: what {self.queries:,} queries ({self.judged_by}) would read"
        least = min((one.seconds for one in self.estimates if one.seconds), default=1.0)
        rows: list[list[Cell | str]] = [
            [
                Cell(one.layout, "strong" if one.layout == self.choice.family else ""),
                Cell(f"{one.rows:.1%}", share=one.rows),
                Cell(f"{one.bytes:.1%}", share=one.bytes),
                Cell(f"{one.files:.0%}", share=one.files),
                f"{one.seconds / least:.1f} x",
                one.detail,
            ]
            for one in self.estimates
        ]
        yield Grid(("layout", *numbers("rows", "bytes", "files", "cost"), ""), rows, title)
        yield Paragraph(self.verdict)
        yield from (Paragraph(note, "warn") for note in self.notes)
        if self.not_understood:
            yield Details("What was not understood of the log", (failures_table(self.not_understood),))
        yield Facts(self._parameters(), f"chosen: {self.choice.family}")
        yield Paragraph(f"Estimated from {self.sample_rows:,} of {self.total_rows:,} rows. To lay the table out so:")
        yield Command(_command_text(self.command))
        if self.groups is not None:
            yield Paragraph(self.groups_verdict)
            if len(self.groups) > 1:
                yield Command(_command_text(self.groups_command))
        if self.curve:
            yield from self._storage()

    def _storage(self) -> Iterator[Part]:
        yield Paragraph("Cells that may be stored more than once:")
        rows: list[list[Cell | str]] = [
            [
                f"{point.budget:g} x",
                f"{point.storage:.2f} x",
                f"{point.layouts:,}",
                Cell(f"{point.cost:.0%}", share=point.cost),
            ]
            for point in self.curve
        ]
        yield Grid(numbers("budget", "stored", "layouts", "cost"), rows)
        yield Paragraph(self.copies_verdict)
        if self._copies is not None:
            yield Command(_command_text(self.copies_command))

    @property
    def _copies(self) -> Estimate | None:
        return next((one for one in self.estimates if one.layout == COPIES), None)

    @property
    def copies_verdict(self) -> str:
        """What copies of some cells would bring, in words."""
        copies = self._copies
        if not self.curve:
            return "Copies of cells were not weighed, as no storage was offered for them."
        if copies is None:
            return "No copy of cells would let these queries read less than column groups do."
        best = min((one for one in self.estimates if one.layout != COPIES), key=lambda one: one.seconds)
        return (
            f"The costs are those of column groups searched by features, as shares of what they are without copies. By "
            f"all means, copies within {self.curve[-1].budget:g} times the table's cells would have these queries read "
            f"{copies.bytes:.1%} of the bytes, at {copies.seconds / max(best.seconds, 1e-9):.0%} of the cost of "
            f"{best.layout}. To load them:"
        )

    @property
    def recommends_groups(self) -> bool:
        """Whether these queries would be clearly cheaper on column groups than on any layout of rows."""
        by_name = {one.layout: one for one in self.estimates}
        groups, rows = by_name.get(FAMILY), by_name.get(self.choice.family, by_name["today"])
        return groups is not None and clearly_cheaper(groups.seconds, rows.seconds)

    @property
    def groups_verdict(self) -> str:
        """Whether the table should rather be put into column groups, and why, in words."""
        by_name = {one.layout: one for one in self.estimates}
        groups, rows = by_name.get(FAMILY), by_name.get(self.choice.family, by_name["today"])
        if self.groups is None:
            return "Column groups were not weighed, as a layout of rows was asked for."
        if groups is None:
            return (
                "Column groups are not recommended: of all divisions of the columns that were tried, none would let "
                "these queries read less than rows in one piece."
            )
        read = (
            f"{groups.bytes:.1%} of the bytes instead of {rows.bytes:.1%}, row ids included, at "
            f"{groups.seconds / max(rows.seconds, 1e-9):.0%} of the cost of {rows.layout}"
        )
        if self.recommends_groups:
            return (
                f"Column groups are recommended: in {len(self.groups)} of them, these queries would read {read}. They "
                "are a new table, which sidestep alone can read (sidestep.read). To load it:"
            )
        return (
            f"Column groups are not recommended: in {len(self.groups)} of them, these queries would read {read}, "
            f"which is no clear gain ({detail_of(groups)}, to be joined). To load them all the same:"
        )

    @property
    def verdict(self) -> str:
        """What to do, in words."""
        by_name = {one.layout: one for one in self.estimates}
        best, today = by_name.get(self.choice.family), by_name["today"]
        if best is None or best.seconds >= (1 - LEAST_GAIN) * today.seconds:
            return "No layout that was tried would make these queries cheaper: leave the table as it is."
        said = (
            f"Laid out by {self.choice.family}, they would read {best.rows:.1%} of the rows instead of "
            f"{today.rows:.1%}, at {best.seconds / max(today.seconds, 1e-9):.0%} of the cost."
        )
        simple = [one for name, one in by_name.items() if name in ("as is", "sorted", "z-order")]
        nearest = min(simple, key=lambda one: one.seconds, default=None)
        if nearest is not None and nearest.layout != self.choice.family:
            said += f" The best of the simple ones, {nearest.layout} {nearest.detail}, would read {nearest.rows:.1%}."
        return said

    def _parameters(self) -> list[tuple[str, Cell | str]]:
        choice = self.choice
        listed = "\n".join(f"{one.weight:>5,}  {one}" for one in choice.features.features) or "none"
        units = "parts of the tree" if choice.tree is not None else "slices of the table"
        return [
            ("how", choice.detail),
            *([("cuts", _cuts_text(choice))] if choice.tree is not None else []),
            ("units", choice.by or units),
            ("rows per block", f"{choice.min_size:,} or more"),
            ("order in groups", ", ".join(choice.order) or "none"),
            *([("kept apart by", ", ".join(choice.buckets))] if choice.buckets else []),
            ("features", Cell(listed, code=True)),
        ]


def detail_of(groups: Estimate) -> str:
    """How many groups a query reads, in words."""
    return groups.detail.rpartition("; ")[2].replace("for a query", "groups for a query")


def _command_text(command: str) -> str:
    return command.replace(" --", " \\\n  --").replace(" -t", " \\\n  -t")


def _cuts_text(choice: LayoutChoice) -> str:
    """How many parts a tree makes of a table, and by what."""
    assert choice.tree is not None
    counts = Counter("features" if isinstance(test, int) else column_of(test).name for test in choice.tree.tests)
    by = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    return f"{choice.tree.leaves:,} parts, by {by}"
