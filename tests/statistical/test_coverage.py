"""Coverage over hundreds of simulations, within its Beta-binomial band.

Given the training set, the coverage of each redrawn calibration set is Beta(k, n + 1 - k) with
k = ceil((n + 1) tau) for continuous scores and one quantile. Ties and the union bound only add
coverage: there the lower end alone is asked for. The width allows for the number of cells tested.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from simulations import band, is_inside, lower_end, mean_coverage, redraws
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from inner import ADJUSTMENTS, SCORES
from registry import ESTIMATORS, awkward_data, ci_but, light, smooth_data

CELLS = 187
Z = norm.isf(0.001 / CELLS)
# Rounded data repeat rows by chance; Mondrian cells may be too small.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
LAW, SIDES = lc.KernelLaw(bandwidth=0.4), ["joint", "union", "absolute"]
LINE, LINES = LinearRegression(), QuantileRegressor(alpha=0)


def name_of(part):
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)


def local(estimator=LINE, law=LAW, **params):
    own = {"calibration_size": None, "random_state": 0, "n_jobs": 1, **params}
    return lc.LocalizedConformalRegressor(estimator, law=law, **own)


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
ALWAYS = [lc.LocalizedConformalRegressor, lc.SLCPRegressor, lc.SplitConformalRegressor]
#: Two corrections, several cells or a mass at infinity for each row round up more than once; the
#: hull of a region is larger than it; a class of functions takes a row for each.
CONSERVATIVE = ["CDSplit", "DistSplit", "HPDSplit", "LVD", "Locart", "MondrianConformal", "RLCP"]
CONSERVATIVE += ["ConditionalConformal"]


@pytest.mark.parametrize(("cls", "data"), with_and_without_ties(ALWAYS, ESTIMATORS))
def test_every_estimator(cls, data):
    conservative = cls.__name__.removesuffix("Regressor") in CONSERVATIVE
    check(light(cls, calibration_size=None), data, data is smooth_data and not conservative)


#: The last one is inverted numerically.
EVERY = [*ADJUSTMENTS, lc.MonotoneAdjustment(lambda v, F, theta: F.quantile(F.level) + theta - v)]


@pytest.mark.parametrize("sides", ci_but(["joint"], SIDES))
@pytest.mark.parametrize(("adjustment", "data"), with_and_without_ties(["additive"], EVERY))
def test_every_adjustment_and_side(adjustment, sides, data):
    model = local(adjustment=adjustment, sides=sides)
    # F(v-) has atoms, so that the theta-quantile covers more than asked.
    check(model, data, data is smooth_data and sides != "union" and adjustment != "theta")


FOREST = lc.ForestLaw(RandomForestRegressor(10, min_samples_leaf=5), n_jobs=1)
LEARNING = {
    "forest": FOREST,
    "forest-response": lc.ForestLaw(RandomForestRegressor(10), "response", n_jobs=1),
    "learned": lc.LearnedLaw(HistGradientBoostingRegressor(max_iter=5), n_jobs=1),
    "learned-lines": lc.LearnedLaw(LINES, n_jobs=1),
    "scaled": lc.ScaledLaw(),
    "response": lc.ResponseLaw(FOREST),
    "auto": lc.AutoLaw(effort="low", n_jobs=1),
    "stacked": lc.StackedLaw([FOREST, lc.LearnedLaw(LINES, n_jobs=1), lc.ScaledLaw(), "uniform"]),
    "outputs-spread": lc.KernelLaw(bandwidth=0.4, embedding="outputs-spread"),
}


@pytest.mark.parametrize(("law", "data"), with_and_without_ties([], LEARNING))
def test_laws_that_learn(law, data):
    check(local(law=LEARNING[law]), data, data is smooth_data)


class Terrible:
    def predict(self, X):
        return 50.0 * np.sin(1e4 * np.asarray(X)[:, 0])


def noise_features(n, seed):
    return smooth_data(n, seed, d=20)


def table_data(n, seed):
    """Frames with labels, numbers in objects, days and gaps; the types differ from draw to draw."""
    rng = np.random.default_rng(seed)
    kind, size = rng.integers(0, 3, n), rng.normal(size=n)
    columns = {
        "kind": np.array(["a", "b", None], dtype=object)[kind],
        "code": np.array([1, 2.0, None], dtype=object)[rng.integers(0, 3, n)],
        "size": size.astype(object),
        "day": np.datetime64("2024-01-01") + rng.integers(0, 99, n).astype("m8[D]"),
    }
    X = pd.DataFrame(columns)
    X.loc[rng.uniform(size=n) < 0.2, ["size", "day"]] = None
    return X if seed % 2 else X.convert_dtypes(), size + (1 + 2 * kind) * rng.normal(size=n)


#: Bandwidths next to nothing and next to everything, and neighbourhoods that are empty.
ODD = [*(lc.KernelLaw(bandwidth=h) for h in (1e-6, 1e6)), lc.KernelLaw("boxcar", bandwidth=1e-3)]


def further():
    """(model, data, whether the upper end is asked for)."""
    for sides in SIDES:
        for score in SCORES:
            base = LINES if score == "quantile" else LINE
            model = local(base, conformity_score=score, sides=sides)
            yield model, smooth_data, sides != "union" or score == "absolute"
        for law in ODD:
            yield local(Terrible(), law, sides=sides), smooth_data, sides != "union"
    for law in (LAW, lc.NeighborsLaw(30)):
        yield local(law=law), noise_features, True
    for name in ("forest", "learned-lines", "stacked"):
        yield local(law=LEARNING[name], adjustment="scaled"), smooth_data, True
    # In-sample scores are too small, and laws that learn reach beyond the largest of them.
    beyond = {"adjustment": "theta", "sides": "union", "reference": "train"}
    for name in ("learned-lines", "response", "scaled", "auto", "stacked"):
        yield local(law=LEARNING[name], **beyond), smooth_data, False
    for reference in ("holdout", "train"):
        yield local(reference=reference), smooth_data, True
    for law in ("forest", "kernel"):
        yield local(None, law), table_data, True


@pytest.mark.parametrize(("model", "data", "two_sided"), list(further()))
@pytest.mark.ci
def test_further_settings(model, data, two_sided):
    check(model, data, two_sided)


def test_mondrian_covers_within_each_cell():
    """Coverage given the cell, with cells of very different noise."""
    model = light(
        lc.MondrianConformalRegressor, groups=lambda X: X[:, 0] > 0.0, calibration_size=None
    )
    inside = {False: [], True: []}
    for X, y in redraws(model, smooth_data, training_sets=1, redraws=150):
        covered = is_inside(y, model.predict_interval(X))
        for cell in (False, True):
            inside[cell].append(covered[(X[:, 0] > 0.0) == cell].mean())
    for shares in inside.values():
        assert np.mean(shares) >= lower_end(shares)


@pytest.mark.ci
@pytest.mark.parametrize("randomised", [False, True])
def test_each_of_many_overlapping_groups_is_covered_where_split_is_not(randomised):
    """Groups by both columns, whose noise differs; exact where intervals are randomised."""
    cuts = [-1.0, 0.0, 0.5, 1.0]
    groups = [lambda X, c=c, j=j: X[:, j] > c for c in cuts for j in (0, 1)]
    params = {"calibration_size": None, "law": None} | {"groups": groups, "randomised": randomised}
    model = light(lc.ConditionalConformalRegressor, **params)
    split = light(lc.SplitConformalRegressor, calibration_size=None)
    split.fit(*smooth_data(200, seed=0))
    inside, missed = [[] for _ in groups], []
    for X, y in redraws(model, smooth_data, training_sets=1, redraws=200):
        covered = is_inside(y, model.predict_interval(X))
        split.conformalize(*smooth_data(100, seed=len(missed)))
        missed.append(is_inside(y, split.predict_interval(X))[X[:, 0] > 1.0].mean())
        for shares, group in zip(inside, groups, strict=True):
            shares.append(covered[group(X)].mean())
    assert all(np.mean(shares) >= lower_end(shares) for shares in inside)
    assert np.mean(missed) < 0.8
    if randomised:
        assert all(abs(np.mean(shares) - 0.9) < 0.03 for shares in inside)
