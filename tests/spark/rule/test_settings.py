"""Options of enable and settings of a session: which stages run, how far they go, and what becomes of bad values."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

import sidestep
from sidestep.errors import SidestepError
from sidestep.prune.analysis import Settings
from sidestep.spark.rule.settings import STAGE_NAMES, session_settings
from tests.spark.tables import files_read, names, settings, write_file

BASE = Settings()


@pytest.fixture(autouse=True)
def nothing_is_chosen_later(spark):
    """As by default: tables this small are not worth it."""
    with settings(spark, spark__sidestep__selectors__leastBytes="8388608"):
        yield


# ---- reading them


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("", set()),
        ("enabled=true", set()),
        ("induced=FALSE", {"induced"}),
        ("stages.induced=false", {"induced"}),
        ("stages.reuse=false\tstages.static=False", {"static", "reuse"}),
        ("stages.reuse=true", set()),
    ],
)
def test_stages_are_switched_by_name(text, off):
    assert session_settings(text, BASE).off == off


def test_a_session_may_switch_on_what_was_enabled_without():
    assert session_settings("induced=true", BASE.without("induced")).off == set()


def test_how_far_induced_predicates_go():
    found = session_settings("induced.kappa=7\tinduced.maxRanges=20\tinduced.seconds=0.5", BASE).induced
    assert (found.kappa, found.max_ranges, found.seconds) == (7, 20, 0.5)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("induced.kappa=0", "kappa must be a number of at least 1, not 0"),
        ("induced.kappa=five", "invalid literal"),
        ("induced.maxRanges=2.5", "invalid literal"),
        ("induced.seconds=-1", "seconds must be a number of at least 0"),
        ("induced.seconds=nan", "seconds must be a number of at least 0"),
        ("induced.seconds=soon", "could not convert"),
        ("induced.range=4", "there are spark.sidestep.induced.kappa, "),
        ("stages.indcued=false", f"there are {', '.join(STAGE_NAMES)}"),
        ("stages.reuse=perhaps", "true or false"),
    ],
)
def test_a_bad_setting_is_told_of_once_and_changes_nothing(text, why, caplog):
    with caplog.at_level(logging.WARNING, logger="sidestep"):
        assert session_settings(f"{text}\tinduced.kappa=3", BASE).induced.kappa == 3
        session_settings(f"{text}\tinduced.kappa=4", BASE)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"spark.sidestep.{text} is ignored: ")
    assert why in record.getMessage()
    assert session_settings(text, BASE) == BASE


# ---- in a session


@pytest.fixture(scope="module")
def joined(spark, tmp_path_factory):
    """fact: ten files of a hundred keys; dim: one row group per colour, with every hundredth key of its half."""
    root = tmp_path_factory.mktemp("settings")
    for number in range(10):
        keys = pa.array(range(100 * number, 100 * number + 100))
        write_file(root / "fact" / f"f{number}.parquet", {"k": keys})
    for number, colour in enumerate(["red", "green"]):
        keys = pa.array(range(500 * number, 500 * number + 500, 200))
        write_file(root / "dim" / f"d{number}.parquet", {"k": keys, "colour": [colour] * len(keys)})
    for name in ("fact", "dim"):
        sidestep.index(spark, str(root / name), synopses={"k": "range-set:20"} if name == "dim" else None)
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)
    yield "SELECT * FROM fact JOIN dim USING (k) WHERE colour = 'red'"
    for name in ("fact", "dim"):
        spark.catalog.dropTempView(name)


def fact_files(spark, query: str) -> list[str]:
    return files_read(spark.sql(query))[1]


def test_settings_take_effect_for_later_queries_and_win_over_options(spark, joined):
    with sidestep.enable(spark, max_ranges=1):
        assert fact_files(spark, joined) == names(range(5))
        with settings(spark, **{"spark__sidestep__induced__maxRanges": "20"}):
            assert fact_files(spark, joined) == names([0, 2, 4])
        with settings(spark, **{"spark__sidestep__induced__seconds": "0"}):
            assert fact_files(spark, joined) == names(range(10))
        assert fact_files(spark, joined) == names(range(5))


def test_other_options_take_the_place_of_earlier_ones(spark, joined):
    with sidestep.enable(spark, max_ranges=1) as one, sidestep.enable(spark, max_ranges=30) as other:
        assert one is not other
        assert sidestep.enable(spark, max_ranges=30) is other
        assert fact_files(spark, joined) == names([0, 2, 4])


@pytest.mark.parametrize("option", ["kappa", "max_ranges", "induced_seconds"])
def test_bad_options_are_refused(spark, option):
    options: dict[str, Any] = {option: -1}
    with pytest.raises(SidestepError, match="must be a number of at least"):
        sidestep.enable(spark, **options)


def test_stages_are_switched_off_and_explain_says_so(spark, joined):
    with sidestep.enable(spark):
        explanation = sidestep.explain(joined)
        assert [stage.name for stage in explanation.stages] == list(STAGE_NAMES)
        assert "stages: denormalized " in str(explanation)
        assert "reuse " in explanation._repr_html_()
        assert [stage["off"] for stage in explanation.to_dict()["stages"]] == [False] * len(STAGE_NAMES)
        with settings(spark, spark__sidestep__stages__induced="false"):
            assert fact_files(spark, joined) == names(range(10))
            assert "induced off" in str(sidestep.explain(joined))
        with settings(spark, spark__sidestep__stages__static="false", spark__sidestep__induced__smallRows="0"):
            assert files_read(spark.sql(joined)) == [["d0", "d1"], names([0, 2, 4, 5, 7, 9])]
            assert "static off" in str(sidestep.explain(joined))
        with settings(spark, **{"spark__sidestep__induced__seconds": "0"}):
            assert "(stopped by its time budget)" in str(sidestep.explain(joined))


def test_a_bad_setting_fails_no_query(spark, joined, caplog):
    with sidestep.enable(spark) as state, caplog.at_level(logging.WARNING, logger="sidestep"):
        with settings(spark, **{"spark__sidestep__induced__kappa": "a\tlot\nof"}):
            assert fact_files(spark, joined) == names([0, 2, 4])
            assert fact_files(spark, joined) == names([0, 2, 4])
        assert state.last_problem == ""
    assert caplog.text.count("spark.sidestep.induced.kappa") == 1


def test_explain_and_changes_go_by_the_settings_of_their_own_session(spark, tmp_path):
    """Making a session makes it the active one, which settings were once read from."""
    at = pa.array([0, 3_600_000_000 * 20], pa.timestamp("us", tz="UTC"))
    for number in range(2):
        write_file(tmp_path / "t" / f"f{number}.parquet", {"at": at.slice(number, 1), "k": [number]})
    sidestep.index(spark, str(tmp_path / "t"))
    sidestep.load(spark, str(tmp_path / "t"), str(tmp_path / "laid"), order=["k"], min_size=1)
    with settings(spark, spark__sql__session__timeZone="UTC", spark__sidestep__stages__induced="false"):
        other = spark.newSession()
        other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        frame = spark.read.parquet(str(tmp_path / "t")).where("to_date(at) = DATE'1970-01-01'")
        with sidestep.enable(spark):
            explanation = sidestep.explain(frame)
            assert "induced off" in str(explanation)
            (scan,) = explanation.scans
            assert scan.files is not None
            assert scan.files.kept == 2
        assert sidestep.delete(spark, str(tmp_path / "laid"), "to_date(at) = DATE'1970-01-01'").rows == 2
