"""Several fits side by side in threads, each with one thread of its own.

Libraries that bring their own threads (OpenMP in boosting, BLAS in linear algebra) split one
fit among all cores. With several fits to do it is better to give each its core: nobody waits at
a barrier, and on a busy machine a barrier can cost a hundred times the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

T = TypeVar("T")


def in_threads(tasks: Iterable[Callable[[], T]], n_jobs: int | None = None) -> list[T]:
    """Results of the tasks in their order; ``n_jobs=None`` is one thread for each core.

    Examples
    --------
    >>> in_threads([lambda: 1, lambda: 2])
    [1, 2]
    """
    waiting = list(tasks)
    jobs = min(len(waiting), effective_n_jobs(-1 if n_jobs is None else n_jobs))
    # BLAS has one setting for the whole process, OpenMP one for each thread.
    with _pools().limit(limits=1, user_api="blas"):
        if jobs <= 1:
            return [_alone(task) for task in waiting]
        return list(
            Parallel(n_jobs=jobs, prefer="threads")(delayed(_alone)(task) for task in waiting)
        )


def _alone(task: Callable[[], T]) -> T:
    with _pools().limit(limits=1, user_api="openmp"):
        return task()


@lru_cache(maxsize=1)
def _pools() -> Any:
    # Looking for the loaded libraries takes milliseconds, so once; scikit-learn's are loaded.
    import sklearn.ensemble  # noqa: F401

    return ThreadpoolController()
