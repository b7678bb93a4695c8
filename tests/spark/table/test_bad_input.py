"""Whatever is damaged, changed, missing or unexpected: the query is right, and someone is told."""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidestep
from sidestep.errors import SidestepError, SidestepWarning
from sidestep.prune import analysis
from sidestep.spark.jvm.bridge import check_session
from sidestep.spark.rule import planner
from tests.spark.tables import files_read, names, rows_of, set_age, settings, switched_off, write_file
from tests.store.sealed import rewrite

ALL = names(range(4))


@pytest.fixture
def t(spark, tmp_path):
    """Four indexed files of ten ids each."""
    root = tmp_path / "t"
    for file in range(4):
        write_file(root / f"f{file}.parquet", decade(file), compression="none")
    sidestep.index(spark, str(root))
    return root


def decade(number: int, **more) -> pa.Table:
    ids = pa.array(range(10 * number, 10 * number + 10), pa.int64())
    return pa.table({"id": ids, "s": [f"k{i.as_py():03d}" for i in ids], **more})


def few(spark, root):
    return spark.read.parquet(str(root)).where("id < 5")


def check(spark, root, read: list[str], condition: str = "id < 5") -> None:
    """A fresh query gives what it gives with skipping off, and reads these files."""
    with switched_off(spark):
        expected = rows_of(spark.read.parquet(str(root)).where(condition))
    df = spark.read.parquet(str(root)).where(condition)
    assert rows_of(df) == expected
    assert files_read(df) == [read]


def index_files(root: Path) -> list[Path]:
    return sorted((root / "_sidestep").glob("_index-*.sidestep"))


