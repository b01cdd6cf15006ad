"""Coverage over hundreds of simulations, within its Beta-binomial band.

A few training sets, the calibration set redrawn through ``conformalize``. Given the training
set, the coverage of each redraw is Beta(k, n + 1 - k) with k = ceil((n + 1) tau) when scores
are continuous and one quantile is calibrated; so the mean over redraws has a known band. Ties
and the union bound only add coverage: there the lower end alone is asked for. The width of the
band, four standard errors and more, allows for the number of cells tested here.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from simulations import band, is_inside, lower_end, mean_coverage, redraws
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.tree import DecisionTreeRegressor

from localconformal import (
    ForestLaw,
    KernelLaw,
    LearnedLaw,
    LocalizedConformalRegressor,
    MondrianConformalRegressor,
    MonotoneAdjustment,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    SLCPRegressor,
    SplitConformalRegressor,
    StackedLaw,
)
from localconformal.adjustments import ADJUSTMENTS
from localconformal.scores import SCORES
from registry import ESTIMATORS, awkward_data, light, smooth_data

CELLS = 185
Z = norm.isf(0.001 / CELLS)
# Rounded data repeat rows by chance; Mondrian cells may be too small.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
LAW = KernelLaw(bandwidth=0.4)
SIDES = ["joint", "union", "absolute"]


def slcp_by_hand(v, F, theta):
    return F.quantile(F.level) + theta - v


def name_of(part):
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)


def local(estimator=None, **params):
    estimator = LinearRegression() if estimator is None else estimator
    return LocalizedConformalRegressor(
        estimator, **{"calibration_size": None, "random_state": 0, "n_jobs": 1, **params}
    )


def check(model, data, two_sided):
    low, high = band(Z)
    share = mean_coverage(model, data)
    assert share >= low
    if two_sided:
        assert share <= high


def with_and_without_ties(quick, values):
    """(value, data): ties by default for those that are quick and else nightly; no ties in CI."""
    return [
        pytest.param(value, data, marks=marks, id=f"{name_of(value)}-{data.__name__}")
        for value in values
        for data, marks in (
            (smooth_data, pytest.mark.ci),
            (awkward_data, () if value in quick else pytest.mark.nightly),
        )
    ]


#: Whose coverage is looked at whenever tests are run; the others have shorter tests of their own.
ALWAYS = [LocalizedConformalRegressor, SLCPRegressor, SplitConformalRegressor]


#: Two corrections, several cells or a mass at infinity for each row round up more than once; the
#: hull of a region is larger than it.
CONSERVATIVE = {
    "CDSplitRegressor",
    "DistSplitRegressor",
    "HPDSplitRegressor",
    "LVDRegressor",
    "LocartRegressor",
    "MondrianConformalRegressor",
    "RLCPRegressor",
}


@pytest.mark.parametrize(("cls", "data"), with_and_without_ties(ALWAYS, ESTIMATORS))
def test_every_estimator(cls, data):
    model = light(cls, calibration_size=None)
    check(model, data, data is smooth_data and cls.__name__ not in CONSERVATIVE)


#: The last one is inverted numerically.
EVERY = [*ADJUSTMENTS, MonotoneAdjustment(slcp_by_hand)]


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize(("adjustment", "data"), with_and_without_ties(["additive"], EVERY))
def test_every_adjustment_and_side(adjustment, sides, data):
    model = local(law=LAW, adjustment=adjustment, sides=sides)
    # F(v-) has atoms, so that the theta-quantile covers more than asked.
    check(model, data, data is smooth_data and sides != "union" and adjustment != "theta")


FOREST = ForestLaw(RandomForestRegressor(10, min_samples_leaf=5), n_jobs=1)
LINES = LearnedLaw(QuantileRegressor(alpha=0), n_jobs=1)
TREE = {"tree": DecisionTreeRegressor(min_samples_leaf=5)}
LEARNING = {
    "forest": FOREST,
    "forest-response": ForestLaw(RandomForestRegressor(10), "response", n_jobs=1),
    "learned": LearnedLaw(HistGradientBoostingRegressor(max_iter=5), n_jobs=1),
    "learned-lines": LINES,
    "scaled": ScaledLaw(),
    "response": ResponseLaw(FOREST),
    "shifted": ShiftedLaw(FOREST, models=TREE, n_jobs=1),
    "stacked": StackedLaw([FOREST, LINES, ScaledLaw(), "uniform"]),
    "outputs-spread": KernelLaw(bandwidth=0.4, embedding="outputs-spread"),
}


@pytest.mark.parametrize(("law", "data"), with_and_without_ties([], LEARNING))
def test_laws_that_learn(law, data):
    check(local(law=LEARNING[law]), data, data is smooth_data)


class Terrible:
    """Predicts with great confidence and no sense."""

    def predict(self, X):
        return 50.0 * np.sin(1e4 * np.asarray(X)[:, 0])


def noise_features(n, seed):
    return smooth_data(n, seed, d=20)


def table_data(n, seed):
    """Frames with labels, numbers in objects, days and gaps; the types differ from draw to draw."""
    rng = np.random.default_rng(seed)
    kind, size = rng.integers(0, 3, n), rng.normal(size=n)
    X = pd.DataFrame(
        {
            "kind": np.array(["a", "b", None], dtype=object)[kind],
            "code": np.array([1, 2.0, None], dtype=object)[rng.integers(0, 3, n)],
            "size": size.astype(object),
            "day": np.datetime64("2024-01-01") + rng.integers(0, 99, n).astype("m8[D]"),
        }
    )
    X.loc[rng.uniform(size=n) < 0.2, ["size", "day"]] = None
    return X if seed % 2 else X.convert_dtypes(), size + (1 + 2 * kind) * rng.normal(size=n)


EMPTY = KernelLaw("boxcar", bandwidth=1e-3)
#: In-sample scores are too small, and laws that learn reach beyond the largest of them.
BEYOND = {"adjustment": "theta", "sides": "union", "reference": "train"}
FURTHER = [
    *(
        (
            local(
                QuantileRegressor(alpha=0) if score == "quantile" else None,
                conformity_score=score,
                law=LAW,
            ).set_params(sides=sides),
            smooth_data,
            sides != "union" or score == "absolute",
        )
        for score in SCORES
        for sides in SIDES
    ),
    *(
        (local(Terrible(), law=law, sides=sides), smooth_data, sides != "union")
        for law in (KernelLaw(bandwidth=1e-6), KernelLaw(bandwidth=1e6), EMPTY)
        for sides in SIDES
    ),
    *((local(law=law), noise_features, True) for law in (LAW, NeighborsLaw(30))),
    *(
        (local(law=LEARNING[law], adjustment="scaled"), smooth_data, True)
        for law in ("forest", "learned-lines", "stacked")
    ),
    *(
        (local(law=LEARNING[law], **BEYOND), smooth_data, False)
        for law in ("learned-lines", "response", "scaled", "shifted", "stacked")
    ),
    *((local(law=LAW, reference=name), smooth_data, True) for name in ("holdout", "train")),
    *(
        (local(law=law).set_params(estimator=None), table_data, True)
        for law in ("forest", "kernel")
    ),
]


@pytest.mark.parametrize(("model", "data", "two_sided"), FURTHER)
@pytest.mark.ci
def test_further_settings(model, data, two_sided):
    check(model, data, two_sided)


def test_mondrian_covers_within_each_cell():
    """Coverage given the cell, with cells of very different noise."""
    model = light(MondrianConformalRegressor, groups=lambda X: X[:, 0] > 0.0, calibration_size=None)
    inside = {False: [], True: []}
    for X, y in redraws(model, smooth_data, training_sets=1, redraws=150):
        covered = is_inside(y, model.predict_interval(X))
        for cell in (False, True):
            inside[cell].append(covered[(X[:, 0] > 0.0) == cell].mean())
    for shares in inside.values():
        assert np.mean(shares) >= lower_end(shares)
