"""Coverage over hundreds of simulations, within its Beta-binomial band.

A few training sets, the calibration set redrawn through ``conformalize``. Given the training
set, the coverage of each redraw is Beta(k, n + 1 - k) with k = ceil((n + 1) tau) when scores
are continuous and one quantile is calibrated; so the mean over redraws has a known band. Ties
and the union bound only add coverage: there the lower end alone is asked for. The width of the
band, four standard errors and more, allows for the number of cells tested here.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
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
from localconformal.metrics import coverage
from localconformal.quantiles import conformal_rank
from localconformal.scores import SCORES
from registry import ESTIMATORS, awkward_data, ci_but, light, smooth_data

#: Test rows are cheap beside a redraw: as many as leave the band no wider than with 200 redraws of
#: 100 rows.
N_CAL, N_TEST, N_TRAIN, TAU = 100, 400, 150, 0.9
TRAINING_SETS, REDRAWS = 2, 62
CELLS = 185


def slcp_by_hand(v, F, theta):
    return F.quantile(F.level) + theta - v


def name_of(adjustment):
    return adjustment if isinstance(adjustment, str) else type(adjustment).__name__


def mean_coverage(model, data, d=2):
    """Mean coverage over training sets and redraws."""
    shares = []
    for training_set in range(TRAINING_SETS):
        model.fit(*data(N_TRAIN, seed=training_set, d=d))
        for redraw in range(REDRAWS):
            X, y = data(N_CAL + N_TEST, seed=10_000 + 1_000 * training_set + redraw, d=d)
            with warnings.catch_warnings():
                # Rounded data repeat rows by chance; Mondrian cells may be too small.
                warnings.simplefilter("ignore", UserWarning)
                model.conformalize(X[:N_CAL], y[:N_CAL])
                intervals = model.predict_interval(X[N_CAL:])
            shares.append(coverage(y[N_CAL:], intervals))
    return float(np.mean(shares))


def band():
    k = conformal_rank(N_CAL, TAU)
    mean = k / (N_CAL + 1)
    beta = mean * (1 - mean) / (N_CAL + 2)
    spread = np.sqrt((beta + TAU * (1 - TAU) / N_TEST) / (TRAINING_SETS * REDRAWS))
    z = norm.isf(0.001 / CELLS)
    return max(TAU, mean) - z * spread, mean + z * spread


def check(model, data, two_sided, d=2):
    share = mean_coverage(model, data, d)
    low, high = band()
    assert share >= low
    if two_sided:
        assert share <= high


DATA = pytest.mark.parametrize("data", [awkward_data, smooth_data], ids=["ties", "continuous"])
SIDES = pytest.mark.parametrize("sides", ["joint", "union", "absolute"])
LAW = KernelLaw(bandwidth=0.4)


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


@pytest.mark.parametrize(
    "data",
    ci_but([awkward_data], [awkward_data, smooth_data]),
    ids=["ties", "continuous"],
)
@pytest.mark.parametrize("cls", ci_but(ALWAYS, ESTIMATORS), ids=lambda cls: cls.__name__)
def test_every_estimator(cls, data):
    model = light(cls, calibration_size=None)
    check(model, data, data is smooth_data and cls.__name__ not in CONSERVATIVE)


#: The default runs by default; the last one is inverted numerically.
OTHERS = [name for name in ADJUSTMENTS if name != "additive"] + [MonotoneAdjustment(slcp_by_hand)]


@pytest.mark.parametrize(
    "data",
    ci_but([awkward_data], [awkward_data, smooth_data]),
    ids=["ties", "continuous"],
)
@SIDES
@pytest.mark.parametrize(
    "adjustment",
    ["additive", *ci_but([], OTHERS)],
    ids=name_of,
)
def test_every_adjustment_and_side(adjustment, sides, data):
    model = LocalizedConformalRegressor(
        LinearRegression(),
        law=LAW,
        adjustment=adjustment,
        sides=sides,
        calibration_size=None,
        random_state=0,
    )
    # F(v-) has atoms, so that the theta-quantile covers more than asked.
    check(model, data, data is smooth_data and sides != "union" and adjustment != "theta")


@SIDES
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.ci
def test_every_score(score, sides):
    base = QuantileRegressor(alpha=0) if score == "quantile" else LinearRegression()
    model = LocalizedConformalRegressor(
        base, score=score, law=LAW, sides=sides, calibration_size=None, random_state=0
    )
    check(model, smooth_data, sides != "union" or score == "absolute")


class Terrible:
    """Predicts with great confidence and no sense."""

    def predict(self, X):
        return 50.0 * np.sin(1e4 * np.asarray(X)[:, 0])


@SIDES
@pytest.mark.parametrize(
    "law",
    [KernelLaw(bandwidth=1e-6), KernelLaw(bandwidth=1e6), KernelLaw("boxcar", bandwidth=1e-3)],
    ids=["narrow", "wide", "empty"],
)
@pytest.mark.ci
def test_terrible_model_and_bandwidth(law, sides):
    model = LocalizedConformalRegressor(
        Terrible(), law=law, sides=sides, calibration_size=None, random_state=0
    )
    check(model, smooth_data, sides != "union")


@pytest.mark.parametrize("law", [LAW, NeighborsLaw(30)], ids=["kernel", "neighbors"])
@pytest.mark.ci
def test_noise_features(law):
    model = LocalizedConformalRegressor(
        LinearRegression(), law=law, calibration_size=None, random_state=0
    )
    check(model, smooth_data, True, d=20)


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


@DATA
@pytest.mark.parametrize("law", LEARNING)
@pytest.mark.ci
def test_laws_that_learn(law, data):
    model = LocalizedConformalRegressor(
        LinearRegression(), law=LEARNING[law], calibration_size=None, random_state=0, n_jobs=1
    )
    check(model, data, data is smooth_data)


@pytest.mark.parametrize("law", ["forest", "learned-lines", "stacked"])
@pytest.mark.ci
def test_laws_that_learn_with_scaled_corrections(law):
    model = LocalizedConformalRegressor(
        LinearRegression(),
        law=LEARNING[law],
        adjustment="scaled",
        calibration_size=None,
        random_state=0,
        n_jobs=1,
    )
    check(model, smooth_data, True)


@pytest.mark.parametrize("law", ["learned-lines", "response", "scaled", "shifted", "stacked"])
@pytest.mark.ci
def test_ranks_in_laws_that_reach_beyond_the_references(law):
    """In-sample scores are too small, and laws that learn reach beyond the largest of them."""
    model = LocalizedConformalRegressor(
        LinearRegression(),
        law=LEARNING[law],
        adjustment="theta",
        sides="union",
        reference="train",
        calibration_size=None,
        random_state=0,
        n_jobs=1,
    )
    check(model, smooth_data, False)


@pytest.mark.parametrize("reference", ["holdout", "train"])
@pytest.mark.ci
def test_other_references(reference):
    model = LocalizedConformalRegressor(
        LinearRegression(), law=LAW, reference=reference, calibration_size=None, random_state=0
    )
    check(model, smooth_data, True)


def table_data(n, seed, d=2):
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


@pytest.mark.parametrize("law", ["forest", "kernel"])
@pytest.mark.ci
def test_frames_with_labels_and_gaps(law):
    model = LocalizedConformalRegressor(law=law, calibration_size=None, random_state=0, n_jobs=1)
    check(model, table_data, True)


def test_mondrian_covers_within_each_cell():
    """Coverage given the cell, with cells of very different noise."""
    model = light(MondrianConformalRegressor, groups=lambda X: X[:, 0] > 0.0, calibration_size=None)
    model.fit(*smooth_data(N_TRAIN, seed=0))
    inside = {False: [], True: []}
    for redraw in range(150):
        X, y = smooth_data(N_CAL + N_TEST, seed=10_000 + redraw)
        model.conformalize(X[:N_CAL], y[:N_CAL])
        lower, upper = model.predict_interval(X[N_CAL:]).T
        covered = (lower <= y[N_CAL:]) & (y[N_CAL:] <= upper)
        for cell in (False, True):
            inside[cell].append(covered[(X[N_CAL:, 0] > 0.0) == cell].mean())
    for shares in inside.values():
        assert np.mean(shares) >= TAU - 4 * np.std(shares) / np.sqrt(len(shares))
