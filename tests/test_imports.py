"""Packages import in one direction only, and pyspark stays in its room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "sidestep"

CORE = frozenset({"predicate", "synopsis", "workload", "layout", "prune", "store"})
MAY_IMPORT: dict[str, frozenset[str]] = {
    "predicate": frozenset(),
    "synopsis": frozenset({"predicate"}),
    "workload": frozenset({"predicate"}),
    "layout": frozenset({"predicate", "workload"}),
    "prune": frozenset({"predicate", "synopsis", "layout"}),
    "store": frozenset({"predicate", "synopsis", "workload", "layout"}),
    "spark": CORE,
    # The public API gathers names from anywhere; those below use nothing but it.
    "__init__": CORE | {"spark"},
    "console": frozenset(),
    "cli": frozenset(),
    "__main__": frozenset({"cli"}),
    "errors": frozenset(),
    "_version": frozenset(),
}
FOR_ALL = frozenset({"errors", "_version"})
USES_PUBLIC_API = frozenset({"console", "cli", "__main__"})
MAY_USE_SPARK = frozenset({"spark", "cli"})
SPARK_LIBRARIES = frozenset({"pyspark", "py4j"})
NEVER = frozenset({"bench", "tests", "duckdb"})


def room_of(path: Path) -> str:
    """The package, or the module right under sidestep, that a source file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """The full dotted names that a file imports, with line numbers: those in functions and for type checkers too.

    ``from a import b`` is ``a.b``: ``b`` may be a module, and if it is a name the first parts still say where it lives.
    """
    package = ("sidestep", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, node.module) if node.module else base)
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from ((node.lineno, str(word.value)) for word in node.args if isinstance(word, ast.Constant))


def violations(source: str, path: Path) -> list[str]:
    """What a file imports against the table, as sentences."""
    room = room_of(path)
    where = path.relative_to(SOURCE)
    if room not in MAY_IMPORT:
        return [f"{where}: the package {room!r} has no row in MAY_IMPORT; say there what it may import."]
    found = []
    for line, name in imported_modules(source, path):
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top in SPARK_LIBRARIES and room not in MAY_USE_SPARK:
            found.append(f"{where}:{line}: imports {name}; only spark/ speaks to Spark.")
        elif top in NEVER:
            found.append(f"{where}:{line}: imports {name}, which is not there when sidestep is installed.")
        elif top == "sidestep" and target in MAY_IMPORT.keys() - MAY_IMPORT[room] - FOR_ALL - {room}:
            found.append(f"{where}:{line}: imports {name}; {room} may import {_allowed(room)}.")
        elif top == "sidestep" and target not in MAY_IMPORT and room not in USES_PUBLIC_API:
            found.append(f"{where}:{line}: imports {name}, the public API, from below it: that is a cycle.")
    return found


def _allowed(room: str) -> str:
    names = sorted(MAY_IMPORT[room] - {room})
    if room in USES_PUBLIC_API:
        return " and ".join(["the public names of sidestep", *names])
    return ", ".join(names) or "nothing of sidestep"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_package_may(path):
    assert violations(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("predicate/a.py", "from sidestep.predicate.types import DataType"),
        ("predicate/a.py", "from sidestep import errors"),
        ("predicate/a.py", "from . import types\nfrom .types import Kind"),
        ("synopsis/a.py", "from ..predicate.types import Kind"),
        ("spark/a.py", "import pyspark\nfrom sidestep.prune import explain"),
        ("cli/commands.py", "import sidestep\nfrom sidestep import SidestepError, explain"),
        ("console/app.py", "from sidestep.console import page\nfrom sidestep.errors import SidestepError"),
        ("__init__.py", "from sidestep.spark.rule.session import enable\nfrom sidestep._version import __version__"),
    ],
)
def test_the_right_directions_pass(file, source):
    assert violations(source, SOURCE / file) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("predicate/a.py", "import sidestep.synopsis"),
        ("predicate/a.py", "from sidestep import synopsis"),
        ("predicate/a.py", "import sidestep"),
        ("predicate/a.py", "from sidestep import enable"),
        ("predicate/a.py", "from ..synopsis import zonemap"),
        ("predicate/a.py", "from .. import synopsis"),
        ("workload/a.py", "from sidestep.layout.sop import partition"),
        ("layout/a.py", "def f():\n    from sidestep.store import index"),
        ("prune/a.py", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
        ("store/a.py", "import importlib\nimportlib.import_module('sidestep.prune.plan.static')"),
        ("store/a.py", "import py4j.java_gateway"),
        ("spark/a.py", "from bench.tpch import queries"),
        ("cli/commands.py", "from sidestep.prune import explain"),
        ("cli/commands.py", "from sidestep import spark"),
        ("console/app.py", "import sidestep.store.index.table_index"),
        ("newpackage/a.py", "import math"),
    ],
)
def test_the_wrong_directions_fail(file, source):
    assert violations(source, SOURCE / file) != []
