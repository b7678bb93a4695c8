"""What an explanation says: per scan, how much there is, how much is kept, and what skipped the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from sidestep.prune.analysis import StageReport
from sidestep.prune.dips.induced import Induced
from sidestep.prune.explain.drawing import dip_rows, graph_data, svg
from sidestep.prune.explain.scan_blocks import ScanBlocks, block_map, join_blocks
from sidestep.render import counted, size_text
from sidestep.render.document import Cell, Drawing, Grid, Paragraph, Part, numbers
from sidestep.render.report import Report

DIPS = "What joins induce"
DIP_FIELDS = ("from", "to", "says", "when", "blocks removed")
MOST_MAPS = 8
"""Scans of a query whose blocks are drawn."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """So much in all, so much of it kept."""

    total: int
    kept: int

    def to_dict(self) -> dict[str, int]:
        return {"total": self.total, "kept": self.kept}


@dataclass(frozen=True, slots=True)
class Reason:
    """What one condition skipped thanks to one synopsis, or why it skipped nothing."""

    condition: str
    synopsis: str | None
    files: int = 0
    """Files skipped that no earlier reason skips."""
    row_groups: int | None = 0
    bytes: int = 0
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "condition": self.condition,
            "synopsis": self.synopsis,
            "files": self.files,
            "row_groups": self.row_groups,
            "bytes": self.bytes,
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True)
class ScanReport:
    """One scan of a query. What is not known (of a table that is not covered, say) is None."""

    table: str
    root: str
    reason: str | None = None
    """Why sidestep does nothing for this scan, if so."""
    files: Amounts | None = None
    bytes: Amounts | None = None
    row_groups: Amounts | None = None
    """Row groups of indexed files; kept are those that are read, unless Spark's own filters pass over more."""
    rows: Amounts | None = None
    """Rows of indexed files."""
    unknown_files: int = 0
    """Files without a valid index entry: always read."""
    by_block: bool = False
    """Whether row groups are passed over inside the files that are read: a laid-out table, read through its log."""
    in_part: bool = False
    """The same for a table whose row groups carry no ids: Spark is given pieces of its files."""
    files_without_ids: int = 0
    """Files to be read whose row groups carry no block ids; as long as there are any, all row groups are read."""
    chosen: tuple[tuple[str, str], ...] = ()
    """What chooses among the files that are left when the query runs: the condition, and where its values come from."""
    reasons: tuple[Reason, ...] = ()
    groups: tuple[GroupReport, ...] = ()
    """Of a table in column groups, those that the query reads; all else in the report is of these together."""
    groups_in_all: int = 0
    """How many groups such a table has."""
    blocks: ScanBlocks | None = field(default=None, compare=False, repr=False)
    """Its blocks one by one, as far as they are indexed: read, or what rules each out."""

    def with_reasons(self, *reasons: Reason) -> ScanReport:
        return replace(self, reasons=(*self.reasons, *reasons))

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "root": self.root,
            "covered": self.reason is None,
            "reason": self.reason,
            "files": _amounts(self.files),
            "row_groups": _amounts(self.row_groups),
            "rows": _amounts(self.rows),
            "bytes": _amounts(self.bytes),
            "unknown_files": self.unknown_files,
            "by_block": self.by_block,
            "in_part": self.in_part,
            "files_without_ids": self.files_without_ids,
            "chosen": [{"condition": condition, "source": source} for condition, source in self.chosen],
            "reasons": [reason.to_dict() for reason in self.reasons],
            "groups": [group.to_dict() for group in self.groups],
            "groups_in_all": self.groups_in_all,
        }


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What a query reads of one column group of a table."""

    number: int
    columns: tuple[str, ...]
    """All that it holds."""
    read: ScanReport
    copies: str = ""
    """Which rows of the table it has, if these are not all; or the group that it is read with."""

    @property
    def described(self) -> str:
        """Its columns, and what else tells it from others."""
        return ", ".join(self.columns) + (f"; {self.copies}" if self.copies else "")

    def to_dict(self) -> dict[str, Any]:
        amounts = ("files", "row_groups", "rows", "bytes")
        read = {name: _amounts(getattr(self.read, name)) for name in amounts}
        return {"number": self.number, "columns": list(self.columns), "copies": self.copies, **read}


def put_together(groups: Sequence[GroupReport], in_all: int) -> ScanReport:
    """The report on a table in column groups, of what is read of each group."""
    reads = [group.read for group in groups]
    return replace(
        reads[0],
        files=_sum([each.files for each in reads]),
        bytes=_sum([each.bytes for each in reads]),
        row_groups=_sum([each.row_groups for each in reads]),
        rows=_sum([each.rows for each in reads]),
        unknown_files=sum(each.unknown_files for each in reads),
        files_without_ids=sum(each.files_without_ids for each in reads),
        by_block=any(each.by_block for each in reads),
        reasons=tuple(_merge_reasons([reason for each in reads for reason in each.reasons])),
        groups=tuple(groups),
        groups_in_all=in_all,
        blocks=join_blocks([each.blocks for each in reads]),
    )


def _sum(amounts: Sequence[Amounts | None]) -> Amounts | None:
    known = [each for each in amounts if each is not None]
    if len(known) < len(amounts):
        return None
    return Amounts(sum(each.total for each in known), sum(each.kept for each in known))


def _merge_reasons(reasons: Iterable[Reason]) -> Iterator[Reason]:
    """One reason for each condition and synopsis: that a group knows nothing of it is no news if others do."""
    merged: dict[tuple[str, str | None], Reason] = {}
    for reason in reasons:
        key = (reason.condition, reason.synopsis)
        before = merged.get(key, replace(reason, files=0, row_groups=0, bytes=0))
        merged[key] = replace(
            before,
            files=before.files + reason.files,
            row_groups=(before.row_groups or 0) + (reason.row_groups or 0),
            bytes=before.bytes + reason.bytes,
        )
    used = {reason.condition for reason in merged.values() if reason.synopsis is not None}
    return (reason for reason in merged.values() if reason.synopsis is not None or reason.condition not in used)


@dataclass(frozen=True, slots=True)
class Explanation(Report):
    """What sidestep does for a query. Prints as a table, shows as HTML in a notebook, and is data by ``to_dict``."""

    _title: ClassVar[str] = "What a query reads, and why"

    scans: tuple[ScanReport, ...]
    notes: tuple[str, ...] = ()
    problem: str = ""
    """What went wrong last in the rule of this session, if anything did."""
    induced: Induced | None = None
    """The join graph and the predicates that joins induced."""
    stages: tuple[StageReport, ...] = ()
    """The stages of pruning in their order: how long each took, whether it stopped early or was switched off."""

    @property
    def blocks(self) -> tuple[ScanBlocks | None, ...]:
        """For each scan its blocks, in file order: read, or what rules each out; None where nothing is indexed."""
        return tuple(scan.blocks for scan in self.scans)

    @property
    def labels(self) -> tuple[str, ...]:
        """For each scan a name that tells it from the others: a table that is read twice is numbered."""
        return tuple(label for label, _ in self._labels())

    @property
    def join_graph(self) -> dict[str, Any]:
        """The tables that are joined, by which conditions, and the predicates that flowed between them."""
        return graph_data(self.induced) if self.induced is not None else {"nodes": [], "edges": [], "flows": []}

    @property
    def svg(self) -> str:
        """The join graph with every induced predicate, as a picture; empty if no two tables are joined."""
        return svg(self.induced) if self.induced is not None else ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "scans": [scan.to_dict() for scan in self.scans],
            "notes": list(self.notes),
            "problem": self.problem,
            "induced": [dict(zip(DIP_FIELDS, row, strict=True)) for row in self._dips()],
            "stages": [asdict(stage) for stage in self.stages],
        }

    def _dips(self) -> list[tuple[str, str, str, str, int]]:
        return [] if self.induced is None else list(dip_rows(self.induced))

    def _document(self) -> Iterator[Part]:
        """How much each scan reads and what each condition did for it, its blocks as a map, and the join graph."""
        if not self.scans:
            yield Paragraph("The query reads no files.")
        else:
            yield from self._tables()
            yield from self._maps()
            if rows := self._dips():
                yield _dip_table(rows)
                yield Drawing(self.svg)
            if self.stages:
                yield Paragraph(describe_stages(self.stages), "dim")
        for remark in self._remarks():
            yield Paragraph(remark, "warn")

    def _tables(self) -> Iterator[Part]:
        """Two tables that fit 80 columns of text."""
        reads: list[list[Cell | str]] = []
        why: list[list[Cell | str]] = []
        rules = set()
        for label, scan in self._labels():
            reads += [[name, *_shares(each)] for name, each in _lines(label, scan)]
            for number, (condition, effect, skips) in enumerate(_effects(scan)):
                shown = Cell(condition, code=bool(condition))
                why.append(["" if number else label, shown, Cell(effect, "good" if skips else "dim")])
            rules.add(len(why) - 1)
        yield Grid(("scan", *numbers("files", "row groups", "rows", "bytes")), reads, "What the query reads")
        yield Grid(("scan", "condition", "effect"), why, "Why", frozenset(rules))

    def _maps(self) -> Iterator[Part]:
        """The blocks of scans that have several, of those with most."""
        named = [(label, scan.blocks) for label, scan in self._labels()]
        drawn = [(label, blocks) for label, blocks in named if blocks is not None and len(blocks) > 1]
        chosen = sorted(drawn, key=lambda pair: -len(pair[1]))[:MOST_MAPS]
        yield from (block_map(blocks, f"blocks of {label}") for label, blocks in drawn if (label, blocks) in chosen)

    def _labels(self) -> Iterator[tuple[str, ScanReport]]:
        """The scans with names that tell them apart: a table that is read twice is numbered."""
        times, seen = Counter(scan.table for scan in self.scans), Counter[str]()
        for scan in self.scans:
            seen[scan.table] += 1
            yield (f"{scan.table} ({seen[scan.table]})" if times[scan.table] > 1 else scan.table), scan

    def _remarks(self) -> Iterator[str]:
        yield from self.notes
        if self.problem:
            yield f"sidestep failed on an earlier query, which Spark then ran as usual: {self.problem}"


def describe_stages(stages: Iterable[StageReport]) -> str:
    """
    >>> describe_stages([StageReport("static", 0.0012), StageReport("induced", 0.05, True)])
    'stages: static 1.2 ms, induced 50.0 ms (stopped by its time budget)'
    >>> describe_stages([StageReport("reuse", off=True)])
    'stages: reuse off'
    """
    texts = []
    for stage in stages:
        stopped = " (stopped by its time budget)" if stage.stopped else ""
        texts.append(f"{stage.name} off" if stage.off else f"{stage.name} {1000 * stage.seconds:.1f} ms{stopped}")
    return f"stages: {', '.join(texts)}"


def _dip_table(rows: Iterable[tuple[str, str, str, str, int]]) -> Grid:
    cells: list[list[Cell | str]] = [
        [*texts, Cell(f"{removed:,}", "good" if removed else "dim")] for *texts, removed in rows
    ]
    return Grid((*DIP_FIELDS[:-1], *numbers(DIP_FIELDS[-1])), cells, DIPS)


def _amounts(amounts: Amounts | None) -> dict[str, int | None]:
    return {"total": None, "kept": None} if amounts is None else {**amounts.to_dict()}


def _lines(label: str, scan: ScanReport) -> Iterator[tuple[str, ScanReport]]:
    """A scan, and each of the column groups that it is put together from."""
    yield label, scan
    if len(scan.groups) > 1:
        yield from ((f"  group {group.number}", group.read) for group in scan.groups)


def _shares(scan: ScanReport) -> Iterator[Cell]:
    """Files, row groups, rows and bytes, each as what is kept of all there is.

    Row groups and rows are those of indexed files; the others', which are read, add an unknown number.
    """
    more = " + ?" if scan.unknown_files else ""
    for amounts, show, also in (
        (scan.files, "{:,}".format, ""),
        (scan.row_groups, "{:,}".format, more),
        (scan.rows, "{:,}".format, more),
        (scan.bytes, size_text, ""),
    ):
        if amounts is None:
            yield Cell("?")
        else:
            text = f"{show(amounts.kept)} of {show(amounts.total)}{also}"
            share = amounts.kept / amounts.total if amounts.total else None
            yield Cell(text, "good" if amounts.kept < amounts.total else "", share)


def _effects(scan: ScanReport) -> Iterator[tuple[str, str, bool]]:
    """For each condition: its text, what it did in words, and whether that was something."""
    if scan.reason is not None:
        yield "", f"nothing is skipped, as {scan.reason}", False
    if scan.groups:
        names = ", ".join(f"{group.number} ({group.described})" for group in scan.groups)
        joined = ", joined by row" if len(scan.groups) > 1 else ""
        less = len(scan.groups) < scan.groups_in_all
        yield "", f"reads {len(scan.groups)} of {scan.groups_in_all} column groups: {names}{joined}", less
    for reason in scan.reasons:
        yield reason.condition, *_effect(reason, scan.by_block or scan.in_part)
    for condition, source in scan.chosen:
        yield condition, f"chooses when the query runs, by {source}", not source.startswith("nothing")
    if scan.files_without_ids and scan.reason is None:
        have = "carries" if scan.files_without_ids == 1 else "carry"
        files = counted(scan.files_without_ids, "file")
        yield "", f"{files} {have} no block ids, so whole files are read: sidestep optimize organizes them", False
    if scan.unknown_files and scan.reason is None:
        has = "has" if scan.unknown_files == 1 else "have"
        yield "", f"{counted(scan.unknown_files, 'file')} {has} no up-to-date index entry: always read", False


def _effect(reason: Reason, by_block: bool = False) -> tuple[str, bool]:
    """
    >>> _effect(Reason("x < 5", "zone map", files=3, row_groups=4))
    ('zone map skips 3 files (4 row groups)', True)
    >>> _effect(Reason("x < 5", "zone map", row_groups=1))
    ('zone map rules out 1 row group, but no whole file', False)
    >>> _effect(Reason("x < 5", "union vector", row_groups=3), by_block=True)
    ('union vector skips 3 row groups', True)
    """
    groups = counted(reason.row_groups or 0, "row group")
    if reason.synopsis is None:
        return f"not used: {reason.why_not}" if reason.condition else reason.why_not, False
    if reason.files:
        also = f" ({groups})" if reason.row_groups and reason.row_groups != reason.files else ""
        return f"{reason.synopsis} skips {counted(reason.files, 'file')}{also}", True
    if reason.row_groups and by_block:
        return f"{reason.synopsis} skips {groups}", True
    if reason.row_groups:
        return f"{reason.synopsis} rules out {groups}, but no whole file", False
    why = f"nothing: {reason.why_not}" if reason.why_not else "nothing more"
    return f"{reason.synopsis} skips {why}", False
