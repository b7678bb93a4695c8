"""Clients of servers that run in an application where sidestep is enabled everywhere: real ones, in other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from tests.spark.tables import write_file

pytest.importorskip("grpc", reason="Spark Connect's clients need grpcio")
pytestmark = [
    pytest.mark.long,  # a server of its own, and clients in processes of theirs
    pytest.mark.skipif(pyspark.__version__ < "4.1", reason="its clients need other packages"),
]
FILES = 4
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
import sidestep

address, table = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
rows = spark.read.parquet(table)
answers = [
    sorted(row.id for row in spark.sql(f"SELECT id FROM parquet.`{table}` WHERE id < 5").collect()),
    rows.where("id > 35").count(),
]
spark.conf.set("spark.sidestep.enabled", "false")
answers.append(rows.where("id > 36").count())
try:
    sidestep.index(spark, table)
except sidestep.SidestepError as problem:
    answers.append(str(problem))
print(json.dumps(answers))
"""


class Server:
    """The application that serves, to be asked what its Spark has read."""

    def __init__(self, home: Path) -> None:
        self.table = str(home / "t")
        self.log = home / "recording.jsonl"
        command = [sys.executable, "-m", "tests.spark.rule.serving", str(home)]
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        folder = Path(__file__).parents[3]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(folder / "src")))}
        self.process = subprocess.Popen(command, text=True, cwd=home, env=environment, **streams)
        line = self._input.readline()
        if not line:
            pytest.fail(f"the servers did not start: {self.process.communicate()[1][-3000:]}")
        self.ports = json.loads(line)

    @property
    def _input(self) -> Any:
        return self.process.stdout

    def ask(self, wish: str) -> Any:
        output: Any = self.process.stdin
        output.write(f"{wish}\n")
        output.flush()
        return json.loads(self._input.readline())

    def read_since(self, before: int) -> list[int]:
        """The files that each query read, after the first so many."""
        return [execution["files"] for execution in self.ask("executions")[before:]]

    def stop(self) -> None:
        self.process.communicate(timeout=120)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("servers")
    for file in range(FILES):
        write_file(home / "t" / f"f{file}.parquet", {"id": pa.array(range(10 * file, 10 * file + 10))})
    server = Server(home)
    yield server
    server.stop()


def beeline(server: Server, *statements: str) -> list[str]:
    """What Hive's own client prints for statements, each on a connection that they share."""
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    command = [str(java), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", str(jars), "org.apache.hive.beeline.BeeLine"]
    command += ["-u", f"jdbc:hive2://127.0.0.1:{server.ports['thrift']}/default", "--silent=true", "--showHeader=false"]
    command += ["--outputformat=csv2", *(part for each in statements for part in ("-e", each))]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode == 0, done.stderr
    return [line.rpartition("> ")[2] for line in done.stdout.splitlines() if line]


def connect(server: Server) -> list[Any]:
    command = [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{server.ports['connect']}", server.table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_a_jdbc_client_of_the_thrift_server_skips_by_its_own_settings(server):
    few = f"SELECT id FROM parquet.`{server.table}` WHERE id < 5 ORDER BY id"
    before = len(server.ask("executions"))
    named = "SELECT id FROM registered WHERE id < 5 ORDER BY id"
    printed = beeline(server, few, named, "SET spark.sidestep.enabled=false", few)
    expected = [str(number) for number in range(5)]
    assert printed == [*expected, *expected, "spark.sidestep.enabled,false", *expected]
    assert server.read_since(before) == [1, 1, FILES]
    assert server.ask("problem") == ""


def test_a_connect_client_skips_by_its_own_settings_and_is_told_where_to_call_sidestep(server):
    before, recorded = len(server.ask("executions")), len(server.log.read_text().splitlines())
    *answers, said = connect(server)
    assert answers == [list(range(5)), 4, 3]
    assert server.read_since(before) == [1, 1, FILES]
    assert "application that runs the Connect server" in said
    assert "everywhere=True" in said
    assert server.ask("problem") == ""
    assert len(server.log.read_text().splitlines()) == recorded + 3, "their queries are recorded"


def test_switched_off_in_the_application_it_is_off_for_clients(server):
    assert server.ask("disable") == "disabled"
    before = len(server.ask("executions"))
    *answers, _ = connect(server)
    assert answers == [list(range(5)), 4, 3]
    assert server.read_since(before) == [FILES] * 3
