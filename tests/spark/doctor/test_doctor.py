"""What the doctor finds, and what it says to do; never what a secret is."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import sidestep
from sidestep.spark.doctor import surroundings
from sidestep.spark.jvm.versions import READERS
from tests.cli.test_commands import run
from tests.render.markup import check


def states(diagnosis, about):
    return [(one.state, one.found, one.advice) for one in diagnosis.findings if one.about == about]


def write(folder, number):
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": range(10 * number, 10 * number + 10)}), folder / f"{number}.parquet")
    os.utime(folder / f"{number}.parquet", (1_000_000_000 + number, 1_000_000_000 + number))


def test_a_healthy_place(spark, tmp_path):
    for number in range(3):
        write(tmp_path / "t", number)
    table = str(tmp_path / "t")
    before = sidestep.doctor(spark, table)
    assert states(before, table) == [
        ("warn", "0 of 3 files indexed: queries read everything", f"sidestep index {table}")
    ]
    sidestep.index(spark, table)
    diagnosis = sidestep.doctor(spark, table)
    assert diagnosis.well
    ((state, found, _),) = states(diagnosis, table)
    assert (state, found.split(";")[0]) == ("good", "3 of 3 files indexed")
    assert states(diagnosis, "bridge and rule")[0][0] == "good"
    assert states(diagnosis, "Spark")[0][:2] == ("good", f"{spark.version}; tested with 4.0 to 4.3")
    workers = [one for one in diagnosis.findings if one.about.startswith("worker ")]
    assert workers
    assert all(f"sidestep {sidestep.__version__}" in one.found for one in workers)
    assert states(diagnosis, "this session")[0][2] == "sidestep.enable(spark)"
    with sidestep.enable(spark):
        assert states(sidestep.doctor(spark), "this session") == [("good", "sidestep is enabled in it", "")]
    for shown in (str(diagnosis), check(diagnosis._repr_html_()).text):
        assert any("bridge and rule" in line for line in (shown.splitlines() if isinstance(shown, str) else shown))
    write(tmp_path / "t", 3)
    ((state, found, advice),) = states(sidestep.doctor(None, table), table)
    assert (state, advice.split(";")[0]) == ("warn", f"sidestep index {table}")
    assert "the other 1 are always read" in found


def test_what_is_wrong_with_one_table_hides_no_other(tmp_path):
    write(tmp_path / "t", 0)
    diagnosis = sidestep.doctor(None, str(tmp_path / "none"), str(tmp_path / "t"))
    assert not diagnosis.well
    assert states(diagnosis, str(tmp_path / "none"))[0][0] == "bad"
    assert states(diagnosis, str(tmp_path / "t"))[0][0] == "warn"
    assert diagnosis.advice[0] == "is the path right, and may this user read it?"
    assert json.loads(json.dumps(diagnosis.to_dict()))["well"] is False


def test_credentials_are_named_and_never_told(spark, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://hush-2")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.access.key", "hush-3")
    try:
        (finding,) = surroundings.look_at_credentials(spark, ["s3a://bucket/t", "/data/t", "s3://bucket/u"])
    finally:
        hadoop.unset("fs.s3a.access.key")
    assert finding.state == "good"
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "fs.s3a.access.key"):
        assert name in finding.found
    assert "hush" not in str(sidestep.Diagnosis((finding,)))
    for name in [name for name in os.environ if name.startswith("GOOGLE_")]:
        monkeypatch.delenv(name)
    (finding,) = surroundings.look_at_credentials(None, ["gs://bucket/t"])
    assert (finding.state, bool(finding.advice)) == ("warn", True)
    assert list(surroundings.look_at_credentials(None, ["/data/t"])) == []


def test_packages_that_are_missing(monkeypatch):
    monkeypatch.setattr(surroundings, "NEEDED", ("pyarrow", "no-such-package"))
    found = {one.about: one for one in surroundings.look_at_python()}
    assert found["pyarrow"].state == "good"
    assert (found["no-such-package"].state, found["no-such-package"].advice) == ("bad", "pip install no-such-package")


def test_a_version_that_is_too_old_and_a_bridge_that_fails(spark, monkeypatch):
    monkeypatch.setattr(surroundings, "is_too_old", lambda version: True)
    (finding,) = surroundings.look_at_spark(spark)
    assert (finding.state, finding.advice) == ("bad", "pip install 'pyspark==4.3.*'")
    monkeypatch.undo()

    def fail(*_):
        raise sidestep.SidestepError("It does not compile.")

    monkeypatch.setattr(surroundings, "try_out", fail)
    found = {one.about: one for one in surroundings.look_at_spark(spark)}
    assert found["bridge and rule"].found == "It does not compile."
    assert not sidestep.Diagnosis(tuple(found.values())).well


def test_the_readers_it_speaks_of_are_those_that_are_tested():
    """Set-up fetches the same builds, and the jars of its environments are understood by their names."""
    script = (Path(__file__).parents[3] / "scripts" / "lakes.sh").read_text()
    (delta,) = re.findall(r"delta=io\.delta:delta-spark_\S+:(\S+)", script)
    iceberg = dict(re.findall(r"iceberg-spark-runtime-(4\.\d)_2\.13:(\S+) ;;", script))
    assert {"Delta": dict.fromkeys(("4.0", "4.1", "4.2"), delta), "Iceberg": iceberg} == READERS
    for spark, build in iceberg.items():
        jar = f"org.apache.iceberg_iceberg-spark-runtime-{spark}_2.13-{build}.jar"
        assert surroundings.describe_jar("Iceberg", jar, f"{spark}.1").state == "note"
        other = surroundings.describe_jar("Iceberg", jar, "4.2.1")
        assert (other.state, other.found) == ("warn", f"{jar}, which is built for Spark {spark}")


def test_a_session_of_spark_connect_is_told():
    (finding,) = surroundings.look_at_spark(object())  # type: ignore[arg-type]
    assert (finding.state, "Connect" in finding.found) == ("bad", True)


def test_workers_that_lack_sidestep(spark, monkeypatch, tmp_path):
    """A Python that finds no packages but those of its own library and of Spark."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{os.path.dirname(pyspark.__path__[0])}/none"\nexec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    before = spark.sparkContext.pythonExec

    @contextmanager
    def bare(context):
        context.pythonExec = str(python)
        try:
            yield
        finally:
            context.pythonExec = before

    monkeypatch.setattr(surroundings, "same_interpreter", bare)
    findings = list(surroundings.look_at_workers(spark))
    assert findings
    assert {one.state for one in findings} == {"bad"}
    assert all(one.advice for one in findings)


@pytest.fixture
def table(tmp_path):
    write(tmp_path / "t", 0)
    return tmp_path / "t"


def test_on_the_command_line(spark, table, tmp_path):
    page = tmp_path / "doctor.html"
    text = run("doctor", table, "--html", page)
    assert "sidestep works; 1 thing could be better." in text
    check(page.read_text(encoding="utf-8"))
    assert json.loads(run("doctor", table, "--json"))["well"] is True
    run("doctor", tmp_path / "none", code=1)
