"""Whatever the schema allows, and much that it does not: the API refuses or answers, and never fails."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error


@pytest.fixture
def schema(served):
    return schemathesis.openapi.from_url(f"{served.url}/openapi.json")


pytestmark = pytest.mark.spark
lazy = schemathesis.pytest.from_fixture("schema")


# Events go on for ever. Jobs that are asked for at random name no table that there is.
@lazy.exclude(path="/api/jobs/events").parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_fails(case):
    case.call_and_validate(checks=[not_a_server_error], timeout=120)
