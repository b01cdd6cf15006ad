"""Nothing that is learned looks at calibration rows or at the rows that are asked.

Estimators, laws, engines, adjustments and scores come from their registries: a new one is tested
by being there. What was learned is compared by what it says, bit for bit: of the local laws on
fixed rows, of the base model, and, whatever an estimator is made of, of its intervals once it is
calibrated on one and the same set.
"""

import io
import pickle
import warnings

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
from registry import ESTIMATORS, ci_but, light, smooth_data

LEVELS = [0.5, 0.9]
PROBE = np.vstack([smooth_data(23, seed=9)[0], [[4.0, -4.0]]])
TRAIN, HELD, OTHER = (smooth_data(n, seed) for n, seed in [(160, 0), (60, 1), (50, 2)])

pytestmark = [
    # Small calibration sets, wild rows: bounds may well be infinite, and a sketch of few rows poor.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


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


CHANGES = {"one-row": one_wild_row, "all-rows": all_others, "permuted": permuted}


def of_laws(model):
    """What the local laws say of the probe."""
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
    return joblib.hash(said)


class State(pickle.Pickler):
    """A fitted model as bytes, but for what a tree counts of the questions it was asked."""

    def reducer_override(self, part):
        return (np.array, (np.asarray(part.data),)) if isinstance(part, KDTree) else NotImplemented


def learned(model):
    """Everything that fit left, but for the calibration and the clock, and what it says."""
    kept = {
        name: part
        for name, part in vars(model).items()
        if name not in ("calibration_", "fit_report_", "_known_distribution")
    }
    State(state := io.BytesIO()).dump(kept)
    return state.getvalue(), of_laws(model), model.predict(PROBE).tobytes()


def answers(model, X):
    return model.predict_interval(X, LEVELS), model.diagnose(X).to_numpy(dtype=float)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_calibration_teaches_nothing(model):
    """Whatever calibrates, what was learned stays; the first set brings the first answers back."""
    before = learned(model)
    first = answers(model.conformalize(*HELD), PROBE)
    for change in CHANGES.values():
        model.conformalize(*change(*HELD)).predict_interval(change(*OTHER)[0])
        assert learned(model) == before
    assert_same(answers(model.conformalize(*HELD), PROBE), first)


def assert_rows_are_asked_alone(model):
    """Other contents of the other rows, as many as before: the first answers stay."""
    model.conformalize(*HELD)
    first = answers(model, np.vstack([PROBE, OTHER[0]]))
    for change in CHANGES.values():
        asked = answers(model, np.vstack([PROBE, change(*OTHER)[0]]))
        assert_same([part[: len(PROBE)] for part in asked], [part[: len(PROBE)] for part in first])


def held_inside(n, share, random_state):
    """Rows that `fit` will calibrate on."""
    seed = check_random_state(random_state).randint(2**31 - 1, size=2)[0]
    return split_rows(n, share, int(seed))[1]


def with_rows_changed(X, y, rows, change):
    X, y = X.copy(), y.copy()
    X[rows], y[rows] = change(X[rows], y[rows])
    return X, y


def assert_inner_split_is_kept(model, n=200, changes=(one_wild_row, all_others)):
    """Rows that calibrate inside fit leave the model and its laws as they are; the model."""
    X, y = smooth_data(n, seed=3)
    rows = held_inside(len(y), 0.25, 0)
    model.set_params(calibration_size=0.25, random_state=0)
    fitted = clone(model).fit(X, y)
    assert fitted.fit_report_["rows"]["calibration"] == len(rows)
    own = fitted.predict_interval(PROBE, LEVELS)
    said, point = of_laws(fitted), fitted.predict(PROBE)
    calibrated = answers(fitted.conformalize(*HELD), PROBE)
    for change in changes:
        other = clone(model).fit(*with_rows_changed(X, y, rows, change))
        if change is all_others:
            # The change did reach the calibration.
            assert not np.array_equal(other.predict_interval(PROBE, LEVELS), own)
        np.testing.assert_array_equal(other.predict(PROBE), point)
        assert of_laws(other) == said
        assert_same(answers(other.conformalize(*HELD), PROBE), calibrated)
    return fitted


# ---- estimators ------------------------------------------------------------------------------


def test_no_estimator_learns_from_calibration_or_from_rows_asked(estimator_class):
    model = light(estimator_class, calibration_size=None).fit(*TRAIN)
    assert_calibration_teaches_nothing(model)
    assert_rows_are_asked_alone(model)


def test_no_estimator_learns_from_the_rows_it_splits_off(estimator_class):
    assert_inner_split_is_kept(light(estimator_class))


# ---- terms of the equation -------------------------------------------------------------------


def base_model(score):
    return QuantileRegressor(alpha=0) if score == "quantile" else LinearRegression()


TERMS = [("residual", name) for name in ADJUSTMENTS] + [(name, "additive") for name in SCORES]


@pytest.mark.parametrize(("score", "adjustment"), sorted(set(TERMS)))
def test_no_score_or_adjustment_learns_from_calibration_or_from_rows_asked(score, adjustment):
    model = LocalizedConformalRegressor(
        base_model(score),
        score=score,
        law=KernelLaw(bandwidth=0.7),
        adjustment=adjustment,
        calibration_size=None,
        random_state=0,
    ).fit(*TRAIN)
    assert_calibration_teaches_nothing(model)
    assert_rows_are_asked_alone(model)


# ---- laws and engines ------------------------------------------------------------------------

#: Every engine that compiled code and NumPy have, and every one on tensors.
ENGINES = {
    **{f"engine-{name}": KernelLaw(engine=name) for name in BUILDERS},
    **{f"cpu-{name}": KernelLaw(engine=name, device="cpu") for name in tensors.ENGINES},
}
LAWS = VARIANTS | ENGINES
#: Each stands for its kind by default; the others run with the slow tests.
QUICK = {"uniform", "kernel", "neighbors", "forest", "learned", "stacked", "shifted"}


def with_law(name, **params):
    if name.startswith("cpu-"):
        pytest.importorskip("torch")
    return SLCPRegressor(LinearRegression(), law=LAWS[name], random_state=0, **params)


@pytest.mark.parametrize("name", ci_but(QUICK | set(ENGINES), LAWS))
def test_no_law_learns_from_calibration_or_from_rows_asked(name):
    model = with_law(name, calibration_size=None).fit(*TRAIN)
    assert_calibration_teaches_nothing(model)
    assert_rows_are_asked_alone(model)


@pytest.mark.parametrize("name", ci_but({"kernel", "forest", "engine-sketch", "cpu-exact"}, LAWS))
def test_no_law_learns_from_the_rows_that_are_split_off(name):
    assert_inner_split_is_kept(with_law(name))


@pytest.mark.ci
def test_the_search_of_auto_learns_from_training_rows_alone():
    # As many rows as a search needs, and some.
    n = int(1.4 * FEWEST)
    fitted = assert_inner_split_is_kept(SLCPRegressor(LinearRegression()), n, [all_others])
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


@pytest.mark.parametrize("name", ci_but({"kernel", "forest"}, OF_COLUMNS))
def test_labels_and_missing_values_of_calibration_rows_teach_a_law_nothing(name):
    X, y = smooth_data(200, seed=3)
    rows, frame = held_inside(200, 0.25, 0), mixed_frame(X)
    other = frame.copy()
    other.iloc[rows] = mixed_frame(3.0 * X[rows] + 2.0, new_labels=True)
    asked = mixed_frame(PROBE)
    first, second = (
        SLCPRegressor(FirstColumn(), law=LAWS[name], random_state=0).fit(table, y)
        for table in (frame, other)
    )
    if name.startswith("cpu-"):
        pytest.importorskip("torch")
    for one, two in zip(first.law_.laws, second.law_.laws, strict=True):
        levels = [0.1, 0.5, 0.9]
        np.testing.assert_array_equal(one.quantile(asked, levels), two.quantile(asked, levels))


# ---- rows on Dask ----------------------------------------------------------------------------


def taken_by_dask():
    """Estimators that Dask rows can be given to; this needs no Dask, the tests do."""
    from localconformal.distributed.estimator import check_method

    found = []
    for cls in ESTIMATORS:
        try:
            check_method(light(cls))
        except ValueError:
            continue
        found.append(cls)
    return found


def cut(X, y):
    import dask.array as da

    return da.from_array(X, chunks=(70, X.shape[1])), da.from_array(y, chunks=70)


def held_by_position(n, share, random_state):
    """Rows that `fit` will calibrate on when they come on Dask."""
    from localconformal.distributed.graph import SPLIT, uniforms

    seed = check_random_state(random_state).randint(2**31 - 1, size=2)[0]
    numbers = uniforms(int(seed), SPLIT, 0, n)
    return np.flatnonzero(numbers <= np.sort(numbers)[int(np.ceil(share * n)) - 1])


@pytest.mark.parametrize("cls", taken_by_dask(), ids=lambda cls: cls.__name__)
def test_nothing_on_dask_learns_from_calibration_rows(cls):
    dask = pytest.importorskip("dask")
    X, y = smooth_data(200, seed=3)
    rows = held_by_position(200, 0.25, 0)
    with dask.config.set(scheduler="synchronous"):
        fitted = light(cls).fit(*cut(X, y))
        assert fitted.fit_report_["rows"]["calibration"] == len(rows)
        before, own = learned_on_dask(fitted), fitted.predict_interval(PROBE)
        calibrated = fitted.conformalize(*cut(*HELD)).predict_interval(PROBE)
        for change in (one_wild_row, all_others):
            other = light(cls).fit(*cut(*with_rows_changed(X, y, rows, change)))
            if change is all_others:
                assert not np.array_equal(other.predict_interval(PROBE), own)
            assert learned_on_dask(other) == before
            other.conformalize(*cut(*change(*HELD)))
            assert learned_on_dask(other) == before
            again = other.conformalize(*cut(*HELD)).predict_interval(PROBE)
            np.testing.assert_array_equal(again, calibrated)


def learned_on_dask(model):
    return of_laws(model), model.predict(PROBE).tobytes()


def test_a_sketch_summed_on_dask_knows_nothing_of_calibration_rows(monkeypatch):
    dask = pytest.importorskip("dask")
    from localconformal.distributed import laws

    # A sample chooses the law, all rows are summed.
    monkeypatch.setattr(laws, "LAW_ROWS", 100)
    X, y = smooth_data(200, seed=3)
    rows = held_by_position(200, 0.25, 0)
    with dask.config.set(scheduler="synchronous"):
        first, second = (
            with_law("engine-sketch").fit(*cut(*table))
            for table in [(X, y), with_rows_changed(X, y, rows, all_others)]
        )
    assert first.law_.laws[0].engine_.sketch.n == 150
    assert learned_on_dask(first) == learned_on_dask(second)


# ---- networks --------------------------------------------------------------------------------


@pytest.mark.ci
def test_networks_and_their_layers_learn_from_training_rows_alone():
    pytest.importorskip("skorch")
    torch = pytest.importorskip("torch")
    from localconformal.torch import TorchEmbedding
    from paper.networks import MeanNetwork

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        layer = TorchEmbedding(torch.nn.Linear(2, 3).double(), "", batch_size=16)
        network = MeanNetwork((8,), max_epochs=5, random_state=0)
        for law in (KernelLaw(embedding=layer), KernelLaw(embedding="hidden", device="cpu")):
            assert_inner_split_is_kept(SLCPRegressor(network, law=law))
            model = SLCPRegressor(network, law=law, calibration_size=None, random_state=0)
            model.fit(*TRAIN)
            before = of_laws(model), model.predict(PROBE).tobytes()
            model.conformalize(*all_others(*HELD)).predict_interval(OTHER[0])
            assert (of_laws(model), model.predict(PROBE).tobytes()) == before
            assert_rows_are_asked_alone(model)
