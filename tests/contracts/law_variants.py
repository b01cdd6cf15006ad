"""The laws that keep the contract, each in one or more settings, and how they are fitted."""

from functools import partial

import numpy as np
from sklearn import ensemble
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from inner import LAWS, told
from registry import optional

KERNELS = ("gaussian", "boxcar", "epanechnikov")
BANDWIDTHS, TARGETS = ("median", "median-log", "cv"), ("scores", "size", "both", "response")
#: Their quantiles are reference scores; those of the others lie on lines between knots.
DISCRETE = (lc.ForestLaw, lc.KernelLaw, lc.NeighborsLaw, lc.UniformLaw)
FOREST = ensemble.RandomForestRegressor(6, min_samples_leaf=4)
BOOSTING = ensemble.HistGradientBoostingRegressor(max_iter=4, random_state=0)
LINE = LinearRegression()
#: Laws of models: the contract is the same with few trees, and quick.
LIGHT = {"forest": lc.ForestLaw(FOREST, n_jobs=1), "learned": lc.LearnedLaw(BOOSTING, n_jobs=1)}


class Fitted:
    """A model that is fitted and knows three quantiles of y."""

    quantiles = (0.1, 0.5, 0.87)

    def __init__(self, unit=1.0):
        self.unit = unit

    def predict(self, X):
        middle = point(X, self.unit)
        return np.column_stack([middle - self.unit, middle, middle + self.unit + np.abs(middle)])


VARIANTS = {
    **{name: LIGHT.get(name, kind()) for name, kind in LAWS.items()},
    **{f"kernel-{name}": lc.KernelLaw(name, bandwidth=0.6) for name in KERNELS},
    **{f"bandwidth-{name}": lc.KernelLaw(bandwidth=name) for name in BANDWIDTHS},
    "bandwidth-quantile": lc.KernelLaw(bandwidth=lc.DistanceQuantile(0.1)),
    "bandwidth-narrow": lc.KernelLaw("boxcar", bandwidth=1e-3, min_effective_samples=1),
    "bandwidth-infinite": lc.KernelLaw(bandwidth=np.inf),
    "cpu-tensors": lc.KernelLaw(bandwidth=0.6, device="cpu"),
    "minibatch": lc.KernelLaw(engine="minibatch", batch_size=0.5),
    "outputs": lc.KernelLaw(embedding="outputs"),
    "metric": lc.KernelLaw(embedding=lc.LearnedMetric(n_iter=5)),
    "outputs-spread": lc.KernelLaw(embedding="outputs-spread"),
    "neighbors-1": lc.NeighborsLaw(n_neighbors=1),
    "neighbors-7": lc.NeighborsLaw(n_neighbors=7),
    **{f"forest-{target}": lc.ForestLaw(FOREST, target, n_jobs=1) for target in TARGETS},
    "forest-extra": lc.ForestLaw(ensemble.ExtraTreesRegressor(6, min_samples_leaf=4), n_jobs=1),
    "learned-lines": lc.LearnedLaw(QuantileRegressor(alpha=0), levels=(0.1, 0.5, 0.87), n_jobs=1),
    "learned-outputs": lc.LearnedLaw(BOOSTING, levels=(0.05, 0.95), n_jobs=1),
    "learned-fitted": lc.LearnedLaw(Fitted(), n_jobs=1),
    "scaled": lc.ScaledLaw(),
    "scaled-kernel": lc.ScaledLaw("kernel"),
    "response": lc.ResponseLaw(lc.NeighborsLaw(n_neighbors=9)),
    "response-alone": lc.ResponseLaw(),
    "auto": lc.AutoLaw(n_jobs=1),
    "auto-outputs": lc.AutoLaw(effort="low", n_jobs=1),
    "stacked": lc.StackedLaw(),
    "stacked-fixed": lc.StackedLaw(["uniform", "neighbors"], weights=[1, 3]),
    "stacked-models": lc.StackedLaw([*LIGHT.values(), lc.ScaledLaw(), lc.ResponseLaw()]),
    "nested": lc.ResponseLaw(lc.StackedLaw([lc.ScaledLaw(), "kernel"]), n_jobs=1),
}
#: Further settings of a law that is there in another one, and laws whose fits take longest.
SLOW = {
    *(f"bandwidth-{name}" for name in BANDWIDTHS),
    *(f"forest-{target}" for target in TARGETS),
    *(
        "bandwidth-quantile",
        "cpu-tensors",
        "forest-extra",
        "kernel-gaussian",
        "learned-outputs",
        "neighbors-7",
    ),
    *("nested", "outputs", "response-alone", "scaled-kernel", "auto-outputs"),
    *("stacked-fixed", "stacked-models", "auto", "outputs-spread"),
}
#: Fitted with what a point model says; the others are told nothing.
WITH_OUTPUTS = {name for name in VARIANTS if "outputs" in name}
WITH_OUTPUTS |= {"response", "nested", "learned-fitted"}
#: Linear algebra inside the models: last bits depend on how many rows are asked together.
LAST_BITS = dict.fromkeys(["learned-lines"], 1e-12)
#: Models with a tolerance of their own, which is in no unit.
WITH_TOLERANCE = {"learned-lines", "stacked-models"}


def point(X, unit=1.0):
    first = X[X.columns[0]] if hasattr(X, "columns") else np.asarray(X)[:, 0]
    return unit * np.nan_to_num(np.asarray(first).astype(np.float64)) / 2.0


def fit(name, X, v, unit=1.0):
    """The law fitted to these rows, with a seed where it takes one; responses in this unit."""
    law = clone(VARIANTS[name])
    if name.startswith("cpu-"):
        optional("torch")
    if "random_state" in law.get_params():
        law.set_params(random_state=0)
    if name == "learned-fitted":
        law.set_params(estimator=Fitted(unit))
    known = partial(point, unit=unit) if name in WITH_OUTPUTS else None
    return law.fit(told(known, X, v), v)
