"""The command line of the benchmarks: ``python -m bench NAME [options]``; the last line printed is one JSON object."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from bench.harness import machine
from bench.options import OptionParser


class Benchmark(Protocol):
    """What a benchmark module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> dict[str, Any]: ...


def benchmarks() -> dict[str, str]:
    """Every module here that has both functions, with the first line of its docstring; listing imports none of them."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
        if functions >= {"add_arguments", "run"}:
            found[path.stem] = (ast.get_docstring(module) or "").partition("\n")[0]
    return found


def _listing(known: dict[str, str]) -> str:
    if not known:
        return "There are no benchmarks yet: add a module to bench/."
    return "\n".join(["Benchmarks:", *(f"  {name:12} {summary}" for name, summary in known.items())])


def load_benchmark(name: str) -> Benchmark:
    return cast("Benchmark", importlib.import_module(f"bench.{name}"))


def option_parser(name: str, summary: str, module: Benchmark) -> OptionParser:
    parser = OptionParser(f"python -m bench {name}", summary)
    module.add_arguments(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the benchmark that the first word names with the options that follow; with no words, list them.

    ``--names`` prints the bare names, for scripts.
    """
    known = benchmarks()
    if not argv or argv[0] in ("-h", "--help"):
        print(_listing(known))
        return 0
    if argv[0] == "--names":
        print("\n".join(known))
        return 0
    name, *options = argv
    if name not in known:
        print(f"There is no benchmark called {name!r}.\n{_listing(known)}", file=sys.stderr)
        return 2
    module = load_benchmark(name)
    args = option_parser(name, known[name], module).parse_args(options)
    result = module.run(args)
    record = {"benchmark": name, "arguments": vars(args), "machine": machine(), **result}
    # A benchmark may leave a progress line unfinished on stdout; the record starts on a line of its own.
    sys.stdout.flush()
    print(json.dumps(record, default=str, sort_keys=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
