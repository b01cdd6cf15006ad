"""What an estimator promises, in words and as fields."""

from __future__ import annotations

from dataclasses import dataclass

from localconformal.regressors.predictive_guarantee import PredictiveGuarantee


@dataclass(frozen=True)
class Guarantee:
    """The coverage promise of a fitted estimator.

    Attributes
    ----------
    confidence_level : float
        The level promised by `predict_interval` without arguments; others hold likewise.
    marginal : bool
        Coverage on average over new rows.
    finite_sample : bool
        It holds at any number of calibration rows, not only in the limit.
    conditional_on : str or None
        What coverage is promised given, beyond the average: "cell", or nothing.
    n_calibration : int or None
        Calibration rows in force; None before `conformalize`.
    assumptions : tuple of str
    caveats : tuple of str
    predictive : PredictiveGuarantee or None
        The promise of `predict_quantiles`, `predict_cdf` and `sample`, where there are any.
    """

    confidence_level: float
    marginal: bool = True
    finite_sample: bool = True
    conditional_on: str | None = None
    n_calibration: int | None = None
    assumptions: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    predictive: PredictiveGuarantee | None = None

    def __str__(self) -> str:
        """The promise as sentences."""
        if not self.marginal:
            promise = "No coverage level is guaranteed."
        else:
            where = f" within each {self.conditional_on}" if self.conditional_on else " on average"
            when = " at any sample size" if self.finite_sample else " in large samples"
            promise = (
                f"A new row lies in its interval with probability at least "
                f"{self.confidence_level:g}{where},{when}."
            )
        lines = [promise]
        lines += [f"Assumes that {text}." for text in self.assumptions]
        lines += [f"Note: {text}." for text in self.caveats]
        lines += [] if self.predictive is None else [str(self.predictive)]
        return "\n".join(lines)
