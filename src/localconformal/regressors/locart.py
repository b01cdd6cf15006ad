"""LOCART and LOFOREST: cells, or local quantiles, from trees of the scores."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from localconformal.adjustments import AdditiveQuantile, Plain
from localconformal.calibration import SideRule
from localconformal.laws.forest import Points, as_points
from localconformal.laws.leaf_quantiles import LeafQuantilesLaw
from localconformal.laws.view import fit_view, in_canonical_order
from localconformal.quantiles import Array
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import ComposedRegressor, Composition
from localconformal.regressors.guarantee import Guarantee
from localconformal.regressors.reference import REFERENCES, Reference
from localconformal.scores import SCORES, BaseScore, make_score
from localconformal.splitting import split_rows

#: Share of the reference rows on which a tree is pruned.
PRUNING_SHARE = 0.3
#: Costs of complexity that are tried: each takes a tree.
MOST_COSTS = 25


class LocartRegressor(ComposedRegressor):
    """LOCART: C(x) = {y : V(x, y) <= cq(1 - alpha; calibration scores in the leaf of x)}.

    A regression tree of the scores partitions the features; each leaf is calibrated by itself, so
    that coverage holds within every leaf. The tree is grown on cross-fit training scores:
    calibration rows have no part in it.

    The forest version (LOFOREST) averages the leaves' quantiles over trees. That average alone
    has no guarantee; here it is a local law with an additive correction, as in SLCP:
    C(x) = {y : V(x, y) <= Q(1 - alpha | x) + theta*}, which covers on average.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    partition : {"tree", "forest"}, default="tree"
    min_samples_leaf : int, default=100
        Training rows in a leaf. With the default ``calibration_size`` a third as many calibration
        rows fall into one.
    n_estimators : int, default=100
        Trees of the forest; a tree is one.
    conformity_score : str or object, default="residual"
        As in `LocalizedConformalRegressor`; the larger of its two sides is calibrated.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one), threads of the forest (None is one per core).

    Attributes
    ----------
    tree_ : DecisionTreeRegressor
        The partition, for ``partition="tree"``.

    References
    ----------
    Cabezas, Soares, Ramos, Stern and Izbicki, "Regression trees for fast and adaptive prediction
    intervals", Information Sciences 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(800, 1))
    >>> y = np.where(X[:, 0] > 0.5, 3.0, 1.0) * rng.normal(size=800)
    >>> model = LocartRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.1], [0.9]]).T
    >>> bool((upper - lower)[0] < (upper - lower)[1])
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "estimator": [None, HasMethods("predict"), tuple, list],
        "partition": [StrOptions({"tree", "forest"})],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "conformity_score": [StrOptions(set(SCORES)), BaseScore],
        "reference": [StrOptions(set(REFERENCES))],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        partition: str = "tree",
        min_samples_leaf: int = 100,
        n_estimators: int = 100,
        conformity_score: Any = "residual",
        reference: str = "cross-fit",
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.partition = partition
        self.min_samples_leaf = min_samples_leaf
        self.n_estimators = n_estimators
        self.conformity_score = conformity_score
        self.reference = reference
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _composition(self) -> Composition:
        score, rule = make_score(self.conformity_score), SideRule("absolute")
        if self.partition == "tree":
            return Composition(score, Plain(), rule, reference=self.reference, learns_more=True)
        law = LeafQuantilesLaw(self.n_estimators, self.min_samples_leaf)
        return Composition(score, AdditiveQuantile(), rule, law, self.reference)

    def _fit_laws(self, parts: Composition, reference: Reference, V: Array, seed: int) -> None:
        super()._fit_laws(parts, reference, V, seed)
        self.tree_: DecisionTreeRegressor | None = None
        if parts.learns_more:
            X, v, outputs = in_canonical_order(reference.X, V[:, 0], reference.outputs)
            self.view_, points = fit_view(None, X, v, outputs)
            self.tree_ = pruned_tree(as_points(points), v, self.min_samples_leaf, seed)

    def _cells(self, X: Any, extra: Any) -> NDArray[Any]:
        if self.tree_ is None:
            return super()._cells(X, extra)
        return np.asarray(self.tree_.apply(as_points(self.view_(X))))

    def _name_cells(self, cells: NDArray[Any]) -> str:
        return "" if self.tree_ is None else f" (the fewest of {len(cells)} leaves that are short)"

    def _guarantee(self) -> Guarantee:
        promise = super()._guarantee()
        return promise if self.tree_ is None else replace(promise, conditional_on="cell")

    def _caveats(self) -> tuple[str, ...]:
        average, *others = super()._caveats()
        return (average if self.tree_ is None else f"within a leaf, {average}", *others)


def pruned_tree(
    points: Points, scores: Array, min_samples_leaf: int, seed: int
) -> DecisionTreeRegressor:
    """A tree of the scores, pruned by the squared error at rows it was not grown on."""
    tree = DecisionTreeRegressor(min_samples_leaf=min_samples_leaf, random_state=seed)
    grown, held = split_rows(len(scores), PRUNING_SHARE, seed)
    if len(grown) < 2 * min_samples_leaf or len(held) == 0:
        return tree.fit(points, scores)
    path = tree.cost_complexity_pruning_path(points[grown], scores[grown])
    costs = np.unique(np.maximum(path.ccp_alphas, 0.0))
    costs = costs[np.unique(np.linspace(0, len(costs) - 1, MOST_COSTS).astype(int))]
    errors = []
    for cost in costs:
        tried = tree.set_params(ccp_alpha=cost).fit(points[grown], scores[grown])
        errors.append(np.mean((scores[held] - tried.predict(points[held])) ** 2))
    # Of equal ones the smallest tree.
    best = costs[len(costs) - 1 - int(np.argmin(errors[::-1]))]
    return tree.set_params(ccp_alpha=best).fit(points, scores)
