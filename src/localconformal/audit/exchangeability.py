"""Can these rows be trusted as calibration rows? A test of a fixed set, before deployment.

scores   the adjusted scores of the new rows against the calibration rows', by permutation
x        whether a classifier tells the rows apart, on a half that it has not seen
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import mannwhitneyu
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_consistent_length

from localconformal.audit.cells import ALPHA
from localconformal.columns import Features
from localconformal.composition import Calibration
from localconformal.quantiles import Array
from localconformal.regressors.base import calibration_of, check_target, intervals_at, rows_of
from localconformal.rows import take_rows
from localconformal.text import say_p_value

#: Number of permutations behind a p-value, and of simulated streams behind a power.
_N_PERMUTATIONS, _N_TRIALS = 999, 200
#: Most and fewest rows of either kind for the classifier.
_MOST_ROWS, _FEWEST_ROWS = 20_000, 40
_NUMBERS_AT_A_TIME = 2**20


@dataclass(frozen=True)
class Exchangeability:
    """Do n new rows look like the calibration rows?

    ``score_p_value`` tests whether both kinds of rows have the same distribution of scores,
    ``x_p_value`` the same of x; small values say that they differ. ``auc`` is the probability that
    the classifier ranks a new row above a calibration row, 1/2 if it cannot tell them apart; both
    are NaN if nothing is known about the calibration rows' x. ``power`` is the probability that the
    test of scores, at 5 %, detects noise large enough to lower coverage by alpha, such as from 90
    to 80 %. ``coverage`` is the share of new rows that their intervals cover.
    """

    n: int
    n_calibration: int
    confidence_level: float
    score_p_value: float
    x_p_value: float
    auc: float
    power: float
    coverage: float

    @property
    def is_doubtful(self) -> bool:
        """Whether either test finds a difference, at 5 % for both together (Bonferroni)."""
        return bool(np.nanmin([self.score_p_value, self.x_p_value]) < ALPHA / 2.0)

    def __str__(self) -> str:
        level = self.confidence_level
        fallen = f"coverage of {max(0.0, 2 * level - 1):.0%} instead of {level:.0%}"
        score, x = say_p_value(self.score_p_value), say_p_value(self.x_p_value)
        lines = [
            f"Can these {self.n:,} rows be trusted as calibration rows? "
            + ("They differ from the" if self.is_doubtful else "No difference was found from the")
            + f" {self.n_calibration:,} in use.",
            f"Scores: p = {score}; with this many rows, {fallen} would be found with probability "
            f"{self.power:.2f}.",
        ]
        if np.isnan(self.x_p_value):
            lines.append(
                "x: not tested; pass X_calibration, as the model keeps no rows."
                if min(self.n, self.n_calibration) >= _FEWEST_ROWS
                else f"x: not tested; that needs {_FEWEST_ROWS} rows of each kind."
            )
        else:
            ranks = f"a classifier ranks {self.auc:.0%} of pairs of the two kinds correctly"
            lines.append(f"x: p = {x}; {ranks}.")
        if self.score_p_value < ALPHA / 2.0:
            lines.append(
                f"Scores differ: intervals made for {level:.0%} cover {self.coverage:.1%} of these "
                "rows; do not add them to the calibration rows."
            )
        elif self.is_doubtful:
            lines.append(
                "Only x differs: coverage held for these rows but may fail for another mix of x."
            )
        return "\n".join(lines)


def exchangeability_test(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    X_calibration: Any = None,
    random_state: int = 0,
    **beside: Any,
) -> Exchangeability:
    """Whether rows come from the distribution of the calibration rows, as far as it matters here.

    Scores: if k_i of the i smallest of all N = n + m adjusted scores belong to new rows, the
    statistic is Anderson and Darling's for two samples,

        A = sum_i (k_i - i m / N)^2 / (i (N - i)),

    which emphasises the ends, where misses are. Its p-value is (1 + #{permuted >= A}) / 1000 over
    999 permutations of the rows (within cells that are calibrated separately): exact at any size
    and with ties. x: a classifier learns from one half of the rows which are new; the Mann-Whitney
    test on the other half (Lopez-Paz and Oquab, ICLR 2017) is valid for any classifier, which sees
    nothing of that half, not even its category labels.

    Parameters
    ----------
    model : fitted and calibrated estimator
    X : array or frame of shape (m, d)
        Rows that neither the model nor its calibration has seen.
    y : array of shape (m,)
    X_calibration : array or frame of shape (n, d), default=None
        The calibration rows' x. None: x is judged by the local law's quantiles there, which the
        model keeps, or not at all if it has no law.
    random_state : int, default=0
    **beside
        ``groups`` or ``weights`` of the rows, if `fit` was given them.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal import SplitConformalRegressor
    >>> rng = np.random.default_rng(1)
    >>> X, noise = rng.uniform(size=(1_400, 1)), rng.normal(size=1_400)
    >>> model = SplitConformalRegressor(LinearRegression(), calibration_size=None)
    >>> model = model.fit(X[:400], noise[:400]).conformalize(X[400:900], noise[400:900])
    >>> exchangeability_test(model, X[900:], noise[900:]).score_p_value > 0.05
    True
    >>> exchangeability_test(model, X[900:], 1.5 * noise[900:]).score_p_value
    0.001
    """
    calibration, level = calibration_of(model), float(model.confidence_level)
    rows, target = rows_of(model, X, beside), check_target(y, model._support)
    check_consistent_length(rows.X, target)
    fresh, at = Calibration.of(model.parts_, rows, target), np.array([level])
    sides = model.parts_.sides
    scores = [sides.together(one.scores(at))[:, 0, 0] for one in (calibration, fresh)]
    cells = [one.parts.correction.cells(one) for one in (calibration, fresh)]
    rng = np.random.default_rng(random_state)
    names = np.array([str(cell) for one in cells for cell in one])
    p_score = _score_test(scores[0], scores[1], names, rng)
    seen, new = X_calibration, rows.X
    if seen is not None:
        seen = model._rows(seen).X
    elif model.parts_.adjustment is not None:
        local = sides.levels(np.array([level, 0.5]))
        seen, new = (one.F.quantile(local).reshape(one.n, -1) for one in (calibration, fresh))
    p_x, auc = (nan, nan) if seen is None else _classifier_test(seen, new, rng)
    power = _power(calibration.n, fresh.n, level, rng)
    lower, upper = intervals_at(model, rows, at)[:, :, 0].T
    covered = float(np.mean((lower <= target) & (target <= upper)))
    return Exchangeability(fresh.n, calibration.n, level, p_score, p_x, auc, power, covered)


def _statistic(is_new: Array, is_cut: Any = True) -> Array:
    """Anderson and Darling's statistic of labels (..., N) in the order of the scores.

    With k of the first i rows new, and m of all N, the sum of (k - i m / N)^2 / (i (N - i)) over
    the cuts after i rows; there are none between equal scores.
    """
    N, i = is_new.shape[-1], np.arange(1.0, is_new.shape[-1])
    share = is_new.sum(axis=-1, keepdims=True) / N
    off = np.cumsum(is_new, axis=-1)[..., :-1] - i * share
    return np.asarray(np.sum(off**2 * (is_cut / (i * (N - i))), axis=-1))


def _permuted(is_new: Array, groups: list[Any], is_cut: Any, rng: Any) -> Array:
    """The statistic of 999 permutations of the labels within groups of rows: (999,)."""
    found, most = [np.empty(0)], max(1, _NUMBERS_AT_A_TIME // len(is_new))
    for start in range(0, _N_PERMUTATIONS, most):
        labels = np.tile(is_new, (min(most, _N_PERMUTATIONS - start), 1))
        for rows in groups:
            labels[:, rows] = rng.permuted(labels[:, rows], axis=1)
        found.append(_statistic(labels, is_cut))
    return np.concatenate(found)


def _score_test(seen: Array, new: Array, cells: NDArray[Any], rng: Any) -> float:
    """p-value of equal distributions; rows are permuted only within cells (n + m,)."""
    scores, is_new = np.concatenate([seen, new]), np.repeat([0.0, 1.0], [len(seen), len(new)])
    order = np.argsort(scores, kind="stable")
    is_new, cells, is_cut = is_new[order], cells[order], np.diff(scores[order]) > 0.0
    groups = [np.flatnonzero(cells == cell) for cell in np.unique(cells)]
    # Sums of the same numbers in another order may differ in their last digits.
    limit = _statistic(is_new, is_cut) * (1.0 - 1e-12)
    reached = int(np.count_nonzero(_permuted(is_new, groups, is_cut, rng) >= limit))
    return (1.0 + reached) / (1.0 + _N_PERMUTATIONS)


def _power(n: int, m: int, level: float, rng: Any) -> float:
    """Share of trials that the test detects, with normal noise so large that misses double."""
    alpha = 1.0 - level
    larger = ndtri(1.0 - alpha / 2.0) / ndtri(1.0 - min(2.0 * alpha, 0.99) / 2.0)
    labels = np.repeat([0.0, 1.0], [n, m])
    limit = np.quantile(_permuted(labels, [slice(None)], True, rng), 1.0 - ALPHA)
    hits = 0
    for _ in range(_N_TRIALS):
        noise = np.abs(rng.normal(size=n + m)) * np.where(labels, larger, 1.0)
        hits += bool(_statistic(labels[np.argsort(noise)]) > limit)
    return hits / _N_TRIALS


def _classifier_test(seen: Any, new: Any, rng: Any) -> tuple[float, float]:
    """p-value of equal distributions, and AUC, on the half that the classifier has not seen.

    Both are NaN with fewer than 40 rows of either kind.
    """
    if min(len(seen), len(new)) < _FEWEST_ROWS:
        return nan, nan
    kept = [rng.permutation(len(X))[:_MOST_ROWS] for X in (seen, new)]
    # From learning rows only: a label of the other half must not be known as "seen".
    view = Features().fit(take_rows(seen, kept[0][: len(kept[0]) // 2]))
    points, labels, learns = [], [], []
    for kind, (X, some) in enumerate(zip((seen, new), kept, strict=True)):
        points.append(view.transform(take_rows(X, some)))
        labels.append(np.full(len(some), kind))
        learns.append(np.arange(len(some)) < len(some) // 2)
    table, label, half = map(np.concatenate, (points, labels, learns))
    model = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=8, class_weight="balanced", random_state=0
    ).fit(table[half], label[half])
    found = model.predict_proba(table[~half])[:, 1]
    ours, theirs = found[label[~half] == 1], found[label[~half] == 0]
    test = mannwhitneyu(ours, theirs, alternative="greater")
    return float(test.pvalue), float(test.statistic / (len(ours) * len(theirs)))
