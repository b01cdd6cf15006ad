"""Nothing that is learned looks at calibration rows or at the rows that are asked.

Estimators, laws, engines, adjustments and scores come from their registries: a new one is tested
by being there. What was learned is compared bit for bit: as it is stored, and by what it says.
"""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.neighbors import KDTree, KNeighborsRegressor
from sklearn.utils import check_random_state

import inner
from contracts.law_variants import VARIANTS
from localconformal import KernelLaw, LocalizedConformalRegressor, SLCPRegressor
from registry import ci_but, light, optional, smooth_data

LEVELS = [0.5, 0.9]
PROBE = np.vstack([smooth_data(23, seed=9)[0], [[4.0, -4.0]]])
TRAIN, HELD, OTHER = (smooth_data(n, seed) for n, seed in [(160, 0), (60, 1), (50, 2)])

# Small calibration sets, wild rows: bounds may well be infinite, and a sketch of few rows poor.
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning")]


def one_wild_row(X, y):
    X, y = X.copy(), y.copy()
    X[len(X) // 3], y[len(y) // 3] = 1e4, -1e6
    return X, y


def all_others(X, y):
    return 3.0 * X[::-1] + 5.0, -7.0 * y + 100.0


def of_laws(model):
    v = np.tile(np.linspace(-3, 3, 13), (len(PROBE), 1))
    quantiles = [
        (law.quantile(PROBE, [0.05, 0.5]), law.mean(PROBE)) for law in inner.laws_of(model)
    ]
    others = [(law.upper_quantile(PROBE, [0.9]), law.cdf(PROBE, v)) for law in inner.laws_of(model)]
    return joblib.hash([quantiles, others]), model.predict(PROBE).tobytes()


class State(pickle.Pickler):
    """A fitted model as bytes, but for what a tree counts of the questions it was asked."""

    def reducer_override(self, part):
        return (np.array, (np.asarray(part.data),)) if isinstance(part, KDTree) else NotImplemented


def learned(model):
    """Everything that fit left, but for the calibration and the clock, and what it says."""
    left_out = ("calibration_", "fit_report_", "_known_distribution")
    kept = {name: part for name, part in vars(model).items() if name not in left_out}
    State(state := io.BytesIO()).dump(kept)
    return state.getvalue(), of_laws(model)


def answers(model, X):
    bounds = model.predict_interval(X, LEVELS).reshape(len(X), -1)
    return np.column_stack([bounds, model.diagnose(X).to_numpy(float)])


def assert_learns_from_training_alone(model, state=learned):
    """Whatever calibrates or is asked beside, what was learned and answered stays."""
    model.set_params(calibration_size=None, random_state=0).fit(*TRAIN)
    before = state(model)
    first = answers(model.conformalize(*HELD), np.vstack([PROBE, OTHER[0]]))[: len(PROBE)]
    for change in (one_wild_row, all_others):
        model.conformalize(*change(*HELD)).predict_interval(change(*OTHER)[0])
        assert state(model) == before
        # The first calibration brings the first answers back, beside other rows, as many as before.
        asked = np.vstack([PROBE, change(*OTHER)[0]])
        found = answers(model.conformalize(*HELD), asked)[: len(PROBE)]
        np.testing.assert_array_equal(found, first)


def seed_of_split():
    return int(check_random_state(0).randint(2**31 - 1, size=2)[0])


def held_inside(n):
    """The quarter of the rows that `fit` will calibrate on."""
    return inner.split_rows(n, 0.25, seed_of_split())[1]


def held_by_position(n):
    return inner.held_on_dask(seed_of_split(), n)


def with_rows_changed(X, y, rows, change):
    X, y = X.copy(), y.copy()
    X[rows], y[rows] = change(X[rows], y[rows])
    return X, y


def assert_inner_split_is_kept(model, n=200, cut=lambda X, y: (X, y), held=held_inside):
    """Rows that calibrate inside fit leave the model and its laws as they are; the model."""
    X, y = smooth_data(n, seed=3)
    model.set_params(calibration_size=0.25, random_state=0)
    fitted = clone(model).fit(*cut(X, y))
    assert fitted.fit_report_["rows"]["calibration"] == len(held(n))
    other = clone(model).fit(*cut(*with_rows_changed(X, y, held(n), all_others)))
    own, others = (one.predict_interval(PROBE, LEVELS) for one in (fitted, other))
    assert not np.array_equal(own, others), "the change did not reach the calibration"
    assert of_laws(other) == of_laws(fitted)
    found, expected = (answers(one.conformalize(*cut(*HELD)), PROBE) for one in (other, fitted))
    np.testing.assert_array_equal(found, expected)
    return fitted


def test_no_estimator_learns_from_calibration_or_from_rows_asked(estimator_class):
    assert_learns_from_training_alone(light(estimator_class))
    assert_inner_split_is_kept(light(estimator_class))


TERMS = {("residual", name) for name in inner.ADJUSTMENTS} | {
    (name, "additive") for name in inner.SCORES
}


@pytest.mark.ci
@pytest.mark.parametrize(("score", "adjustment"), sorted(TERMS))
def test_no_score_or_adjustment_learns_from_calibration_or_from_rows_asked(score, adjustment):
    base = QuantileRegressor(alpha=0) if score == "quantile" else LinearRegression()
    law = KernelLaw(bandwidth=0.7)
    assert_learns_from_training_alone(
        LocalizedConformalRegressor(base, conformity_score=score, law=law, adjustment=adjustment)
    )


#: Every engine that compiled code and NumPy have, and every one on tensors.
LAWS = VARIANTS | {f"engine-{name}": KernelLaw(engine=name) for name in inner.ENGINES}
LAWS |= {f"cpu-{name}": KernelLaw(engine=name, device="cpu") for name in inner.ENGINES}


def with_law(name, model=None):
    if name.startswith("cpu-"):
        optional("torch")
    return SLCPRegressor(model or LinearRegression(), law=LAWS[name], random_state=0)


@pytest.mark.parametrize("name", ci_but({"kernel", "forest"}, LAWS))
def test_no_law_learns_from_calibration_or_from_rows_asked(name):
    assert_learns_from_training_alone(with_law(name))
    assert_inner_split_is_kept(with_law(name))


@pytest.mark.ci
def test_auto_learns_from_training_rows_alone_with_a_model_and_without():
    for model in (SLCPRegressor(LinearRegression()), SLCPRegressor()):
        assert_learns_from_training_alone(model)
        assert_inner_split_is_kept(model)


def mixed_frame(X, new_labels=False):
    labels = np.where(X[:, 0] > 0, "high", "low").astype(object)
    labels[::7] = "unseen" if new_labels else None
    numbers = np.where(np.arange(len(X)) % 5 == 0, np.nan, X[:, 1])
    return pd.DataFrame({"a": X[:, 0], "b": numbers, "kind": labels})


class FirstColumn:
    def predict(self, X):
        return X["a"].to_numpy()


#: The others look at the point model, and not at the columns.
OF_COLUMNS = [name for name in LAWS if "outputs" not in name or "spread" in name]


@pytest.mark.parametrize("name", ci_but({"kernel"}, OF_COLUMNS))
def test_labels_and_missing_values_of_calibration_rows_teach_a_law_nothing(name):
    X, y = smooth_data(200, seed=3)
    frame, rows = mixed_frame(X), held_inside(200)
    other = frame.copy()
    other.iloc[rows] = mixed_frame(3.0 * X[rows] + 2.0, new_labels=True)
    models = [with_law(name, FirstColumn()).fit(table, y) for table in (frame, other)]
    asked = mixed_frame(PROBE), [0.1, 0.5, 0.9]
    np.testing.assert_array_equal(*([F.quantile(*asked) for F in inner.laws_of(m)] for m in models))


@pytest.fixture
def cut():
    dask, da = optional("dask"), optional("dask.array")
    with dask.config.set(scheduler="synchronous"):
        yield lambda X, y: (da.from_array(X, chunks=(70, 2)), da.from_array(y, chunks=70))


@pytest.mark.ci
def test_nothing_on_dask_learns_from_calibration_rows(estimator_class, cut):
    model = light(estimator_class)
    try:
        model.fit(*cut(*TRAIN))
    except ValueError as refused:
        assert "Dask" in str(refused)  # noqa: PT017
        return
    assert_inner_split_is_kept(model, cut=cut, held=held_by_position)


@pytest.mark.ci
def test_a_sketch_summed_on_dask_knows_nothing_of_calibration_rows(monkeypatch, cut):
    # A sample chooses the law, all rows are summed.
    monkeypatch.setattr("localconformal.distributed.laws.LAW_ROWS", 100)
    fitted = assert_inner_split_is_kept(with_law("engine-sketch"), cut=cut, held=held_by_position)
    assert inner.laws_of(fitted)[0].engine_report_.n_references == 150


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["layer", "hidden"])
def test_networks_and_their_layers_learn_from_training_rows_alone(place):
    optional("skorch")
    torch = optional("torch")
    from localconformal.torch import TorchEmbedding
    from paper.networks import Network

    torch.manual_seed(0)
    layer = TorchEmbedding(torch.nn.Linear(2, 3).double(), "", batch_size=16)
    law = KernelLaw(embedding=layer if place == "layer" else "hidden", device="cpu")
    model = SLCPRegressor(Network((8,), max_epochs=5, random_state=0), law=law)
    assert_inner_split_is_kept(model)
    assert_learns_from_training_alone(model, state=of_laws)


class Remembers(KNeighborsRegressor):
    """Has no error at rows that it was fitted on, and counts how often it is asked."""

    asked = 0

    def predict(self, X):
        type(self).asked += 1
        return super().predict(X)


@pytest.mark.parametrize("law", ["kernel", "forest", "learned"])
def test_laws_meet_no_in_sample_answer_and_the_model_is_asked_once_per_query_and_fold(law):
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.random.default_rng(1).normal(size=400)
    model = SLCPRegressor(Remembers(1), law=law, random_state=0, n_jobs=1)
    Remembers.asked = 0
    fitted = model.fit(X, y).law_.laws[-1]
    assert Remembers.asked == 6
    spread = np.diff(fitted.quantile(X, [0.05, 0.95]))
    assert np.median(spread) > 1.0
    Remembers.asked = 0
    model.predict_interval(X[:5])
    assert Remembers.asked == 1
