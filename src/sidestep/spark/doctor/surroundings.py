"""What sidestep runs on: Python and its packages, Java, Spark, formats' jars, workers, and where credentials come from.

Of settings that hold secrets, only the names are ever told.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sidestep._version import __version__
from sidestep.errors import SidestepError
from sidestep.spark.doctor.diagnosis import Finding
from sidestep.spark.jvm.sessions import leaves_session_active, same_interpreter
from sidestep.spark.jvm.versions import READERS, TESTED, is_too_old, is_untested
from sidestep.spark.rule.self_check import try_out
from sidestep.spark.rule.session import enable, state_of

NEEDED = ("pyspark", "pyarrow", "numpy", "pandas", "deltalake", "networkx")
OPTIONAL = {
    "delta-spark": "Delta's own reader and writer",
    "sqlglot": "logs in other systems' SQL",
    "fastapi": "sidestep serve",
}
LEAST_JAVA = 17
JARS = {
    "Delta": "io.delta.sql.DeltaSparkSessionExtension",
    "Iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "Hadoop's S3 connector": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}
BUILT_FOR = re.compile(r"(?:delta-spark|iceberg-spark-runtime)[_-](\d+\.\d+)_")
"""The version of Spark in the name of a reader's jar."""
STORES = {
    "s3": (re.compile(r"AWS_\w+"), re.compile(r"(?:spark\.hadoop\.)?fs\.s3a?\.[\w.\-]+")),
    "gs": (
        re.compile(r"GOOGLE_\w+|GCS_\w+|STORAGE_EMULATOR_HOST"),
        re.compile(r"(?:spark\.hadoop\.)?fs\.gs\.[\w.\-]+"),
    ),
    "abfs": (re.compile(r"AZURE_\w+"), re.compile(r"(?:spark\.hadoop\.)?fs\.azure\.[\w.\-]+")),
}
"""By kind of object store, which variables and which settings of Hadoop say how to reach it."""
KIND_OF_SCHEME = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfs"}
TELLING = re.compile(r"key|token|secret|credential|endpoint|region|profile|account|provider|host", re.IGNORECASE)


def look_at_python() -> Iterator[Finding]:
    """This Python, and the packages that sidestep needs or can use."""
    yield Finding("sidestep", "good", f"{__version__}, {Path(__file__).parents[2]}")
    yield Finding("Python", "good", f"{sys.version.split()[0]}, {sys.executable}")
    for package in NEEDED:
        number = _version(package)
        if number is not None:
            yield Finding(package, "good", number)
        else:
            yield Finding(package, "bad", "not installed", f"pip install {package}")
    for package, purpose in OPTIONAL.items():
        number = _version(package)
        yield Finding(package, "note", f"{number or 'not installed'} (for {purpose})")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def look_at_spark(spark: SparkSession) -> Iterator[Finding]:
    """The session: is it one that sidestep works in, do the bridge and the rule, and which formats' jars are there?"""
    if not hasattr(spark, "_jsparkSession"):
        yield Finding(
            "Spark session",
            "bad",
            "a Spark Connect session, whose optimizer runs in another process",
            "call sidestep.enable(spark, everywhere=True) where the server runs; its clients skip then",
        )
        return
    tested = f"tested with {TESTED[0]} to {TESTED[-1]}"
    install = f"pip install 'pyspark=={TESTED[-1]}.*'"
    if is_too_old(spark.version):
        yield Finding("Spark", "bad", f"{spark.version}, and sidestep needs {TESTED[0]} or newer", install)
        return
    untested = is_untested(spark.version)
    yield Finding("Spark", "warn" if untested else "good", f"{spark.version}; {tested}", install if untested else "")
    yield _look_at_java(spark)
    yield _try_out(spark)
    state = state_of(spark)
    if state is None:
        yield Finding("this session", "note", "sidestep is not enabled in it", "sidestep.enable(spark)")
    elif state.last_problem:
        yield Finding("this session", "warn", f"enabled; last problem: {state.last_problem}")
    else:
        yield Finding("this session", "good", "sidestep is enabled in it")
    for name, of in JARS.items():
        yield describe_jar(name, _jar(spark, of), spark.version)


def _look_at_java(spark: SparkSession) -> Finding:
    number = str(spark._jvm.java.lang.System.getProperty("java.version"))  # type: ignore[union-attr]
    home = str(spark._jvm.java.lang.System.getProperty("java.home"))  # type: ignore[union-attr]
    major = int(re.split(r"[.\-+]", number)[0])
    if major >= LEAST_JAVA:
        return Finding("Java", "good", f"{number}, {home}")
    return Finding("Java", "bad", f"{number}, {home}", f"install Java {LEAST_JAVA} or newer, and set JAVA_HOME to it")


@leaves_session_active
def _try_out(spark: SparkSession) -> Finding:
    """Whether all of the bridge compiles and a query skips a file, in a session beside the user's."""
    about = "bridge and rule"
    try:
        with enable(spark.newSession()) as enabled:
            try_out(enabled.spark, enabled.bridge, enabled.inspector)
    except (SidestepError, Py4JError) as problem:
        return Finding(about, "bad", str(problem).partition("\n")[0], "use a tested version of Spark, or report this")
    return Finding(about, "good", "all of it compiles, and a trial query skips the file that it need not read")


def _jar(spark: SparkSession, of: str) -> str | None:
    """Where a class comes from: the name of its jar."""
    jvm: Any = spark._jvm
    try:
        found = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(of)
        return str(found.getProtectionDomain().getCodeSource().getLocation().getPath()).rpartition("/")[2]
    except Py4JError:
        return None


