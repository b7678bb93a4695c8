"""What a write did, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sidestep.spark.progress import Stage, stage_seconds
from sidestep.spark.tablestate import TableState
from sidestep.store.parquet.writer import WrittenFile


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
