"""``law="auto"``: the leaves of one forest, fitted to the residuals of a blend of models.

1. The centre m(x) is a blend of point models, weighted by held-out error
   (`localconformal.laws.blend`); a model passed by the user is one of them. Without one, the blend
   is the point model itself.
2. One forest is grown on (r, |r|), r = y - m, from (x, m), and its leaves are filled with all rows.
   Its answer at a training row is held out: trees not grown on the row, without its own entry.
3. Three readings of the same leaves are laws of y: m plus the quantiles of r; the same for
   g(y) - g(m), with g a logarithm or an asinh, mapped back; the quantiles of y itself.
4. All readings use leaves of the same size: the finest whose held-out pinball loss is within one
   standard error of the best. The first reading is used alone unless an average of all of them
   gains more than one standard error; weights for each side must gain more than one over
   whichever of these was kept.
5. For a response of few values on a lattice, such as grades, quantiles are moved inward to lattice
   points, by a share of a step chosen on held-out rows.

Calibration rows are not used, so the guarantee holds. The number of fits, rows and trees in each
step depends on the shape of the table, never on a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from localconformal.engine.trees import Bins, Forest, Grids
from localconformal.laws.base import (
    Knots,
    Law,
    check_levels,
    fade,
    reference_rows,
    simplex_weights,
)
from localconformal.laws.blend import EFFORTS, BlendedRegressor, Units, on_lattice
from localconformal.quantiles import Array
from localconformal.rows import Rows

#: Quantiles of all rows that bound the cells of a leaf's histogram: dense in the tails.
_OUTER = [0.0, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08]
_TAIL = np.array([*_OUTER, 0.1, 0.13, 0.17, 0.22, 0.3, 0.4])
_CELLS = np.concatenate([_TAIL, [0.5], 1.0 - _TAIL[::-1]])
#: Levels of the knots of the law: those of common intervals, and some between.
_KNOTS = [0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4]
_GRID = np.array([*_KNOTS, 0.5, *(1.0 - np.array(_KNOTS[::-1]))])
#: Rows on which leaf sizes are compared, and readings weighted.
_COMPARED, _WEIGHED = 4_000, 10_000
#: Minimum number of rows that a node in use was grown on -> number of trees that is enough then.
_DEPTHS = {5: 40, 20: 25, 80: 12}

#: Share of the columns tried at a node, if there are not many.
_COLUMNS = 0.7
#: Share of the rows that a tree is grown on, and the most rows.
_SHARE, _ROWS = 0.5, 10_000
#: Bins of a column, and the number of rows above which there are four times as many.
_BINS, _MANY = 64, 20_000
#: Number of rows up to which there are twice as many trees.
_FEW = 5_000
#: Standard errors by which larger leaves, or more weights, must be better to be chosen.
_SURE = 1.0
#: Smallest difference in g(m) that trees see, in mean absolute residuals, if rows are not few.
_SEEN = 0.1
#: Quantiles are clipped at this distance, in units of the response.
_FARTHEST = 1e30
#: Shares of a step by which quantiles may be moved to a lattice.
_INWARD = (0.25, 0.5, 0.75)
#: Fewest and most values of a response on a lattice; a margin against rounding, in steps.
_FEW_VALUES, _MANY_VALUES, _MARGIN = 3, 50, 1e-9
#: Floor of a correction in local widths, as in `ScaledQuantile`.
_FLOOR = 1e-2
READINGS = ("residual", "transformed residual", "response")


def _there(name: str, units: Units, z: Array, m: Array) -> Array:
    """The value whose law a reading estimates, from the response and the centre: (n,)."""
    if name == "residual":
        return z - m
    return on_lattice(units.to_g(z) - units.to_g(m)) if name == "transformed residual" else z


def _back(name: str, units: Units, q: Array, m: Array) -> Array:
    """Quantiles of the response from those of the value: (n, L)."""
    if name == "residual":
        return m[:, None] + q
    return units.from_g(units.to_g(m)[:, None] + q) if name == "transformed residual" else q


@dataclass(eq=False, repr=False)
class AutoLaw(Law):
    """The law of a blend's residuals, from one forest: ``law="auto"``.

    Parameters
    ----------
    levels : pair of floats, default=(0.05, 0.95)
        The most important levels: weights are chosen at these. Any level can be predicted.
    effort : {"low", "default", "high"}, default="default"
        More effort is slower and slightly sharper: more folds, a network for more rows, more trees.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one per core.

    Attributes
    ----------
    blend_ : BlendedRegressor
    weights_ : dict
        Weights of each reading, for the lower and the upper side.
    depth_ : int
        Minimum number of rows that a node was grown on, for it to be used.
    scaled_ : bool
        Whether a correction in local widths does better than an additive one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> law = AutoLaw(random_state=0, n_jobs=1).fit(X, X[:, 0] * rng.normal(size=500))
    >>> low, high = law.quantile([[0.1], [0.9]], [0.95])[:, 0]
    >>> bool(low < high)
    True
    """

    levels: Any = (0.05, 0.95)
    effort: str = "default"
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, v: ArrayLike) -> AutoLaw:
        """Blend, grow, fill, choose."""
        if len(check_levels(self.levels)) > 2:
            raise ValueError(f"got levels={self.levels!r}; expected two levels.")
        if self.effort not in EFFORTS:
            raise ValueError(f"got effort={self.effort!r}; expected one of {list(EFFORTS)}.")
        # From an earlier fit, which may have left out readings.
        self.__dict__.pop("weights_", None)
        rows, scores = reference_rows(X, v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        y = self._fit_centre(rows, scores, seed)
        units = self.blend_.units_
        z, m = units.to_z(y), self._centre(rows)
        # A held-out prediction still depends slightly on its own row, as the mean of all others
        # does. Trees see no differences in m that are small compared with the noise, so they
        # cannot exploit this.
        coarse = _SEEN * max(1.0, float(np.sqrt(_FEW / len(z))))
        self.step_ = coarse * float(np.abs(units.to_g(z) - units.to_g(m)).mean()) or 1.0
        self._fit_bins(rows, m, seed)
        codes = self._codes(rows, m)
        forest = self._grow(codes, units.to_target(z) - m, seed)
        values = [_there(name, units, z, m) for name in READINGS]
        self.grids_ = Grids.of(values, _CELLS)
        cells = self.grids_.cells(values)
        forest.fill(codes, cells, seed)
        # Another seed: with this one, these would be the rows that the first tree was grown on.
        some = np.random.default_rng([seed, 1]).permutation(len(z))[:_WEIGHED]
        q = self._choose(forest, codes[some], cells[some], forest.held(some), z[some], m[some])
        self._choose_correction(q, y[some], np.array(self.levels))
        self.forest_ = forest.forget()
        self.blend_.forget()
        return self

    # ---- the centre -------------------------------------------------------------------------

    def _fit_centre(self, rows: Rows, v: Array, seed: int) -> Array:
        """Fit the blend; return its response: y if the score is y - mu(x)."""
        self.model_ = rows.model if rows.model is not None and rows.are_residuals(v) else None
        y = v if self.model_ is None else rows.response(v)
        known = getattr(self.model_, "model_", None)
        self.is_point_ = isinstance(known, BlendedRegressor)
        if isinstance(known, BlendedRegressor):
            self.blend_ = known
            return y
        own = None if self.model_ is None else rows.point
        self.blend_ = BlendedRegressor(self.effort, seed, self.n_jobs).fit(rows.X, y, own)
        rows.known[self] = self.blend_.held_out_
        return y

    def _point(self, rows: Rows) -> Array:
        return rows.of(self.model_).point

    def _centre(self, rows: Rows) -> Array:
        """m(x) in units of the response; held out at reference rows: (n,)."""
        if self.is_point_:
            return self.blend_.units_.to_z(self._point(rows))
        if self in rows.known:
            return np.asarray(rows.known[self])
        own = None if self.model_ is None else self._point(rows)
        return self.blend_.answer(rows, own)

    # ---- the forest -------------------------------------------------------------------------

    def _fit_bins(self, rows: Rows, m: Array, seed: int) -> None:
        bins = _BINS if len(m) <= _MANY else 4 * _BINS
        self.bins_ = Bins().fit(self._seen(m), bins, seed)
        codes = self.blend_.codes_(rows) if self.blend_.readable_ else np.empty((1, 0))
        # With fewer rows, a quarter as many bins are enough.
        self.shift_ = np.where(codes.max(axis=0) >= bins, 2, 0).astype(np.uint8)

    def _seen(self, m: Array) -> Array:
        """m as the trees see it: (n, 1)."""
        return np.round(self.blend_.units_.to_g(m) / self.step_)[:, None]

    def _codes(self, rows: Rows, m: Array) -> Any:
        """The inputs of the trees: features, if there are any, and m, in bins."""
        last = self.bins_.codes(self._seen(m))
        if not self.blend_.readable_:
            return last
        return np.column_stack([self.blend_.codes_(rows) >> self.shift_, last])

    def _grow(self, codes: Any, r: Array, seed: int) -> Forest:
        n, d = codes.shape
        target = np.column_stack([_standardised(one) for one in (r, np.abs(r))])
        trees = _DEPTHS[5] * (2 if self.effort == "high" or n <= _FEW else 1)
        return Forest().grow(
            codes,
            target,
            n_trees=trees,
            leaf=min(_DEPTHS),
            rows=max(2, min(_ROWS, int(_SHARE * n))),
            share=_COLUMNS if d < 60 else 0.12,
            seed=seed,
            n_jobs=self.n_jobs,
        )

    def _choose(
        self, forest: Forest, codes: Any, cells: Any, held: Any, z: Array, m: Array
    ) -> Array:
        """Choose the leaf size and the weights of readings; return held-out quantiles."""
        levels, leaves = np.array(self.levels), forest.leaves(codes)
        few, losses = slice(0, _COMPARED), {}
        for depth in _DEPTHS:
            forest.set_depth(depth)
            Q = self._read(forest, leaves[few], m[few], levels, cells[few], held[few])
            W = _weights(Q, z[few], levels)
            losses[depth] = _losses(_average(Q, W), z[few], levels)
        best = min(losses, key=lambda depth: losses[depth].mean())
        self.depth_ = min(d for d, loss in losses.items() if not _is_more(loss - losses[best]))
        most = len(forest.roots_) * _DEPTHS[self.depth_] // _DEPTHS[5]
        leaves, held = leaves[:, :most], np.ascontiguousarray(held[:, :most])
        forest.keep_trees(most).set_depth(self.depth_)
        Q = self._read(forest, np.ascontiguousarray(leaves), m, levels, cells, held)
        W = _weights(Q, z, levels)
        sides = zip(levels, np.moveaxis(Q, 2, 0), strict=True)
        each = [[_losses(q[:, None], z, level).mean() for q in side] for level, side in sides]
        self.losses_ = np.array(each) * self.blend_.units_.unit
        self.weights_ = {name: w for name, w in zip(READINGS, W, strict=True) if w.any()}
        forest.kept_ = np.ascontiguousarray(forest.kept_[:, W.any(axis=1)])
        self.grids_ = self.grids_.take(W.any(axis=1))
        return _average(Q, W)

    def _read(
        self,
        forest: Forest,
        leaves: Any,
        m: Array,
        levels: Array,
        own: Any = None,
        held: Any = None,
    ) -> Array:
        """Quantiles of the response from each reading, in units: (V, n, L)."""
        mass = forest.histograms(leaves, self.grids_.high.shape[1], own, held)
        found = self.grids_.quantiles(mass, levels)
        names = getattr(self, "weights_", READINGS)
        units = self.blend_.units_
        return np.stack([_back(k, units, q, m) for k, q in zip(names, found, strict=True)])

    def _choose_correction(self, q: Array, y: Array, levels: Array) -> None:
        """Choose the unit of the correction and the move to a lattice by held-out loss."""
        z, alpha = self.blend_.units_.to_z(y), 1.0 - (levels[-1] - levels[0])
        self.lattice_ = _lattice_of(y, self.blend_.units_)
        typical, tried = float(np.median(np.abs(z - q.mean(axis=1)))) or 1.0, {}
        for inward in (0.0, *_INWARD) if self.lattice_ else (0.0,):
            self.inward_ = inward
            ends = np.sort(self._on_lattice(q, levels), axis=1)
            for scaled in (False, True):
                unit = np.ptp(ends, axis=1) + _FLOOR * typical if scaled else np.ones(len(z))
                excess = np.maximum(ends[:, 0] - z, z - ends[:, -1]) / unit
                shift = np.quantile(excess, 1.0 - alpha) * unit
                moved = np.stack([ends[:, 0] - shift, ends[:, -1] + shift], axis=1)
                tried[inward, scaled] = _losses(moved, z, levels[[0, -1]]).mean()
        self.inward_, self.scaled_ = min(tried, key=lambda both: tried[both])

    def _on_lattice(self, q: Array, levels: Array) -> Array:
        """Quantiles (n, L), with those of the tails moved inward to lattice points."""
        if not self.inward_:
            return q
        origin, step = self.lattice_ or (0.0, 1.0)
        place, margin = (q - origin) / step, _MARGIN * step
        up = origin + step * np.ceil(place - self.inward_) - margin
        down = origin + step * np.floor(place + self.inward_) + margin
        below, above = levels <= 0.25, levels >= 0.75
        # Quantiles between the tails stay between them.
        q = np.maximum(q, np.max(up, axis=1, where=below, initial=-np.inf, keepdims=True))
        q = np.minimum(q, np.min(down, axis=1, where=above, initial=np.inf, keepdims=True))
        return np.where(below, up, np.where(above, down, q))

    # ---- the law ----------------------------------------------------------------------------

    def at(self, rows: Rows) -> Knots:
        """The law at each row, as quantiles on the common grid."""
        m, forest, units = self._centre(rows), self.forest_, self.blend_.units_
        leaves = forest.leaves(self._codes(rows, m))
        levels = np.clip(_GRID, 1e-9, 1.0)
        Q = self._read(forest, leaves, m, levels)
        averaged = self._on_lattice(_average(Q, self._weights_at(levels)), levels)
        # In units of the response, float32 is enough; far quantiles are clipped.
        values = np.clip(np.maximum.accumulate(averaged, axis=1), -_FARTHEST, _FARTHEST)
        location = units.centre - (0.0 if self.model_ is None else self._point(rows))
        sizes = (forest.high_[leaves] - forest.low_[leaves]).mean(axis=1)
        at = np.broadcast_to(location, len(rows)).copy()
        # Lattice points keep their margin.
        kind = np.float64 if self.inward_ else np.float32
        return Knots(_GRID, values.astype(kind), sizes, at=at, unit=units.unit)

    def row_weights(self, rows: Rows, others: Rows) -> Array:
        """sum over trees of 1{in the same leaf} / |leaf|: (m, n)."""
        forest, total = self.forest_, np.zeros((len(rows), len(others)))
        mine, theirs = (forest.leaves(self._codes(r, self._centre(r))).T for r in (rows, others))
        for ours, leaf in zip(mine, theirs, strict=True):
            low, high = forest.low_[ours][:, None], forest.high_[ours][:, None]
            first, last = forest.low_[leaf], forest.high_[leaf]
            # A widened leaf contains those below it.
            total += ((low <= first) & (first < last) & (last <= high)) / np.maximum(high - low, 1)
        return total

    def _weights_at(self, levels: Array) -> Array:
        """(V, L): the weights of the side that a level lies on, their mean at 1/2."""
        W = np.stack(list(self.weights_.values()))
        share = np.where(levels < 0.5, 0.0, np.where(levels > 0.5, 1.0, 0.5))
        return W[:, :1] * (1.0 - share) + W[:, -1:] * share

    def story(self) -> dict[str, list[Any]]:
        """What was chosen, as columns: see ``selection_``."""
        blend = self.blend_
        rows = [
            ("centre", name, error, blend.weights_.get(name, 0.0), blend.dropped_.get(name, ""))
            for name, error in blend.errors_.items()
        ]
        note = f"leaves of {self.depth_} rows or more"
        for side, losses in enumerate(self.losses_):
            for name, loss in zip(READINGS, losses, strict=True):
                weight = float(self.weights_[name][side]) if name in self.weights_ else 0.0
                rows.append((("lower", "upper")[side], name, float(loss), weight, note))
        unit = "in local widths" if self.scaled_ else "additive"
        rows.append(
            ("correction", unit, float("nan"), 1.0, "" if not self.inward_ else "on a lattice")
        )
        names, columns = ("part", "name", "loss", "weight", "note"), zip(*rows, strict=True)
        return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _lattice_of(y: Array, units: Units) -> tuple[float, float] | None:
    """Origin and step, in units, of a response with few, equally spaced values; else None."""
    values = np.unique(y)
    if not _FEW_VALUES <= len(values) <= min(_MANY_VALUES, len(y) / 3):
        return None
    step = float(np.diff(values).min())
    places = (values - values[0]) / step
    if np.abs(places - np.round(places)).max() > 1e-3:
        return None
    return float((values[0] - units.centre) / units.unit), step / units.unit


def _standardised(values: Array) -> Array:
    """Standardised and coarsely rounded, so that trees do not depend on the last bits of m."""
    return np.asarray(np.round((values - values.mean()) / (values.std() or 1.0) * 1024) / 1024)


def _average(Q: Array, W: Array) -> Array:
    """sum_v W_v Q_v: (V, n, L), (V, L) -> (n, L)."""
    return np.asarray(sum(w * q for w, q in zip(W, Q, strict=True)))


def _weights(Q: Array, z: Array, levels: Array) -> Array:
    """Weights of readings (V, n, L) at each level, (V, L): the simplest that are good enough.

    The first reading alone; or simplex weights, the same for all levels; or separate ones. Widths
    by the others also depend on what moves the mean, which must be worth it.
    """
    kept = np.zeros((len(Q), len(levels)))
    kept[0] = 1.0
    same = fade(simplex_weights(Q, z, levels))
    each = [fade(simplex_weights(Q[:, :, [j]], z, levels[[j]])) for j in range(len(levels))]
    for W in (np.repeat(same[:, None], len(levels), axis=1), np.stack(each, axis=1)):
        gain = _losses(_average(Q, kept), z, levels) - _losses(_average(Q, W), z, levels)
        kept = W if _is_more(gain) else kept
    return kept


def _is_more(differences: Array) -> bool:
    """Whether the mean of differences (n,) is above 0 by more than `_SURE` standard errors."""
    error = differences.std() / np.sqrt(len(differences))
    return bool(differences.mean() > _SURE * error)


def _losses(q: Array, z: Array, levels: Array) -> Array:
    """Pinball loss of each row, summed over levels: (n, L) -> (n,)."""
    error = z[:, None] - q
    return np.maximum(levels * error, (levels - 1.0) * error).sum(axis=1)
