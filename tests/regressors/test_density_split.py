"""HPD-Split, CD-Split and CHR: ranks of bins, regions, and pieces where the truth has them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

from localconformal import (
    ConformalizedQuantileRegressor,
    DistSplitRegressor,
    KernelLaw,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.quantiles import conformal_quantile, conformal_rank
from localconformal.regressors.cdsplit import CDSplitRegressor, profiles
from localconformal.regressors.chr import CHRRegressor, run_mass
from localconformal.regressors.density_split import rank_of
from localconformal.regressors.hpdsplit import HPDSplitRegressor, denser_mass
from localconformal.scores import AbsoluteScore, QuantileScore
from registry import awkward_data, ci_but, heavy_tails, smooth_data

LAW = KernelLaw(bandwidth=0.4)
METHODS = pytest.mark.parametrize(
    "cls", ci_but([HPDSplitRegressor], [HPDSplitRegressor, CDSplitRegressor, CHRRegressor])
)
SCORES = pytest.mark.parametrize(
    "score", ci_but(["residual"], ["residual", "normalised", "response"])
)
X_NEW = awkward_data(40, seed=9)[0]


def light(cls, n_cells=3, **params):
    if cls is CDSplitRegressor:
        params["n_cells"] = n_cells
    return cls(**{"estimator": LinearRegression(), "law": LAW, "random_state": 0, **params})


def bimodal(n, seed, d=2):
    """The bimodal simulation of Izbicki et al.: two modes from x1 = -0.5 on."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, d))
    x = X[:, 0]
    middle, apart = (x - 1) ** 2 * (x + 1), 2 * np.sqrt(np.maximum(x + 0.5, 0))
    noise = np.sqrt(0.25 + np.abs(x)) * rng.normal(size=n)
    return X, middle + apart * rng.choice([-1, 1], n) + noise


def skewed(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 1))
    return X, X[:, 0] + (0.2 + X[:, 0]) * rng.exponential(size=n)


# ---- formulas ----------------------------------------------------------------------------------


def test_denser_mass_against_its_definition():
    rng = np.random.default_rng(0)
    for _ in range(50):
        # Few values, so that many bins are equally dense.
        mass = rng.integers(1, 4, size=(3, 12)) / 8.0
        widths = rng.choice([0.5, 1.0], 12)
        density = mass / widths
        expected = [[m[f > g].sum() for g in f] for m, f in zip(mass, density, strict=True)]
        np.testing.assert_allclose(denser_mass(mass, widths), expected, atol=1e-12)


def test_profiles_against_their_definition():
    rng = np.random.default_rng(0)
    mass, widths = rng.dirichlet(np.ones(12), size=5), rng.uniform(0.5, 1.0, 12)
    levels = np.linspace(0.0, 0.5, 20)
    expected = [[m[m / widths >= t].sum() for t in levels] for m in mass]
    np.testing.assert_allclose(profiles(mass, widths, levels), expected, atol=1e-12)


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
    ranks = run_mass(mass, widths, level)
    for row, m in zip(ranks, mass, strict=True):
        family = runs_by_search(m, widths, level)
        for k in range(15):
            a, b = next(run for run in family if run[0] <= k <= run[1])
            expected = 0.0 if a == b else m[a : b + 1].sum()
            assert np.isclose(row[k], expected)


def test_every_threshold_gives_one_run():
    rng = np.random.default_rng(1)
    mass = rng.dirichlet(np.ones(60), size=20)
    ranks = run_mass(mass, np.ones(60), 0.9)
    for theta in (0.0, 0.3, 0.9, 0.95, 1.1):
        kept = np.pad(ranks <= theta, ((0, 0), (1, 1))).astype(int)
        assert (np.count_nonzero(np.diff(kept, axis=1) == 1, axis=1) == 1).all()


def test_the_threshold_is_the_lower_conformal_quantile_of_the_paper():
    """eta = the floor(alpha (n + 1))-th smallest mass of what is no denser than y."""
    model = light(HPDSplitRegressor).fit(*smooth_data(300, seed=0))
    s = 1.0 - model.calibration_.V[:, 0]
    for level in (0.5, 0.8, 0.9):
        eta = np.sort(s)[int(np.floor((1.0 - level) * (len(s) + 1) + 1e-9)) - 1]
        theta = float(model.diagnose(X_NEW, level)["correction"][0])
        assert np.isclose(1.0 - theta, eta)


