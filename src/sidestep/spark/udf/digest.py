"""What a Python function means, as a digest of its code and of all that its code refers to.

Two functions with one digest give the same value for the same arguments, in this process or in a later one; where that
cannot be known for certain there is no digest, and :class:`Unclear` says why. Bytecode, constants, defaults, closures
and globals count; names of files, line numbers and the function's own name do not.

Spark believes whoever says that a function is deterministic. sidestep does not, as blocks are skipped on it: code may
use plain values, functions that have a digest themselves, and what :mod:`.pure` lists of Python's library and a few
packages, which counts by name and version. Whatever else it touches might be a clock, a file, or a state that changes.

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

from sidestep.spark.udf.pure import IMPURE_ATTRIBUTES, PURE, PURE_BUILTINS, is_pure, pure_name

DECLARED = "__sidestep_version__"
"""Where a function keeps the version that the user declared, and itself: a wrapper that copied it is another."""
PYTHON = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range)
VALUES = (datetime.date, datetime.timedelta, datetime.timezone, Decimal, Fraction, uuid.UUID)
"""Further types whose values never change and say by ``repr`` all that they are."""
MOMENTS = (datetime.datetime, datetime.time)
"""Those too, if their time zone is none or a fixed one: the rules of any other are data of the system."""
ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
NAMED = ATTRIBUTE | {"LOAD_GLOBAL", "IMPORT_NAME", "IMPORT_FROM"}
"""Instructions with a name that are understood; any other, of whichever Python, reaches out or changes something."""
LASTING = {
    "STORE_GLOBAL": "it sets the global {}",
    "DELETE_GLOBAL": "it deletes the global {}",
    "STORE_ATTR": "it sets the attribute {}, which may outlast the call",
    "DELETE_ATTR": "it deletes the attribute {}",
}


UNREAD = frozenset({"STORE_FAST", "STORE_DEREF", "DELETE_FAST", "DELETE_DEREF", "LOAD_CLOSURE", "MAKE_CELL"})
"""Instructions about a variable that take nothing from it."""
UNKNOWN = "is not known to give the same value another time"


class Unclear(Exception):
    """A function whose meaning cannot be had for certain, and why."""


class FunctionDigest:
    """The digest of one function while it is taken, and whether it may change while this process runs."""

    def __init__(self, function: object) -> None:
        self.function = function
        self.live = False
        """Whether it depends on modules that may be changed or loaded again while this process runs."""
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
            self._builtin(value, what)
        elif isinstance(value, types.MethodDescriptorType):
            _check_attribute(value.__name__)
            self._put("of", value.__name__)
            self._value(value.__objclass__, what)
        elif isinstance(value, types.ModuleType):
            raise Unclear(f"{what} is {value.__name__}, a module as a whole")
        elif isinstance(value, type):
            if not _is_pure_builtin(value) and pure_name(value) is None:
                raise Unclear(f"{what} is the class {value.__qualname__}, and classes are not looked into")
            self._put("class", value.__module__, value.__qualname__, self._release(value.__module__, what))
        else:
            raise Unclear(f"{what} is a {kind.__name__}, which may change")

    def _builtin(self, value: types.BuiltinFunctionType, what: str) -> None:
        """A function without Python code: of a module, or a method with the object that it belongs to."""
        self._put("bound", value.__name__)
        owner = value.__self__
        if isinstance(owner, types.ModuleType):
            if not _is_pure_builtin(value) and pure_name(value) is None:
                name = f"{owner.__name__}.{value.__name__}"
                raise Unclear((f"it uses {name}" if name == what else f"{what} is {name}") + f", which {UNKNOWN}")
            self._module(owner, what)
        elif owner is None:
            raise Unclear(f"{what} is {value.__name__}, of no known module")
        else:
            _check_attribute(value.__name__)
            self._value(owner, what)

    def _module(self, module: types.ModuleType, what: str) -> None:
        """A module of which pure things are used, and no other."""
        self._put("module", module.__name__, self._release(module.__name__, what))

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
        release = release_of(module.partition(".")[0])
        if release is None:
            raise Unclear(f"{what} is of {module}, which has no version")
        return release

    # ---- functions

    def _function(self, function: types.FunctionType) -> None:
        if pure_name(function) is not None:
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
        if getattr(function, "__builtins__", None) is not vars(builtins):
            raise Unclear(f"{name} has builtins of its own")
        self.live |= is_importable(function)
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
            if isinstance(value, types.ModuleType):
                self._module_uses(function, key, value)
            else:
                self._value(value, key)
        for path, value in self._globals(function):
            self._put("global", path)
            if isinstance(value, types.ModuleType):
                self._module(value, path)
            else:
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
        imported: dict[str, str] = {}
        codes = list(_instructions(function.__code__))
        for steps in codes:
            for at, step in enumerate(steps):
                _check_step(steps, at, function.__code__.co_freevars)
                if step.opname == "IMPORT_NAME":
                    imported.update(_imported_modules(steps, at))
                    taken[f"import {step.argval}"] = self._release(step.argval, f"import {step.argval}")
                if step.opname == "LOAD_GLOBAL":
                    path, value = self._global(function, steps, at)
                    taken[path] = value
        for steps in codes:
            _check_imported(steps, imported)
        yield from taken.items()

    def _global(self, function: types.FunctionType, steps: list[dis.Instruction], at: int) -> tuple[str, Any]:
        name = str(steps[at].argval)
        if name not in function.__globals__:
            if name not in PURE_BUILTINS:
                raise Unclear(f"it uses {name}, which {UNKNOWN}")
            return name, None
        value = function.__globals__[name]
        return self._taken(name, value, steps, at) if isinstance(value, types.ModuleType) else (name, value)

    def _taken(self, path: str, module: types.ModuleType, steps: list[dis.Instruction], at: int) -> tuple[str, Any]:
        """What code takes from a module: the module, if that is pure, else the very thing, to be looked into."""
        value: Any = module
        # Passed on as a whole, anything could be taken from it.
        while isinstance(value, types.ModuleType):
            at += 1
            taken = steps[at].argval if at < len(steps) and steps[at].opname in ATTRIBUTE else None
            if taken is not None and is_pure(value.__name__, taken):
                return path, value
            if taken is None or not hasattr(value, taken):
                raise Unclear(f"it uses {path}, a module, as a whole")
            self.live = True
            library = value.__name__.partition(".")[0] in sys.stdlib_module_names
            path, value = f"{path}.{taken}", getattr(value, taken)
            if library and not isinstance(value, types.ModuleType | types.FunctionType):
                # What it is here says nothing of what it is in a worker: sys.platform, time.timezone.
                raise Unclear(f"it uses {path}, which {UNKNOWN}")
        return path, value

    def _module_uses(self, function: types.FunctionType, key: str, module: types.ModuleType) -> None:
        """What code takes from a module that it closes over."""
        for steps in _instructions(function.__code__):
            for at, step in enumerate(steps):
                if _loads(step, key):
                    path, value = self._taken(key, module, steps, at)
                    if isinstance(value, types.ModuleType):
                        self._module(value, path)
                    else:
                        self._value(value, path)


def _check_step(steps: list[dis.Instruction], at: int, free: tuple[str, ...]) -> None:
    """Unclear if an instruction reaches where it should not, or leaves something behind for the next call."""
    step = steps[at]
    if step.opname in LASTING:
        raise Unclear(LASTING[step.opname].format(step.argval))
    if step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in free:
        raise Unclear(f"it sets {step.argval}, which outlasts the call")
    if step.opname == "LOAD_BUILD_CLASS":
        raise Unclear("it defines a class, and classes are not looked into")
    if step.opcode in dis.hasname and step.opname not in NAMED:
        raise Unclear(f"its code has an instruction that is not looked into ({step.opname} {step.argval})")
    if step.opname in ATTRIBUTE or step.opname == "IMPORT_FROM":
        _check_attribute(step.argval)
    if step.opname == "MATCH_CLASS":
        for name in steps[at - 1].argval:
            _check_attribute(name)


def _check_attribute(name: str) -> None:
    if name in IMPURE_ATTRIBUTES:
        raise Unclear(f"it uses .{name}, which may answer differently another time")
    if name.startswith("__"):
        raise Unclear(f"it uses .{name}, by which anything can be reached")


def _imported_modules(steps: list[dis.Instruction], at: int) -> Iterator[tuple[str, str]]:
    """The variables that an import inside a function makes modules, and those modules; Unclear if one is not pure."""
    module, names = str(steps[at].argval), steps[at - 1].argval
    if steps[at - 2].argval != 0:
        raise Unclear(f"it imports {module!r} from its own package")
    after = steps[at + 1 :]
    if names is None:
        renamed = after[0].opname == "IMPORT_FROM"
        stored = next(step for step in after if step.opname.startswith("STORE_"))
        yield str(stored.argval), module if renamed else module.partition(".")[0]
        return
    for name, stored in zip(after[::2], after[1::2], strict=False):
        if name.opname != "IMPORT_FROM":
            break
        if f"{module}.{name.argval}" in PURE:
            yield str(stored.argval), f"{module}.{name.argval}"
        elif not is_pure(module, name.argval):
            raise Unclear(f"it imports {name.argval} from {module}, which {UNKNOWN}")


def _check_imported(steps: list[dis.Instruction], imported: dict[str, str]) -> None:
    """Unclear if anything is taken from modules that were imported inside the function but what is pure."""
    for at, step in enumerate(steps):
        for variable, module in imported.items():
            if not _loads(step, variable):
                continue
            path, end = module, at + 1
            while end < len(steps) and steps[end].opname in ATTRIBUTE and not is_pure(path, steps[end].argval):
                path, end = f"{path}.{steps[end].argval}", end + 1
            if end >= len(steps) or steps[end].opname not in ATTRIBUTE:
                raise Unclear(f"it uses {path}, which {UNKNOWN}")


def _loads(step: dis.Instruction, variable: str) -> bool:
    """Whether an instruction takes the value of a variable; of one that does more at once, it must be assumed."""
    named = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    variables = step.opcode in dis.haslocal or step.opcode in dis.hasfree
    return variables and variable in named and step.opname not in UNREAD


def _is_pure_builtin(value: Any) -> bool:
    name = getattr(value, "__name__", "")
    return name in PURE_BUILTINS and getattr(builtins, name, None) is value


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
        return f"{PYTHON}.{sys.version_info[2]}"
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
