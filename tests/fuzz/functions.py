"""Python functions that read a file: what they give changes with the file, though their code stays the same."""

from __future__ import annotations

import codecs
import functools
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def _by_open(path: str) -> Callable[[Any], bool]:
    def f(x: Any) -> bool:
        with open(path) as file:
            return x is not None and x >= int(file.read())

    return f


def _by_gzip(path: str) -> Callable[[Any], bool]:
    def f(x: Any) -> bool:
        with gzip.open(path + ".gz", "rt") as file:
            return x is not None and x >= int(file.read())

    return f


def _by_codecs(path: str) -> Callable[[Any], bool]:
    def f(x: Any) -> bool:
        with codecs.open(path, encoding="utf-8") as file:
            return x is not None and x >= int(file.read())

    return f


def _by_pandas(path: str) -> Callable[[Any], bool]:
    def f(x: Any) -> bool:
        return x is not None and x >= int(pd.read_csv(path, header=None)[0][0])

    return f


def _by_numpy(path: str) -> Callable[[Any], bool]:
    def f(x: Any) -> bool:
        return x is not None and x >= int(np.loadtxt(path))

    return f


def _wrapped(path: str) -> Callable[[Any], bool]:
    @functools.wraps(_by_gzip(path))
    def f(x: Any) -> bool:
        return bool(f.__wrapped__(x))

    return f


def _pure(path: str) -> Callable[[Any], bool]:
    """Reads nothing: the one that has an identity, and may skip."""

    def f(x: Any) -> bool:
        return x is not None and x % 5 == 1

    return f


READERS: dict[str, Callable[[str], Callable[[Any], bool]]] = {
    "pure": _pure,
    "gzip": _by_gzip,
    "codecs": _by_codecs,
    "pandas": _by_pandas,
    "numpy": _by_numpy,
    "wrapped": _wrapped,
    "open": _by_open,
}


def write_number(path: Path, number: int) -> None:
    """What the functions of this path read from now on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{number}\n")
    with gzip.open(f"{path}.gz", "wt") as file:
        file.write(f"{number}\n")
