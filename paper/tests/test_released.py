"""The authors' released code, slip by slip."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from localconformal.datasets import load_simulation
from paper.models import LinearQuantiles, choose_linear
from paper.released import KNN, MEAN, RBF, ReleasedSLCP, Slips, local_quantile

NONE = Slips(mismatched=False, redrawn=False)


def rows(n, seed):
    return load_simulation("sim2").sample(n, random_state=seed)


def fitted(kind=RBF, slips=Slips(), batch_size=0.5, seed=0):  # noqa: B008 (immutable)
    model = choose_linear(None, None, 0, None).mean if kind == MEAN else LinearQuantiles()
    released = ReleasedSLCP(model, kind, batch_size, slips, seed)
    return released.fit(*rows(300, 0)).conformalize(*rows(300, 1))


def test_without_slips_the_local_quantile_is_that_of_near_errors():
    model, (X, _) = fitted(slips=NONE), rows(300, 0)
    points, errors = model.kept_
    own = {tuple(row): error for row, error in zip(X, model.errors_, strict=True)}
    assert all(np.array_equal(own[tuple(p)], e) for p, e in zip(points, errors, strict=True))
    weights = np.exp(-cdist(X[:5], points, "sqeuclidean") / model.h_)
    weights /= weights.sum(axis=1, keepdims=True)
    for x, found in zip(weights, model._local(X[:5]), strict=True):
        for side, quantile in zip(errors.T, found, strict=True):
            assert x[side < quantile].sum() <= 0.95 < x[side <= quantile].sum() + 1e-12


def test_the_mismatch_gives_weights_to_the_errors_of_the_first_rows():
    model = fitted(slips=Slips(redrawn=False))
    assert np.array_equal(model.kept_[1], model.errors_[: model.k_])


@pytest.mark.parametrize(("slips", "same"), [(NONE, True), (Slips(), False)])
def test_an_interval_depends_on_the_rows_beside_it_only_where_batches_are_redrawn(slips, same):
    """The guarantee rests on scores that are functions of training rows and their own row."""
    model, (X, _) = fitted(slips=slips), rows(200, 2)
    alone = np.vstack([model.predict_interval(X[i : i + 1]) for i in range(20)])
    assert np.allclose(alone, model.predict_interval(X)[:20]) == same


def test_its_neighbours_are_not_local_and_its_means_have_one_width():
    X, _ = rows(200, 2)
    knn, mean = (fitted(kind) for kind in (KNN, MEAN))
    assert np.ptp(knn._local(X), axis=0).max() == 0
    assert np.ptp(np.diff(mean.predict_interval(X), axis=1)) < 1e-9


@pytest.mark.parametrize("slips", [NONE, Slips(redrawn=False)])
def test_what_is_drawn_once_covers(slips):
    """The mismatch alone makes intervals longer, not wrong."""
    covered = []
    for seed in range(40):
        model = ReleasedSLCP(LinearQuantiles(), RBF, 0.3, slips, seed).fit(*rows(150, 3 * seed))
        X, y = rows(400, 3 * seed + 2)
        low, high = model.conformalize(*rows(150, 3 * seed + 1)).predict_interval(X).T
        covered.append(np.mean((low <= y) & (y <= high)))
    error = np.std(covered) / np.sqrt(len(covered))
    assert abs(np.mean(covered) - 0.9) < 4 * error


def test_a_level_between_two_masses_is_the_larger_value():
    assert local_quantile(np.array([[0.9, 0.1], [0.96, 0.04]]), np.array([1.0, 2.0])).tolist() == [
        2,
        1,
    ]
