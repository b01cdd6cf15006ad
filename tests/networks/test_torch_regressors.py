"""Images and networks through the regressors: fit, calibrate, predict, in a layer's own space."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skorch import NeuralNetRegressor  # noqa: E402
from torch import nn  # noqa: E402

from localconformal import (  # noqa: E402
    ForestLaw,
    KernelLaw,
    LCPRegressor,
    MADSplitRegressor,
    NeighborsLaw,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.metrics import coverage  # noqa: E402
from localconformal.torch import TorchEmbedding  # noqa: E402


def draw(n, seed=0):
    """Images of 1 x 6 x 6 with a bright patch; noise grows with its brightness."""
    rng = np.random.default_rng(seed)
    light = rng.uniform(size=n)
    X = 0.1 * rng.normal(size=(n, 1, 6, 6))
    X[:, 0, 1:4, 1:4] += light[:, None, None]
    return X.astype(np.float32), 3.0 * light + light * rng.normal(size=n)


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.ReLU())


def piped(module, n=200):
    """A fitted Pipeline from images to predictions, through the network's last layer."""
    X, y = draw(n, seed=9)
    return make_pipeline(TorchEmbedding(module, "4", batch_size=32), Ridge()).fit(X, y)


def localized(module, law=None, **params):
    law = law or KernelLaw(bandwidth="cv", embedding=TorchEmbedding(module, "4", batch_size=32))
    return SLCPRegressor(FrozenEstimator(piped(module)), law=law, random_state=0, **params)


@pytest.fixture(scope="module")
def fitted(module):
    return localized(module).fit(*draw(300))


def test_intervals_cover_and_follow_the_noise(fitted):
    X, y = draw(2000, seed=1)
    intervals = fitted.predict_interval(X)
    assert 0.84 < coverage(y, intervals) < 0.96
    light, width = X[:, 0, 1:4, 1:4].mean(axis=(1, 2)), np.ptp(intervals, axis=1)
    assert width[light > 0.8].mean() > 1.5 * width[light < 0.2].mean()


def answers(model, X):
    law = model.law_.laws[0]
    return np.hstack([law.quantile(X, [0.1, 0.5, 0.9]), law.effective_sample_size(X)[:, None]])


def test_one_by_one_is_bit_identical_to_a_batch_in_any_order(fitted):
    X, _ = draw(70, seed=1)
    law, batch = answers(fitted, X), fitted.predict_interval(X)
    order = np.random.default_rng(0).permutation(70)
    np.testing.assert_array_equal(answers(fitted, X[order]), law[order])
    for i in range(0, 70, 13):
        np.testing.assert_array_equal(answers(fitted, X[i : i + 1])[0], law[i])
        # The head, Ridge on float32, has a matrix product of its own.
        np.testing.assert_allclose(fitted.predict_interval(X[i : i + 1])[0], batch[i], atol=1e-5)


def test_calibration_rows_leave_the_law_as_it_was(fitted):
    model, X = pickle.loads(pickle.dumps(fitted)), draw(40, seed=1)[0]
    before, bandwidth = answers(model, X), model.law_.laws[0].bandwidth_
    far = draw(80, seed=2)
    model.conformalize(100.0 * far[0], far[1])
    np.testing.assert_array_equal(answers(model, X), before)
    assert model.law_.laws[0].bandwidth_ == bandwidth


def test_the_order_of_the_reference_rows_does_not_matter(module):
    X, y = draw(80)
    queries = draw(30, seed=1)[0]
    law = KernelLaw(embedding=TorchEmbedding(module, "4", 16), random_state=0)
    order = np.random.default_rng(0).permutation(80)
    one, other = (clone(law).fit(X[rows], y[rows]) for rows in (np.arange(80), order))
    np.testing.assert_allclose(one.quantile(queries, [0.5]), other.quantile(queries, [0.5]))


