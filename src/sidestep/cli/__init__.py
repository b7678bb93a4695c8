"""How does a person use it? The command ``sidestep``: lay out and index tables, explain and run queries."""

from __future__ import annotations

from sidestep.cli import commands, serve, tables
from sidestep.cli.options import app

__all__ = ["app", "commands", "serve", "tables"]
