"""Score, law, adjustment and sides, put together: the one equation of this library.

    point model -> score V -> local law F(v | x) -> adjustment p(V, F) -> theta* -> interval

Training rows fit the score and its reference values; those fit the law and the constants of
the adjustment; calibration rows give theta*. A query walks back: T = sup{v : p(v, F) <= theta*}
and the score turns T into bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from localconformal.adjustments import BaseAdjustment
from localconformal.calibration import Calibration, SideRule
from localconformal.frames import at_ends, make_frame
from localconformal.laws import SidedLaw
from localconformal.laws.once import one_query
from localconformal.parallel import kept_filters
from localconformal.quantiles import Array
from localconformal.regressors.calibrated import CalibratedRegressor
from localconformal.regressors.distribution import check_band
from localconformal.regressors.guarantee import Guarantee
from localconformal.regressors.predictive import WithPredictiveDistribution
from localconformal.regressors.reference import Reference, ScoreTask, make_reference
from localconformal.regressors.response import check_target
from localconformal.regressors.row_parts import row_parts
from localconformal.scores import BaseScore
from localconformal.selection import Task, is_auto, select, select_law
from localconformal.selection.cost import BUDGET

#: Numbers in a row of more than one dimension up to which law="auto" takes them for features.
FLATTENED_UP_TO = 1_000


@dataclass(frozen=True)
class Composition:
    """The unfitted parts of a method."""

    score: BaseScore
    adjustment: BaseAdjustment
    rule: SideRule
    law: Any = "auto"
    reference: str = "cross-fit"
    #: Whether law="auto" may choose the unit of the correction too.
    adjustment_is_free: bool = False
    budget: float = BUDGET
    #: A law whose kernel weighs calibration rows, for methods that do so.
    localizer: Any = None
    #: Whether the method learns something else from reference scores, such as a partition.
    learns_more: bool = False

    @property
    def needs_reference(self) -> bool:
        """Whether reference scores are made."""
        return self.adjustment.uses_law or self.localizer is not None or self.learns_more


class ComposedRegressor(CalibratedRegressor, WithPredictiveDistribution):
    """An estimator that is a composition; a subclass names its parts in `_composition`."""

    def _composition(self) -> Composition:
        raise NotImplementedError

    @kept_filters
    @one_query()
    def _fit_parts(self, X: Any, y: Array, fit_params: Mapping[str, Any], seed: int) -> None:
        parts = self._composition()
        if is_auto(parts.law) and parts.adjustment.uses_law:
            check_searchable(X)
        estimator = self._base_estimator(seed)
        task = ScoreTask(
            parts.score, estimator, X, y, self.confidence_level, seed, fit_params, self.n_jobs
        )
        self._selection: dict[str, list[Any]] | None = None
        self._frozen = parts.score.comes_fitted(estimator)
        self.side_rule_ = parts.rule
        self.adjustment_ = parts.adjustment
        self.law_ = SidedLaw((), mirrored=False)
        if not parts.needs_reference:
            with self._stage("train"):
                self.score_ = task.fit()
            return
        with self._stage("train"):
            reference = make_reference(parts.reference, task)
        self.score_ = reference.score
        V = parts.rule.fold(check_scores(reference.V))
        with self._stage("law"):
            self._fit_laws(parts, reference, V, seed)
        self.fit_report_["rows"]["reference"] = len(V)

    def _fit_laws(self, parts: Composition, reference: Reference, V: Array, seed: int) -> None:
        """Everything that is learned from reference scores V (n, S)."""
        if parts.localizer is not None:
            kernel = select_law(parts.localizer, seed, self.n_jobs)
            kernel = kernel.fit(reference.X, V.max(axis=1), outputs=reference.outputs)
            self.localizer_ = kernel.localizer()
        if not parts.adjustment.uses_law:
            return
        if is_auto(parts.law):
            self._select(parts, reference, V, seed)
        else:
            law = select_law(parts.law, seed, self.n_jobs)
            self.law_ = SidedLaw.fit(law, reference.X, V, outputs=reference.outputs)
        self.adjustment_.fit(reference.sizes(V))

    def _select(self, parts: Composition, reference: Reference, V: Array, seed: int) -> None:
        task = Task(
            reference.X,
            V,
            reference.outputs,
            parts.rule.local_levels(np.array([self.confidence_level]))[:, 0],
            None if parts.adjustment_is_free else parts.adjustment,
            parts.budget,
            seed,
            self.n_jobs,
        )
        choice = select(task)
        self.law_, self.adjustment_ = choice.law, choice.adjustment
        self._selection = choice.columns
        self.fit_report_["rows"]["selection"] = choice.rows

    @property
    def selection_(self) -> Any:
        """Candidates of ``law="auto"`` as a frame, the best first.

        ``law``: the candidate; ``location``: whether it is a law of the residual of the "point"
        model or of a "blend"; ``correction``: "additive" as it is, or "scaled" by the local
        width; ``interval_score``: at training rows that the candidate has not seen;
        ``weight``: a law's share in the stack; ``chosen``: what is in use; ``side``: 1 for
        the law of both sides, or of the upper one where the lower (0) has its own.

        How many rows were looked at stands in ``fit_report_["rows"]["selection"]``; 0 means
        that there was no search.
        """
        check_is_fitted(self)
        if self._selection is None:
            raise AttributeError(
                f"selection_ belongs to law='auto'; this {type(self).__name__} was told its law, "
                "or its adjustment uses none."
            )
        first, last = ["law", "interval_score", "correction"], ["side", "weight", "chosen"]
        return make_frame(at_ends(self._selection, first, last), like=None)

    @one_query()
    def _calibrate(self, X: Any, y: Array, extra: Any) -> Calibration:
        V = self.side_rule_.fold(calibration_scores(self.score_, X, y))
        cells = self._cells(X, extra)
        calibration = Calibration(
            V,
            self.law_.at(X),
            self.adjustment_,
            self.side_rule_,
            cells,
            self.law_.version,
            self._view(X, extra),
        )
        # The default level now, so that a first prediction does not pay for it.
        calibration.correction(np.array([self.confidence_level]), cells[:1])
        return calibration

    def update_law(self, X: Any, y: ArrayLike) -> ComposedRegressor:
        """Add rows to the local law, without refitting the model; calibration is cleared.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            Rows that neither the model nor a later calibration sees.
        y : array of shape (n,)

        Returns
        -------
        self
            `conformalize` must follow. Only laws on a sketch can be added to.
        """
        check_is_fitted(self)
        if not self.law_.laws:
            raise ValueError(f"{type(self).__name__} has no local law; there is nothing to add to.")
        X, y = self._check_rows(X), check_target(y)
        check_consistent_length(X, y)
        V = check_scores(self.score_.values(self.score_.band(X), y))
        self.law_.update(X, self.side_rule_.fold(V))
        self.calibration_ = None
        return self

    def _check_calibrated(self) -> None:
        super()._check_calibrated()
        if self.calibration_.version != self.law_.version:
            raise NotFittedError(
                "The local law was added to after calibration, which voids it; call "
                "conformalize(X_cal, y_cal) again."
            )

    def _cells(self, X: Any, extra: Any) -> NDArray[Any]:
        """Cell of each row in the partition that is calibrated separately; one cell here."""
        return np.zeros(len(X), dtype=np.intp)

    def _view(self, X: Any, extra: Any) -> Any:
        """What weighs rows against each other; nothing here."""
        return None

    def _correction(self, X: Any, levels: Array, extra: Any) -> Array:
        """theta* at each row: (n, S, L)."""
        return self.calibration_.correction(levels, self._cells(X, extra))

    def _bounds(self, X: Any, levels: Array, extra: Any) -> tuple[Array, str | None]:
        raw = np.empty((len(X), 2, len(levels)))
        theta = np.empty((len(X), self.side_rule_.n_sides, len(levels)))
        for part, rows, held in row_parts(X, extra):
            raw[part], theta[part] = self._part_of_bounds(rows, levels, held)
        short = np.isinf(theta).any()
        return raw, self._shortage(theta, levels, X, extra) if short else None

    @one_query()
    def _part_of_bounds(self, X: Any, levels: Array, extra: Any) -> tuple[Array, Array]:
        """Raw bounds (n, 2, L) and theta* (n, S, L)."""
        F, theta = self.law_.at(X), self._correction(X, levels, extra)
        T = self.adjustment_.threshold(theta, F, self.side_rule_.local_levels(levels))
        T = np.where(np.isposinf(theta), np.inf, T)
        both = np.broadcast_to(T, (len(T), 2, len(levels)))
        return self.score_.bounds(check_band(self.score_.band(X)), both), theta

    def _shortage(self, theta: Array, levels: Array, X: Any, extra: Any) -> str:
        """Why some of the corrections are infinite."""
        return self._why_infinite(np.isinf(theta), levels, self._cells(X, extra))

    def _local(self, X: Any, level: float, extra: Any) -> dict[str, NDArray[Any]]:
        levels = np.array([level])
        F = self.law_.at(X)
        lower, upper = np.zeros(len(X)), np.zeros(len(X))
        size = self.calibration_.counts(self._cells(X, extra))
        fallback = np.zeros(len(X), dtype=bool)
        if self.adjustment_.uses_law:
            quantile = F.quantile(self.side_rule_.local_levels(levels))[:, :, 0]
            lower, upper = -quantile[:, 0], quantile[:, -1]
            told = F.moments()
            size, fallback = told[:, :, 2].min(axis=1), told[:, :, 3].max(axis=1) > 0
        return {
            "effective_sample_size": size,
            "local_lower": lower,
            "local_upper": upper,
            "correction": self._correction(X, levels, extra)[:, :, 0].max(axis=1),
            "fallback": fallback,
        }

    def _guarantee(self) -> Guarantee:
        return replace(super()._guarantee(), predictive=self._predictive_guarantee())


def check_searchable(X: Any) -> None:
    """Rows of more than one dimension are compared flattened, where that can mean something."""
    shape = X.shape[1:]
    if len(shape) > 1 and math.prod(shape) > FLATTENED_UP_TO:
        raise ValueError(
            f"law='auto' came with rows of shape {shape}; it compares laws on at most "
            f"{FLATTENED_UP_TO} numbers a row: give the regressor embedded rows, as those of "
            "TorchEmbedding, or a law such as KernelLaw(embedding=...)."
        )


def check_scores(V: Array) -> Array:
    """Reference scores, finite or refused: a law is made of numbers."""
    if not np.all(np.isfinite(V)):
        bad = np.count_nonzero(~np.isfinite(V).all(axis=1))
        raise ValueError(
            f"{bad} of {len(V)} reference scores are NaN or infinite; finite numbers were "
            "expected: check the base model's predictions."
        )
    return V


def calibration_scores(score: BaseScore, X: Any, y: Array) -> Array:
    """Scores of calibration rows, (n, 2), by finite predictions.

    One beyond the range of float64 is infinite, and counts as larger than all others.
    """
    band = score.band(X)
    V = score.values(band, y)
    if np.isnan(V).any():
        bad = np.count_nonzero(np.isnan(V).any(axis=1))
        raise ValueError(
            f"{bad} of {len(V)} calibration scores are NaN; numbers were expected: check the base "
            "model's predictions."
        )
    check_band(band)
    return V
