"""The fuzzer runs in the session of the tests on Spark."""

from tests.spark.conftest import enabled

__all__ = ["enabled"]
