"""The tests of faults that need Spark run in the session of the others."""

from tests.spark.conftest import enabled

__all__ = ["enabled"]
