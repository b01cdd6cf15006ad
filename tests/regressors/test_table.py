"""The table of methods says what the estimators say."""

import pathlib

import localconformal
from registry import ESTIMATORS, light, smooth_data

METHODS = localconformal.methods().to_dict("records")
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "methods.md"


def test_every_estimator_has_a_row_and_keeps_what_it_promises():
    *rows, wrapper = METHODS
    assert wrapper["estimator"] == "AdaptiveIntervals"
    assert {row["estimator"] for row in rows} == {cls.__name__ for cls in ESTIMATORS}
    for row in rows:
        model = light(getattr(localconformal, row["estimator"])).fit(*smooth_data(300, seed=0))
        promise = model.guarantee_
        assert promise.marginal == (row["guarantee"] != "none exact"), row
        assert (promise.conditional_on == "cell") == (row["guarantee"] == "within each cell"), row


def test_the_docs_have_the_same_table():
    lines = DOCS.read_text().splitlines()
    for method in METHODS:
        row = next(line for line in lines if line.startswith(f"| `{method['estimator']}`"))
        for name in ("guarantee", "cost", "when", "reference"):
            assert method[name] in row
