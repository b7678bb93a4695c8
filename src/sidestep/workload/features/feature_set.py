"""Features, and sets of them as values that are saved, shown and compared."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from sidestep.errors import SidestepError, check_format
from sidestep.predicate import Formula, Predicate, all_of, conjunction, from_dict, implies, normalize, sql, to_dict
from sidestep.render import shorten
from sidestep.render.document import Cell, Grid, Paragraph, Part, numbers
from sidestep.render.report import Report
from sidestep.workload.canonical import canonical, column_set, key

FORMAT = 2
"""Of the file that a set is saved in, see docs/formats.md. 1 had no digest of how the set was found."""

MOST_TEXT = 240
"""Characters of a feature in a table that is to be short."""


@dataclass(frozen=True)
class Feature:
    """A representative filter: a conjunction of predicates, and how many queries of the workload it subsumes.

    A block in which no row satisfies it can be skipped by every query that it subsumes (thesis, 3.3 and 3.5).
    """

    predicates: tuple[Predicate, ...]
    weight: int = 1
    additional: int = 0
    """I(F): how many of those queries no stricter feature subsumes."""

    def __post_init__(self) -> None:
        if not self.predicates:
            raise SidestepError("A feature needs at least one predicate: without any it holds for every row.")
        spelled = sorted(map(canonical, self.predicates), key=lambda p: (sorted(c.name for c in column_set(p)), key(p)))
        object.__setattr__(self, "predicates", tuple(spelled))

    @property
    def predicate(self) -> Predicate:
        """The whole as one predicate."""
        return conjunction(*self.predicates)

    @cached_property
    def formula(self) -> Formula:
        """When it holds."""
        return all_of(normalize(predicate) for predicate in self.predicates)

    def subsumes(self, filter: Predicate | Formula) -> bool:
        """Whether every row that the filter keeps satisfies the feature."""
        return implies(filter, self.formula)

    def __str__(self) -> str:
        return sql(self.predicate)


@dataclass(frozen=True)
class FeatureSet(Report):
    """The features of a table in the order of their rank, which is the order of the bits in a feature vector.

    Contract: frozen and content-addressed. ``id`` is the SHA-256 of the table's name and the features with their
    weights, written as canonical JSON; union vectors name it, so a set that differs in one constant cannot be taken
    for another. How the set was found (queries, coverage, threshold) is kept beside and is no part of the id.

    >>> from sidestep.predicate import INTEGER, column, compare
    >>> one = FeatureSet("sales", (Feature((compare(column("revenue", INTEGER), "<", 0),), weight=10),))
    >>> one.id[:12], len(one), str(one.features[0])
    ('bc931ce912ff', 1, 'revenue < 0')
    """

    table: str
    features: tuple[Feature, ...]
    queries: int = 0
    """How many scans with a filter the workload had."""
    covered: int = 0
    """How many of them some feature subsumes."""
    threshold: int = 0

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def id(self) -> str:
        """The address of the content."""
        return hashlib.sha256(_canonical_json(self._content()).encode()).hexdigest()

    @property
    def coverage(self) -> float:
        """The share of the workload's filtered scans that some feature subsumes."""
        return self.covered / self.queries if self.queries else 0.0

    def table_of(self, more: Sequence[tuple[str, tuple[str, ...]]] = (), most: int | None = None) -> Grid:
        """The features with their weights as a table; ``more`` has for each what a page folds up below it.

        With ``most``, the table is short: so many features, and of each no more than the beginning.
        """
        rows: list[list[Cell | str]] = []
        for number, feature in enumerate(self.features[:most], 1):
            summary, lines = more[number - 1] if more else ("", ())
            share = feature.weight / self.queries if self.queries else None
            text = Cell("" if share is None else f"{share:.1%}", share=share)
            shown = Cell(
                str(feature) if most is None else shorten(str(feature), MOST_TEXT), code=True, more=summary, lines=lines
            )
            rows.append([str(number), shown, f"{feature.weight:,}", text])
        title = f"{len(self)} features of {self.table} ({self.id[:12]})"
        return Grid((*numbers("#"), "feature", *numbers("queries", "share")), rows, title)

    def _document(self) -> Iterator[Part]:
        yield self.table_of()
        if self.queries:
            yield Paragraph(f"together they subsume {self.coverage:.1%} of the queries with a filter")

    def subsuming(self, filter: Predicate | Formula) -> tuple[int, ...]:
        """Which features subsume a filter, by position: those that can tell blocks it need not read."""
        formula = filter if isinstance(filter, Formula) else normalize(filter)
        return tuple(at for at, feature in enumerate(self.features) if feature.subsumes(formula))

    def _content(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "features": [
                {
                    "predicates": [to_dict(predicate) for predicate in feature.predicates],
                    "weight": feature.weight,
                    "additional": feature.additional,
                }
                for feature in self.features
            ],
        }

    def to_json(self) -> dict[str, Any]:
        """The set as plain data."""
        found = {"queries": self.queries, "covered": self.covered, "threshold": self.threshold}
        written = {"format": FORMAT, "id": self.id, **self._content(), "found": found}
        return {**written, "digest": _digest(written)}

    @classmethod
    def from_json(cls, written: Any, source: str = "the data") -> FeatureSet:
        """The set that :meth:`to_json` wrote; refused if it is not whole."""
        if not isinstance(written, dict) or "features" not in written or "id" not in written:
            raise SidestepError(f"{source} is not a feature set: make one with `sidestep analyze LOG --out FILE`.")
        version = check_format(written.get("format"), FORMAT, f"The feature set {source}")
        try:
            features = tuple(
                Feature(tuple(map(from_dict, one["predicates"])), int(one["weight"]), int(one.get("additional", 0)))
                for one in written["features"]
            )
            found = written.get("found", {})
            counts = (int(found.get(name, 0)) for name in ("queries", "covered", "threshold"))
            made = cls(str(written["table"]), features, *counts)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SidestepError(f"{source} is not a whole feature set: {error!r}. Make it again.") from error
        if made.id != written["id"]:
            raise SidestepError(f"{source} was changed after it was saved: its content is not what its id says.")
        if version > 1 and written.get("digest") != _digest(written):
            raise SidestepError(f"{source} was changed after it was saved: its content is not what its digest says.")
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a JSON file, whole or not at all."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.partial")
        try:
            beside.write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            beside.replace(target)
        except OSError as error:
            raise SidestepError(f"The feature set could not be written to {target}: {error.strerror}.") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FeatureSet:
        """Read what :meth:`save` wrote."""
        try:
            written = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SidestepError(f"The feature set {path} could not be read: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise SidestepError(f"{path} is not JSON, so it is no feature set: {error}.") from error
        return cls.from_json(written, str(path))

    def show(self, console: Console | None = None) -> None:
        """Print it as a table."""
        (console or Console()).print(self)


def _digest(written: dict[str, Any]) -> str:
    """The digest of all that a file says but for the digest."""
    rest = {name: value for name, value in written.items() if name != "digest"}
    return hashlib.sha256(_canonical_json(rest).encode()).hexdigest()


def _canonical_json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))