# ---- calibration -------------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize("data", ci_but([awkward_data], [awkward_data, smooth_data]))
@SCORES
def test_a_row_is_in_its_region_when_its_rank_is_low_enough(cls, data, score):
    model = light(cls, score=score, calibration_size=None).fit(*data(150, seed=0))
    X, y = data(120, seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.conformalize(X, y)
        for level in (0.3, 0.8):
            region = model.predict_region(X, level)
            theta = model.diagnose(X, level)["correction"].to_numpy()
            covered = model.calibration_.V[:, 0] <= theta
            np.testing.assert_array_equal(region.contains(y), covered)
            in_cell = model.calibration_.cells
            for cell in np.unique(in_cell):
                ranks = model.calibration_.V[in_cell == cell, 0]
                assert (theta[in_cell == cell] == conformal_quantile(ranks, level)).all()
                assert covered[in_cell == cell].sum() >= conformal_rank(len(ranks), level)


@METHODS
@SCORES
def test_membership_is_rank_also_far_outside_the_grid(cls, score):
    model = light(cls, score=score, calibration_size=None).fit(*heavy_tails(150, seed=0))
    X, y = heavy_tails(300, seed=5)
    model.conformalize(X, np.where(np.arange(300) % 4 == 0, 30.0 * y, y))
    X, y = heavy_tails(400, seed=6)
    y *= 10.0 ** (np.arange(400) % 5)
    v = model.score_.values(model.score_.band(X), y)[:, 1]
    rank = rank_of(v, model._ranks(model.density_.mass(X)), model.density_.grid)
    for level in (0.5, 0.8, 0.9):
        theta = model.diagnose(X, level)["correction"].to_numpy()
        np.testing.assert_array_equal(model.predict_region(X, level).contains(y), rank <= theta)


@METHODS
@pytest.mark.parametrize(
    ("data", "n", "level"), [(smooth_data, 60, 0.9), (heavy_tails, 100, 0.95)], ids=["few", "heavy"]
)
@pytest.mark.ci
def test_enough_calibration_rows_give_finite_hulls(cls, data, n, level):
    beyond = 0
    for seed in range(20):
        model = light(cls, 1, confidence_level=level, random_state=seed).fit(*data(n, seed=seed))
        assert np.isfinite(model.predict_interval(X_NEW)).all()
        beyond += (model.diagnose(X_NEW)["correction"] > 1.0).any()
    assert beyond > 0


@METHODS
def test_the_hull_encloses_the_region_and_levels_nest(cls):
    model = light(cls).fit(*bimodal(400, seed=0))
    X, y = bimodal(200, seed=1)
    small, large = model.predict_region(X, 0.5), model.predict_region(X, alpha=0.2)
    np.testing.assert_array_equal(small.hull, model.predict_interval(X, 0.5))
    intervals = model.predict_interval(X, [0.5, 0.8])
    np.testing.assert_array_equal(intervals[:, :, 1], large.hull)
    inside = small.contains(y)
    assert (large.contains(y) >= inside).all()
    assert (((small.hull[:, 0] <= y) & (y <= small.hull[:, 1])) >= inside).all()
    assert (small.length <= large.length).all()
    assert (small.length <= np.diff(small.hull, axis=1)[:, 0] * (1 + 1e-12)).all()


@METHODS
def test_regions_one_by_one_equal_a_batch(cls):
    # A constant model predicts the same bits for one row and for many.
    model = light(cls, estimator=DummyRegressor()).fit(*bimodal(400, seed=0))
    X, _ = bimodal(30, seed=1)
    assert [model.predict_region(row[None])[0] for row in X] == list(model.predict_region(X))


@METHODS
@pytest.mark.parametrize(("scale", "shift"), [(1024.0, 0.0), (3.0, 7.0), (1e-3, -1.0)])
def test_equivariance(cls, scale, shift):
    X, y = smooth_data(300, seed=2)
    plain = light(cls).fit(X, y).predict_region(X_NEW)
    moved = light(cls).fit(X, scale * y + shift).predict_region(X_NEW)
    np.testing.assert_array_equal(plain.n_pieces, moved.n_pieces)
    for ours, theirs in ((plain.starts, moved.starts), (plain.ends, moved.ends)):
        np.testing.assert_allclose(theirs, scale * ours + shift, rtol=1e-7, atol=1e-7 * scale)


# ---- shapes of the truth -----------------------------------------------------------------------


def rivals(base):
    """Intervals, which cannot be in two pieces."""
    yield SplitConformalRegressor(base, random_state=0)
    yield SLCPRegressor(base, law="forest", random_state=0)
    yield DistSplitRegressor(base, law="forest", random_state=0)
    yield CHRRegressor(base, random_state=0)
    if base is None:
        yield ConformalizedQuantileRegressor(random_state=0)


@pytest.mark.ci
def test_two_pieces_where_the_truth_has_two_and_shorter_than_any_interval():
    data, (X, y) = bimodal(3000, seed=0), bimodal(1500, seed=1)
    region = HPDSplitRegressor(LinearRegression(), random_state=0).fit(*data).predict_region(X)
    assert np.mean(region.n_pieces[X[:, 0] > 0.5] == 2) > 0.8
    assert np.mean(region.n_pieces[X[:, 0] < -0.8] == 1) > 0.8
    assert abs(np.mean(region.contains(y)) - 0.9) < 0.04
    for rival in (*rivals(LinearRegression()), *rivals(None)):
        intervals = rival.fit(*data).predict_interval(X)
        assert np.mean(region.length) < np.mean(np.diff(intervals))


@pytest.mark.nightly
def test_the_same_among_twenty_features_of_which_one_matters():
    """The simulation of Izbicki et al. in full."""
    two, lengths = [], []
    for seed in range(2):
        train, cal = bimodal(5_000, seed, d=20), bimodal(2_500, seed + 50, d=20)
        X, _ = bimodal(2_000, seed + 99, d=20)
        ours, *others = (
            model.set_params(calibration_size=None).fit(*train).conformalize(*cal)
            for model in (HPDSplitRegressor(random_state=0), *rivals(None))
        )
        region = ours.predict_region(X)
        two.append(np.mean(region.n_pieces[X[:, 0] > 0.5] == 2))
        widths = [np.diff(model.predict_interval(X)).mean() for model in others]
        lengths.append([region.length.mean(), *widths])
    ours, *theirs = np.mean(lengths, axis=0)
    assert np.mean(two) > 0.8
    assert ours < min(theirs)


@pytest.mark.ci
def test_a_basis_finds_two_pieces_too():
    X, _ = bimodal(500, seed=1)
    model = HPDSplitRegressor(LinearRegression(), density="basis", random_state=0)
    region = model.fit(*bimodal(2000, seed=0)).predict_region(X)
    assert np.mean(region.n_pieces[X[:, 0] > 0.5] == 2) > 0.7


def test_intervals_of_chr_follow_skewness():
    X, y = skewed(1000, seed=1)
    model = CHRRegressor(LinearRegression(), law=KernelLaw(bandwidth=0.3), random_state=0)
    region = model.fit(*skewed(2000, seed=0)).predict_region(X)
    assert (region.n_pieces == 1).all()
    assert abs(region.contains(y).mean() - 0.9) < 0.04
    plain = SplitConformalRegressor(LinearRegression(), random_state=0).fit(*skewed(2000, seed=0))
    assert region.length.mean() < 0.9 * np.diff(plain.predict_interval(X), axis=1).mean()


def test_the_family_of_chr_belongs_to_the_fitted_level():
    X, y = skewed(300, seed=0)
    model = light(CHRRegressor)
    before = model.fit(X, y).predict_interval(X, 0.8)
    model.set_params(confidence_level=0.5)
    np.testing.assert_array_equal(before, model.predict_interval(X, 0.8))


# ---- what may come -----------------------------------------------------------------------------


@METHODS
def test_too_few_calibration_rows_give_the_whole_line(cls):
    X, y = smooth_data(110, seed=0)
    model = light(cls, calibration_size=None, n_jobs=1).fit(X[:100], y[:100])
    model.conformalize(X[100:108], y[100:108])
    with pytest.warns(UserWarning, match="infinite: . calibration rows came"):
        region = model.predict_region(X_NEW)
    assert region[0] == [(-np.inf, np.inf)]
    assert np.isinf(region.length).all()
    assert model.diagnose(X_NEW)["infinite"].all()


@METHODS
def test_calibration_rows_beyond_the_grid_extend_it_on_both_sides(cls):
    X, y = smooth_data(150, seed=0)
    model = light(cls, 1, calibration_size=None, score="response").fit(X[:100], y[:100])
    model.conformalize(X[100:], np.append(y[100:140], -np.arange(1e3, 1e4, 9e2)))
    edges = model.density_.grid.edges
    assert (np.abs(model.predict_interval(X_NEW, 0.7)) <= np.abs(edges[[0, -1]]) + 1e-9).all()
    # Of 51 places the 46th: the sixth of ten rows that lie below the grid.
    reach = edges[0] + 5.5e3
    for interval in model.predict_interval(X_NEW):
        np.testing.assert_allclose(interval, [edges[0] - reach, edges[-1] + reach])


@METHODS
@pytest.mark.parametrize("scale", [2.0**40, 2.0**-40])
def test_constant_responses_scale(cls, scale):
    X, y = X_NEW, np.full(len(X_NEW), 5.0)
    model = light(cls, 1, estimator=DummyRegressor(), confidence_level=0.7)
    plain, scaled = (model.fit(X, c * y).predict_interval(X) / c for c in (1.0, scale))
    np.testing.assert_array_equal(plain, scaled)
    assert ((plain[:, 0] < 5.0) & (plain[:, 1] > 5.0)).all()
    assert (np.diff(plain) < 1e-8).all()


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
    model = light(cls, 1, score=score)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        region = model.fit(X, y).predict_region(np.vstack([X[:20], [[1e9, -1e9]]]), 0.7)
    assert not np.isnan(region.hull).any()
    assert np.isfinite(region.length).all()
    assert (region.n_pieces >= 1).all()


def test_discrete_responses_give_thin_regions():
    X, y = np.zeros((400, 1)), np.tile([0.0, 1.0, 4.0, 9.0], 100)
    model = light(HPDSplitRegressor, score="response").fit(X, y)
    region = model.predict_region(X[:1])
    assert region.length[0] < 0.5
    assert all(region.contains([value])[0] for value in (0.0, 1.0, 4.0, 9.0))


def test_one_reference_row():
    X, y = smooth_data(60, seed=0)
    model = light(HPDSplitRegressor, estimator=FrozenEstimator(LinearRegression().fit(X, y)))
    model.set_params(calibration_size=None).fit(X[:1], y[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.conformalize(X[1:], y[1:])
        region = model.predict_region(X_NEW)
    assert not np.isnan(region.hull).any()
    assert "was used to train the fitted model" in str(model.guarantee_)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"score": AbsoluteScore()}, "one number with a sign"),
        ({"score": QuantileScore(), "estimator": QuantileRegressor(alpha=0)}, "with a sign"),
        ({"score": "absolute"}, "'score' parameter"),
        ({"density": "basis"}, "density is 'basis', which has no law"),
        ({"law": "auto"}, "'law' parameter"),
    ],
)
def test_what_is_refused(params, words):
    with pytest.raises(ValueError, match=words):
        light(HPDSplitRegressor, **params).fit(*smooth_data(100, seed=0))


