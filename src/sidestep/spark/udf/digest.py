"""What a Python function means, as a digest of its code and of all that its code refers to.

Two functions with one digest give the same value for the same arguments, in this process or in a later one; where that
cannot be known for certain there is no digest, and :class:`Unclear` says why. Bytecode, constants, defaults, closures
and globals count; names of files, line numbers and the function's own name do not. What is in Python's library or in an
installed package counts by name and version, what is the user's own by its code.

Spark believes whoever says that a function is deterministic, and so does sidestep, within reason: code that plainly
reaches for a clock, for chance or for the world outside has no digest, as blocks would be skipped on it.

>>> def digest(function): return FunctionDigest(function).digest()
>>> limit = 3
>>> digest(lambda x: x > limit) == digest(lambda x: x > limit)
True
>>> digest(lambda x: x > 3) == digest(lambda x: x > 4)
False
>>> digest(lambda x, seen=[]: x in seen)
Traceback (most recent call last):
    ...
sidestep.spark.udf.digest.Unclear: a default of <lambda> is a list, which may change
"""

from __future__ import annotations

import builtins
import datetime
import dis
import functools
import hashlib
import importlib.metadata
import importlib.util
import re
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


PURE_BUILTINS = _names(
    """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float
    format frozenset getattr hasattr hex int isinstance issubclass iter len list map max memoryview min next object
    oct ord pow print property range repr reversed round set slice sorted staticmethod str sum super tuple type zip
    Ellipsis NotImplemented __build_class__ __debug__
    """
) | {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
"""Names that Python always knows; not among them are open and input, hash and id, eval and exec, globals and vars."""
OUTSIDE_MODULES = _names(
    """
    asyncio atexit ctypes fileinput ftplib gc getpass glob http imaplib importlib inspect io linecache locale mmap
    multiprocessing os pathlib pickle platform poplib random resource runpy secrets select shelve shutil signal smtplib
    socket sqlite3 ssl subprocess sys sysconfig tempfile threading time tracemalloc weakref
    """
)
"""Modules of Python's library whose functions may answer differently another time, or elsewhere."""
OUTSIDE_ATTRIBUTES = _names(
    """
    astimezone default_rng environ fromtimestamp getenv getrandbits localtime now random read_csv read_parquet timestamp
    today urlopen utcnow uuid1 uuid4
    """
)
"""Names that are suspect on whatever object they are asked of."""
DECLARED = "__sidestep_version__"
"""Where a function keeps the version that the user declared, and itself: a wrapper that copied it is another."""
PYTHON = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range)
VALUES = (datetime.date, datetime.timedelta, datetime.timezone, Decimal, Fraction, uuid.UUID)
"""Further types whose values never change and say by ``repr`` all that they are."""
MOMENTS = (datetime.datetime, datetime.time)
"""Those too, if their time zone is none or a fixed one: the rules of any other are data of the system."""
ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


class Unclear(Exception):
    """A function whose meaning cannot be had for certain, and why."""