# ---- the index itself


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "middle", "other Parquet"])
def test_a_damaged_index_file_is_left_out_with_a_warning(spark, enabled, t, damage):
    (file,) = index_files(t)
    whole = file.read_bytes()
    match damage:
        case "cut":
            file.write_bytes(whole[: len(whole) // 2])
        case "empty":
            file.write_bytes(b"")
        case "garbage":
            file.write_bytes(b"nonsense" * 100)
        case "middle":
            file.write_bytes(whole[:4] + b"\xff" * 300 + whole[304:])
        case "other Parquet":
            pq.write_table(pa.table({"path": ["f0.parquet"], "id": [1]}), file)
    with pytest.warns(SidestepWarning, match="index-"):
        check(spark, t, ALL)


def test_a_half_written_index_beside_a_whole_one_harms_no_one(spark, enabled, t):
    (file,) = index_files(t)
    (t / "_sidestep" / file.name.replace("index-00000001", "index-00000002")).write_bytes(file.read_bytes()[:500])
    (t / "_sidestep" / "index-00000003.tmp").write_bytes(b"PAR1")
    with pytest.warns(SidestepWarning, match="00000002.*is left out: it is damaged"):
        check(spark, t, ["f0"])


def test_an_index_of_a_newer_format_is_left_out_and_says_upgrade(spark, enabled, t):
    (file,) = index_files(t)
    rewrite(file, metadata={"sidestep.format": "999"})
    with pytest.warns(SidestepWarning, match="newer than this sidestep.*upgrade"):
        check(spark, t, ALL)


def test_an_index_that_goes_away_between_queries_is_forgotten(spark, enabled, t):
    check(spark, t, ["f0"])
    shutil.rmtree(t / "_sidestep")
    check(spark, t, ALL)
    sidestep.index(spark, str(t))
    check(spark, t, ["f0"])


def test_the_index_may_be_elsewhere(spark, t, tmp_path):
    shutil.rmtree(t / "_sidestep")
    elsewhere = str(tmp_path / "indexes")
    sidestep.index(spark, str(t), index_dir=elsewhere)
    assert not (t / "_sidestep").exists()
    with sidestep.enable(spark):
        check(spark, t, ALL)
    with sidestep.enable(spark, index_dir=elsewhere):
        check(spark, t, ["f0"])
        with sidestep.enable(spark, index_dir=str(tmp_path / "nowhere")):
            check(spark, t, ALL)


# ---- the data under it


def test_a_rewritten_file_of_another_size_is_read(spark, enabled, t):
    write_file(t / "f3.parquet", {"id": range(3), "s": ["a", "b", "c"]})
    check(spark, t, ["f0", "f3"])


def test_a_rewritten_file_of_the_same_size_is_read(spark, enabled, t):
    size = (t / "f3.parquet").stat().st_size
    shutil.copyfile(t / "f0.parquet", t / "f3.parquet")
    set_age(t / "f3.parquet", 5)
    assert (t / "f3.parquet").stat().st_size == size
    check(spark, t, ["f0", "f3"])


@pytest.mark.parametrize("same_size", [True, False])
def test_a_file_rewritten_in_place_after_spark_listed_it_is_read(spark, enabled, t, same_size):
    frame = spark.read.parquet(str(t))
    assert frame.where("id < 5").count() == 5
    if same_size:
        assert (t / "f0.parquet").stat().st_size == (t / "f3.parquet").stat().st_size
        shutil.copyfile(t / "f0.parquet", t / "f3.parquet")
    else:
        pq.write_table(decade(0), t / "f3.parquet", use_dictionary=False)
    with switched_off(spark):
        expected = frame.where("id < 5").count()
    assert expected == 10
    assert frame.where("id < 5").count() == 10
    assert frame.where("id >= 30").count() == 0


def test_a_file_rewritten_and_indexed_again_after_spark_listed_it_is_read(spark, enabled, t):
    frame = spark.read.parquet(str(t))
    assert frame.where("id < 5").count() == 5
    shutil.copyfile(t / "f0.parquet", t / "f3.parquet")
    set_age(t / "f3.parquet", 5)
    sidestep.index(spark, str(t))
    assert frame.where("id < 5").count() == 10
    assert frame.where("id BETWEEN 30 AND 39").count() == 0


def test_a_new_file_is_unknown_and_read(spark, enabled, t):
    write_file(t / "f4.parquet", decade(0))
    check(spark, t, ["f0", "f4"])
    assert sidestep.explain(few(spark, t)).scans[0].unknown_files == 1
    sidestep.index(spark, str(t))
    check(spark, t, ["f0", "f4"])
    check(spark, t, ["f3"], "id > 35")


def test_a_removed_file_leaves_the_others_known(spark, enabled, t):
    (t / "f2.parquet").unlink()
    check(spark, t, ["f0"])
    check(spark, t, ["f1", "f3"], "id > 15")


def test_files_that_traded_places_are_read_right(spark, enabled, t):
    os.rename(t / "f0.parquet", t / "swap")
    os.rename(t / "f3.parquet", t / "f0.parquet")
    os.rename(t / "swap", t / "f3.parquet")
    set_age(t / "f0.parquet", 3)
    set_age(t / "f3.parquet", 4)
    check(spark, t, ["f0", "f3"])


def test_a_column_that_vanished_from_a_rewritten_file_is_null_there(spark, enabled, t):
    write_file(t / "f3.parquet", {"s": ["x"]})
    frame = spark.read.schema("id BIGINT, s STRING").parquet(str(t))
    df = frame.where("id IS NULL")
    assert df.count() == 1
    assert files_read(df) == [["f3"]]


def test_a_column_that_never_was_in_the_files_skips_nothing_wrong(spark, enabled, t):
    frame = spark.read.schema("id BIGINT, s STRING, extra INT").parquet(str(t))
    for condition, rows in (("extra IS NULL", 40), ("extra IS NULL AND id < 5", 5), ("extra = 1", 0)):
        df = frame.where(condition)
        assert df.count() == rows, condition


@pytest.mark.parametrize(
    ("declared", "condition"), [("DOUBLE", "x < 2.5"), ("DECIMAL(20, 2)", "x < 2.5"), ("LONG", "x < 3")]
)
def test_a_column_read_as_a_wider_type_than_indexed_gives_the_right_rows(spark, enabled, tmp_path, declared, condition):
    for file in range(3):
        ids = range(10 * file, 10 * file + 10)
        write_file(tmp_path / "t" / f"f{file}.parquet", {"x": pa.array(ids, pa.int32())})
    sidestep.index(spark, str(tmp_path / "t"))
    frame = spark.read.schema(f"x {declared}").parquet(str(tmp_path / "t"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidestepWarning)
        assert frame.where(condition).count() == 3
        assert frame.where(f"NOT ({condition})").count() == 27


def test_a_column_whose_type_changed_in_new_files_is_read_right(spark, enabled, t):
    write_file(t / "f4.parquet", {"id": pa.array([1, 2, 100], pa.int32()), "s": ["a", "b", "c"]})
    check(spark, t, ["f0", "f4"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidestepWarning)
        sidestep.index(spark, str(t))
        check(spark, t, ["f0", "f4"])
        check(spark, t, ["f3", "f4"], "id > 35")


def test_names_that_differ_in_case_alone_are_the_same_to_spark(spark, enabled, t):
    write_file(t / "f4.parquet", {"ID": pa.array([1, 100], pa.int64()), "s": ["a", "b"]})
    sidestep.index(spark, str(t))
    frame = spark.read.schema("id BIGINT, s STRING").parquet(str(t))
    assert frame.where("id < 5").count() == 6
    assert frame.where("ID = 100").count() == 1
    other = spark.read.schema("Id BIGINT, S STRING").parquet(str(t))
    assert other.where("id < 5").count() == 6
    assert other.where("id IS NULL").count() == 0
    with settings(spark, spark__sql__caseSensitive="true"):
        assert spark.read.schema("id BIGINT, s STRING").parquet(str(t)).where("id IS NULL").count() == 2
        assert spark.read.schema("Id BIGINT, s STRING").parquet(str(t)).where("Id IS NULL").count() == 42


def test_a_damaged_data_file_does_not_stop_the_others_from_being_indexed(spark, enabled, t):
    (t / "f4.parquet").write_bytes(b"PAR1 not really PAR1")
    set_age(t / "f4.parquet", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidestepWarning)
        sidestep.index(spark, str(t))
    frame = spark.read.schema("id BIGINT, s STRING").parquet(str(t))
    with pytest.raises(Exception, match="f4"):
        frame.where("id < 5").collect()
    with settings(spark, spark__sql__files__ignoreCorruptFiles="true"):
        assert frame.where("id < 5").count() == 5


# ---- what cannot be indexed, and sessions that cannot be used


def test_a_missing_path_is_said_to_be_missing(spark, tmp_path):
    with pytest.raises(SidestepError, match=r"nothing at .*nowhere"):
        sidestep.index(spark, str(tmp_path / "nowhere"))
    with pytest.raises(SidestepError, match=r"nothing at .*nowhere"):
        sidestep.read(spark, str(tmp_path / "nowhere"))
    with pytest.raises(SidestepError):
        sidestep.index(spark, "no_such_table")


def test_what_is_not_parquet_is_said_to_be_not_parquet(spark, tmp_path):
    (tmp_path / "t").mkdir()
    with pytest.raises(SidestepError, match="no data files"):
        sidestep.index(spark, str(tmp_path / "t"))
    (tmp_path / "t" / "data.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SidestepError, match="not a Parquet file"):
        sidestep.index(spark, str(tmp_path / "t"))


def test_an_unknown_column_is_named(spark, t):
    with pytest.raises(SidestepError, match="no column nope; it has id, s"):
        sidestep.index(spark, str(t), columns=["id", "nope"])


def test_a_spark_connect_session_is_refused_with_a_way_out():
    remote: Any = SimpleNamespace(version="4.3.0", client=object())
    for call in (check_session, sidestep.enable):
        with pytest.raises(SidestepError, match=r"Spark Connect.*remote"):
            call(remote)


@pytest.mark.parametrize("version", ["3.5.1"])
def test_another_version_of_spark_is_refused_with_a_way_out(version):
    session: Any = SimpleNamespace(version=version, _jsparkSession=object())
    with pytest.raises(SidestepError, match=rf"runs Spark {version}.*pip install"):
        check_session(session)


# ---- the rule itself


def test_an_error_in_the_rule_leaves_the_query_right_and_is_told(spark, t, monkeypatch, caplog):
    def broken(self, *_):
        raise RuntimeError("the moon is in the wrong place")

    with sidestep.enable(spark) as state, caplog.at_level(logging.WARNING, logger="sidestep"):
        monkeypatch.setattr(planner.Planner, "decide", broken)
        df = few(spark, t)
        assert df.count() == 5
        assert files_read(df) == [ALL]
        assert "the moon is in the wrong place" in caplog.text
        assert "the moon is in the wrong place" in state.last_problem
        monkeypatch.undo()
        explanation = sidestep.explain(few(spark, t))
        assert "the moon is in the wrong place" in explanation.problem
        assert "the moon is in the wrong place" in str(explanation)
        assert files_read(few(spark, t)) == [["f0"]]


@pytest.mark.parametrize("answer", ["nonsense", "1,2\t99\tAAAA", "1\t1", "\t\t\t", "1\t1\t***"])
def test_an_answer_that_makes_no_sense_is_ignored(spark, t, monkeypatch, answer):
    with sidestep.enable(spark):
        monkeypatch.setattr(planner, "_answers", lambda decided: iter([answer]))
        df = few(spark, t)
        assert df.count() == 5
        assert files_read(df) == [ALL]


def test_an_error_in_explain_is_not_hidden_but_the_query_runs(spark, t, monkeypatch):
    with sidestep.enable(spark):
        monkeypatch.setattr(analysis, "normalize", lambda _: 1 / 0)
        assert few(spark, t).count() == 5
