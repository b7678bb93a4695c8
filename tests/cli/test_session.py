from __future__ import annotations

import pytest
from pyspark.errors import PySparkRuntimeError

from sidestep import SidestepError
from sidestep.cli import session


def test_without_java_it_says_what_to_install(monkeypatch):
    def launch_gateway(conf, popen_kwargs):
        popen_kwargs["stderr"].write(b"spark-class: line 71: /no/bin/java: No such file\nhead: bad count\n")
        popen_kwargs["stderr"].flush()
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")

    monkeypatch.setattr(session, "launch_gateway", launch_gateway)
    with pytest.raises(SidestepError, match=r"^Spark could not start \(/no/bin/java: No such file\)\. It needs"):
        session._start("local[1]", {}, False)
