"""Excess risk of the target coverage (ERT; Braun et al., 2025): can misses be foreseen from x?

If coverage is tau at every x, no classifier predicts whether y is covered better than the
constant tau. How much better a cross-fitted one does, under a proper loss, is in expectation a
lower bound of how far pi(x) = P(covered | x) lies from tau, in the distance of that loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.columns import LABEL, read_columns
from localconformal.metrics.intervals import each_level, is_covered
from localconformal.quantiles import Array
from localconformal.rows import make_frame

#: Probabilities are kept this far from 0 and 1, as covmetrics does.
_CLIP = 1e-6
#: With fewer covered or missed rows to learn from, the default classifier is their share.
_FEWEST_OF_A_KIND = 10

#: (training rows, their coverage, rows to predict) -> probability of being covered
_Learner = Callable[[NDArray[np.intp], NDArray[np.bool_], NDArray[np.intp]], Array]


@dataclass(frozen=True, eq=False)
class ExcessRisk:
    """Excess risks; ``float(result)`` is ``l1``. All are 0 for ideal intervals, but for noise.

    In expectation ``l1`` bounds E|pi(x) - tau| from below, ``l2`` E(pi(x) - tau)^2 and ``kl``
    E KL(pi(x), tau); they can be negative by noise. ``_over`` is the part from rows said to be
    covered too often, ``_under`` that from rows said to be covered too rarely; the two add up.
    ``_error`` are standard errors given the classifiers of the folds, NaN for one row. The folds'
    share is missing: of ideal intervals l1 / l1_error had the standard deviation 1.6 at 60 rows,
    1.4 at 100, 1.2 at 200 and 1.1 at 500, where 1 is right. ``predicted`` (n,) is the cross-fitted
    estimate of pi(x) at each row.
    """

    l1: float
    l2: float
    kl: float
    l1_error: float
    l2_error: float
    kl_error: float
    l1_over: float
    l2_over: float
    kl_over: float
    l1_under: float
    l2_under: float
    kl_under: float
    n: int
    predicted: Array = field(repr=False)

    def __float__(self) -> float:
        return self.l1

    def frame(self) -> Any:
        """One row per loss (pandas)."""
        parts = {"value": "", "error": "_error", "over": "_over", "under": "_under"}
        columns: dict[str, list[Any]] = {"loss": ["l1", "l2", "kl"]}
        for name, suffix in parts.items():
            columns[name] = [getattr(self, loss + suffix) for loss in columns["loss"]]
        return make_frame(columns, None)


def excess_risk(
    y_true: ArrayLike,
    intervals: ArrayLike,
    X: Any,
    confidence_level: float | ArrayLike = 0.9,
    *,
    classifier: Any = None,
    n_splits: int = 5,
    random_state: int = 0,
) -> ExcessRisk | list[ExcessRisk]:
    """Excess risk of the target coverage, by L1, L2 and KL.

    With c = 1 where y is covered, p the cross-fitted probability of that, and tau the level,
    these are the means of

        L1:  sign(tau - p) (tau - c)
        L2:  (tau - c)^2 - (p - c)^2
        KL:  c log(p / tau) + (1 - c) log((1 - p) / (1 - tau)).

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    X : array or frame of shape (n, d), or columns that were read before
        What misses may be foreseen from.
    confidence_level : float or array of shape (L,), default=0.9
    classifier : classifier with predict_proba, default=None
        Is given X as it is. None is gradient boosting of small trees with early stopping, and
        takes missing values and labels; where it has fewer than 10 covered or missed rows to
        learn from, their share is what it predicts.
    n_splits : int, default=5
        Folds, of which each is predicted by the others; no more than rows.
    random_state : int, default=0
        Seed of the folds and of the default classifier.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 1))
    >>> y = X[:, 0] * rng.normal(size=1000)
    >>> from sklearn.linear_model import LogisticRegression
    >>> same = np.tile([-1.0, 1.0], (1000, 1))
    >>> risk = excess_risk(y, same, X, classifier=LogisticRegression())
    >>> risk.l1 > 3 * risk.l1_error
    True
    """
    if n_splits < 2:
        raise ValueError(f"n_splits: got {n_splits}; expected at least 2.")

    def of_level(y: Array, bounds: Array, level: float) -> ExcessRisk:
        own = classifier is None
        learn = _default_learner(X, len(y), random_state) if own else _cloned(classifier, X)
        inside = is_covered(y, bounds)
        predicted = _cross_fit(learn, inside, n_splits, random_state)
        return _risks(predicted, inside.astype(np.float64), level)

    return each_level(of_level, y_true, intervals, confidence_level)


def _cross_fit(
    learn: _Learner, covered: NDArray[np.bool_], n_splits: int, random_state: int
) -> Array:
    """Probability of being covered (n,), each row's learned from the other folds."""
    # Loads scikit-learn, which the other metrics do without.
    from localconformal.rows import fold_rows

    if len(covered) == 1:
        return np.full(1, np.nan)
    predicted = np.empty(len(covered))
    for others, fold in fold_rows(len(covered), n_splits, random_state):
        seen = covered[others]
        one_kind = seen.all() or not seen.any()
        predicted[fold] = seen.mean() if one_kind else learn(others, seen, fold)
    return predicted


