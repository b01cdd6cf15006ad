"""Nothing that is learned looks at calibration rows or at the rows that are asked.

Estimators, laws, engines, adjustments and scores come from their registries: a new one is tested
by being there. What was learned is compared by what it says, bit for bit: of the local laws on
fixed rows, of the base model, and, whatever an estimator is made of, of its intervals once it is
calibrated on one and the same set.
"""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.neighbors import KDTree
from sklearn.utils import check_random_state

from contracts.law_variants import FEW_TREES, VARIANTS
from localconformal import KernelLaw, LocalizedConformalRegressor, SLCPRegressor
from localconformal.adjustments import ADJUSTMENTS
from localconformal.engine import tensors
from localconformal.engine.dispatch import BUILDERS
from localconformal.laws import outputs
from localconformal.scores import SCORES
from localconformal.selection.cost import FEWEST
from localconformal.splitting import split_rows
from registry import ESTIMATORS, ci_but, light, optional, smooth_data

LEVELS = [0.5, 0.9]
PROBE = np.vstack([smooth_data(23, seed=9)[0], [[4.0, -4.0]]])
TRAIN, HELD, OTHER = (smooth_data(n, seed) for n, seed in [(160, 0), (60, 1), (50, 2)])

# Small calibration sets, wild rows: bounds may well be infinite, and a sketch of few rows poor.
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """A small forest wherever a spread is learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "SPREAD_FORESTS", FEW_TREES)
        yield


def one_wild_row(X, y):
    X, y = X.copy(), y.copy()
    X[len(X) // 3], y[len(y) // 3] = 1e4, -1e6
    return X, y


def all_others(X, y):
    return 3.0 * X[::-1] + 5.0, -7.0 * y + 100.0


def permuted(X, y):
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def of_laws(model):
    """What the local laws and the base model say of the probe."""
    v = np.tile(np.linspace(-3, 3, 13), (len(PROBE), 1))
    said = [
        (
            law.quantile(PROBE, [0.05, 0.5, 0.95]),
            law.upper_quantile(PROBE, [0.1, 0.9]),
            law.cdf(PROBE, v),
            law.mean(PROBE),
        )
        for law in model.law_.laws
    ]
    return joblib.hash(said), model.predict(PROBE).tobytes()


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
    return np.column_stack(
        [model.predict_interval(X, LEVELS).reshape(len(X), -1), model.diagnose(X).to_numpy(float)]
    )


def assert_learns_from_training_alone(model, state=learned):
    """Whatever calibrates or is asked beside, what was learned and answered stays."""
    model.fit(*TRAIN)
    before = state(model)
    first = answers(model.conformalize(*HELD), np.vstack([PROBE, OTHER[0]]))[: len(PROBE)]
    for change in (one_wild_row, all_others, permuted):
        model.conformalize(*change(*HELD)).predict_interval(change(*OTHER)[0])
        assert state(model) == before
        # The first calibration brings the first answers back, beside other rows, as many as before.
        asked = np.vstack([PROBE, change(*OTHER)[0]])
        found = answers(model.conformalize(*HELD), asked)[: len(PROBE)]
        np.testing.assert_array_equal(found, first)


def held_inside(n, share=0.25, random_state=0):
    """Rows that `fit` will calibrate on."""
    seed = check_random_state(random_state).randint(2**31 - 1, size=2)[0]
    return split_rows(n, share, int(seed))[1]


def with_rows_changed(X, y, rows, change):
    X, y = X.copy(), y.copy()
    X[rows], y[rows] = change(X[rows], y[rows])
    return X, y


def assert_inner_split_is_kept(model, n=200, changes=(one_wild_row, all_others), cut=None):
    """Rows that calibrate inside fit leave the model and its laws as they are; the model."""
    X, y = smooth_data(n, seed=3)
    rows = held_inside(n) if cut is None else held_by_position(n)
    cut = cut or (lambda X, y: (X, y))
    model.set_params(calibration_size=0.25, random_state=0)
    fitted = clone(model).fit(*cut(X, y))
    assert fitted.fit_report_["rows"]["calibration"] == len(rows)
    own, said = fitted.predict_interval(PROBE, LEVELS), of_laws(fitted)
    calibrated = answers(fitted.conformalize(*cut(*HELD)), PROBE)
    for change in changes:
        other = clone(model).fit(*cut(*with_rows_changed(X, y, rows, change)))
        if change is all_others:
            # The change did reach the calibration.
            assert not np.array_equal(other.predict_interval(PROBE, LEVELS), own)
        assert of_laws(other) == said
        found = answers(other.conformalize(*cut(*HELD)), PROBE)
        np.testing.assert_array_equal(found, calibrated)
    return fitted


# ---- estimators, and terms of the equation ---------------------------------------------------

QUICK = {"SplitConformalRegressor", "SLCPRegressor", "LCPRegressor"}
NAMES = {cls.__name__: cls for cls in ESTIMATORS}


@pytest.mark.parametrize("name", ci_but(QUICK, NAMES))
def test_no_estimator_learns_from_calibration_or_from_rows_asked(name):
    assert_learns_from_training_alone(light(NAMES[name], calibration_size=None))
    assert_inner_split_is_kept(light(NAMES[name]))


TERMS = {("residual", name) for name in ADJUSTMENTS} | {(name, "additive") for name in SCORES}


@pytest.mark.ci
@pytest.mark.parametrize(("score", "adjustment"), sorted(TERMS))
def test_no_score_or_adjustment_learns_from_calibration_or_from_rows_asked(score, adjustment):
    base = QuantileRegressor(alpha=0) if score == "quantile" else LinearRegression()
    law = KernelLaw(bandwidth=0.7)
    model = LocalizedConformalRegressor(base, score=score, law=law, adjustment=adjustment)
    assert_learns_from_training_alone(model.set_params(calibration_size=None, random_state=0))


# ---- laws and engines ------------------------------------------------------------------------

#: Every engine that compiled code and NumPy have, and every one on tensors.
ENGINES = {
    **{f"engine-{name}": KernelLaw(engine=name) for name in BUILDERS},
    **{f"cpu-{name}": KernelLaw(engine=name, device="cpu") for name in tensors.ENGINES},
}
LAWS = VARIANTS | ENGINES


def with_law(name, model=None, **params):
    if name.startswith("cpu-"):
        optional("torch")
    return SLCPRegressor(model or LinearRegression(), law=LAWS[name], random_state=0, **params)


@pytest.mark.parametrize("name", ci_but({"kernel", "forest"}, LAWS))
def test_no_law_learns_from_calibration_or_from_rows_asked(name):
    assert_learns_from_training_alone(with_law(name, calibration_size=None))
    assert_inner_split_is_kept(with_law(name))


@pytest.mark.ci
def test_the_search_of_auto_learns_from_training_rows_alone():
    # As many rows as a search needs, and some.
    model = SLCPRegressor(LinearRegression())
    fitted = assert_inner_split_is_kept(model, int(1.4 * FEWEST), [all_others])
    assert fitted.fit_report_["rows"]["selection"] > 0


def mixed_frame(X, new_labels=False):
    """Numbers, missing ones, and labels that depend on a number."""
    labels = np.where(X[:, 0] > 0, "high", "low").astype(object)
    labels[::7] = "unseen" if new_labels else None
    numbers = np.where(np.arange(len(X)) % 5 == 0, np.nan, X[:, 1])
    return pd.DataFrame({"a": X[:, 0], "b": numbers, "kind": labels})


class FirstColumn:
    """A fitted model that takes any frame."""

    def predict(self, X):
        return X["a"].to_numpy()


#: The others look at the point model, and not at the columns.
OF_COLUMNS = [name for name in LAWS if "outputs" not in name or "spread" in name]


@pytest.mark.parametrize("name", ci_but({"kernel"}, OF_COLUMNS))
def test_labels_and_missing_values_of_calibration_rows_teach_a_law_nothing(name):
    X, y = smooth_data(200, seed=3)
    rows, frame = held_inside(200), mixed_frame(X)
    other = frame.copy()
    other.iloc[rows] = mixed_frame(3.0 * X[rows] + 2.0, new_labels=True)
    found = [
        [
            law.quantile(mixed_frame(PROBE), [0.1, 0.5, 0.9])
            for law in with_law(name, FirstColumn()).fit(table, y).law_.laws
        ]
        for table in (frame, other)
    ]
    np.testing.assert_array_equal(*found)


# ---- rows on Dask, networks ------------------------------------------------------------------


def cut(X, y):
    da = optional("dask.array")
    return da.from_array(X, chunks=(70, X.shape[1])), da.from_array(y, chunks=70)


def held_by_position(n, share=0.25, random_state=0):
    """Rows that `fit` will calibrate on when they are on Dask."""
    from localconformal.distributed.graph import SPLIT, uniforms

    seed = check_random_state(random_state).randint(2**31 - 1, size=2)[0]
    numbers = uniforms(int(seed), SPLIT, 0, n)
    return np.flatnonzero(numbers <= np.sort(numbers)[int(np.ceil(share * n)) - 1])


@pytest.mark.ci
@pytest.mark.parametrize("name", NAMES)
def test_nothing_on_dask_learns_from_calibration_rows(name):
    dask, model = optional("dask"), light(NAMES[name])
    with dask.config.set(scheduler="synchronous"):
        try:
            model.fit(*cut(*TRAIN))
        except ValueError as refused:
            assert "Dask" in str(refused)  # noqa: PT017
            return
        assert_inner_split_is_kept(model, cut=cut)


@pytest.mark.ci
def test_a_sketch_summed_on_dask_knows_nothing_of_calibration_rows(monkeypatch):
    dask = optional("dask")
    from localconformal.distributed import laws

    # A sample chooses the law, all rows are summed.
    monkeypatch.setattr(laws, "LAW_ROWS", 100)
    X, y = smooth_data(200, seed=3)
    other = with_rows_changed(X, y, held_by_position(200), all_others)
    with dask.config.set(scheduler="synchronous"):
        models = [with_law("engine-sketch").fit(*cut(*table)) for table in [(X, y), other]]
    assert models[0].law_.laws[0].engine_.sketch.n == 150
    assert of_laws(models[0]) == of_laws(models[1])


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
    laws = {
        "layer": KernelLaw(embedding=layer),
        "hidden": KernelLaw(embedding="hidden", device="cpu"),
    }
    network = Network((8,), max_epochs=5, random_state=0)
    model = SLCPRegressor(network, law=laws[place], random_state=0)
    assert_inner_split_is_kept(model)
    assert_learns_from_training_alone(model.set_params(calibration_size=None), state=of_laws)
