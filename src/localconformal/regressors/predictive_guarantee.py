"""What a predictive distribution promises, in words and as fields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PredictiveGuarantee:
    """The calibration promise of `predict_quantiles` and `predict_cdf`.

    Attributes
    ----------
    n_calibration : int or None
        Calibration rows in force; None before `conformalize`.
    marginal : bool
        Calibrated on average over new rows.
    finite_sample : bool
        At any number of calibration rows, not only in the limit.
    conditional : bool
        Calibrated at each x: never promised.

    Examples
    --------
    >>> promise = PredictiveGuarantee(n_calibration=99)
    >>> promise.tolerance, promise.finite_levels
    (0.01, (0.01, 0.99))
    """

    n_calibration: int | None
    marginal: bool = True
    finite_sample: bool = True
    conditional: bool = False

    @property
    def tolerance(self) -> float | None:
        """1 / (n + 1): how far the share of rows below a quantile may be from its level."""
        return None if self.n_calibration is None else 1.0 / (self.n_calibration + 1)

    @property
    def finite_levels(self) -> tuple[float, float] | None:
        """Lowest and highest level whose quantile is finite."""
        return None if self.tolerance is None else (self.tolerance, 1.0 - self.tolerance)

    def __str__(self) -> str:
        """The promise as sentences."""
        step = "" if self.tolerance is None else f" = {self.tolerance:.3g}"
        return (
            "On average over new rows, y lies below its predicted t-quantile with probability at "
            "most t (t < 1/2) and above it with probability at most 1 - t (t >= 1/2), at any "
            f"sample size; without ties in y each is within 1 / (n + 1){step} of that.\n"
            "Note: the shape of the distribution at each x is the local law's estimate; at a "
            "given x nothing is promised of quantiles, probabilities, samples or CRPS."
        )
