"""For people: which condition of a query skipped what, thanks to which synopsis, and why the others did not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from sidestep.predicate.formula import All, Any, Atom, Compares, Formula, Holds, Matches, Null, Within, atoms, names_in
from sidestep.predicate.nodes import Column, Opaque
from sidestep.predicate.text import sql
from sidestep.synopsis.catalog import Catalog, Synopsis
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.synopsis.skip import kept_blocks
from sidestep.synopsis.value_set import ValueSets
from sidestep.synopsis.values.forms import Mask

SEVERAL = "several together"
"""What skips a block that no synopsis alone does."""
_MOST_NAMED = 2
"""So many features are named, and the rest counted; one more would not make the text longer than the count does."""
_LONGEST = 60
"""A feature's text is cut to so many characters."""


_SETTINGS = {
    "ansi": "spark.sql.ansi.enabled",
    "case": "spark.sql.caseSensitive",
    "parser": "spark.sql.legacy.timeParserPolicy",
    "spark": "Spark's version",
    "locale": "the JVM's locale",
}
"""What the identity of an opaque predicate calls by a short name."""
_DEFAULT = "its default"


@dataclass(frozen=True, slots=True)
class Amount:
    """So much of a table."""

    blocks: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """What one synopsis made of one condition, or why none made anything of it."""

    condition: Formula
    """A conjunct of the query's formula, the atom inside one that no synopsis answers, or the whole formula."""
    synopsis: str | None
    """Who answered, a union vector with its features; None if nobody did, and then there is a reason."""
    alone: Amount
    """What this skips if there were nothing else."""
    beyond: Amount
    """What this skips that none of the earlier entries does; over all entries, this adds up to all that is skipped."""
    reason: str = ""
    """Why nothing was (or could be) skipped."""
    gone: Mask | None = field(default=None, compare=False, repr=False)
    """The blocks that are skipped beyond earlier entries; None where there are none."""
    kind: str = ""
    """The name of the synopsis that answered, without more; several together are of no kind."""


def explain_skips(catalog: Catalog, formula: Formula, among: Mask | None = None) -> list[Skip]:
    """The formula's conjuncts one by one, and for each what every synopsis that knows of it skips.

    With ``among``, only those blocks count: the catalog may know files that a query does not list.
    """
    skips: list[Skip] = []
    everything = np.ones(catalog.blocks, dtype=np.bool_) if among is None else among
    kept = everything

    def add(condition: Formula, synopsis: str, mask: Mask, name: str, always: bool = True) -> None:
        nonlocal kept
        beyond, gone = _difference(catalog, kept, kept & mask), kept & ~mask
        if always or beyond.blocks:
            alone = _difference(catalog, everything, everything & mask)
            reason = "" if alone.blocks else _why_nothing(condition, synopsis)
            skips.append(Skip(condition, synopsis, alone, beyond, reason, gone if beyond.blocks else None, name))
        kept = kept & mask

    whole = [found for synopsis in catalog.synopses if (found := _answer(catalog, synopsis, formula))]
    told: set[Formula] = set()
    for conjunct in formula.children if isinstance(formula, All) else (formula,):
        answering = [found for synopsis in catalog.synopses if (found := _answer(catalog, synopsis, conjunct))]
        for found in answering:
            add(conjunct, found.text(), found.kept, found.synopsis)
            told.update(found.features)
        together = " and ".join(found.text() for found in answering) or "logic"
        add(conjunct, together, kept_blocks(catalog, conjunct), SEVERAL, always=False)
        for atom in atoms(conjunct):
            if not any(_answer(catalog, synopsis, atom) for synopsis in catalog.synopses) and not _part_of(atom, whole):
                skips.append(Skip(atom, None, Amount(), Amount(), _why_unanswered(catalog, atom)))
    if isinstance(formula, All):
        # A synopsis of whole conjunctions may know more of all conditions together than of each.
        for found in whole:
            add(formula, found.text(told), found.kept, found.synopsis, always=False)
        add(formula, "all conditions together", kept_blocks(catalog, formula), SEVERAL, always=False)
    return skips


@dataclass(frozen=True, slots=True, eq=False)
class _Contribution:
    """What one synopsis alone makes of a formula and its parts."""

    synopsis: str
    kept: Mask
    features: tuple[Formula, ...] = ()
    """The features that a union vector answered by."""

    def text(self, told: Collection[Formula] = ()) -> str:
        """Who answered; of a union vector, the features that were not told before."""
        named = [sql(feature) for feature in self.features if feature not in told] or [*map(sql, self.features)]
        return f"{self.synopsis} ({_name_few(named)})" if named else self.synopsis


def _answer(catalog: Catalog, synopsis: Synopsis, formula: Formula) -> _Contribution | None:
    """None if the synopsis knows neither of the formula nor of a part of it."""
    if not isinstance(synopsis, UnionVectors):
        known = _knows(synopsis, formula)
        return (
            _Contribution(synopsis.name, kept_blocks(replace(catalog, synopses=(synopsis,)), formula))
            if known
            else None
        )
    # What is asked of it, branch by branch, and which features answered, is what it remembers afterwards.
    fresh = replace(synopsis, answers={})
    kept = kept_blocks(replace(catalog, synopses=(fresh,)), formula)
    features = sorted({feature for found in fresh.answers.values() for feature in found})
    telling = [feature for feature in features if fresh.ruling_out(feature).any()]
    named = tuple(synopsis.features[at] for at in telling or features)
    return _Contribution(synopsis.name, kept, named) if named else None


