"""The wire between Python and the JVM: every message that crosses it, packed and unpacked here and in ``Wire.java``.

py4j carries numbers and texts, a call at a time. A call takes a millisecond, and a reply over 8,192 bytes waits 40 ms
for an acknowledgement, so that calls are few, and what is long goes in pieces (in a call's arguments it need not).
Output ids, the numbers of a leaf's columns joined by commas, name one occurrence of a table in a plan: its *key*.

Spark gives new ids whenever it plans a query. So that equal plans have equal texts, the rule sends negative numbers in
the place of ids, and ``@0``, ``@1`` … in that of keys (:mod:`sidestep.spark.rule.answers` says what for). In questions
and answers about such a plan these stand for the keys, as one of the first two fields of a line;
``PlanWriter.withKeys`` puts the keys back.

**What values look like.** Bits are bytes, the first bit lowest, as base64. Block ids are 4-byte integers, little-
endian, as base64. Files are two texts: paths joined by NUL (relative to a root; an empty one is the root itself), and
size and modification time (milliseconds) of each in turn, 8 bytes each, big-endian, as base64.

**The messages.**

- *plan*, Java → Python: ``Planner.apply("verb\\ntoken\\ntext")``. The verb is ``plan TAB N TAB name=value TAB …``: N is
  a number by which the plan can be asked about; then come the session's settings below ``spark.sidestep.``. The text is
  the plan's JSON (docs/formats.md). The reply is the answers; empty if nothing is to be skipped, or after an error.
- *piece*, Java → Python: the same with the verb ``more``: the beginning of a text that is too long for one message. The
  reply is the token that the next piece is sent with; the first has none.
- *complete*, Python → Java: ``rule.complete(N, question)`` while a plan is being answered, or ``rule.completeIn(plan,
  question)``: a line per scan, ``key TAB index id TAB …``. The reply has for each line a ``1`` if every file of the
  scan has a valid entry in one of these indexes, else a ``0``; it is empty if the plan is no longer known.
- *answers*, Python → Java: the reply to a plan: for each scan with something to skip a line ``key TAB (index id TAB
  skipped files TAB kept blocks TAB row groups TAB own files TAB own blocks TAB own row groups) TAB …``, the files as
  bits over the index's entries, and at most one bound. ``own`` is the same by the query's own predicates alone, or
  ``=`` in place of the files if that is all.
- *path*, Python → Java: a line of the answers: ``path TAB key TAB group,group,…``: the column groups that a scan is
  read from, those first that are asked first for a column.
- *rows*, Python → Java: a line of the answers: ``rows TAB key TAB rows,rows,…``: about how many rows are to be read of
  each column group, by its number; -1 where that is not known.
- *rests*, Python → Java: a line of the answers: ``rests TAB key TAB index id TAB …``: a scan, as in *complete*, that
  bounds and whatever is not ``own`` rest on.
- *select*, Python → Java: a line of the answers: ``select TAB key TAB copy TAB index id TAB join TAB input TAB
  conjuncts TAB pays TAB grid TAB subqueries TAB by TAB question``: what chooses files of a scan when the query runs; of
  a scan that Spark has copied, which of the copies, in the order in which they are written. By the rows of
  an input (0 or 1) of the join of that number, compared in these parts of its condition; or, where the join is -1, by
  the subqueries of these numbers. ``pays`` is 1 if the input may be run once more for its keys, ``grid`` is empty or
  ``low:high:bits``, ``by`` is for people, and the question is Python's own.
- *denormalized*, Python → Java: a line of the answers: ``denormalized TAB table TAB operator TAB note TAB columns never
  NULL TAB (scan TAB keys TAB columns) TAB …``: a part of the plan that a table put by ``rule.putRelation(table, plan)``
  stands for. Operators and scans are numbered in the order in which they are written; ``keys`` are those of
  ``rule.putTable(keys, root, paths, numbers, reading)``, which a scan's files must be, all of them and no others, read
  by the settings that ``inspector.reading(session)`` has given; columns are joined by NUL, each of a scan's followed by
  that of the table. Where there is such a line there is no other, and the plan that comes of it is asked about anew.
- *choose*, Java → Python: ``Planner.apply("choose\\ntoken\\nquestion\\nvalues")`` when the query runs, in pieces like a
  plan. The values are JSON, one of each source: a literal; ``["values", literal, …]``; ``["ranges", type, ends]``,
  whole numbers as 8-byte integers, little-endian, as base64; ``["summary", [least, greatest], …, [cell, …]]``. The
  reply is ``files TAB kept blocks TAB row groups``, the files to be read as bits, and ``TAB column TAB ranges`` if
  there is a bound; empty if everything is to be read.
- *kept blocks*, Python → Java: part of an answer: empty, or ``files:ranges:bytes``: which files have block ids (as
  bits), low and high ends of ranges of ids, and the bytes to be read.
- *row groups*, Python → Java: part of an answer: empty, or ``runs:bytes``: the row groups to be read of files that are
  read in part, as 4-byte integers (``RowGroups.runs``), and what the others of these files take on disk.
- *bound*, Python → Java: a line of the answers: ``bound TAB key TAB column TAB low:high,low:high``. Either end may be
  missing; both are whole numbers and belong to the range.
- *keys*, Python → Java: ``rule.putKeys(index id, root, paths, numbers, footers)``: the files that an index has entries
  for, in the order of its entries, and the digests of their footers, 16 bytes each, zeros for one that has none, as
  base64 (empty if none has); ``rule.dropKeys(index id)`` when it is out of use.
- *snapshot*, Python → Java: ``inspector.snapshot(session, identity, root, schema, partition columns, paths, numbers,
  values)``: a relation over these files; of each, a text or null per partition column.
- *coverage*, Java → Python: the reply of ``inspector.coverage(rule, scan, "index id,…")``, in lines: files and bytes
  that are listed, that partition filters leave, that have no entry, that are read (and a ``1`` if blocks are told by
  their ids); then for each index the entries listed, those that partition filters leave, and those of files that are
  read in part, as bits.
- *scan*, Java → Python: ``inspector.metrics(scan)``: lines ``name=value``; ``inspector.filesRead(scan)``: paths joined
  by NUL.
- *statements*, Python → Java: ``analyzer.submit(text)``: statements joined by NUL.
- *meanings*, Java → Python: ``analyzer.take(length)``: a line per statement, in order: ``+`` and the plan's JSON, or
  ``-`` and a JSON array of Spark's error condition, what it is about, and its message.
- *function*, Java → Python: ``PythonFunctions.apply("digest")``, or ``"digest\\nbase64"`` if the reply was ``?``: who
  is the Python function with these pickled bytes? ``=`` and its identity, ``!`` and why it has none; ``~`` in place of
  ``=``, and ``-`` in place of ``!``, if that may change.
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sidestep.prune.analysis import RuntimeSelector
from sidestep.prune.conditions import BlockFilter, RowGroups
from sidestep.prune.plan.algebra import Sides
from sidestep.store.parquet.footer import Digests
from sidestep.synopsis import Mask

MOST_UNFINISHED = 256
"""Plans of which the end has not come yet; where a connection breaks, it never does."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A plan that Java asks about."""

    number: str
    """What :func:`pack_coverage` questions name it by."""
    settings: str
    """The session's own, as ``name=value`` between tabs."""
    text: str
    """Its JSON."""


