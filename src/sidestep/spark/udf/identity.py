"""Which Python functions of a session are the same function: what stands for a UDF's code in an opaque predicate.

A feature such as ``is_bot(agent)`` is worth something only if it is the same ``is_bot`` when the query comes, perhaps
weeks later. Spark knows a function as pickled bytes, which differ from session to session. So the JVM asks here, once
per function: the bytes are unpickled (they are this session's own) and what the code means is hashed
(:mod:`.digest`). A function for which that cannot be done has no identity, and matches nothing, unless
the user has declared a version with :func:`stable`.
"""

from __future__ import annotations

import base64
import io
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

from sidestep.errors import SidestepError
from sidestep.spark.udf.digest import DECLARED, FunctionDigest, Unclear, declared_version

F = TypeVar("F", bound=Callable[..., Any])

MOST_REMEMBERED = 1_000
"""Functions whose bytes are kept, as they may have to be looked at again."""


@overload
def stable(function: str, /) -> Callable[[F], F]: ...
@overload
def stable(*, version: str) -> Callable[[F], F]: ...
@overload
def stable(function: F, /, version: str) -> F: ...
def stable(function: Any = None, /, version: str | None = None) -> Any:
    """Declare that a function, under its name and this version, always gives the same value for the same arguments.

    sidestep knows most functions by their code. One that uses an object, a model, a list that could change, or an
    unversioned library has no such identity, and no layout is made for it; with a declared version it has. Change the
    version whenever the results may change: **blocks are skipped on the word of it**. Declare before the function is
    made a UDF or registered: ``@udf("boolean")`` above ``@sidestep.stable("1")``.

    >>> @stable("2024-06")
    ... def is_bot(agent):
    ...     return agent in KNOWN_BOTS
    >>> is_bot is stable(is_bot, version="2024-07")
    True
    """
    if isinstance(function, str) and version is None:
        function, version = None, function
    if not isinstance(version, str) or not version:
        raise SidestepError("A version is a text that is not empty: @sidestep.stable('1').")
    if function is None:
        return lambda declared: stable(declared, version)
    if hasattr(function, "evalType"):
        raise SidestepError(
            "This is a UDF already, and what Spark keeps of its function may be a copy: declare the function first, "
            "with @sidestep.stable below @udf."
        )
    if "<lambda>" in getattr(function, "__qualname__", ""):
        raise SidestepError("A lambda has no name to know it by: define the function with def.")
    try:
        setattr(function, DECLARED, (version, function))
    except (AttributeError, TypeError) as problem:
        raise SidestepError(f"{function!r} cannot hold a version: wrap it in a function made with def.") from problem
    return function


class PythonFunctions:
    """The Python end of ``PythonFunctions.java``. ``apply`` is called by the JVM, from whichever thread writes a plan.

    A message is the digest of a function's bytes, or that and the bytes in base64, on two lines. The answer is ``?``
    where the bytes are wanted, else an identity or the reason why there is none, after a sign: ``=`` and ``!`` hold for
    good; ``~`` and ``-`` hold for now, as the function is in a module that could be loaded again.
    """

    def __init__(self) -> None:
        self._commands: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def apply(self, message: str) -> str:
        digest, _, encoded = message.partition("\n")
        with self._lock:
            if encoded:
                while len(self._commands) >= MOST_REMEMBERED:
                    del self._commands[next(iter(self._commands))]
                self._commands[digest] = base64.b64decode(encoded)
            command = self._commands.get(digest)
        if command is None:
            return "?"
        known, identity, live = identify(command)
        if not live:
            with self._lock:
                self._commands.pop(digest, None)
        return (("~" if live else "=") if known else ("-" if live else "!")) + identity

    class Java:
        implements = ("java.util.function.Function",)


def identify(command: bytes) -> tuple[bool, str, bool]:
    """Of a pickled UDF: whether it has an identity, the identity or why not, and whether that may change."""
    try:
        loaded = _Unpickler(io.BytesIO(command)).load()
        function = loaded[0] if isinstance(loaded, tuple) else loaded
    except Exception as problem:
        return False, f"it could not be unpickled where the query is planned ({problem})", False
    if isinstance(function, _Broadcast):
        return False, "it is larger than a megabyte when pickled", False
    seen = FunctionDigest(function)
    try:
        kind = "code" if declared_version(function) is None else "declared"
        return True, f"{kind}:{seen.digest()}", seen.live
    except Unclear as problem:
        return False, f"{problem} (sidestep.stable declares a version)", seen.live
    except Exception as problem:
        return False, f"it could not be looked into ({problem!r})", True


class _Broadcast:
    """Stands for a broadcast variable, whose value is with the executors."""


class _Unpickler(pickle.Unpickler):
    """Takes everything from modules as they are, and imports none.

    The thread that started the query waits for this one. If it is in the middle of an import, as where a module runs
    queries when it is loaded, an import here of the same package would wait for that thread in turn, forever.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("pyspark.core.broadcast", "_from_id"):
            return lambda number: _Broadcast()
        if name == "subimport" and module.endswith("cloudpickle"):
            return _loaded_module
        held: Any = _loaded_module(module)
        for part in name.split("."):
            held = getattr(held, part)
        return held


def _loaded_module(module: str) -> Any:
    if module not in sys.modules:
        raise pickle.UnpicklingError(f"{module} has not been imported")
    return sys.modules[module]