def test_a_region_has_one_level():
    X, y = smooth_data(100, seed=0)
    with pytest.raises(ValueError, match="2 levels came; one number was expected"):
        light(HPDSplitRegressor).fit(X, y).predict_region(X, [0.5, 0.8])


def test_promises():
    X, y = smooth_data(200, seed=0)
    promises = {cls: light(cls).fit(X, y).guarantee_ for cls in (HPDSplitRegressor, CHRRegressor)}
    assert all(p.marginal and p.finite_sample for p in promises.values())
    assert all(p.conditional_on is None for p in promises.values())
    assert light(CDSplitRegressor).fit(X, y).guarantee_.conditional_on == "cell"


def test_cells_of_the_default_partition():
    X, y = smooth_data(900, seed=0)
    model = light(CDSplitRegressor, n_cells=None, calibration_size=None).fit(X, y)
    assert len(model.centroids_) == 3
    # Rows of equal density are of one kind, however many cells are asked for.
    same = light(CDSplitRegressor, law="uniform").fit(X, y)
    assert len(same.centroids_) == 1


def test_a_score_on_an_edge_has_the_better_rank():
    model = light(HPDSplitRegressor).fit(*smooth_data(100, seed=0))
    grid = model.density_.grid
    ranks = np.arange(400.0)[None][:, ::-1]
    assert rank_of(grid.edges[[200]], ranks, grid) == ranks[0, 200]
    units = np.array([0.5, 3.0])
    beyond = rank_of(grid.edges[-1] + grid.unit * units, np.tile(ranks, (2, 1)), grid)
    np.testing.assert_allclose(beyond, 1.0 + units)
