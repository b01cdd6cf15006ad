"""Coverage over a class of functions of x: groups that may overlap, features, shifts they span.

theta*(x) is the largest score at x that still lies below the fit of a quantile regression on phi,
with x among the calibration rows (Gibbs, Cherian and Candes, JRSS B 2025). `Design` is phi, learned
from training rows; `Conditional` is the correction; `engine.paths` finds the thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from localconformal.columns import as_table, check_cells, column_of
from localconformal.composition import Calibration, Correction, Parts
from localconformal.engine.paths import Span, ThresholdPath, distinct_rows
from localconformal.quantiles import Array
from localconformal.rows import Curve, Reference, Rows, is_frame, row_hashes, table_names
from localconformal.text import listing

#: Quantiles of the training predictions at which the default functions of x have their peaks.
_PEAKS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
#: Most columns of phi: a step of a path costs the square of their number.
_MOST_COLUMNS = 500


class Design(Curve, BaseEstimator):
    """phi(x), (n, p): the constant, an indicator for each label of each variable, the features.

    ``groups`` is a list of columns and functions of X that give labels, or None; ``features`` is a
    function of X that returns numbers (n, k), or None. Labels are those of training rows; labels
    of a variable with fewer rows than ``fewest`` are merged into one group. Without groups and
    features: five piecewise linear functions of the prediction, each 1 at one quantile and 0 at
    the next.
    """

    def __init__(self, groups: Any = None, features: Any = None, fewest: int = 1) -> None:
        self.groups = groups
        self.features = features
        self.fewest = fewest

    def fit(self, reference: Reference, parts: Parts) -> Design:
        """Learn labels, the quantiles of predictions, and the rank of phi."""
        rows = reference.rows
        self.knots_ = None
        if self.groups is None and self.features is None and rows.beside is None:
            self.score_, self.knots_ = reference.score, np.unique(np.quantile(rows.point, _PEAKS))
        self.labels_, self.joined_, self.groups_ = {}, {}, []
        self.beside_ = [] if rows.beside is None else _names_of(rows.beside)
        for name, labels in self._variables(rows):
            found, counts = np.unique(labels, return_counts=True)
            self.labels_[name] = kept = found[counts >= self.fewest]
            if len(found) > len(kept):
                self.joined_[name] = found[counts < self.fewest]
            self.groups_ += [f"{name} = {label}" for label in kept]
            self.groups_ += [f"{name}: other labels"] * (name in self.joined_)
        if len(self.groups_) > _MOST_COLUMNS:
            most = max(self.labels_, key=lambda name: len(self.labels_[name]))
            raise ValueError(
                f"got {len(self.groups_):,} labels in groups, {len(self.labels_[most]):,} of them "
                f"in {most}; expected at most {_MOST_COLUMNS}: pass functions of X that bin "
                "numbers or merge labels."
            )
        self.n_columns_ = None
        columns = self.compute(rows)
        self.n_columns_, self.rank_ = columns.shape[1], Span.of(columns).dimension
        return self

    def compute(self, rows: Rows) -> Array:
        """(n, p) finite numbers: the constant, then ``groups_``, then the rest."""
        columns: list[NDArray[Any]] = [np.ones((len(rows), 1))]
        for name, labels in self._variables(rows):
            columns.append(labels[:, None] == self.labels_[name])
            if name in self.joined_:
                columns.append(np.isin(labels, self.joined_[name])[:, None])
        if self.knots_ is not None:
            point, peaks = self.score_(rows).point, np.eye(len(self.knots_))
            columns += [np.interp(point, self.knots_, peak)[:, None] for peak in peaks]
        if self.features is not None:
            columns.append(self._read_features(rows))
        phi = np.hstack(columns).astype(np.float64)
        if self.n_columns_ not in (None, phi.shape[1]):
            raise ValueError(
                f"features returned {phi.shape[1] - 1 - len(self.groups_)} columns; expected "
                f"{self.n_columns_ - 1 - len(self.groups_)}, as at fit."
            )
        return phi

    def _variables(self, rows: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
        """The name of each variable, and its labels (n,)."""
        if rows.beside is not None:
            table, names = as_table(rows.beside), _names_of(rows.beside)
            places = list(range(len(names)))
            if is_frame(rows.beside) and len(names) > 1:
                # By name, in the order of the fit.
                if sorted(names) != sorted(self.beside_):
                    raise ValueError(
                        f"groups has the columns {names}; expected {self.beside_}, as at fit."
                    )
                places = [names.index(name) for name in self.beside_]
            elif len(names) != len(self.beside_):
                raise ValueError(
                    f"groups has {len(names)} columns; expected {len(self.beside_)}, as at fit."
                )
            for name, place in zip(self.beside_, places, strict=True):
                yield name, check_cells(column_of(table, place), len(rows))
            return
        for place, given in enumerate(() if self.groups is None else self.groups):
            labels = given(rows.X) if callable(given) else column_of(rows.X, given)
            name = getattr(given, "__name__", "<lambda>") if callable(given) else str(given)
            # Functions may share a name.
            named = name if not callable(given) else f"{name} ({place})"
            yield named.replace("<lambda>", "group"), check_cells(labels, len(rows))

    def _read_features(self, rows: Rows) -> Array:
        given = np.asarray(self.features(rows.X))
        numbers = given.reshape(-1, 1) if given.ndim == 1 else given
        if numbers.dtype.kind not in "biuf" or numbers.ndim != 2 or len(numbers) != len(rows):
            raise ValueError(
                f"features returned an array of dtype {given.dtype} and shape {given.shape}; "
                f"expected numbers of shape ({len(rows)}, k), k per row."
            )
        if not np.all(np.isfinite(numbers)):
            raise ValueError("features returned NaN or infinite values; expected finite numbers.")
        return numbers.astype(np.float64)


def _names_of(beside: Any) -> list[str]:
    return [str(name) for name in table_names(as_table(beside))]


class Conditional(Correction):
    """theta*(x) = S*(phi(x)): coverage of at least 1 - alpha over every shift f = phi'b >= 0 of x.

    With ``randomised``, the path of x stops at eta = U instead of 1 - alpha, with U uniform on
    (-alpha, 1 - alpha), a hash of the seed and the row: then coverage is exactly 1 - alpha, and
    sets may be empty.
    """

    needs_reference = True

    def __init__(self, design: Any, randomised: bool = False) -> None:
        self.design = design
        self.randomised = randomised

    def fit(self, reference: Reference, parts: Parts) -> Conditional:
        """Learn phi."""
        self.design.fit(reference, parts)
        self.seed_, self.n_jobs_ = reference.seed, reference.n_jobs
        return self

    def keep(self, rows: Rows, V: Array) -> Array:
        """phi of each row."""
        return np.asarray(self.design(rows))

    def theta(self, calibration: Calibration, rows: Rows, levels: Array) -> Array:
        """theta* at each row: (n, S, L)."""
        columns, sides = self.design(rows), calibration.parts.sides
        # Rows with the same phi have the same theta*.
        first, kind = distinct_rows(columns) if not self.randomised else (slice(None), slice(None))
        u = row_uniforms(self.seed_, rows) if self.randomised else np.ones(len(columns[first]))
        span = self._span(calibration)
        points, inside = span.points(columns[first]), span.holds(columns[first])
        scores, local = sides.calibrated(calibration.scores(levels), levels)
        theta = np.empty((len(rows), len(local), len(levels)))
        for s, l in np.ndindex(*local.shape):
            key = "path", s, float(levels[l])
            ask = partial(_solved, span, calibration.kept)
            path, lowest, highest = calibration.once(key, ask, scores[:, s, l], local[s, l])
            stop = u - 1.0 + local[s, l]
            found = path.thresholds(points, stop, self.n_jobs_)
            found = np.where(inside, found, np.copysign(np.inf, stop))
            # An empty set becomes a point: any number below all scores gives one.
            found = np.where(found > highest, np.inf, np.maximum(found, lowest))
            theta[:, s, l] = found[kind]
        return np.repeat(theta, sides.n_sides // len(local), axis=1)

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """1 / phi(x)'(Phi'Phi)^-1 phi(x): the rows in x's group, for groups that do not overlap.

        0 if phi(x) is outside the span of the calibration rows.
        """
        span, columns = self._span(calibration), self.design(rows)
        points = span.points(columns)
        size = calibration.n / np.einsum("ij,ij->i", points, points)
        return np.where(span.holds(columns), size, 0.0)

    def small_groups(self, calibration: Calibration, level: float) -> dict[str, int]:
        """Groups with too few calibration rows for finite intervals, and how many each has."""
        needed, names = calibration.parts.sides.required_size(level), self.design.groups_
        counts = np.count_nonzero(calibration.kept[:, 1 : 1 + len(names)], axis=0)
        return {
            name: int(count) for name, count in zip(names, counts, strict=True) if count < needed
        }

    def n_lost(self, calibration: Calibration) -> int:
        """Directions of phi that training rows have and calibration rows do not."""
        return max(0, int(self.design.rank_) - self._span(calibration).dimension)

    def shortage(self, calibration: Calibration, rows: Rows, theta: Array, levels: Array) -> str:
        """Which groups have too few rows, or that no calibration rows are like these."""
        infinite = np.isposinf(theta)
        level = float(levels[infinite.any(axis=(0, 1))].max())
        asked = self.design(rows)[infinite.any(axis=(1, 2)), 1:].any(axis=0)
        found = {name for name, is_met in zip(self.design.groups_, asked, strict=False) if is_met}
        small = {k: n for k, n in self.small_groups(calibration, level).items() if k in found}
        if small or calibration.n < calibration.parts.sides.required_size(level):
            where = f" (the fewest of the groups {listing(small)})" if small else ""
            fewest = min(small.values(), default=calibration.n)
            return calibration.parts.sides.shortage(fewest, where, theta, levels)
        return (
            f"{np.count_nonzero(infinite.any(axis=(1, 2)))} of {len(rows)} intervals are infinite: "
            "too few calibration rows are similar in their groups and features; calibrate on "
            "more such rows, or use fewer groups and features."
        )

    def _span(self, calibration: Calibration) -> Span:
        found: Span = calibration.once("span", Span.of, calibration.kept)
        return found


def _solved(
    span: Span, columns: Array, scores: Array, level: float
) -> tuple[ThresholdPath, float, float]:
    """The path at one level; a number below all scores; one beyond which thresholds are infinite.

    Infinite scores are placed far beyond the others, and so is every threshold they influence.
    """
    finite = scores[np.isfinite(scores)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    S = np.minimum(scores, high + 1e3 * max(high - low, abs(high), 1.0))
    points = span.points(columns)
    # Sums are rounded: calibration rows need an order that depends on the rows alone.
    order = np.argsort(row_hashes(points, S), kind="stable")
    path = ThresholdPath.of(S[order], points[order], 1.0 - level)
    return path, low - (high - low), np.inf if len(finite) == len(scores) else high


def row_uniforms(seed: int, rows: Rows) -> Array:
    """A number inside (0, 1) for each row, a hash of the seed and the row."""
    keys = row_hashes(rows.X, np.full(len(rows), float(seed)))
    return ((keys >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
