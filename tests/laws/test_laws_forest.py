"""The forest law: leaves of many kinds of models, targets, out-of-bag, and odd input."""

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

from localconformal import SLCPRegressor
from localconformal.engine.leaves import LeafEngine
from localconformal.engine.reference import ReferenceEngine
from localconformal.laws.features import FeatureEmbedding
from localconformal.laws.forest import TARGETS, ForestLaw
from localconformal.laws.leaves import ForestTrees, LeafFinder
from localconformal.laws.outputs import Outputs

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


@pytest.mark.parametrize("n", [200, 3500])
def test_weights_are_shared_leaves_over_their_sizes(n):
    (X, v), (Q, _) = rows(n, 0), rows(25, 1)
    law = ForestLaw(small(), random_state=0, n_jobs=1).fit(X, v)
    assert isinstance(law.engine_, ReferenceEngine if n == 200 else LeafEngine)
    find = LeafFinder(law.model_)
    w = weights_by_hand(find(law.view_(X)), find(law.view_(Q)))
    at = np.tile(np.linspace(-1, 1, 5), (25, 1))
    expected = [[p[v <= a].sum() for a in row] for p, row in zip(w, at, strict=True)]
    np.testing.assert_allclose(law.cdf(Q, at), expected, atol=1e-12)
    np.testing.assert_allclose(law.mean(Q), w @ v, atol=1e-12)
    assert not law.fallback(Q).any()


@pytest.mark.parametrize("n", [150, 3200])
def test_one_by_one_and_in_any_order_of_references_nothing_changes(n):
    (X, v), (Q, _) = rows(n, 0), rows(20, 1)
    law = ForestLaw(small(), random_state=0).fit(X, v)
    batch = law.quantile(Q, LEVELS)
    np.testing.assert_array_equal(np.vstack([law.quantile(q[None], LEVELS) for q in Q]), batch)
    order = np.random.default_rng(0).permutation(n)
    again = ForestLaw(small(), random_state=0).fit(X[order], v[order])
    np.testing.assert_array_equal(again.quantile(Q, LEVELS), batch)


def test_a_seed_is_drawn_where_none_is_given():
    X, v = rows(100, 0)
    forest = small(random_state=None)
    first, second = (ForestLaw(forest, random_state=s).fit(X, v) for s in (0, 0))
    other = ForestLaw(forest, random_state=1).fit(X, v)
    np.testing.assert_array_equal(first.mean(X), second.mean(X))
    assert np.any(first.mean(X) != other.mean(X))


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_localizes(target):
    (X, v), (Q, _) = rows(600, 0), rows(300, 1)
    law = ForestLaw(target=target, random_state=0, n_jobs=1).fit(X, v)
    width = np.ptp(law.quantile(Q, [0.1, 0.9]), axis=1)
    wide, narrow = np.abs(Q[:, 0]) > 1.2, np.abs(Q[:, 0]) < 0.3
    assert width[wide].mean() > 1.5 * width[narrow].mean()


def test_the_trees_see_what_the_model_says():
    """The spread depends on mu alone, which the features do not show."""
    rng = np.random.default_rng(0)
    X, mu = rng.normal(size=(1200, 2)), rng.normal(size=1200)
    v = rng.normal(size=1200) * np.where(mu > 0, 5.0, 0.1)
    outputs = Outputs(lambda Q: np.where(Q[:, 0] > 0, 1.0, -1.0), mu, mu + v)
    law = ForestLaw(random_state=0, n_jobs=1).fit(X, v, outputs=outputs)
    Q = np.array([[1.0, 0.0], [-1.0, 0.0]])
    width = np.ptp(law.quantile(Q, [0.1, 0.9]), axis=1)
    assert width[0] > 10 * width[1]
    blind = ForestLaw(embedding=FeatureEmbedding(), random_state=0, n_jobs=1)
    width = np.ptp(blind.fit(X, v, outputs=outputs).quantile(Q, [0.1, 0.9]), axis=1)
    assert width[0] < 10 * width[1]


def missing_and_categories(n, seed):
    """A frame with NaN in numbers and in categories."""
    X, v = rows(n, seed)
    X[::7, 1] = np.nan
    kinds = np.array(["a", "b", "c", None], dtype=object)
    frame = pd.DataFrame(X, columns=list("xyz"))
    drawn = np.random.default_rng(seed).integers(0, 4, n)
    frame["kind"] = pd.Categorical(kinds[drawn], categories=["a", "b", "c"])
    return frame, v + drawn + np.nan_to_num(X[:, 1])


