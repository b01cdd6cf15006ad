"""Fits side by side: in order, and with every thread setting as it was."""

import threading
import time

import numpy as np
import pytest
from joblib import effective_n_jobs
from threadpoolctl import threadpool_info, threadpool_limits

from localconformal.parallel import in_threads

JOBS = pytest.mark.parametrize("n_jobs", [1, 2, None])


def settings():
    """Threads of each library that is loaded."""
    return {info["filepath"]: info["num_threads"] for info in threadpool_info()}


def blas_settings():
    """Threads of the BLAS libraries, by their names."""
    return {x["prefix"]: x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    """More than the one thread that is set within."""
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2):
        yield


def slowly(i):
    """Later tasks end first."""
    time.sleep(0.02 * (3 - i) if i < 3 else 0.0)
    return i


@JOBS
def test_results_come_in_the_order_of_the_tasks(n_jobs):
    assert in_threads((lambda i=i: slowly(i) for i in range(5)), n_jobs) == [0, 1, 2, 3, 4]
    assert in_threads([], n_jobs) == []


@JOBS
def test_tasks_have_one_thread_each_and_settings_are_restored(n_jobs, two_threads):
    before = settings()
    assert max(before.values()) == 2
    inside = in_threads([settings] * 3, n_jobs)
    assert all(set(each.values()) == {1} for each in inside)
    assert settings() == before


@JOBS
def test_errors_come_through_and_settings_are_restored(n_jobs, two_threads):
    before = settings()

    def fails():
        raise KeyError("what the task said")

    with pytest.raises(KeyError, match="what the task said"):
        in_threads([settings, fails], n_jobs)
    assert settings() == before


def test_calls_within_calls_work(two_threads):
    before = settings()

    def inner(i):
        return in_threads([lambda j=j: 10 * i + j for j in range(3)])

    found = in_threads([lambda i=i: inner(i) for i in range(3)])
    assert found == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]
    assert settings() == before


def in_own_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def test_callers_that_overlap_leave_nothing_behind():
    """The first one in is the first one out and gone, while the second is still at work."""
    first_in, second_in, first_gone = (threading.Event() for _ in range(3))
    start = blas_settings()
    in_own_thread(lambda: threadpool_limits(limits=2, user_api="blas")).join()

    def work(entered, awaited):
        in_threads([lambda: (entered.set(), awaited.wait(5))])

    before = blas_settings()
    first = in_own_thread(work, first_in, second_in)
    assert first_in.wait(5)
    second = in_own_thread(work, second_in, first_gone)
    first.join()
    first_gone.set()
    second.join()
    after = blas_settings()
    in_own_thread(lambda: threadpool_limits(limits=start, user_api=None)).join()
    assert after == before


def test_a_task_among_several_starts_no_threads_of_its_own():
    def nested():
        return effective_n_jobs(-1), in_threads([threading.get_ident] * 3)

    for inner, threads in in_threads([nested] * 4, n_jobs=2):
        assert inner == 1
        assert len(set(threads)) == 1
