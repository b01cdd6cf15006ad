"""Weights on the reference rows that share leaves with x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from localconformal.engine.choose import FEW
from localconformal.engine.leaves import (
    Codes,
    LeafEngine,
    LeafWeights,
    Leaves,
    collect_leaves,
    load_loops,
)
from localconformal.engine.reference import ReferenceEngine
from localconformal.laws.base import BaseLaw, check_reference_scores
from localconformal.laws.leaves import (
    Finder,
    ForestTrees,
    LeafFinder,
    NumberedLeaves,
    Numbers,
)
from localconformal.laws.localizer import LeafLocalizer
from localconformal.laws.order import CANONICAL_UP_TO, canonical_order, check_lengths
from localconformal.laws.outputs import GROWN_ON, Outputs, blank_outputs
from localconformal.laws.view import View, fit_view
from localconformal.models import is_frozen, shown
from localconformal.parallel import asked_jobs
from localconformal.quantiles import Array

#: The default forest: its trees, the least rows of a leaf, and the share of columns a split sees.
TREES, LEAF_ROWS, COLUMNS = 100, 5, 1 / 3
LARGEST = float(np.finfo(np.float32).max)

Points = NDArray[np.float32]


def as_points(points: Array) -> Points:
    """Rows rounded as scikit-learn's trees do."""
    return np.clip(points, -LARGEST, LARGEST).astype(np.float32)


#: What trees are grown on: from scores and responses, (n,) or (n, 2).
TARGETS: dict[str, Callable[[Array, Array], Array]] = {
    "scores": lambda v, y: unit(v),
    "size": lambda v, y: unit(np.abs(v)),
    "both": lambda v, y: np.column_stack([unit(v), unit(np.abs(v))]),
    "response": lambda v, y: unit(y),
}


def unit(values: Array) -> Array:
    """Values over their spread: trees care for columns alike, and for responses of any size."""
    spread = values.std()
    return values / spread if spread > 0 else values


