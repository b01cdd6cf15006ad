"""A separate calibration in each cell of a partition: Mondrian, LOCART (and LOFOREST)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from sklearn.tree import DecisionTreeRegressor
from sklearn.utils._param_validation import Interval, StrOptions

from localconformal.adjustments import AdditiveQuantile
from localconformal.composition import Method, Task
from localconformal.corrections import Cells, LabelCell, PointBin, TreeLeaf
from localconformal.laws.forest import ForestLaw, default_forest
from localconformal.regressors.base import BaseConformalRegressor
from localconformal.regressors.guarantee import Guarantee
from localconformal.scores import AbsoluteScore, make_score


@dataclass(eq=False, repr=False, kw_only=True)
class MondrianConformalRegressor(BaseConformalRegressor):
    """Split conformal prediction within each cell: C(x) = mu(x) +- cq(1 - alpha; cell of x).

    Coverage is at least 1 - alpha within every cell, not only on average.

    Parameters
    ----------
    groups : str or int or callable, default=None
        Cell of a row: a column by name (for arrays, by position), or a callable of X that
        returns one label per row. None: five bins of the prediction, with edges at quantiles of
        the predictions for training rows; or pass labels as ``groups=`` to `fit`,
        `conformalize`, `predict_interval` and `diagnose`.
    small_cells : {"infinite", "pool"}, default="infinite"
        A cell with too few calibration rows for the level gets infinite bounds, or the
        correction of all rows together; the latter loses the guarantee, even on average.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> model = MondrianConformalRegressor(groups=lambda X: X[:, 0] > 2.5, random_state=0)
    >>> lower, upper = model.fit(X, y).predict_interval([[1.0], [4.0]]).T
    >>> bool((upper - lower)[0] != (upper - lower)[1])
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "groups": [None, str, Integral, callable],
        "small_cells": [StrOptions({"infinite", "pool"})],
    }
    beside = "groups"
    # Gives `set_fit_request(groups=...)`, as a signature would.
    __metadata_request__fit = {"groups": None}  # noqa: RUF012

    groups: Any = None
    small_cells: str = "infinite"

    def _method(self, task: Task) -> Method:
        if task.rows.beside is not None and self.groups is not None:
            raise ValueError(
                f"got groups both in the constructor ({self.groups!r}) and in fit; pass one."
            )
        is_named = task.rows.beside is not None or self.groups is not None
        cell = LabelCell(self.groups) if is_named else PointBin()
        correction = Cells(cell, pool=self.small_cells == "pool")
        return Method(AbsoluteScore(), correction=correction, reference="train")

    def _guarantee(self) -> Guarantee:
        promise = super()._guarantee()
        if self._is_by_cell:
            return promise
        lost = "small cells use the correction of all rows, which voids the guarantee there"
        return replace(promise, marginal=False, caveats=(lost, *promise.caveats[1:]))


@dataclass(eq=False, repr=False, kw_only=True)
class LocartRegressor(BaseConformalRegressor):
    """LOCART: C(x) = {y : V(x, y) <= cq(1 - alpha; calibration scores in the leaf of x)}.

    The leaves are those of a regression tree fitted to cross-fit training scores; coverage holds
    within each. The forest version (LOFOREST) averages over trees, which has no guarantee by
    itself: here it is a local law (`ForestLaw` with large leaves) with an additive correction, as
    in SLCP, which guarantees coverage on average. (Cabezas et al., Information Sciences 2025.)

    Parameters
    ----------
    partition : {"tree", "forest"}, default="tree"
    min_samples_leaf : int, default=100
        Minimum training rows per leaf; by default a leaf gets a third as many calibration rows.
    n_estimators : int, default=100
        Trees of the forest; not used for ``partition="tree"``.
    conformity_score : str or object, default="residual"
        As in `LocalizedConformalRegressor`; the larger of its two sides is calibrated.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"

    Attributes
    ----------
    tree_ : DecisionTreeRegressor
        The partition, for ``partition="tree"``.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> bool(LocartRegressor(random_state=0).fit(X, y).tree_.get_n_leaves() > 1)
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        "partition": [StrOptions({"tree", "forest"})],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
    }

    partition: str = "tree"
    min_samples_leaf: int = 100
    n_estimators: int = 100
    conformity_score: Any = "residual"
    reference: str = "cross-fit"

    def _method(self, task: Task) -> Method:
        score = make_score(self.conformity_score)
        if self.partition == "tree":
            cells = Cells(TreeLeaf(self.min_samples_leaf))
            return Method(score, correction=cells, reference=self.reference)
        size = self.n_estimators, self.min_samples_leaf, 1.0
        law = ForestLaw(default_forest(len(task.y), None, self.n_jobs, *size), target="scores")
        return Method(score, AdditiveQuantile(), law=law, reference=self.reference)

    @property
    def tree_(self) -> DecisionTreeRegressor | None:
        """The partition; None for a forest."""
        correction = self.parts_.correction
        return correction.cell.tree_ if isinstance(correction, Cells) else None
