"""Random lives of tables that have some cells more than once: copies change with what they are copies of.

After each step every copy has the rows of its features, and what it says is what the others say; queries give the same
with skipping on and off, and after the files are deleted that they skipped.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.grouped import Laid
from tests.spark.soundness.test_column_groups_life import FEATURES, Life, Row, columns_of_feature

pytestmark = pytest.mark.spark
STEPS = 5


class CopiedLife(Life):
    """Groups, some of which are two partners, and copies of other cells in the rows of some features."""

    def groups(self) -> list[Laid]:
        names = ["id", *self.names]
        known = [feature for feature in FEATURES if columns_of_feature(feature) <= set(names)]
        laid: list[Laid] = []
        for group in super().groups():
            if self.chance.random() < 0.5:
                laid.append(group)
                continue
            some = self.some(known)
            more = self.chance.sample(names, self.chance.randint(0, 2))
            every = tuple(dict.fromkeys((*group.columns, *more)))
            laid.append(replace(group, columns=every, rows=some))
            laid.append(replace(group, rows=some, rest_of=len(laid) - 1))
        for _ in range(self.chance.randint(1, 2)):
            columns = tuple(self.chance.sample(names, self.chance.randint(1, len(names))))
            laid.append(Laid(columns, order=(columns[0],) if columns[0] in ("id", "n") else (), rows=self.some(known)))
        return laid

    def new_rows(self, count: int) -> list[Row]:
        # Of files with NaN Spark's own filters lose rows, and of other files others: x > 0.5 holds for NaN.
        rows = super().new_rows(count)
        return [{name: 0.75 if value != value else value for name, value in row.items()} for row in rows]

    def some(self, known: list[Feature]) -> FeatureSet:
        return FeatureSet("rows", tuple(self.chance.sample(known, self.chance.randint(1, len(known)))))


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)])
def test_a_random_life(spark, enabled, tmp_path, seed):
    chance = random.Random(seed)
    life = CopiedLife(spark, tmp_path / "table", chance)
    steps = ["load"]
    read, whole = life.check("load")
    for _ in range(STEPS):
        steps.append(life.step())
        more, all_rows = life.check(f"{seed}: {steps}")
        read, whole = read + more, whole + all_rows
    assert read < whole, steps
    life.check_without_skipped()
