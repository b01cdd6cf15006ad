"""Several fits side by side in threads, each with one thread of its own.

Libraries with threads of their own (OpenMP in boosting, BLAS) split one fit among all cores. With
several fits it is better to give each its core: at a barrier, a busy machine can cost a hundred
times the work.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ContextDecorator
from threading import Lock
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from sklearn import config_context, get_config

from localconformal.rows import thread_pools

_T = TypeVar("_T")
#: Rows up to which a prediction is over before another thread has started.
FEW_ROWS = 500


def asked_jobs(n_jobs: int | None) -> int:
    """``n_jobs`` as joblib takes it; None is -1, every core, and 1 inside a worker of joblib.

    >>> asked_jobs(None), asked_jobs(3)
    (-1, 3)
    >>> Parallel(n_jobs=2, prefer="threads")(delayed(asked_jobs)(None) for _ in range(2))
    [1, 1]
    """
    if n_jobs is not None:
        return n_jobs
    return 1 if get_active_backend()[0].nesting_level else -1


def in_threads(tasks: Iterable[Callable[[], _T]], n_jobs: int | None = None) -> list[_T]:
    """Results of the tasks in their order; ``n_jobs=None`` is one thread for each core."""
    waiting = list(tasks)
    jobs = min(len(waiting), effective_n_jobs(asked_jobs(n_jobs)))
    # BLAS has one setting for the whole process, OpenMP one for each thread.
    with one_blas_thread:
        if jobs <= 1:
            return [_alone(task) for task in waiting]
        # Of each thread its own too: scikit-learn's settings, such as metadata routing.
        told = [delayed(_alone)(task, get_config()) for task in waiting]
        with kept_filters:
            return list(Parallel(n_jobs=jobs, prefer="threads")(told))


class _Shared(ContextDecorator):
    """A setting of the whole process: the first one inside sets it, the last sets it back.

    Of two threads that overlap, each restoring what it found, the second would leave the setting
    of the first behind.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.forget()

    def forget(self) -> None:
        self.counting, self.inside = Lock(), 0

    def __enter__(self) -> None:
        with self.counting:
            if self.inside == 0:
                self.setting = self.make()
                self.setting.__enter__()
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.counting:
            self.inside -= 1
            if self.inside == 0:
                self.setting.__exit__(None, None, None)


#: For linear algebra that a law depends on: its last bits change with the number of threads.
one_blas_thread = _Shared(lambda: thread_pools("blas").limit(limits=1))
#: For trees grown in threads: scikit-learn sets the filters of warnings for each, and Python has
#: one list of them for all threads. Within, no filter may be set: it would stay until the end.
kept_filters = _Shared(warnings.catch_warnings)
if hasattr(os, "register_at_fork"):
    # Another thread may be inside while the process forks; it does not live on in the child.
    os.register_at_fork(after_in_child=one_blas_thread.forget)
    os.register_at_fork(after_in_child=kept_filters.forget)


def _alone(task: Callable[[], _T], config: Mapping[str, Any] | None = None) -> _T:
    """The task in this thread only: joblib, and so our own loops, start none within it."""
    with (
        config_context(**(config or {})),
        parallel_config(backend="sequential"),
        thread_pools("openmp").limit(limits=1),
    ):
        return task()
