"""How is a result shown? Reports as documents; documents as text for terminals, and as HTML for notebooks and pages."""

from __future__ import annotations

from sidestep.render.text import as_text, counted, shorten, size_text

__all__ = ["as_text", "counted", "shorten", "size_text"]
