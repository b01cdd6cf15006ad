"""The forest law: leaves of many kinds of models, targets and odd input."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from inner import FEW, leaf_numbers, seen
from localconformal import ForestLaw, SLCPRegressor
from registry import ci_but, optional

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


def missing_and_categories(n, seed):
    X, v = rows(n, seed)
    X[::7, 1] = np.nan
    kinds = np.array(["a", "b", "c", None], dtype=object)
    frame = pd.DataFrame(X, columns=list("xyz"))
    drawn = np.random.default_rng(seed).integers(0, 4, n)
    frame["kind"] = pd.Categorical(kinds[drawn], categories=["a", "b", "c"])
    return frame, v + drawn + np.nan_to_num(X[:, 1])


def test_leaves_of_histogram_boosting_know_gaps_and_categories():
    (X, y), (Q, _) = missing_and_categories(600, 0), missing_and_categories(200, 1)
    model = HistGradientBoostingRegressor(max_iter=12, categorical_features="from_dtype").fit(X, y)
    leaves = leaf_numbers(model, Q)
    values = [stage[0].nodes["value"] for stage in model._predictors]
    gains = sum(values[t][leaves[:, t]] for t in range(12))
    np.testing.assert_allclose(model._baseline_prediction.item() + gains, model.predict(Q))


QUICK = ["forest", "extra", "histograms", "pipeline"]
MODELS = {
    "forest": small,
    "extra": lambda: ExtraTreesRegressor(9, min_samples_leaf=3, random_state=0),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=9, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), small()),
    "tree": lambda: DecisionTreeRegressor(min_samples_leaf=5, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=9, random_state=0),
    "lightgbm": lambda: optional("lightgbm").LGBMRegressor(n_estimators=9, verbose=-1, n_jobs=1),
    "xgboost": lambda: optional("xgboost").XGBRegressor(n_estimators=9, n_jobs=1),
    "search": lambda: GridSearchCV(small(), {"max_depth": [2]}, cv=2),
    "scaled target": lambda: TransformedTargetRegressor(small()),
}


@pytest.mark.parametrize("name", ci_but(QUICK, MODELS))
def test_leaves_of_a_fitted_model_decide_what_it_predicts_and_are_used_as_they_are(name):
    (X, y), (R, v), (Q, _) = rows(300, 0), rows(80, 1), rows(20, 2)
    model = MODELS[name]().fit(X, y)
    find = partial(leaf_numbers, model)
    # A leaf has one value in each tree: rows in the same leaves get the same prediction.
    _, first, group = np.unique(find(X), axis=0, return_index=True, return_inverse=True)
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted, predicted[first][group.ravel()], rtol=1e-5, atol=1e-6)
    assert len(first) > 1
    law = ForestLaw(FrozenEstimator(model)).fit(R, v)
    expected, known = weights_by_hand(find(R), find(Q)) @ v, ~law.fallback(Q)
    np.testing.assert_allclose(law.mean(Q)[known], expected[known], atol=1e-12)
    unfitted = MODELS[name]()
    learned = ForestLaw(unfitted, target="size", random_state=0).fit(R, np.abs(v))
    assert learned.model_ is not unfitted
    assert np.all(learned.effective_sample_size(Q) >= 1 - 1e-9)


def test_rows_whose_leaves_are_all_empty_get_the_law_of_all():
    X, y = np.arange(100.0)[:, None], np.arange(100.0)
    tree, v = DecisionTreeRegressor(min_samples_leaf=20).fit(X, y), np.arange(10.0)
    law = ForestLaw(FrozenEstimator(tree)).fit(X[:10], v)
    np.testing.assert_array_equal(law.fallback([[5.0], [99.0]]), [False, True])
    np.testing.assert_array_equal(law.quantile([[99.0]], [0.5]), [[4.0]])


def test_the_point_model_lends_its_leaves():
    X, y = rows(400, 0)
    model = SLCPRegressor(small(), law=ForestLaw("model"), random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict_interval(X[:10])))


FITTED = small().fit(*rows(30, 0))
REFUSED = [
    (ForestLaw(target="spread"), r"target='spread'; expected one of 'scores', 'size'"),
    (ForestLaw("forest"), "only 'model' is known by name"),
    (
        ForestLaw(FrozenEstimator(LinearRegression().fit(*rows(30, 0)))),
        "LinearRegression shows no leaves",
    ),
    (
        ForestLaw(GradientBoostingRegressor()),
        "GradientBoostingRegressor, which takes one column; choose",
    ),
    (ForestLaw(FrozenEstimator(FITTED), embedding=StandardScaler()), "leave the embedding out"),
]


@pytest.mark.parametrize(("law", "message"), REFUSED)
def test_bad_input_is_refused_in_one_sentence(law, message):
    with pytest.raises(ValueError, match=message):
        law.fit(*rows(30, 0))
