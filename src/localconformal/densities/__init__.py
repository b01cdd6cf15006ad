"""f(v | x): the conditional density of the score, constant on each bin of a common grid."""

from collections.abc import Callable
from typing import Any

from localconformal.densities.base import BaseDensity, Sample
from localconformal.densities.basis import BasisDensity
from localconformal.densities.grid import Grid
from localconformal.densities.histogram import LawDensity

#: (reference rows, law or None) -> the fitted density.
DENSITIES: dict[str, Callable[[Sample, Any], BaseDensity]] = {
    "law": LawDensity.fit,
    "basis": BasisDensity.fit,
}

__all__ = ["DENSITIES", "BaseDensity", "BasisDensity", "Grid", "LawDensity", "Sample"]
