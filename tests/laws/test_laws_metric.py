"""A learned linear map: its loss by hand, its gradient, and what it learns."""

import time

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from localconformal import KernelLaw, SLCPRegressor
from localconformal.laws.metric import LearnedMetric, Sample, held_out_error, leave_one_out


def sample(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return Sample(rng.normal(size=(n, p)), rng.normal(size=n))


def by_hand(A, rows):
    """Leave-one-out kernel regression with an observation of weight 1 at 0, in plain loops."""
    total, n = 0.0, len(rows.y)
    for i in range(n):
        above, below = 0.0, 1.0
        for j in range(n):
            if j != i:
                K = np.exp(-np.mean((A @ (rows.points[i] - rows.points[j])) ** 2))
                above, below = above + K * rows.y[j], below + K
        total += (rows.y[i] - above / below) ** 2
    return total / n


@pytest.mark.parametrize(("r", "p"), [(1, 1), (2, 5), (3, 3)])
def test_the_loss_is_that_of_kernel_regression_and_its_gradient_is_right(r, p):
    rows, A = sample(25, p), np.random.default_rng(1).normal(size=(r, p))
    loss, gradient = leave_one_out(A, rows)
    assert loss == pytest.approx(by_hand(A, rows))
    numeric = approx_fprime(A.ravel(), lambda flat: by_hand(flat.reshape(r, p), rows), 1e-6)
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-5)


def test_the_held_out_error_is_that_of_kernel_regression():
    seen, held, A = sample(20, 3), sample(4, 3, seed=1), np.eye(3)
    expected = 0.0
    for x, y in zip(held.points, held.y, strict=True):
        K = np.exp(-np.mean((seen.points - x) ** 2, axis=1))
        expected += (y - K @ seen.y / (1.0 + K.sum())) ** 2
    assert held_out_error(A, seen, held) == pytest.approx(expected)


def wave(n, p, seed=0):
    """The first column speaks; the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, p))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("p", [3, 8, 20])
def test_noise_columns_are_ignored(p):
    metric = LearnedMetric().fit(*wave(800, p))
    signal, *noise = np.linalg.norm(metric.map_, axis=0)
    assert metric.map_.shape == (min(10, p), p)
    assert signal > 3 * max(noise)


@pytest.mark.parametrize("p", [1, 5, 15])
def test_kernel_regression_is_better_under_the_map(p):
    X, y = wave(600, p)
    metric = LearnedMetric().fit(X, y)
    learned, plain = (
        held_out_error(A, Sample(Z(X), y), Sample(Z(X_new), y_new))
        for X_new, y_new in [wave(300, p, seed=1)]
        for Z in [metric.features_.transform]
        for A in (metric.map_, np.eye(p)[: len(metric.map_)])
    )
    assert learned < plain


def test_points_make_the_gaussian_of_bandwidth_one_the_kernel():
    X, y = wave(100, 4)
    metric = LearnedMetric(n_components=2).fit(X, y)
    u, f = metric.transform(X), (X - X.mean(axis=0)) / X.std(axis=0)
    squared = np.sum((u[:1] - u) ** 2, axis=1)
    expected = np.mean(((f[:1] - f) @ metric.map_.T) ** 2, axis=1)
    np.testing.assert_allclose(squared / 2, expected)


def test_rows_are_mapped_one_by_one_as_in_a_batch():
    X, y = wave(120, 7)
    metric = LearnedMetric(n_components=3).fit(X, y)
    batch = metric.transform(X)
    for rows in (X, np.asfortranarray(X), X.astype(np.float64)[::-1][::-1]):
        alone = np.concatenate([metric.transform(rows[i : i + 1]) for i in range(len(X))])
        np.testing.assert_array_equal(batch, alone)
        np.testing.assert_array_equal(batch, metric.transform(rows))


def test_the_fit_is_deterministic_and_the_order_of_rows_does_not_matter():
    X, y = wave(300, 4)
    metric = LearnedMetric(max_rows=200)
    expected = clone(metric).fit(X, y).map_
    np.testing.assert_array_equal(expected, clone(metric).fit(X, y).map_)
    # Means of the features may differ in their last bits.
    turned = clone(metric).fit(X[::-1], y[::-1]).map_
    np.testing.assert_allclose(turned, expected, rtol=1e-7, atol=1e-9)
    other = clone(metric).set_params(random_state=1).fit(X, y).map_
    assert not np.allclose(expected, other)


@pytest.mark.parametrize(("scale", "shift"), [(4.0, 0.0), (1e3, 0.0), (1e-6, 0.0), (1.0, 100.0)])
def test_the_unit_of_y_does_not_matter(scale, shift):
    X, y = wave(300, 3)
    plain, moved = (LearnedMetric().fit(X, target).map_ for target in (y, scale * y + shift))
    np.testing.assert_allclose(moved, plain, rtol=1e-5, atol=1e-5)


def test_the_descent_helps_and_the_best_map_is_kept():
    """More steps never make the error on the held rows worse, as later maps would at times."""
    X, y = wave(80, 12)
    errors = []
    for n_iter in (0, 5, 50):
        metric = LearnedMetric(n_iter=n_iter).fit(X, y)
        errors.append(held_error(metric, X, y))
    assert errors[0] > errors[1] >= errors[2]


def held_error(metric, X, y):
    from localconformal.laws.metric import split, standardised
    from localconformal.laws.order import canonical_order

    points = metric.features_.transform(X)
    rows = canonical_order(points, y)[np.random.default_rng(0).permutation(len(y))]
    return held_out_error(metric.map_, *split(points[rows], standardised(y[rows])))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_rows_and_constant_responses(n):
    X = np.arange(2.0 * n).reshape(n, 2)
    for y in (np.arange(float(n)), np.full(n, 0.1), np.zeros(n)):
        assert np.isfinite(LearnedMetric().fit(X, y).transform(X)).all()


def test_bad_input_is_refused():
    X, y = wave(20, 2)
    with pytest.raises(ValueError, match="n_components"):
        LearnedMetric(n_components=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 20 rows and v has 19"):
        LearnedMetric().fit(X, y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        LearnedMetric().fit(X, np.where(y > 0, np.nan, y))


def test_laws_learn_it_from_responses_inside_a_regressor_and_from_scores_alone():
    X, y = wave(200, 3)
    v = np.abs(X[:, 2])
    alone = KernelLaw(bandwidth=1.0, embedding=LearnedMetric()).fit(X, v)
    np.testing.assert_array_equal(alone.embedding_.embedding.map_, LearnedMetric().fit(X, v).map_)
    for embedding in ("metric", LearnedMetric()):
        law = KernelLaw(bandwidth=1.0, embedding=embedding)
        model = SLCPRegressor(
            LinearRegression(), law=law, calibration_size=None, random_state=0
        ).fit(X, y)
        inside = model.law_.laws[0].embedding_
        learned = inside.embedding.embedding
        # By name it has the seed of the law, as an object its own.
        assert (learned.random_state == 0) == (embedding != "metric")
        expected = LearnedMetric(random_state=learned.random_state).fit(X, y).map_
        np.testing.assert_array_equal(learned.map_, expected)
        assert inside.scaler_ is None


@pytest.mark.ci
def test_it_takes_seconds_whatever_the_number_of_rows():
    X, y = wave(20_000, 60)
    start = time.process_time()
    LearnedMetric().fit(X, y)
    assert time.process_time() - start < 6
