"""Gets sidestep's Java classes into the running JVM, with no jar: Spark ships a compiler.

The sources in ``java/`` are compiled by Janino, which Spark uses for its own generated code, once per JVM. Each source
is loaded by a class loader whose parent holds the ones before it, so they see each other in the order below.
"""

from __future__ import annotations

import importlib.resources
import threading
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from sidestep.spark.udf.identity import PythonFunctions

SOURCES = ("PythonFunctions", "FileIndexes", "BoundFilter", "PlanWriter", "BlockFilter", "PruneRule", "Inspector")
ON_DEMAND = ("LogAnalyzer", "Recorder")
"""Compiled when first asked for: they see all of the others, and most sessions need neither."""
SUPPORTED_SPARK = ("4.3",)

_lock = threading.Lock()
_COMPILED = "_sidestep_classes"
"""Where the gateway keeps them: a JVM must see each class once, however often this module is loaded."""


class Bridge:
    """The compiled classes of one JVM, and the few ways in which Python uses them."""

    def __init__(self, spark: SparkSession) -> None:
        check_session(spark)
        self.gateway: Any = spark.sparkContext._gateway
        self.jvm: Any = spark.sparkContext._jvm
        self._classes = _classes_of(self.gateway, self.jvm)

    def new(self, name: str, *arguments: Any) -> Any:
        """An instance of one of sidestep's classes, by its first constructor."""
        constructor = _class_of(self.jvm, self._classes, name).getConstructors()[0]
        return constructor.newInstance(self._array(arguments))

    def factory(self) -> Any:
        """The object that makes and looks at the others on Python's behalf."""
        return self._classes["Inspector"].getConstructors()[0].newInstance(self._array(()))

    def _array(self, items: tuple[Any, ...]) -> Any:
        array = self.gateway.new_array(self.jvm.java.lang.Object, len(items))
        for position, item in enumerate(items):
            array[position] = item
        return array


def check_session(spark: SparkSession) -> None:
    """Raise an error that says what to do if sidestep cannot work with this session."""
    if not hasattr(spark, "_jsparkSession"):
        raise SidestepError(
            "sidestep needs a classic Spark session, and this is a Spark Connect session: its optimizer runs in "
            "another process. Run sidestep where the driver runs (for example with spark-submit), without .remote()."
        )
    if not spark.version.startswith(SUPPORTED_SPARK):
        raise SidestepError(
            f"sidestep works with Spark {' or '.join(SUPPORTED_SPARK)}, and this session runs Spark {spark.version}. "
            f"Install the matching version, for example: pip install 'pyspark=={SUPPORTED_SPARK[-1]}.*'."
        )


def _classes_of(gateway: Any, jvm: Any) -> dict[str, Any]:
    with _lock:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        if _COMPILED not in vars(gateway):  # hasattr would ask the JVM
            loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
            classes: dict[str, Any] = {}
            for name in SOURCES:
                classes[name] = _compile(jvm, name, loader)
                loader = classes[name].getClassLoader()
            nothing = gateway.new_array(jvm.java.lang.Object, 0)
            classes["PythonFunctions"].getConstructors()[0].newInstance(nothing).ask(PythonFunctions())
            vars(gateway)[_COMPILED] = classes
        found: dict[str, Any] = vars(gateway)[_COMPILED]
        return found


def _class_of(jvm: Any, classes: dict[str, Any], name: str) -> Any:
    with _lock:
        if name not in classes and name in ON_DEMAND:
            classes[name] = _compile(jvm, name, classes[SOURCES[-1]].getClassLoader())
        return classes[name]


def _compile(jvm: Any, name: str, loader: Any) -> Any:
    source = importlib.resources.files("sidestep.spark.jvm").joinpath("java", f"{name}.java").read_text()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    try:
        compiler.cook(source)
    except Exception as problem:
        raise SidestepError(f"sidestep could not compile {name}.java against this Spark: {problem}") from problem
    return compiler.getClassLoader().loadClass(f"sidestep.{name}")
