"""Packages and the rooms inside them import in one direction only, and pyspark stays in its package.

``python -m tests.test_imports`` prints the table of packages and rooms that docs/architecture.md shows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "sidestep"
ARCHITECTURE = SOURCE.parent.parent / "docs" / "architecture.md"

CORE = frozenset({"predicate", "synopsis", "workload", "layout", "prune", "store", "advisor"})
MAY_IMPORT: dict[str, frozenset[str]] = {
    "predicate": frozenset(),
    "synopsis": frozenset({"predicate"}),
    "workload": frozenset({"predicate"}),
    "layout": frozenset({"predicate"}),
    "prune": frozenset({"predicate", "synopsis", "layout"}),
    "store": frozenset({"predicate", "synopsis", "workload", "layout"}),
    "advisor": frozenset({"predicate", "synopsis", "workload", "layout", "store"}),
    "spark": CORE,
    # The public API gathers names from anywhere; those below use nothing but it.
    "__init__": CORE | {"spark"},
    "console": frozenset(),
    "cli": frozenset({"console"}),  # which it loads when asked to serve
    "__main__": frozenset({"cli"}),
    "errors": frozenset(),
    "render": frozenset(),
    "_version": frozenset(),
}
TOP = "."
"""The modules that lie directly in a package."""
ROOMS: dict[str, tuple[frozenset[str], ...]] = {
    "synopsis": (
        frozenset({"values"}),
        frozenset({"contract"}),
        frozenset({"zones"}),
        frozenset({"grt", "features"}),
        frozenset({TOP}),
    ),
    "workload": (frozenset({TOP}), frozenset({"logs", "features"}), frozenset({"analysis"})),
    "layout": (frozenset({TOP}), frozenset({"columns"}), frozenset({"replicas"})),
    "prune": (
        frozenset({"plan"}),
        frozenset({"dips", "selectors", "denormal"}),
        frozenset({TOP}),
        frozenset({"explain"}),
    ),
    "store": (
        frozenset({TOP}),
        frozenset({"snapshots"}),
        frozenset({"parquet", "sidecars", "commit"}),
        frozenset({"index"}),
        frozenset({"upkeep"}),
    ),
    "advisor": (frozenset({"trials"}), frozenset({"families"}), frozenset({"layouts", "synopses"})),
    "spark": (
        frozenset({"udf"}),
        frozenset({"jvm"}),
        frozenset({TOP}),
        frozenset({"log"}),
        frozenset({"rule", "organize"}),
        frozenset({"advise"}),
        frozenset({"table"}),
        frozenset({"change", "denormal", "doctor"}),
    ),
}
"""The rooms of each package from the lowest up: a room imports those below it, never one beside or above it."""
MOST_MODULES = 15
"""A folder with more is a row that no newcomer finds the way in."""

FOR_ALL = frozenset({"errors", "render", "_version"})
USES_PUBLIC_API = frozenset({"console", "cli", "__main__"})
MAY_USE_SPARK = frozenset({"spark", "cli", "console"})
SPARK_LIBRARIES = frozenset({"pyspark", "py4j"})
NEVER = frozenset({"bench", "tests", "duckdb"})
TESTS_ALONE = frozenset({"sidestep.predicate.oracle"})
"""What is there to test against: no product code may lean on it."""


def package_of(path: Path) -> str:
    """The package, or the module right under sidestep, that a source file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def room_of(package: str, inside: tuple[str, ...]) -> str:
    """The room of a module, given by its dotted path inside its package; a package's own ``__init__`` is in none."""
    rooms = {room for layer in ROOMS.get(package, ()) for room in layer}
    return inside[0] if inside and inside[0] in rooms else TOP


def layer_of(package: str, room: str) -> int | None:
    """How far up a room is; None for one that ROOMS does not name."""
    return next((number for number, layer in enumerate(ROOMS[package]) if room in layer), None)


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
    """What a file imports against the tables, as sentences."""
    package = package_of(path)
    where = path.relative_to(SOURCE)
    if package not in MAY_IMPORT:
        return [f"{where}: the package {package!r} has no row in MAY_IMPORT; say there what it may import."]
    sentences = []
    for line, name in imported_modules(source, path):
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top in SPARK_LIBRARIES and package not in MAY_USE_SPARK:
            sentences.append(f"{where}:{line}: imports {name}; only spark/ speaks to Spark.")
        elif top in NEVER:
            sentences.append(f"{where}:{line}: imports {name}, which is not there when sidestep is installed.")
        elif any(name.startswith(f"{module}.") for module in TESTS_ALONE):
            sentences.append(f"{where}:{line}: imports {name}, which is there for tests alone.")
        elif top == "sidestep" and target in MAY_IMPORT.keys() - MAY_IMPORT[package] - FOR_ALL - {package}:
            sentences.append(f"{where}:{line}: imports {name}; {package} may import {_allowed(package)}.")
        elif top == "sidestep" and target not in MAY_IMPORT and package not in USES_PUBLIC_API:
            sentences.append(f"{where}:{line}: imports {name}, the public API, from below it: that is a cycle.")
        elif top == "sidestep" and target == package and package in ROOMS:
            sentences += _across_rooms(where, line, package, tuple(rest.split(".")[1:]))
    return sentences


def _across_rooms(where: Path, line: int, package: str, target: tuple[str, ...]) -> Iterator[str]:
    inside = where.parts[1:]
    if inside == ("__init__.py",):
        return  # a package's own names come from all its rooms
    mine, theirs = room_of(package, inside), room_of(package, target)
    if mine == theirs:
        return
    here, there = layer_of(package, mine), layer_of(package, theirs)
    if here is None or there is None or there >= here:
        below = [room for layer in ROOMS[package][: here or 0] for room in sorted(layer)]
        allowed = ", ".join(_shown(package, room) for room in below) or "no other room"
        yield (
            f"{where}:{line}: imports {'.'.join(target)} of {_shown(package, theirs)}; "
            f"{_shown(package, mine)} may import {allowed}."
        )