def test_leaves_of_histogram_boosting_are_those_of_its_stages():
    X, y = missing_and_categories(600, 0)
    model = HistGradientBoostingRegressor(max_iter=12, categorical_features="from_dtype").fit(X, y)
    Q, _ = missing_and_categories(200, 1)
    leaves = LeafFinder(model)(Q)
    stages = np.stack(list(model.staged_predict(Q)), axis=1)
    before = np.full((200, 1), model._baseline_prediction.item())
    gains = np.diff(np.hstack([before, stages]), axis=1)
    assert leaves.shape == gains.shape
    values = [stage[0].nodes["value"] for stage in model._predictors]
    expected = np.stack([values[t][leaves[:, t]] for t in range(leaves.shape[1])], axis=1)
    np.testing.assert_allclose(gains, expected, atol=1e-9)
    assert np.ptp(leaves, axis=0).max() > 0


def lightgbm():
    package = pytest.importorskip("lightgbm")
    return package.LGBMRegressor(n_estimators=9, verbose=-1, n_jobs=1)


def xgboost():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=9, n_jobs=1)


MODELS = {
    "forest": small,
    "extra": lambda: ExtraTreesRegressor(9, min_samples_leaf=3, random_state=0),
    "tree": lambda: DecisionTreeRegressor(min_samples_leaf=5, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=9, random_state=0),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=9, random_state=0),
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "pipeline": lambda: make_pipeline(StandardScaler(), small()),
    "search": lambda: GridSearchCV(small(), {"max_depth": [2]}, cv=2),
    "scaled target": lambda: TransformedTargetRegressor(small()),
}


@pytest.mark.parametrize("name", MODELS)
def test_rows_in_the_same_leaves_get_the_same_prediction(name):
    X, y = rows(300, 0)
    model = MODELS[name]().fit(X, y)
    # A leaf has one value in each tree, so that leaves decide what is predicted.
    leaves = LeafFinder(model)(X)
    _, first, group = np.unique(leaves, axis=0, return_index=True, return_inverse=True)
    prediction = model.predict(X)
    np.testing.assert_allclose(prediction, prediction[first][group.ravel()], rtol=1e-5, atol=1e-6)
    assert len(first) > 1


@pytest.mark.parametrize("name", MODELS)
def test_leaves_of_a_fitted_model_are_used_as_they_are(name):
    (X, y), (R, v), (Q, _) = rows(300, 0), rows(80, 1), rows(20, 2)
    model = MODELS[name]().fit(X, y)
    find = LeafFinder(model)
    law = ForestLaw(FrozenEstimator(model)).fit(R, v)
    expected = weights_by_hand(find(R), find(Q)) @ v
    known = ~law.fallback(Q)
    np.testing.assert_allclose(law.mean(Q)[known], expected[known], atol=1e-12)


@pytest.mark.parametrize("name", ["extra", "boosting", "histograms", "lightgbm", "xgboost"])
def test_an_unfitted_model_is_cloned_and_fitted(name):
    X, v = rows(200, 0)
    model = MODELS[name]()
    law = ForestLaw(model, target="size", random_state=0).fit(X, v)
    assert law.model_ is not model
    assert np.all(law.effective_sample_size(X) >= 1 - 1e-9)


def test_rows_whose_leaves_are_all_empty_get_the_law_of_all():
    X, y = np.arange(100.0)[:, None], np.arange(100.0)
    tree = DecisionTreeRegressor(min_samples_leaf=20).fit(X, y)
    v = np.arange(10.0)
    law = ForestLaw(FrozenEstimator(tree)).fit(X[:10], v)
    np.testing.assert_array_equal(law.fallback([[5.0], [99.0]]), [False, True])
    np.testing.assert_array_equal(law.quantile([[99.0]], [0.5]), [[4.0]])


def test_the_point_model_lends_its_leaves():
    X, y = rows(400, 0)
    model = SLCPRegressor(small(), law=ForestLaw("model"), random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict_interval(X[:10])))


def test_packed_trees_find_the_leaves_that_scikit_learn_finds():
    X, v = rows(500, 0)
    # Values on thresholds, huge ones, and float32 neighbours of both.
    model = small().fit(X, v)
    cuts = np.concatenate([tree.tree_.threshold for tree in model.estimators_])
    near = cuts.astype(np.float32)
    parts = [near, np.nextafter(near, np.float32(9e9)), np.nextafter(near, np.float32(-9e9))]
    Q = np.tile(np.concatenate([*parts, [3e38, -3e38]])[:, None], (1, 3)).astype(np.float32)
    trees = ForestTrees(model)
    np.testing.assert_array_equal(trees.packed()(Q), trees(Q))
    leaves = model.apply(Q)
    for t in range(leaves.shape[1]):
        pairs = np.unique(np.column_stack([leaves[:, t], trees(Q)[:, t]]), axis=0)
        assert len(pairs) == len(np.unique(leaves[:, t])) == len(np.unique(trees(Q)[:, t]))


