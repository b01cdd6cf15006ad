"""Which calibration rows speak for x: cells and weights.

    Cells        cq(1 - alpha; scores of the calibration rows in the cell of x)
    Ratio        wcq(1 - alpha; scores, w(X_i), w(x)): covariate shift
    localizing   the kernel of a law around x: LVD, RLCP, LCP

A new correction is a class with `keep` and `theta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import gen_batches

from localconformal.columns import Features, View, check_cells, column_of
from localconformal.composition import Calibration, Correction, Parts
from localconformal.laws.base import effective_size, reference_rows
from localconformal.laws.forest import as_points
from localconformal.quantiles import Array, weighted_conformal_quantile
from localconformal.rows import (
    Curve,
    Reference,
    Rows,
    few_threads,
    split_rows,
    stack_rows,
    take_rows,
)

#: Pairs of rows that are weighed at a time: bounds the memory, whatever is asked.
_PAIRS_AT_A_TIME = 4_000_000


# ---- cells --------------------------------------------------------------------------------------


class Cells(Correction):
    """Each cell by itself: Mondrian, LOCART, CD-Split.

    ``cell`` is the curve of a row's cell, with ``fit(reference, parts)`` where it has to be
    learned. With ``pool``, cells with too few rows get the correction of all rows together.
    """

    def __init__(self, cell: Any, pool: bool = False) -> None:
        self.cell = cell
        self.pool = pool

    @property
    def needs_reference(self) -> bool:  # type: ignore[override]
        """Where cells are learned."""
        return hasattr(self.cell, "fit")

    def fit(self, reference: Reference, parts: Parts) -> Cells:
        """Learn what a cell is."""
        self.cell.fit(reference, parts)
        return self

    def keep(self, rows: Rows, V: Array) -> NDArray[Any]:
        """The cell of each row."""
        return np.asarray(self.cell(rows))

    def cells(self, calibration: Calibration) -> NDArray[Any]:
        """Cell of each calibration row."""
        return np.asarray(calibration.kept)

    def theta(self, calibration: Calibration, rows: Rows, levels: Array) -> Array:
        """theta* (n, S, L); +inf where a cell is too small."""
        kinds, place = np.unique(self.cell(rows), return_inverse=True)
        nothing = np.full(calibration.parts.sides.n_sides, np.inf)
        ask = partial(self._by_cell, calibration)
        tables = [calibration.once(("cells", float(t)), ask, t) for t in levels]
        found = np.array([[table.get(cell, nothing) for table in tables] for cell in kinds])
        found = np.moveaxis(found, 1, 2)
        if self.pool and np.isinf(found).any():
            found = np.where(np.isinf(found), super().theta(calibration, rows, levels), found)
        return found[place.reshape(-1)]

    def _by_cell(self, calibration: Calibration, level: float) -> dict[Any, Array]:
        """theta* (S,) of each cell at one level."""
        levels, sides = np.array([level]), calibration.parts.sides
        kinds, place = np.unique(calibration.kept, return_inverse=True)
        p = calibration.scores(levels)
        return {cell: sides.theta(p[place == k], levels)[:, 0] for k, cell in enumerate(kinds)}

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """Calibration rows in the cell of each row."""
        kinds, place = np.unique(self.cell(rows), return_inverse=True)
        counts = [float(np.count_nonzero(calibration.kept == cell)) for cell in kinds]
        return np.array(counts)[place.reshape(-1)]

    def shortage(self, calibration: Calibration, rows: Rows, theta: Array, levels: Array) -> str:
        """Which cells are short of rows."""
        short = np.broadcast_to(np.isposinf(theta).any(axis=(1, 2)), len(rows))
        fewest = int(self.sizes(calibration, rows)[short].min())
        where = self.cell.name_cells(np.unique(self.cell(rows)[short]))
        return calibration.parts.sides.shortage(fewest, where, theta, levels)


class Cell(Curve, BaseEstimator):
    """The cell of a row."""

    def name_cells(self, cells: NDArray[Any]) -> str:
        """Which cells are short of rows, for a message."""
        names = [*map(str, cells[:3]), *["..."] * (len(cells) > 3)]
        return f" (the fewest of the cells {', '.join(names)})"


class LabelCell(Cell):
    """A column by name or position, a function of X, or None: the label given beside the row."""

    def __init__(self, groups: Any = None) -> None:
        self.groups = groups

    def compute(self, rows: Rows) -> NDArray[Any]:
        """Names of labels, (n,)."""
        if self.groups is None:
            return check_cells(rows.beside, len(rows))
        labels = self.groups(rows.X) if callable(self.groups) else column_of(rows.X, self.groups)
        return check_cells(labels, len(rows))


class PointBin(Cell):
    """Bins of the prediction, with edges at quantiles of those of the reference rows."""

    def __init__(self, n_bins: int = 5) -> None:
        self.n_bins = n_bins

    def fit(self, reference: Reference, parts: Parts) -> PointBin:
        """Learn the edges."""
        inner = np.arange(1, self.n_bins) / self.n_bins
        self.score_, self.edges_ = reference.score, np.quantile(reference.rows.point, inner)
        return self

    def compute(self, rows: Rows) -> NDArray[Any]:
        """Number of the bin, (n,)."""
        return np.searchsorted(self.edges_, self.score_(rows).point, side="right")


class TreeLeaf(Cell):
    """The leaf of a regression tree of the scores (LOCART), pruned on rows it was not grown on."""

    def __init__(self, min_samples_leaf: int = 100) -> None:
        self.min_samples_leaf = min_samples_leaf

    def fit(self, reference: Reference, parts: Parts) -> TreeLeaf:
        """Grow the tree on reference scores."""
        rows, v = reference_rows(reference.rows, reference.V[:, 0])
        self.view_ = View().fit(rows)
        points = as_points(self.view_(rows))
        self.tree_ = _pruned_tree(points, v, self.min_samples_leaf, reference.seed)
        return self

    def compute(self, rows: Rows) -> NDArray[Any]:
        """Number of the leaf, (n,)."""
        return np.asarray(self.tree_.apply(as_points(self.view_(rows))))

    def name_cells(self, cells: NDArray[Any]) -> str:
        """How many of them."""
        return f" (the fewest of {len(cells)} leaves that are short)"


#: Share of the reference rows on which a tree is pruned.
_PRUNING_SHARE = 0.3
#: Costs of complexity that are tried: each takes a tree.
_MOST_COSTS = 25


def _pruned_tree(
    points: NDArray[np.float32], scores: Array, min_samples_leaf: int, seed: int
) -> DecisionTreeRegressor:
    """A tree of the scores, pruned by the squared error at rows it was not grown on."""
    tree = DecisionTreeRegressor(min_samples_leaf=min_samples_leaf, random_state=seed)
    grown, held = split_rows(len(scores), _PRUNING_SHARE, seed)
    if len(grown) < 2 * min_samples_leaf or len(held) == 0:
        return tree.fit(points, scores)
    path = tree.cost_complexity_pruning_path(points[grown], scores[grown])
    costs = np.unique(np.maximum(path.ccp_alphas, 0.0))
    costs = costs[np.unique(np.linspace(0, len(costs) - 1, _MOST_COSTS).astype(int))]
    errors = []
    for cost in costs:
        tried = tree.set_params(ccp_alpha=cost).fit(points[grown], scores[grown])
        errors.append(np.mean((scores[held] - tried.predict(points[held])) ** 2))
    # Of equal ones the smallest tree.
    best = costs[len(costs) - 1 - int(np.argmin(errors[::-1]))]
    return tree.set_params(ccp_alpha=best).fit(points, scores)


# ---- weights ------------------------------------------------------------------------------------


class Weighing(Correction):
    """theta*(x) = wcq(1 - alpha; p_1..p_n, w(X_1, x)..w(X_n, x), w_inf(x)), in chunks of rows.

    A subclass sets ``view_``, what it keeps of a row, and says what two rows weigh for each other.
    """

    remedy = "choose a larger bandwidth, calibrate on more rows, or lower the level."
    view_: Curve

    def weigh(self, mine: Any, held: Any) -> tuple[Array, Array]:
        """Views of m new and n calibration rows -> weights (m, n), and mass at +inf (m,)."""
        raise NotImplementedError

    def keep(self, rows: Rows, V: Array) -> Any:
        """The view of each row."""
        return self.view_(rows)

    def theta(self, calibration: Calibration, rows: Rows, levels: Array) -> Array:
        """theta* at each row: (n, S, L)."""
        mine, scores, sides = self.view_(rows), calibration.scores(levels), calibration.parts.sides
        theta = np.empty((len(rows), sides.n_sides, len(levels)))
        for part in self._chunks(len(rows), calibration):
            weights, own = self.weigh(take_rows(mine, part), calibration.kept)
            ask = partial(weighted_conformal_quantile, weights=weights, weight_inf=own)
            theta[part] = np.moveaxis(sides.theta(scores, levels, ask), 2, 0)
        return theta

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """(sum w)^2 / sum w^2 of the calibration rows at each row."""
        mine, sizes = self.view_(rows), np.empty(len(rows))
        for part in self._chunks(len(rows), calibration):
            sizes[part] = effective_size(self.weigh(take_rows(mine, part), calibration.kept)[0])
        return sizes

    def _chunks(self, m: int, calibration: Calibration) -> Iterator[slice]:
        return gen_batches(m, max(1, _PAIRS_AT_A_TIME // max(1, calibration.n)))

    def shortage(self, calibration: Calibration, rows: Rows, theta: Array, levels: Array) -> str:
        """How many rows have too little weight around them."""
        if calibration.n < calibration.parts.sides.required_size(float(levels.max())):
            return super().shortage(calibration, rows, theta, levels)
        infinite = np.isposinf(theta)
        level = float(levels[infinite.any(axis=(0, 1))].max())
        return (
            f"{np.count_nonzero(infinite.any(axis=(1, 2)))} of {len(rows)} intervals are infinite: "
            f"the calibration rows that speak for them weigh too little for confidence level "
            f"{level!r}; {self.remedy}"
        )


class Ratio(Weighing):
    """Covariate shift: w(X_i), and w(x) at +inf; ``weigh_row`` is the w of a row."""

    remedy = (
        "calibrate on more rows where such rows are common, clip the weights, or lower the level."
    )

    def __init__(self, weigh_row: Curve) -> None:
        self.weigh_row = weigh_row

    @property
    def view_(self) -> Curve:  # type: ignore[override]
        """w of a row."""
        return self.weigh_row

    def weigh(self, mine: Array, held: Array) -> tuple[Array, Array]:
        """The same weights for all rows."""
        return held, mine

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """(sum w)^2 / sum w^2, the same for all rows."""
        return np.full(len(rows), effective_size(calibration.kept[None])[0])


class RowWeight(Curve):
    """w of a row: a function of X, what is given beside X, or 1."""

    def __init__(self, function: Callable[[Any], Any] | None = None) -> None:
        self.function = function

    def compute(self, rows: Rows) -> Array:
        """(n,) finite numbers from 0 on."""
        weights, n = rows.beside, len(rows)
        if weights is None:
            weights = np.ones(n) if self.function is None else self.function(rows.X)
        given = np.asarray(weights)
        if given.dtype.kind not in "biuf" or given.shape != (n,):
            raise ValueError(
                f"got weights of type {given.dtype} and shape {given.shape}; expected one number "
                f"for each of {n} rows."
            )
        bad = ~np.isfinite(given) | (given < 0)
        if bad.any():
            raise ValueError(
                f"{np.count_nonzero(bad)} of {n} weights are negative or not finite, such as "
                f"{given[bad][0]}; expected finite numbers from 0 on."
            )
        return given.astype(np.float64)


@dataclass(frozen=True, eq=False)
class DensityRatio(Curve):
    """w(x) = p(x) / (1 - p(x)), p(x) the probability of a new row where both kinds are as many.

    ``balance`` is the number of training rows over that of new rows, by which a classifier's odds
    are multiplied before p is clipped: else clipping would tell the kinds apart by their numbers.
    """

    classifier: Any
    view: Features | None
    balance: float
    clip: float

    @classmethod
    def fit(cls, classifier: Any, X: Any, target: Any, clip: float, seed: int) -> DensityRatio:
        """Learned from training rows X and new rows; None is boosting on the features as numbers.

        A classifier of the user's gets the rows as they are.
        """
        is_new, balance = np.repeat([0, 1], [len(X), len(target)]), len(X) / len(target)
        if classifier is not None:
            view, rows, fresh = None, stack_rows(X, target), clone(classifier)
        else:
            view = Features().fit(X)
            rows = np.vstack([view.transform(X), view.transform(target)])
            # Few and small trees, stopped where held-out rows gain nothing: without a shift, w is
            # even. Stopped only where some of each kind can be held out.
            fresh = HistGradientBoostingClassifier(
                learning_rate=0.05,
                max_iter=200,
                max_leaf_nodes=8,
                early_stopping=min(len(X), len(target)) >= 30,
                random_state=seed,
            )
        with few_threads(rows):
            return cls(fresh.fit(rows, is_new), view, balance, clip)

    def compute(self, rows: Rows) -> Array:
        """(n,) positive numbers."""
        seen = rows.X if self.view is None else self.view.transform(rows.X)
        new = list(self.classifier.classes_).index(1)
        p = np.asarray(self.classifier.predict_proba(seen), dtype=np.float64)[:, new]
        p = p * self.balance / (p * self.balance + 1.0 - p)
        p = np.clip(p, self.clip, 1.0 - self.clip)
        return p / (1.0 - p)