def test_a_clone_fits_alike_and_a_pickle_answers_alike(fitted):
    X = draw(30, seed=1)[0]
    expected = fitted.predict_interval(X)
    again = clone(fitted).fit(*draw(300))
    np.testing.assert_array_equal(again.predict_interval(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_interval(X), expected)


def test_each_call_runs_the_network_once(module):
    model, (X, y) = localized(module, calibration_size=None), draw(128)
    seen = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    for call in (
        lambda: model.fit(X, y),
        lambda: model.conformalize(*draw(128, seed=1)),
        lambda: model.predict_interval(X),
        lambda: model.diagnose(X),
        lambda: model.predict_quantiles(X, [0.1, 0.9]),
    ):
        seen.clear()
        call()
        assert seen == [32] * 4
    handle.remove()


@pytest.mark.parametrize("law", [NeighborsLaw, ForestLaw], ids=lambda law: law.__name__)
def test_other_laws_take_the_embedding_or_the_flattened_rows(module, law):
    known = law()
    if "embedding" in known.get_params():
        known.set_params(embedding=TorchEmbedding(module, "4"))
    model = localized(module, law=known).fit(*draw(120))
    assert np.isfinite(model.predict_interval(draw(10, seed=1)[0])).all()


def test_embedded_rows_are_rows_like_any_other(module):
    embedding = TorchEmbedding(module, "4").fit(draw(50, seed=9)[0])
    X, y = draw(140)
    model = SLCPRegressor(LinearRegression(), random_state=0).fit(embedding.transform(X), y)
    assert model.selection_ is not None
    assert np.isfinite(model.predict_interval(embedding.transform(draw(10, seed=1)[0]))).all()


def test_auto_takes_small_images_flattened_and_asks_for_an_embedding_of_large_ones(module):
    X, y = draw(100)
    assert localized(module, law="auto").fit(X, y).predict_interval(X).shape == (100, 2)
    large = np.zeros((20, 3, 32, 32), dtype=np.float32)
    model = SLCPRegressor(Brightness(), random_state=0)
    with pytest.raises(ValueError, match=r"rows of shape \(3, 32, 32\).*embedded rows.*KernelLaw"):
        model.fit(large, np.arange(20.0))


class Brightness(RegressorMixin, BaseEstimator):
    """A line in the mean of an image."""

    def fit(self, X, y):
        self.line_ = np.polyfit(X.reshape(len(X), -1).mean(axis=1), y, 1)
        return self

    def predict(self, X):
        return np.polyval(self.line_, X.reshape(len(X), -1).mean(axis=1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class OnlyPredicts:
    def predict(self, X):
        return X.reshape(len(X), -1).mean(axis=1)


class Net(NeuralNetRegressor):
    """skorch wants responses of shape (n, 1) in the network's precision."""

    def fit(self, X, y, **params):
        return super().fit(X, np.asarray(y, dtype=np.float32)[:, None], **params)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(48, 1)

    def forward(self, x):
        return self.head(self.features(x))


@pytest.mark.parametrize(
    "model",
    [Brightness(), OnlyPredicts(), Net(Small, max_epochs=2, verbose=0, train_split=None)],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("method", [SplitConformalRegressor, SLCPRegressor, LCPRegressor])
def test_models_that_take_images_do_so_inside(model, method, module):
    params = {"random_state": 0, "confidence_level": 0.5}
    embedded = KernelLaw(embedding=TorchEmbedding(module, "4"))
    if "law" in method().get_params():
        params["law"] = embedded
    X, y = draw(90)
    fitted = method(model, **params).fit(X, y)
    assert fitted.predict(X).shape == (90,)
    assert np.isfinite(fitted.predict_interval(X)).all()
    assert fitted.conformalize(*draw(40, seed=1)) is fitted


def test_cross_fitting_and_a_learned_spread_see_images_too(module):
    X, y = draw(90)
    model = MADSplitRegressor(Brightness(), spread_estimator=Brightness(), random_state=0)
    assert np.isfinite(model.fit(X, y).predict_interval(X)).all()


def test_models_of_tables_still_refuse_images():
    X, y = draw(40)
    for model in (None, LinearRegression(), make_pipeline(Ridge())):
        with pytest.raises(ValueError, match="dim 4"):
            SplitConformalRegressor(model).fit(X, y)


def test_images_of_another_shape_are_refused(fitted):
    with pytest.raises(ValueError, match=r"rows of shape \(1, 5, 6\); \(1, 6, 6\) was expected"):
        fitted.predict_interval(draw(3)[0][:, :, :5])


def test_training_images_are_recognised_at_calibration(module):
    X, y = draw(90)
    model = SplitConformalRegressor(Brightness(), calibration_size=None).fit(X, y)
    with pytest.warns(UserWarning, match="5 of 30 calibration rows are identical"):
        model.conformalize(
            np.vstack([X[:5].astype(np.float64), draw(25, seed=1)[0]]),
            np.append(y[:5], draw(25, seed=1)[1]),
        )
