"""Queries from the page: explained, run with and without sidestep, and compared on several copies of a table.

Each set of tables has two sessions of its own, one in which sidestep is enabled and one in which it is not, so that no
query changes what another one means.
"""

from __future__ import annotations

import base64
import datetime
import itertools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

import sidestep
from sidestep import Explanation, ScanBlocks, SidestepError

MOST_SESSIONS, MOST_EXPLANATIONS = 8, 40
RUNS, ENOUGH_SECONDS = 2, 8.0
"""How often a query is run each way; once, if that takes so long already."""
MOST_CODES = 250
"""Kinds of reasons that a map of blocks tells apart."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a query from the page may go."""

    rows: int = 1_000
    """Rows that are sent."""
    bytes: int = 8 << 20
    """What these may take."""
    seconds: float = 120.0
    """How long each run may take."""


@dataclass(eq=False)
class _Pair:
    """The sessions for one set of tables."""

    on: SparkSession
    off: SparkSession
    lock: threading.Lock = field(default_factory=threading.Lock)


class Queries:
    """Explains and runs queries on tables that are given by name and path."""

    def __init__(self, spark: SparkSession, limits: Limits) -> None:
        self._spark = spark
        self.limits = limits
        self._pairs: OrderedDict[tuple[tuple[str, str], ...], _Pair] = OrderedDict()
        self._explanations: OrderedDict[int, Explanation] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def explain(self, sql: str, tables: Mapping[str, str]) -> dict[str, Any]:
        """What a query would skip, block by block, without running it."""
        with self._sessions(tables) as pair:
            return self._remember(sidestep.explain(sidestep.query(pair.on, sql, tables=tables)))

    def run(self, sql: str, tables: Mapping[str, str], *, both: bool = True) -> dict[str, Any]:
        """Run a query with sidestep and without: what each read, the first rows, and the explanation.

        Its first rows come first, which also warms Spark up; then each is run in turns, and the quicker run counts.
        """
        with self._sessions(tables) as pair:
            on = sidestep.query(pair.on, sql, tables=tables)
            rows = self._first_rows(on)
            explained = sidestep.explain(on)
            sessions = {"on": pair.on}
            # A table in column groups can be read only with sidestep.
            if both and not any(scan.groups for scan in explained.scans):
                sessions["off"] = pair.off
            runs: dict[str, list[tuple[dict[str, Any], DataFrame]]] = {name: [] for name in sessions}
            for _ in range(RUNS):
                for name, session in sessions.items():
                    df = sidestep.query(session, sql, tables=tables)
                    runs[name].append((self._measure(df), df))
                if sum(run["seconds"] for made in runs.values() for run, _ in made) > ENOUGH_SECONDS:
                    break
            best = {name: min(made, key=lambda one: one[0]["seconds"]) for name, made in runs.items()}
            return {
                **rows,
                "runs": {name: measured for name, (measured, _) in best.items()},
                "explanation": self._remember(sidestep.explain(best["on"][1])),
            }

    def explanation(self, id: int) -> Explanation | None:
        """An explanation that was given before, if it is still remembered."""
        with self._lock:
            return self._explanations.get(id)

    def close(self) -> None:
        with self._lock:
            pairs, self._pairs = list(self._pairs.values()), OrderedDict()
        for pair in pairs:
            sidestep.disable(pair.on)

    @contextmanager
    def _sessions(self, tables: Mapping[str, str]) -> Iterator[_Pair]:
        key = tuple(sorted(tables.items()))
        with self._lock:
            pair = self._pairs.pop(key, None)
            if pair is None:
                pair = _Pair(self._spark.newSession(), self._spark.newSession())
                sidestep.enable(pair.on)
            self._pairs[key] = pair
            gone = [self._pairs.popitem(last=False)[1] for _ in range(len(self._pairs) - MOST_SESSIONS)]
        for old in gone:
            with old.lock:
                sidestep.disable(old.on)
        with pair.lock:
            yield pair

    def _measure(self, df: DataFrame) -> dict[str, Any]:
        with self._in_time(df):
            began = time.perf_counter()
            metrics = sidestep.metrics(df)
            seconds = time.perf_counter() - began
        scans = [{name: value for name, value in asdict(scan).items() if name != "paths"} for scan in metrics.scans]
        return {
            "seconds": round(seconds, 4),
            "files": metrics.files,
            "rows": metrics.rows,
            "bytes": metrics.bytes,
            "scans": scans,
        }

    def _first_rows(self, df: DataFrame) -> dict[str, Any]:
        limits = self.limits
        with self._in_time(df):
            found = df.limit(limits.rows + 1).toArrow()
        if found.nbytes > limits.bytes:
            raise SidestepError(
                f"The first rows take {found.nbytes / 1e6:,.1f} MB, and at most {limits.bytes / 1e6:,.1f} MB are sent: "
                "ask for fewer columns or shorter values."
            )
        rows = found.slice(0, limits.rows)
        return {
            "columns": [{"name": one.name, "type": one.dataType.simpleString()} for one in df.schema.fields],
            "rows": [list(row) for row in zip(*(map(_plain, one.to_pylist()) for one in rows.columns), strict=True)],
            "more": found.num_rows > limits.rows,
        }

    @contextmanager
    def _in_time(self, df: DataFrame) -> Iterator[None]:
        """Ends what runs in the block when its time is up."""
        context, tag, late = (
            self._spark.sparkContext,
            f"sidestep-console-query-{next(self._numbers)}",
            threading.Event(),
        )

        def end() -> None:
            late.set()
            context.cancelJobsWithTag(tag)

        timer = threading.Timer(self.limits.seconds, end)
        timer.daemon = True
        context.addJobTag(tag)
        timer.start()
        try:
            yield
        except Exception as problem:
            if late.is_set():
                raise SidestepError(
                    f"The query was ended after {self.limits.seconds:g} s, the console's limit; "
                    "sidestep serve --seconds sets another."
                ) from problem
            raise
        finally:
            timer.cancel()
            context.removeJobTag(tag)

    def _remember(self, explanation: Explanation) -> dict[str, Any]:
        with self._lock:
            id = next(self._numbers)
            self._explanations[id] = explanation
            while len(self._explanations) > MOST_EXPLANATIONS:
                self._explanations.popitem(last=False)
        return {"id": id, **explanation_data(explanation)}


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain data, with a map of the blocks of each scan."""
    data = explanation.to_dict()
    for scan, label, blocks in zip(data["scans"], explanation.labels, explanation.blocks, strict=True):
        scan["label"] = label
        scan["blocks"] = None if blocks is None else blocks_data(blocks)
    return {**data, "graph": explanation.join_graph}


def blocks_data(blocks: ScanBlocks) -> dict[str, Any]:
    """What became of each block, as one byte each: the number of its kind, 0 for those that are read."""
    kinds = ["read", *dict.fromkeys(reason.kind for reason in blocks.reasons)][: MOST_CODES + 1]
    of_reason = np.array([kinds.index(reason.kind) for reason in blocks.reasons] + [0], np.uint8)
    codes = np.where(blocks.read, np.uint8(0), of_reason[blocks.reason])
    counts = np.bincount(codes, minlength=len(kinds))
    rows = np.bincount(codes, blocks.rows, len(kinds))
    sizes = np.bincount(codes, blocks.bytes, len(kinds))
    return {
        "count": len(blocks),
        "files": len(np.unique(blocks.file_of_block)),
        "kinds": [
            {"kind": kind, "blocks": int(counts[at]), "rows": int(rows[at]), "bytes": int(sizes[at])}
            for at, kind in enumerate(kinds)
        ],
        "codes": base64.b64encode(codes.tobytes()).decode("ascii"),
        "file_starts": np.flatnonzero(np.diff(blocks.file_of_block, prepend=-1)).tolist(),
    }


def block_data(blocks: ScanBlocks, number: int) -> dict[str, Any]:
    """One block, with the proof that it need not be read."""
    proof = blocks.proof(number)
    at = int(blocks.reason[number])
    reason = blocks.reasons[at] if at >= 0 else None
    return {
        "block": number,
        "file": blocks.files[int(blocks.file_of_block[number])].as_py(),
        "row_group": int(blocks.row_group[number]),
        "rows": int(blocks.rows[number]),
        "bytes": int(blocks.bytes[number]),
        "read": bool(blocks.read[number]),
        "kind": "read" if blocks.read[number] or reason is None else reason.kind,
        "condition": "" if reason is None else reason.condition,
        "synopsis": "" if reason is None else reason.synopsis,
        "proof": proof,
    }


def table_data(table: Any) -> dict[str, Any]:
    """An Arrow table as columns and rows of plain values."""
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [list(row) for row in zip(*(map(_plain, one.to_pylist()) for one in table.columns), strict=True)],
    }


def _plain(value: Any) -> Any:
    """A value that JSON can hold, and that reads as Spark would print it.

    >>> _plain(float("nan")), _plain(Decimal("1.50")), _plain(datetime.date(2024, 1, 31)), _plain(b"\\xff")
    ('NaN', '1.50', '2024-01-31', 'ff')
    """
    convert: Callable[[Any], Any] | None = _PLAIN.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value)


_PLAIN: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: None,
    bool: bool,
    str: lambda value: value.encode("utf-8", "replace").decode(),
    int: lambda value: value if abs(value) < 2**53 else str(value),
    float: lambda value: value if math.isfinite(value) else "NaN" if math.isnan(value) else str(value),
    bytes: bytes.hex,
    Decimal: lambda value: f"{value:f}" if value.is_finite() else str(value),
    datetime.date: datetime.date.isoformat,
    datetime.datetime: lambda value: value.isoformat(sep=" "),
}
