"""V(x, y) and its inverse: how far y lies outside what the model expects at x."""

from typing import Any

from sklearn.base import clone

from localconformal.scores.absolute import AbsoluteScore
from localconformal.scores.base import Band, BaseScore
from localconformal.scores.normalised import NormalisedScore
from localconformal.scores.quantile import QuantileScore
from localconformal.scores.residual import ResidualScore
from localconformal.scores.response import ResponseScore

SCORES: dict[str, type[BaseScore]] = {
    "residual": ResidualScore,
    "absolute": AbsoluteScore,
    "quantile": QuantileScore,
    "normalised": NormalisedScore,
    "response": ResponseScore,
}


def make_score(score: Any) -> BaseScore:
    """A fresh score from its name or from an object."""
    return SCORES[score]() if isinstance(score, str) else clone(score)


__all__ = [
    "SCORES",
    "AbsoluteScore",
    "Band",
    "BaseScore",
    "NormalisedScore",
    "QuantileScore",
    "ResidualScore",
    "ResponseScore",
    "make_score",
]
