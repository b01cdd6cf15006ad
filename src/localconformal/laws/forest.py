"""Weights on the reference rows that share leaves with x, in the trees of a forest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from localconformal.columns import View, check_width
from localconformal.engine import FEW
from localconformal.engine.leaves import Codes, LeafEngine, TreeWalk
from localconformal.laws.base import Law, ReferenceEngine, WeightedLaw, reference_rows
from localconformal.laws.kernel import fit_points
from localconformal.parallel import asked_jobs, kept_filters
from localconformal.quantiles import Array
from localconformal.rows import Curve, Rows, shown

#: Most rows that a tree is grown on: more would cost more than they gain.
_GROWN_ON = 20_000
#: The default forest: trees, minimum rows per leaf, and share of the columns a split sees.
TREES, _LEAF_ROWS, _COLUMNS = 100, 5, 1 / 3
_LARGEST = float(np.finfo(np.float32).max)


def as_points(points: Array) -> NDArray[np.float32]:
    """Rows rounded as scikit-learn's trees do."""
    return np.clip(points, -_LARGEST, _LARGEST).astype(np.float32)


#: What trees are grown on: from scores and responses, (n,) or (n, 2).
_TARGETS: dict[str, Callable[[Array, Array], Array]] = {
    "scores": lambda v, y: _unit(v),
    "size": lambda v, y: _unit(np.abs(v)),
    "both": lambda v, y: np.column_stack([_unit(v), _unit(np.abs(v))]),
    "response": lambda v, y: _unit(y),
}


def _unit(values: Array) -> Array:
    """Values divided by their spread: columns count equally, and the unit of y does not matter."""
    spread = values.std()
    return values / spread if spread > 0 else values


