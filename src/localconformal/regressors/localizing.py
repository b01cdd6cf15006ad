"""What methods share that weigh calibration rows by the kernel of a law: LCP, RLCP and LVD."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import HasMethods, StrOptions

from localconformal.adjustments import Plain
from localconformal.calibration import SideRule
from localconformal.laws import LAW_METHODS, LAWS, BaseLaw, make_law
from localconformal.models import shown
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import Composition
from localconformal.regressors.pairwise import PairwiseRegressor
from localconformal.regressors.reference import REFERENCES
from localconformal.scores import SCORES, BaseScore, make_score


class LocalizingRegressor(PairwiseRegressor):
    """The larger side of a score, calibrated around each row; a subclass has a default law."""

    #: Whether the default law learns from scores; models that make them are else for nothing.
    default_needs_scores = True

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "estimator": [None, HasMethods("predict"), tuple, list],
        "conformity_score": [StrOptions(set(SCORES)), BaseScore],
        "law": [None, StrOptions(set(LAWS)), HasMethods(LAW_METHODS)],
        "reference": [StrOptions(set(REFERENCES))],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        conformity_score: Any = "residual",
        law: Any = None,
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        reference: str = "cross-fit",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.conformity_score = conformity_score
        self.law = law
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.reference = reference
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _default_law(self) -> BaseLaw:
        """The law whose kernel is used where the user names none."""
        raise NotImplementedError

    def _check_law(self, law: BaseLaw) -> None:
        """Refuse, before anything is trained, a law without what the method needs."""
        if type(law).localizer is BaseLaw.localizer:
            raise ValueError(
                f"law is {shown(law)}, which has no kernel between two rows; a kernel, neighbors, "
                "forest or uniform law was expected."
            )

    def _composition(self) -> Composition:
        law = self._default_law() if self.law is None else make_law(self.law)
        self._check_law(law)
        scoreless = self.law is None and not self.default_needs_scores
        return Composition(
            score=make_score(self.conformity_score),
            adjustment=Plain(),
            rule=SideRule("absolute"),
            reference="train" if scoreless and self.reference == "cross-fit" else self.reference,
            localizer=law,
        )
