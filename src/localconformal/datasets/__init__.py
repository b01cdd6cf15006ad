"""Data with known truth, and real data by name."""

from localconformal.datasets.dataset import Dataset, load_dataset
from localconformal.datasets.simulation import Simulation
from localconformal.datasets.simulations import SIMULATIONS, load_simulation, shifted_simulation
from localconformal.datasets.table import DATASETS, DatasetEntry

__all__ = [
    "DATASETS",
    "SIMULATIONS",
    "Dataset",
    "DatasetEntry",
    "Simulation",
    "load_dataset",
    "load_simulation",
    "shifted_simulation",
]
