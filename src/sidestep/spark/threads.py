"""Threads of numpy's own: one while a job runs, since Spark's tasks have the processors.

The library behind numpy's products (BLAS) has a thread for each processor, and those that have nothing to do wait by
running: of the processor time that choosing a layout took, that was up to half.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from threadpoolctl import LibController, ThreadpoolController


class _Blas:
    """The libraries' threads. Jobs may overlap: the first takes them away, the last brings them back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs = 0
        self._before: list[tuple[LibController, int]] = []

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        with self._lock:
            if not self._jobs:
                libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self._before = [(library, library.num_threads) for library in libraries]
                for library in libraries:
                    library.set_num_threads(1)
            self._jobs += 1
        try:
            yield
        finally:
            with self._lock:
                self._jobs -= 1
                for library, threads in () if self._jobs else self._before:
                    library.set_num_threads(threads)


one_blas_thread = _Blas().one_thread
"""A context in which numpy's products take one thread each."""
