"""The table of methods says what the estimators say."""

from __future__ import annotations

import pathlib

import pytest

import localconformal
from localconformal.regressors import table
from registry import ESTIMATORS, light, smooth_data

WORDS = {
    table.ON_AVERAGE: (True, None),
    table.UNDER_SHIFT: (True, None),
    table.IN_CELLS: (True, "cell"),
    table.NONE: (False, None),
}
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "methods.md"


def test_every_estimator_has_a_row():
    assert set(localconformal.methods()["estimator"]) == {cls.__name__ for cls in ESTIMATORS}


@pytest.mark.parametrize("method", table.METHODS, ids=lambda method: method.estimator)
def test_the_table_promises_what_the_estimator_does(method):
    model = light(getattr(localconformal, method.estimator)).fit(*smooth_data(300, seed=0))
    promise = model.guarantee_
    assert (promise.marginal, promise.conditional_on) == WORDS[method.guarantee]


def test_the_docs_have_the_same_table():
    text = DOCS.read_text()
    for method in table.METHODS:
        row = next(line for line in text.splitlines() if line.startswith(f"| `{method.estimator}`"))
        for word in (method.guarantee, method.cost, method.when, method.reference):
            assert word in row