@dataclass(eq=False, repr=False)
class ForestLaw(Law):
    """F(v | x) = sum_i w_i(x) 1{V_i <= v}, w_i(x) = (1/T) sum_t 1{X_i in leaf_t(x)} / |leaf_t(x)|.

    All reference rows go down all trees, also those that a tree was not grown on. Trees whose leaf
    at x has no reference row (possible for forests fitted elsewhere) are left out of the average;
    if no tree is left, x gets the law of all reference rows, and `fallback` flags it.

    Parameters
    ----------
    estimator : default=None
        The forest. None: a random forest of scikit-learn with 100 trees, at least 5 rows per leaf,
        a third of the columns at each split, and each tree grown on at most 20,000 sampled rows.
        Another, unfitted forest of scikit-learn is cloned and fitted to ``target``; a fitted one,
        passed as ``FrozenEstimator(forest)``, is not refitted and gets the rows unchanged.
    target : {"scores", "size", "both", "response"}, default="both"
        The target of the trees: v, |v|, both on a common scale, or y (which is v if the law is
        fitted outside a regressor). Not used for a fitted forest.
    embedding : default=None
        The inputs of the trees. None: the features as numbers, and the point prediction. Others
        as in `KernelLaw`.
    random_state : int or None, default=None
        Seed of the forest. None draws one at fit.
    n_jobs : int or None, default=None
        Threads that grow the default forest and answer queries; None is one per core.

    Examples
    --------
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> law = ForestLaw(random_state=0).fit(X, X[:, 0])
    >>> law.quantile([[0.2], [0.8]], [0.5]).round(1)
    array([[0.2],
           [0.8]])
    """

    estimator: Any = None
    target: str = "both"
    embedding: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, v: ArrayLike) -> ForestLaw:
        """Grow the trees unless they are fitted, and sort the reference rows into their leaves."""
        if self.target not in _TARGETS:
            raise ValueError(
                f"got target={self.target!r}; expected one of {', '.join(map(repr, _TARGETS))}."
            )
        rows, scores = reference_rows(X, v)
        frozen = isinstance(self.estimator, FrozenEstimator)
        forest = self.estimator.estimator if frozen else self.estimator
        if forest is not None and not isinstance(forest, BaseForest):
            raise ValueError(
                f"got estimator={shown(self.estimator)}; expected a forest of scikit-learn, or a "
                "fitted one as FrozenEstimator(forest)."
            )
        if frozen and self.embedding is not None:
            raise ValueError(
                f"got embedding={shown(self.embedding)} with a fitted forest, which gets the rows "
                "unchanged; leave the embedding out."
            )
        self.view_, self.model_ = None, cast("Any", forest)
        if frozen:
            check_is_fitted(forest)
        elif forest is None and self.n_jobs == 1:
            self._grow(rows, scores)
        else:
            # Trees may be grown in threads.
            kept_filters(self._grow)(rows, scores)
        trees, seen = _ForestTrees(self.model_), self._points(rows)
        # The engine walks compiled trees chunk by chunk: all codes at once would fill the memory.
        # They do not handle missing values, which a fitted forest may.
        walk = trees.packed() if len(scores) > FEW and not frozen else None
        self._find_: Callable[[Any], Any] = trees if walk is None else np.asarray
        leaves = _LeafWeights.of((walk or trees)(seen), trees.n_leaves)
        if len(scores) > FEW:
            find = walk or np.asarray
            self.engine_ = LeafEngine(scores, leaves.starts, leaves.members, find, self.n_jobs)
        else:
            self.engine_ = ReferenceEngine(scores, leaves)
        return self

    def _grow(self, rows: Rows, v: Array) -> None:
        """Fit the view of a row, and trees to the reference rows."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.view_ = fit_view(self.embedding, rows, v, seed, self.n_jobs)
        given = self.estimator
        model = default_forest(len(v), seed, self.n_jobs) if given is None else clone(given)
        if model.random_state is None:
            model.set_params(random_state=seed)
        self.model_ = model.fit(self._points(rows), _TARGETS[self.target](v, rows.response(v)))

    def _points(self, rows: Rows) -> NDArray[np.float32]:
        """The inputs of the trees for each row."""
        if self.view_ is not None:
            return as_points(np.asarray(self.view_(rows), dtype=np.float64))
        # scikit-learn's own check of names, number and dtype of the columns.
        return np.asarray(self.model_._validate_X_predict(rows.X))

    def at(self, rows: Rows) -> WeightedLaw:
        """The engine, with codes of leaves, or with points from which compiled code finds them."""
        return WeightedLaw(self.engine_, self._find_(self._points(rows)))

    def localizer(self) -> _LeafLocalizer:
        """Share of the trees in which two rows are in the same leaf."""
        check_is_fitted(self)
        return _LeafLocalizer(self)


def fit_view(embedding: Any, rows: Rows, v: Array, seed: int, n_jobs: int | None) -> Curve:
    """What a supervised law sees of a row; the user's embedding replaces everything else."""
    return View().fit(rows) if embedding is None else fit_points(embedding, rows, v, seed, n_jobs)


def default_forest(
    n: int,
    seed: int | None,
    n_jobs: int | None,
    trees: int = TREES,
    leaf_rows: int = _LEAF_ROWS,
    columns: float = _COLUMNS,
) -> RandomForestRegressor:
    """The forest of ``estimator=None``, for n rows."""
    return RandomForestRegressor(
        trees,
        min_samples_leaf=leaf_rows,
        max_features=columns,
        max_samples=_GROWN_ON if n > _GROWN_ON else None,
        random_state=seed,
        n_jobs=1 if n_jobs == 1 else asked_jobs(n_jobs),
    )


