"""F(v | x): the law of the score near x, estimated from reference rows."""

from localconformal.laws.base import BaseLaw
from localconformal.laws.changed import ResponseLaw, ScaledLaw
from localconformal.laws.foreign import LAW_METHODS
from localconformal.laws.forest import ForestLaw
from localconformal.laws.kernel import KernelLaw
from localconformal.laws.leaf_quantiles import LeafQuantilesLaw
from localconformal.laws.learned import LearnedLaw
from localconformal.laws.names import LAWS, make_law, seeded
from localconformal.laws.neighbors import NeighborsLaw
from localconformal.laws.shifted import ShiftedLaw
from localconformal.laws.sides import LocalLaw, SidedLaw
from localconformal.laws.stacked import StackedLaw
from localconformal.laws.uniform import UniformLaw

LAWS.update(
    forest=ForestLaw,
    kernel=KernelLaw,
    learned=LearnedLaw,
    neighbors=NeighborsLaw,
    uniform=UniformLaw,
)

__all__ = [
    "LAWS",
    "LAW_METHODS",
    "BaseLaw",
    "ForestLaw",
    "KernelLaw",
    "LeafQuantilesLaw",
    "LearnedLaw",
    "LocalLaw",
    "NeighborsLaw",
    "ResponseLaw",
    "ScaledLaw",
    "ShiftedLaw",
    "SidedLaw",
    "StackedLaw",
    "UniformLaw",
    "make_law",
    "seeded",
]
