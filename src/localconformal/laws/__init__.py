"""F(v | x): the law of the score near x, estimated from reference rows."""

from localconformal.laws.auto import AutoLaw
from localconformal.laws.base import (
    LAW_METHODS,
    LAWS,
    Law,
    LocalLaws,
    SidedLaw,
    UniformLaw,
    make_law,
    seeded,
)
from localconformal.laws.embeddings import HiddenLayer, LearnedMetric
from localconformal.laws.forest import ForestLaw
from localconformal.laws.kernel import (
    DistanceQuantile,
    KernelLaw,
    NeighborsLaw,
)
from localconformal.laws.learned import LearnedLaw
from localconformal.laws.transformed import ResponseLaw, ScaledLaw, StackedLaw

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
    "AutoLaw",
    "DistanceQuantile",
    "ForestLaw",
    "HiddenLayer",
    "KernelLaw",
    "Law",
    "LearnedLaw",
    "LearnedMetric",
    "LocalLaws",
    "NeighborsLaw",
    "ResponseLaw",
    "ScaledLaw",
    "SidedLaw",
    "StackedLaw",
    "UniformLaw",
    "make_law",
    "seeded",
]
