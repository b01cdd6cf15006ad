"""Every row of the table "what a user meets when something is wrong"."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from localconformal import (
    KernelLaw,
    LocalizedConformalRegressor,
    MondrianConformalRegressor,
    NeighborsLaw,
    SLCPRegressor,
    SplitConformalRegressor,
)
from registry import awkward_data, ci_but, light, smooth_data


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


def test_only_the_levels_that_are_too_high_are_infinite(estimator_class):
    model = light(estimator_class, calibration_size=None).fit(*smooth_data(60, seed=0))
    model.conformalize(*smooth_data(100, seed=1))
    with pytest.warns(UserWarning, match=r"0\.999"):
        several = model.predict_interval([[0.0, 0.0]], confidence_level=[0.5, 0.999])
    assert np.isfinite(several[:, :, 0]).all()
    assert np.isinf(several[:, :, 1]).all()
    assert model.diagnose([[0.0, 0.0]], confidence_level=0.999)["infinite"].all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_in_y(bad):
    X, y = smooth_data(50, seed=0)
    y[7] = bad
    with pytest.raises(ValueError, match="Input y contains"):
        light(SLCPRegressor).fit(X, y)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (np.nan, r"1 of \d+ calibration scores are NaN"),
        (np.inf, "predicts NaN or infinite values"),
        (-np.inf, "predicts NaN or infinite values"),
    ],
)
def test_nan_and_infinity_in_predictions(bad, said):
    class Broken:
        def predict(self, X):
            return np.where(np.arange(len(X)) == 0, bad, 0.0)

    with pytest.raises(ValueError, match=r"1 of \d+ reference scores are NaN or infinite"):
        SLCPRegressor(Broken()).fit(*smooth_data(50, seed=0))
    with pytest.raises(ValueError, match=said):
        SplitConformalRegressor(Broken()).fit(*smooth_data(50, seed=0))


def test_shapes_that_do_not_match():
    X, y = smooth_data(50, seed=0)
    model = light(SLCPRegressor)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    model.fit(X, y)
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.predict_interval(X[:, :1])
    with pytest.raises(ValueError, match="0 sample"):
        model.conformalize(X[:0], y[:0])

    class Wide:
        def predict(self, X):
            return np.zeros((len(X), 3))

    with pytest.raises(ValueError, match="single-output model"):
        SLCPRegressor(Wide()).fit(X, y)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, np.nan, [], [0.5, 1.0], [[0.5]]])
def test_level_outside_the_unit_interval(level):
    model = light(SplitConformalRegressor).fit(*smooth_data(50, seed=0))
    with pytest.raises(ValueError, match=r"inside \(0, 1\)"):
        model.predict_interval([[0.0, 0.0]], confidence_level=level)
    with pytest.raises(ValueError, match="alpha"):
        model.predict_interval([[0.0, 0.0]], alpha=level)


@pytest.mark.parametrize(
    "params",
    [
        {"confidence_level": 1.5},
        {"calibration_size": 0},
        {"score": "squared"},
        {"law": "fuzzy"},
        {"adjustment": "divide"},
        {"reference": "leave-one-out"},
        {"sides": "left"},
        {"upper_share": 1.0},
        {"law": KernelLaw(bandwidth=-1.0)},
        {"law": KernelLaw(bandwidth="wide")},
        {"law": KernelLaw(kernel="cubic")},
        {"law": KernelLaw(embedding="pixels")},
        {"law": NeighborsLaw(n_neighbors=0)},
        {"reference": "oob"},
    ],
    ids=str,
)
def test_wrong_parameters_name_the_value_and_what_was_expected(params):
    with pytest.raises(ValueError) as caught:
        light(SLCPRegressor, **params).fit(*smooth_data(60, seed=0))
    message = str(caught.value)
    assert "\n" not in message
    assert re.search("expected|must be|choose|Pass|known", message)


def test_both_levels_at_once():
    model = light(SplitConformalRegressor).fit(*smooth_data(50, seed=0))
    with pytest.raises(ValueError, match="both came"):
        model.predict_interval([[0.0, 0.0]], 0.9, alpha=0.1)
    with pytest.raises(ValueError, match="'array' or 'frame'"):
        model.predict_interval([[0.0, 0.0]], output="list")
    with pytest.raises(ValueError, match="one number"):
        model.diagnose([[0.0, 0.0]], confidence_level=[0.5, 0.9])


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "epanechnikov"])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e30])
def test_far_from_every_reference_row(kernel, far):
    model = light(SLCPRegressor, law=KernelLaw(kernel, bandwidth=0.8, min_effective_samples=15))
    model.fit(*smooth_data(300, seed=0))
    X = np.array([[0.0, 0.0], [far, -far]])
    intervals = model.predict_interval(X)
    assert np.isfinite(intervals).all()
    diagnosis = model.diagnose(X)
    assert diagnosis["fallback"].tolist() == [False, True]
    assert (diagnosis["effective_sample_size"] >= 14.9).all()


def as_constant_column(X, y):
    return np.column_stack([X, np.full(len(X), 3.7)]), y


def as_duplicates(X, y):
    return np.repeat(X[:50], 6, axis=0), np.repeat(y[:50], 6)


def as_discrete(X, y):
    return np.round(X), np.round(y)


def as_float32(X, y):
    return X.astype(np.float32), y.astype(np.float32)


def as_fortran(X, y):
    return np.asfortranarray(X), y


def as_strided(X, y):
    return np.repeat(X, 2, axis=0)[::2], np.repeat(y, 2)[::2]


def as_read_only(X, y):
    for array in (X, y):
        array.flags.writeable = False
    return X, y


def as_all_equal(X, y):
    return np.zeros_like(X), np.full_like(y, 2.0)


@pytest.mark.parametrize(
    "change",
    [
        as_constant_column,
        as_all_equal,
        *ci_but(
            [as_duplicates],
            [as_duplicates, as_discrete, as_float32, as_fortran, as_strided, as_read_only],
        ),
    ],
)
def test_awkward_arrays_give_correct_results(estimator_class, change):
    X, y = change(*awkward_data(300, seed=0))
    model = light(estimator_class).fit(X, y)
    with warnings.catch_warnings():
        # All rows in one place make empty prediction bins.
        warnings.simplefilter("ignore", UserWarning)
        lower, upper = model.predict_interval(X).T
    assert (lower <= upper).all()
    tolerance = 1e-6 * (1 + np.abs(y))
    assert np.mean((lower <= y + tolerance) & (y - tolerance <= upper)) >= 0.8


@pytest.mark.parametrize(
    "change", ci_but([as_float32], [as_float32, as_fortran, as_strided, as_read_only])
)
def test_layout_does_not_change_the_intervals(estimator_class, change):
    X, y = smooth_data(200, seed=0)
    X, y = X.astype(np.float32).astype(float), y.astype(np.float32).astype(float)
    plain = light(estimator_class).fit(X, y).predict_interval(X)
    changed_X, changed_y = change(X.copy(), y.copy())
    changed = light(estimator_class).fit(changed_X, changed_y).predict_interval(changed_X)
    np.testing.assert_allclose(changed, plain, rtol=1e-3, atol=1e-3)


def test_memory_mapped_arrays(estimator_class, tmp_path):
    X, y = smooth_data(200, seed=0)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    mapped = [np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy")]
    np.testing.assert_allclose(
        light(estimator_class).fit(*mapped).predict_interval(mapped[0]),
        light(estimator_class).fit(X, y).predict_interval(X),
    )


def test_one_reference_row():
    class Zero:
        def predict(self, X):
            return np.zeros(len(X))

    X, y = smooth_data(100, seed=0)
    model = SLCPRegressor(Zero(), calibration_size=99, law="kernel", random_state=0).fit(X, y)
    assert model.fit_report_["rows"]["reference"] == 1
    intervals = model.predict_interval(X)
    # One reference row is no localization: signed split conformal around it.
    assert np.ptp(intervals, axis=0) == pytest.approx([0.0, 0.0])
    assert np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1])) >= 0.9


def test_crossed_bounds_become_their_midpoint():
    """Where the law is narrower than at most calibration rows, which fit perfectly, T < 0."""

    class Perfect:
        def predict(self, X):
            return np.asarray(X)[:, 0]

    X, y = smooth_data(200, seed=0)
    model = LocalizedConformalRegressor(
        Perfect(), law=KernelLaw(bandwidth=0.3), score="absolute", calibration_size=None
    ).fit(X, y)
    X_cal, _ = smooth_data(100, seed=1)
    model.conformalize(X_cal, X_cal[:, 0])
    diagnosis = model.diagnose(X)
    lower, upper = model.predict_interval(X).T
    assert (lower <= upper).all()
    at_points = diagnosis["crossed"].to_numpy()
    assert at_points.any()
    np.testing.assert_array_equal(lower[at_points], upper[at_points])
    assert (lower[~at_points] <= upper[~at_points]).all()


def test_small_mondrian_cells():
    X, y = smooth_data(400, seed=0)
    groups = np.where(np.arange(400) < 390, "many", "few")
    model = light(MondrianConformalRegressor, calibration_size=None).fit(X, y, groups=groups)
    model.conformalize(*smooth_data(100, seed=1), groups=["many"] * 96 + ["few"] * 4)
    with pytest.warns(UserWarning, match="4 calibration rows came"):
        intervals = model.predict_interval(X[:2], groups=["many", "few"])
    assert np.isfinite(intervals[0]).all()
    assert np.isinf(intervals[1]).all()
    assert model.guarantee_.conditional_on == "cell"
    with pytest.warns(UserWarning, match="0 calibration rows came"):
        assert np.isinf(model.predict_interval(X[:1], groups=["unseen"])).all()
    model.set_params(small_cells="pool")
    assert np.isfinite(model.predict_interval(X[:2], groups=["many", "few"])).all()
    assert not model.guarantee_.marginal
    assert "borrow" in str(model.guarantee_)


def test_one_row_cannot_be_split():
    with pytest.raises(ValueError, match="n_samples=1"):
        light(SLCPRegressor).fit([[1.0]], [2.0])
    with pytest.raises(ValueError, match="cross-fitting"):
        SLCPRegressor(LinearRegression()).fit([[1.0], [2.0]], [2.0, 3.0])
