"""What users do that nobody planned: each a correct result or one clear sentence."""

from __future__ import annotations

import functools
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import localconformal as lc
from localconformal.laws.base import GRID, Knots
from localconformal.metrics import coverage
from registry import ESTIMATORS, KINDS, awkward_data, ci_but, light, smooth_data

X, Y = smooth_data(200, seed=0)
FRAME = pd.DataFrame(X, columns=["a", "b"])
EACH = pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))


def refuses(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def predicts(function):
    return type("Fitted", (), {"predict": lambda self, X: function(np.asarray(X))})()


ZERO = predicts(lambda X: np.zeros(len(X)))


@functools.cache
def fitted(cls):
    return light(cls).fit(X, Y)


def fit(rows=X, y=Y, cls=lc.SLCPRegressor, fit_params=None, **params):
    return light(cls, **params).fit(rows, y, **(fit_params or {}))


def masked(array):
    return np.ma.masked_greater(array, 1.0)


class Particular(HistGradientBoostingRegressor):
    """Takes missing values, but not all of a column, as boosting of some versions does."""

    def fit(self, X, y):
        if np.isnan(np.asarray(X)).all(axis=0).any():
            raise ValueError("window shape cannot be larger\nthan input array shape")
        return super().fit(X, y)


NO_B, NO_VALUES = FRAME.assign(b=np.nan), r"^Particular .* the columns {} have no .*; leave them"
CELLS, PAIRS = lc.MondrianConformalRegressor, lc.ConformalizedQuantileRegressor
LINE, MAD = LinearRegression(), lc.MADSplitRegressor
SPLIT, LOCAL = lc.SplitConformalRegressor, lc.LocalizedConformalRegressor
HUGE = np.where(np.arange(400).reshape(200, 2) == 0, 10**400, X.astype(object))
FROZEN = FrozenEstimator(LinearRegression().fit(X, Y))
REFUSED = [
    (lambda: fit([[1.0]], [2.0]), "n_samples=1"),
    (lambda: fit([[1.0], [2.0]], [2.0, 3.0]), "cross-fitting"),
    (lambda: fit(calibration_size=500), "calibration_size=500"),
    (lambda: fit(y=Y[:-1]), "inconsistent numbers of samples"),
    (lambda: fitted(SPLIT).predict_interval(X[:, :1]), "expecting 2 features"),
    (lambda: fitted(SPLIT).conformalize(X[:0], Y[:0]), "0 sample"),
    (lambda: fit(estimator=predicts(lambda X: np.zeros((len(X), 3)))), "single-output model"),
    (lambda: fitted(SPLIT).predict_interval(X, [0.9, 0.9], output="frame"), "repeat"),
    (lambda: fitted(SPLIT).predict_interval(X, 0.9, alpha=0.1), "both .*alpha=0.1"),
    (lambda: fitted(SPLIT).predict_interval(X, output="list"), "'array' or 'frame'"),
    (lambda: fitted(SPLIT).diagnose(X, confidence_level=[0.5, 0.9]), "one number"),
    (lambda: fit(FRAME[[]]), "0 column"),
    (lambda: fit(FRAME.iloc[:0], Y[:0]), "0 sample"),
    (lambda: fit(pl.DataFrame(X).lazy()), "collect"),
    (lambda: fit(FRAME.set_axis(["a", "a"], axis=1)), "repeated column names"),
    (lambda: fit(y=np.full(200, np.datetime64("2026-01-01"))), "y has dtype"),
    (lambda: fit(y=pd.array([None] + [1] * 199, dtype="Int64")), "NaN|missing|NA"),
    (lambda: fit(HUGE), "too large for a float"),
    (lambda: fitted(SPLIT).predict(HUGE), "too large for a float"),
    (lambda: fit(fit_params={"sample_weight": np.ones(150)}), "150 entries"),
    (lambda: fit(estimator=FROZEN, fit_params={"sample_weight": np.ones(200)}), "already fitted"),
    (lambda: fit(masked(X)), "X is a masked array"),
    (lambda: fit(y=masked(Y)), "y is a masked array"),
    (lambda: fit(fit_params={"sample_weight": masked(Y)}), "sample_weight is a masked array"),
    (lambda: fitted(SPLIT).predict_interval(masked(X)), "X is a masked array"),
    (lambda: fitted(LOCAL).predict_cdf(X, masked(Y)), "y is a masked array"),
    (lambda: coverage(masked(Y), fitted(SPLIT).predict_interval(X)), "y_true is a masked array"),
    (lambda: fit(cls=CELLS, fit_params={"groups": masked(Y)}), "groups is a masked array"),
    (lambda: lc.SLCPRegressor((LINE, LINE)).fit(X, Y), "has no predict; expected one regression"),
    (lambda: MAD(LINE, spread_estimator="m").fit(X, Y), "has no predict"),
    (lambda: fit(y=[10**400] * 200), "as large as inf"),
    (lambda: SPLIT(Particular()).fit(NO_B.to_numpy(), Y), NO_VALUES.format("1")),
    (lambda: lc.SLCPRegressor(Particular(), law="kernel").fit(NO_B, Y), NO_VALUES.format("'b'")),
    (lambda: CELLS(LINE, groups=2).fit(X, Y), "got groups=2; expected one of the 2 columns"),
    (lambda: CELLS(LINE, groups=-3).fit(pl.DataFrame(X), Y), "got groups=-3; expected one of"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_is_refused_in_one_sentence(call, words):
    refuses(call, words)


@pytest.mark.parametrize(
    ("cls", "params", "needed", "level"),
    [(SPLIT, {}, 9, 0.9), (SPLIT, {}, 19, 0.95), (lc.SLCPRegressor, {"sides": "union"}, 19, 0.9)],
)
def test_one_calibration_row_too_few_gives_infinite_intervals_and_a_word(
    cls, params, needed, level
):
    model = light(cls, calibration_size=None, **params).fit(*smooth_data(50, seed=0))
    for n in (needed, needed - 1):
        model.conformalize(*smooth_data(n, seed=1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            intervals = model.predict_interval(X[:5], confidence_level=level)
        assert (np.isfinite if n == needed else np.isinf)(intervals).all()
        told = [str(w.message) for w in caught if w.category is UserWarning]
        assert len(told) == needed - n
    assert re.search(rf"{needed - 1} calibration rows.* needs at least {needed}", told[0])


@EACH
def test_only_the_levels_that_are_too_high_are_infinite(estimator_class):
    model = light(estimator_class, calibration_size=None).fit(*smooth_data(60, seed=0))
    model.conformalize(*smooth_data(100, seed=1))
    with pytest.warns(UserWarning, match=r"0\.999"):
        several = model.predict_interval([[0.0, 0.0]], [1e-17, 1e-13, 1e-12, 0.5, 0.999])
    assert np.isfinite(several[:, :, :-1]).all()
    assert np.isinf(several[:, :, -1]).all()
    assert model.diagnose([[0.0, 0.0]], 0.999)["infinite"].all()
    assert not model.diagnose([[0.0, 0.0]], 1e-13)["infinite"].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_in_y_and_in_predictions(bad):
    refuses(lambda: fit(y=np.append(Y[:-1], bad)), "Input y contains")
    broken = predicts(lambda X: np.where(np.arange(len(X)) == 0, bad, 0.0))
    refuses(lambda: fit(estimator=broken), r"1 of \d+ reference scores are NaN or infinite")
    said = r"predicts NaN or infinite values" if np.isnan(bad) else "predicts NaN or infinite"
    refuses(lambda: fit(cls=SPLIT, estimator=broken), said)
    later = fit(estimator=predicts(lambda X: np.where(X[:, 0] > 50, bad, 0.0)))
    refuses(lambda: later.predict_interval([[100.0, 0.0]]), "predicts NaN")


LEVELS = [0.0, 1.0, -0.1, 1.5, np.nan, [], [0.5, 1.0], [[0.5]], "0.9", True, {0.9}, object()]
WRONG = {
    "confidence_level": [1.5],
    "calibration_size": [0],
    "conformity_score": ["squared", object()],
    "law": ["fuzzy", object(), lc.KernelLaw(batch_size=10)],
    "adjustment": ["divide", object()],
    "reference": ["leave-one-out", "oob"],
    "sides": ["left"],
    "upper_share": [1.0],
}
WRONG["law"] += [lc.KernelLaw(embedding=embedding) for embedding in ("pixels", 3, Ridge())]


def test_wrong_levels_and_parameters_name_the_value_and_what_was_expected():
    for level in LEVELS:
        refuses(lambda bad=level: fitted(SPLIT).predict_interval(X, bad), r"inside \(0, 1\)")
        refuses(lambda bad=level: fitted(SPLIT).predict_interval(X, alpha=bad), "alpha")
    for name, values in WRONG.items():
        for value in values:
            params = {name: value}
            refuses(lambda bad=params: fit(**bad), "expected|must be|choose|Pass|known|is for")


AWKWARD = {
    "constant column": lambda X, y: (np.column_stack([X, np.full(len(X), 3.7)]), y),
    "all equal": lambda X, y: (np.zeros_like(X), np.full_like(y, 2.0)),
    "duplicates": lambda X, y: (np.repeat(X[:50], 6, axis=0), np.repeat(y[:50], 6)),
    "discrete": lambda X, y: (np.round(X), np.round(y)),
}


@EACH
@pytest.mark.parametrize("change", AWKWARD)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_awkward_arrays_give_correct_results(estimator_class, change):
    rows, y = AWKWARD[change](*awkward_data(300, seed=0))
    lower, upper = light(estimator_class).fit(rows, y).predict_interval(rows).T
    assert (lower <= upper).all()
    tolerance = 1e-6 * (1 + np.abs(y))
    assert np.mean((lower <= y + tolerance) & (y - tolerance <= upper)) >= 0.8


@EACH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_layout_does_not_change_the_intervals(estimator_class):
    rows, y = (part.astype(np.float32).astype(float) for part in (X, Y))
    plain = light(estimator_class).fit(rows, y).predict_interval(rows)
    for layout in (np.float32, np.asfortranarray, lambda array: np.repeat(array, 2, axis=0)[::2]):
        changed = light(estimator_class).fit(layout(rows), layout(y))
        found = changed.predict_interval(layout(rows))
        np.testing.assert_allclose(found, plain, rtol=1e-3, atol=1e-3)


def test_crossed_bounds_become_their_midpoint():
    """Where the law is narrower than at most calibration rows, which fit perfectly, T < 0."""
    perfect, law = predicts(lambda X: X[:, 0]), lc.KernelLaw(bandwidth=0.3)
    model = LOCAL(perfect, law=law, conformity_score="absolute", calibration_size=None)
    X_cal, _ = smooth_data(100, seed=1)
    model.fit(X, Y).conformalize(X_cal, X_cal[:, 0])
    lower, upper = model.predict_interval(X).T
    assert (lower <= upper).all()
    at_points = model.diagnose(X)["crossed"].to_numpy()
    assert at_points.any()
    np.testing.assert_array_equal(lower[at_points], upper[at_points])


def test_an_adjustment_that_never_accepts_gives_infinite_intervals():
    never = lc.MonotoneAdjustment(lambda v, F, theta: -np.ones_like(v))
    with pytest.warns(UserWarning, match="adjusted scores are infinite"):
        assert np.isinf(fit(cls=LOCAL, adjustment=never).predict_interval(X)).all()


class HomeMadeLaw:
    """Only the public methods of a law, and nothing of scikit-learn."""

    def fit(self, X, v):
        self.law = lc.UniformLaw().fit(X, v)
        return self

    def __getattr__(self, name):
        if name in ("quantile", "upper_quantile", "cdf", "mean", "effective_sample_size"):
            return getattr(self.__dict__.get("law", lc.UniformLaw()), name)
        raise AttributeError(name)


@pytest.mark.parametrize("adjustment", ["additive", "theta", "additive-expectation"])
def test_any_object_with_the_methods_of_a_law(adjustment):
    ours, theirs = (
        fit(cls=LOCAL, law=law, adjustment=adjustment) for law in (lc.UniformLaw(), HomeMadeLaw())
    )
    np.testing.assert_allclose(ours.predict_interval(X), theirs.predict_interval(X))
    refuses(lambda: theirs.set_params(adjustment="multiplicative-expectation").fit(X, Y), "mean of")


@pytest.mark.parametrize("cls", [lc.CDSplitRegressor, lc.DistSplitRegressor, lc.SLCPRegressor])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_law_whose_model_predicts_no_number_is_refused_wherever_it_is_asked(cls, value):
    class Quantiles:
        quantiles = (0.05, 0.95)
        unknown = np.inf

        def predict(self, X):
            x = np.asarray(X)[:, 0]
            ends = np.column_stack([x - 2.0, x + 2.0])
            return np.where(x[:, None] > self.unknown, [value, value], ends)

    def make():
        return light(cls, law=lc.LearnedLaw(Quantiles()))

    model, far = make().fit(X, Y), np.full((2, X.shape[1]), [[0.0], [1e6]])
    Quantiles.unknown = 1e5
    words = "Quantiles predicts NaN or infinite quantiles for 1 of 2 rows; expected finite"
    refuses(lambda: model.predict_interval(far), words)
    if cls is not lc.CDSplitRegressor:
        refuses(lambda: model.predict_quantiles(far, [0.1, 0.9]), words)
    Quantiles.unknown = np.median(X[:, 0])
    refuses(lambda: make().fit(X, Y), "NaN or infinite quantiles for .* expected finite")


def test_a_law_of_a_users_own_that_is_nan_is_refused_at_fit_and_at_new_rows():
    class Broken(lc.UniformLaw):
        broken = False

        def at(self, rows):
            F = super().at(rows)
            return Knots(GRID, np.full((len(rows), len(GRID)), np.nan)) if self.broken else F

    model = fit(cls=LOCAL, law=Broken())
    Broken.broken = True
    refuses(lambda: model.predict_interval(X[:3]), "law is NaN for 3 of 3 rows; expected numbers")
    refuses(lambda: fit(cls=LOCAL, law=Broken()), "law is NaN for .* rows; expected numbers")


def test_a_fit_that_fails_leaves_no_model_behind(estimator_class):
    class Fails(LinearRegression):
        def fit(self, X, y):
            raise RuntimeError("no")

    model = light(estimator_class).fit(X, Y)
    pair = "method" in model.get_params()
    with pytest.raises(RuntimeError, match="no"):
        model.set_params(estimator=[Fails(), Fails()] if pair else Fails()).fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_what_a_pipeline_handles_reaches_it():
    holes = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.1, np.nan, X)
    words = np.array(["a", "b"] * 100, dtype=object)[:, None]
    boosting = HistGradientBoostingRegressor(max_iter=5)
    for rows, base in (
        (holes, make_pipeline(SimpleImputer(), Ridge())),
        (holes, GridSearchCV(boosting, {"max_depth": [1]}, cv=2)),
        (words, make_pipeline(OneHotEncoder(), Ridge())),
    ):
        model = lc.SLCPRegressor(base, law="kernel", random_state=0).fit(rows, Y)
        assert np.isfinite(model.predict_interval(rows)).all()
    with pytest.raises(ValueError, match="contains NaN"):
        lc.SLCPRegressor(Ridge()).fit(holes, Y)


def test_the_law_reads_later_rows_as_it_read_the_first():
    frame = pd.DataFrame({"number": X[:, 0], "label": np.where(X[:, 1] > 0, "u", "v")})
    model = lc.SLCPRegressor(ZERO, law="kernel", random_state=0).fit(frame, Y)
    as_objects = frame.astype({"number": object, "label": "category"})
    np.testing.assert_array_equal(model.predict_interval(as_objects), model.predict_interval(frame))
    words = frame.assign(number="many")
    refuses(lambda: model.predict_interval(words), "column 'number' had numbers at fit")


def test_a_fit_parameter_that_no_base_model_takes():
    with pytest.raises(TypeError, match=r"fit got groups, .* MondrianConformalRegressor"):
        fit(cls=SPLIT, fit_params={"groups": X[:, 0] > 0})
    pair = (QuantileRegressor(), QuantileRegressor())
    for model in (lc.SplitConformalRegressor(), lc.ConformalizedQuantileRegressor(pair)):
        with pytest.raises(TypeError, match=r"fit got flavour, .* does not take; leave it out\.$"):
            model.fit(X, Y, flavour=1)
