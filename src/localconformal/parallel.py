"""Several fits side by side in threads, each with one thread of its own.

Libraries that bring their own threads (OpenMP in boosting, BLAS in linear algebra) split one
fit among all cores. With several fits to do it is better to give each its core: nobody waits at
a barrier, and on a busy machine a barrier can cost a hundred times the work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ContextDecorator, contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
#: Rows up to which a prediction is over before another thread has started.
FEW_ROWS = 500
_limiting = Lock()


def asked_jobs(n_jobs: int | None) -> int:
    """``n_jobs`` as joblib takes it; None is -1, every core, and 1 inside a worker of joblib.

    A worker has its share of the cores and no more: w workers with c threads each, on c cores,
    would wait for each other.

    Examples
    --------
    >>> asked_jobs(None), asked_jobs(3)
    (-1, 3)
    >>> Parallel(n_jobs=2, prefer="threads")(delayed(asked_jobs)(None) for _ in range(2))
    [1, 1]
    """
    if n_jobs is not None:
        return n_jobs
    return 1 if get_active_backend()[0].nesting_level else -1


def in_threads(tasks: Iterable[Callable[[], T]], n_jobs: int | None = None) -> list[T]:
    """Results of the tasks in their order; ``n_jobs=None`` is one thread for each core.

    Examples
    --------
    >>> in_threads([lambda: 1, lambda: 2])
    [1, 2]
    """
    waiting = list(tasks)
    jobs = min(len(waiting), effective_n_jobs(asked_jobs(n_jobs)))
    # BLAS has one setting for the whole process, OpenMP one for each thread.
    with _one_blas_thread():
        if jobs <= 1:
            return [_alone(task) for task in waiting]
        with kept_filters:
            return list(
                Parallel(n_jobs=jobs, prefer="threads")(delayed(_alone)(task) for task in waiting)
            )


class KeptFilters(ContextDecorator):
    """Filters of warnings are restored once the last of those inside has left.

    Python has one list of them for all threads, and scikit-learn sets them for every tree of a
    forest: of two threads that overlap, each restoring what it found, the second leaves those of
    the first behind.
    """

    def __init__(self) -> None:
        self.counting, self.inside = Lock(), 0

    def __enter__(self) -> None:
        with self.counting:
            if self.inside == 0:
                self.before = warnings.catch_warnings()
                self.before.__enter__()
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.counting:
            self.inside -= 1
            if self.inside == 0:
                self.before.__exit__(None, None, None)


kept_filters = KeptFilters()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """BLAS with one thread, for one caller at a time.

    Two that overlap, each restoring what it found, would leave the limit of the other behind.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with _pools("blas").limit(limits=1):
            yield
    finally:
        _limiting.release()


def _alone(task: Callable[[], T]) -> T:
    """The task in this thread only: joblib, and so our own loops, start none within it."""
    with parallel_config(backend="sequential"), _pools("openmp").limit(limits=1):
        return task()


@lru_cache(maxsize=2)
def _pools(user_api: str) -> Any:
    # Looking for the loaded libraries takes milliseconds, so once; scikit-learn's are loaded.
    import sklearn.ensemble  # noqa: F401

    # Selected first: a limit restores whatever its controller knows, of other kinds too.
    return ThreadpoolController().select(user_api=user_api)