def _part_of(atom: Atom, answers: list[_Contribution]) -> bool:
    """Whether a feature that speaks of this answered: then it was used, if not alone."""
    features = [feature for found in answers for feature in found.features]
    if isinstance(atom, Holds):
        return any(atom == part for feature in features for part in atoms(feature))
    return any(names_in(atom) <= names_in(feature) for feature in features)


def _name_few(texts: list[str]) -> str:
    """
    >>> _name_few(["a = 1", "b = 2", "c = 3", "d = 4"]), _name_few(["x" * 90])[-8:]
    ('a = 1; b = 2; 2 more', 'xxxxxxx…')
    """
    shown = texts if len(texts) <= _MOST_NAMED + 1 else texts[:_MOST_NAMED]
    short = [text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…" for text in shown]
    return "; ".join([*short, *([f"{len(texts) - len(shown)} more"] if len(shown) < len(texts) else [])])


def _difference(catalog: Catalog, before: Mask, after: Mask) -> Amount:
    gone = before & ~after
    files = int(catalog.files_kept(before).sum() - catalog.files_kept(after).sum())
    return Amount(int(gone.sum()), files, int(catalog.rows[gone].sum()), int(catalog.bytes[gone].sum()))


def _knows(synopsis: Synopsis, formula: Formula) -> bool:
    if synopsis.can_satisfy(formula) is not None:
        return True
    return isinstance(formula, All | Any) and any(_knows(synopsis, child) for child in formula.children)


def _why_nothing(condition: Formula, synopsis: str) -> str:
    if isinstance(condition, Matches) and synopsis != ValueSets.name:
        what = "a pattern with a leading wildcard" if not condition.pattern.prefix else "a pattern"
        return f"{what} is no range of values: only a block that holds a single value could be skipped"
    return "every block may hold such a row"


def _why_unanswered(catalog: Catalog, atom: Atom) -> str:
    match atom:
        case Holds(opaque):
            return _why_no_feature(catalog, opaque) or f"opaque: {opaque.reason or opaque.text}"
        case Compares(left, _, right):
            missing = [column for column in (left, right) if not _known(catalog, column)]
            if not missing:
                return f"{left.name} and {right.name} are known to different synopses"
            return ", ".join(_no_statistics(catalog, column) for column in missing)
        case Within(column) | Null(column) | Matches(column):
            return _no_statistics(catalog, column)
    return "not understood"


def _why_no_feature(catalog: Catalog, opaque: Opaque) -> str | None:
    """Why a feature of the very same text does not answer; None if there is none."""
    for synopsis in catalog.synopses:
        for feature in synopsis.features if isinstance(synopsis, UnionVectors) else ():
            for atom in atoms(feature):
                if isinstance(atom, Holds) and atom.opaque.text == opaque.text and opaque.identified:
                    return f"the feature of this text was loaded {_differences(atom.opaque, opaque)}"
    return None


def _settings(opaque: Opaque) -> dict[str, str]:
    """The settings that a predicate's identity names after its digest, the time zone first.

    >>> _settings(Opaque("f(x)", (), "c0ffee|UTC|ansi=true|spark.sql.legacy.x=a\\\\pb"))
    {'spark.sql.session.timeZone': 'UTC', 'spark.sql.ansi.enabled': 'true', 'spark.sql.legacy.x': 'a|b'}
    """
    _, *words = (opaque.depends or "").split("|")
    settings = {"spark.sql.session.timeZone": words[0]} if words else {}
    for word in words[1:]:
        name, _, value = word.partition("=")
        settings[_SETTINGS.get(name, name)] = value.replace("\\p", "|").replace("\\\\", "\\")
    return settings


def _differences(made: Opaque, asked: Opaque) -> str:
    """What a feature depends on that the predicate of its text that is asked for does not.

    >>> made, asked = (Opaque("f(x)", (), f"c0ffee|UTC|ansi={on}") for on in ("true", "false"))
    >>> _differences(made, asked)
    'with spark.sql.ansi.enabled=true, and the session has false'
    """
    before, now = _settings(made), _settings(asked)
    words = [
        f"{name}={before.get(name, _DEFAULT)}, and the session has {now.get(name, _DEFAULT)}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
    return "with " + "; ".join(words) if words else "with other code, or for columns of other types"


def _known(catalog: Catalog, column: Column) -> bool:
    return any(synopsis.can_satisfy(Null(column)) is not None for synopsis in catalog.synopses)


def _no_statistics(catalog: Catalog, column: Column) -> str:
    for synopsis in catalog.synopses:
        columns = getattr(synopsis, "types", {})
        if column.name in columns and columns[column.name] != column.type:
            return (
                f"column {column.name} is {column.type} in the query, but {columns[column.name]} in the {synopsis.name}"
            )
    return f"no statistics for column {column.name}"
