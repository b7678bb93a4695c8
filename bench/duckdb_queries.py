"""The queries of TPC-H and TPC-DS, as extensions of DuckDB hold them."""

from __future__ import annotations

from importlib import resources

from sidestep.errors import SidestepError


def extension_queries(name: str) -> dict[str, str]:
    """The texts of ``tpch`` or ``tpcds``, q1 and so on, with the specification's validation parameters.

    The extension is loaded from its Python package by path: installing it would write into the user's home folder.
    """
    try:
        import duckdb

        package = resources.files(f"duckdb_extension_{name}")
    except ImportError as error:
        raise SidestepError(
            f"The queries of {name} need a package of the dev extra ({error}): run make setup."
        ) from error
    extension = package / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    with resources.as_file(extension) as path, duckdb.connect(":memory:") as connection:
        connection.load_extension(str(path))
        rows = connection.execute(f"SELECT query_nr, query FROM {name}_queries() ORDER BY query_nr").fetchall()
    return {f"q{number}": text.strip().rstrip(";").rstrip() for number, text in rows}
