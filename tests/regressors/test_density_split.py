"""HPD-Split, CD-Split and CHR: ranks of bins, regions, and pieces where the truth has them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from inner import denser_mass, profiles, run_mass
from localconformal.quantiles import conformal_rank
from predictive_models import bimodal
from registry import awkward_data, ci_but, heavy_tails, smooth_data

# Rounded rows repeat by chance, and some calibration sets are small.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
METHODS = pytest.mark.parametrize(
    "cls",
    ci_but([lc.HPDSplitRegressor], [lc.HPDSplitRegressor, lc.CDSplitRegressor, lc.CHRRegressor]),
)
SCORES = pytest.mark.parametrize(
    "score", ci_but(["residual"], ["residual", "normalised", "response"])
)
X_NEW = awkward_data(40, seed=9)[0]


def light(cls, n_cells=3, **params):
    if cls is lc.CDSplitRegressor:
        params["n_cells"] = n_cells
    own = {"estimator": LinearRegression(), "law": lc.KernelLaw(bandwidth=0.4), "random_state": 0}
    return cls(**{**own, **params})


def test_denser_mass_and_profiles_are_their_definitions():
    rng, levels = np.random.default_rng(0), np.linspace(0.0, 0.5, 20)
    for _ in range(20):
        # Few values, so that many bins are equally dense.
        mass, widths = rng.integers(1, 4, size=(3, 12)) / 8.0, rng.choice([0.5, 1.0], 12)
        denser = [[m[f > g].sum() for g in f] for m, f in zip(mass, mass / widths, strict=True)]
        np.testing.assert_allclose(denser_mass(mass, widths), denser, atol=1e-12)
        mass = rng.dirichlet(np.ones(12), size=5)
        above = [[m[m / widths >= t].sum() for t in levels] for m in mass]
        np.testing.assert_allclose(profiles(mass, widths, levels), above, atol=1e-12)


def runs_by_search(mass, widths, level):
    """The family of one row as a list of (first, last), from the smallest to all bins."""
    M, density = len(mass), mass / widths
    candidates = [
        (widths[a : b + 1].sum(), a, b)
        for a in range(M)
        for b in range(a, M)
        if mass[a : b + 1].sum() >= level - 1e-12
    ]
    _, a, b = min(candidates)
    family, low, high = [(a, b)], a, b
    while low < high:
        low, high = (low + 1, high) if density[low] <= density[high] else (low, high - 1)
        family.insert(0, (low, high))
    low, high = a, b
    while (low, high) != (0, M - 1):
        below = density[low - 1] if low > 0 else -1.0
        above = density[high + 1] if high < M - 1 else -1.0
        low, high = (low - 1, high) if below > above else (low, high + 1)
        family.append((low, high))
    return family


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.99])
def test_runs_against_a_search(level):
    rng = np.random.default_rng(0)
    mass, widths = rng.dirichlet(np.full(15, 0.7), size=40) + 1e-4, rng.uniform(0.5, 2.0, 15)
    mass /= mass.sum(axis=1, keepdims=True)
    for row, m in zip(run_mass(mass, widths, level), mass, strict=True):
        family = runs_by_search(m, widths, level)
        for k in range(15):
            a, b = next(run for run in family if run[0] <= k <= run[1])
            assert np.isclose(row[k], 0.0 if a == b else m[a : b + 1].sum())


def far_out(n, seed):
    """Heavy tails whose every fourth response is farther out still."""
    X, y = heavy_tails(n, seed)
    return X, y * np.where(np.arange(n) % 4 == 0, 10.0 ** (np.arange(n) % 5), 1.0)


@METHODS
@pytest.mark.parametrize("data", ci_but([far_out], [far_out, awkward_data, smooth_data]))
@SCORES
def test_each_cell_keeps_as_many_of_its_calibration_rows_as_promised(cls, data, score):
    train = heavy_tails if data is far_out else data
    model = light(cls, conformity_score=score, calibration_size=None).fit(*train(150, seed=0))
    X, y = data(120, seed=5)
    model.conformalize(X, y)
    for level in (0.3, 0.8):
        # Rows of one cell have one correction.
        theta = model.diagnose(X, level)["correction"].to_numpy()
        covered = model.predict_region(X, level).contains(y)
        for cell in np.unique(theta):
            inside, n = covered[theta == cell].sum(), np.sum(theta == cell)
            k = min(conformal_rank(n, level), n)
            assert inside >= k
            assert inside == k or data is not smooth_data or cls is lc.CDSplitRegressor


@METHODS
@pytest.mark.parametrize(("data", "n", "level"), [(smooth_data, 60, 0.9), (heavy_tails, 100, 0.95)])
@pytest.mark.ci
def test_enough_calibration_rows_give_finite_hulls(cls, data, n, level):
    beyond = 0
    for seed in range(20):
        model = light(cls, 1, confidence_level=level, random_state=seed).fit(*data(n, seed=seed))
        assert np.isfinite(model.predict_interval(X_NEW)).all()
        beyond += (model.diagnose(X_NEW)["correction"] > 1.0).any()
    assert beyond > 0


@METHODS
def test_the_hull_encloses_the_region_levels_nest_and_rows_are_answered_alone(cls):
    # A constant model predicts the same bits for one row and for many.
    model = light(cls, estimator=DummyRegressor()).fit(*bimodal(400, seed=0))
    X, y = bimodal(200, seed=1)
    small, large = model.predict_region(X, 0.5), model.predict_region(X, alpha=0.2)
    np.testing.assert_array_equal(small.hull, model.predict_interval(X, 0.5))
    np.testing.assert_array_equal(model.predict_interval(X, [0.5, 0.8])[:, :, 1], large.hull)
    inside = small.contains(y)
    assert (large.contains(y) >= inside).all()
    assert (((small.hull[:, 0] <= y) & (y <= small.hull[:, 1])) >= inside).all()
    assert (small.length <= large.length).all()
    assert (small.length <= np.diff(small.hull, axis=1)[:, 0] * (1 + 1e-12)).all()
    assert [model.predict_region(row[None], 0.5)[0] for row in X[:30]] == list(small)[:30]


#: Intervals, which cannot be in two pieces.
RIVALS = [lc.SplitConformalRegressor(), lc.SLCPRegressor(law="forest"), lc.CHRRegressor()]


@pytest.mark.parametrize(
    ("n", "d", "bases"),
    [
        pytest.param(2_000, 2, [LinearRegression(), None], marks=pytest.mark.ci, id="two"),
        # The simulation of Izbicki et al. in full: one of twenty features matters.
        pytest.param(5_000, 20, [None], marks=pytest.mark.nightly, id="twenty"),
    ],
)
def test_two_pieces_where_the_truth_has_two_and_shorter_than_any_interval(n, d, bases):
    train, calibration, (X, y) = bimodal(n, 0, d), bimodal(n // 2, 50, d), bimodal(1_500, 99, d)

    def calibrated(model):
        return model.set_params(calibration_size=None).fit(*train).conformalize(*calibration)

    region = calibrated(lc.HPDSplitRegressor(bases[0], random_state=0)).predict_region(X)
    assert np.mean(region.n_pieces[X[:, 0] > 0.5] == 2) > 0.8
    assert np.mean(region.n_pieces[X[:, 0] < -0.8] == 1) > 0.8
    assert abs(np.mean(region.contains(y)) - 0.9) < 0.04
    for base in bases:
        for rival in RIVALS:
            rival.set_params(estimator=base, random_state=0)
            assert np.mean(region.length) < np.mean(np.diff(calibrated(rival).predict_interval(X)))


def skewed(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 1))
    return X, X[:, 0] + (0.2 + X[:, 0]) * rng.exponential(size=n)


def test_intervals_of_chr_follow_skewness_and_their_family_the_level_of_fit():
    (X, y), data = skewed(1000, seed=1), skewed(2000, seed=0)
    model = light(lc.CHRRegressor).fit(*data)
    region = model.predict_region(X)
    assert (region.n_pieces == 1).all()
    assert abs(region.contains(y).mean() - 0.9) < 0.04
    plain = lc.SplitConformalRegressor(LinearRegression(), random_state=0).fit(*data)
    assert region.length.mean() < 0.9 * np.diff(plain.predict_interval(X), axis=1).mean()
    before = model.predict_interval(X, 0.8)
    model.set_params(confidence_level=0.5)
    np.testing.assert_array_equal(before, model.predict_interval(X, 0.8))


@METHODS
def test_too_few_calibration_rows_give_the_whole_line(cls):
    X, y = smooth_data(110, seed=0)
    model = light(cls, calibration_size=None, n_jobs=1).fit(X[:100], y[:100])
    model.conformalize(X[100:108], y[100:108])
    with pytest.warns(UserWarning, match="infinite: got . calibration rows"):
        region = model.predict_region(X_NEW)
    assert region[0] == [(-np.inf, np.inf)]
    assert np.isinf(region.length).all()
    assert model.diagnose(X_NEW)["infinite"].all()


@METHODS
def test_calibration_rows_beyond_the_grid_extend_it_on_both_sides(cls):
    X, y = smooth_data(150, seed=0)
    model = light(cls, 1, calibration_size=None, conformity_score="response").fit(X[:100], y[:100])
    model.conformalize(X[100:], np.append(y[100:140], -np.arange(1e3, 1e4, 9e2)))
    assert (np.abs(model.predict_interval(X_NEW, 0.7)) < 50.0).all()
    # Of 51 places the 46th: the sixth of ten rows that lie below the grid.
    lower, upper = model.predict_interval(X_NEW).T
    np.testing.assert_allclose(lower, -5.5e3)
    np.testing.assert_allclose(upper, 5.5e3, atol=50.0)


@METHODS
@SCORES
@pytest.mark.parametrize(
    "y",
    [
        np.full(120, 5.0),
        np.tile([0.0, 1.0, 4.0], 40),
        np.append(np.zeros(118), [1.0, 1e9]),
        np.random.default_rng(0).standard_cauchy(120).astype(np.float32),
    ],
    ids=["constant", "discrete", "outlier", "wild-float32"],
)
def test_odd_responses(cls, score, y):
    X = np.random.default_rng(1).normal(size=(120, 2)).astype(np.float32)
    asked = np.vstack([X[:20], [[1e9, -1e9]]])
    region = light(cls, 1, conformity_score=score).fit(X, y).predict_region(asked, 0.7)
    assert not np.isnan(region.hull).any()
    assert np.isfinite(region.length).all()
    assert (region.n_pieces >= 1).all()


def test_what_is_refused():
    data, lines = smooth_data(100, seed=0), QuantileRegressor(alpha=0)
    for params, words in (
        ({"conformity_score": lc.AbsoluteScore()}, "on which side y lies"),
        ({"conformity_score": lc.QuantileScore(), "estimator": lines}, "on which side y lies"),
        ({"conformity_score": "absolute"}, "'conformity_score' parameter"),
        ({"law": "auto"}, "'law' parameter"),
    ):
        with pytest.raises(ValueError, match=words):
            light(lc.HPDSplitRegressor, **params).fit(*data)
    with pytest.raises(ValueError, match=r"2 levels; expected one number"):
        light(lc.HPDSplitRegressor).fit(*data).predict_region(X_NEW, [0.5, 0.8])


@METHODS
def test_regions_within_a_support(cls):
    X, y = awkward_data(300, seed=0)
    y = np.maximum(np.rint(2.0 * y), 0.0)
    plain, cut = (
        light(cls, **params).fit(X, y) for params in ({}, {"support": (0, None), "integer": True})
    )
    regions, hull = [model.predict_region(X_NEW) for model in (plain, cut)], cut.predict_interval
    for value in range(12):
        before, after = (one.contains(np.full(40, float(value))) for one in regions)
        assert np.all(after >= before)
    assert np.all(regions[1].length <= regions[0].length + 1e-5)
    bounds, found = hull(X_NEW), regions[1].hull
    assert np.all(bounds[:, 0] <= found[:, 0])
    assert np.all(found[:, 1] <= bounds[:, 1])
