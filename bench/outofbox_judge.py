"""Who reads what: rows in some order, cut into blocks, and the blocks that filters cannot rule out.

An arrangement is an order of the table's rows and the places where blocks begin. The simple ones are made here: rows as
they arrived, sorted by a column, and along a Z curve by the ranks of several. Which columns, the queries to learn from
decide, by what they would read of a sample; nothing here uses sidestep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bench.outofbox_filters import (
    Atom,
    Blocks,
    Bools,
    Bound,
    Coded,
    Ints,
    Terms,
    atoms,
    codes_of,
    hold_any,
    is_plain,
)

PAGE = 2_000
"""Rows of a page, where an arrangement has such."""
SAMPLE = 60_000
"""Rows on which columns are chosen."""
MOST_VALUES = 256
"""Columns of at most so many values have sets of values, where an arrangement knows these."""
Z_CANDIDATES, Z_COLUMNS, Z_BITS = 8, 4, 12


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The rows in order, and where each block begins."""

    order: Ints
    starts: Ints
    label: str = ""

    @property
    def sizes(self) -> Ints:
        return np.diff(self.starts, append=len(self.order))


@dataclass(frozen=True, eq=False)
class Sampled:
    """Some rows of a table, in the order in which they arrived, with the values and codes of the whole."""

    of: Terms
    rows: Ints

    def coded(self, term: str) -> Coded:
        whole = self.of.coded(term)
        return Coded(whole.values, whole.codes[self.rows])


def sample_rows(rows: int, most: int) -> Ints:
    """Rows at equal distances, at most so many."""
    return np.linspace(0, rows, min(rows, most), endpoint=False).astype(np.int64)


def even_starts(rows: int, blocks: int) -> Ints:
    return np.linspace(0, rows, max(1, min(blocks, rows)), endpoint=False).astype(np.int64)


def terms_of(queries: Iterable[Bound]) -> list[str]:
    """What queries filter by, what is filtered most often first."""
    counted = Counter(term for query in queries for term in sorted({atom.term for atom in atoms(query)}))
    return [term for term, _ in counted.most_common()]


def describe(
    table: Terms,
    arrangement: Arrangement,
    terms: Sequence[str],
    *,
    sets: bool = False,
    cuts: Sequence[Atom] = (),
) -> Blocks:
    """What the blocks of an arrangement hold: bounds of columns; sets of values, if wanted; where cuts are true."""
    low, high, present = {}, {}, {}
    holding: dict[str, list[tuple[frozenset[int], Bools]]] = {}
    for term in terms:
        coded = table.coded(term)
        codes = coded.codes[arrangement.order]
        few = len(coded.values) <= MOST_VALUES
        if is_plain(term):
            high[term] = np.maximum.reduceat(codes, arrangement.starts).astype(np.int64)
            known = np.where(codes < 0, len(coded.values), codes)
            low[term] = np.minimum.reduceat(known, arrangement.starts).astype(np.int64)
        held = codes_in_blocks(codes, arrangement, len(coded.values)) if few else None
        if held is not None and is_plain(term) and sets:
            present[term] = held
        if held is not None and not is_plain(term):
            allowed = {codes_of(cut) for cut in cuts if cut.term == term}
            holding[term] = [(one, hold_any(held, one)) for one in allowed]
    return Blocks(arrangement.sizes, low, high, present, holding)


def codes_in_blocks(codes: npt.NDArray[np.int32], arrangement: Arrangement, values: int) -> Bools:
    """Blocks by codes: which occur where."""
    block = np.repeat(np.arange(len(arrangement.starts)), arrangement.sizes)
    cells = block * (values + 1) + codes + 1
    counts = np.bincount(cells, minlength=len(arrangement.starts) * (values + 1))
    return counts.reshape(len(arrangement.starts), values + 1)[:, 1:] > 0


@dataclass(frozen=True)
class Reads:
    """Rows and files that each query reads."""

    rows: tuple[int, ...]
    files: tuple[int, ...]


