"""Feature sets are values: saved and read without loss, addressed by content, compared by meaning."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sidestep.errors import SidestepError
from sidestep.predicate import INTEGER, STRING, column, compare, one_of
from sidestep.workload import ExtractOptions, Feature, FeatureSet
from tests import strategies
from tests.workload.queries import extract, tpch

A, NAME = column("a", INTEGER), column("name", STRING)
ONE, TWO, THREE = (Feature((compare(A, "=", n),), weight=10 * n) for n in (1, 2, 3))


def test_the_id_is_that_of_the_content():
    found = FeatureSet("t", (ONE, TWO))
    assert found.id == FeatureSet("t", (ONE, TWO), queries=7, covered=3, threshold=2).id
    others = [
        FeatureSet("u", (ONE, TWO)),
        FeatureSet("t", (TWO, ONE)),
        FeatureSet("t", (ONE,)),
        FeatureSet("t", (ONE, dataclasses.replace(TWO, weight=21))),
    ]
    assert len({found.id, *(other.id for other in others)}) == 5


def test_the_order_and_spelling_of_predicates_make_no_difference():
    parts = (one_of(NAME, ["y", "x"]), compare(A, "=", 1))
    again = (compare(A, "=", 1), one_of(NAME, ["x", "y", "x"]))
    assert FeatureSet("t", (Feature(parts),)).id == FeatureSet("t", (Feature(again),)).id


def test_saved_and_loaded(tmp_path):
    found = extract(tpch(80), "denormalized", ExtractOptions(threshold=3))
    path = tmp_path / "features.json"
    found.save(path)
    loaded = FeatureSet.load(path)
    assert loaded == found
    assert loaded.id == found.id
    assert [entry.name for entry in tmp_path.iterdir()] == ["features.json"]


@given(st.lists(strategies.predicates(), min_size=1, max_size=3), st.integers(1, 10**12))
def test_any_predicate_survives(predicates, weight):
    found = FeatureSet("t", (Feature(tuple(predicates), weight),))
    written = json.loads(json.dumps(found.to_json()))
    assert FeatureSet.from_json(written) == found


def test_what_is_no_feature_set_is_refused(tmp_path):
    path = tmp_path / "features.json"
    with pytest.raises(SidestepError, match="could not be read"):
        FeatureSet.load(path)
    path.write_text("{")
    with pytest.raises(SidestepError, match="not JSON"):
        FeatureSet.load(path)
    path.write_text("[]")
    with pytest.raises(SidestepError, match="not a feature set"):
        FeatureSet.load(path)
    whole = FeatureSet("t", (ONE,)).to_json()
    for broken, message in (
        ({**whole, "format": 99}, "newer"),
        ({**whole, "table": "u"}, "was changed"),
        ({**whole, "features": [{"weight": 1}]}, "not a whole feature set"),
        ({**whole, "features": [{"weight": 1, "predicates": ["x"]}]}, "not a whole feature set"),
        ({**whole, "found": 3}, "not a whole feature set"),
        ({**whole, "found": {"queries": 9, "covered": 0, "threshold": 0}}, "was changed"),
        ({name: whole[name] for name in whole if name != "digest"}, "was changed"),
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(SidestepError, match=message):
            FeatureSet.load(path)
    with pytest.raises(SidestepError, match="could not be written"):
        FeatureSet("t", ()).save(tmp_path / "none" / "features.json")
    with pytest.raises(SidestepError, match="at least one predicate"):
        Feature(())


def test_subsuming_features_by_position():
    found = FeatureSet("t", (ONE, Feature((compare(A, "<", 5),)), Feature((compare(NAME, "=", "x"),))))
    assert found.subsuming(compare(A, "=", 1)) == (0, 1)
    assert found.subsuming(compare(A, "<", 9)) == ()


def test_shown():
    console = Console(width=100, record=True, file=io.StringIO())
    FeatureSet("t", (ONE, TWO), queries=40).show(console)
    text = console.export_text()
    assert "2 features of t" in text
    assert "a = 2" in text
    assert "50.0%" in text
