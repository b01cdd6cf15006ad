"""What users do that nobody planned: each a correct result or one clear sentence."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from localconformal import (
    ConformalizedQuantileRegressor,
    KernelLaw,
    LocalizedConformalRegressor,
    MADSplitRegressor,
    MondrianConformalRegressor,
    MonotoneAdjustment,
    SLCPRegressor,
    SplitConformalRegressor,
    UniformLaw,
)
from localconformal.metrics import coverage
from registry import ESTIMATORS, light, smooth_data

X, Y = smooth_data(200, seed=0)


def refuses(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# ---- a user's own parts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "words"),
    [
        (lambda v, F, theta: theta - (v - 0.5) ** 2, "rises in v or falls in theta"),
        (lambda v, F, theta: (theta - v)[:, None], r"shape \(\d+, 1\)"),
        (lambda v, F, theta: 1.0, r"shape \(\)"),
        ("quantile", "a function m"),
    ],
)
def test_an_adjustment_that_is_none(m, words):
    model = LocalizedConformalRegressor(
        Ridge(), law="kernel", score="absolute", adjustment=MonotoneAdjustment(m), random_state=0
    )
    refuses(lambda: model.fit(X, Y), words)


def test_an_adjustment_that_never_accepts_gives_infinite_intervals():
    never = MonotoneAdjustment(lambda v, F, theta: -np.ones_like(v))
    model = LocalizedConformalRegressor(
        Ridge(), adjustment=never, law="kernel", random_state=0
    ).fit(X, Y)
    with pytest.warns(UserWarning, match="adjusted calibration scores"):
        assert np.isinf(model.predict_interval(X)).all()


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_monotone_adjustment_at_any_scale(scale):
    def m(v, F, theta):
        return F.quantile(F.level) + theta - v

    ours, closed = (
        LocalizedConformalRegressor(
            Ridge(), law=KernelLaw(), adjustment=adjustment, random_state=0
        ).fit(X, scale * Y)
        for adjustment in (MonotoneAdjustment(m), "additive")
    )
    np.testing.assert_allclose(
        ours.predict_interval(X), closed.predict_interval(X), rtol=1e-6, atol=1e-7 * scale
    )


class HomeMadeLaw:
    """Only the public methods of a law, and nothing of scikit-learn."""

    def fit(self, X, v):
        self.law = UniformLaw().fit(X, v)
        return self

    def __getattr__(self, name):
        if name in ("quantile", "upper_quantile", "cdf", "mean", "effective_sample_size"):
            return getattr(self.__dict__.get("law", UniformLaw()), name)
        raise AttributeError(name)


@pytest.mark.parametrize("adjustment", ["additive", "theta", "additive-expectation"])
@pytest.mark.parametrize("score", ["absolute", "residual"])
def test_any_object_with_the_methods_of_a_law(adjustment, score):
    ours, theirs = (
        LocalizedConformalRegressor(
            Ridge(), law=law, adjustment=adjustment, score=score, random_state=0
        )
        for law in (UniformLaw(), HomeMadeLaw())
    )
    np.testing.assert_allclose(
        ours.fit(X, Y).predict_interval(X), theirs.fit(X, Y).predict_interval(X)
    )
    refuses(lambda: theirs.set_params(adjustment="multiplicative-expectation").fit(X, Y), "mean of")


@pytest.mark.parametrize("part", ["score", "adjustment", "law"])
def test_parts_of_another_kind_name_the_base_class(part):
    refuses(lambda: SLCPRegressor(Ridge(), **{part: object()}).fit(X, Y), f"'{part}' parameter")


@pytest.mark.parametrize("estimator", ["ridge", 3, object()])
def test_an_estimator_that_cannot_predict(estimator_class, estimator):
    refuses(lambda: estimator_class(estimator).fit(X, Y), "predict")


def test_fitted_parts_are_told_in_the_guarantee():
    seen = RandomForestRegressor(10).fit(X, np.abs(Y))
    model = MADSplitRegressor(Ridge(), spread_estimator=FrozenEstimator(seen), random_state=0)
    assert "train the fitted model" in str(model.fit(X, Y).guarantee_)


# ---- tables ----------------------------------------------------------------------------------


def test_missing_values_reach_a_pipeline_that_handles_them():
    holes = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.1, np.nan, X)
    for base in (
        make_pipeline(SimpleImputer(), Ridge()),
        GridSearchCV(HistGradientBoostingRegressor(max_iter=5), {"max_depth": [1]}, cv=2),
    ):
        model = SLCPRegressor(base, law="kernel", random_state=0).fit(holes, Y)
        assert np.isfinite(model.predict_interval(holes)).all()
    with pytest.raises(ValueError, match="contains NaN"):
        SLCPRegressor(Ridge()).fit(holes, Y)


def test_strings_in_an_array_reach_a_pipeline_that_handles_them():
    words = np.array([["a", "b"][i % 2] for i in range(200)], dtype=object)[:, None]
    model = SLCPRegressor(
        make_pipeline(OneHotEncoder(), Ridge()), law="kernel", random_state=0
    ).fit(words, Y)
    assert model.predict_interval(words).shape == (200, 2)


@pytest.mark.parametrize("columns", [[0, 1], ["a", 1], ["a", "b"]], ids=str)
def test_columns_in_another_order_or_of_another_name(columns):
    frame = pd.DataFrame(X, columns=columns)
    model = light(SLCPRegressor)
    try:
        model.fit(frame, Y)
    except TypeError:  # scikit-learn refuses names of mixed types.
        assert columns == ["a", 1]
        return
    for other in (frame[columns[::-1]], frame.rename(columns={columns[0]: "z"})):
        with pytest.raises((ValueError, TypeError)):
            model.predict_interval(other)


def test_frames_that_hold_nothing():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = light(SLCPRegressor)
    refuses(lambda: model.fit(frame[[]], Y), "0 column")
    refuses(lambda: model.fit(frame.iloc[:0], Y[:0]), "0 sample")
    refuses(lambda: model.fit(pl.DataFrame(X).lazy(), Y), "collect")
    frame.columns = ["a", "a"]
    refuses(lambda: model.fit(frame, Y), "repeated column names")


class First:
    """Predicts from the number of rows alone, so that any table will do."""

    def predict(self, X):
        return np.zeros(len(X))


def test_the_law_reads_later_rows_as_it_read_the_first():
    frame = pd.DataFrame({"number": X[:, 0], "label": np.where(X[:, 1] > 0, "u", "v")})
    model = SLCPRegressor(First(), law="kernel", random_state=0).fit(frame, Y)
    expected = model.predict_interval(frame)
    as_objects = frame.astype({"number": object, "label": "category"})
    np.testing.assert_array_equal(model.predict_interval(as_objects), expected)
    words = frame.assign(number="many")
    refuses(lambda: model.predict_interval(words), "column 'number' had numbers at fit")


def test_every_kind_of_column():
    now = datetime.datetime(2026, 1, 1)
    frame = pl.DataFrame(
        {
            "when": [now + datetime.timedelta(hours=i) for i in range(200)],
            "day": [now.date()] * 200,
            "clock": [datetime.time(i % 24) for i in range(200)],
            "span": [datetime.timedelta(seconds=i) for i in range(200)],
            "flag": [None if i % 7 == 0 else i % 2 == 0 for i in range(200)],
        }
    )
    model = SLCPRegressor(First(), law="kernel", random_state=0).fit(frame, Y)
    assert np.isfinite(model.predict_interval(frame)).all()


@pytest.mark.parametrize("y", [Y.astype(str), np.full(200, np.datetime64("2026-01-01"))])
def test_a_target_that_is_no_number(y):
    with pytest.raises(ValueError):
        light(SLCPRegressor).fit(X, y)


def test_values_behind_a_mask_are_not_read():
    model = light(SplitConformalRegressor)
    hidden = np.ma.masked_greater(X, 1.0)
    refuses(lambda: model.fit(hidden, Y), "X is a masked array")
    refuses(lambda: model.fit(X, np.ma.masked_greater(Y, 1.0)), "y is a masked array")
    fitted = model.fit(np.ma.array(X), np.ma.array(Y))
    refuses(lambda: fitted.predict_interval(hidden), "X is a masked array")
    np.testing.assert_array_equal(fitted.predict(np.ma.array(X)), fitted.predict(X))


def test_values_behind_a_mask_are_read_nowhere_else():
    model, hidden = light(SplitConformalRegressor), np.ma.masked_greater(Y, 1.0)
    weight = np.ma.masked_equal(np.arange(200.0), 3.0)
    refuses(lambda: model.fit(X, Y, sample_weight=weight), "sample_weight is a masked array")
    refuses(lambda: model.fit(X, pd.array([None] + [1] * 199, dtype="Int64")), "NaN|missing|NA")
    local = light(LocalizedConformalRegressor).fit(X, Y)
    refuses(lambda: local.predict_cdf(X, hidden), "y is a masked array")
    refuses(lambda: coverage(hidden, local.predict_interval(X)), "y_true is a masked array")
    partition = light(MondrianConformalRegressor)
    refuses(lambda: partition.fit(X, Y, groups=hidden), "groups is a masked array")


def test_whole_numbers_beyond_all_floats_in_rows():
    rows = X.astype(object)
    rows[0, 0] = 10**400
    model = light(SplitConformalRegressor)
    refuses(lambda: model.fit(rows, Y), "beyond all floats")
    refuses(lambda: model.fit(X, Y).predict(rows), "beyond all floats")


# ---- arguments -------------------------------------------------------------------------------


def test_weights_of_another_length():
    refuses(lambda: light(SLCPRegressor).fit(X, Y, sample_weight=np.ones(150)), "150 entries")
    frozen = FrozenEstimator(LinearRegression().fit(X, Y))
    refuses(lambda: SLCPRegressor(frozen).fit(X, Y, sample_weight=np.ones(200)), "already fitted")


def test_weights_reach_the_default_model():
    weight = np.where(X[:, 0] > 0, 1.0, 0.0)
    model = SplitConformalRegressor(random_state=0)
    weighted = model.fit(X, Y, sample_weight=weight).predict(X)
    assert not np.allclose(weighted, model.fit(X, Y).predict(X))


def test_one_weight_for_all_rows_is_left_to_the_model():
    model = light(SplitConformalRegressor)
    weighted = model.fit(X, Y, sample_weight=2.0).predict(X)
    np.testing.assert_allclose(weighted, model.fit(X, Y).predict(X))


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")
def test_levels_next_to_zero_are_levels(cls):
    model = light(cls).fit(X, Y)
    intervals = model.predict_interval(X[:5], [1e-17, 1e-13, 1e-12, 0.5])
    assert not np.isnan(intervals).any()
    assert np.isfinite(intervals[..., :3]).all()
    assert not model.diagnose(X[:5], 1e-13)["infinite"].any()


def test_a_fit_parameter_that_no_base_model_takes():
    for model in (SplitConformalRegressor(), light(SplitConformalRegressor)):
        with pytest.raises(TypeError, match=r"fit got groups, .* MondrianConformalRegressor"):
            model.fit(X, Y, groups=X[:, 0] > 0)
    pair = (QuantileRegressor(), QuantileRegressor())
    for model in (SplitConformalRegressor(), ConformalizedQuantileRegressor(pair)):
        with pytest.raises(TypeError, match=r"fit got flavour, .* does not take; leave it out\.$"):
            model.fit(X, Y, flavour=1)


def test_calibration_sizes_that_leave_nothing():
    refuses(lambda: light(SLCPRegressor, calibration_size=500).fit(X, Y), "calibration_size is 500")


@pytest.mark.parametrize("quantiles", [0.1, (0.1, 0.2, 0.9), (0.6, 0.9), (0.9, 0.1)])
def test_nominal_levels_of_cqr(quantiles):
    model = ConformalizedQuantileRegressor(quantiles=quantiles)
    refuses(lambda: model.fit(X, Y), "quantiles are")


@pytest.mark.parametrize("level", ["0.9", True, {0.9}, None, object()])
def test_levels_of_another_type(level):
    model = light(SplitConformalRegressor).fit(X, Y)
    if level is None:
        np.testing.assert_array_equal(
            model.predict_interval(X, level), model.predict_interval(X, 0.9)
        )
    else:
        refuses(lambda: model.predict_interval(X, level), r"inside \(0, 1\)")


def test_levels_that_repeat():
    model = light(SplitConformalRegressor).fit(X, Y)
    assert model.predict_interval(X, [0.9, 0.9]).shape == (200, 2, 2)
    refuses(lambda: model.predict_interval(X, [0.9, 0.9], output="frame"), "repeat")


@pytest.mark.parametrize(
    "law",
    [KernelLaw(batch_size=10), KernelLaw(embedding=3), KernelLaw(embedding=Ridge())],
    ids=str,
)
def test_arguments_of_the_law(law):
    refuses(lambda: light(SLCPRegressor, law=law).fit(X, Y), "is for|was expected")


def test_sparse_embeddings_are_made_dense():
    law = KernelLaw(embedding=OneHotEncoder(handle_unknown="ignore"))
    model = light(SLCPRegressor, law=law).fit(np.round(X), Y)
    assert np.isfinite(model.predict_interval(np.round(X))).all()


# ---- state -----------------------------------------------------------------------------------


class Fails(LinearRegression):
    def fit(self, X, y):
        raise RuntimeError("no")


def test_a_fit_that_fails_leaves_no_model_behind(estimator_class):
    model = light(estimator_class).fit(X, Y)
    pair = "method" in model.get_params()
    with pytest.raises(RuntimeError, match="no"):
        model.set_params(estimator=[Fails(), Fails()] if pair else Fails()).fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_nan_predictions_are_refused_when_predicting():
    class Later:
        def predict(self, X):
            return np.where(np.asarray(X)[:, 0] > 50, np.nan, 0.0)

    model = SLCPRegressor(Later(), law="kernel", random_state=0).fit(X, Y)
    refuses(lambda: model.predict_interval([[100.0, 0.0]]), "predicts NaN")


# ---- groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_are_a_group_of_their_own(missing):
    labels = np.array([["a", "b", missing][i % 3] for i in range(200)], dtype=object)
    model = light(MondrianConformalRegressor, calibration_size=100)
    model.fit(X, Y, groups=labels)
    assert np.isfinite(model.predict_interval(X, groups=labels)).all()


def test_missing_numbers_are_a_group_of_their_own():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=np.where(X[:, 0] > 0, 1.0, np.nan))
    model = MondrianConformalRegressor(groups="g", calibration_size=100, random_state=0)
    assert np.isfinite(model.fit(frame, Y).predict_interval(frame)).all()


def test_small_cells_are_named():
    model = light(MondrianConformalRegressor, calibration_size=100)
    model.fit(X, Y, groups=["a"] * 200)
    with pytest.warns(UserWarning, match="cells 'new'"):
        model.predict_interval(X[:1], groups=["new"])


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (lambda X: 1, "shape"),
        (lambda X: np.zeros((len(X), 2)), "shape"),
        (99, "2 columns"),
        ("a", "X is an array"),
    ],
)
def test_groups_that_are_none(groups, words):
    refuses(lambda: light(MondrianConformalRegressor, groups=groups).fit(X, Y), words)


def test_groups_are_those_of_fit():
    model = light(MondrianConformalRegressor, groups=0, calibration_size=100)
    model.fit(np.round(X), Y)
    before = model.diagnose(np.round(X))
    model.set_params(groups=1)
    pd.testing.assert_frame_equal(before, model.diagnose(np.round(X)))
    with pytest.raises(ValueError, match="pass one"):
        model.fit(X, Y, groups=np.zeros(200))
