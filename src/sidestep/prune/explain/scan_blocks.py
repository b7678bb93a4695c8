"""The blocks of one scan of a query: which are read, what skipped each of the others, and the proof in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.render import counted
from sidestep.render.document import BlockMap, Paragraph, Part
from sidestep.render.report import Report
from sidestep.synopsis import Mask

READ = "read"
PARTITION, INDUCED, SELECTOR = "partition", "induced predicate", "run-time selector"
KIND_NAMES = {"union vector": "feature", "global range table": "GRT"}
"""What skips a block, by the name of the synopsis; others are called as the synopsis is."""

Describe = Callable[[int, "SkipReason"], str]
"""The proof that one block, by its number in the index, need not be read."""


@dataclass(frozen=True, slots=True)
class SkipReason:
    """What skips blocks of a scan: a kind of proof, the condition that it is about, and who knew."""

    kind: str
    """partition, zone map, range-set, GRT, feature, value set, induced predicate, run-time selector, …"""
    condition: str
    synopsis: str


@dataclass(frozen=True, eq=False)
class ScanBlocks(Report):
    """All indexed blocks that a scan lists, in file order. What is known of each is a row of :meth:`to_arrow`."""

    table: str
    root: str
    files: pa.Array
    """The path of each file, relative to the table's folder."""
    file_of_block: npt.NDArray[np.int32]
    row_group: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    read: Mask
    """Whether each is read, unless Spark's own filters pass over it."""
    reasons: tuple[SkipReason, ...]
    reason: npt.NDArray[np.int16]
    """For each, the first of the reasons that rules it out; -1 if none does. One that is ruled out may still be read,
    where its file has to be."""
    position: npt.NDArray[np.int64]
    """Its number in the index."""
    describe: Describe

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What became of each: read, or the kind of proof that skipped it."""
        names = [reason.kind for reason in self.reasons]
        return tuple(
            READ if read else names[at] for read, at in zip(self.read.tolist(), self.reason.tolist(), strict=True)
        )

    def _document(self) -> Iterator[Part]:
        yield Paragraph(
            f"{self.table}: {int(self.read.sum()):,} of {counted(len(self), 'block')} in "
            f"{counted(len(self.files), 'file')} are read."
        )
        yield block_map(self, "Blocks in the order of their files")

    def to_arrow(self) -> pa.Table:
        """One row per block: file, row_group, rows, bytes, read, by, condition, synopsis."""
        skipped = np.where(self.read, -1, self.reason)
        at, missing = np.maximum(skipped, 0).astype(np.int32), skipped < 0
        indices = pa.array(at, mask=missing)

        def column(values: Sequence[str]) -> pa.Array:
            return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))

        return pa.table(
            {
                "file": pa.DictionaryArray.from_arrays(pa.array(self.file_of_block), self.files),
                "row_group": pa.array(self.row_group),
                "rows": pa.array(self.rows),
                "bytes": pa.array(self.bytes),
                "read": pa.array(self.read),
                "by": column([reason.kind for reason in self.reasons]),
                "condition": column([reason.condition for reason in self.reasons]),
                "synopsis": column([reason.synopsis for reason in self.reasons]),
            }
        )

    def proof(self, block: int) -> str:
        """Why the block need not be read, in words; or that nothing rules it out."""
        if not 0 <= block < len(self):
            raise SidestepError(f"The scan of {self.table} has blocks 0 to {len(self) - 1:,}, and not {block:,}.")
        at = int(self.reason[block])
        if at < 0:
            return "Nothing that is known of this block rules it out, so it is read."
        said = self.describe(int(self.position[block]), self.reasons[at])
        return f"{said} It is read all the same, with the rest of its file." if self.read[block] else said

    def without_files(self, left_out: Collection[str], reason: SkipReason) -> ScanBlocks:
        """The same after more files have been left out, when the query ran."""
        gone = np.isin(
            np.arange(len(self.files)), [n for n, path in enumerate(self.files.to_pylist()) if path in left_out]
        )
        chosen = gone[self.file_of_block] & self.read
        at = len(self.reasons)
        return replace(
            self,
            read=self.read & ~chosen,
            reasons=(*self.reasons, reason),
            reason=np.where(chosen, np.int16(at), self.reason),
        )


def block_map(blocks: ScanBlocks, title: str) -> BlockMap:
    """The blocks as a picture: read, or the kind of proof that skips each."""
    kinds = list(dict.fromkeys(reason.kind for reason in blocks.reasons))
    numbers = np.array([1 + kinds.index(reason.kind) for reason in blocks.reasons] + [0], np.int16)
    # A reason of -1 is the last of the numbers, that of blocks which are read.
    drawn = np.where(blocks.read, np.int16(0), numbers[blocks.reason])
    return BlockMap(title, (READ, *(f"skipped: {kind}" for kind in kinds)), drawn)


def join_blocks(parts: Sequence[ScanBlocks | None]) -> ScanBlocks | None:
    """The blocks of several parts of one scan (its indexes, or column groups) as those of one."""
    known = [part for part in parts if part is not None]
    if len(known) < 2:
        return known[0] if known else None
    reasons: list[SkipReason] = []
    files, blocks, numbers = 0, 0, []
    describes: list[tuple[int, Describe]] = []
    for part in known:
        places = [_place(reasons, reason) for reason in part.reasons]
        numbers.append(np.array([*places, -1], np.int16)[part.reason])
        describes.append((blocks, part.describe))
        blocks += int(part.position.max(initial=-1)) + 1

    def describe(position: int, reason: SkipReason) -> str:
        base, own = next((base, own) for base, own in reversed(describes) if position >= base)
        return own(position - base, reason)

    def of_files() -> Iterator[npt.NDArray[np.int32]]:
        nonlocal files
        for part in known:
            yield part.file_of_block + np.int32(files)
            files += len(part.files)

    return ScanBlocks(
        known[0].table,
        known[0].root,
        pa.concat_arrays([part.files for part in known]),
        np.concatenate(list(of_files())),
        np.concatenate([part.row_group for part in known]),
        np.concatenate([part.rows for part in known]),
        np.concatenate([part.bytes for part in known]),
        np.concatenate([part.read for part in known]),
        tuple(reasons),
        np.concatenate(numbers),
        np.concatenate([part.position + base for part, (base, _) in zip(known, describes, strict=True)]),
        describe,
    )


def _place(reasons: list[SkipReason], reason: SkipReason) -> int:
    if reason not in reasons:
        reasons.append(reason)
    return reasons.index(reason)
