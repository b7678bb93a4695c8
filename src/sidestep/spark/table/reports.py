"""What a load or another write did, for people and programs: how much of what, and how long each stage took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sidestep.render import counted
from sidestep.spark.organize.featurize import LeftOut
from sidestep.spark.organize.organize import Organized
from sidestep.spark.progress import Stage, stage_seconds
from sidestep.spark.table.state import TableState
from sidestep.store.parquet.writer import WrittenFile
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.store.snapshot import Snapshot
from sidestep.synopsis.recipe import Recipe, Recipes, partitions_text, recipe_text


@dataclass(frozen=True)
class LoadReport:
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
            table=state.root.uri,
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

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

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
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        lines = [
            f"{self.table}, version {self.version}",
            f"  {counted(self.rows, 'row')} in {counted(self.blocks, 'block')}, {counted(self.units, 'unit')}, "
            f"{counted(self.files, 'file')}; {counted(self.vectors, 'distinct vector')}",
            f"  {self.bytes_after / 1e6:,.1f} MB, before {self.bytes_before / 1e6:,.1f} MB",
            f"  {counted(len(self.features), 'feature')} used, {len(self.left_out)} left out",
        ]
        made = ", ".join(f"{name} {_recipe_text(recipe)}" for name, recipe in self.synopses.items())
        lines += [f"  synopses beside zone maps: {made or 'none'}", *(f"  {note}" for note in self.notes)]
        width = max((len(stage.name) for stage in self.stages), default=0)
        lines += [f"  {stage.name:<{width}} {stage.seconds:8.1f} s" for stage in self.stages]
        return "\n".join([*lines, f"  {'in all':<{width}} {self.seconds:8.1f} s"])


def _recipe_text(recipe: Recipe) -> str:
    apart = (f"{recipe_text(group.recipe)} in {partitions_text(group.partitions)}" for group in recipe.groups)
    return "; ".join([recipe_text(recipe), *apart])


@dataclass(frozen=True, slots=True)
class WriteReport:
    """One append, delete or update."""

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
        removed: int = 0,
        looked_at: int = 0,
    ) -> WriteReport:
        return cls(
            operation=operation,
            root=state.root.uri,
            version=version,
            rows=rows,
            files_written=len(written),
            files_removed=removed,
            files_looked_at=looked_at,
            files=len(state.snapshot.files),
            blocks_written=sum(file.blocks for file in written),
            rows_written=sum(file.rows for file in written),
            bytes_written=sum(file.size for file in written),
            stages=stages,
        )

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self) | {"stages": stage_seconds(self.stages), "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        verb = {"append": "added", "delete": "deleted", "update": "changed"}[self.operation]
        text = f"{self.root}: {self.rows:,} rows {verb} in {self.seconds:.1f} s, version {self.version}."
        if self.operation != "append":
            text += (
                f" Of {self.files:,} files {self.files_looked_at:,} were looked at and {self.files_removed:,} "
                "rewritten."
            )
        wrote = f" {self.files_written:,} files written: {self.rows_written:,} rows in {self.blocks_written:,} blocks"
        return f"{text}{wrote}, {self.bytes_written:,} bytes."
