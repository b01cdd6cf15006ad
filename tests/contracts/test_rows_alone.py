"""A row alone is the row in its batch, whatever types its frame has chosen for the columns."""

import numpy as np
import pandas as pd
import pytest
from law_variants import LAST_BITS, VARIANTS
from law_variants import fit as fit_law
from sklearn.base import BaseEstimator, RegressorMixin
from table_frames import ALONE, PANDAS, frame

from inner import few_trees, split_columns  # noqa: F401
from localconformal import KernelLaw, MondrianConformalRegressor, SLCPRegressor
from registry import ESTIMATORS, ci_but

KINDS = {MondrianConformalRegressor, SLCPRegressor}
LIBRARIES = pytest.mark.parametrize("library", ["pandas", "polars"])


def assert_alone_is_together(answer, X, form, rows=range(0, 120, 30), tolerance=1e-12):
    together = answer(X)
    for row in rows:
        alone = answer(ALONE[form](X, row))[0]
        np.testing.assert_allclose(alone, together[row], rtol=tolerance, atol=tolerance)


@LIBRARIES
@pytest.mark.parametrize("form", ALONE)
def test_numbers_and_labels(library, form):
    X, _ = frame(library)
    numbers, labels, kinds = split_columns(X)
    for row in range(0, len(X), 5):
        alone = split_columns(ALONE[form](X, row), kinds)
        np.testing.assert_array_equal(alone[0][0], numbers[row])
        assert alone[1][0].tolist() == labels[row].tolist()


@pytest.mark.parametrize("library", ci_but(["pandas"], ["pandas", "polars"]))
@pytest.mark.parametrize("name", ci_but(["auto", "forest", "kernel", "neighbors"], VARIANTS))
def test_every_law(name, library):
    X, y = frame(library)
    law = fit_law(name, X, y)
    assert np.isfinite(law.quantile(X, [0.1, 0.5, 0.9])).all()
    # Lines through many equal columns have coefficients that cancel.
    tolerance = 1e-7 if name in LAST_BITS else 1e-12
    for form in ALONE:
        assert_alone_is_together(
            lambda rows: law.quantile(rows, [0.1, 0.5, 0.9]), X, form, tolerance=tolerance
        )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("library", ci_but(["pandas"], ["pandas", "polars"]))
@pytest.mark.parametrize("form", ci_but(["record"], ALONE))
@pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))
def test_every_estimator_around_its_default_model(estimator_class, library, form):
    X, y = frame(library)
    law = {"law": KernelLaw(bandwidth=0.5)} if hasattr(estimator_class(), "law") else {}
    model, rows = estimator_class(random_state=0, **law).fit(X, y), range(0, 120, 50)
    assert_alone_is_together(lambda X: model.predict_interval(X, 0.6), X, form, rows)
    assert_alone_is_together(model.predict, X, form, rows)


@LIBRARIES
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_default_law_and_its_blend(library):
    X, y = frame(library)
    model = SLCPRegressor(random_state=0).fit(X, y)
    for form in ALONE:
        for answer in (lambda rows: model.predict_interval(rows, 0.6), model.predict):
            assert_alone_is_together(answer, X, form, tolerance=0.0)


class MeanOfCity(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        city = ["" if pd.isna(one) else one for one in X["text 0"]]
        self.means_ = pd.Series(y).groupby(city).mean().to_dict()
        return self

    def predict(self, X):
        return np.array([self.means_["" if pd.isna(one) else one] for one in X["text 0"]])


@LIBRARIES
@pytest.mark.parametrize("law", ci_but(["kernel"], ["kernel", "forest", "learned"]))
def test_a_model_that_reads_columns_itself(law, library):
    X, y = frame(library)
    model = SLCPRegressor(MeanOfCity(), law=law, random_state=0).fit(X, y)
    for form in ALONE:
        assert_alone_is_together(model.predict_interval, X, form)


CELLS = [f"{name} {k}" for name in ("text", "whole", "flag") for k in range(len(PANDAS[name]))]


@pytest.mark.parametrize("column", ci_but(["text 1", "whole 2", "flag 0"], CELLS))
def test_cells_of_a_column(column):
    X, y = frame("pandas")
    model = MondrianConformalRegressor(MeanOfCity(), groups=column, random_state=0).fit(X, y)
    for form in ALONE:
        assert_alone_is_together(lambda rows: model.predict_interval(rows, 0.5), X, form)
