"""Data with known truth."""

from localconformal.datasets.simulations import SIMULATIONS, Simulation, load_simulation

__all__ = ["SIMULATIONS", "Simulation", "load_simulation"]
