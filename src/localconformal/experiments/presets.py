"""How much of an experiment is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Sizes that experiments share; each takes the fields that mean something to it.

    Attributes
    ----------
    name : str
    repeats : int
        Random splits, or draws of a simulation.
    max_rows : int or None
        Rows of a real data set that are used, drawn anew for each repeat; None is all of them.
    datasets : tuple of str or None
        Real data sets that are used, where an experiment has many; None is all of them.
    simulated_rows : int
        Rows of a simulation to train on; as many calibrate where an experiment has no other rule.
    test_rows : int
        Fresh rows of a simulation to test on.
    selection_budget : float
        Seconds that ``law="auto"`` may take a fit; 0 is its fallback, the forest law.
    epochs : int
        Most epochs of a network.
    only_runs : bool
        Too small for verdicts: it checks that everything runs.
    """

    name: str
    repeats: int
    max_rows: int | None
    datasets: tuple[str, ...] | None
    simulated_rows: int
    test_rows: int
    selection_budget: float
    epochs: int
    only_runs: bool = False

    def keep(self, datasets: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the data sets that this preset uses."""
        return tuple(name for name in datasets if self.datasets is None or name in self.datasets)


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("smoke", 2, 300, ("concrete", "yacht"), 200, 300, 0.0, 5, only_runs=True),
        Preset("standard", 5, 8_000, None, 1_000, 5_000, 10.0, 100),
        Preset("full", 20, None, None, 2_000, 5_000, 20.0, 1_000),
    )
}
