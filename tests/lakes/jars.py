"""The settings by which a session reads Delta and Iceberg tables with their own readers.

The variable ``LAKES`` names the folder where `scripts/lakes.sh` put their jars; `make test-lakes` sets it. Without it,
tests of these readers are not collected at all.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ["LAKES"]).resolve() if "LAKES" in os.environ else None
_DELTA = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # logs of tests are short
}
_EXTENSIONS = {
    "delta-spark": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg-spark": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def missing(reader: str) -> str:
    """Why there is no jar whose name contains ``reader``; nothing if there is one."""
    if FOLDER is None:
        return "run it by make test-lakes"
    if any(reader in jar.name for jar in FOLDER.glob("*.jar")):
        return ""
    said = FOLDER / "missing"
    return said.read_text().strip() if said.exists() else f"{reader} has no build for this version of Spark"


def session_settings(home: Path) -> dict[str, str]:
    """The settings for what jars there are; `ice` is a catalog of Iceberg tables in a folder under ``home``."""
    if FOLDER is None or not (jars := sorted(FOLDER.glob("*.jar"))):
        return {}
    readers = [name for name in _EXTENSIONS if not missing(name)]
    settings = {
        "spark.jars": ",".join(jar.as_uri() for jar in jars),
        "spark.sql.extensions": ",".join(_EXTENSIONS[name] for name in readers),
    }
    if "delta-spark" in readers:
        settings |= _DELTA
    if "iceberg-spark" in readers:
        settings |= {
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": (home / "iceberg").as_uri(),
        }
    return settings
