"""An application with a Thrift server and a Spark Connect server in it, for tests to be clients of.

``python -m tests.spark.rule.serving FOLDER`` starts them on 127.0.0.1 over the table in ``FOLDER/t``, which it indexes,
and says their ports. Then it does what the lines of its input ask for, and answers each with a line of JSON.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import sidestep


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start_spark(home: Path, connect_port: int) -> SparkSession:
    log = home / "log4j2.properties"
    log.write_text("rootLogger.level = off\n")
    options = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={log.as_uri()} "
            f"-Dderby.stream.error.file={home / 'derby.log'}"
        ),
        "spark.local.dir": str(home / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.pyspark.python": sys.executable,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(connect_port),
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": "0",
    }
    builder = SparkSession.builder.master("local[2]").appName("sidestep-servers")
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_thrift(spark: SparkSession) -> int:
    jvm: Any = spark.sparkContext._jvm
    server = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    services = server.startWithContext(spark._jsparkSession.sqlContext()).getServices()
    ports = [service.getPortNumber() for service in services if "Thrift" in service.getName()]
    return int(ports[0])


def executions(spark: SparkSession) -> Iterator[dict[str, Any]]:
    """Every query that Spark ran, with what its own metrics say of the files that its scans read."""
    spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty(10_000)
    store = spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    for number in range(found.size()):
        execution = found.apply(number)
        values, metrics = store.executionMetrics(execution.executionId()), execution.metrics()
        # Of a plan that was changed while it ran, a scan is there several times.
        scans = {
            metrics.apply(each).accumulatorId()
            for each in range(metrics.size())
            if metrics.apply(each).name() == "number of files read"
        }
        if scans:
            read = [int(values.get(scan).get().replace(",", "")) for scan in scans]
            yield {"what": str(execution.description()), "files": sum(read)}


def main() -> None:
    home = Path(sys.argv[1])
    table = str(home / "t")
    port = free_port()
    spark = start_spark(home, port)
    sidestep.index(spark, table)
    state = sidestep.enable(spark, everywhere=True, record=str(home / "recording.jsonl"))
    sidestep.register(spark, "registered", table)
    print(json.dumps({"connect": port, "thrift": start_thrift(spark)}), flush=True)
    for line in sys.stdin:
        wish = line.strip()
        if wish == "executions":
            print(json.dumps(list(executions(spark))), flush=True)
        elif wish == "problem":
            print(json.dumps(state.last_problem), flush=True)
        elif wish == "disable":
            sidestep.disable(spark)
            print(json.dumps("disabled"), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
