"""Coverage in groups that may overlap, and over shifts of x: Gibbs, Cherian and Candes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from localconformal.composition import Method, Task
from localconformal.conditional import Conditional, Design
from localconformal.laws import LAW_METHODS, LAWS
from localconformal.regressors.guarantee import Guarantee
from localconformal.regressors.localized import LocalizedConformalRegressor
from localconformal.text import listing


@dataclass(eq=False, repr=False, kw_only=True)
class ConditionalConformalRegressor(LocalizedConformalRegressor):
    """Coverage of at least 1 - alpha in each of many groups, which may overlap.

    With phi(x) = (1, indicators of the groups, features), the threshold at x is the largest score
    S that lies below the fit at x of a quantile regression on phi, at level 1 - alpha, to the
    calibration scores and (x, S) itself. Then for every f(x) = phi(x)'b >= 0

        E[f(X) 1{Y in C(X)}] >= (1 - alpha) E[f(X)],

    that is, coverage holds within each group, and on average over new rows whose density is f
    times that of calibration rows (Gibbs, Cherian and Candes, JRSS B 2025).

    Parameters
    ----------
    groups : list of str, int or callable, default=None
        Variables whose labels are groups: columns by name (for arrays, by position), or functions
        of X that return one label per row, such as True and False. Or pass labels (n,) or a table
        (n, k) of them as ``groups=`` to `fit`, `conformalize`, `predict_interval` and `diagnose`.
    features : callable, default=None
        A function of X that returns numbers (n, k), such as a spline of a column. A constant is
        added. Without groups and features: five piecewise linear functions of the prediction.
    min_group_rows : int, default=1
        Labels of a variable with fewer training rows are merged into one group. Intervals are
        infinite in a group with too few calibration rows for the level (90 % needs 9), and at a
        label that occurs in neither training nor calibration rows.
    conformity_score : str or object, default="absolute"
        As in `LocalizedConformalRegressor`.
    law : str or object, default=None
        As in `LocalizedConformalRegressor`: adjusts the score before it is calibrated. None
        leaves the score unchanged.
    randomised : bool, default=False
        Make coverage exactly 1 - alpha over the class, by a random number per row derived from its
        values and ``random_state``. Intervals are shorter; empty ones are shown as a point.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(800, random_state=0)
    >>> groups = [lambda X: X[:, 0] > 2, lambda X: X[:, 0] < 3]
    >>> model = ConditionalConformalRegressor(groups=groups, random_state=0).fit(X, y)
    >>> model.predict_interval([[1.0], [2.5], [4.0]]).shape
    (3, 2)
    >>> model.guarantee_.conditional_on
    'group'
    """

    _parameter_constraints = {  # noqa: RUF012
        "groups": [None, list, tuple, str, Integral, callable],
        "features": [None, callable],
        "min_group_rows": [Interval(Integral, 1, None, closed="left")],
        "law": [None, StrOptions({"auto", *LAWS}), HasMethods(LAW_METHODS)],
        "randomised": ["boolean"],
    }
    beside = "groups"
    # Gives `set_fit_request(groups=...)`, as a signature would.
    __metadata_request__fit = {"groups": None}  # noqa: RUF012

    groups: Any = None
    features: Any = None
    min_group_rows: int = 1
    conformity_score: Any = "absolute"
    law: Any = None
    randomised: bool = False

    def _method(self, task: Task) -> Method:
        if task.rows.beside is not None and self.groups is not None:
            raise ValueError(
                f"got groups both in the constructor ({self.groups!r}) and in fit; pass one."
            )
        several = self.groups is None or isinstance(self.groups, (list, tuple))
        groups = self.groups if several else [self.groups]
        design = Design(groups, self.features, self.min_group_rows)
        method = replace(
            super()._method(task), correction=Conditional(design, bool(self.randomised))
        )
        # Without a law nothing is learned from reference scores: the model is fitted once.
        return replace(method, adjustment=None, reference="train") if self.law is None else method

    def _guarantee(self) -> Guarantee:
        design = self.parts_.correction.design
        only_groups = design.groups_ and design.features is None
        shift = "shift in the span of the groups and features"
        return replace(super()._guarantee(), conditional_on="group" if only_groups else shift)

    def _caveats(self) -> tuple[str, ...]:
        correction, calibration = self.parts_.correction, self.calibration_
        where = "within a group or shift, "
        said = tuple(where + one if "average" in one else one for one in super()._caveats())
        if correction.randomised:
            said += ("intervals are randomised, and empty ones are shown as a point",)
        if joined := correction.design.joined_:
            named = listing(f"{name} ({len(labels)})" for name, labels in joined.items())
            said += (f"labels with few training rows are merged into one group: {named}",)
        if calibration is None:
            return said
        if small := correction.small_groups(calibration, self.confidence_level):
            named = listing(f"{name} ({count})" for name, count in small.items())
            said += (f"intervals are infinite in groups with too few calibration rows: {named}",)
        if lost := correction.n_lost(calibration):
            many = "direction" if lost == 1 else "directions"
            said += (
                f"{lost} {many} of phi without calibration rows, where intervals are infinite",
            )
        return said
