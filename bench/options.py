"""The command-line options of benchmarks and of the demo: what is not known, to the letter, is refused."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NoReturn


class OptionParser(argparse.ArgumentParser):
    """A parser that never guesses: ``--seed 91`` is not taken for ``--seeds 91``, nor passed over.

    A long benchmark that measured something else than was asked is worse than one that refuses to start.

    >>> parser = OptionParser(prog="bench toy")
    >>> _ = parser.add_argument("--seeds", type=int)
    >>> print(parser.unknown_option("--seed"))
    --seed is not an option of bench toy; did you mean --seeds? It has --seeds.
    """

    def __init__(self, prog: str, description: str | None = None) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    @property
    def options(self) -> list[str]:
        """The long names of all options but ``--help``, as they were added."""
        every = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        return [name for name in every if name != "--help"]

    def unknown_option(self, word: str) -> str:
        """The sentence that refuses a word, with the known options and the nearest of them."""
        name = word.partition("=")[0]
        nearest = get_close_matches(name, self.options, n=1, cutoff=0.6) if name.startswith("-") else []
        guess = f"; did you mean {nearest[0]}?" if nearest else "."
        return f"{name} is not an option of {self.prog}{guess} It has {', '.join(self.options)}."

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            # A value behind an unknown option is unknown as well; the option is what was meant.
            self.error(self.unknown_option(next((word for word in unknown if word.startswith("-")), unknown[0])))
        return parsed

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"Error: {message}\n")


def add_parts(
    parser: argparse.ArgumentParser,
    parts: Iterable[str],
    option: str = "--parts",
    default: Sequence[str] | None = None,
    what: str = "which of these to do",
) -> None:
    """Add the option that names the parts of a benchmark to do, all by default; what is no part of it is refused.

    >>> parser = OptionParser(prog="bench toy")
    >>> add_parts(parser, ["load", "query"])
    >>> parser.parse_args(["--parts", "query"]).parts, parser.parse_args([]).parts
    (('query',), ('load', 'query'))
    """
    known = tuple(parts)

    def named(text: str) -> tuple[str, ...]:
        asked = tuple(part for part in text.split(",") if part)
        if not asked or (unknown := [part for part in asked if part not in known]):
            refused = ", ".join(unknown) if asked else "nothing"
            raise argparse.ArgumentTypeError(f"it takes {', '.join(known)}, not {refused}.")
        return asked

    usual = known if default is None else tuple(default)
    parser.add_argument(option, type=named, default=usual, help=f"{what}: {','.join(known)}")
