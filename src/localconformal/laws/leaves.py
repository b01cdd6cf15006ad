"""Leaves of fitted models: which leaf of each tree a row falls in.

A finder turns rows into leaf numbers (n, T), whatever numbers the model gives its leaves. What
each kind of model exposes is in one table, `FINDERS`; a model that wraps another is unwrapped
first. `NumberedLeaves` numbers the leaves of all trees through, and knows those without
references; `ForestTrees` does the same for scikit-learn's forests, whose trees can be walked in
compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine.leaves import Codes, TreeWalk
from localconformal.models import unwrap

Numbers = NDArray[np.int64]
Finder = Callable[[Any], Numbers]


def apply_leaves(model: Any, X: Any) -> Any:
    """Forests, extra trees, single trees, gradient boosting, XGBoost."""
    return model.apply(X)


def lightgbm_leaves(model: Any, X: Any) -> Any:
    """LightGBM: its estimators, or a booster itself."""
    return model.predict(X, pred_leaf=True)


def histogram_leaves(model: Any, X: Any) -> Any:
    """HistGradientBoosting: its own prediction, from copies of its trees that predict leaves.

    So missing values and categories go where the model itself would send them.
    """
    try:
        table = model._preprocess_X(X, reset=False)
        bitsets, columns = model._bin_mapper.make_known_categories_bitsets()
        trees = [leaf_predictor(tree) for stage in model._predictors for tree in stage]
        found = [tree.predict(table, bitsets, columns, 1) for tree in trees]
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"the trees of {type(model).__name__} could not be read in this version of "
            f"scikit-learn ({error}); pass a forest, or another version's model."
        ) from error
    return np.column_stack(found)


def leaf_predictor(tree: Any) -> Any:
    """A histogram tree whose predictions are the numbers of its nodes."""
    nodes = tree.nodes.copy()
    nodes["value"] = np.arange(len(nodes))
    return type(tree)(nodes, tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets)


def is_lightgbm(model: Any) -> bool:
    """By its module: LightGBM need not be installed to be recognised."""
    return type(model).__module__.split(".")[0] == "lightgbm"


#: (what a model must be like, rows -> leaf numbers): the first that fits is used.
FINDERS: list[tuple[Callable[[Any], bool], Callable[[Any, Any], Any]]] = [
    (is_lightgbm, lightgbm_leaves),
    (lambda model: hasattr(model, "_predictors"), histogram_leaves),
    (lambda model: hasattr(model, "apply"), apply_leaves),
]


class LeafFinder:
    """Rows -> leaf numbers (n, T) of a fitted model; a class, so that model files can hold it.

    Parameters
    ----------
    model : object
        A fitted model of trees, or one that wraps it.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        _find_in(unwrap(model)[1])

    def __call__(self, X: Any) -> Numbers:
        """Leaf numbers, one column per tree."""
        before, last = unwrap(self.model)
        for step in before:
            X = step.transform(X)
        numbers = np.asarray(_find_in(last)(last, X))
        return numbers.reshape(len(numbers), int(np.prod(numbers.shape[1:]))).astype(np.int64)


def _find_in(model: Any) -> Callable[[Any, Any], Any]:
    """The function of the table for a model; an error where there is none."""
    for fits, find in FINDERS:
        if fits(model):
            return find
    raise ValueError(
        f"{type(model).__name__} shows no leaves; a model of trees with `apply` was expected, such "
        "as a random forest, gradient boosting, LightGBM or XGBoost."
    )


class NumberedLeaves:
    """Codes of a finder's leaves: those that references are in, numbered through all trees.

    Parameters
    ----------
    find : callable
        Rows -> leaf numbers (n, T).
    numbers : array of shape (n, T)
        Those of the references.
    """

    def __init__(self, find: Finder, numbers: Numbers) -> None:
        self.find = find
        self.lowest = numbers.min(axis=0)
        # Each tree has a stretch of the table, with one entry more for what is beyond.
        spans = numbers.max(axis=0) - self.lowest + 2
        self.ends = np.cumsum(spans)
        self.offsets = self.ends - spans
        self.table = np.full(self.ends[-1], -1, dtype=np.int32)
        known = np.unique(numbers - self.lowest + self.offsets)
        self.table[known] = np.arange(len(known), dtype=np.int32)
        self.n_leaves = len(known)

    def __call__(self, X: Any) -> Codes:
        """Codes (m, T); -1 where no reference is."""
        return self.look_up(self.find(X))

    def look_up(self, numbers: Numbers) -> Codes:
        """Codes of leaf numbers (m, T)."""
        places = numbers - self.lowest
        beyond = self.ends - self.offsets - 1
        places = np.where((places < 0) | (places > beyond), beyond, places)
        return self.table[places + self.offsets]


class ForestTrees:
    """The trees of a fitted forest of scikit-learn, their leaves numbered through."""

    def __init__(self, forest: Any) -> None:
        self.trees = [tree.tree_ for tree in forest.estimators_]
        self.codes, self.n_leaves = [], 0
        for tree in self.trees:
            leaf = tree.children_left < 0
            self.codes.append((np.cumsum(leaf) - 1 + self.n_leaves).astype(np.int32))
            self.n_leaves += int(leaf.sum())

    def __call__(self, points: NDArray[np.float32]) -> Codes:
        """Codes (m, T) of float32 points without missing values."""
        some = np.ascontiguousarray(points)
        pairs = zip(self.codes, self.trees, strict=True)
        return np.stack([codes[tree.apply(some)] for codes, tree in pairs], axis=1)

    def packed(self) -> TreeWalk:
        """The same for compiled loops."""
        ends = np.cumsum([0, *(tree.node_count for tree in self.trees)])
        trees = zip(self.trees, self.codes, ends[:-1], strict=True)
        return TreeWalk(np.concatenate([pack_tree(*one) for one in trees]), ends[:-1])


def pack_tree(tree: Any, codes: Codes, first: int) -> NDArray[np.int32]:
    """Nodes as `walk_trees` wants them, (nodes, 4), level by level: siblings side by side."""
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
    words.view(np.float32)[:, 3] = np.where(leaf, np.inf, round_down(tree.threshold[order]))
    return words


def round_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 up to each threshold: float32 numbers compare with it as with that."""
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)
