"""One index file: an immutable Parquet file with one row per block, and its name.

Names carry a sequence number, so that they sort from old to new; the rest is a stamp of the content, of which a random
text is a part, so that no two writers ever choose the same.

Nothing in a file is believed before it was held against a digest. The stamp is that of the file's end, the footer,
which is read whole; in it are the digests of all before it, segment by segment, so that a query which needs three
columns of thousands reads and checks no more than those.

Columns are encoded for what they hold (sorted paths share prefixes, times and sizes differ by little), which keeps an
index far below a percent of its data.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sidestep._version import __version__
from sidestep.errors import DamagedContent, UnusableIndexFile
from sidestep.predicate.types import DataType, parse_type
from sidestep.store.digest import CheckedReader, check_stamp, is_stamp, segment_digests, stamp
from sidestep.store.location import Location, list_names, locate, open_file, write_once
from sidestep.store.parquet.blocks import KEYS, LAYOUT, zone_map_columns
from sidestep.store.parquet.footer import FOOTER
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipe, Recipes

FORMAT = 2
"""In 1, names were random, and nothing told a damaged file from a whole one."""
FOLDER = "_sidestep"
_NAME = re.compile(r"_index-(\d{8})-([0-9a-f]{32})\.sidestep")
"""Parquet, but not by name: a glob such as ``table/*`` makes the index folder itself one that is read. Spark then
passes over names with a leading underscore, and others over names that do not end in ``.parquet``."""
MOST_ROWS, MOST_FOOTER, MOST_TEXT = 1 << 28, 1 << 28, 1 << 26
"""Row groups of a table, and bytes of a footer and of a text in it, beyond which a file is not even looked into: what
it claims would be allocated before it could be found to be untrue."""
_TAIL = 8
"""The bytes of Parquet after a footer: its length and a magic word."""


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
    body: CheckedReader | None
    """Holds all that is read against digests; None for a file of format 1, which has none."""
    reader: pq.ParquetFile
    """Kept open: on most file systems the file can then be read even after a compaction has deleted it."""

    @property
    def checked(self) -> bool:
        """Whether damage would be noticed."""
        return self.body is not None

    def verify(self) -> None:
        """Check all of it, where :meth:`read` checks what it reads; DamagedContent if it is not as it was written."""
        if self.body is not None:
            self.body.verify()

    def bare(self) -> IndexFile:
        """The same file as one that says nothing of columns: what is left are the layouts of blocks, if readable."""
        layout = self.layout_columns
        try:
            self.read(sorted(layout))
        except Exception:
            layout = frozenset()
        return replace(
            self,
            columns={},
            partition_columns=frozenset(),
            layout_columns=layout,
            recipes={},
            rates={},
            names=layout | frozenset(KEYS.names),
        )

    def read(self, names: Sequence[str]) -> pa.Table:
        """Some of its columns. DamagedContent, or whatever Arrow says, if they cannot be read."""
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
    digest = hashlib.sha256(root.canonical.encode()).hexdigest()[:12]
    return locate(index_dir).child(f"{root.name or 'root'}-{digest}")


def index_names(folder: Location) -> tuple[str, ...]:
    """The names of the index files in a folder, oldest first."""
    return tuple(sorted(name for name in list_names(folder) if _NAME.fullmatch(name)))


def next_number(names: Sequence[str]) -> int:
    """The number of a file that comes after all of ``names``."""
    return max(map(number_of, names), default=0) + 1


def number_of(name: str) -> int:
    """The number in a name. A file that takes the place of another has the same: what comes later still wins."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


def _stamp_in(name: str) -> str | None:
    """What a name says of the content; None if it is of format 1, or not a name in an index folder."""
    match = _NAME.fullmatch(name)
    return match[2] if match is not None and is_stamp(match[2]) else None


def write_index_file(
    folder: Location,
    number: int,
    blocks: pa.Table,
    columns: Mapping[str, DataType],
    recipes: Recipes | None = None,
    rates: Mapping[str, float] | None = None,
) -> Location:
    """Write index rows, sorted by path, into a new file with this number.

    The file remembers the recipes that its columns were made by; a column without one is as it was in older files.
    """
    order = ("path", "size", "modified", "row_group")
    blocks = blocks.sort_by([(name, "ascending") for name in order])
    known = {name: str(type) for name, type in columns.items() if f"lower:{name}" in blocks.column_names}
    made = {name: recipe.to_json() for name, recipe in (recipes or {}).items() if name in known}
    expected = {name: rate for name, rate in (rates or {}).items() if name in known}
    encodings = {name: code for name in blocks.column_names if (code := _encoding(name, blocks)) is not None}

    sink = io.BytesIO()
    writer = pq.ParquetWriter(
        sink,
        blocks.schema,
        compression="zstd",
        compression_level=9,
        use_dictionary=[
            _leaf(name, blocks) for name in blocks.column_names if name not in encodings and not _bits(name)
        ],
        column_encoding=encodings,
        write_statistics=False,
        store_schema=False,
    )
    with writer:
        writer.write_table(blocks, row_group_size=max(1, len(blocks)))
        # All that comes after the rows is the footer.
        body, digests = sink.tell(), segment_digests(sink.getvalue())
        writer.add_key_value_metadata(
            {
                "sidestep.format": str(FORMAT),
                "sidestep.writer": __version__,
                "sidestep.schema": json.dumps(known, ensure_ascii=False),
                "sidestep.recipes": json.dumps(made, ensure_ascii=False),
                "sidestep.rates": json.dumps(expected, ensure_ascii=False),
                "sidestep.digests": base64.b64encode(digests).decode(),
                "sidestep.nonce": uuid.uuid4().hex,
            }
        )
    content = memoryview(sink.getvalue())
    assert body == _body_of(content), "what was hashed must be all but the footer"
    location = folder.child(f"_index-{number:08d}-{stamp(content[body:])}.sidestep")
    write_once(location, lambda stream: stream.write(content))
    return location


def _body_of(content: memoryview) -> int:
    """The bytes of a Parquet file before its footer."""
    return len(content) - _TAIL - int.from_bytes(content[-_TAIL:-4], "little")


def _bits(name: str) -> bool:
    """Whether a column is of bits that never repeat."""
    return name.partition(":")[0] in {next(iter(kind.columns)) for kind in KINDS.values() if not kind.repeats}


def _leaf(name: str, blocks: pa.Table) -> str:
    """What Parquet calls the values of a column: lists of values have a dictionary, those of ranges do without."""
    type = blocks.schema.field(name).type
    return f"{name}.list.element" if pa.types.is_list(type) and pa.types.is_binary(type.value_type) else name


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

    FileNotFoundError if it is gone, DamagedContent if it is not what its name says, UnusableIndexFile if it cannot be
    used for another reason, whichever that is: no content of a file is the cause of any other error.
    """
    try:
        return _open(location)
    except (FileNotFoundError, DamagedContent, UnusableIndexFile):
        raise
    except Exception as error:
        # RecursionError, UnicodeDecodeError, MemoryError, whatever Arrow says: a file that is not of use.
        raise UnusableIndexFile(f"it is damaged or half written ({error!r})") from error


def _open(location: Location) -> tuple[IndexFile, pa.Table]:
    stream = open_file(location)
    size = stream.size()
    reader, body = _open_parquet(stream, size, location.name)
    metadata = reader.metadata.metadata or {}
    _check_stated(reader.metadata, metadata, checked=body is not None)
    schema = reader.schema_arrow
    for field in KEYS:
        if schema.get_field_index(field.name) < 0 or schema.field(field.name).type != field.type:
            raise UnusableIndexFile(f"its column {field.name} is missing or of another type")
    types = {str(name): parse_type(text) for name, text in _stated(metadata, "schema").items()}
    recipes = {str(name): Recipe.from_json(sizes) for name, sizes in _stated(metadata, "recipes").items()}
    rates = {str(name): float(rate) for name, rate in _stated(metadata, "rates").items()}
    file = IndexFile(
        location=location,
        columns={name: type for name, type in types.items() if _complete(name, type, schema)},
        partition_columns=frozenset(
            name.removeprefix("part:") for name in schema.names if name.startswith("part:") and _is_text(schema, name)
        ),
        layout_columns=frozenset(
            field.name
            for field in LAYOUT
            if schema.get_field_index(field.name) >= 0 and schema.field(field.name).type == field.type
        ),
        recipes=recipes,
        rates=rates,
        names=frozenset(schema.names),
        rows=reader.metadata.num_rows,
        size=size,
        body=body,
        reader=reader,
    )
    has_digests = FOOTER.name in schema.names and schema.field(FOOTER.name).type == FOOTER.type
    keys = file.read([*KEYS.names, FOOTER.name] if has_digests else KEYS.names)
    keys.validate(full=True)
    if any(keys[name].null_count for name in KEYS.names):
        raise UnusableIndexFile("it has rows without a key")
    return file, keys


def _open_parquet(stream: pa.NativeFile, size: int, name: str) -> tuple[pq.ParquetFile, CheckedReader | None]:
    """A reader of the file, and what checks all that it reads: nothing does if the file is of format 1."""
    tail = stream.read_at(_TAIL, max(0, size - _TAIL))
    footer = int.from_bytes(tail[:4], "little") + _TAIL
    expected = _stamp_in(name)
    if len(tail) < _TAIL or footer > size:
        problem = "it is damaged: it has no end"
        raise UnusableIndexFile(problem) if expected is None else DamagedContent(problem)
    if footer > MOST_FOOTER:
        raise UnusableIndexFile(f"its footer of {footer:,} bytes is larger than any that sidestep writes")
    end = stream.read_at(footer, size - footer)
    if expected is not None:
        check_stamp(expected, end)
    limits = {"thrift_string_size_limit": MOST_FOOTER, "thrift_container_size_limit": MOST_FOOTER}
    metadata = pq.ParquetFile(pa.BufferReader(end), **limits).metadata
    if expected is None:
        return pq.ParquetFile(stream, metadata=metadata), None
    digests = base64.b64decode((metadata.metadata or {}).get(b"sidestep.digests", b""), validate=True)
    body = CheckedReader(stream, size - footer, digests)
    return pq.ParquetFile(pa.PythonFile(body, "r"), metadata=metadata), body


def _check_stated(footer: pq.FileMetaData, metadata: Mapping[bytes, bytes], *, checked: bool) -> None:
    """Refuse a file of another kind or format, or one of a size that no index has."""
    version = metadata.get(b"sidestep.format", b"").decode(errors="replace")
    if version.isdecimal() and int(version[:9]) > FORMAT:
        raise UnusableIndexFile(
            f"its format {version[:9]} is newer than this sidestep, which knows {FORMAT}: upgrade sidestep"
        )
    if version != (str(FORMAT) if checked else "1"):
        raise UnusableIndexFile("it does not say that it is a sidestep index")
    if not 0 <= footer.num_rows <= MOST_ROWS:
        raise UnusableIndexFile(f"it says that it has {footer.num_rows:,} rows, which no index has")


def _stated(metadata: Mapping[bytes, bytes], what: str) -> dict[str, Any]:
    """What the file says of itself, by column."""
    text = metadata.get(f"sidestep.{what}".encode(), b"{}")
    if len(text) > MOST_TEXT:
        raise UnusableIndexFile(f"its {what} of {len(text):,} bytes is larger than any that sidestep writes")
    stated = json.loads(text)
    if not isinstance(stated, dict):
        raise UnusableIndexFile(f"its {what} is not readable")
    return stated


def _is_text(schema: pa.Schema, name: str) -> bool:
    return bool(pa.types.is_string(schema.field(name).type))


def _complete(column: str, type: DataType, schema: pa.Schema) -> bool:
    wanted = zone_map_columns(column, type)
    return bool(wanted) and all(
        schema.get_field_index(name) >= 0 and schema.field(name).type == arrow for name, arrow in wanted.items()
    )
