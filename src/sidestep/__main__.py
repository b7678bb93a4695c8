"""``python -m sidestep`` is the command ``sidestep``."""

from __future__ import annotations

from sidestep.cli import app

app(prog_name="sidestep")
