"""A workload that moves: what status says of it, and which units optimize lays out anew."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidestep
from sidestep.errors import SidestepError

pytestmark = pytest.mark.spark

ROWS, SIZE = 6_000, 100


def by_x(first: int, count: int = 60) -> list[str]:
    return [f"SELECT count(*) FROM t WHERE x BETWEEN {at} AND {at + 49}" for at in range(first, first + 50 * count, 50)]


def by_y(count: int = 60) -> list[str]:
    return [f"SELECT sum(x) FROM t WHERE y BETWEEN {at} AND {at + 99}" for at in range(0, 100 * count, 100)]


@pytest.fixture
def laid_out(spark, tmp_path):
    draw = np.random.default_rng(3)
    source = tmp_path / "t"
    source.mkdir()
    table = pa.table({"x": draw.permutation(ROWS), "y": draw.permutation(ROWS), "z": draw.integers(0, 9, ROWS)})
    pq.write_table(table, source / "0.parquet")
    target = str(tmp_path / "laid")
    sidestep.load(spark, str(source), target, log=by_x(0), min_size=SIZE, name="t", unit_rows=1_500)
    return target


def test_queries_that_stay_move_nothing(spark, laid_out):
    before = sidestep.status(None, laid_out)
    assert before.log_name == "t"  # so that later logs need not be told
    drift = sidestep.status(spark, laid_out, log=by_x(0)[::-1]).drift
    assert drift is not None
    assert drift.now < 0.05
    assert drift.worthwhile == (), str(drift)
    assert "hardly serve them better" in str(drift)
    report = sidestep.optimize(spark, laid_out, log=by_x(0)[::-1])
    assert (report.batches, report.version) == (0, before.version)
    of_the_copy = [text.replace("FROM t ", "FROM laid ") for text in by_x(0)[::-1]]
    assert sidestep.status(spark, laid_out, log=of_the_copy).drift == drift


def test_queries_that_moved_are_told_and_served(spark, laid_out):
    drift = sidestep.status(spark, laid_out, log=by_y(), name="t").drift
    assert drift is not None
    assert drift.expected is not None
    assert drift.expected < 0.05
    assert drift.now > 0.5
    assert drift.anew < 0.1
    assert len(drift.worthwhile) == len(drift.units) > 1
    rows = sidestep.read(spark, laid_out).count()
    report = sidestep.optimize(spark, laid_out, log=by_y())
    assert report.drift == drift
    assert (report.rows, report.files_untouched) == (ROWS, 0)
    assert "Laid out anew by" in str(report)
    assert report.to_dict()["drift"]["worthwhile"] == list(drift.worthwhile)
    after = sidestep.status(spark, laid_out, log=by_y(), name="t").drift
    assert after is not None
    assert after.now < 0.1
    assert after.worthwhile == ()
    assert sidestep.status(None, laid_out).log_name == "t"
    assert sidestep.read(spark, laid_out).count() == rows


def test_only_units_that_gain_are_laid_out_anew(spark, laid_out):
    """Queries by x go to its first half; those that now ask for y ask for it in the second half of x only."""
    half = ROWS // 2
    moved = [f"{text} AND x >= {half}" for text in by_y()]
    log = [text for pair in zip(by_x(0), moved, strict=True) for text in pair]
    report = sidestep.optimize(spark, laid_out, log=log, name="t")
    assert report.drift is not None
    assert 0 < len(report.drift.worthwhile) < 4
    assert 0 < report.rows < ROWS
    assert report.files_untouched > 0
    with sidestep.enable(spark):
        frame = sidestep.read(spark, laid_out).where(f"y BETWEEN 500 AND 599 AND x >= {half}")
        assert frame.count() == sum(
            1 for row in sidestep.read(spark, laid_out).collect() if 500 <= row.y < 600 and row.x >= half
        )


def test_a_log_and_features_do_not_go_together(spark, laid_out):
    with pytest.raises(SidestepError, match="Give either a log"):
        sidestep.optimize(spark, laid_out, log=by_x(0), by="z", name="t")
    with pytest.raises(SidestepError, match="give a session"):
        sidestep.status(None, laid_out, log=by_x(0))
