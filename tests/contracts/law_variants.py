"""The laws that keep the contract, each in one or more settings, and how they are fitted."""

from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.tree import DecisionTreeRegressor

from inner import LAWS, told
from localconformal import (
    DistanceQuantile,
    ForestLaw,
    KernelLaw,
    LearnedLaw,
    LearnedMetric,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    StackedLaw,
    UniformLaw,
)
from registry import optional

KERNELS = ("gaussian", "boxcar", "epanechnikov")
BANDWIDTHS, TARGETS = ("median", "median-log", "rate", "cv"), ("scores", "size", "both", "response")
#: Their quantiles are reference scores; those of the others lie on lines between knots.
DISCRETE = (ForestLaw, KernelLaw, NeighborsLaw, UniformLaw)
FOREST = RandomForestRegressor(6, min_samples_leaf=4)
BOOSTING = HistGradientBoostingRegressor(max_iter=4, random_state=0)
LINE, TREE = LinearRegression(), DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
#: Laws of models: the contract is the same with few trees, and quick.
LIGHT = {"forest": ForestLaw(FOREST, n_jobs=1), "learned": LearnedLaw(BOOSTING, n_jobs=1)}
VARIANTS = {
    **{name: LIGHT.get(name, kind()) for name, kind in LAWS.items()},
    **{f"kernel-{name}": KernelLaw(name, bandwidth=0.6) for name in KERNELS},
    **{f"bandwidth-{name}": KernelLaw(bandwidth=name) for name in BANDWIDTHS},
    "bandwidth-quantile": KernelLaw(bandwidth=DistanceQuantile(0.1)),
    "bandwidth-narrow": KernelLaw("boxcar", bandwidth=1e-3, min_effective_samples=1),
    "bandwidth-infinite": KernelLaw(bandwidth=np.inf),
    "cpu-tensors": KernelLaw(bandwidth=0.6, device="cpu"),
    "minibatch": KernelLaw(engine="minibatch", batch_size=0.5),
    "outputs": KernelLaw(embedding="outputs"),
    "metric": KernelLaw(embedding=LearnedMetric(n_iter=5)),
    "outputs-spread": KernelLaw(embedding="outputs-spread"),
    "neighbors-1": NeighborsLaw(n_neighbors=1),
    "neighbors-7": NeighborsLaw(n_neighbors=7),
    **{f"forest-{target}": ForestLaw(FOREST, target, n_jobs=1) for target in TARGETS},
    "forest-extra": ForestLaw(ExtraTreesRegressor(6, min_samples_leaf=4), n_jobs=1),
    "forest-one-tree": ForestLaw(TREE, target="size"),
    "learned-lines": LearnedLaw(QuantileRegressor(alpha=0), levels=(0.1, 0.5, 0.87), n_jobs=1),
    "learned-outputs": LearnedLaw(BOOSTING, levels=(0.05, 0.95), n_jobs=1),
    "scaled": ScaledLaw(),
    "scaled-kernel": ScaledLaw("kernel"),
    "response": ResponseLaw(NeighborsLaw(n_neighbors=9)),
    "response-alone": ResponseLaw(),
    "shifted": ShiftedLaw("kernel", models={"line": LINE, "tree": TREE}, n_jobs=1),
    "shifted-outputs": ShiftedLaw(models={"tree": TREE}, n_jobs=1),
    "stacked": StackedLaw(),
    "stacked-fixed": StackedLaw(["uniform", "neighbors"], weights=[1, 3]),
    "stacked-models": StackedLaw([*LIGHT.values(), ScaledLaw(), ResponseLaw()]),
    "nested": ShiftedLaw(StackedLaw([ScaledLaw(), "kernel"]), models={"line": LINE}, n_jobs=1),
}
#: Further settings of a law that is there in another one.
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
    *("nested", "outputs", "response-alone", "scaled-kernel", "shifted-outputs"),
    *("stacked-fixed", "stacked-models"),
}
#: Fitted with what a point model says; the others are told nothing.
WITH_OUTPUTS = {name for name in VARIANTS if "outputs" in name} | {"response", "nested"}
#: Linear algebra inside the models: last bits depend on how many rows are asked together.
LAST_BITS = dict.fromkeys(["learned-lines", "shifted", "nested"], 1e-12)
#: Models with a tolerance of their own, which is in no unit.
WITH_TOLERANCE = {"learned-lines", "stacked-models"}


def point(X, unit=1.0):
    """mu(x) of a point model, for rows of any kind."""
    first = X[X.columns[0]] if hasattr(X, "columns") else np.asarray(X)[:, 0]
    return unit * np.nan_to_num(np.asarray(first).astype(np.float64)) / 2.0


def fit(name, X, v, unit=1.0):
    """The law fitted to these rows, with a seed where it takes one; responses in this unit."""
    law = clone(VARIANTS[name])
    if name.startswith("cpu-"):
        optional("torch")
    if "random_state" in law.get_params():
        law.set_params(random_state=0)
    known = partial(point, unit=unit) if name in WITH_OUTPUTS else None
    return law.fit(told(known, X, v), v)
