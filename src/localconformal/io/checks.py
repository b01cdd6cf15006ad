"""Checks of a model file: before skops reads it, and before compiled loops use it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.tree._tree import Tree

from localconformal.composition import Calibration
from localconformal.engine.exact import ExactEngine
from localconformal.engine.leaves import LeafEngine, TreeWalk
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.engine.trees import LEAF, Boosted, Forest, Grids, unpacked
from localconformal.laws.auto import AutoLaw
from localconformal.laws.base import ReferenceEngine, WeightedLaw
from localconformal.laws.kernel import KernelWeights, NeighborWeights

#: Types that must not contain NaN.
_WITHOUT_NAN = (Calibration, Grids, KernelWeights, NeighborWeights, Sketch)
#: Types of values that are written in place.
PLAIN = (str, bytes, int, float, complex, bool, type(None), type, np.dtype, np.generic)


def is_own(value: Any) -> bool:
    """Whether the value is an object of this library, defined by its attributes."""
    home = type(value).__module__.partition(".")[0]
    return home == "localconformal" and hasattr(value, "__dict__")


def parts_of(model: Any) -> Iterator[Any]:
    """The model and everything it holds, each once."""
    waiting = [model]
    # Keeps the objects alive, so that no id is reused.
    seen: dict[int, Any] = {}
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, PLAIN):
            continue
        seen[id(part)] = part
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        else:
            waiting += vars(part).values() if hasattr(part, "__dict__") else []
            yield part


def check_model(model: Any) -> None:
    """Raise a ValueError unless trees, calibrations and engines within the model are sound.

    scikit-learn's trees and our engines follow stored indices without checking that they lie
    inside an array: altered ones could read anywhere in memory, altered arrays give NaN or worse.
    """
    for part in parts_of(model):
        _check_trees(part)
        if isinstance(part, (Forest, Boosted)):
            _check_binned_trees(part)
        elif isinstance(part, AutoLaw) and hasattr(part, "forest_"):
            _check_cells(part.forest_, part.grids_)
        if isinstance(part, LeafEngine):
            _check_records(part.records, len(part.v))
            for walk in parts_of(part.find):
                if isinstance(walk, TreeWalk):
                    _check_walk(walk, len(part.records.starts) - 1)
        is_engine = is_own(part) and hasattr(part, "quantiles") and hasattr(part, "v")
        if is_engine or isinstance(part, _WITHOUT_NAN):
            _refuse_nan(part)
        if isinstance(part, Calibration):
            _check_calibration(part)
        elif is_engine:
            _check_engine(part, part.v)


def _check_trees(part: Any) -> None:
    for predictor in np.ravel(np.array(getattr(part, "_predictors", []), dtype=object)):
        nodes = predictor.nodes
        inner, children = nodes["is_leaf"] == 0, [nodes["left"], nodes["right"]]
        _check_tree_nodes(inner, children, nodes["feature_idx"], int(part._n_features))
        categorical = inner & (nodes["is_categorical"] != 0)
        sets = min(len(predictor.binned_left_cat_bitsets), len(predictor.raw_left_cat_bitsets))
        if np.any(nodes["bitset_idx"][categorical] >= sets):
            raise ValueError("a tree refers to categories that it does not have")
    if isinstance(getattr(part, "tree_", None), Tree):
        nodes, n_features = part.tree_.__getstate__()["nodes"], int(part.n_features_in_)
        inner, children = nodes["left_child"] != -1, [nodes["left_child"], nodes["right_child"]]
        _check_tree_nodes(inner, children, nodes["feature"], n_features)
        if part.tree_.n_features != n_features:
            raise ValueError("a tree has different features from its model")
    members, n_own = getattr(part, "estimators_", []), getattr(part, "n_features_in_", None)
    widths = [int(m.n_features_in_) for m in np.ravel(members) if hasattr(m, "tree_")]
    chosen = getattr(part, "estimators_features_", None)
    if chosen is None:
        expected = [n_own] * len(widths)
    else:
        # A bag of trees may give each of them some of the features.
        expected = [len(columns) for columns in chosen]
        if any(np.min(columns) < 0 or np.max(columns) >= n_own for columns in chosen):
            raise ValueError("a bag uses a feature that does not exist")
    if widths and widths != expected:
        raise ValueError("a forest has trees with different features")


def _check_tree_nodes(
    inner: NDArray[np.bool_], children: list[NDArray[Any]], feature: NDArray[Any], n_features: int
) -> None:
    """Children come after their parent and inside the tree; features exist."""
    if len(inner) == 0:
        raise ValueError("a tree has no nodes")
    place = np.flatnonzero(inner)
    for child in children:
        behind = child[inner].astype(np.int64)
        if np.any(behind <= place) or np.any(behind >= len(inner)):
            raise ValueError("a tree has a child outside itself")
    used = feature[inner].astype(np.int64)
    if np.any(used < 0) or np.any(used >= n_features):
        raise ValueError("a tree uses a feature that does not exist")


def _check_records(records: Any, n: int) -> None:
    """Records fill their array, count their members, and refer to ranks below n."""
    starts, words, bins, width = records.starts, records.words, records.bins, records.width
    sizes = np.diff(starts) - bins
    fills = len(starts) > 1 and starts[0] == 0 and starts[-1] == len(words)
    if min(bins, width) < 1 or not fills or np.any(sizes < 0):
        raise ValueError("the records of a forest's leaves do not fill their array")
    at = starts[:-1, None] + np.arange(bins)
    heads = words[at].astype(np.int64)
    if np.any(np.diff(heads, axis=1) < 0) or np.any(heads[:, -1] != sizes):
        raise ValueError("a leaf of a forest miscounts its members")
    counts: Any = np.diff(heads, axis=1, prepend=0)
    places = np.delete(words, at.ravel()).astype(np.int64)
    ranks = width * np.repeat(np.tile(np.arange(bins), len(heads)), counts.ravel()) + places
    if np.any(places >= width) or np.any(ranks >= n) or bins * width < n:
        raise ValueError("a leaf of a forest has a member that does not exist")


def _check_walk(walk: TreeWalk, n_leaves: int) -> None:
    """Children come after their parent and inside the trees; leaves exist."""
    feature, left, code = walk.words[:, 0], walk.words[:, 1].astype(np.int64), walk.words[:, 2]
    place = np.arange(len(left))
    inner = left != place
    thresholds = walk.words.view(np.float32)[:, 3]
    outside = np.any(left < place) or np.any(left[inner] + 1 >= len(left))
    if outside or np.any(walk.roots < 0) or np.any(walk.roots >= len(left)):
        raise ValueError("a packed tree has a child outside itself")
    known = np.all((feature >= 0) & (feature < walk.n_columns)) and np.all(code < n_leaves)
    if not known or np.any(thresholds[~inner] != np.inf):
        raise ValueError("a packed tree has a leaf or a feature that does not exist")


def _check_binned_trees(trees: Forest | Boosted) -> None:
    """Left children are the next nodes, right ones come later; each node has its number."""
    if isinstance(trees, Boosted):
        nodes, roots, n_columns = trees.nodes, trees.roots, trees.n_columns
        numbers: Any = trees.values
    else:
        nodes, roots, numbers, n_columns = trees.nodes_, trees.roots_, None, trees.n_columns_
    if nodes.ndim != 1 or nodes.dtype != np.uint64 or roots.ndim != 1 or roots.dtype.kind != "i":
        raise ValueError("a tree on bins has nodes that are not numbers")
    if numbers is not None and (numbers.shape != nodes.shape or np.isnan(numbers).any()):
        raise ValueError("a tree on bins has nodes without a number")
    (column, _, right), n = unpacked(nodes), len(nodes)
    if np.any(nodes[column < 0] != LEAF):
        raise ValueError("a tree on bins has a leaf with children")
    _check_tree_nodes(column >= 0, [np.arange(1, n + 1), right], column, n_columns)
    if np.any(roots < 0) or np.any(roots >= n):
        raise ValueError("a tree on bins begins outside itself")


def _check_cells(forest: Forest, grids: Grids) -> None:
    """Nodes hold rows that exist, and these are in cells of the grids: (V, G)."""
    kept, nodes = forest.kept_, forest.nodes_.shape
    rows = [one for one in (forest.low_, forest.high_) if one.dtype.kind in "iu"]
    if any(one.shape != nodes or np.any((one < 0) | (one > len(kept))) for one in rows):
        raise ValueError("a tree on bins holds rows that do not exist")
    (V, n_cells), lengths = grids.high.shape, grids.lengths
    shapes = kept.shape, grids.low.shape, lengths.shape
    fits = shapes == ((len(kept), V), (V, n_cells), (V,)) and kept.dtype == np.uint8
    fits = fits and bool(np.all((lengths >= 1) & (lengths <= n_cells)))
    if len(rows) < 2 or not fits or kept.max(initial=0) >= n_cells:
        raise ValueError("the leaves of a law do not fit its grid")


def _refuse_nan(part: Any) -> None:
    """Refuse an object that holds NaN: its results would be NaN too."""
    for name, value in vars(part).items():
        is_real = isinstance(value, (float, np.floating, np.ndarray))
        if is_real and np.asarray(value).dtype.kind == "f" and np.isnan(value).any():
            raise ValueError(f"{name} of {type(part).__name__} holds NaN")


def _check_calibration(found: Calibration) -> None:
    """V is (n, S), with the rows' positions in the local laws, and what a correction keeps."""
    n, sides = len(found.V), found.parts.sides
    rows = [len(one.view) for one in found.F.sides if isinstance(one, WeightedLaw)]
    kept = [len(found.kept)] if isinstance(found.kept, np.ndarray) else []
    if found.V.shape != (n, sides.n_sides) or {found.F.n, *rows, *kept} != {n}:
        raise ValueError("the calibration scores do not fit their rows")


