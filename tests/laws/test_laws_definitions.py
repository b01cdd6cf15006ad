"""Parts of laws against their definitions, written as loops where they are short."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import kstest

from localconformal import EffectiveSize, FiniteThresholds, KernelLaw, NeighborsLaw, UniformLaw
from localconformal.laws.bandwidth import BandwidthProblem, Rate, choose_bandwidth
from localconformal.laws.blend_models import NystroemRidge
from localconformal.laws.crossfit import held_out_quantiles, make_folds
from localconformal.laws.effective_bandwidth import effective_size
from localconformal.laws.finite_bandwidth import make_trials, spread_within_columns
from localconformal.laws.kernel import draw_batch
from localconformal.laws.knots import GRID, knots_of
from localconformal.laws.leaves import NumberedLeaves, round_down
from localconformal.laws.noise import coarse, draw
from localconformal.laws.outputs import around, blank_outputs
from localconformal.laws.simplex import prune
from localconformal.laws.stacked import check_weights

KERNELS = {
    "gaussian": lambda u2: np.exp(-u2 / 2),
    "boxcar": lambda u2: (u2 <= 1.0).astype(float),
    "epanechnikov": lambda u2: np.maximum(1.0 - u2, 0.0),
}


def problem(n=60, d=2, kernel="gaussian", seed=0):
    rng = np.random.default_rng(seed)
    return BandwidthProblem(rng.normal(size=(n, d)), np.sort(rng.normal(size=n)), kernel, 1.0, 3)


# ---- what every law checks --------------------------------------------------------------------


@pytest.fixture(scope="module")
def law():
    X = np.arange(8.0)[:, None]
    return UniformLaw().fit(X, np.arange(8.0))


@pytest.mark.parametrize("levels", [[-0.01], [1.01], [0.5, np.nan], 2.0])
def test_levels_outside_zero_and_one_are_refused(law, levels):
    for ask in (law.quantile, law.upper_quantile):
        with pytest.raises(ValueError, match=r"levels are .*\[0, 1\]"):
            ask(np.zeros((2, 1)), levels)


def test_the_ends_of_the_levels_and_single_numbers_are_answered(law):
    assert law.quantile(np.zeros((2, 1)), [0.0, 1.0]).tolist() == [[-np.inf, 7.0]] * 2
    assert law.upper_quantile(np.zeros((2, 1)), [0.0, 1.0]).tolist() == [[0.0, np.inf]] * 2
    assert law.quantile(np.zeros((2, 1)), 0.5).tolist() == [[3.0], [3.0]]


def test_the_cdf_takes_columns_and_refuses_other_words(law):
    X, v = np.zeros((2, 1)), np.array([[1.0, 3.5], [7.0, -1.0]])
    np.testing.assert_array_equal(law.cdf(X, v), [[0.25, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(law.cdf(X, v[:, 0], side="left"), [0.125, 0.875])
    with pytest.raises(ValueError, match=r"side is 'up'; 'right' or 'left'"):
        law.cdf(X, v, side="up")
    with pytest.raises(ValueError, match=r"v has NaN"):
        law.cdf(X, [0.0, np.nan])


@pytest.mark.parametrize("v", [[], [1.0, np.nan], [np.inf, 1.0]])
def test_no_scores_and_scores_that_are_no_numbers_are_refused(v):
    with pytest.raises(ValueError, match=r"reference (rows|scores)"):
        UniformLaw().fit(np.zeros((len(v), 1)), v)


# ---- bandwidths -------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, -1.0, np.nan])
def test_a_smoothness_that_is_not_positive_is_refused(beta):
    with pytest.raises(ValueError, match=r"beta is .*positive"):
        Rate(beta).choose(problem())


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, True, "wide", None, [1.0]])
def test_what_is_no_bandwidth_is_refused(bandwidth):
    with pytest.raises(ValueError, match=r"bandwidth is .*positive number"):
        choose_bandwidth(bandwidth, problem())


def test_bandwidths_beyond_all_reason_are_infinite_or_the_least():
    assert choose_bandwidth(1e150, problem()) == choose_bandwidth(np.inf, problem()) == np.inf
    assert choose_bandwidth(9e149, problem()) == 9e149
    assert choose_bandwidth(1e-300, problem()) == 1e-100
    assert choose_bandwidth(2, problem()) == choose_bandwidth(np.float32(2), problem()) == 2.0


def test_a_sample_is_everything_where_there_is_little():
    of = problem()
    assert of.sample(5, 5) == slice(None)
    some = of.sample(6, 5)
    assert len(set(some)) == 5
    assert np.all(np.diff(some) > 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_effective_size_is_that_of_the_row_stochastic_matrix(kernel):
    points = problem(kernel=kernel).points
    squared = cdist(points, points, "sqeuclidean")
    W = KERNELS[kernel](squared / 0.7**2)
    W = W / W.sum(axis=1, keepdims=True)
    assert effective_size(kernel, squared, 0.7) == pytest.approx(60 / np.sum(W**2) - 1.0)
    for target in (3.0, 20.0):
        h = EffectiveSize(target).choose(problem(kernel=kernel))
        assert effective_size(kernel, squared, 1.01 * h) >= target
        assert effective_size(kernel, squared, 0.99 * h) <= target


def test_more_neighbours_than_rows_need_an_infinite_bandwidth_and_copies_none():
    assert EffectiveSize(60).choose(problem()) == np.inf
    assert np.isfinite(EffectiveSize(58).choose(problem()))
    twins = BandwidthProblem(np.repeat([[0.0], [1.0]], 10, axis=0), np.arange(20.0), "boxcar", 1, 0)
    assert EffectiveSize(8.5).choose(twins) < 0.1
    assert EffectiveSize(9.5).choose(twins) == pytest.approx(1.0, rel=1e-3)
    same = BandwidthProblem(np.zeros((20, 1)), np.arange(20.0), "gaussian", 1, 0)
    assert EffectiveSize(18).choose(same) == 1.0
    for bad in (0, -1.0, np.nan, "many"):
        with pytest.raises(ValueError, match=r"target is .*positive"):
            EffectiveSize(bad).choose(problem())


@pytest.mark.parametrize("n", [2, 4, 60, 249, 250, 2_000, 3_500])
def test_trials_part_the_rows_as_they_say(n):
    trials = make_trials(problem(n, d=1), 0.8)
    assert len(trials) == min(8, max(1, 2_000 // n))
    for trial in trials:
        assert len(trial.calibration) == min(1_000, max(1, n // 3))
        assert len(trial.queries) == min(300, n - len(trial.calibration))
        assert not set(trial.calibration) & set(trial.queries)
        assert trial.resamples.shape == (5, len(trial.calibration))
        assert set(trial.resamples.ravel()) <= set(trial.calibration)
        assert len(trial.v) == len(trial.calibration) + len(trial.queries)
        assert np.all(np.diag(trial.squared) == 0.0)
    assert len({trial.v.tobytes() for trial in trials}) == len(trials) or n < 10


def test_finite_thresholds_are_judged_by_mean_share_and_spread():
    of = problem(120)
    trial = make_trials(of, 0.7)[0]
    for h in (0.2, 1.0, 5.0):
        found = trial.thresholds(h, trial.calibration)
        finite = found[np.isfinite(found)]
        share, objective = FiniteThresholds(0.7)._judge(trial, h)
        assert share == pytest.approx(np.mean(np.isinf(found)))
        assert objective == (pytest.approx(finite.mean()) if len(finite) else np.inf)
        again = np.array([trial.thresholds(h, rows) for rows in trial.resamples])
        spread = spread_within_columns(again)
        _, penalised = FiniteThresholds(0.7, penalty=2.0)._judge(trial, h)
        assert penalised == pytest.approx(objective + 2.0 * spread) or not len(finite)


@pytest.mark.parametrize("most", [0.0, 0.15, 1.0])
def test_the_chosen_candidate_is_the_best_of_those_seldom_infinite(most):
    of = problem(90, d=1)
    rule = FiniteThresholds(0.7, n_candidates=7, most_infinite=most)
    positive = pdist(of.points)
    candidates = np.geomspace(2.0 * positive.max(), np.quantile(positive, 0.01), 7)
    judged = [
        np.mean([rule._judge(trial, h) for trial in make_trials(of, 0.7)], axis=0)
        for h in candidates
    ]
    until = next((i for i, (share, _) in enumerate(judged) if share > most), 7)
    best = int(np.argmin([objective for _, objective in judged[:until]])) if until else 0
    assert rule.choose(of) == pytest.approx(candidates[best])


def test_the_share_of_infinite_thresholds_is_half_of_what_may_be_missed_by_default():
    of = problem(90, d=1)
    assert FiniteThresholds(0.7).choose(of) == FiniteThresholds(0.7, most_infinite=0.15).choose(of)
    one = BandwidthProblem(np.zeros((1, 1)), np.zeros(1), "gaussian", 1.0, 0)
    assert FiniteThresholds().choose(one) == 2.0


@pytest.mark.parametrize(
    "params",
    [
        {"level": 0.0},
        {"level": 1.0},
        {"n_candidates": 0},
        {"penalty": -0.1},
        {"most_infinite": -0.1},
        {"most_infinite": 1.1},
    ],
)
def test_bad_parameters_of_finite_thresholds_are_refused(params):
    with pytest.raises(ValueError, match=r"(level is|penalty is) .* expected"):
        FiniteThresholds(**params).choose(problem())
    FiniteThresholds(0.5, n_candidates=1, most_infinite=0.0).choose(problem(12))


# ---- kernel laws ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "size", "count"),
    [(10, None, 3), (10, 0.25, 2), (10, 0.01, 1), (10, 4, 4), (10, 40, 10), (10, 1, 1)],
)
def test_a_batch_has_the_share_or_the_number_of_rows_asked_for(n, size, count):
    rows = draw_batch(n, size, seed=0)
    assert len(set(rows)) == len(rows) == count
    assert np.all(np.diff(rows) > 0)
    assert set(rows) <= set(range(n))


def test_a_law_that_is_added_to_counts_its_rows():
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(300, 1)), rng.normal(size=300)
    law = KernelLaw(engine="sketch", bandwidth=2.0, random_state=0, n_jobs=1).fit(X, v)
    for added in (1, 2):
        law.update(X[:40], v[:40])
        assert law.engine_report_.n_references == 300 + 40 * added
        assert law.n_updates_ == added
    assert np.isnan(law.engine_report_.certified_error)
    assert law.engine_report_.reason.count("added to since") == 1
    assert law.fit(X, v).n_updates_ == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_localizer_of_a_kernel_law_is_its_kernel(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    localizer = KernelLaw(kernel, bandwidth=0.8, embedding=lambda x: x).fit(X, X[:, 0]).localizer()
    scale = X.std(axis=0)
    u2 = cdist(X / scale, X / scale, "sqeuclidean") / 0.64
    view = localizer.view(X)
    np.testing.assert_allclose(localizer(view, view[:4]), KERNELS[kernel](u2[:, :4]), atol=1e-12)


@pytest.mark.parametrize("k", [1, 5, 99])
def test_the_localizer_of_neighbours_reaches_as_far_as_the_kth_reference(k):
    X = np.random.default_rng(0).normal(size=(30, 1))
    localizer = NeighborsLaw(k).fit(X, X[:, 0]).localizer()
    new = np.array([[0.0], [3.0]])
    H = localizer(localizer.view(new), localizer.view(X))
    distance = np.abs(new - X[:, 0])
    reach = np.sort(distance, axis=1)[:, min(k, 30) - 1]
    np.testing.assert_array_equal(H, distance <= reach[:, None] * (1 + 1e-9))


# ---- draws ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_draws_have_the_density_of_the_kernel(k):
    points = np.random.default_rng(0).normal(size=(4_000, k))
    radius = {name: np.linalg.norm(draw(name, 1, points), axis=1) for name in KERNELS}
    assert kstest(draw("gaussian", 1, points)[:, -1], "norm").pvalue > 1e-3
    assert kstest(radius["boxcar"] ** k, "uniform").pvalue > 1e-3
    assert kstest(radius["epanechnikov"] ** 2, "beta", (k / 2, 2)).pvalue > 1e-3
    for name in KERNELS:
        drawn = draw(name, 1, points)
        assert np.all(np.abs(np.mean(drawn / np.abs(drawn), axis=0)) < 0.06)
        assert not np.array_equal(drawn, draw(name, 2, points))


def test_the_last_bits_of_a_row_do_not_change_its_draw():
    points = np.random.default_rng(0).normal(size=(50, 2))
    nearly = points * (1.0 + 1e-14)
    np.testing.assert_array_equal(coarse(points), coarse(nearly))
    np.testing.assert_allclose(coarse(points), points, rtol=2.0**-29)
    assert not np.array_equal(coarse(points), coarse(points * (1.0 + 1e-7)))


# ---- small parts ------------------------------------------------------------------------------


def test_the_grid_is_symmetric_and_has_the_usual_levels():
    assert np.all(np.diff(GRID) > 0)
    np.testing.assert_allclose(GRID, 1.0 - GRID[::-1], atol=1e-12)
    assert {0.0, 0.025, 0.05, 0.1, 0.5, 0.9, 0.95, 0.975, 1.0} <= set(GRID)


def test_knots_of_a_law_are_finite_and_its_quantiles():
    X = np.zeros((9, 1))
    law = UniformLaw().fit(X, np.arange(9.0))
    knots = knots_of(law, X[:2])
    assert knots.values[0, 0] == 0.0
    np.testing.assert_array_equal(knots.values[:, 1:], law.quantile(X[:2], GRID[1:]))
    assert [(one.weight, one.engine) for one in knots.behind] == [(1.0, law.engine_)]


def test_small_weights_are_left_out_but_never_all():
    np.testing.assert_allclose(
        prune(np.array([0.5, 0.04, 0.46]), 0.05), [0.5 / 0.96, 0, 0.46 / 0.96]
    )
    np.testing.assert_allclose(prune(np.array([0.05, 0.95]), 0.05), [0.05, 0.95])
    np.testing.assert_allclose(prune(np.full(4, 0.25), 0.3), np.full(4, 0.25))


def test_weights_that_come_are_scaled_to_one():
    np.testing.assert_allclose(check_weights([1, 0, 3], 3), [0.25, 0.0, 0.75])


def test_predictions_are_in_units_of_their_own_and_within_float32():
    seen = around(np.array([5.0, -1e308]), 2.0, 1e-10)
    np.testing.assert_array_equal(seen, [3e10, -1e30])
    assert np.all(np.isfinite(seen.astype(np.float32)))


def test_held_out_quantiles_are_those_of_the_other_rows():
    X, v = np.zeros((11, 1)), np.arange(11.0)
    folds = make_folds(X, v, blank_outputs(v), 3, seed=0, n_jobs=1)
    assert sorted(np.concatenate([fold.rows for fold in folds])) == list(range(11))
    announced = []
    levels = np.array([0.2, 0.9])
    laws = {"all": UniformLaw(), "again": UniformLaw()}
    found = held_out_quantiles(laws, folds, levels, 1, announced.append)
    assert announced == ["all", "again"]
    for fold in folds:
        rest = np.setdiff1d(np.arange(11), fold.rows)
        expected = UniformLaw().fit(X[rest], v[rest]).quantile(X[:1], levels)[0]
        assert np.all(found["all"][fold.rows] == expected)
        np.testing.assert_array_equal(fold.v_rest, v[rest])


def test_leaves_without_references_are_known_as_such():
    numbers = np.array([[3, 10], [5, 10], [3, 12]])
    leaves = NumberedLeaves(lambda X: X, numbers)
    assert leaves.n_leaves == 4
    codes = leaves.look_up(numbers)
    assert sorted(set(codes.ravel())) == [0, 1, 2, 3]
    assert codes[0, 0] == codes[2, 0]
    assert codes[0, 1] == codes[1, 1]
    unknown = np.array([[2, 9], [4, 11], [6, 13], [-99, 999]])
    assert np.all(leaves(unknown) == -1)


def test_thresholds_are_rounded_down_to_single_precision():
    exact = np.random.default_rng(0).normal(size=1_000)
    low = round_down(exact)
    assert np.all(low <= exact)
    assert np.all(np.nextafter(low, np.float32(np.inf)) > exact)
    np.testing.assert_array_equal(round_down(low.astype(np.float64)), low)


@pytest.mark.parametrize("d", [1, 3])
def test_kernel_ridge_has_the_mean_of_its_rows_and_fits_them(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, d))
    y = 50.0 + np.sin(X[:, 0]) + X[:, -1]
    model = NystroemRidge(random_state=0).fit(X, y)
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=1e-9)
    assert np.var(y - model.predict(X)) < 0.05 * np.var(y)
