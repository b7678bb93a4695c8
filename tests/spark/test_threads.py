"""Products of numpy's take one thread while jobs run, and afterwards as many as before."""

from __future__ import annotations

import pytest
from threadpoolctl import ThreadpoolController

from sidestep.spark.threads import one_blas_thread


def blas_threads() -> list[int]:
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


def test_jobs_that_overlap_leave_threads_as_they_were():
    before = blas_threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) <= {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_a_job_that_fails_leaves_threads_as_they_were():
    before = blas_threads()
    with pytest.raises(ValueError, match="no"), one_blas_thread():
        raise ValueError("no")
    assert blas_threads() == before
