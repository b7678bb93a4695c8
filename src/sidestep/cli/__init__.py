"""How does a person use it? The command ``sidestep``: index a table, look at its index, explain and run queries."""

from __future__ import annotations

from sidestep.cli.commands import app

__all__ = ["app"]
