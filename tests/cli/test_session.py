from __future__ import annotations

import pytest

from sidestep import SidestepError
from sidestep.cli import session


def test_without_java_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(SidestepError, match=r"Spark could not start \(.*no-java.*\). It needs Java 17 or newer"):
        session._start("local[1]", {}, False)