class ForestLaw(BaseLaw):
    """F(v | x) = sum_i w_i(x) 1{V_i <= v}, w_i(x) = (1/T) sum_t 1{X_i in leaf_t(x)} / |leaf_t(x)|.

    Reference rows count as near where the trees could not tell them from x. All reference rows
    go down all trees, also those that a tree was not grown on. Trees whose leaf at x has no
    reference row (possible for models that were fitted elsewhere) are left out of the average; an
    x without any other gets the law of all reference rows, and `fallback` flags it.

    Parameters
    ----------
    estimator : default=None
        Whose leaves. None: a random forest of scikit-learn, 100 trees, at least 5 rows a leaf, a
        third of the columns at each split, each tree grown on 20,000 drawn rows at most. Another
        unfitted regressor of trees, which is cloned and fitted to ``target``. A fitted model as
        ``FrozenEstimator(model)``, or "model" for the regressor's own point model: their
        leaves are used as they are, and they get the rows as they came.
    target : {"scores", "size", "both", "response"}, default="both"
        What trees are grown on: v, |v|, both side by side on a common scale, or y (which is v
        where the law is fitted outside a regressor). A fitted model's are grown already.
    embedding : default=None
        The columns that trees are grown on. None: the features as numbers, and what the point
        model says of the row. Others as in `KernelLaw`.
    random_state : int or None, default=None
        Seed of the forest. None draws one at fit.
    n_jobs : int or None, default=None
        Threads that grow the default forest and answer queries; None is one for each core.

    Attributes
    ----------
    model_ : regressor
        The fitted model of trees.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> law = ForestLaw(random_state=0).fit(X, X[:, 0])
    >>> law.quantile([[0.2], [0.8]], [0.5]).round(1)
    array([[0.2],
           [0.8]])
    """

    view_: View | None
    _find_: Callable[[Any], Any]

    def __init__(
        self,
        estimator: Any = None,
        target: str = "both",
        embedding: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.target = target
        self.embedding = embedding
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> ForestLaw:
        """Grow the trees where they are not yet, and sort the reference rows into their leaves."""
        if self.target not in TARGETS:
            raise ValueError(
                f"target is {self.target!r}; one of {', '.join(map(repr, TARGETS))} was expected."
            )
        scores = check_reference_scores(v)
        given = given_model(self.estimator, outputs)
        if given is not None and self.embedding is not None:
            raise ValueError(
                f"embedding is {shown(self.embedding)} and the estimator is fitted; leave the "
                "embedding out: a fitted model gets the rows as they came."
            )
        if given is not None:
            self._use(given, X, scores)
        else:
            self._grow(X, scores, outputs)
        return self

    def _use(self, model: Any, X: Any, scores: Array) -> None:
        """Leaves of a fitted model."""
        find = LeafFinder(model)
        numbers = find(X)
        check_lengths(len(numbers), len(scores))
        self.model_, self.order_ = model, np.argsort(scores, kind="stable")
        self.view_ = None
        self._number(find, numbers[self.order_], scores[self.order_])

    def _grow(self, X: Any, scores: Array, outputs: Outputs | None) -> None:
        """Leaves of trees grown on the reference rows."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.view_, seen = fit_view(self.embedding, X, scores, outputs, seed, self.n_jobs)
        points = as_points(seen)
        response = (blank_outputs(scores) if outputs is None else outputs).response
        order = np.argsort(scores, kind="stable")
        if len(scores) <= CANONICAL_UP_TO:
            order = canonical_order(points.astype(np.float64), scores)
        points, v = points[order], scores[order]
        model = unfitted_model(self.estimator, len(v), seed, self.n_jobs)
        check_target(model, self.target)
        self.model_ = model.fit(points, TARGETS[self.target](v, response[order]))
        self.order_ = order
        if not isinstance(self.model_, BaseForest):
            find = LeafFinder(self.model_)
            self._number(find, find(points), v)
            return
        trees = ForestTrees(self.model_)
        # Compiled trees are walked chunk by chunk by the engine: codes would fill the memory.
        walk = trees.packed() if len(v) > FEW else None
        self._find_ = trees if walk is None else np.asarray
        leaves = collect_leaves((walk or trees)(points), trees.n_leaves)
        self._build(v, leaves, walk or np.asarray)

    def _number(self, find: Finder, numbers: Numbers, v: Array) -> None:
        """Leaves known by the numbers (n, T) that a finder gave them, rows by score."""
        numbered = NumberedLeaves(find, numbers)
        self._find_ = numbered
        leaves = collect_leaves(numbered.look_up(numbers), numbered.n_leaves)
        self._build(v, leaves, np.asarray)

    def _build(self, v: Array, leaves: Leaves, find: Any) -> None:
        if len(v) <= FEW:
            self.engine_ = ReferenceEngine(v, LeafWeights(leaves))
            return
        load_loops()
        self.engine_ = LeafEngine(v, leaves, find, self.n_jobs)

    def rows(self, X: Any) -> Codes | Points:
        """Codes of leaves; for compiled forests, the points from which the engine finds them."""
        return self._find_(X if self.view_ is None else as_points(self.view_(X)))

    def localizer(self) -> LeafLocalizer:
        """Share of the trees in which two rows are in the same leaf."""
        check_is_fitted(self)
        return LeafLocalizer(self._codes)

    def _codes(self, X: Any) -> Codes:
        rows = self.rows(X)
        engine = self.engine_
        return engine.find(rows) if isinstance(engine, LeafEngine) else np.asarray(rows)

    def out_of_bag_quantile(self, levels: ArrayLike) -> Array:
        """Q(t | X_i) at the reference rows themselves, as if each were new: levels (L,) -> (n, L).

        Rows come in the order in which they were given to `fit`. Only trees whose bootstrap left
        a row out answer for it (all trees where none did), and no row counts for itself.
        """
        check_is_fitted(self)
        t = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if t.ndim > 1 or not np.all((t >= 0.0) & (t <= 1.0)):
            raise ValueError(f"levels are {levels!r}; a list of numbers in [0, 1] was expected.")
        grown_here = self.view_ is not None and getattr(self.model_, "bootstrap", False)
        if not grown_here or not hasattr(self.model_, "estimators_samples_"):
            raise ValueError(
                f"the trees of {type(self.model_).__name__} have no out-of-bag rows; a forest with "
                "bootstrap=True that this law grows was expected."
            )
        engine: Any = self.engine_
        v, n = engine.v, len(engine.v)
        if n < 2:
            raise ValueError("1 reference row came; 2 at least were expected for out-of-bag.")
        few = isinstance(engine, ReferenceEngine)
        leaves = engine.weigh.leaves if few else engine.records.leaves(n)
        codes, own = out_of_bag_codes(leaves.codes(), self.model_.estimators_samples_), np.arange(n)
        answer = np.empty((n, len(t)))
        if few:
            plain = ReferenceEngine(v, LeafWeights(leaves, own_last=True))
            rows: Any = np.column_stack([codes, own])
            answer[self.order_] = plain.quantiles(rows, t, np.zeros(len(t), dtype=bool))
        else:
            answer[self.order_] = engine.quantiles_without_own(codes, own, t)
        return answer


def given_model(estimator: Any, outputs: Outputs | None) -> Any:
    """The fitted model whose leaves are used as they are; None where trees are to be grown."""
    if isinstance(estimator, str):
        if estimator != "model" or outputs is None or outputs.model is None:
            raise ValueError(
                f"estimator is {estimator!r}; only 'model' is known by name, inside a regressor of "
                "this library: otherwise pass a forest or a FrozenEstimator."
            )
        return outputs.model
    return estimator if estimator is not None and is_frozen(estimator) else None


def unfitted_model(estimator: Any, n: int, seed: int, n_jobs: int | None) -> Any:
    """The trees to grow, with a seed."""
    if estimator is None:
        return default_forest(n, seed, n_jobs)
    model = clone(estimator)
    if model.get_params().get("random_state", seed) is None:
        model.set_params(random_state=seed)
    return model


def default_forest(
    n: int, seed: int, n_jobs: int | None, trees: int = TREES
) -> RandomForestRegressor:
    """What ``estimator=None`` stands for, for n rows."""
    return RandomForestRegressor(
        trees,
        min_samples_leaf=LEAF_ROWS,
        max_features=COLUMNS,
        max_samples=GROWN_ON if n > GROWN_ON else None,
        random_state=seed,
        n_jobs=asked_jobs(n_jobs),
    )


def check_target(model: Any, target: str) -> None:
    """Two columns go only to models that take them, as far as a model says so."""
    tags = get_tags(model).target_tags if hasattr(model, "__sklearn_tags__") else None
    if target == "both" and tags is not None and tags.single_output and not tags.multi_output:
        raise ValueError(
            f"target is 'both' and {type(model).__name__} takes one column; choose 'size', "
            "'scores' or 'response', or a forest."
        )


def out_of_bag_codes(codes: Codes, samples: list[NDArray[np.intp]]) -> Codes:
    """Codes (n, T) with -1 where the row is in the tree's bag; as they are for rows in all bags."""
    out = codes.copy()
    for t, bag in enumerate(samples):
        out[bag, t] = -1
    always = (out < 0).all(axis=1)
    out[always] = codes[always]
    return out
