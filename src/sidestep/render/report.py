"""What all results have in common: they print, notebooks show them, and they can be saved as a page."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, ClassVar

from rich.console import RenderableType

from sidestep.render.document import Part
from sidestep.render.html import fragment, save_page
from sidestep.render.terminal import on_terminal
from sidestep.render.text import as_text


class Report:
    """A result that says what is to be known of it as a document, once, whoever shows it."""

    __slots__ = ()
    _title: ClassVar[str] = "sidestep"

    def _document(self) -> Iterable[Part]:
        raise NotImplementedError

    def save_html(self, path: str | os.PathLike[str], title: str | None = None) -> None:
        """Save it as one HTML page, which needs nothing else."""
        save_page(path, title or self._title, self._document())

    def __rich__(self) -> RenderableType:
        return on_terminal(self._document())

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return fragment(self._document())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython prints where there is no HTML, and keeps beside it in a notebook's file."""
        printer.text(str(self))
