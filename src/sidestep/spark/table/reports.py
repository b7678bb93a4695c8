"""What a load or another write did, for people and programs: how much of what, and how long each stage took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sidestep.render import counted, size_text
from sidestep.render.document import Cell, Details, Facts, Grid, Paragraph, Part, numbers
from sidestep.render.report import Report
from sidestep.spark.organize.featurize import LeftOut
from sidestep.spark.organize.organize import Organized
from sidestep.spark.progress import Stage, stage_seconds, stages_table
from sidestep.spark.table.column_groups import LoadedGroup
from sidestep.spark.table.group_table import PartRows
from sidestep.spark.table.state import TableState
from sidestep.store.location import Location
from sidestep.store.parquet.writer import WrittenFile
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.store.snapshot import DataFile, Snapshot
from sidestep.synopsis.build import BuildPlan
from sidestep.synopsis.recipe import Recipe, Recipes, partitions_text, recipe_text
from sidestep.workload.query import FailureGroup, failures_table


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One column group of a table that was just loaded."""

    columns: tuple[str, ...]
    arrangement: str
    """How its rows are arranged, in words."""
    features: int
    rows: int
    blocks: int
    files: int
    bytes: int
    copies: str = ""
    """Which rows it has, if these are not all."""

    def __str__(self) -> str:
        names = ", ".join(self.columns[:8]) + (f" and {len(self.columns) - 8:,} more" if len(self.columns) > 8 else "")
        return (
            f"{names}: {counted(self.rows, 'row')} in {counted(self.blocks, 'block')}, {counted(self.files, 'file')}, "
            f"{self.bytes / 1e6:,.1f} MB; {self.arrangement}" + (f"; {self.copies}" if self.copies else "")
        )


def _copies(rows: PartRows | None, first: int) -> str:
    """Which rows a group has; others are called by their places in the report, which the group ``first`` begins."""
    if rows is None:
        return ""
    if rows.rest_of is not None:
        return f"the rows that group {rows.rest_of - first} lacks"
    return f"the rows of {counted(len(rows.checked.features), 'feature')}"


