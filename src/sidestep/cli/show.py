"""What goes to stdout: rows, what was read for them, and the state of an index; as tables, or as data for JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame
from rich import box
from rich.console import Console
from rich.filesize import decimal as size_text
from rich.table import Table
from rich.text import Text

import sidestep
from sidestep.render.terminal import on_terminal

UNBOUNDED = 2_000
"""Columns where no terminal sets a limit: a table in a pipe is never folded."""


def console() -> Console:
    """Standard output: as wide as the terminal."""
    return Console(width=None if sys.stdout.isatty() else UNBOUNDED, highlight=False)


def print_json(data: Any) -> None:
    """One JSON document, in which what JSON cannot say (NaN, dates, decimals, bytes) is a string."""
    print(json.dumps(_json_ready(data), indent=2, ensure_ascii=False))


Report = (
    sidestep.LoadReport | sidestep.WriteReport | sidestep.MergeReport | sidestep.OptimizeReport | sidestep.VacuumReport
)


def print_report(report: Report, json: bool) -> None:
    """What a command that writes did, for people or programs."""
    if json:
        print_json(report.to_dict())
    else:
        console().print(Text(str(report)))


def _json_ready(value: Any) -> Any:
    """
    >>> _json_ready({"a": (1, float("nan"), None), "b": Decimal("1.50")})
    {'a': [1, 'NaN', None], 'b': '1.50'}
    """
    if isinstance(value, dict):
        return {str(key): _json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_ready(item) for item in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return shown(value)


@dataclass(frozen=True, slots=True)
class ScanRead:
    """What one scan read, and of how much; a total that is not known is None."""

    table: str
    files: int
    rows: int
    bytes: int
    total_files: int | None
    total_rows: int | None
    total_bytes: int | None


def scans_read(df: DataFrame) -> list[ScanRead]:
    """What the scans of a DataFrame that has run read, against all there is in their tables."""
    scans = sidestep.metrics(df).scans
    totals = {name: scan for scan in sidestep.explain(df).scans for name in (scan.table, scan.root)} if scans else {}
    reads = []
    for scan in scans:
        of = totals.get(scan.table)
        name = of.table if of is not None else scan.table
        # The index knows the rows of indexed files alone: with others there, the total is not known.
        amounts = (None,) * 3 if of is None else (of.files, None if of.unknown_files else of.rows, of.bytes)
        all_files, all_rows, all_bytes = (None if amount is None else amount.total for amount in amounts)
        reads.append(ScanRead(name, scan.files, scan.rows, scan.bytes, all_files, all_rows, all_bytes))
    return reads


def reads_table(reads: Sequence[ScanRead]) -> Table:
    """One line per scan, and their sum if there are several."""
    table = _table("scan", "files read", "rows read", "bytes read", right=3)
    for read in reads:
        table.add_row(Text(read.table), *_amounts(read))
    if len(reads) > 1:
        table.add_section()
        table.add_row("all scans", *_amounts(_sum(reads)))
    return table


def _amounts(read: ScanRead) -> Iterator[str]:
    yield _share(f"{read.files:,}", None if read.total_files is None else f"{read.total_files:,}")
    yield _share(f"{read.rows:,}", None if read.total_rows is None else f"{read.total_rows:,}")
    yield _share(size_text(read.bytes), None if read.total_bytes is None else size_text(read.total_bytes))


def _share(part: str, whole: str | None) -> str:
    return part if whole is None else f"{part} of {whole}"


def _sum(reads: Sequence[ScanRead]) -> ScanRead:
    def known(totals: list[int | None]) -> int | None:
        return None if None in totals else sum(total or 0 for total in totals)

    return ScanRead(
        "all scans",
        sum(read.files for read in reads),
        sum(read.rows for read in reads),
        sum(read.bytes for read in reads),
        known([read.total_files for read in reads]),
        known([read.total_rows for read in reads]),
        known([read.total_bytes for read in reads]),
    )


def print_rows(out: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """The rows as a table; where that is wider than the terminal, each row as a list of its columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = any(isinstance(row[number], int | float | Decimal) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*map(_cell, row))
    if out.measure(table, options=out.options.update(width=UNBOUNDED)).maximum <= out.width:
        out.print(table)
        return
    for number, row in enumerate(rows, 1):
        record = Table.grid(padding=(0, 2))
        for name, value in zip(columns, row, strict=True):
            record.add_row(Text(name, "dim"), _cell(value))
        out.print(Text(f"row {number}", "bold"))
        out.print(record)


def _cell(value: Any) -> Text:
    return Text("NULL", "dim") if value is None else Text(shown(value))


def shown(value: Any) -> str:
    r"""A value as text, with what could drive a terminal made visible.

    >>> shown(True), shown(b"\x01\xff"), shown("a\x1b[2J"), shown(float("-inf"))
    ('true', "X'01FF'", 'a\\x1b[2J', '-Infinity')
    """
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return f"X'{value.hex().upper()}'"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case float() if math.isnan(value):
            return "NaN"
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in str(value))


def status_data(status: Any) -> dict[str, Any]:
    """An index status as data."""
    apart = ("columns", "column_files", "synopses", "tried")
    names = [field for field in status.__dataclass_fields__ if field not in apart]
    columns = {name: {"type": str(kind), "files": status.column_files[name]} for name, kind in status.columns.items()}
    for name, found in status.synopses.items():
        columns[name]["synopses"] = {
            "kinds": {
                each.kind: {"size": each.size, "blocks": each.blocks, "bytes": each.bytes} for each in found.held
            },
            "recipe": found.recipe.to_json(),
            "bytes": found.bytes,
            "false_positives": found.false_positives,
            "kept": found.kept,
            "zone_map_kept": found.zone_map_kept,
            "first_kept": found.first_kept,
            "outgrown": found.outgrown,
        }
    plain = {name: getattr(status, name) for name in names}
    plain["tried"] = [asdict(each) for each in status.tried]
    plain["groups"] = [asdict(each) for each in status.groups]
    plain["drift"] = None if status.drift is None else status.drift.to_dict()
    return {**plain, "complete": status.complete, "advice": status.advice, "columns": columns}


def print_status(out: Console, status: sidestep.IndexStatus, *, columns: bool = True) -> None:
    """An index status for people; without ``columns``, no more than its summary."""
    out.print(status if columns else on_terminal(status.summary()))


def _table(*names: str, right: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number >= len(names) - right else "left", overflow="fold")
    return table
