"""What an estimator promises, in words and as fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

_IN_PRACTICE = (
    "In practice it is about {:g}: the proven level, 1 - 2 alpha{}, is for the worst case "
    "({}, Barber, Candes, Ramdas and Tibshirani, 2021)."
)


def predictive_promise(n_calibration: int | None, lost: float | None = None) -> str:
    """What `predict_quantiles` and `predict_cdf` promise, with this many calibration rows.

    Across folds, the probabilities may be twice as large and ``lost`` more.
    """
    step = "" if n_calibration is None else f" = {1.0 / (n_calibration + 1):.3g}"
    most = ("t", "1 - t") if lost is None else (f"2 t + {lost:.3g}", f"2 (1 - t) + {lost:.3g}")
    near = (
        f"without ties in y each is within 1 / (n + 1){step} of that"
        if lost is None
        else "in practice the probabilities are about t and 1 - t"
    )
    return (
        "On average over new rows, y lies below its predicted t-quantile with probability at "
        f"most {most[0]} (t < 1/2) and above it with probability at most {most[1]} (t >= 1/2), at "
        f"any sample size; {near}.\n"
        "Note: the shape of the distribution at each x is the local law's estimate; at a "
        "given x, quantiles, probabilities, samples and CRPS carry no guarantee."
    )


@dataclass(frozen=True)
class Guarantee:
    """The coverage guarantee of a fitted estimator.

    Coverage at ``confidence_level`` on average over new rows (``marginal``), at any number of
    calibration rows (``finite_sample``), and within each ``conditional_on`` ("cell", "group", or
    under each "shift ..."), if that is not None. If less is proven than is seen in practice, as
    across folds, ``proven_level`` is what is proven and ``confidence_level`` about what is seen.
    ``n_calibration`` is None before `conformalize`; ``predictive`` is the promise of
    `predict_quantiles`, `predict_cdf` and `sample` in words, if the estimator has them.
    """

    #: The assumption of methods that treat all calibration rows alike.
    EXCHANGEABLE: ClassVar[str] = (
        "calibration rows and new rows are exchangeable, and no model in use has seen calibration "
        "rows"
    )

    confidence_level: float
    marginal: bool = True
    finite_sample: bool = True
    conditional_on: str | None = None
    n_calibration: int | None = None
    assumptions: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    predictive: str | None = None
    proven_level: float | None = None

    def __str__(self) -> str:
        if not self.marginal:
            promise = "No coverage level is guaranteed."
        else:
            where = " on average"
            if self.conditional_on:
                is_shift = self.conditional_on.startswith("shift")
                where = f" {'under' if is_shift else 'within'} each {self.conditional_on}"
            when = " at any sample size" if self.finite_sample else " in large samples"
            level = self.confidence_level if self.proven_level is None else self.proven_level
            promise = (
                f"A new y lies in its interval with probability at least {level:g}{where},{when}."
            )
        if self.proven_level is not None:
            is_less = self.proven_level < 2.0 * self.confidence_level - 1.0 - 1e-9
            source = (" minus a little for folds", "CV+") if is_less else ("", "jackknife+")
            promise += f" {_IN_PRACTICE.format(self.confidence_level, *source)}"
        assumed = [f"Assumes that {text}." for text in self.assumptions]
        noted = [f"Note: {text}." for text in self.caveats]
        predictive = [] if self.predictive is None else [self.predictive]
        return "\n".join([promise, *assumed, *noted, *predictive])