@dataclass(frozen=True)
class LoadReport(Report):
    """The outcome of a load. ``str`` is a breakdown for people, ``to_dict`` plain data."""

    table: str
    version: int
    """The version of the Delta table that has the new layout."""
    rows: int
    units: int
    blocks: int
    files: int
    vectors: int
    """Distinct pairs of unit and feature vector."""
    bytes_before: int
    bytes_after: int
    spec: LayoutSpec
    features: tuple[str, ...]
    """The features that were used, in the order of their bits."""
    left_out: tuple[LeftOut, ...]
    stages: tuple[Stage, ...]
    synopses: Recipes
    """What columns got beside zone maps."""
    notes: tuple[str, ...]
    """What is to be said of synopses that were just chosen."""
    groups: tuple[GroupReport, ...] = ()
    """The column groups, if the table is in such."""
    not_understood: tuple[FailureGroup, ...] = ()
    """The statements of the log that could not be used, by reason, with what to pass."""

    @classmethod
    def of(
        cls,
        state: TableState,
        version: int,
        source: Snapshot,
        organized: Organized,
        stages: Sequence[Stage],
        notes: Sequence[str],
    ) -> LoadReport:
        return cls(
            table=state.table.uri,
            version=version,
            rows=organized.rows,
            units=organized.units,
            blocks=organized.blocks,
            files=len(organized.files),
            vectors=organized.vectors,
            bytes_before=source.bytes,
            bytes_after=sum(file.size for file in organized.files),
            spec=state.spec,
            features=tuple(map(str, state.checked.features.features)),
            left_out=state.checked.left_out,
            stages=tuple(stages),
            synopses={name: recipe for name, recipe in state.target.making.recipes.items() if recipe},
            notes=tuple(notes),
        )

    @classmethod
    def of_groups(
        cls,
        table: Location,
        version: int,
        source: Snapshot,
        made: Sequence[LoadedGroup],
        making: BuildPlan,
        stages: Sequence[Stage],
        notes: Sequence[str],
    ) -> LoadReport:
        """The outcome of a load into column groups; rows are those of the table, all else is of all groups together."""
        organized = [loaded.organized for loaded in made]
        groups = [
            GroupReport(
                loaded.plan.columns,
                loaded.plan.detail,
                len(loaded.plan.checked.features),
                loaded.organized.rows,
                loaded.organized.blocks,
                len(loaded.organized.files),
                sum(file.size for file in loaded.organized.files),
                _copies(loaded.plan.rows, made[0].number),
            )
            for loaded in made
        ]
        rows = {loaded.number: loaded.organized.rows for loaded in made}
        total = max(
            rows[each.number] + (0 if partner is None else rows[partner])
            for each in made
            for partner in (None if each.plan.rows is None else each.plan.rows.rest_of,)
            if each.plan.rows is None or partner is not None
        )
        if any(loaded.plan.rows is not None for loaded in made):
            cells = sum(group.rows * len(group.columns) for group in groups)
            width = len({name for group in groups for name in group.columns})
            notes = [*notes, f"Stored are {cells / max(1, total * width):.3f} times the table's cells."]
        features = (str(one) for loaded in made for one in loaded.plan.checked.features.features)
        left_out = (one for loaded in made for one in loaded.plan.checked.left_out)
        return cls(
            table=table.uri,
            version=version,
            rows=total,
            units=max(one.units for one in organized),
            blocks=sum(one.blocks for one in organized),
            files=sum(len(one.files) for one in organized),
            vectors=sum(one.vectors for one in organized),
            bytes_before=source.bytes,
            bytes_after=sum(group.bytes for group in groups),
            spec=replace(LayoutSpec(), min_size=made[0].plan.spec.min_size, unit_rows=made[0].plan.spec.unit_rows),
            features=tuple(dict.fromkeys(features)),
            left_out=tuple({one.feature: one for one in left_out}.values()),
            stages=tuple(stages),
            synopses={name: recipe for name, recipe in making.recipes.items() if recipe},
            notes=tuple(notes),
            groups=tuple(groups),
        )

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def _document(self) -> Iterator[Part]:
        made = ", ".join(f"{name} {_recipe_text(recipe)}" for name, recipe in self.synopses.items())
        yield Facts(
            [
                ("table", f"{self.table}, version {self.version}"),
                ("rows", f"{self.rows:,}"),
                ("blocks", f"{self.blocks:,}, in {counted(self.units, 'unit')} and {counted(self.files, 'file')}"),
                ("distinct vectors", f"{self.vectors:,}"),
                (
                    "size",
                    Cell(
                        f"{size_text(self.bytes_after)}, before {size_text(self.bytes_before)}",
                        share=self.bytes_after / max(1, self.bytes_after, self.bytes_before),
                    ),
                ),
                *([("within blocks", self._page_order)] if self._page_order else []),
                ("synopses", f"{made or 'none'}, beside zone maps"),
            ]
        )
        if self.groups:
            yield self._groups_table()
        yield from (Paragraph(note) for note in self.notes)
        if self.not_understood:
            yield Details("What was not understood of the log", (failures_table(self.not_understood),))
        if self.features:
            rows: list[list[Cell | str]] = [
                [f"{at:,}", Cell(text, code=True)] for at, text in enumerate(self.features, 1)
            ]
            also = f", {len(self.left_out):,} left out" if self.left_out else ""
            grid = Grid((*numbers("#"), "feature"), rows)
            yield Details(f"{counted(len(rows), 'feature')} used{also}", (grid,), in_text=False)
        yield stages_table(self.stages)

    @property
    def _page_order(self) -> str:
        """How the rows of a block are sorted, in words; empty if that is open."""
        if not self.spec.page_order:
            return ""
        columns = ", ".join(self.spec.page_order)
        return f"sorted by {columns}: {self.spec.page_share:.0%} of a block for the log's queries"

    def _groups_table(self) -> Grid:
        rows: list[list[Cell | str]] = [
            [
                f"{at}",
                ", ".join(group.columns),
                f"{group.rows:,}",
                f"{group.blocks:,}",
                f"{group.files:,}",
                Cell(size_text(group.bytes), share=group.bytes / max(1, self.bytes_after)),
                "; ".join(filter(None, (group.arrangement, group.copies))),
            ]
            for at, group in enumerate(self.groups)
        ]
        heads = (*numbers("group"), "columns", *numbers("rows", "blocks", "files", "size"), "arranged")
        return Grid(heads, rows, f"Column groups, read by sidestep.read(spark, {self.table!r})")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return fields | {
            "spec": asdict(self.spec),
            "features": list(self.features),
            "left_out": [{"feature": str(one.feature), "reason": one.reason} for one in self.left_out],
            "stages": stage_seconds(self.stages),
            "synopses": {name: recipe.to_json() for name, recipe in self.synopses.items()},
            "notes": list(self.notes),
            "groups": [asdict(group) | {"columns": list(group.columns)} for group in self.groups],
            "not_understood": [asdict(group) for group in self.not_understood],
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.table}, version {self.version}",
            f"  {counted(self.rows, 'row')} in {counted(self.blocks, 'block')}, {counted(self.units, 'unit')}, "
            f"{counted(self.files, 'file')}; {counted(self.vectors, 'distinct vector')}",
            f"  {self.bytes_after / 1e6:,.1f} MB, before {self.bytes_before / 1e6:,.1f} MB",
            f"  {counted(len(self.features), 'feature')} used, {len(self.left_out)} left out",
            *([f"  rows within blocks {self._page_order}"] if self._page_order else []),
        ]
        if self.groups:
            lines.append(
                f"  in {counted(len(self.groups), 'column group')}, read by sidestep.read(spark, {self.table!r}):"
            )
            lines += [f"    {number}. {group}" for number, group in enumerate(self.groups)]
        made = ", ".join(f"{name} {_recipe_text(recipe)}" for name, recipe in self.synopses.items())
        lines += [f"  synopses beside zone maps: {made or 'none'}", *(f"  {note}" for note in self.notes)]
        width = max((len(stage.name) for stage in self.stages), default=0)
        lines += [f"  {stage.name:<{width}} {stage.seconds:8.1f} s" for stage in self.stages]
        return "\n".join([*lines, f"  {'in all':<{width}} {self.seconds:8.1f} s"])


