"""What a table consists of at one moment: its data files, as Spark would list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sidestep.store.location import Location
from sidestep.synopsis.zones.partition_values import Partition

Format = Literal["parquet", "delta", "iceberg"]
"""How a table's files are found: by listing a folder, from a Delta log, or from Iceberg's metadata."""

__all__ = ["DataFile", "Field", "Format", "Partition", "Snapshot"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a table. Path, size and modification time together are its key in the index."""

    path: str
    """Relative to the table's root, as the name is on disk."""
    size: int
    modified: int
    """Milliseconds: the file's own for a Parquet folder, the log's for a Delta table."""
    partition: Partition = ()

    @property
    def key(self) -> tuple[str, int, int]:
        return (self.path, self.size, self.modified)


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table whose files have columns by id (Iceberg), whatever they call them.

    An index has it under a key made of name and id. A name may go to another column, or a column get another name: the
    id is what counts, and the name is there for people.
    """

    id: int
    name: str
    type: str
    """In Spark's words."""
    null_if_absent: bool = True
    """Whether a file without it has NULL in all rows."""
    in_files: bool = True
    """Whether its values are those of the files; those of an identity partition are what the metadata says."""

    @property
    def key(self) -> str:
        return f"{self.name}#{self.id}"


def field_id(key: str) -> int | None:
    """The id in the key of a column; None if it is a plain name.

    >>> field_id("a#b#12"), field_id("a")
    (12, None)
    """
    digits = key.rpartition("#")[2] if "#" in key else ""
    return int(digits) if digits.isascii() and digits.isdigit() else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a table at one moment.

    ``whole`` says that these are all the files under the root: it is False for a single file of a folder and for an
    older version of a Delta table, and then an index entry for another file is not a stale one.
    """

    root: Location
    format: Format
    version: int | None
    """The version of a Delta table, or the snapshot of an Iceberg table."""
    files: tuple[DataFile, ...]
    partition_columns: tuple[str, ...] = ()
    schema: str | None = None
    """The schema in Spark's JSON, where the table itself states one (Delta)."""
    whole: bool = True
    table_id: str | None = None
    """What a Delta log calls the table: one that is dropped and made again at the same place is another table."""
    stored_names: tuple[tuple[str, str], ...] = ()
    """Columns that the files have under another name than the table (Delta's column mapping): its name, and theirs.

    Everything else here calls columns as the files do: these names never change, nor are they used again.
    """
    field_ids: tuple[tuple[str, int], ...] = ()
    """Where columns are found by their ids in the files (mode ``id`` of column mapping): each, by name in the files."""

    fields: tuple[Field, ...] = ()
    """The columns of a table whose files have them by id."""

    @property
    def fixed(self) -> bool:
        """Whether a log names the files, none of which is ever written twice under one name."""
        return self.format != "parquet"

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)
