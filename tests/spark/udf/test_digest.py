"""What a Python function means: equal code has equal digests, other code others, and what is unclear has none."""

from __future__ import annotations

import base64
import datetime
import functools
import importlib
import math
import os
import random
import re
import subprocess
import sys
import time
from decimal import Decimal
from urllib.parse import urlparse

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import sidestep
from sidestep.errors import SidestepError
from sidestep.spark.udf.digest import FunctionDigest, Unclear
from sidestep.spark.udf.identity import PythonFunctions, identify

PATTERN = re.compile("bot|spider", re.IGNORECASE)
SEARCH = PATTERN.search
WORDS = ("bot", "spider")
SET = frozenset(WORDS)
DAY = datetime.date(2024, 2, 29)
RATE = Decimal("0.07")
LISTED = ["bot"]
HASH = hash
CLOCK = time.time
CHANCE = random.random


class Model:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def above(self, x: int) -> bool:
        return x > self.limit


MODEL = Model(3)


def digest_of(function):
    return FunctionDigest(function).digest()


def named(x):
    return x in WORDS


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def set_global(x):
    global LISTED
    LISTED = x


def compiled(source: str, **names: object):
    """The function f of a source text, as if from a notebook: in no module."""
    space: dict[str, object] = {"__name__": "__main__", **names}
    exec(compile(source, "<cell>", "exec"), space)
    return space["f"]


