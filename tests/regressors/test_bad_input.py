"""What users do that nobody planned: each a correct result or one clear sentence."""

from __future__ import annotations

import datetime
import re
import warnings

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
    NeighborsLaw,
    SLCPRegressor,
    SplitConformalRegressor,
    UniformLaw,
)
from localconformal.metrics import coverage
from registry import ESTIMATORS, KINDS, awkward_data, ci_but, light, smooth_data

X, Y = smooth_data(200, seed=0)
EACH = pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))


def refuses(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def predicts(function):
    """A fitted model without anything of scikit-learn."""
    return type("Fitted", (), {"predict": lambda self, X: function(np.asarray(X))})()


@pytest.fixture(scope="module")
def split():
    return light(SplitConformalRegressor).fit(X, Y)


# ---- few rows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "level", "finite"), [(9, 0.9, True), (8, 0.9, False), (19, 0.95, True), (18, 0.95, False)]
)
def test_small_calibration_set(n, level, finite):
    model = light(SplitConformalRegressor, calibration_size=None).fit(*smooth_data(50, seed=0))
    model.conformalize(*smooth_data(n, seed=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        intervals = model.predict_interval(smooth_data(5, seed=2)[0], confidence_level=level)
    assert np.isfinite(intervals).all() == finite
    assert np.isinf(intervals).all() != finite
    told = [str(w.message) for w in caught if w.category is UserWarning]
    assert len(told) == (0 if finite else 1)
    assert finite or re.search(rf"{n} calibration rows .* needs at least {n + 1}", told[0])


def test_union_needs_twice_as_many_rows():
    model = light(SLCPRegressor, sides="union", calibration_size=None)
    model.fit(*smooth_data(50, seed=0)).conformalize(*smooth_data(18, seed=1))
    with pytest.warns(UserWarning, match="needs at least 19"):
        assert np.isinf(model.predict_interval([[0.0, 0.0]])).all()


@EACH
def test_only_the_levels_that_are_too_high_are_infinite(estimator_class):
    model = light(estimator_class, calibration_size=None).fit(*smooth_data(60, seed=0))
    model.conformalize(*smooth_data(100, seed=1))
    with pytest.warns(UserWarning, match=r"0\.999"):
        several = model.predict_interval([[0.0, 0.0]], [1e-17, 1e-13, 1e-12, 0.5, 0.999])
    # Levels next to zero are levels.
    assert np.isfinite(several[:, :, :-1]).all()
    assert np.isinf(several[:, :, -1]).all()
    assert model.diagnose([[0.0, 0.0]], 0.999)["infinite"].all()
    assert not model.diagnose([[0.0, 0.0]], 1e-13)["infinite"].any()


def test_rows_that_cannot_be_split():
    with pytest.raises(ValueError, match="n_samples=1"):
        light(SLCPRegressor).fit([[1.0]], [2.0])
    with pytest.raises(ValueError, match="cross-fitting"):
        SLCPRegressor(LinearRegression()).fit([[1.0], [2.0]], [2.0, 3.0])
    refuses(lambda: light(SLCPRegressor, calibration_size=500).fit(X, Y), "calibration_size is 500")


def test_one_reference_row():
    zero = predicts(lambda X: np.zeros(len(X)))
    model = SLCPRegressor(zero, calibration_size=199, law="kernel", random_state=0).fit(X, Y)
    assert model.fit_report_["rows"]["reference"] == 1
    intervals = model.predict_interval(X)
    # One reference row is no localization: signed split conformal around it.
    assert np.ptp(intervals, axis=0) == pytest.approx([0.0, 0.0])
    assert coverage(Y, intervals) >= 0.9


# ---- values that are not finite, and shapes ----------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_in_y_and_in_predictions(bad):
    refuses(lambda: light(SLCPRegressor).fit(X, np.append(Y[:-1], bad)), "Input y contains")
    broken = predicts(lambda X: np.where(np.arange(len(X)) == 0, bad, 0.0))
    refuses(
        lambda: SLCPRegressor(broken).fit(X, Y), r"1 of \d+ reference scores are NaN or infinite"
    )
    said = r"1 of \d+ calibration scores are NaN" if np.isnan(bad) else "predicts NaN or infinite"
    refuses(lambda: SplitConformalRegressor(broken).fit(X, Y), said)
    later = predicts(lambda X: np.where(X[:, 0] > 50, bad, 0.0))
    model = SLCPRegressor(later, law="kernel", random_state=0).fit(X, Y)
    refuses(lambda: model.predict_interval([[100.0, 0.0]]), "predicts NaN")


def test_shapes_that_do_not_match():
    model = light(SLCPRegressor)
    refuses(lambda: model.fit(X, Y[:-1]), "inconsistent numbers of samples")
    model.fit(X, Y)
    refuses(lambda: model.predict_interval(X[:, :1]), "expecting 2 features")
    refuses(lambda: model.conformalize(X[:0], Y[:0]), "0 sample")
    wide = predicts(lambda X: np.zeros((len(X), 3)))
    refuses(lambda: SLCPRegressor(wide).fit(X, Y), "single-output model")


# ---- levels and parameters -------------------------------------------------------------------


@pytest.mark.parametrize(
    "level",
    [0.0, 1.0, -0.1, 1.5, np.nan, [], [0.5, 1.0], [[0.5]], "0.9", True, {0.9}, object()],
)
def test_what_is_no_level(split, level):
    refuses(lambda: split.predict_interval(X, level), r"inside \(0, 1\)")
    refuses(lambda: split.predict_interval(X, alpha=level), "alpha")


def test_levels_that_are_left_out_repeat_or_contradict(split):
    np.testing.assert_array_equal(split.predict_interval(X, None), split.predict_interval(X, 0.9))
    assert split.predict_interval(X, [0.9, 0.9]).shape == (200, 2, 2)
    refuses(lambda: split.predict_interval(X, [0.9, 0.9], output="frame"), "repeat")
    refuses(lambda: split.predict_interval(X, 0.9, alpha=0.1), "both came")
    refuses(lambda: split.predict_interval(X, output="list"), "'array' or 'frame'")
    refuses(lambda: split.diagnose(X, confidence_level=[0.5, 0.9]), "one number")


@pytest.mark.parametrize(
    "params",
    [
        {"confidence_level": 1.5},
        {"calibration_size": 0},
        {"score": "squared"},
        {"law": "fuzzy"},
        {"adjustment": "divide"},
        {"reference": "leave-one-out"},
        {"reference": "oob"},
        {"sides": "left"},
        {"upper_share": 1.0},
        {"law": KernelLaw(bandwidth=-1.0)},
        {"law": KernelLaw(bandwidth="wide")},
        {"law": KernelLaw(kernel="cubic")},
        {"law": KernelLaw(embedding="pixels")},
        {"law": KernelLaw(embedding=3)},
        {"law": KernelLaw(embedding=Ridge())},
        {"law": KernelLaw(batch_size=10)},
        {"law": NeighborsLaw(n_neighbors=0)},
        {"score": object()},
        {"adjustment": object()},
        {"law": object()},
    ],
)
def test_wrong_parameters_name_the_value_and_what_was_expected(params):
    words = "expected|must be|choose|Pass|known|is for"
    refuses(lambda: light(SLCPRegressor, **params).fit(*smooth_data(60, seed=0)), words)


@pytest.mark.parametrize("quantiles", [0.1, (0.1, 0.2, 0.9), (0.6, 0.9), (0.9, 0.1)])
def test_nominal_levels_of_cqr(quantiles):
    model = ConformalizedQuantileRegressor(quantiles=quantiles)
    refuses(lambda: model.fit(X, Y), "quantiles are")


# ---- arrays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "epanechnikov"])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e30])
def test_far_from_every_reference_row(kernel, far):
    model = light(SLCPRegressor, law=KernelLaw(kernel, bandwidth=0.8, min_effective_samples=15))
    model.fit(*smooth_data(300, seed=0))
    asked = np.array([[0.0, 0.0], [far, -far]])
    assert np.isfinite(model.predict_interval(asked)).all()
    diagnosis = model.diagnose(asked)
    assert diagnosis["fallback"].tolist() == [False, True]
    assert (diagnosis["effective_sample_size"] >= 14.9).all()


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


def memory_mapped(folder, array):
    np.save(folder / f"{array.ndim}.npy", array)
    return np.load(folder / f"{array.ndim}.npy", mmap_mode="r")


def read_only(folder, array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = [
    lambda folder, array: array.astype(np.float32),
    lambda folder, array: np.asfortranarray(array),
    lambda folder, array: np.repeat(array, 2, axis=0)[::2],
    read_only,
    memory_mapped,
]


@EACH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_layout_does_not_change_the_intervals(estimator_class, tmp_path):
    rows, y = (part.astype(np.float32).astype(float) for part in (X, Y))
    plain = light(estimator_class).fit(rows, y).predict_interval(rows)
    for layout in LAYOUTS:
        laid_out, response = layout(tmp_path, rows), layout(tmp_path, y)
        changed = light(estimator_class).fit(laid_out, response).predict_interval(laid_out)
        np.testing.assert_allclose(changed, plain, rtol=1e-3, atol=1e-3)


def test_crossed_bounds_become_their_midpoint():
    """Where the law is narrower than at most calibration rows, which fit perfectly, T < 0."""
    perfect, law = predicts(lambda X: X[:, 0]), KernelLaw(bandwidth=0.3)
    model = LocalizedConformalRegressor(perfect, law=law, score="absolute", calibration_size=None)
    X_cal, _ = smooth_data(100, seed=1)
    model.fit(X, Y).conformalize(X_cal, X_cal[:, 0])
    lower, upper = model.predict_interval(X).T
    assert (lower <= upper).all()
    at_points = model.diagnose(X)["crossed"].to_numpy()
    assert at_points.any()
    np.testing.assert_array_equal(lower[at_points], upper[at_points])


# ---- a user's own parts ----------------------------------------------------------------------


def with_adjustment(adjustment, **params):
    return LocalizedConformalRegressor(
        Ridge(), law="kernel", adjustment=adjustment, random_state=0, **params
    )


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
    model = with_adjustment(MonotoneAdjustment(m), score="absolute")
    refuses(lambda: model.fit(X, Y), words)


def test_an_adjustment_that_never_accepts_gives_infinite_intervals():
    never = MonotoneAdjustment(lambda v, F, theta: -np.ones_like(v))
    with pytest.warns(UserWarning, match="adjusted calibration scores"):
        assert np.isinf(with_adjustment(never).fit(X, Y).predict_interval(X)).all()


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_monotone_adjustment_at_any_scale(scale):
    by_hand = MonotoneAdjustment(lambda v, F, theta: F.quantile(F.level) + theta - v)
    ours, closed = (
        with_adjustment(adjustment).fit(X, scale * Y).predict_interval(X)
        for adjustment in (by_hand, "additive")
    )
    np.testing.assert_allclose(ours, closed, rtol=1e-6, atol=1e-7 * scale)


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


def test_an_estimator_that_cannot_predict(estimator_class):
    for estimator in ("ridge", 3, object()):
        refuses(lambda bad=estimator: estimator_class(bad).fit(X, Y), "predict")


def test_fitted_parts_are_told_in_the_guarantee():
    seen = RandomForestRegressor(10).fit(X, np.abs(Y))
    model = MADSplitRegressor(Ridge(), spread_estimator=FrozenEstimator(seen), random_state=0)
    assert "train the fitted model" in str(model.fit(X, Y).guarantee_)


def test_sparse_embeddings_are_made_dense():
    law = KernelLaw(embedding=OneHotEncoder(handle_unknown="ignore"))
    model = light(SLCPRegressor, law=law).fit(np.round(X), Y)
    assert np.isfinite(model.predict_interval(np.round(X))).all()


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


# ---- tables ----------------------------------------------------------------------------------


def test_what_a_pipeline_handles_reaches_it():
    holes = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.1, np.nan, X)
    words = np.array(["a", "b"] * 100, dtype=object)[:, None]
    boosting = HistGradientBoostingRegressor(max_iter=5)
    for rows, base in (
        (holes, make_pipeline(SimpleImputer(), Ridge())),
        (holes, GridSearchCV(boosting, {"max_depth": [1]}, cv=2)),
        (words, make_pipeline(OneHotEncoder(), Ridge())),
    ):
        model = SLCPRegressor(base, law="kernel", random_state=0).fit(rows, Y)
        assert np.isfinite(model.predict_interval(rows)).all()
    with pytest.raises(ValueError, match="contains NaN"):
        SLCPRegressor(Ridge()).fit(holes, Y)


@pytest.mark.parametrize("columns", [[0, 1], ["a", "b"]], ids=str)
def test_columns_in_another_order_or_of_another_name(columns):
    frame = pd.DataFrame(X, columns=columns)
    model = light(SLCPRegressor).fit(frame, Y)
    for other in (frame[columns[::-1]], frame.rename(columns={columns[0]: "z"})):
        with pytest.raises((ValueError, TypeError)):
            model.predict_interval(other)


def test_frames_that_are_none():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = light(SLCPRegressor)
    refuses(lambda: model.fit(frame[[]], Y), "0 column")
    refuses(lambda: model.fit(frame.iloc[:0], Y[:0]), "0 sample")
    refuses(lambda: model.fit(pl.DataFrame(X).lazy(), Y), "collect")
    with pytest.raises(TypeError):  # scikit-learn refuses names of mixed types.
        model.fit(frame.set_axis(["a", 1], axis=1), Y)
    refuses(lambda: model.fit(frame.set_axis(["a", "a"], axis=1), Y), "repeated column names")


ANY_TABLE = predicts(lambda X: np.zeros(len(X)))


def test_the_law_reads_later_rows_as_it_read_the_first():
    frame = pd.DataFrame({"number": X[:, 0], "label": np.where(X[:, 1] > 0, "u", "v")})
    model = SLCPRegressor(ANY_TABLE, law="kernel", random_state=0).fit(frame, Y)
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
    model = SLCPRegressor(ANY_TABLE, law="kernel", random_state=0).fit(frame, Y)
    assert np.isfinite(model.predict_interval(frame)).all()


@pytest.mark.parametrize("y", [Y.astype(str), np.full(200, np.datetime64("2026-01-01"))])
def test_a_target_that_is_no_number(y):
    with pytest.raises(ValueError):
        light(SLCPRegressor).fit(X, y)


def test_values_behind_a_mask_are_read_nowhere():
    model, hidden = light(SplitConformalRegressor), np.ma.masked_greater(Y, 1.0)
    covered = np.ma.masked_greater(X, 1.0)
    weight = np.ma.masked_equal(np.arange(200.0), 3.0)
    refuses(lambda: model.fit(covered, Y), "X is a masked array")
    refuses(lambda: model.fit(X, hidden), "y is a masked array")
    refuses(lambda: model.fit(X, Y, sample_weight=weight), "sample_weight is a masked array")
    refuses(lambda: model.fit(X, pd.array([None] + [1] * 199, dtype="Int64")), "NaN|missing|NA")
    fitted = model.fit(np.ma.array(X), np.ma.array(Y))
    refuses(lambda: fitted.predict_interval(covered), "X is a masked array")
    np.testing.assert_array_equal(fitted.predict(np.ma.array(X)), fitted.predict(X))
    local = light(LocalizedConformalRegressor).fit(X, Y)
    refuses(lambda: local.predict_cdf(X, hidden), "y is a masked array")
    refuses(lambda: coverage(hidden, local.predict_interval(X)), "y_true is a masked array")
    partition = light(MondrianConformalRegressor)
    refuses(lambda: partition.fit(X, Y, groups=hidden), "groups is a masked array")


def test_whole_numbers_beyond_all_floats_in_rows(split):
    rows = X.astype(object)
    rows[0, 0] = 10**400
    refuses(lambda: light(SplitConformalRegressor).fit(rows, Y), "beyond all floats")
    refuses(lambda: split.predict(rows), "beyond all floats")


# ---- arguments of fit ------------------------------------------------------------------------


def test_weights_that_nobody_can_use():
    refuses(lambda: light(SLCPRegressor).fit(X, Y, sample_weight=np.ones(150)), "150 entries")
    frozen = FrozenEstimator(LinearRegression().fit(X, Y))
    refuses(lambda: SLCPRegressor(frozen).fit(X, Y, sample_weight=np.ones(200)), "already fitted")


def test_weights_reach_the_base_model(split):
    weight = np.where(X[:, 0] > 0, 1.0, 0.0)
    models = [SplitConformalRegressor(random_state=0)]
    models += [light(SLCPRegressor, reference=name) for name in ("cross-fit", "train", "holdout")]
    for model in models:
        weighted = model.fit(X, Y, sample_weight=weight).predict(X)
        assert not np.allclose(weighted, model.fit(X, Y).predict(X))
    same = light(SplitConformalRegressor).fit(X, Y, sample_weight=2.0)
    np.testing.assert_allclose(same.predict(X), split.predict(X))


def test_a_fit_parameter_that_no_base_model_takes():
    for model in (SplitConformalRegressor(), light(SplitConformalRegressor)):
        with pytest.raises(TypeError, match=r"fit got groups, .* MondrianConformalRegressor"):
            model.fit(X, Y, groups=X[:, 0] > 0)
    pair = (QuantileRegressor(), QuantileRegressor())
    for model in (SplitConformalRegressor(), ConformalizedQuantileRegressor(pair)):
        with pytest.raises(TypeError, match=r"fit got flavour, .* does not take; leave it out\.$"):
            model.fit(X, Y, flavour=1)
