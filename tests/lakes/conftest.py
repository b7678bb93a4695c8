from __future__ import annotations

from collections.abc import Iterator

import pytest

import sidestep
from sidestep.spark.rule.session import Enabled
from tests.lakes.jars import FOLDER, missing

collect_ignore_glob = ["test_*.py"] if FOLDER is None else []
"""What needs the readers of others is no part of `make test`: `make test-lakes` makes an environment that has them."""


@pytest.fixture(autouse=True, scope="module")
def _has_reader(request: pytest.FixtureRequest) -> None:
    """Skip a module whose reader, named by its file (test_delta_… or test_iceberg_…), is not there."""
    reader = f"{request.path.name.split('_')[1]}-spark"
    if reason := missing(reader):
        pytest.skip(reason)


@pytest.fixture
def enabled(spark) -> Iterator[Enabled]:
    """The session with sidestep on, for one test; one that went wrong unnoticed fails."""
    with sidestep.enable(spark) as state:
        yield state
        assert state.last_problem == ""
