"""Which rows of a sample satisfy a formula, worked out from the ranks of their values.

A column has far fewer distinct values than a sample has rows, and what filters compare with constants is told for each
value by the rules that tables are skipped by: of a block with one value they leave nothing open. So features that
compare plain columns need not be parsed, checked and evaluated by Spark only to be tried; those that are chosen still
are, before rows are laid out by them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from sidestep.advisor.trials.sample import RowNumbers, Sample, ranks
from sidestep.advisor.trials.trial import catalog_of_values, stored_values
from sidestep.layout.vectors import Bits
from sidestep.predicate import Column, DataType, Formula
from sidestep.predicate.formula import All, Any, Compares, Null, Within
from sidestep.predicate.types import FLOATING
from sidestep.synopsis import Catalog, kept_blocks, stored_type
from sidestep.synopsis.values.forms import Form, stored_form


def told_by_ranks(formula: Formula, types: Mapping[str, DataType]) -> bool:
    """Whether the ranks of these columns tell of each row whether the formula holds."""
    match formula:
        case All(children=children) | Any(children=children):
            return all(told_by_ranks(child, types) for child in children)
        case Within(column=column):
            bounded = stored_type(column.type) is not None and stored_form(column.type) is not Form.WIDE
            return bounded and _has(types, column)
        case Null(column=column):
            return _has(types, column)
        case Compares(left=left, right=right):
            # NaN and -0.0 have ranks of their own, and decimals of two scales none in common.
            return (
                left.type == right.type and left.type.kind not in FLOATING and _has(types, left) and _has(types, right)
            )
    return False


def _has(types: Mapping[str, DataType], column: Column) -> bool:
    return column.type.ordered and types.get(column.name) == column.type


class Satisfied:
    """Rows of one sample; what is known of a column's values is kept for the next formula."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self._catalogs: dict[str, Catalog] = {}

    def rows(self, formula: Formula) -> Bits | None:
        """For each row whether the formula, which ranks tell of, holds; None if its values have no bounds after all."""
        codes = self.sample.codes
        match formula:
            case All(children=children) | Any(children=children):
                met = np.full(len(self.sample), isinstance(formula, All))
                for child in children:
                    rows = self.rows(child)
                    if rows is None:
                        return None
                    met = met & rows if isinstance(formula, All) else met | rows
                return met
            case Within(column=column):
                if stored_values(self.sample.values[column.name], column.type) is None:
                    return None
                within = np.append(self._values_kept(column.name, formula), np.False_)  # the last is for NULL
                return np.asarray(within[codes[column.name]])
            case Null(column=column):
                return np.asarray(codes[column.name] < 0)
            case Compares(left=left, op=relation, right=right):
                values = self.sample.values
                place = ranks(pa.chunked_array([values[left.name], values[right.name]]))[1]
                of_left, of_right = place[: len(values[left.name])], place[len(values[left.name]) :]
                one, other = _place_of(of_left, codes[left.name]), _place_of(of_right, codes[right.name])
                holds = {"<": one < other, "<=": one <= other, "=": one == other, "<>": one != other}[relation]
                return np.asarray((one >= 0) & (other >= 0) & holds)
        return None

    def _values_kept(self, name: str, formula: Formula) -> Bits:
        if not len(self.sample.values[name]):
            return np.zeros(0, np.bool_)
        if name not in self._catalogs:
            self._catalogs[name] = catalog_of_values(self.sample, name)
        return kept_blocks(self._catalogs[name], formula)


def _place_of(place: RowNumbers, codes: RowNumbers) -> RowNumbers:
    """The place of each row's value; NULL has -1."""
    return np.append(place, -1)[codes]