def reads(blocks: Blocks, queries: Sequence[Bound], files: int) -> Reads:
    """What queries read where neighbouring blocks lie in files, as many as ``files`` and about equally large."""
    before = np.cumsum(blocks.rows) - blocks.rows
    file = np.minimum(before * files // max(1, int(blocks.rows.sum())), files - 1)
    rows, touched = [], []
    for query in queries:
        kept = blocks.may_match(query)
        rows.append(int(blocks.rows[kept].sum()))
        touched.append(len(np.unique(file[kept])))
    return Reads(tuple(rows), tuple(touched))


def paged_reads(blocks: Blocks, pages: Blocks, queries: Sequence[Bound]) -> Reads:
    """What queries read where readers know the bounds of pages too, which are runs of rows within a block."""
    block = np.searchsorted(np.cumsum(blocks.rows), np.cumsum(pages.rows) - pages.rows, "right")
    kept = (pages.may_match(query) & blocks.may_match(query)[block] for query in queries)
    return Reads(tuple(int(pages.rows[each].sum()) for each in kept), ())


def rows_read(blocks: Blocks, queries: Sequence[Bound]) -> int:
    return sum(int(blocks.rows[blocks.may_match(query)].sum()) for query in queries)


def as_arrived(rows: int, blocks: int) -> Arrangement:
    return Arrangement(np.arange(rows), even_starts(rows, blocks))


def cut_into_pages(table: Terms, arrangement: Arrangement, column: str | None = None) -> Arrangement:
    """An arrangement whose blocks are cut into pages, their rows sorted by a column before, if one is given."""
    order = arrangement.order
    if column is not None:
        block = np.repeat(np.arange(len(arrangement.starts)), arrangement.sizes)
        codes: Ints = table.coded(column).codes[order].astype(np.int64)
        order = order[np.lexsort((codes, block))]
    ends = arrangement.starts + arrangement.sizes
    starts = [np.arange(start, end, PAGE) for start, end in zip(arrangement.starts, ends, strict=True)]
    return Arrangement(order, np.concatenate(starts), arrangement.label)


def sorted_by(table: Terms, column: str, blocks: int) -> Arrangement:
    """Rows by a column, those of one value as they arrived."""
    codes = table.coded(column).codes
    return Arrangement(np.argsort(codes, kind="stable"), even_starts(len(codes), blocks), column)


def z_ordered(table: Terms, columns: Sequence[str], blocks: int) -> Arrangement:
    """Rows along the Z curve of the ranks of their values: the share of rows below each, in bits taken in turns."""
    ranks = [_ranks(table.coded(column)) for column in columns]
    curve = np.zeros(len(ranks[0]), np.int64)
    for bit in reversed(range(Z_BITS)):
        for rank in ranks:
            curve = (curve << 1) | ((rank >> bit) & 1)
    return Arrangement(np.argsort(curve, kind="stable"), even_starts(len(curve), blocks), ", ".join(columns))


def _ranks(coded: Coded) -> Ints:
    counts = np.bincount(coded.codes + 1, minlength=len(coded.values) + 1)
    below = np.cumsum(counts) - counts
    return (below * (1 << Z_BITS) // max(1, len(coded.codes)))[coded.codes + 1].astype(np.int64)


@dataclass(frozen=True)
class Chosen:
    """The columns of the simple arrangements that read least for some queries."""

    sort: str
    z_order: tuple[str, ...]


def choose_columns(table: Terms, rows: int, queries: Sequence[Bound], blocks: int) -> Chosen:
    """The best column to sort by of all that are filtered; for the Z curve, the best set of up to four of eight.

    Those eight are the columns by which sorting helps most, and those that are filtered most.
    """
    sample = Sampled(table, sample_rows(rows, SAMPLE))
    terms = terms_of(queries)
    columns = [term for term in terms if is_plain(term)]

    def judged(arrangement: Arrangement) -> int:
        return rows_read(describe(sample, arrangement, terms), queries)

    by_column: Mapping[str, int] = {name: judged(sorted_by(sample, name, blocks)) for name in columns}
    best = sorted(columns, key=by_column.__getitem__)
    alternating = [name for pair in zip(best, columns, strict=True) for name in pair]
    candidates = list(dict.fromkeys(alternating))[:Z_CANDIDATES]
    some = [picked for count in range(1, Z_COLUMNS + 1) for picked in combinations(candidates, count)]
    return Chosen(best[0], min(some, key=lambda picked: judged(z_ordered(sample, picked, blocks))))
