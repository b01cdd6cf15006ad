"""F(v | x): the law of the score near x, estimated from reference rows."""

from typing import Any

from sklearn.base import clone

from localconformal.laws.base import BaseLaw
from localconformal.laws.kernel import KernelLaw
from localconformal.laws.neighbors import NeighborsLaw
from localconformal.laws.sides import LocalLaw, SidedLaw
from localconformal.laws.uniform import UniformLaw

LAWS: dict[str, type[BaseLaw]] = {
    "kernel": KernelLaw,
    "neighbors": NeighborsLaw,
    "uniform": UniformLaw,
}


def make_law(law: Any) -> BaseLaw:
    """A fresh law from its name or from an object."""
    return LAWS[law]() if isinstance(law, str) else clone(law)


__all__ = [
    "LAWS",
    "BaseLaw",
    "KernelLaw",
    "LocalLaw",
    "NeighborsLaw",
    "SidedLaw",
    "UniformLaw",
    "make_law",
]