SAME = [
    ("def f(x): return x > 3", "def f(x):\n\n    return x > 3"),
    ("f = lambda x: x > 3", "def f(x): return x > 3"),
    ("def g(x): return x + 1\ndef f(x): return g(x)", "def g(y): pass\ndef g(x): return x + 1\ndef f(x): return g(x)"),
    ("def f(x): return x in {'a', 'b', 'c'}", "def f(x): return x in {'c', 'b', 'a'}"),
]
OTHER = [
    ("def f(x): return x > 3", "def f(x): return x > 4"),
    ("def f(x): return x > 3", "def f(x): return x >= 3"),
    ("def f(x): return x == 1", "def f(x): return x == 1.0"),
    ("def f(x): return x == 1", "def f(x): return x == True"),
    ("def f(x, y=1): return x > y", "def f(x, y=2): return x > y"),
    ("def f(x, *, y=1): return x > y", "def f(x, *, y=2): return x > y"),
    ("L = 1\ndef f(x): return x > L", "L = 2\ndef f(x): return x > L"),
    ("L = (1, (2,))\ndef f(x): return x in L", "L = (1, 2)\ndef f(x): return x in L"),
    ("L = 'ab', 'c'\ndef f(x): return x in L", "L = 'a', 'bc'\ndef f(x): return x in L"),
    ("def g(x): return x + 1\ndef f(x): return g(x)", "def g(x): return x + 2\ndef f(x): return g(x)"),
    ("def f(x): return x.lower()", "def f(x): return x.upper()"),
    ("def f(x): return [y + 1 for y in x]", "def f(x): return [y + 2 for y in x]"),
    ("def m(n):\n  def f(x): return x > n\n  return f\nf = m(1)",
     "def m(n):\n  def f(x): return x > n\n  return f\nf = m(2)"),
    ("import re\nP = re.compile('a')\ndef f(x): return P.match(x)",
     "import re\nP = re.compile('a', 2)\ndef f(x): return P.match(x)"),
    ("def f(x):\n  try: return int(x)\n  except ValueError: return 0",
     "def f(x):\n  try: return int(x)\n  except TypeError: return 0"),
    ("import math\ndef f(x): return math.sin(x)", "import cmath as math\ndef f(x): return math.sin(x)"),
    ("def f(x): return f.limit\nf.limit = 1", "def f(x): return f.limit\nf.limit = 2"),
    ("from functools import partial\ndef g(x, y): return x > y\nf = partial(g, 1)",
     "from functools import partial\ndef g(x, y): return x > y\nf = partial(g, 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), SAME)
def test_what_means_the_same_has_one_digest(one, two):
    assert digest_of(compiled(one)) == digest_of(compiled(two))


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_what_differs_in_anything_that_counts_has_another(one, two):
    assert digest_of(compiled(one)) == digest_of(compiled(one))
    assert digest_of(compiled(one)) != digest_of(compiled(two))


CLEAR = {
    "a pattern": lambda x: PATTERN.match(x) is not None,
    "a method of a pattern": lambda x: SEARCH(x) is not None,
    "a tuple": named,
    "a frozenset": lambda x: x in SET,
    "a date": lambda x: x > DAY,
    "a decimal": lambda x: x * RATE,
    "itself": factorial,
    "a module of the library": lambda x: math.sqrt(x) > 2,
    "a function of the library": lambda x: urlparse(x).netloc == "a.b",
    "an installed package": lambda x: np.sqrt(x) > 2,
    "an import inside": compiled("def f(x):\n  import json\n  return json.loads(x)"),
    "a comprehension": lambda x: sum(ord(c) for c in x if c in WORDS),
    "builtins": lambda x: max(len(str(x)), abs(-3)) > 1 and isinstance(x, int),
    "a method": str.lower,
    "a partial": functools.partial(named, x=3),
    "a function of another module": lambda x: digest_name(x),
}


def digest_name(x):
    return datetime.date(2024, 1, x)


@pytest.mark.parametrize("name", CLEAR)
def test_what_is_clear_has_a_digest(name):
    assert digest_of(CLEAR[name]) == digest_of(CLEAR[name])


UNCLEAR = {
    "LISTED is a list": lambda x: x in LISTED,
    "MODEL is a Model": lambda x: MODEL.above(x),
    "the function is a method": MODEL.above,
    "class": lambda x: Model(x).limit,
    "HASH is hash": lambda x: HASH(x),
    "uses hash": lambda x: hash(x) % 2,
    "uses open": lambda x: open(x).read(),  # noqa: SIM115
    "uses eval": lambda x: eval(x),
    "CLOCK is of time": lambda x: CLOCK() > x,
    "CHANCE is a Random": lambda x: CHANCE() > x,
    "time is of time": lambda x: time.time() > x,
    "os is of os": lambda x: os.path.exists(x),
    ".now": lambda x: datetime.datetime.now() > x,
    ".random": lambda x: np.random.rand() > x,
    "sets the global": set_global,
    "has no version": compiled("def f(x):\n  import nosuchmodule\n  return x"),
    "from its own package": compiled("def f(x):\n  from . import y\n  return x"),
    "is not known": compiled("def f(x): return nowhere(x)"),
    "default of": compiled("def f(x, seen=[]): return x"),
    "as a whole": lambda x: str(sidestep),
    "no value yet": compiled("def m():\n  def f(x): return later\n  return f\n  later = 1\nf = m()"),
}


@pytest.mark.parametrize("why", UNCLEAR)
def test_what_is_not_clear_has_none_and_says_why(why):
    with pytest.raises(Unclear, match=re.escape(why)):
        digest_of(UNCLEAR[why])


def test_a_function_in_a_module_counts_by_its_code_and_is_looked_at_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "agents_of_a_test.py"
    file.write_text("LIMIT = 3\ndef above(x): return x > LIMIT\n")
    module = importlib.import_module("agents_of_a_test")
    through_module = compiled("def f(x): return m.above(x)", m=module)
    before = [FunctionDigest(module.above), FunctionDigest(through_module)]
    digests = [one.digest() for one in before]
    assert all(one.live for one in before)
    command = cloudpickle.dumps((module.above, None))
    assert len(command) < 150  # by reference
    asked = PythonFunctions()
    assert asked.apply("d1") == "?"
    first = asked.apply("d1\n" + base64.b64encode(command).decode())
    assert first == "~code:" + digests[0] == asked.apply("d1")
    file.write_text("LIMIT = 4\ndef above(x): return x > LIMIT\n")
    importlib.reload(module)
    assert digest_of(module.above) != digests[0]
    assert digest_of(through_module) != digests[1]
    assert asked.apply("d1") == "~code:" + digest_of(module.above)


@pytest.mark.parametrize("name", CLEAR)
def test_a_function_comes_out_of_its_pickle_as_it_went_in(name):
    known, identity, _ = identify(cloudpickle.dumps((CLEAR[name], None)))
    assert (known, identity) == (True, "code:" + digest_of(CLEAR[name]))


def test_a_digest_is_the_same_in_another_process():
    script = (
        "import sys\nfrom sidestep.spark.udf.digest import FunctionDigest\nWORDS = frozenset(['a', 'b', 'c', 'd'])\n"
        "def f(x): return x in WORDS or x in {'p', 'q', 'r'}\nprint(FunctionDigest(f).digest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=8,
)


def key(value: object) -> object:
    """Equality with types: 1, 1.0 and True are three."""
    match value:
        case tuple():
            return ("tuple", tuple(key(item) for item in value))
        case frozenset():
            return ("frozenset", frozenset(key(item) for item in value))
    return (type(value).__name__, repr(value))


@given(values, values)
def test_two_closures_are_one_only_if_their_values_are(one, two):
    def made(value):
        return lambda x: x == value

    assert (digest_of(made(one)) == digest_of(made(two))) == (key(one) == key(two))


def test_a_broadcast_has_no_meaning_here_and_a_damaged_pickle_neither():
    assert identify(b"nonsense")[0] is False
    gone = cloudpickle.dumps((compiled("def f(x): return x"), None)).replace(
        b"cloudpickle.cloudpickle", b"cloudpickle.cloudpickl_"
    )
    assert "unpickled" in identify(gone)[1]


# ---- declared versions


def test_a_declared_version_stands_for_the_code():
    def make(source: str, version: str):
        f = compiled(source)
        f.__qualname__ = "is_bot"
        return sidestep.stable(f, version=version)

    one = make("def f(x): return x in seen", "1")
    other_code = make("def f(x): return x in seen and x", "1")
    other_version = make("def f(x): return x in seen", "2")
    assert digest_of(one) == digest_of(other_code) != digest_of(other_version)
    known, identity, live = identify(cloudpickle.dumps((one, None)))
    assert (known, identity, live) == (True, "declared:" + digest_of(one), False)
    calling = compiled("def f(x): return g(x)", g=one)
    assert digest_of(calling) == digest_of(compiled("def f(x): return g(x)", g=other_code))
    assert digest_of(calling) != digest_of(compiled("def f(x): return g(x)", g=other_version))


def test_a_version_is_not_handed_on_to_a_wrapper():
    @sidestep.stable("1")
    def inner(x):
        return x in LISTED

    def loud(function, word):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) or x == word

        return wrapper

    assert digest_of(loud(inner, "a")) != digest_of(inner)
    assert digest_of(loud(inner, "a")) != digest_of(loud(inner, "b"))


def test_one_declared_function_made_for_two_limits_is_two():
    def make(limit, model):
        @sidestep.stable(version="1")
        def above(x):
            return model.above(x) and x > limit

        return above

    assert digest_of(make(1, MODEL)) == digest_of(make(1, Model(4))) != digest_of(make(2, MODEL))


def test_an_object_can_be_declared():
    class Calls:
        def __call__(self, x):
            return x

    assert digest_of(sidestep.stable(Calls(), version="1")) == digest_of(sidestep.stable(Calls(), version="1"))
    assert digest_of(sidestep.stable(Calls(), version="1")) != digest_of(sidestep.stable(Calls(), version="2"))


def test_what_cannot_be_declared_says_so():
    with pytest.raises(SidestepError, match="def"):
        sidestep.stable(lambda x: x, version="1")
    with pytest.raises(SidestepError, match="cannot hold"):
        sidestep.stable(len, version="1")
    with pytest.raises(SidestepError, match="version is a text"):
        sidestep.stable(named, version="")
    with pytest.raises(SidestepError, match="version is a text"):
        sidestep.stable(named)  # type: ignore[call-overload]
