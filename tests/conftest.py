"""Fixtures of all tests."""

import os

# Before numpy loads its threads: two OpenMP threads on a busy two-core machine crawl.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from registry import ESTIMATORS, QUICK, ci_but


@pytest.fixture(params=ci_but(QUICK, ESTIMATORS), ids=lambda cls: cls.__name__)
def estimator_class(request):
    return request.param