@pytest.mark.parametrize("n", [120, 3300])
def test_out_of_bag_uses_other_rows_and_trees_that_left_the_row_out(n):
    X, v = rows(n, 0)
    v[5] = 1e6
    law = ForestLaw(small(), random_state=0, n_jobs=1).fit(X, v)
    found = law.out_of_bag_quantile([0.5, 1.0])
    assert found.shape == (n, 2)
    assert np.all(found[5] < 1e6)
    assert (found[:, 1] == 1e6).any()
    # By hand, for some rows.
    leaves = LeafFinder(law.model_)(law.view_(X)[law.order_])
    sorted_v = v[law.order_]
    for rank in range(0, n, n // 15):
        outside = [t for t, bag in enumerate(law.model_.estimators_samples_) if rank not in bag]
        same = leaves[:, outside] == leaves[rank, outside]
        same[rank] = False
        weights = (same / np.maximum(same.sum(axis=0), 1)).sum(axis=1)
        reached = np.cumsum(weights) >= 0.5 * weights.sum() - 1e-9
        assert found[law.order_[rank], 0] == sorted_v[np.argmax(reached)]


def test_rows_in_every_bag_still_do_not_count_for_themselves():
    X, v = rows(60, 0)
    law = ForestLaw(small(n_estimators=1, min_samples_leaf=30), random_state=0).fit(X, v)
    largest = np.argmax(v)
    assert law.out_of_bag_quantile([1.0])[largest, 0] < v[largest]


@pytest.mark.parametrize(
    "estimator", [small(bootstrap=False), GradientBoostingRegressor(n_estimators=3)]
)
def test_out_of_bag_needs_a_bootstrap(estimator):
    X, v = rows(50, 0)
    with pytest.raises(ValueError, match=r"no out-of-bag rows; a forest with bootstrap=True"):
        ForestLaw(estimator, target="size").fit(X, v).out_of_bag_quantile([0.5])


def test_out_of_bag_refuses_what_it_cannot_answer():
    X, v = rows(50, 0)
    fitted = FrozenEstimator(small().fit(X, v))
    with pytest.raises(ValueError, match="no out-of-bag rows"):
        ForestLaw(fitted).fit(X, v).out_of_bag_quantile([0.5])
    with pytest.raises(ValueError, match="1 reference row came"):
        ForestLaw().fit(X[:1], v[:1]).out_of_bag_quantile([0.5])
    with pytest.raises(ValueError, match=r"levels are \[2.0\]"):
        ForestLaw().fit(X, v).out_of_bag_quantile([2.0])


def test_frames_with_categories_and_missing_values_work():
    X, v = missing_and_categories(150, 0)
    law = ForestLaw(random_state=0, n_jobs=1).fit(X, v)
    assert np.all(np.isfinite(law.quantile(missing_and_categories(20, 1)[0], LEVELS)))


def test_values_beyond_float32_work():
    X, v = rows(100, 0)
    X[0, 0] = 1e60
    law = ForestLaw(random_state=0, n_jobs=1).fit(X, v)
    assert np.all(np.isfinite(law.quantile([[-1e308, 0.0, 1e200]], LEVELS)))


def test_bad_input_is_refused_in_one_sentence():
    X, v = rows(30, 0)
    with pytest.raises(ValueError, match=r"target is 'spread'; one of 'scores', 'size'"):
        ForestLaw(target="spread").fit(X, v)
    with pytest.raises(ValueError, match="only 'model' is known by name"):
        ForestLaw("model").fit(X, v)
    with pytest.raises(ValueError, match="only 'model' is known by name"):
        ForestLaw("forest").fit(X, v)
    with pytest.raises(ValueError, match="LinearRegression shows no leaves"):
        ForestLaw(FrozenEstimator(LinearRegression().fit(X, v))).fit(X, v)
    with pytest.raises(ValueError, match="GradientBoostingRegressor takes one column; choose"):
        ForestLaw(GradientBoostingRegressor()).fit(X, v)
    with pytest.raises(ValueError, match="leave the embedding out"):
        ForestLaw(FrozenEstimator(small().fit(X, v)), embedding=FeatureEmbedding()).fit(X, v)


def test_a_histogram_model_without_its_parts_is_refused():
    class Changed:
        _predictors = ()

    with pytest.raises(ValueError, match="could not be read in this version of scikit-learn"):
        LeafFinder(Changed())([[0.0]])
