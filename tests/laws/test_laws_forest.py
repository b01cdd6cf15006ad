"""The forest law: leaves of forests, targets and odd input."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from inner import FEW, seen
from localconformal import ForestLaw

LEVELS = np.array([0.1, 0.5, 0.9])


def rows(n, seed, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, rng.normal(size=n) * (0.2 + np.abs(X[:, 0]))


def small(**params):
    defaults = {"n_estimators": 15, "min_samples_leaf": 3, "random_state": 0}
    return RandomForestRegressor(**{**defaults, **params})


def weights_by_hand(reference, asked):
    """Weights (m, n) from leaf numbers (n, T), (m, T)."""
    total = 0.0
    for t in range(reference.shape[1]):
        same = asked[:, t][:, None] == reference[:, t][None]
        total = total + same / np.maximum(same.sum(axis=1, keepdims=True), 1)
    # Rows without shared leaves are asked about elsewhere.
    return total / np.maximum(total.sum(axis=1, keepdims=True), 1e-300)


@pytest.mark.parametrize("n", [200, FEW + 1])
def test_weights_are_shared_leaves_over_their_sizes_in_any_order_of_references(n):
    (X, v), (Q, _) = rows(n, 0), rows(25, 1)
    law = ForestLaw(small(), random_state=0, n_jobs=1).fit(X, v)
    w = weights_by_hand(law.model_.apply(seen(law, X)), law.model_.apply(seen(law, Q)))
    at = np.tile(np.linspace(-1, 1, 5), (25, 1))
    expected = [[p[v <= a].sum() for a in row] for p, row in zip(w, at, strict=True)]
    np.testing.assert_allclose(law.cdf(Q, at), expected, atol=1e-12)
    np.testing.assert_allclose(law.mean(Q), w @ v, atol=1e-12)
    assert not law.fallback(Q).any()
    order = np.random.default_rng(0).permutation(n)
    again = ForestLaw(small(), random_state=0, n_jobs=1).fit(X[order], v[order])
    np.testing.assert_array_equal(again.quantile(Q, LEVELS), law.quantile(Q, LEVELS))


def test_a_seed_is_drawn_where_none_is_given():
    X, v = rows(100, 0)
    forest = small(random_state=None)
    first, again, other = (ForestLaw(forest, random_state=s).fit(X, v).mean(X) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.parametrize("n", [80, FEW + 1])
@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_a_fitted_forest_is_used_as_it_is(kind, n):
    (X, y), (R, v), (Q, _) = rows(300, 0), rows(n, 1), rows(20, 2)
    model = kind(9, min_samples_leaf=3, random_state=0).fit(X, y)
    law = ForestLaw(FrozenEstimator(model), n_jobs=1).fit(R, v)
    expected, known = weights_by_hand(model.apply(R), model.apply(Q)) @ v, ~law.fallback(Q)
    np.testing.assert_allclose(law.mean(Q)[known], expected[known], atol=1e-12)
    with pytest.raises(ValueError, match="expecting 3 features"):
        law.mean(Q[:, :2])
    named = kind(2, random_state=0).fit(pd.DataFrame(X, columns=[*"abc"]), y)
    law = ForestLaw(FrozenEstimator(named), n_jobs=1).fit(pd.DataFrame(R, columns=[*"abc"]), v)
    with pytest.raises(ValueError, match="feature names"):
        law.mean(pd.DataFrame(Q, columns=[*"cba"]))


def test_rows_whose_leaves_are_all_empty_get_the_law_of_all():
    X, y = np.arange(100.0)[:, None], np.arange(100.0)
    tree = RandomForestRegressor(1, min_samples_leaf=20, bootstrap=False).fit(X, y)
    law = ForestLaw(FrozenEstimator(tree)).fit(X[:10], np.arange(10.0))
    np.testing.assert_array_equal(law.fallback([[5.0], [99.0]]), [False, True])
    np.testing.assert_array_equal(law.quantile([[99.0]], [0.5]), [[4.0]])


FITTED = small().fit(*rows(30, 0))
REFUSED = [
    (ForestLaw(target="spread"), r"target='spread'; expected one of 'scores', 'size'"),
    (ForestLaw("forest"), "expected a forest of scikit-learn"),
    (ForestLaw(GradientBoostingRegressor()), "expected a forest of scikit-learn"),
    (ForestLaw(FrozenEstimator(small())), "not fitted yet"),
    (ForestLaw(FrozenEstimator(FITTED), embedding=StandardScaler()), "leave the embedding out"),
]


@pytest.mark.parametrize(("law", "message"), REFUSED)
def test_bad_input_is_refused_in_one_sentence(law, message):
    with pytest.raises((ValueError, NotFittedError), match=message):
        law.fit(*rows(30, 0))
