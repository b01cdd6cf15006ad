"""p(v, F): the score once its local law is known, and the inverse in v."""

from typing import Any

from sklearn.base import clone

from localconformal.adjustments.base import BaseAdjustment
from localconformal.adjustments.expectation import AdditiveExpectation, MultiplicativeExpectation
from localconformal.adjustments.monotone import MonotoneAdjustment
from localconformal.adjustments.plain import Plain
from localconformal.adjustments.quantile import AdditiveQuantile, MultiplicativeQuantile
from localconformal.adjustments.scaled import ScaledQuantile
from localconformal.adjustments.theta import ThetaQuantile

ADJUSTMENTS: dict[str, type[BaseAdjustment]] = {
    "plain": Plain,
    "additive": AdditiveQuantile,
    "scaled": ScaledQuantile,
    "multiplicative": MultiplicativeQuantile,
    "additive-expectation": AdditiveExpectation,
    "multiplicative-expectation": MultiplicativeExpectation,
    "theta": ThetaQuantile,
}


def make_adjustment(adjustment: Any) -> BaseAdjustment:
    """A fresh adjustment from its name or from an object."""
    return ADJUSTMENTS[adjustment]() if isinstance(adjustment, str) else clone(adjustment)


__all__ = [
    "ADJUSTMENTS",
    "AdditiveExpectation",
    "AdditiveQuantile",
    "BaseAdjustment",
    "MonotoneAdjustment",
    "MultiplicativeExpectation",
    "MultiplicativeQuantile",
    "Plain",
    "ScaledQuantile",
    "ThetaQuantile",
    "make_adjustment",
]
