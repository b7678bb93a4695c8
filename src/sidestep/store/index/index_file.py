"""One index file: an immutable Parquet file with one row per block, and its name.

Names carry a sequence number, so that they sort from old to new; the rest is random, so that no two writers ever
choose the same. Columns are encoded for what they hold (sorted paths share prefixes, times and sizes differ by little),
which keeps an index far below a percent of its data.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sidestep._version import __version__
from sidestep.errors import SidestepError, UnusableIndexFile
from sidestep.predicate.types import DataType, parse_type
from sidestep.store.location import Location, list_names, locate, open_file, write_once
from sidestep.store.parquet.blocks import KEYS, LAYOUT, zone_map_columns
from sidestep.store.parquet.footer import FOOTER
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipe, Recipes

FORMAT = 1
FOLDER = "_sidestep"
_NAME = re.compile(r"_index-(\d{8})-[0-9a-f]{32}\.sidestep")
"""Parquet, but not by name: a glob such as ``table/*`` makes the index folder itself one that is read. Spark then
passes over names with a leading underscore, and others over names that do not end in ``.parquet``."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An open index file: where it is, what it knows, and how to read some of its columns."""

    location: Location
    columns: Mapping[str, DataType]
    """The table columns that it has zone maps of."""
    partition_columns: frozenset[str]
    layout_columns: frozenset[str]
    """Which of :data:`~sidestep.store.parquet.blocks.LAYOUT` it has."""
    recipes: Recipes
    """What its run gave columns beside their zone maps: of these columns, all that it has."""
    rates: Mapping[str, float]
    """The rates of false positives that were expected of columns when it was written."""
    names: frozenset[str]
    """All that its rows have."""
    rows: int
    size: int
    reader: pq.ParquetFile
    """Kept open: on most file systems the file can then be read even after a compaction has deleted it."""

    def read(self, names: Sequence[str]) -> pa.Table:
        return self.reader.read(columns=list(names), use_threads=False)


def index_folder(root: Location, index_dir: str | os.PathLike[str] | Location | None = None) -> Location:
    """Where the index of a table lives: in the table itself, or in a folder of its own under ``index_dir``.

    >>> index_folder(locate("/data/orders")).path
    '/data/orders/_sidestep'
    >>> index_folder(locate("/data/orders"), "/indexes").path
    '/indexes/orders-d502c6c93f7d'
    """
    if index_dir is None:
        return root.child(FOLDER)
    digest = hashlib.sha256(root.uri.encode()).hexdigest()[:12]
    return locate(index_dir).child(f"{root.name or 'root'}-{digest}")


def index_names(folder: Location) -> tuple[str, ...]:
    """The names of the index files in a folder, oldest first."""
    return tuple(sorted(name for name in list_names(folder) if _NAME.fullmatch(name)))


def next_name(names: Sequence[str]) -> str:
    """A fresh name that sorts after all of ``names``."""
    return _name(max((_sequence(name) for name in names), default=0) + 1)


def name_after(name: str) -> str:
    """A fresh name for a file that takes the place of ``name`` and all before it: what comes later still wins."""
    return _name(_sequence(name))


def _name(sequence: int) -> str:
    return f"_index-{sequence:08d}-{uuid.uuid4().hex}.sidestep"


def _sequence(name: str) -> int:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


def write_index_file(
    location: Location,
    blocks: pa.Table,
    columns: Mapping[str, DataType],
    recipes: Recipes | None = None,
    rates: Mapping[str, float] | None = None,
) -> None:
    """Write index rows, sorted by path, under a name that does not exist yet.

    The file remembers the recipes that its columns were made by; a column without one is as it was in older files.
    """
    order = ("path", "size", "modified", "row_group")
    blocks = blocks.sort_by([(name, "ascending") for name in order])
    known = {name: str(type) for name, type in columns.items() if f"lower:{name}" in blocks.column_names}
    made = {name: recipe.to_json() for name, recipe in (recipes or {}).items() if name in known}
    expected = {name: rate for name, rate in (rates or {}).items() if name in known}
    encodings = {name: code for name in blocks.column_names if (code := _encoding(name, blocks)) is not None}

    def write(stream: Any) -> None:
        writer = pq.ParquetWriter(
            stream,
            blocks.schema,
            compression="zstd",
            compression_level=9,
            use_dictionary=[name for name in blocks.column_names if name not in encodings and not _bits(name)],
            column_encoding=encodings,
            write_statistics=False,
            store_schema=False,
        )
        with writer:
            writer.write_table(blocks, row_group_size=max(1, len(blocks)))
            writer.add_key_value_metadata(
                {
                    "sidestep.format": str(FORMAT),
                    "sidestep.writer": __version__,
                    "sidestep.schema": json.dumps(known, ensure_ascii=False),
                    "sidestep.recipes": json.dumps(made, ensure_ascii=False),
                    "sidestep.rates": json.dumps(expected, ensure_ascii=False),
                }
            )

    write_once(location, write)


def _bits(name: str) -> bool:
    """Whether a column is of bits that never repeat."""
    return name.partition(":")[0] in {next(iter(kind.columns)) for kind in KINDS.values() if not kind.repeats}


def _encoding(name: str, blocks: pa.Table) -> str | None:
    type = blocks.schema.field(name).type
    if name == "path" or (pa.types.is_binary(type) and name.startswith(("lower:", "upper:"))):
        return "DELTA_BYTE_ARRAY"
    if not (pa.types.is_integer(type) or pa.types.is_floating(type)) or name.startswith("nulls:"):
        return None
    # A dictionary for what repeats, as constants and flags do; otherwise what suits numbers that are near each other.
    if len(blocks) > 16 and len(np.unique(blocks[name].drop_null().to_numpy())) * 4 < len(blocks):
        return None
    return "BYTE_STREAM_SPLIT" if pa.types.is_floating(type) else "DELTA_BINARY_PACKED"


def open_index_file(location: Location) -> tuple[IndexFile, pa.Table]:
    """Open and check an index file, and read its key columns.

    FileNotFoundError if it is gone, UnusableIndexFile if it cannot be used.
    """
    try:
        stream = open_file(location)
        size = stream.size()
        reader = pq.ParquetFile(stream)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnusableIndexFile(f"it is damaged or half written ({error})") from error
    metadata = reader.metadata.metadata or {}
    version = metadata.get(b"sidestep.format", b"").decode(errors="replace")
    if version != str(FORMAT):
        if version.isdigit() and int(version) > FORMAT:
            raise UnusableIndexFile(f"its format {version} is newer than this sidestep, which knows {FORMAT}: upgrade")
        raise UnusableIndexFile("it does not say that it is a sidestep index")
    schema = reader.schema_arrow
    for field in KEYS:
        if schema.get_field_index(field.name) < 0 or schema.field(field.name).type != field.type:
            raise UnusableIndexFile(f"its column {field.name} is missing or of another type")
    try:
        stated = json.loads(metadata.get(b"sidestep.schema", b"{}"))
        types = {str(name): parse_type(text) for name, text in stated.items()}
        made = json.loads(metadata.get(b"sidestep.recipes", b"{}"))
        recipes = {str(name): Recipe.from_json(sizes) for name, sizes in made.items()}
        expected = json.loads(metadata.get(b"sidestep.rates", b"{}"))
        rates = {str(name): float(rate) for name, rate in expected.items()}
    except (ValueError, AttributeError, TypeError, SidestepError) as error:
        raise UnusableIndexFile(f"its schema is not readable ({error})") from error
    columns = {name: type for name, type in types.items() if _complete(name, type, schema)}
    parts = frozenset(name.removeprefix("part:") for name in schema.names if name.startswith("part:"))
    layout = frozenset(
        field.name
        for field in LAYOUT
        if schema.get_field_index(field.name) >= 0 and schema.field(field.name).type == field.type
    )
    file = IndexFile(
        location,
        columns,
        parts,
        layout,
        recipes,
        rates,
        frozenset(schema.names),
        reader.metadata.num_rows,
        size,
        reader,
    )
    try:
        has_digests = FOOTER.name in schema.names and schema.field(FOOTER.name).type == FOOTER.type
        keys = file.read([*KEYS.names, FOOTER.name] if has_digests else KEYS.names)
    except (pa.ArrowException, OSError) as error:
        raise UnusableIndexFile(f"it is damaged ({error})") from error
    if any(keys[name].null_count for name in KEYS.names):
        raise UnusableIndexFile("it has rows without a key")
    return file, keys


def _complete(column: str, type: DataType, schema: pa.Schema) -> bool:
    wanted = zone_map_columns(column, type)
    return bool(wanted) and all(
        schema.get_field_index(name) >= 0 and schema.field(name).type == arrow for name, arrow in wanted.items()
    )