def _shown(package: str, room: str) -> str:
    return f"{package}/" if room == TOP else f"{package}/{room}/"


def _allowed(package: str) -> str:
    names = sorted(MAY_IMPORT[package] - {package})
    if package in USES_PUBLIC_API:
        return " and ".join(["the public names of sidestep", *names])
    return ", ".join(names) or "nothing of sidestep"


def rooms_table() -> str:
    """The packages and rooms, lowest first, each with what its ``__init__`` says of it and what it may import."""
    lines = ["| room | what it is about | may import |", "|---|---|---|"]
    for package in (
        "predicate",
        "synopsis",
        "workload",
        "layout",
        "prune",
        "store",
        "advisor",
        "spark",
        "console",
        "cli",
    ):
        lines.append(f"| **`{package}/`** | {_first_sentence(package)} | {_allowed(package)} |")
        below: list[str] = []
        for layer in ROOMS.get(package, ()):
            for room in sorted(layer - {TOP}):
                names = ", ".join(f"`{name}`" for name in below) or "–"
                lines.append(f"| `{package}/{room}/` | {_first_sentence(package, room)} | {names} |")
            below += ["its own modules" if room == TOP else f"{room}/" for room in sorted(layer)]
    return "\n".join(line.replace("`its own modules`", "the package's own modules") for line in lines)


def _first_sentence(*folder: str) -> str:
    text = ast.get_docstring(ast.parse(SOURCE.joinpath(*folder, "__init__.py").read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_room_may(path):
    assert violations(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize("package", sorted(p.name for p in SOURCE.iterdir() if (p / "__init__.py").exists()))
def test_a_folder_is_a_room_that_is_named_and_small(package):
    for init in (SOURCE / package).rglob("__init__.py"):
        folder = init.parent
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= MOST_MODULES, f"{folder} has {len(modules)} modules: make rooms of them."
        if folder != SOURCE / package:
            room = ".".join(folder.relative_to(SOURCE / package).parts)
            assert any(room in layer for layer in ROOMS.get(package, ())), f"{folder} is not in ROOMS."


def test_the_architecture_shows_these_rooms():
    assert rooms_table() in ARCHITECTURE.read_text(encoding="utf-8"), (
        "docs/architecture.md has another table of rooms: python -m tests.test_imports prints this one."
    )


def test_the_files_that_the_architecture_names_are_there():
    named = set(re.findall(r"`((?:[\w.]+/)+\w+\.(?:py|java))`", ARCHITECTURE.read_text(encoding="utf-8")))
    folders = (SOURCE, SOURCE.parent.parent)
    assert named
    assert [path for path in sorted(named) if not any((folder / path).exists() for folder in folders)] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("predicate/a.py", "from sidestep.predicate.types import DataType"),
        ("predicate/a.py", "from sidestep import errors"),
        ("predicate/a.py", "from . import types\nfrom .types import Kind"),
        ("synopsis/zones/a.py", "from ...predicate.types import Kind\nfrom ..values import codes"),
        ("synopsis/a.py", "from sidestep.synopsis.grt.table import GlobalRangeTable"),
        ("synopsis/__init__.py", "from sidestep.synopsis.skip import kept_blocks"),
        (
            "store/upkeep/a.py",
            "from sidestep.store.index.table_index import TableIndex\nfrom sidestep.store import location",
        ),
        ("spark/a.py", "import pyspark\nfrom sidestep.prune import explain"),
        ("spark/table/a.py", "from sidestep.spark.organize.write import write_on_spark"),
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
        ("predicate/a.py", "from ..synopsis import zones"),
        ("predicate/a.py", "from .. import synopsis"),
        ("synopsis/a.py", "from sidestep.predicate.oracle import holds"),
        ("synopsis/values/a.py", "from sidestep.synopsis.zones import bounds"),
        ("synopsis/grt/a.py", "from sidestep.synopsis.features.branches import divide"),
        ("synopsis/values/a.py", "from ..skip import kept_blocks"),
        ("workload/a.py", "from sidestep.layout.maxskip import partition"),
        ("workload/logs/a.py", "from sidestep.workload.features import mining"),
        ("layout/a.py", "def f():\n    from sidestep.store import index"),
        ("layout/a.py", "from sidestep.workload import FeatureSet"),
        ("prune/a.py", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
        ("prune/plan/a.py", "from sidestep.prune.dips import lineage"),
        ("store/a.py", "import importlib\nimportlib.import_module('sidestep.prune.static')"),
        ("store/a.py", "import py4j.java_gateway"),
        ("store/index/a.py", "from sidestep.store.upkeep.update import update_index"),
        ("advisor/layouts/a.py", "from sidestep.advisor.synopses import budget"),
        ("advisor/layouts/a.py", "from sidestep.prune.decide import decide"),
        ("spark/a.py", "from bench.tpch import queries"),
        ("spark/organize/a.py", "from sidestep.spark.table.state import open_table"),
        ("spark/rule/a.py", "from sidestep.spark.organize import units"),
        ("cli/commands.py", "from sidestep.prune import explain"),
        ("cli/commands.py", "from sidestep import spark"),
        ("console/app.py", "import sidestep.store.index"),
        ("newpackage/a.py", "import math"),
    ],
)
def test_the_wrong_directions_fail(file, source):
    assert violations(source, SOURCE / file) != []


if __name__ == "__main__":
    print(rooms_table())
