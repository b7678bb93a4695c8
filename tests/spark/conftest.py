from __future__ import annotations

from collections.abc import Iterator

import pytest

import sidestep
from sidestep.spark.rule.session import Enabled


@pytest.fixture
def enabled(spark) -> Iterator[Enabled]:
    """The session with sidestep on, for one test; one that went wrong unnoticed fails."""
    with sidestep.enable(spark) as state:
        yield state
        assert state.last_problem == ""
