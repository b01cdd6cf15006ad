"""Fits side by side: in order, and with every thread setting as it was."""

import threading
from typing import ClassVar

import numpy as np
import pytest
from joblib import effective_n_jobs
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_info, threadpool_limits

from inner import SMALL_FIT, fit_model
from localconformal import SLCPRegressor
from localconformal.parallel import in_threads
from registry import smooth_data

JOBS = pytest.mark.parametrize("n_jobs", [1, 2, None])


def settings(api=None):
    return {
        info["filepath"]: info["num_threads"]
        for info in threadpool_info()
        if api in (None, info["user_api"])
    }


@pytest.fixture
def two_threads():
    """More than the one thread that is set within; and settings are as before at the end."""
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2):
        before = settings()
        assert max(before.values()) == 2
        yield
        assert settings() == before


def test_results_are_in_the_order_of_the_tasks():
    second_is_done = threading.Event()
    tasks = [lambda: second_is_done.wait(60), second_is_done.set, lambda: 2, lambda: 3]
    assert in_threads(tasks, 2) == [True, None, 2, 3]
    assert in_threads([lambda i=i: i for i in range(5)], 1) == [0, 1, 2, 3, 4]
    assert in_threads([], 2) == []


@JOBS
def test_tasks_have_one_thread_each_and_errors_are_passed_on(n_jobs, two_threads):
    assert all(set(each.values()) == {1} for each in in_threads([settings] * 3, n_jobs))

    def fails():
        raise KeyError("what the task said")

    with pytest.raises(KeyError, match="what the task said"):
        in_threads([settings, fails], n_jobs)


def in_own_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def test_callers_that_overlap_leave_nothing_behind():
    """The first one in is the first one out and gone, while the second is still at work."""
    first_in, second_in, first_gone = (threading.Event() for _ in range(3))
    start = {x["prefix"]: x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}
    in_own_thread(lambda: threadpool_limits(limits=2, user_api="blas")).join()

    def work(entered, awaited):
        in_threads([lambda: (entered.set(), awaited.wait(5), inside.append(settings("blas")))])

    before, inside = settings("blas"), []
    first = in_own_thread(work, first_in, second_in)
    assert first_in.wait(5)
    second = in_own_thread(work, second_in, first_gone)
    first.join()
    first_gone.set()
    second.join()
    after = settings("blas")
    in_own_thread(lambda: threadpool_limits(limits=start, user_api=None)).join()
    assert after == before
    # The second keeps its limit after the first has gone.
    assert [set(each.values()) for each in inside] == [{1}, {1}]


def test_a_task_among_several_starts_no_threads_of_its_own(two_threads):
    def nested(i):
        inner = in_threads([lambda j=j: (10 * i + j, threading.get_ident()) for j in range(3)])
        return effective_n_jobs(-1), *zip(*inner, strict=True)

    found = in_threads([lambda i=i: nested(i) for i in range(4)], n_jobs=2)
    for i, (inner, answers, threads) in enumerate(found):
        assert (inner, answers) == (1, (10 * i, 10 * i + 1, 10 * i + 2))
        assert len(set(threads)) == 1


class Watched(LinearRegression):
    __module__ = "sklearn.linear_model"
    seen: ClassVar[list] = []

    def fit(self, X, y):
        self.seen.append(set(settings("openmp").values()))
        return super().fit(X, y)


@pytest.fixture
def watched(two_threads):
    Watched.seen.clear()
    return Watched()


@pytest.mark.parametrize(("rows", "allowed"), [(SMALL_FIT // 2, {1}), (SMALL_FIT // 2 + 1, {2})])
def test_small_fits_have_one_openmp_thread_and_large_ones_all(rows, allowed, watched):
    fit_model(watched, np.zeros((rows, 2)), np.zeros(rows))
    assert watched.seen == [allowed]


def test_folds_side_by_side_give_the_bits_of_folds_in_turn():
    X, y = smooth_data(120, seed=0)
    for model in (HistGradientBoostingRegressor(max_iter=5, random_state=0), LinearRegression()):
        for score in ("residual", "normalised"):
            one = SLCPRegressor(model, law="kernel", conformity_score=score, random_state=0)
            bounds = [one.set_params(n_jobs=n).fit(X, y).predict_interval(X) for n in (None, 1)]
            np.testing.assert_array_equal(*bounds)