class FunctionDigest:
    """The digest of one function while it is taken, and whether it may change while this process runs."""

    def __init__(self, function: object) -> None:
        self.function = function
        self.live = False
        """Whether it depends on modules that may be changed and loaded again while this process runs."""
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}

    def digest(self) -> str:
        """The digest of what the function means; Unclear if there is none."""
        self._put("python", PYTHON)
        try:
            if isinstance(self.function, types.FunctionType) and declared_version(self.function) is None:
                self._by_code(self.function)
            else:
                self._value(self.function, "the function")
        except RecursionError as problem:
            raise Unclear("it refers to itself in too many ways") from problem
        return self._hash.hexdigest()

    def _put(self, *words: str) -> None:
        # Lengths part the words: no value can be taken for the end of one and the start of the next.
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self._hash.update(b"%d:" % len(data) + data)

    # ---- values

    def _value(self, value: Any, what: str) -> None:
        kind = type(value)
        if declared_version(value) is not None:
            self._put_declared(value)
        elif kind in PLAIN or kind in VALUES or (kind in MOMENTS and _has_fixed_zone(value)):
            self._put(kind.__name__, repr(value))
        elif kind is tuple:
            self._put("tuple", str(len(value)))
            for item in value:
                self._value(item, what)
        elif kind is frozenset:
            self._put("frozenset", *sorted(self._separate_digest(item, what) for item in value))
        elif kind is re.Pattern:
            self._put("pattern", str(value.flags))
            self._value(value.pattern, what)
        elif kind is functools.partial:
            self._put("partial")
            for part in (value.func, value.args, tuple(sorted(value.keywords.items()))):
                self._value(part, what)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.BuiltinFunctionType):
            if value.__self__ is builtins and value.__name__ not in PURE_BUILTINS:
                raise Unclear(f"{what} is {value.__name__}, which may answer differently another time")
            if value.__self__ is None:
                raise Unclear(f"{what} is {value.__name__}, of no known module")
            self._put("bound", value.__name__)
            self._value(value.__self__, what)
        elif isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType):
            self._put("of", value.__name__)
            self._value(value.__objclass__, what)
        elif isinstance(value, types.ModuleType):
            self._put("module", value.__name__, self._release(value.__name__, what))
        elif isinstance(value, type):
            if not is_importable(value) or release_of(value.__module__.partition(".")[0]) is None:
                raise Unclear(f"{what} is a class of no installed package, and classes are not looked into")
            self._put("class", value.__module__, value.__qualname__, self._release(value.__module__, what))
        else:
            raise Unclear(f"{what} is a {kind.__name__}, which may change")

    def _separate_digest(self, value: object, what: str) -> str:
        """The digest of a value that has no place among others, as in a set."""
        separate = FunctionDigest(value)
        separate._value(value, what)
        self.live |= separate.live
        return separate._hash.hexdigest()

    def _put_declared(self, value: Any) -> None:
        named = value if hasattr(value, "__qualname__") else type(value)
        self._put("declared", str(declared_version(value)), named.__module__, named.__qualname__)
        # One function made twice, for two limits, has one name: what it closes over distinguishes the two, if it can.
        for cell in getattr(value, "__closure__", None) or ():
            try:
                self._put("closure", self._separate_digest(cell.cell_contents, "a closure"))
            except (Unclear, ValueError):
                self._put("closure")

    def _release(self, module: str, what: str) -> str:
        top = module.partition(".")[0]
        if top in OUTSIDE_MODULES:
            raise Unclear(f"{what} is of {module}, which may answer differently another time")
        release = release_of(top)
        if release is None:
            raise Unclear(f"{what} is of {module}, which has no version")
        return release

    # ---- functions

    def _function(self, function: types.FunctionType) -> None:
        if is_importable(function) and release_of(function.__module__.partition(".")[0]) is not None:
            release = self._release(function.__module__, function.__qualname__)
            self._put("function", function.__module__, function.__qualname__, release)
        else:
            self._by_code(function)

    def _by_code(self, function: types.FunctionType) -> None:
        if id(function) in self._seen:
            self._put("again", str(self._seen[id(function)]))
            return
        self._seen[id(function)] = len(self._seen)
        name = function.__qualname__
        self.live |= is_importable(function) and release_of(function.__module__.partition(".")[0]) is None
        self._code(function.__code__)
        self._put("defaults")
        self._value(function.__defaults__, f"a default of {name}")
        self._value(tuple(sorted((function.__kwdefaults__ or {}).items())), f"a default of {name}")
        for key, value in sorted(vars(function).items()):
            if key not in ("__wrapped__", DECLARED):
                self._put("attribute", key)
                self._value(value, f"{name}.{key}")
        for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._put("closure", key)
            try:
                value = cell.cell_contents
            except ValueError as empty:
                raise Unclear(f"{key} has no value yet where {name} refers to it") from empty
            self._value(value, key)
        for path, value in self._globals(function):
            self._put("global", path)
            self._value(value, path)

    def _code(self, code: types.CodeType) -> None:
        self._put("code", code.co_code.hex(), code.co_exceptiontable.hex(), str(code.co_flags))
        self._put(*(str(n) for n in (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)))
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            self._value(names, "a name")
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self._value(constant, "a constant")

    def _globals(self, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        """What the function's code takes from its module, each once, in the order of its first use."""
        taken: dict[str, Any] = {}
        for steps in _instructions(function.__code__):
            for at, step in enumerate(steps):
                if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                    raise Unclear(f"it sets the global {step.argval}")
                if step.opname in (*ATTRIBUTE, "IMPORT_FROM") and step.argval in OUTSIDE_ATTRIBUTES:
                    raise Unclear(f"it uses .{step.argval}, which may answer differently another time")
                if step.opname == "IMPORT_NAME":
                    if steps[at - 2].argval != 0:
                        raise Unclear(f"it imports {step.argval!r} from its own package")
                    taken[f"import {step.argval}"] = self._release(step.argval, f"import {step.argval}")
                if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    path, value = self._global(function, steps, at)
                    taken[path] = value
        yield from taken.items()

    def _global(self, function: types.FunctionType, steps: list[dis.Instruction], at: int) -> tuple[str, Any]:
        name = str(steps[at].argval)
        if name not in function.__globals__:
            if name not in PURE_BUILTINS:
                raise Unclear(f"it uses {name}, which is not known or may answer differently another time")
            return name, None
        path, value = name, function.__globals__[name]
        # A module of the user's own counts by what is taken from it; passed on as it is, anything could be.
        while isinstance(value, types.ModuleType) and release_of(value.__name__.partition(".")[0]) is None:
            at += 1
            taken = steps[at].argval if at < len(steps) and steps[at].opname in ATTRIBUTE else None
            if taken is None or not hasattr(value, taken):
                raise Unclear(f"it uses {path}, a module without a version, as a whole")
            self.live = True
            path, value = f"{path}.{taken}", getattr(value, taken)
        return path, value


def declared_version(value: Any) -> str | None:
    """The version that the user declared for this very function."""
    mark = getattr(value, DECLARED, None) if not isinstance(value, type) else None
    return str(mark[0]) if isinstance(mark, tuple) and len(mark) == 2 and mark[1] is value else None


def is_importable(value: Callable[..., Any]) -> bool:
    """Whether a function or class is what its module holds under its name: then its pickle is that name alone."""
    held: Any = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        held = getattr(held, part, None)
    return held is value


@functools.lru_cache(maxsize=1_000)
def release_of(package: str) -> str | None:
    """The version of Python's library or of an installed package; None for code that may change under one version."""
    if package in sys.stdlib_module_names:
        return PYTHON
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    files = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    if not any({"site-packages", "dist-packages"} & set(Path(file).parts) for file in files if file):
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        owners = importlib.metadata.packages_distributions().get(package)
        return f"{owners[0]} {importlib.metadata.version(owners[0])}" if owners else None


def _instructions(code: types.CodeType) -> Iterator[list[dis.Instruction]]:
    """The instructions of a function and of those written inside it."""
    yield [step for step in dis.get_instructions(code) if step.opname not in ("EXTENDED_ARG", "CACHE")]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)


def _has_fixed_zone(moment: datetime.datetime | datetime.time) -> bool:
    return moment.tzinfo is None or type(moment.tzinfo) is datetime.timezone
