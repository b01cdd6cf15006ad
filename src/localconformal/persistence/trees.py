"""Trees from a file, checked before anyone walks down them.

scikit-learn follows the indices stored in a tree without looking whether they lie inside it: in a
file that someone altered they could lead anywhere in memory. A sound tree has its children behind
their parent, and features that exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree._tree import Tree

from localconformal.persistence.sharing import PLAIN


def check_trees(model: Any) -> None:
    """Every tree within the model is sound, or a ValueError."""
    for part in parts_of(model):
        if hasattr(part, "_predictors"):
            for predictor in np.ravel(np.array(part._predictors, dtype=object)):
                check_histogram_tree(predictor, int(part._n_features))
        if isinstance(getattr(part, "tree_", None), Tree):
            check_tree(part.tree_, int(part.n_features_in_))
        members = getattr(part, "estimators_", [])
        widths = {int(m.n_features_in_) for m in np.ravel(members) if hasattr(m, "tree_")}
        if widths - {getattr(part, "n_features_in_", None)}:
            raise ValueError("a forest has trees of other features than its own")


def parts_of(model: Any) -> Iterator[Any]:
    """The model and whatever it holds, each once."""
    waiting, seen = [model], set()
    kept = []
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, PLAIN):
            continue
        seen.add(id(part))
        # Kept alive, so that no other object gets its id.
        kept.append(part)
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        else:
            waiting += vars(part).values() if hasattr(part, "__dict__") else []
            yield part


def check_tree(tree: Any, n_features: int) -> None:
    """A tree of scikit-learn's forests and decision trees."""
    nodes = tree.__getstate__()["nodes"]
    inner = nodes["left_child"] != -1
    check_nodes(inner, [nodes["left_child"], nodes["right_child"]], nodes["feature"], n_features)
    if tree.n_features != n_features:
        raise ValueError("a tree has other features than its model")


def check_histogram_tree(predictor: Any, n_features: int) -> None:
    """A tree of histogram gradient boosting."""
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    check_nodes(inner, [nodes["left"], nodes["right"]], nodes["feature_idx"], n_features)
    categorical = inner & (nodes["is_categorical"] != 0)
    sets = min(len(predictor.binned_left_cat_bitsets), len(predictor.raw_left_cat_bitsets))
    if np.any(nodes["bitset_idx"][categorical] >= sets):
        raise ValueError("a tree names categories that it does not have")


def check_nodes(
    inner: NDArray[np.bool_], children: list[NDArray[Any]], feature: NDArray[Any], n_features: int
) -> None:
    """Children lie behind their parent and inside the tree; features exist."""
    n = len(inner)
    if n == 0:
        raise ValueError("a tree has no nodes")
    place = np.arange(n)[inner]
    for child in children:
        behind = child[inner].astype(np.int64)
        if np.any(behind <= place) or np.any(behind >= n):
            raise ValueError("a tree has a child outside itself")
    used = feature[inner].astype(np.int64)
    if np.any(used < 0) or np.any(used >= n_features):
        raise ValueError("a tree asks for a feature that does not exist")
