"""Lookups by ids that lie anywhere, in a table of events: the part ``ids`` of ``bench defaults``."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import sidestep
from bench.whole_folder import whole_folder
from sidestep.synopsis.recipe import recipe_text

LOGGED = 120
"""The lookups of the log, half of them by each kind of id."""
WORDS = [
    *("payment", "order", "shipped", "refund", "customer", "retry", "timeout", "accepted", "session", "expired"),
    *("gateway", "checkout", "invoice", "created", "failed", "pending", "amount", "address", "changed", "item"),
]
KINDS = {"key": "id", "uuid": "uuid"}


def make_ids(folder: Path, rows: int, files: int, seed: int, wide: bool = True) -> Path:
    """Events in files that each hold ids from everywhere: a number and a UUID, both unique, in no order.

    What else an event has makes it about 230 bytes wide where it is stored; a table that is not ``wide`` has the ids
    alone, and a day.
    """
    target = folder / f"ids-{rows}-{files}-{seed}{'' if wide else '-narrow'}"
    if target.is_dir():
        return target
    rng = np.random.default_rng(seed)
    keys = rng.permutation(rows).astype(np.int64) * 1009 + rng.integers(0, 1009, rows)
    ends = np.linspace(0, rows, files + 1).astype(np.int64)
    with whole_folder(target) as partial:
        for number, (begin, end) in enumerate(pairwise(ends)):
            count = int(end - begin)
            columns: dict[str, Any] = {
                "id": keys[begin:end],
                "uuid": uuids(rng, count),
                "day": pa.array(np.full(count, 19_000 + number // 4), pa.int32()).cast(pa.date32()),
            }
            if wide:
                columns |= {
                    "kind": pa.array(WORDS[:8]).take(pa.array(rng.integers(0, 8, count))),
                    "amount": np.round(rng.lognormal(3, 1, count), 2),
                    "agent": pa.array([f"agent/{each}" for each in range(500)]).take(
                        pa.array(rng.integers(0, 500, count))
                    ),
                    "trace": binary_texts(rng, count, 128),
                    "message": texts(rng, count, 24),
                }
            pq.write_table(pa.table(columns), partial / f"part-{number:05d}.parquet", row_group_size=count)
    return target


def uuids(rng: np.random.Generator, count: int) -> pa.Array:
    """Random UUIDs as texts of 36 characters."""
    hexed = binary_texts(rng, count, 32)
    cuts = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    return pc.binary_join_element_wise(*(pc.utf8_slice_codeunits(hexed, begin, end) for begin, end in cuts), "-")


def binary_texts(rng: np.random.Generator, count: int, length: int) -> pa.Array:
    """Random hexadecimal texts of a length."""
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[rng.integers(0, 16, count * length)]
    offsets = np.arange(count + 1, dtype=np.int32) * length
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def texts(rng: np.random.Generator, count: int, words: int) -> pa.Array:
    """Random words with blanks between."""
    known = pa.array(WORDS)
    return pc.binary_join_element_wise(
        *(known.take(pa.array(rng.integers(0, len(WORDS), count))) for _ in range(words)), " "
    )


def ids(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """The share of rows in the files that a lookup reads: by default, with a log of lookups, and by hand."""
    folder = make_ids(args.data, args.rows, args.files, args.seed)
    narrow = make_ids(args.data, args.rows, args.files, args.seed, wide=False)
    base = Path(tempfile.mkdtemp(prefix="sidestep-bench-"))
    log = base / "log.sql"
    log.write_text(";\n".join(lookups(folder, LOGGED // 2, args.seed + 1)) + ";\n", encoding="utf-8")
    variants: dict[str, tuple[Path, dict[str, Any]]] = {
        "default": (folder, {}),
        "with a log": (folder, {"log": str(log), "name": "events"}),
        "zone maps": (folder, {"synopses": "none"}),
        "Bloom filters by hand": (folder, {"synopses": "id=bloom,uuid=bloom,none"}),
        "ids alone, default": (narrow, {}),
        "ids alone, with a limit of 5%": (narrow, {"limit": "5%"}),
    }
    table = Table(title=f"Lookups in {args.rows:,} rows of {args.files} files: share of rows in files that are read")
    for heading in ("index", "on id", "on uuid", "by id", "by UUID", "index of the data"):
        table.add_column(heading, justify="left" if heading in ("index", "on id", "on uuid") else "right")
    found: dict[str, Any] = {}
    try:
        for name, (path, options) in variants.items():
            target = str(base / name.replace(" ", "-"))
            status = sidestep.index(spark, str(path), index_dir=target, **options)
            recipes = [
                recipe_text(status.synopses[of].recipe) if of in status.synopses else "" for of in KINDS.values()
            ]
            size = 100 * status.index_bytes / status.bytes
            rows = {kind: rows_pct(spark, path, target, of, args) for kind, of in KINDS.items()}
            found[name] = {**rows, "index_bytes_pct": size, "recipes": recipes}
            table.add_row(name, *recipes, *(f"{each:.1f}%" for each in rows.values()), f"{size:.2f}%")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    console.print(table)
    default = found["default"]
    return {
        "ids_rows_pct": {kind: round(default[kind], 2) for kind in KINDS},
        "ids": found,
        "index_bytes_pct": {name: found[name]["index_bytes_pct"] for name in ("default", "ids alone, default")},
    }


def lookups(folder: Path, count: int, seed: int) -> list[str]:
    """Lookups of ids that exist, so many by each kind."""
    return [
        f"SELECT * FROM events WHERE {of} = {value!r}"
        for of in KINDS.values()
        for value in held_values(folder, of, count, seed)
    ]


def held_values(folder: Path, column: str, count: int, seed: int) -> list[Any]:
    """Values of a column, from files and rows drawn at random."""
    rng = np.random.default_rng([seed, count])
    files = sorted(folder.glob("*.parquet"))
    chosen = [files[at] for at in rng.integers(0, len(files), min(count, 32))]
    columns = [pq.read_table(path, columns=[column]).column(0) for path in chosen]
    return [
        columns[at % len(columns)][int(rng.integers(0, len(columns[at % len(columns)])))].as_py() for at in range(count)
    ]


def rows_pct(spark: SparkSession, folder: Path, index_dir: str, column: str, args: argparse.Namespace) -> float:
    """The mean share of all rows that lie in the blocks which lookups keep, in percent."""
    shares = []
    with sidestep.enable(spark, index_dir=index_dir):
        spark.read.parquet(str(folder)).createOrReplaceTempView("events")
        for value in held_values(folder, column, args.lookups, args.seed):
            (scan,) = sidestep.explain(f"SELECT * FROM events WHERE {column} = {value!r}", spark).scans
            assert scan.rows is not None
            shares.append(scan.rows.kept / args.rows)
    return 100 * float(np.mean(shares))
