"""Families of base models, fitted once for all methods of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import joblib
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

from benchmarks.harness import Case, Preset, cases_of
from localconformal.datasets import Simulation, load_simulation, uniform_features
from localconformal.laws import ForestLaw, KernelLaw, LearnedLaw
from localconformal.quantiles import Array


class Memory:
    """Fitted models by what they are and the rows that they were fitted to.

    With ``answers`` their predictions are kept too: variants of a method ask the same model about
    the same rows, which should cost time once, and none should look slower for having come first.
    """

    def __init__(self, answers: bool = False) -> None:
        self.fitted: dict[tuple[str, str], Any] = {}
        self.answers: dict[tuple[int, str], Any] | None = {} if answers else None

    def fit(self, model: Any, X: Array, y: Array) -> Any:
        """The model fitted to these rows; models of one kind and setting are one."""
        key = (repr(model), joblib.hash((X, y)))
        if key not in self.fitted:
            self.fitted[key] = clone(model).fit(X, y)
        return self.fitted[key]

    def ask(self, model: Any, X: Any, **asked: Any) -> Any:
        """What a model of this memory predicts."""
        if self.answers is None:
            return model.predict(X, **asked)
        # A copy, as the same rows with other strides have another hash.
        key = (id(model), joblib.hash((np.array(X, order="C"), asked)))
        if key not in self.answers:
            self.answers[key] = model.predict(X, **asked)
        return self.answers[key]


class SharedModel(RegressorMixin, BaseEstimator):
    """A model whose clones share their fits.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> memory, X = Memory(), np.arange(6.0)[:, None]
    >>> shared = SharedModel(LinearRegression(), memory)
    >>> for _ in range(3):
    ...     _ = clone(shared).fit(X, X[:, 0])
    >>> len(memory.fitted)
    1
    """

    def __init__(self, model: Any, memory: Memory) -> None:
        self.model = model
        self.memory = memory

    def __sklearn_clone__(self) -> SharedModel:
        """Another one with the same memory; scikit-learn would copy the memory."""
        return type(self)(self.model, self.memory)

    def fit(self, X: Any, y: Any) -> SharedModel:
        """Look the fit up, or make it."""
        self.regressor_ = self.memory.fit(self.model, X, y)
        return self

    def predict(self, X: Any) -> Any:
        """As the model does."""
        return self.memory.ask(self.regressor_, X)


class SharedQuantiles(SharedModel):
    """The same for a model that answers ``predict(X, quantiles=[...])``."""

    def predict(self, X: Any, quantiles: Any = None) -> Any:
        """(n, L) for L levels."""
        return self.memory.ask(self.regressor_, X, quantiles=quantiles)


@dataclass(frozen=True)
class Models:
    """A mean model, a quantile model (``predict(X, quantiles=)``) and a model of the spread.

    ``law`` is a conditional law of the family's kind, for methods that need a whole one; None is
    a forest. Those of a task have a memory, so that all methods share the fits.
    """

    mean: Any
    quantile: Any
    spread: Any
    law: Any = None
    memory: Any = None


@dataclass(frozen=True)
class Family:
    """A kind of base model, named as in the paper's table."""

    name: str
    #: From X, y of training rows, with parameters chosen by cross-validation on these rows.
    choose: Callable[[Array, Array, int, Preset], Models]
    #: Why experiments leave the family out, in one sentence; empty for one that runs.
    left_out: str = ""

    def make(self, X: Array, y: Array, seed: int, preset: Preset, answers: bool = False) -> Models:
        """Models for one task, from its training rows."""
        chosen, memory = self.choose(X, y, seed, preset), Memory(answers)
        quantile = chosen.quantile
        if isinstance(quantile, QuantileForest):
            # Where both forests have leaves of one size, they are one.
            quantile = QuantileForest(SharedModel(quantile.forest, memory))
        return Models(
            SharedModel(chosen.mean, memory),
            SharedQuantiles(quantile, memory),
            SharedModel(chosen.spread, memory),
            chosen.law,
            memory,
        )


PENALTIES = tuple(np.logspace(-2, 4, 13))
LEVELS, LAW_LEVELS = (0.05, 0.5, 0.95), (0.05, 0.25, 0.5, 0.75, 0.95)