@dataclass(frozen=True)
class _LeafWeights:
    """Weights w_i(x) of n references, identified by their ranks.

    Those in leaf k are members[starts[k]:starts[k + 1]]; leaves are numbered across all trees.
    """

    starts: NDArray[np.int64]
    members: NDArray[np.int32]
    n: int

    @classmethod
    def of(cls, codes: Codes, n_leaves: int) -> _LeafWeights:
        """From the codes (n, T) of the references; the leaves of a tree are consecutive."""
        n, trees = codes.shape
        sizes = np.zeros(n_leaves, dtype=np.int64)
        members = np.empty(n * trees, dtype=np.int32)
        for t in range(trees):
            column = np.ascontiguousarray(codes[:, t])
            sizes += np.bincount(column, minlength=n_leaves)
            # Stable: members of a leaf stay in the order of ranks.
            members[t * n : (t + 1) * n] = np.argsort(column, kind="stable")
        return cls(np.concatenate([[0], np.cumsum(sizes)]), members, n)

    def __call__(self, codes: Codes) -> tuple[Array, NDArray[np.bool_]]:
        """Codes (m, T), -1 if unknown -> weights (m, n), and where no leaf had members.

        A product of sparse matrices: rows x leaves times leaves x references.
        """
        sizes = np.diff(self.starts)
        known = (codes >= 0) & (sizes[codes] > 0)
        columns, ends = codes[known], np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        query = sparse.csr_matrix((1.0 / sizes[columns], columns, ends), (len(codes), len(sizes)))
        ones = np.ones(len(self.members))
        inside = sparse.csr_matrix((ones, self.members, self.starts), (len(sizes), self.n))
        weights: Array = (query @ inside).toarray()
        alike = ~np.any(known, axis=1)
        weights[alike] = 1.0
        return weights, alike


@dataclass(frozen=True, eq=False)
class _LeafLocalizer(Curve):
    """Share of the trees in which x and x' are in the same leaf."""

    symmetric: ClassVar[bool] = True
    law: ForestLaw

    @property
    def view(self) -> Curve:
        return self

    def compute(self, rows: Rows) -> Codes:
        seen, engine = self.law.at(rows).view, self.law.engine_
        return np.asarray(engine.find(seen) if isinstance(engine, LeafEngine) else seen)

    def weigh(self, rows: Any, others: Any) -> Array:
        # Tree by tree: all pairs and trees at once would fill the memory.
        shared = np.zeros((len(rows), len(others)), dtype=np.int32)
        for mine, theirs in zip(rows.T, others.T, strict=True):
            shared += mine[:, None] == theirs[None, :]
        return shared / max(1, rows.shape[1])


# ---- the leaves of a forest ----------------------------------------------------------------------


class _ForestTrees:
    """The trees of a fitted forest of scikit-learn, with leaves numbered across trees."""

    def __init__(self, forest: Any) -> None:
        self.trees = [tree.tree_ for tree in forest.estimators_]
        self.codes, self.n_leaves = [], 0
        for tree in self.trees:
            leaf = tree.children_left < 0
            self.codes.append((np.cumsum(leaf) - 1 + self.n_leaves).astype(np.int32))
            self.n_leaves += int(leaf.sum())

    def __call__(self, points: NDArray[np.float32]) -> Codes:
        """Codes (m, T) of float32 points."""
        check_width(points, self.trees[0].n_features)
        some = np.ascontiguousarray(points)
        pairs = zip(self.codes, self.trees, strict=True)
        return np.stack([codes[tree.apply(some)] for codes, tree in pairs], axis=1)

    def packed(self) -> TreeWalk:
        """The same for compiled loops."""
        ends = np.cumsum([0, *(tree.node_count for tree in self.trees)])
        trees = zip(self.trees, self.codes, ends[:-1], strict=True)
        words = np.concatenate([_pack_tree(*one) for one in trees])
        return TreeWalk(words, ends[:-1], int(self.trees[0].n_features))


def _pack_tree(tree: Any, codes: Codes, first: int) -> NDArray[np.int32]:
    """Nodes in the format of `walk_trees`, (nodes, 4), level by level: siblings side by side."""
    left, right = tree.children_left, tree.children_right
    level, levels = np.zeros(1, dtype=np.int64), []
    while len(level):
        levels.append(level)
        inner = level[left[level] >= 0]
        level = np.column_stack([left[inner], right[inner]]).ravel()
    order = np.concatenate(levels)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    leaf = left[order] < 0
    words = np.empty((len(order), 4), dtype=np.int32)
    words[:, 0] = np.where(leaf, 0, tree.feature[order])
    words[:, 1] = first + np.where(leaf, np.arange(len(order)), place[left[order]])
    words[:, 2] = np.where(leaf, codes[order], -1)
    words.view(np.float32)[:, 3] = np.where(leaf, np.inf, _round_down(tree.threshold[order]))
    return words


def _round_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 up to each threshold: float32 numbers compare the same with both."""
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)
