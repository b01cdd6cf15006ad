"""Families of base models, one file each."""

from localconformal.experiments.models import forest, linear, network
from localconformal.experiments.models.family import Family, Models, Unfitted
from localconformal.experiments.models.shared import Memory, SharedModel, SharedQuantiles

#: In the order of the paper's table.
FAMILIES: dict[str, Family] = {
    family.name: family for family in (linear.FAMILY, forest.FAMILY, network.FAMILY)
}

__all__ = ["FAMILIES", "Family", "Memory", "Models", "SharedModel", "SharedQuantiles", "Unfitted"]
