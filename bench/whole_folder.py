"""Folders of generated data that exist only when they are complete."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when the block is done; an interrupted one leaves nothing behind."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield partial
        partial.chmod(0o755)
        partial.rename(target)
    except OSError:
        # Another process may have finished the same data first; its folder is as good as ours.
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
