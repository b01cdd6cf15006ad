"""How good point predictions are, beside the best constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics.correlation import check_prediction
from localconformal.text import say_number, say_tick


@dataclass(frozen=True)
class Accuracy:
    """Errors of point predictions; those of a constant beside them.

    Attributes
    ----------
    n : int
    r2 : float
        1 less the squared errors over those of the mean of y; NaN where y is the same everywhere.
    mae : float
        Mean absolute error.
    constant_mae : float
        That of the median of y, the constant of the least.
    """

    n: int
    r2: float
    mae: float
    constant_mae: float

    @property
    def text(self) -> str:
        """Both errors in one sentence."""
        return (
            f"The point predictions have R2 = {say_tick(self.r2, 0.1)} and are off by "
            f"{say_number(self.mae)} on average; the best constant is off by "
            f"{say_number(self.constant_mae)}."
        )

    @property
    def warning(self) -> str:
        """That a constant would do as well; nothing where it would not."""
        if np.isnan(self.r2):
            return ""
        fails = {"squared": self.r2 <= 0.0, "absolute": self.mae >= self.constant_mae}
        errors = " and ".join(name for name, fail in fails.items() if fail)
        if not errors:
            return ""
        return (
            f"By its {errors} errors the point model is no better than a constant: better "
            "features or another model would shorten the intervals."
        )


def accuracy(y: ArrayLike, y_pred: ArrayLike) -> Accuracy:
    """Errors of point predictions of rows that the model has not seen.

    Parameters
    ----------
    y : array of shape (n,)
    y_pred : array of shape (n,)

    Returns
    -------
    Accuracy

    Examples
    --------
    >>> found = accuracy([1.0, 2.0, 3.0, 6.0], [1.5, 2.0, 2.5, 5.0])
    >>> found.mae, found.constant_mae, found.warning
    (0.5, 1.5, '')
    >>> accuracy([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]).r2
    -3.0
    """
    actual = np.asarray(y, dtype=np.float64)
    predicted = check_prediction(y_pred, len(actual))
    around = actual - actual.mean()
    # Squares of numbers at most 1 do not overflow.
    scale = float(np.abs(around).max())
    r2 = float("nan")
    if scale > 0.0:
        errors, spread = (actual - predicted) / scale, around / scale
        r2 = 1.0 - float(np.sum(errors**2) / np.sum(spread**2))
    return Accuracy(
        n=len(actual),
        r2=r2,
        mae=float(np.abs(actual - predicted).mean()),
        constant_mae=float(np.abs(actual - np.median(actual)).mean()),
    )