class LinearQuantiles(RegressorMixin, BaseEstimator):
    """q_t(x) = a_t + b_t'x for each level t, by a pinball loss that is rounded at 0.

    With residual r and width h, t r + h log(1 + exp(-r / h)) tends to the pinball loss as h
    falls; it is smooth, so that thousands of rows and a hundred features take a fraction of a
    second, where the linear program takes minutes. Here h is ``width`` standard deviations of y,
    and half of ``penalty`` times the squared norm of b is added to the mean loss.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * (1 + rng.uniform(size=2000))
    >>> LinearQuantiles().fit(X, y).predict([[1.0]], quantiles=[0.5]).round(1)
    array([[1.5]])
    """

    def __init__(
        self, levels: Sequence[float] = LEVELS, width: float = 0.02, penalty: float = 1e-4
    ) -> None:
        self.levels = levels
        self.width = width
        self.penalty = penalty

    def fit(self, X: Any, y: Any) -> LinearQuantiles:
        """A minimisation a level, each from the last one's solution."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.scale_ = float(np.std(y)) or 1.0
        design, target = np.column_stack([np.ones(len(y)), X]), y / self.scale_
        start, found = np.zeros(design.shape[1]), []
        for level in self.levels:
            start = minimize(
                self._loss, start, (design, target, level), jac=True, method="L-BFGS-B"
            ).x
            found.append(start)
        self.coefficients_ = np.column_stack(found)
        return self

    def _loss(self, beta: Array, design: Array, y: Array, level: float) -> tuple[float, Array]:
        """Mean loss and its gradient."""
        residual = y - design @ beta
        rounded = self.width * np.logaddexp(0.0, -residual / self.width)
        slope = level - expit(-residual / self.width)
        weights = np.concatenate([[0.0], beta[1:]])
        value = np.mean(level * residual + rounded) + self.penalty / 2 * weights @ weights
        return float(value), -design.T @ slope / len(y) + self.penalty * weights

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> Array:
        """(n, L); None is all levels."""
        wanted = list(self.levels if quantiles is None else quantiles)
        columns = [nearest(self.levels, level) for level in wanted]
        design = np.column_stack([np.ones(len(X)), np.asarray(X, dtype=np.float64)])
        return np.asarray(self.scale_ * (design @ self.coefficients_[:, columns]))


def nearest(levels: Sequence[float], level: float) -> int:
    """Position of the level; 1 - 0.95 is 0.05 in other last digits."""
    position = int(np.argmin(np.abs(np.asarray(levels) - level)))
    if abs(levels[position] - level) > 1e-9:
        raise ValueError(f"level {level} was not fitted; one of {list(levels)} was expected.")
    return position


def choose_linear(X: Array, y: Array, seed: int, preset: Preset) -> Models:
    """Ridge regression finds its penalty whenever it is fitted, by leave-one-out.

    A forest as the conditional law would be the better model of the two, and its methods not
    those on a linear model: the law is SLCP's kernel.
    """
    ridge = RidgeCV(PENALTIES)
    return Models(ridge, LinearQuantiles(), ridge, KernelLaw(n_jobs=1))


TREES = 100
#: Least rows of a leaf that are compared, on so many training rows at most.
LEAF_SIZES, COMPARED_ON, FOLDS = (2, 5, 20), 1_500, 3


class QuantileForest(RegressorMixin, BaseEstimator):
    """Meinshausen's forest: quantiles of the responses that share leaves with x.

    Examples
    --------
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    >>> QuantileForest(forest).fit(X, X[:, 0]).predict([[0.5]], quantiles=[0.5]).round(1)
    array([[0.5]])
    """

    def __init__(self, forest: Any) -> None:
        self.forest = forest

    def fit(self, X: Any, y: Any) -> QuantileForest:
        """Grow the trees and sort the rows into their leaves."""
        forest = clone(self.forest).fit(X, y)
        self.trees_ = FrozenEstimator(getattr(forest, "regressor_", forest))
        self.law_ = ForestLaw(self.trees_, n_jobs=1).fit(X, y)
        return self

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> Array:
        """(n, L); None is the levels 0.05, 0.5 and 0.95."""
        return self.law_.quantile(X, LEVELS if quantiles is None else quantiles)


def grow(leaf_rows: int, seed: int, trees: int = TREES) -> RandomForestRegressor:
    """A forest on one thread: tasks share the cores."""
    return RandomForestRegressor(
        trees, min_samples_leaf=leaf_rows, max_features=1 / 3, random_state=seed, n_jobs=1
    )


def pinball(y: Array, quantiles: Array) -> float:
    """Mean pinball loss of the outer two of the columns."""
    losses = [
        np.maximum(level * (y - q), (level - 1.0) * (y - q))
        for level, q in zip(LEVELS[::2], quantiles[:, ::2].T, strict=True)
    ]
    return float(np.mean(losses))


def choose_forest(X: Array, y: Array, seed: int, preset: Preset) -> Models:
    """The leaf size with the least squared error for the mean, the least pinball for quantiles."""
    X, y = X[:COMPARED_ON], y[:COMPARED_ON]
    folds = list(KFold(FOLDS, shuffle=True, random_state=seed).split(X))
    squared, rounded = np.zeros(len(LEAF_SIZES)), np.zeros(len(LEAF_SIZES))
    for position, leaf_rows in enumerate(LEAF_SIZES):
        for rest, fold in folds:
            forest = QuantileForest(grow(leaf_rows, seed, TREES // 2)).fit(X[rest], y[rest])
            squared[position] += np.sum((y[fold] - forest.trees_.predict(X[fold])) ** 2)
            rounded[position] += len(fold) * pinball(y[fold], forest.predict(X[fold]))
    best, finest = (LEAF_SIZES[int(np.argmin(loss))] for loss in (rounded, squared))
    mean = grow(finest, seed)
    return Models(mean, QuantileForest(grow(best, seed)), mean)


def why_left_out() -> str:
    """A sentence, where PyTorch is missing; else nothing. It is not loaded."""
    missing = "The neural network is left out: it needs torch; run pip install torch."
    return "" if find_spec("torch") else missing


def choose_network(
    X: Array,
    y: Array,
    seed: int,
    preset: Preset,
    hidden: Sequence[int] = (64, 64),
    batch_size: int = 256,
) -> Models:
    """Nothing to choose but the epoch, which networks do whenever they are fitted.

    The conditional law is learned by a quantile network, so that methods that need one are those
    on a network too.
    """
    # Loads PyTorch: only once the family is used.
    from paper.networks import Network

    shared: dict[str, Any] = {"hidden_layer_sizes": hidden, "batch_size": batch_size}
    shared |= {"max_epochs": preset.epochs, "random_state": seed}
    mean = Network(**shared)
    law = LearnedLaw(Network(LAW_LEVELS, **shared), LAW_LEVELS, n_jobs=1)
    return Models(mean, Network(LEVELS, **shared), mean, law)


NETWORK = "neural_net"
#: In the order of the paper's table.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("ridge", choose_linear),
        Family("random_forest", choose_forest),
        Family(NETWORK, choose_network, why_left_out()),
    )
}
RUNNING = tuple(name for name, family in FAMILIES.items() if not family.left_out)


def model_cases(preset: Preset, **places: Iterable[Any]) -> list[Case]:
    """Every combination of the places, one of which is ``model``; networks in fewer repeats."""
    limits = {NETWORK: preset.network_repeats}
    return [
        case
        for case in cases_of(preset.repeats, **places)
        if case["repeat"] < limits.get(case["model"], preset.repeats)
    ]


def untuned(X: Array, y: Array, seed: int, preset: Preset) -> Models:
    """Forests of the mean and of quantiles, with at least five rows in a leaf."""
    forest = grow(5, seed)
    return Models(forest, QuantileForest(forest), forest)


#: Where only seconds count.
UNTUNED = Family("untuned_forest", untuned)

#: y = x1 + e with e standard normal and independent of x: 20 features, and the first alone.
HOMOSCEDASTIC = "homoscedastic"
HOMOSCEDASTIC_ONE = "homoscedastic, one feature"


def load(name: str) -> Simulation:
    """A simulation of the library, or the homoscedastic one with a single feature."""
    if name != HOMOSCEDASTIC_ONE:
        return load_simulation(name)
    features = uniform_features(-5.0, 5.0, 1)
    return replace(load_simulation(HOMOSCEDASTIC), name=name, draw_features=features)


class TrueModel(RegressorMixin, BaseEstimator):
    """E[y | x] of a simulation, whatever it is fitted to.

    Examples
    --------
    >>> TrueModel("homoscedastic").fit([[2.0]], [0.0]).predict([[2.0]])
    array([2.])
    """

    def __init__(self, simulation: str) -> None:
        self.simulation = simulation

    def fit(self, X: Any, y: Any) -> TrueModel:
        """Look the simulation up."""
        self.known_ = load(self.simulation)
        return self

    def predict(self, X: Any) -> Array:
        """The conditional mean (n,)."""
        return self.known_.mean(X)


class TrueQuantiles(TrueModel):
    """The conditional quantiles of a simulation."""

    def predict(self, X: Any, quantiles: Sequence[float] = LEVELS) -> Array:
        """(n, L) for L levels."""
        return self.known_.quantile(X, quantiles)


def truth(name: str) -> Family:
    """The family of base models that know this simulation."""
    models = Models(TrueModel(name), TrueQuantiles(name), TrueModel(name))
    return Family("truth", lambda X, y, seed, preset: models)
