"""Rows of any kind as points: frames, models, functions."""

from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from localconformal import ForestLaw, KernelLaw, LearnedLaw, NeighborsLaw
from localconformal.laws.embedding import fit_embedding
from localconformal.laws.features import MAX_CATEGORIES, FeatureEmbedding
from localconformal.laws.outputs import Outputs, blank_outputs

N = 12
TABLE = {
    "number": [0.5, None, 2.0, 3.5] * 3,
    "count": [1, 2, 3, 4] * 3,
    "flag": [True, False, True, True] * 3,
    "colour": ["red", "blue", "red", None] * 3,
    "when": [datetime(2020, 1, 1) + timedelta(days=i) for i in range(N)],
}
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def frame(kind, **changes):
    return KINDS[kind]({**TABLE, **changes})


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_frames_become_finite_points(kind):
    points = FeatureEmbedding().fit(frame(kind)).transform(frame(kind))
    # number, count, flag, when; red, blue and missing as three columns.
    assert points.shape == (N, 7)
    assert np.all(np.isfinite(points))
    np.testing.assert_allclose(points[:, :4].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(points[:, :4].std(axis=0), 1.0)
    assert set(points[:, 4:].ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(points[:, 4:].sum(axis=1), 1.0)


def test_pandas_and_polars_give_the_same_points():
    pandas, polars = (FeatureEmbedding().fit(frame(k)).transform(frame(k)) for k in KINDS)
    np.testing.assert_allclose(pandas[:, :4], polars[:, :4])
    np.testing.assert_allclose(pandas[:, 4:].sum(axis=0).sum(), polars[:, 4:].sum(axis=0).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_missing_numbers_take_the_median(kind):
    embedding = FeatureEmbedding().fit(KINDS[kind]({"a": [1.0, 2.0, 9.0, None]}))
    missing, median = embedding.transform(KINDS[kind]({"a": [None, 2.0]}))
    np.testing.assert_array_equal(missing, median)


def test_extension_types_of_pandas_are_read():
    rows = pd.DataFrame(
        {
            "count": pd.array([1, None, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "text": pd.array(["a", None, "b"], dtype="string"),
            "kind": pd.Categorical(["u", None, "w"]),
            "when": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
            "zoned": pd.to_datetime(["2020-01-01", None, "2021-01-01"]).tz_localize("CET"),
        }
    )
    assert np.all(np.isfinite(FeatureEmbedding().fit(rows).transform(rows)))


def test_dates_and_durations_are_numbers():
    days = pl.DataFrame({"d": [date(2020, 1, 1), date(2020, 1, 3), None]})
    spans = {"s": [timedelta(hours=1), timedelta(hours=3), timedelta(hours=2)]}
    for rows in (days, pl.DataFrame(spans), pd.DataFrame(spans)):
        first, second, third = FeatureEmbedding().fit(rows).transform(rows)[:, 0]
        assert first < third < second


@pytest.mark.parametrize("kind", KINDS)
def test_unseen_categories_and_all_missing_columns_are_taken(kind):
    empty = [None] * N
    embedding = FeatureEmbedding().fit(frame(kind))
    points = embedding.transform(frame(kind, colour=["green"] * N))
    np.testing.assert_array_equal(points[:, 4:], 0.0)
    gone = frame(kind, number=np.full(N, np.nan))
    assert np.all(np.isfinite(FeatureEmbedding().fit(gone).transform(gone)))
    assert np.all(np.isfinite(embedding.transform(frame(kind, colour=empty))))


def test_an_identifier_does_not_fill_the_memory():
    rows = pd.DataFrame({"id": [f"row {i}" for i in range(500)]})
    assert FeatureEmbedding().fit(rows).transform(rows).shape[1] <= MAX_CATEGORIES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", [KernelLaw(bandwidth=0.5), NeighborsLaw(n_neighbors=3)])
def test_laws_take_frames_row_by_row(kind, law):
    rows, v = frame(kind), np.arange(N, dtype=float)
    law.fit(rows, v)
    batch = law.mean(rows)
    for i in range(N):
        assert law.mean(rows[i : i + 1])[0] == batch[i]


def test_a_constant_column_adds_no_distance():
    X = np.random.default_rng(0).normal(size=(50, 1))
    with_constant = np.column_stack([X, np.full(50, 0.1 + 0.2)])
    v = X[:, 0]
    for extra in (0.1 + 0.2, 0.3):
        queries = np.column_stack([X, np.full(50, extra)])
        got = KernelLaw(bandwidth=0.3).fit(with_constant, v).mean(queries)
        np.testing.assert_allclose(got, KernelLaw(bandwidth=0.3).fit(X, v).mean(X), rtol=1e-6)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X[:, 0] ** 2 + rng.normal(size=60)


def same_law(one, other, X):
    np.testing.assert_allclose(one.mean(X), other.mean(X))
    np.testing.assert_array_equal(one.quantile(X, [0.1, 0.9]), other.quantile(X, [0.1, 0.9]))


def test_default_points_are_the_standardised_features(data):
    X, v = data
    scaled = KernelLaw(bandwidth=0.5, embedding=StandardScaler()).fit(X, v)
    same_law(KernelLaw(bandwidth=0.5).fit(X, v), scaled, X)


def test_outputs_are_the_predictions_of_the_regressor(data):
    X, v = data
    outputs = Outputs(lambda X: X[:, 0], X[:, 0], v)
    law = KernelLaw(bandwidth=0.5, embedding="outputs").fit(X, v, outputs=outputs)
    first = X[:, :1]
    np.testing.assert_allclose(law.mean(X), KernelLaw(bandwidth=0.5).fit(first, v).mean(first))


def test_functions_and_fitted_models_are_standardised(data):
    X, v = data
    model = LinearRegression().fit(X, v)
    predictions = model.predict(X)[:, None]
    expected = KernelLaw(bandwidth=0.5).fit(predictions, v)

    class OnlyPredict:
        def predict(self, X):
            return model.predict(X)

    for embedding in (model.predict, FrozenEstimator(model), OnlyPredict()):
        law = KernelLaw(bandwidth=0.5, embedding=embedding).fit(X, v)
        np.testing.assert_allclose(law.mean(X), expected.mean(predictions))


def test_transformers_are_cloned_and_frozen_ones_are_not_fitted_again(data):
    X, v = data
    pca = PCA(n_components=1)
    KernelLaw(embedding=pca).fit(X, v)
    assert not hasattr(pca, "components_")
    frozen = FrozenEstimator(PCA(n_components=1).fit(X[:20]))
    points = fit_embedding(frozen, X, v, None)[1]
    expected = frozen.transform(X)
    np.testing.assert_allclose(points, (expected - expected.mean()) / expected.std())


def test_the_name_outputs_needs_a_regressor_and_other_names_are_unknown(data):
    for name in ("outputs", "layers"):
        with pytest.raises(ValueError, match=rf"embedding is '{name}'; only 'outputs', "):
            KernelLaw(embedding=name).fit(*data)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_coordinates_are_refused_at_fit_and_later(data, bad):
    X, v = data
    broken = X.copy()
    broken[3, 1] = bad
    with pytest.raises(ValueError, match=r"infinite .*clean X"):
        KernelLaw().fit(broken, v)
    with pytest.raises(ValueError, match=r"infinite .*clean X"):
        KernelLaw().fit(X, v).mean(broken)


def test_functions_that_give_nan_are_refused(data):
    with pytest.raises(ValueError, match="NaN or infinite coordinates"):
        KernelLaw(embedding=lambda X: np.full(len(X), np.nan)).fit(*data)


def test_rows_of_more_dimensions_are_flattened(data):
    X, v = data
    law = KernelLaw(bandwidth=0.5).fit(X.reshape(60, 3, 1), v)
    same = KernelLaw(bandwidth=0.5).fit(X, v)
    np.testing.assert_array_equal(law.mean(X.reshape(60, 3, 1)), same.mean(X))


@pytest.mark.parametrize("name", ["metric", "outputs-spread"])
@pytest.mark.parametrize("kind", [KernelLaw, LearnedLaw, ForestLaw])
def test_the_seed_of_a_law_is_that_of_its_embedding(kind, name):
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(60, 12)), rng.normal(size=60)
    seen = [
        kind(embedding=name, random_state=seed).fit(X, v, outputs=blank_outputs(v))
        for seed in (0, 0, 1)
    ]
    first, same, other = (
        (law.embedding_ if kind is KernelLaw else law.view_.embedding).transform(X) for law in seen
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
