"""Text for people: what rich prints without colour, numbers of things, sizes."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.filesize import decimal


def counted(count: int, thing: str) -> str:
    """
    >>> counted(1, "file"), counted(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{count:,} {thing}{'s' * (count != 1)}"


def as_text(what: RenderableType) -> str:
    """What rich would print, without colour."""
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(what)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())


def size_text(size: int) -> str:
    """A number of bytes for people.

    >>> size_text(1536)
    '1.5 kB'
    """
    return decimal(size)


def shorten(text: str, most: int) -> str:
    """At most so many characters of a text, in one line.

    >>> shorten("SELECT  1", 80), shorten("abcdef", 4)
    ('SELECT 1', 'abc…')
    """
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
