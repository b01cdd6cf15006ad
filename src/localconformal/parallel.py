"""Several fits in parallel, in one thread each.

Libraries with their own threads (OpenMP in boosting, BLAS) split one fit among all cores. With
several fits it is better to give each its own core: on a busy machine, waiting at barriers can take
a hundred times as long as the work.
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
#: Number of rows up to which a prediction ends before another thread has started.
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
    """Results of the tasks in their order; ``n_jobs=None`` is one thread per core."""
    waiting = list(tasks)
    jobs = min(len(waiting), effective_n_jobs(asked_jobs(n_jobs)))
    # BLAS has one setting for the whole process, OpenMP one per thread.
    with one_blas_thread:
        if jobs <= 1:
            return [_alone(task) for task in waiting]
        # scikit-learn's settings, such as metadata routing, are per thread too.
        told = [delayed(_alone)(task, get_config()) for task in waiting]
        with kept_filters:
            return list(Parallel(n_jobs=jobs, prefer="threads")(told))


class _Shared(ContextDecorator):
    """A setting of the whole process: the first to enter sets it, the last to leave restores it.

    If each of two overlapping threads restored what it found, the second would restore the setting
    of the first.
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


#: For linear algebra behind a law: its last bits depend on the number of threads.
one_blas_thread = _Shared(lambda: thread_pools("blas").limit(limits=1))
#: For trees grown in threads: scikit-learn sets warnings filters for each, and Python has one list
#: of them for all threads. Do not set filters inside: they would stay until the end.
kept_filters = _Shared(warnings.catch_warnings)
if hasattr(os, "register_at_fork"):
    # Another thread may be inside while the process forks; it does not exist in the child.
    os.register_at_fork(after_in_child=one_blas_thread.forget)
    os.register_at_fork(after_in_child=kept_filters.forget)


def _alone(task: Callable[[], _T], config: Mapping[str, Any] | None = None) -> _T:
    """Run the task in this thread only: joblib, and so our own loops, start no others."""
    with (
        config_context(**(config or {})),
        parallel_config(backend="sequential"),
        thread_pools("openmp").limit(limits=1),
    ):
        return task()
