"""F(v | x): the law of the score near x, estimated from reference rows."""

from typing import Any

from sklearn.base import clone

from localconformal.laws.base import BaseLaw
from localconformal.laws.foreign import LAW_METHODS, ForeignLaw
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
    if isinstance(law, str):
        return LAWS[law]()
    return clone(law) if isinstance(law, BaseLaw) else ForeignLaw(law)


__all__ = [
    "LAWS",
    "LAW_METHODS",
    "BaseLaw",
    "KernelLaw",
    "LocalLaw",
    "NeighborsLaw",
    "SidedLaw",
    "UniformLaw",
    "make_law",
]
