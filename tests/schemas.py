"""Checks data against the schemas of ``docs/formats``: all that they use of JSON Schema, and an error for the rest."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "formats"
NOTES = {"$schema", "$defs", "title"}
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


class Invalid(AssertionError):
    """Data that is not as a schema says."""


def check(data: Any, name: str) -> None:
    """Raise unless the data is as the schema of this name, such as ``layout.v2``, says."""
    _check(data, _schema(f"{name}.schema.json"), f"{name}.schema.json", "$")


@cache
def _schema(file: str) -> Any:
    return json.loads((FOLDER / file).read_text(encoding="utf-8"))


def _check(data: Any, schema: Any, file: str, at: str) -> None:
    if schema is True:
        return
    if schema is False:
        raise Invalid(f"{at} should not be there: {data!r}")
    for keyword, value in schema.items():
        if keyword not in NOTES:
            _KEYWORDS[keyword](data, value, schema, file, at)


def _ref(data: Any, value: str, schema: Any, file: str, at: str) -> None:
    target, _, pointer = value.partition("#")
    target = target or file
    found = _schema(target)
    for part in pointer.strip("/").split("/") if pointer else ():
        found = found[part]
    _check(data, found, target, at)


def _type(data: Any, value: str | list[str], schema: Any, file: str, at: str) -> None:
    kinds = [value] if isinstance(value, str) else value
    # True is an int to Python, and none to JSON.
    fitting = ["boolean"] if isinstance(data, bool) else [kind for kind in kinds if isinstance(data, TYPES[kind])]
    if not set(fitting) & set(kinds):
        raise Invalid(f"{at} should be {' or '.join(kinds)}: {data!r}")


def _const(data: Any, value: Any, schema: Any, file: str, at: str) -> None:
    if type(data) is not type(value) or data != value:
        raise Invalid(f"{at} should be {value!r}: {data!r}")


def _enum(data: Any, value: list[Any], schema: Any, file: str, at: str) -> None:
    if data not in value:
        raise Invalid(f"{at} should be one of {value}: {data!r}")


def _pattern(data: Any, value: str, schema: Any, file: str, at: str) -> None:
    if isinstance(data, str) and not re.search(value, data):
        raise Invalid(f"{at} should match {value}: {data!r}")


def _minimum(data: Any, value: float, schema: Any, file: str, at: str) -> None:
    if isinstance(data, int | float) and data < value:
        raise Invalid(f"{at} should be at least {value}: {data!r}")


def _min_items(data: Any, value: int, schema: Any, file: str, at: str) -> None:
    if isinstance(data, list) and len(data) < value:
        raise Invalid(f"{at} should have at least {value} items: {data!r}")


def _required(data: Any, value: list[str], schema: Any, file: str, at: str) -> None:
    missing = [name for name in value if isinstance(data, dict) and name not in data]
    if missing:
        raise Invalid(f"{at} lacks {', '.join(missing)}: {data!r}")


def _properties(data: Any, value: dict[str, Any], schema: Any, file: str, at: str) -> None:
    for name, inner in value.items():
        if isinstance(data, dict) and name in data:
            _check(data[name], inner, file, f"{at}.{name}")


def _more_properties(data: Any, value: Any, schema: Any, file: str, at: str) -> None:
    for name in data.keys() - schema.get("properties", {}).keys() if isinstance(data, dict) else ():
        _check(data[name], value, file, f"{at}.{name}")


def _prefix_items(data: Any, value: list[Any], schema: Any, file: str, at: str) -> None:
    for number, (item, inner) in enumerate(zip(data, value, strict=False) if isinstance(data, list) else ()):
        _check(item, inner, file, f"{at}[{number}]")


def _items(data: Any, value: Any, schema: Any, file: str, at: str) -> None:
    first = len(schema.get("prefixItems", ()))
    for number, item in enumerate(data[first:] if isinstance(data, list) else (), first):
        _check(item, value, file, f"{at}[{number}]")


def _any_of(data: Any, value: list[Any], schema: Any, file: str, at: str) -> None:
    problems = []
    for inner in value:
        try:
            _check(data, inner, file, at)
            return
        except Invalid as problem:
            problems.append(str(problem))
    # The alternative that went deepest is the one that was meant.
    raise Invalid(max(problems, key=lambda text: len(text.split(" ", 1)[0])))


_KEYWORDS = {
    "$ref": _ref,
    "type": _type,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "minItems": _min_items,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _more_properties,
    "prefixItems": _prefix_items,
    "items": _items,
    "anyOf": _any_of,
}
