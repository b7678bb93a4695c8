"""Gets sidestep's Java classes into the running JVM, with no jar: Spark ships a compiler.

The sources in ``java/`` are compiled by Janino, which Spark uses for its own generated code, once per JVM. One class
loader has them all: it compiles a class when it is first asked for, with all that the class refers to, so most sessions
never compile what only logs and recordings need. What Java and Python say to each other is in :mod:`.wire`.
"""

from __future__ import annotations

import importlib.resources
import threading
import weakref
from functools import partial
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from sidestep.spark.jvm.versions import TESTED, is_too_old, java_folder
from sidestep.spark.udf.identity import PythonFunctions
from sidestep.store.access import NAMES, PREFIX, StoreSettings, use_settings

_lock = threading.Lock()
_LOADER = "_sidestep_class_loader"
"""Where the gateway keeps the class loader: a JVM must see each class once, however often this module is loaded."""


class Bridge:
    """The compiled classes of one JVM, and the few ways in which Python uses them."""

    def __init__(self, spark: SparkSession) -> None:
        check_session(spark)
        self.gateway: Any = spark.sparkContext._gateway
        self.jvm: Any = spark.sparkContext._jvm
        self._loader = _loader_of(self.gateway, self.jvm)

    def new(self, name: str, *arguments: Any) -> Any:
        """An instance of one of sidestep's classes, by its first constructor."""
        return self.load(name).getConstructors()[0].newInstance(self._array(arguments))

    def load(self, name: str) -> Any:
        """One of sidestep's classes, compiled if it is the first time."""
        return _load(self._loader, name)

    def factory(self) -> Any:
        """The object that makes and looks at the others on Python's behalf."""
        return self.new("Inspector")

    def _array(self, items: tuple[Any, ...]) -> Any:
        array = self.gateway.new_array(self.jvm.java.lang.Object, len(items))
        for position, item in enumerate(items):
            array[position] = item
        return array


def check_session(spark: SparkSession) -> None:
    """Raise an error that says what to do if sidestep cannot work with this session.

    Every public function that is given a session, or rows of one, asks this first, or does what asks it:
    ``active_session``, ``resolve`` or a :class:`Bridge`.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise SidestepError(
            "sidestep needs a classic Spark session, and this is a Spark Connect session: its optimizer runs in "
            "another process. Call sidestep in the application that runs the Connect server (for example with "
            "spark-submit, without .remote()): after sidestep.enable(spark, everywhere=True) there, the queries of all "
            "clients skip, and these need not even have sidestep."
        )
    if is_too_old(spark.version):
        raise SidestepError(
            f"sidestep works with Spark {TESTED[0]} to {TESTED[-1]}, and this session runs Spark {spark.version}. "
            f"Install one of these, for example: pip install 'pyspark=={TESTED[-1]}.*'."
        )
    use_settings(partial(_store_settings, weakref.ref(spark)))


def _store_settings(session: weakref.ref[SparkSession]) -> StoreSettings | None:
    """How a session's Hadoop configuration has object stores reached; None if Spark was stopped.

    Of a session that is gone, such as a copy that a job worked in, the first session of the process knows as much.
    """
    spark = session() or SparkSession._instantiatedSession
    context: Any = None if spark is None else spark.sparkContext
    if spark is None or context._jsc is None:
        return None
    inspector = _load(_loader_of(context._gateway, context._jvm), "Inspector").getConstructors()[0]
    nothing = context._gateway.new_array(context._jvm.java.lang.Object, 0)
    try:
        said = str(inspector.newInstance(nothing).storeSettings(spark._jsparkSession, PREFIX, "\n".join(NAMES)))
    except Py4JError:
        return None
    parts = said.split("\0")
    return StoreSettings(dict(zip(parts[0:-1:2], parts[1::2], strict=True)))


def java_sources(version: str = pyspark.__version__) -> dict[str, str]:
    """The text of each Java source by the name of its file: those for all versions of Spark, and those for this one."""
    return _sources("") | _sources(java_folder(version))


def delta_sources() -> dict[str, str]:
    """The same of those that compile only where delta-spark is: no other names their classes but by texts."""
    return _sources("with_delta")


def _sources(folder: str) -> dict[str, str]:
    sources = importlib.resources.files("sidestep.spark.jvm").joinpath("java").joinpath(folder).iterdir()
    return {each.name: each.read_text(encoding="utf-8") for each in sources if each.name.endswith(".java")}


def new_loader(jvm: Any) -> Any:
    """A class loader that compiles the sources."""
    sources = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder()
    for name, text in (java_sources() | delta_sources()).items():
        sources.addResource(f"sidestep/{name}", text)
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader = jvm.org.codehaus.janino.JavaSourceClassLoader(parent, sources, "UTF-8")
    loader.setTargetVersion(8)  # earlier classes cannot call static methods of interfaces
    return loader


def _loader_of(gateway: Any, jvm: Any) -> Any:
    with _lock:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        if _LOADER not in vars(gateway):  # hasattr would ask the JVM
            loader = new_loader(jvm)
            nothing = gateway.new_array(jvm.java.lang.Object, 0)
            _load(loader, "PythonFunctions").getConstructors()[0].newInstance(nothing).ask(PythonFunctions())
            vars(gateway)[_LOADER] = loader
        return vars(gateway)[_LOADER]


def _load(loader: Any, name: str) -> Any:
    try:
        return loader.loadClass(f"sidestep.{name}")
    except Py4JJavaError as problem:
        cause = problem.java_exception.getCause() or problem.java_exception
        raise SidestepError(f"sidestep could not compile {name}.java against this Spark: {cause}") from problem