@dataclass(frozen=True, slots=True)
class ChoiceRequest:
    """Values that have become known, for what chooses by them."""

    question: str
    """As it was sent with the answers to the plan."""
    values: str
    """JSON, one for each source."""


class Requests:
    """Puts plans together that come in pieces, from whichever threads."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {}
        self._tokens = itertools.count(1)
        self._lock = threading.Lock()

    def receive(self, message: str) -> PlanRequest | ChoiceRequest | str:
        """The plan, or the choice, that ends with this message; before the end, the token to reply with.

        >>> requests = Requests()
        >>> token = requests.receive("more\\n\\nthe beginning")
        >>> requests.receive(f"plan\\t7\\tinduced=false\\n{token}\\n and the end")
        PlanRequest(number='7', settings='induced=false', text='the beginning and the end')
        """
        verb, token, text = message.split("\n", 2)
        with self._lock:
            if verb == "more":
                token = token or str(next(self._tokens))
                self._pieces.setdefault(token, []).append(text)
                while len(self._pieces) > MOST_UNFINISHED:
                    del self._pieces[next(iter(self._pieces))]
                return token
            pieces = self._pieces.pop(token, [])
        if verb == "choose":
            question, values = "".join([*pieces, text]).split("\n", 1)
            return ChoiceRequest(question, values)
        _, number, settings = verb.split("\t", 2)
        return PlanRequest(number, settings, "".join([*pieces, text]))


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What is skipped of a scan by one index."""

    index: str
    """The id under which Java knows its keys."""
    files: Mask
    """The files that need not be read, by entry."""
    blocks: BlockFilter | None = None
    """The blocks to be read of the others, where these have ids."""
    groups: RowGroups | None = None
    """The row groups to be read of them, where they have not."""
    own: OwnAnswer | None = None
    """What of that joined tables have no part in; None if that is all."""


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """What is skipped of a scan for the query's own predicates alone."""

    files: Mask
    blocks: BlockFilter | None = None
    groups: RowGroups | None = None