def describe_jar(name: str, jar: str | None, spark: str) -> Finding:
    """What is known of a format's jar, or of its absence, beside a version of Spark.

    >>> describe_jar("Iceberg", None, "4.1.4").found
    'not there; tested with Spark 4.1: Iceberg 1.12.0'
    >>> describe_jar("Iceberg", None, "4.3.0").found
    'not there; no build for Spark 4.3 is known, there are some for 4.0, 4.1'
    >>> wrong = describe_jar("Delta", "io.delta_delta-spark_4.0_2.13-4.4.0.jar", "4.1.4")
    >>> wrong.state, wrong.advice
    ('warn', 'take a build for Spark 4.1; tested with Spark 4.1: Delta 4.4.0')
    """
    builds, minor = READERS.get(name, {}), ".".join(spark.split(".")[:2])
    if minor in builds:
        known = f"tested with Spark {minor}: {name} {builds[minor]}"
    else:
        known = f"no build for Spark {minor} is known, there are some for {', '.join(builds)}" if builds else ""
    built = BUILT_FOR.search(jar or "")
    if jar and built and built[1] != minor:
        advice = f"take a build for Spark {minor}; {known}"
        return Finding(f"{name} jar", "warn", f"{jar}, which is built for Spark {built[1]}", advice)
    return Finding(f"{name} jar", "note", "; ".join(filter(None, (jar or "not there", known))))


def look_at_workers(spark: SparkSession) -> Iterator[Finding]:
    """Whether the Pythons of Spark's workers can do what indexing and loading ask of them."""

    def probe(_: Iterable[int]) -> Iterator[tuple[str, str, str, str]]:
        import importlib
        import platform

        def of(name: str) -> str:
            try:
                return str(getattr(importlib.import_module(name), "__version__", "there"))
            except Exception as problem:
                return f"!{type(problem).__name__}: {problem}"

        yield platform.node(), platform.python_version(), of("sidestep"), of("pyarrow")

    # By value: where sidestep is not installed, a function of its modules could not be read.
    probe.__module__ = "__main__"
    tasks = max(1, spark.sparkContext.defaultParallelism)
    try:
        with same_interpreter(spark.sparkContext):  # as the jobs of sidestep do
            told = sorted(set(spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(probe).collect()))
    except Exception as problem:
        reason = next((line for line in str(problem).splitlines() if "Error" in line or "[" in line), str(problem))
        yield Finding(
            "workers", "bad", f"no Python runs there: {reason[:300]}", "set PYSPARK_PYTHON to a Python of theirs"
        )
        return
    for host, number, *packages in told:
        for name, found in zip(("sidestep", "pyarrow"), packages, strict=True):
            if found.startswith("!"):
                advice = f"install {name} in the workers' Python, or ship it: spark-submit --archives or --py-files"
                yield Finding(f"worker {host}", "bad", f"cannot import {name} ({found[1:]})", advice)
        if not any(found.startswith("!") for found in packages):
            same = packages[0] == __version__
            yield Finding(
                f"worker {host}",
                "good" if same else "warn",
                f"Python {number}, sidestep {packages[0]}, pyarrow {packages[1]}",
                "" if same else f"install sidestep {__version__} there, as it is here",
            )


def look_at_credentials(spark: SparkSession | None, tables: Iterable[str]) -> Iterator[Finding]:
    """For the object stores that tables are on, which variables and settings say how to reach them: names alone."""
    kinds = {KIND_OF_SCHEME[scheme] for table in tables if (scheme := scheme_of(table)) in KIND_OF_SCHEME}
    for kind in sorted(kinds):
        of_environment, of_hadoop = STORES[kind]
        variables = sorted(name for name in os.environ if of_environment.fullmatch(name) and TELLING.search(name))
        settings = sorted(_settings(spark, of_hadoop))
        found = "; ".join(
            f"{where}: {', '.join(names)}"
            for where, names in (("environment", variables), ("Spark's configuration", settings))
            if names
        )
        if found:
            yield Finding(f"credentials for {kind}", "good", found)
        else:
            advice = "set them in the environment of driver and workers, or rely on the machine's own role"
            yield Finding(f"credentials for {kind}", "warn", "neither variables nor settings name any", advice)


def _settings(spark: SparkSession | None, of_hadoop: re.Pattern[str]) -> set[str]:
    """The names of what the user said of a store: defaults of Hadoop say nothing."""
    if spark is None or not hasattr(spark, "_jsparkSession"):
        return set()
    given = {name for name, _ in spark.sparkContext.getConf().getAll()}
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for name in _SAID_IN_HADOOP:
        sources = hadoop.getPropertySources(name)
        if sources is not None and not any("default.xml" in str(source) for source in sources):
            given.add(name)
    return {name for name in given if of_hadoop.fullmatch(name) and TELLING.search(name)}


_SAID_IN_HADOOP = (
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.s3a.session.token",
    "fs.s3a.endpoint",
    "fs.s3a.endpoint.region",
    "fs.s3a.aws.credentials.provider",
    "fs.gs.auth.service.account.json.keyfile",
    "fs.azure.account.key",
)


def scheme_of(table: str) -> str:
    """
    >>> scheme_of("S3A://bucket/orders"), scheme_of("/data/orders"), scheme_of("sales.orders")
    ('s3a', '', '')
    """
    scheme, colon, rest = table.partition("://")
    return scheme.lower() if colon and rest and scheme.isalnum() else ""
