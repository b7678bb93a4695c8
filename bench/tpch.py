"""TPC-H: its tables as folders of Parquet files, and its 22 queries as Spark runs them."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from bench.duckdb_queries import extension_queries
from bench.whole_folder import whole_folder
from sidestep.errors import SidestepError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLIT_TABLES = ("lineitem", "orders", "partsupp", "part", "customer")
WHOLE_TABLES = ("supplier", "nation", "region")
TABLES = SPLIT_TABLES + WHOLE_TABLES

DATA = Path(__file__).resolve().parent.parent / "data"
"""Where generated data goes unless told otherwise; git ignores it."""


def make_tpch(folder: Path | str = DATA, sf: float = 1.0, files: int = 8, row_group_bytes: int | None = None) -> Path:
    """The folder that holds TPC-H at this scale factor, one folder of Parquet files per table, made if it is not there.

    The five large tables are split into ``files`` files each, along their keys as the generator emits them; the others
    are one file. The same arguments always give the same rows. The data is written under another name and renamed when
    it is complete, so a folder that exists is whole, and an interrupted run leaves nothing that could pass for data.
    """
    if files < 1:
        raise SidestepError(f"A table cannot be split into {files} files; give 1 or more.")
    size = "" if row_group_bytes is None else f"-groups{row_group_bytes}"
    target = Path(folder) / f"tpch-sf{sf:g}-files{files}{size}"
    if target.is_dir():
        return target
    with whole_folder(target) as partial:
        for tables, parts in ((SPLIT_TABLES, files), (WHOLE_TABLES, 1)):
            _generate(partial, sf, tables, parts, row_group_bytes)
    return target


def _generate(folder: Path, sf: float, tables: tuple[str, ...], parts: int, row_group_bytes: int | None) -> None:
    command = [generator(), "tpch", "parquet", "--quiet", "--scale-factor", f"{sf:g}", "--output-dir", str(folder)]
    command += ["--tables", ",".join(tables), "--parts", str(parts)]
    if row_group_bytes is not None:
        command += ["--row-group-bytes", str(row_group_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise SidestepError(f"tpcgen-cli could not write TPC-H to {folder}: {said}")


def generator() -> str:
    """The generator of this Python environment, which need not be in PATH."""
    found = shutil.which("tpcgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpcgen-cli")
    if found is None:
        raise SidestepError("TPC-H data comes from tpcgen-cli, which is not installed: pip install 'sidestep[demo]'.")
    return found


def register(spark: SparkSession, folder: Path | str) -> None:
    """Make the tables of a folder that :func:`make_tpch` returned known to Spark as temporary views."""
    for table in TABLES:
        spark.read.parquet(str(Path(folder) / table)).createOrReplaceTempView(table)


def queries() -> dict[str, str]:
    """The queries q1 to q22 with the specification's validation parameters; Spark takes them as DuckDB has them."""
    return extension_queries("tpch")