@dataclass(frozen=True, slots=True)
class SelectorAnswer:
    """What chooses files of a scan when the query runs."""

    index: str
    selector: RuntimeSelector
    question: str


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """What is skipped of a scan."""

    key: str
    skipped: tuple[IndexAnswer, ...]
    bound: str = ""
    """``column TAB low:high,…``, or nothing."""
    selectors: tuple[SelectorAnswer, ...] = ()
    path: tuple[int, ...] = ()
    """The column groups that it is read from; none where they are as they come."""
    rows: Mapping[int, int] = field(default_factory=dict)
    """Of a table in column groups, about how many rows are to be read of each, by its number."""


def pack_answers(answers: Iterable[ScanAnswer], witnesses: Mapping[str, Sequence[str]] | None = None) -> str:
    """The reply to a plan; ``witnesses`` are the scans that what is not ``own`` rests on, with their indexes.

    >>> pack_answers([ScanAnswer("1,2", (IndexAnswer("7", np.array([True, False, True])),), "day\\t3:9")], {"3": ["8"]})
    'rests\\t3\\t8\\n1,2\\t7\\tBQ==\\t\\t\\t=\\t\\t\\nbound\\t1,2\\tday\\t3:9'
    """
    lines = ["\t".join(["rests", key, *indexes]) for key, indexes in (witnesses or {}).items()]
    for answer in answers:
        parts = [answer.key]
        for one in answer.skipped:
            parts += [one.index, pack_bits(one.files), pack_blocks(one.blocks), pack_groups(one.groups)]
            own = one.own
            parts += (
                ["=", "", ""]
                if own is None
                else [pack_bits(own.files), pack_blocks(own.blocks), pack_groups(own.groups)]
            )
        if len(parts) > 1:
            lines.append("\t".join(parts))
        # A column's name may hold a tab or a line's end: Java would then take a part of it for the name of another.
        if answer.bound.count("\t") == 1 and "\n" not in answer.bound:
            lines.append(f"bound\t{answer.key}\t{answer.bound}")
        lines += [_pack_selector(answer.key, each) for each in answer.selectors]
        if answer.path:
            lines.append(f"path\t{answer.key}\t{','.join(map(str, answer.path))}")
        if answer.rows and (answer.path or len(parts) > 1):
            numbers = (min(answer.rows.get(group, -1), 2**31 - 1) for group in range(max(answer.rows) + 1))
            lines.append(f"rows\t{answer.key}\t{','.join(map(str, numbers))}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class DenormalizedScan:
    """A scan of a part of a plan that a denormalized table stands for."""

    place: int
    keys: str
    """The id of the files that it must read."""
    columns: Mapping[str, str]
    """What holds each of its columns."""


def pack_denormalized(
    table: str, place: int, note: str, never_null: Iterable[str], scans: Iterable[DenormalizedScan]
) -> str:
    """A part of a plan that a denormalized table stands for; empty if a name cannot go over the wire.

    >>> pack_denormalized("d1", 0, "for people", ["k"], [DenormalizedScan(2, "d1/a", {"x": "a_x"})])
    'denormalized\\td1\\t0\\tfor people\\tk\\t2\\td1/a\\tx\\x00a_x'
    >>> pack_denormalized("d1", 0, "", [], [DenormalizedScan(2, "d1/a", {"odd\\tname": "x"})])
    ''
    """
    parts = ["denormalized", table, str(place), " ".join(note.split()), "\0".join(sorted(never_null))]
    for scan in scans:
        parts += [str(scan.place), scan.keys, "\0".join(name for pair in scan.columns.items() for name in pair)]
    line = "\t".join(parts)
    return line if line.count("\t") == len(parts) - 1 and "\n" not in line else ""


def _pack_selector(key: str, answer: SelectorAnswer) -> str:
    one = answer.selector
    parts = (
        *("select", key, one.scan.copy, answer.index, one.join, 0 if one.outer is Sides.LEFT else 1),
        *(",".join(map(str, one.conjuncts)), int(one.pays), ":".join(map(str, one.grid or ()))),
        *(",".join(map(str, one.late)), " ".join(one.by.split()), answer.question),
    )
    return "\t".join(map(str, parts))


def pack_choice(files: Mask, blocks: BlockFilter | None, groups: RowGroups | None, bound: str) -> str:
    """The reply to values that have become known."""
    parts = [pack_bits(files), pack_blocks(blocks), pack_groups(groups)]
    return "\t".join([*parts, bound] if bound.count("\t") == 1 and "\n" not in bound else parts)


def unpack_numbers(text: str) -> npt.NDArray[np.int64]:
    """Whole numbers as Java sends them."""
    return np.frombuffer(base64.b64decode(text), "<i8")


def pack_coverage(scans: Mapping[str, Iterable[str]]) -> str:
    """The question which of some scans, by key, are covered whole by indexes, given by their ids."""
    return "\n".join("\t".join([key, *indexes]) for key, indexes in scans.items())


def unpack_coverage(scans: Collection[str], reply: str) -> frozenset[str]:
    """The keys of the scans that are covered whole; none if Java knows the plan no longer.

    >>> sorted(unpack_coverage(["1,2", "3", "4"], "101")), unpack_coverage(["1,2"], "")
    (['1,2', '4'], frozenset())
    """
    return frozenset(key for key, said in zip(scans, reply, strict=False) if said == "1")


def pack_files(paths: Sequence[str], sizes: Any, times: Any) -> tuple[str, str]:
    """Files as two texts: their paths, their numbers."""
    numbers = np.stack([np.asarray(sizes, np.int64), np.asarray(times, np.int64)], axis=1).astype(">i8")
    return "\0".join(paths), _text(numbers)


def pack_footers(digests: Digests) -> str:
    """Digests of footers.

    >>> pack_footers(np.zeros((2, 2), np.uint64)), len(base64.b64decode(pack_footers(np.ones((2, 2), np.uint64))))
    ('', 32)
    """
    return _text(digests) if digests.any() else ""


def pack_numbers(numbers: Sequence[int]) -> str:
    """Whole numbers of 4 bytes."""
    return _text(np.asarray(numbers, "<i4"))


def pack_bits(mask: Mask) -> str:
    """A mask as bits."""
    return _text(np.packbits(mask, bitorder="little"))


def unpack_bits(text: str, count: int) -> Mask:
    """The first ``count`` bits; those that were not sent are not set.

    >>> unpack_bits(pack_bits(np.array([True, False, True])), 4).tolist()
    [True, False, True, False]
    """
    sent = np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), bitorder="little")[:count]
    # Padded here: unpackbits(count=…) of nothing at all gives what happened to be in memory.
    bits = np.zeros(count, dtype=np.bool_)
    bits[: len(sent)] = sent
    return bits


