"""A Spark Connect session has no JVM here: whatever is called with one says what to do instead."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import sidestep


class Client:
    """A session, or rows of one, without a JVM; whatever else it is asked for, it has not."""

    @property
    def sparkSession(self) -> Client:
        return Client()


GIVEN: dict[str, Any] = {"set": {"a": "1"}, "tables": {"t": "/t"}, "query": "SELECT 1", "version": "1"}


CALLS = [name for name in sidestep.__all__ if inspect.isfunction(getattr(sidestep, name)) and name != "doctor"]


def test_the_doctor_finds_it():
    client: Any = Client()
    (found,) = (each for each in sidestep.doctor(client).findings if each.state == "bad")
    assert "Connect" in found.found


@pytest.mark.parametrize("name", CALLS)
def test_every_call_says_what_to_do_instead(name):
    call = getattr(sidestep, name)
    parameters = inspect.signature(call).parameters
    client = next((each for each in ("spark", "df") if each in parameters), None)
    if client is None:
        assert name in ("stable", "vacuum"), "a new function without a session: does it need none?"
        return
    positional, named = [], {}
    for each, parameter in parameters.items():
        value = Client() if each == client else GIVEN.get(each, "x")
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY and parameter.default is inspect.Parameter.empty:
            positional.append(value)
        elif each == client or parameter.default is inspect.Parameter.empty:
            named[each] = value
    with pytest.raises(sidestep.SidestepError, match=r"Connect session.*everywhere=True"):
        call(*positional, **named)
