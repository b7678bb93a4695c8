"""``sidestep.analyze``: any kind of log in, features and a report out."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import StructType

import sidestep
from sidestep.workload import FeatureSet


def schema() -> StructType:
    return StructType.fromDDL("a int, b int, product string, revenue int")  # type: ignore[return-value]


LOG = ["SELECT a FROM t WHERE product = 'shoes' AND revenue > 32"] * 6 + [
    "SELECT a FROM t WHERE product IN ('shoes', 'shirts') AND revenue > 21"
] * 5


def test_features_of_a_list_of_statements(spark):
    found = sidestep.analyze(spark, LOG, tables={"t": schema()}, num_features=4, threshold=3)
    assert found.tables == ("t",)
    # Whatever subsumes a query counts: the wider filter subsumes all eleven.
    by_text = {str(feature): feature.weight for feature in found.features().features}
    assert by_text == {
        "product IN ('shirts', 'shoes') AND revenue > 21": 11,
        "product = 'shoes' AND revenue > 32": 6,
    }
    same = sidestep.analyze(spark, LOG, tables={"t": schema()}, num_features=4, threshold=3, miner="numpy")
    assert same.features().id == found.features().id


def test_the_report_prints_shows_and_is_data(spark, tmp_path):
    found = sidestep.analyze(spark, [*LOG, "SELEC", "SELECT x FROM t"], tables={"t": schema()}, num_features=2)
    assert "product = 'shoes'" in str(found)
    assert found.analysis.failures == 2
    data = json.loads(json.dumps(found.to_dict()))
    assert [failed["reason"].split(":")[0] for failed in data["failed"]] == ["not parsable", "unknown column `x`"]
    assert data["tables"][0]["features"]
    (saved,) = found.save_features(tmp_path / "features.json")
    assert FeatureSet.load(saved).id == found.features("t").id


def test_several_tables_are_several_feature_sets(spark, tmp_path):
    log = [f"SELECT {name}.a FROM {name} WHERE b = 1" for name in ("t", "u") for _ in range(3)]
    found = sidestep.analyze(
        spark, log, tables={"t": schema(), "u": schema()}, num_features=2, threshold=1, miner="numpy"
    )
    assert [path.name for path in found.save_features(tmp_path / "f.json")] == ["f.t.json", "f.u.json"]
    with pytest.raises(sidestep.SidestepError, match="say whose features"):
        found.features()


def test_every_kind_of_file_is_read(spark, tmp_path):
    (tmp_path / "a.sql").write_text(";\n".join(LOG))
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps({"sql": text, "count": 2}) for text in LOG) + "\nrubbish\n")
    (tmp_path / "c.csv").write_text('sql,time\n"' + LOG[0] + '",2020-01-01\n')
    found = sidestep.analyze(spark, tmp_path, tables={"t": schema()}, num_features=2, threshold=2, miner="numpy")
    assert found.analysis.queries == 11 + 22 + 1
    assert found.analysis.failures == 1


def test_a_million_repeats_are_one_query(spark, tmp_path):
    with open(tmp_path / "log.jsonl", "w") as file:
        line = json.dumps({"sql": LOG[0], "time": 1.0}) + "\n"
        for _ in range(200):
            file.write(line * 1_000)
        file.write(json.dumps({"sql": LOG[0], "time": 9.0, "count": 800_000}) + "\n")
    found = sidestep.analyze(spark, tmp_path / "log.jsonl", tables={"t": schema()}, num_features=3, threshold=10)
    assert [feature.weight for feature in found.features().features] == [1_000_000]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([], "The log is empty"),
        (["SELEC", "SELECT * FROM nowhere"], "None of the log's 2 statements"),
        (["SELECT 1"], "read no table"),
    ],
)
def test_a_log_of_no_use_is_said_to_be_so(spark, log, message):
    with pytest.raises(sidestep.SidestepError, match=message):
        sidestep.analyze(spark, log, tables={"t": schema()})


def test_a_log_without_filters_gives_no_features_and_says_why(spark):
    found = sidestep.analyze(spark, ["SELECT a FROM t"] * 3, tables={"t": schema()})
    assert len(found.features()) == 0
    assert "No query filters t" in str(found)


def test_contradictions_and_a_log_that_is_not_there(spark, tmp_path):
    found = sidestep.analyze(spark, [*LOG, "SELECT a FROM t WHERE a > 5 AND a < 3"], tables={"t": schema()})
    assert found.table("t").empty == 1
    with pytest.raises(sidestep.SidestepError, match="There is no log at"):
        sidestep.analyze(spark, tmp_path / "nothing", tables={"t": schema()})