def pack_blocks(blocks: BlockFilter | None) -> str:
    """Which blocks to read of the files that have ids."""
    if blocks is None:
        return ""
    return ":".join([pack_bits(blocks.files), _text(blocks.ranges.astype("<i4")), str(blocks.bytes)])


def pack_groups(groups: RowGroups | None) -> str:
    """Which row groups to read of files that are read in part."""
    return "" if groups is None else f"{_text(groups.runs.astype('<i4'))}:{groups.spared}"


@dataclass(frozen=True, slots=True)
class FileCount:
    """Some files of a scan."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ScanCoverage:
    """How the files of a scan relate to the indexes that cover it."""

    listed: FileCount
    selected: FileCount
    """Those that partition filters leave."""
    unknown: FileCount
    """Those listed that have no entry."""
    read: FileCount
    """Those left after skipping."""
    by_block: bool
    """Whether blocks are told by their ids."""
    entries: tuple[tuple[Mask, Mask, Mask], ...]
    """Of each index, the entries of the files listed, of those selected, and of those that are read in part."""


def unpack_scan_coverage(text: str, sizes: Sequence[int]) -> ScanCoverage:
    """What ``inspector.coverage`` says of a scan, given how many entries each of the indexes has.

    >>> found = unpack_scan_coverage("3 30\\n2 20\\n1 10\\n1 9 1\\nAw==\\nAg==\\nAA==", [2])
    >>> found.read, found.by_block, [mask.tolist() for mask in found.entries[0]]
    (FileCount(files=1, bytes=9), True, [[True, True], [False, True], [False, False]])
    """
    lines = text.split("\n")
    listed, selected, unknown, read = ([int(number) for number in line.split()] for line in lines[:4])
    bits = iter(lines[4:])
    entries = tuple(
        (unpack_bits(next(bits), size), unpack_bits(next(bits), size), unpack_bits(next(bits), size)) for size in sizes
    )
    return ScanCoverage(
        FileCount(*listed), FileCount(*selected), FileCount(*unknown), FileCount(*read[:2]), bool(read[2]), entries
    )


def pack_statements(statements: Iterable[str]) -> str:
    """Statements for the analyzer; NUL in one can only be a mistake, and becomes one that the parser names."""
    return "\0".join(sql.replace("\0", "\ufffd") for sql in statements)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why Spark has no plan of a statement."""

    condition: str
    """Spark's name for the error."""
    about: str
    """The table, column or function it is about."""
    message: str


def unpack_meaning(line: str) -> str | Refusal:
    """The JSON of a statement's plan, or why there is none."""
    return line[1:] if line.startswith("+") else Refusal(*json.loads(line[1:]))


def _text(numbers: npt.NDArray[Any]) -> str:
    return base64.b64encode(numbers.tobytes()).decode("ascii")