def _default_learner(X: Any, n: int, random_state: int) -> _Learner:
    """Boosted small trees on the numeric view of X."""
    columns = read_columns(X, n)
    numbers = np.stack([column.numbers for column in columns], axis=1)
    is_label = np.array([column.kind == LABEL and not column.is_flag for column in columns])

    def learn(others: NDArray[np.intp], seen: NDArray[np.bool_], fold: NDArray[np.intp]) -> Array:
        from sklearn.ensemble import HistGradientBoostingClassifier

        from localconformal.rows import few_threads

        if min(seen.sum(), (~seen).sum()) < _FEWEST_OF_A_KIND:
            return np.full(len(fold), seen.mean())
        model = HistGradientBoostingClassifier(
            learning_rate=0.1,
            max_leaf_nodes=8,
            min_samples_leaf=max(20, len(seen) // 500),
            early_stopping=True,
            n_iter_no_change=5,
            categorical_features=is_label,
            random_state=random_state,
        )
        # Boosting cannot bin a column of which it knows nothing.
        known = np.isfinite(numbers[others]).any(axis=0)
        values = np.where(known, numbers, 0.0)
        with few_threads(values):
            model.fit(values[others], seen)
        return _probability_of_cover(model, values[fold])

    return learn


def _cloned(classifier: Any, X: Any) -> _Learner:
    """Clones of the user's classifier, which see X as it is."""
    from sklearn.base import clone

    from localconformal.rows import few_threads, take_rows

    def learn(others: NDArray[np.intp], seen: NDArray[np.bool_], fold: NDArray[np.intp]) -> Array:
        with few_threads(X):
            model = clone(classifier).fit(take_rows(X, others), seen)
        return _probability_of_cover(model, take_rows(X, fold))

    return learn


def _probability_of_cover(model: Any, X: Any) -> Array:
    """The column of True in ``predict_proba``."""
    return np.asarray(model.predict_proba(X), dtype=np.float64)[:, list(model.classes_).index(True)]


def _excesses(p: Array, c: Array, tau: float) -> dict[str, Array]:
    """What each row adds to each risk, of predictions p (n,) of coverage c (n,)."""
    q = np.clip(p, _CLIP, 1.0 - _CLIP)
    return {
        "l1": np.sign(tau - p) * (tau - c),
        "l2": (tau - c) ** 2 - (p - c) ** 2,
        "kl": c * np.log(q / tau) + (1.0 - c) * np.log((1.0 - q) / (1.0 - tau)),
    }


def _risks(p: Array, c: Array, tau: float) -> ExcessRisk:
    """All excess risks, with their errors and their two parts."""
    n = len(p)
    numbers: dict[str, float] = {}
    for suffix, part in (("", p), ("_over", np.maximum(p, tau)), ("_under", np.minimum(p, tau))):
        each = _excesses(part, c, tau)
        numbers |= {loss + suffix: float(values.mean()) for loss, values in each.items()}
        if not suffix:
            spreads = {k: v.std(ddof=1) if n > 1 else np.nan for k, v in each.items()}
            numbers |= {f"{loss}_error": float(s / np.sqrt(n)) for loss, s in spreads.items()}
    return ExcessRisk(n=n, predicted=p, **numbers)
