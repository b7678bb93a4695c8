from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.harness import Race, Timing, machine, race

SECONDS = st.floats(min_value=1e-6, max_value=1e3)


def test_variants_run_in_turns_and_take_turns_to_be_first():
    ran: list[str] = []
    result = race({name: (lambda name=name: ran.append(name)) for name in "abc"}, runs=3, warmups=1)  # type: ignore[misc]
    assert "".join(ran) == "abc" + "abc" + "bca" + "cab"
    assert [timing.name for timing in result.timings] == ["a", "b", "c"]
    assert all(len(timing.seconds) == 3 for timing in result.timings)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=9), SECONDS)
def test_ratios_are_one_for_the_baseline_and_scale_with_the_variant(pairs, factor):
    base = tuple(first for first, _ in pairs)
    measured = Race((Timing("base", base), Timing("scaled", tuple(factor * second for second in base))))
    assert measured.ratio("base") == measured.paired_ratio("base") == 1
    assert measured.ratio("scaled") == pytest.approx(factor)
    assert measured.paired_ratio("scaled") == pytest.approx(factor)


def test_the_figures_are_json_and_the_table_has_a_row_per_variant():
    measured = Race((Timing("off", (2.0, 4.0)), Timing("on", (1.0, 1.0))))
    assert json.loads(json.dumps(measured.figures()))["on"]["ratio"] == pytest.approx(1 / 3)
    assert measured.table("title").row_count == 2


@pytest.mark.parametrize(("variants", "runs"), [({}, 1), ({"a": lambda: None}, 0)])
def test_a_race_without_runs_is_refused(variants, runs):
    with pytest.raises(ValueError, match="at least"):
        race(variants, runs=runs)


def test_an_unknown_variant_is_named_with_the_known_ones():
    with pytest.raises(KeyError, match="there are off"):
        Race((Timing("off", (1.0,)),)).ratio("on")


def test_the_machine_describes_itself_in_json():
    facts = json.loads(json.dumps(machine()))
    assert facts["cores"] >= 1
    assert facts["python"].startswith("3.")