def _check_engine(engine: Any, v: NDArray[Any]) -> None:
    """Reference scores (n,) ascend, and what the loops read has one row each, in its shape."""
    if v.ndim != 1 or len(v) == 0 or np.any(np.diff(v) < 0):
        raise ValueError("the reference scores of a law are not in order")
    n = len(v)
    if isinstance(engine, ExactEngine):
        # Rows in blocks, the last one padded.
        size = min(ExactEngine.block, n)
        shape = (-(-n // size), len(engine.centre), size)
        fills = all(one is None or one.shape == shape for one in (engine.wide, engine.narrow))
    elif isinstance(engine, SketchEngine):
        # Sums at each of n edges and r landmarks.
        r = engine.sketch.columns.shape[1]
        shapes = engine.A.shape, engine.means.shape, engine.squares.shape
        fills = shapes == ((n, r), (2, r), (r,))
    else:
        # An engine without its own references needs none.
        holder: Any = engine.weigh if isinstance(engine, ReferenceEngine) else engine
        fills = len(getattr(holder, "references", v)) == n
        if hasattr(holder, "members"):
            ends, ranks = holder.starts, holder.members
            whole = (holder.n, ends[0], ends[-1]) == (n, 0, len(ranks))
            inside = (ranks >= 0) & (ranks < n)
            fills = whole and bool(np.all(np.diff(ends) >= 0) and np.all(inside))
    if not fills:
        raise ValueError("a law has different numbers of reference rows and scores")


def check_nodes(data: bytes) -> None:
    """Raise a ValueError if reading the file would call anything.

    skops makes objects of types that are on a list, but some of its nodes also call what they name:
    a method, a constructor with arguments, the type of a dict's key.
    """
    objects: list[dict[str, Any]] = []

    def met(read: dict[str, Any]) -> dict[str, Any]:
        objects.append(read)
        return read

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        json.loads(archive.read("schema.json"), object_hook=met)
    known: dict[Any, Any] = {}
    types = {("TypeNode", "builtins"), ("TypeNode", "numpy")}
    for node in (one for one in objects if "__loader__" in one):
        if node["__loader__"] in ("ConstructorFromReduceNode", "MethodNode", "OperatorFuncNode"):
            raise ValueError(f"it has a {node['__loader__']}, which would call something")
        # skops takes the first node with an id for all later ones, whatever they contain.
        if "__id__" in node and known.setdefault(node["__id__"], _kind(node)) != _kind(node):
            raise ValueError("it has two different objects with the same id")
        # Used by gradient boosting.
        allowed = ("FunctionNode", "sklearn.utils.validation", "check_array")
        if node["__loader__"] == "PartialNode" and _kind(node["content"]["func"]) != allowed:
            raise ValueError("it has a functools.partial of an unknown function")
        keys = node.get("key_types")
        if keys is not None and (
            _kind(keys) != ("ListNode", "builtins", "list")
            or {_kind(key)[:2] for key in keys["content"]} - types
        ):
            raise ValueError("it has a dict whose keys would be made by a call")


def _kind(node: Any) -> tuple[Any, ...]:
    return tuple(node.get(name) for name in ("__loader__", "__module__", "__class__"))


#: Parameter -> its only value that does not refer outside the model.
HARMLESS = {"memory": None, "callback": None, "callbacks": None, "input": "content"}
#: Settings that no constructor names and that may be strings; others could be paths or hosts.
_FURTHER_TEXTS = (
    *("boosting", "data_sample_strategy", "device_type", "metric", "monotone_constraints_method"),
    *("tree_learner", "updater"),
)


def drop_caches(model: Any) -> None:
    """Stop estimators within the model from caching on disk; results do not change."""
    for part in _estimators(model):
        if vars(part).get("memory") is not None:
            part.memory = None


def without_requests(model: Any) -> Any:
    """The model, or a copy of it, whose estimators request no metadata.

    Only `fit` uses requests, and skops would follow them back to their estimator for ever.
    """
    if any("_metadata_request" in vars(part) for part in _estimators(model)):
        model = deepcopy(model)
        for part in _estimators(model):
            vars(part).pop("_metadata_request", None)
    return model


def check_inside(model: Any) -> None:
    """Raise a ValueError if another setting of an estimator refers outside the model.

    A vectorizer may read files named by its rows; LightGBM takes paths and hosts.
    """
    for part in _estimators(model):
        for name, value, is_named in _settings(part):
            leads_out = not is_named and name not in _FURTHER_TEXTS and _has_text(value)
            if name in HARMLESS:
                wanted = HARMLESS[name]
                leads_out = not (isinstance(value, type(wanted)) and value == wanted)
            if leads_out:
                said = repr(value) if isinstance(value, (str, bytes)) else type(value).__name__
                setting = f"{type(part).__name__} has {name}={said}"
                raise ValueError(f"{setting}, which refers outside the model")


def _estimators(model: Any) -> Iterator[Any]:
    return (part for part in parts_of(model) if isinstance(part, BaseEstimator))


def _settings(part: Any) -> Iterator[tuple[str, Any, bool]]:
    """Name, value, and whether a constructor names it; without the cache, which is dropped."""
    named = _named(part)
    for name in named & vars(part).keys() - {"memory"}:
        yield name, getattr(part, name), True
    for attribute in ("_other_params", "kwargs"):
        for name, value in _entries(getattr(part, attribute, None)):
            yield name, value, name in named
    # The candidates of a search.
    for attribute in ("param_grid", "param_distributions"):
        tried = _entries(getattr(part, attribute, None))
        known = {name for inside in _estimators(part) for name in _named(inside)} if tried else {}
        for path, values in tried:
            name = path.rpartition("__")[2]
            for value in values if isinstance(values, (list, tuple, np.ndarray)) else [values]:
                yield name, value, name in known


def _named(part: Any) -> set[str]:
    """Parameters named by the constructors of a class and its bases."""
    kinds = (kind for kind in type(part).__mro__ if hasattr(kind, "_get_param_names"))
    return {name for kind in kinds for name in kind._get_param_names()}


def _entries(settings: Any) -> list[tuple[str, Any]]:
    if isinstance(settings, dict):
        return [(str(name), value) for name, value in settings.items()]
    listed = settings if isinstance(settings, (list, tuple)) else ()
    return [entry for one in listed for entry in _entries(one)]


def _has_text(value: Any) -> bool:
    if isinstance(value, (list, tuple, set, np.ndarray)):
        return any(map(_has_text, value))
    # In place of an estimator.
    return isinstance(value, (str, bytes)) and value not in ("drop", "passthrough")