def _recipe_text(recipe: Recipe) -> str:
    apart = (f"{recipe_text(group.recipe)} in {partitions_text(group.partitions)}" for group in recipe.groups)
    return "; ".join([recipe_text(recipe), *apart])


@dataclass(frozen=True, slots=True)
class WriteReport(Report):
    """One append, delete or update, and what it cost."""

    operation: str
    root: str
    version: int | None
    """The version that holds the result; the one that was there before if nothing was to do."""
    rows: int
    """Rows that were added, deleted or changed."""
    files_written: int
    files_removed: int
    files_looked_at: int
    """Files that the index could not rule out, and that were read for rows that match."""
    files: int
    """Files that the table had before."""
    bytes: int
    """What those took."""
    bytes_looked_at: int
    bytes_removed: int
    blocks_written: int
    rows_written: int
    bytes_written: int
    stages: tuple[Stage, ...]

    @classmethod
    def of(
        cls,
        operation: str,
        state: TableState,
        version: int | None,
        written: Sequence[WrittenFile],
        stages: tuple[Stage, ...],
        *,
        rows: int,
        removed: Sequence[DataFile] = (),
        looked_at: Sequence[DataFile] = (),
    ) -> WriteReport:
        return cls(
            operation=operation,
            root=state.table.uri,
            version=version,
            rows=rows,
            files_written=len(written),
            files_removed=len(removed),
            files_looked_at=len(looked_at),
            files=len(state.snapshot.files),
            bytes=state.snapshot.bytes,
            bytes_looked_at=sum(file.size for file in looked_at),
            bytes_removed=sum(file.size for file in removed),
            blocks_written=sum(file.blocks for file in written),
            rows_written=sum(file.rows for file in written),
            bytes_written=sum(file.size for file in written),
            stages=stages,
        )

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def rewritten_per_row(self) -> tuple[float, float]:
        """Rows and bytes written for each row that was deleted or changed: what it costs that files are replaced."""
        return (self.rows_written / self.rows, self.bytes_written / self.rows) if self.rows else (0.0, 0.0)

    def _document(self) -> Iterator[Part]:
        verb = {"append": "added", "delete": "deleted", "update": "changed"}[self.operation]
        yield Facts(
            [
                ("table", f"{self.root}, version {self.version}"),
                (f"rows {verb}", f"{self.rows:,}"),
                *(() if self.operation == "append" else _looked_at(self, self.files_removed)),
                *_written(self),
            ]
        )
        if self.operation != "append" and (cost := _cost_text(self.rows, self.rows_written, self.bytes_written)):
            yield Paragraph(cost.strip(), "dim")
        yield stages_table(self.stages)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        rows, size = self.rewritten_per_row
        cost = {"rows_rewritten_per_row": round(rows, 3), "bytes_rewritten_per_row": round(size, 1)}
        cost = cost if self.operation != "append" else {}
        return asdict(self) | cost | {"stages": stage_seconds(self.stages), "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        verb = {"append": "added", "delete": "deleted", "update": "changed"}[self.operation]
        text = f"{self.root}: {self.rows:,} rows {verb} in {self.seconds:.1f} s, version {self.version}."
        if self.operation != "append":
            text += (
                f" Of {self.files:,} files {self.files_looked_at:,} were looked at and {self.files_removed:,} "
                "rewritten."
            )
        wrote = f" {self.files_written:,} files written: {self.rows_written:,} rows in {self.blocks_written:,} blocks"
        text = f"{text}{wrote}, {self.bytes_written:,} bytes."
        return (
            text if self.operation == "append" else text + _cost_text(self.rows, self.rows_written, self.bytes_written)
        )


def _cost_text(changed: int, rows: int, size: int) -> str:
    """What it costs that whole files are replaced.

    >>> _cost_text(10, 1_000, 50_000)
    ' For each of these rows, 100.0 rows and 5.0 kB were rewritten.'
    """
    if not changed or not rows:
        return ""
    return f" For each of these rows, {rows / changed:,.1f} rows and {size_text(size // changed)} were rewritten."


@dataclass(frozen=True)
class MergeReport(Report):
    """One merge: what became of the rows, and how much of the table was read and written for it."""

    root: str
    version: int | None
    """The version that holds the result; the one that was there before if nothing was to do."""
    source_rows: int
    rows_updated: int
    rows_deleted: int
    rows_inserted: int
    files: int
    """Files that the table had before."""
    bytes: int
    """What those took."""
    files_looked_at: int
    """Files that could not be ruled out, and that were read for rows that are concerned."""
    bytes_looked_at: int
    files_rewritten: int
    """Those of them that did hold rows to change, and were read again to be replaced."""
    bytes_rewritten: int
    files_written: int
    blocks_written: int
    rows_written: int
    bytes_written: int
    reasons: tuple[str, ...]
    """What decided on the files that were looked at."""
    stages: tuple[Stage, ...]

    @classmethod
    def of(
        cls,
        state: TableState,
        version: int | None,
        removed: Sequence[DataFile],
        written: Sequence[WrittenFile],
        stages: tuple[Stage, ...],
        *,
        source_rows: int,
        updated: int,
        deleted: int,
        inserted: int,
        looked_at: Sequence[DataFile],
        reasons: tuple[str, ...],
    ) -> MergeReport:
        return cls(
            root=state.table.uri,
            version=version,
            source_rows=source_rows,
            rows_updated=updated,
            rows_deleted=deleted,
            rows_inserted=inserted,
            files=len(state.snapshot.files),
            bytes=state.snapshot.bytes,
            files_looked_at=len(looked_at),
            bytes_looked_at=sum(file.size for file in looked_at),
            files_rewritten=len(removed),
            bytes_rewritten=sum(file.size for file in removed),
            files_written=len(written),
            blocks_written=sum(file.blocks for file in written),
            rows_written=sum(file.rows for file in written),
            bytes_written=sum(file.size for file in written),
            reasons=reasons,
            stages=stages,
        )

    @property
    def rows(self) -> int:
        """Rows that were updated, deleted or inserted."""
        return self.rows_updated + self.rows_deleted + self.rows_inserted

    @property
    def bytes_read(self) -> int:
        """Sizes of the table's files that were read: once to find rows, again to replace a file."""
        return self.bytes_looked_at + self.bytes_rewritten

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def rewritten_per_row(self) -> tuple[float, float]:
        """Rows and bytes of replaced files written for each row that was updated or deleted."""
        changed = self.rows_updated + self.rows_deleted
        if not changed or not self.rows_written:
            return (0.0, 0.0)
        old = self.rows_written - self.rows_inserted
        return (old / changed, self.bytes_written * old / self.rows_written / changed)

    def as_write(self, operation: str) -> WriteReport:
        """The same as a delete or an update that took its condition from a source."""
        return WriteReport(
            operation=operation,
            root=self.root,
            version=self.version,
            rows=self.rows,
            files_written=self.files_written,
            files_removed=self.files_rewritten,
            files_looked_at=self.files_looked_at,
            files=self.files,
            bytes=self.bytes,
            bytes_looked_at=self.bytes_looked_at,
            bytes_removed=self.bytes_rewritten,
            blocks_written=self.blocks_written,
            rows_written=self.rows_written,
            bytes_written=self.bytes_written,
            stages=self.stages,
        )

    def _document(self) -> Iterator[Part]:
        yield Facts(
            [
                ("table", f"{self.root}, version {self.version}"),
                ("rows of the source", f"{self.source_rows:,}"),
                ("rows updated", f"{self.rows_updated:,}"),
                ("rows deleted", f"{self.rows_deleted:,}"),
                ("rows inserted", f"{self.rows_inserted:,}"),
                *_looked_at(self, self.files_rewritten),
                *_written(self),
            ]
        )
        yield from (Paragraph(f"Looked at by {reason}.", "dim") for reason in self.reasons)
        yield stages_table(self.stages)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        rows, size = self.rewritten_per_row
        return asdict(self) | {
            "rows": self.rows,
            "bytes_read": self.bytes_read,
            "rows_rewritten_per_row": round(rows, 3),
            "bytes_rewritten_per_row": round(size, 1),
            "reasons": list(self.reasons),
            "stages": stage_seconds(self.stages),
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        share = self.bytes_looked_at / self.bytes if self.bytes else 0.0
        again = self.bytes_rewritten / self.bytes if self.bytes else 0.0
        rows, size = self.rewritten_per_row
        lines = [
            f"{self.root}: {self.rows_updated:,} rows updated, {self.rows_deleted:,} deleted, {self.rows_inserted:,} "
            f"inserted from {counted(self.source_rows, 'row')} in {self.seconds:.1f} s, version {self.version}.",
            f"  Of {counted(self.files, 'file')} {self.files_looked_at:,} were looked at ({share:.1%} of the bytes) "
            f"and {self.files_rewritten:,} rewritten ({again:.1%}).",
            f"  {counted(self.files_written, 'file')} written: {self.rows_written:,} rows in "
            f"{counted(self.blocks_written, 'block')}, {self.bytes_written:,} bytes.",
        ]
        if rows:
            lines.append(
                f"  For each row updated or deleted, {rows:,.1f} rows and {size_text(int(size))} were rewritten."
            )
        return "\n".join([*lines, *(f"  Looked at by {reason}." for reason in self.reasons)])


def _looked_at(report: WriteReport | MergeReport, rewritten: int) -> Iterator[tuple[str, Cell | str]]:
    """How much of a table was read for a change, and how much replaced."""
    looked = Cell(
        f"{report.files_looked_at:,} of {report.files:,}, {size_text(report.bytes_looked_at)}",
        share=report.bytes_looked_at / max(1, report.bytes),
    )
    yield "files looked at", looked
    yield "files rewritten", Cell(f"{rewritten:,} of {report.files:,}", share=rewritten / max(1, report.files))


def _written(report: WriteReport | MergeReport) -> Iterator[tuple[str, Cell | str]]:
    yield (
        "written",
        f"{counted(report.files_written, 'file')}: {counted(report.rows_written, 'row')} in "
        f"{counted(report.blocks_written, 'block')}, {size_text(report.bytes_written)}",
    )
