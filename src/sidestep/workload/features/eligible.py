"""Which predicates may become features."""

from __future__ import annotations

from dataclasses import dataclass

from sidestep.errors import SidestepError
from sidestep.predicate import All, Any, Column, Compares, Formula, Holds, Kind, Matches, Null, Within, atoms
from sidestep.predicate.formula import unidentified
from sidestep.workload.features.recurring import names_moment, recurs
from sidestep.workload.table import Item

DATE_AND_TIME = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.TIME})


@dataclass(frozen=True, slots=True)
class Eligibility:
    """What may become a feature.

    Predicates that are random, or whose meaning could not be had in full, never do: two of one text may differ. Dates
    and times against constants move on from query to query and are better served by the order of rows inside blocks
    (thesis, 3.7.3); a comparison of two date columns stays, as it recurs, and so does what is asked of the hour or the
    weekday (:mod:`.recurring`). Negations (``<>``, NOT IN, NOT LIKE,
    IS NOT NULL, NOT BETWEEN) hold for nearly every row: they subsume nearly every query and let none skip.
    """

    dates: bool = False
    negations: bool = False
    without_columns: frozenset[str] = frozenset()
    """Columns no feature may speak of, such as a day written as a number."""

    def __post_init__(self) -> None:
        if isinstance(self.without_columns, str):
            raise SidestepError("Columns to leave out are given as a set of names, not as one text.")

    def refusal(self, item: Item) -> str | None:
        """Why the item may not become a feature; None if it may."""
        unclear = next(unidentified(item.formula), None)
        if unclear is not None:
            return unclear.reason if unclear.deterministic and unclear.reason else "not deterministic"
        if any(column.name in self.without_columns for column in item.columns):
            return "on a column left out"
        if not self.dates and compares_date(item.formula):
            return "date or time"
        if not self.negations and is_negation(item.formula):
            return "negation"
        return None


def compares_date(formula: Formula) -> bool:
    """Whether some part compares a date or time with a constant that moves on from query to query."""
    for atom in atoms(formula):
        match atom:
            case Within(column=column, ranges=ranges) if not ranges.is_full and _is_date(column):
                return True
            case Holds(opaque=opaque) if names_moment(opaque.text):
                return True
            case Holds(opaque=opaque) if len(set(opaque.columns)) == 1 and _is_date(opaque.columns[0]):
                if not recurs(opaque.text, [opaque.columns[0].name]):
                    return True
    return False


def is_negation(formula: Formula) -> bool:
    """Whether the formula leaves out some values rather than naming some: then nearly every row satisfies it."""
    match formula:
        case Within(ranges=ranges):
            return ranges.intervals[0].low is None and ranges.intervals[-1].high is None
        case Matches(negated=negated):
            return negated
        case Compares(op=op):
            return op == "<>"
        case Holds(value=value):
            return not value
        case Null():
            return False
        case Any(children=children):
            return any(is_negation(child) for child in children)
        case All(children=children):
            return all(is_negation(child) for child in children)


def _is_date(column: Column) -> bool:
    return column.type.kind in DATE_AND_TIME
