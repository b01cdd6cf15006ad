"""What the experiments on simulations share: rows, the known coverage at x, and bands to draw.

Rows stay in the simulation's own units, in which its quantiles are known; lengths are divided by
the mean absolute response of the training rows, as the paper's are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.datasets import Simulation, load_simulation
from localconformal.experiments.experiment import Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.models import Models
from localconformal.experiments.objective import LEVEL, try_method
from localconformal.experiments.presets import Preset
from localconformal.experiments.rows import Split, simulated_split
from localconformal.experiments.summary import over_repeats, select
from localconformal.laws import KernelLaw
from localconformal.quantiles import Array

#: The paper's three simulations, as its code draws them.
SIMULATIONS = ("sim1", "sim2", "sim3")
TAILS = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)
#: Bins of x in which the known coverage is averaged, and rows at which bands are drawn.
N_BINS, N_DRAWN = 20, 120
#: The repeat whose bands are drawn.
DRAWN = 0


def drawn_rows(simulation: Simulation, repeat: int, preset: Preset) -> Split:
    """As many rows to train as to calibrate, and test rows, in the simulation's own units."""
    sizes = (preset.simulated_rows, preset.simulated_rows, preset.test_rows)
    return simulated_split(simulation, repeat, sizes, scale=False)


def repeats_of(preset: Preset) -> range:
    """One is enough to see that all runs."""
    return range(1 if preset.only_runs else preset.repeats)


def slcp_with(models: Models, seed: int, preset: Preset, **changes: Any) -> Any:
    """The paper's SLCP but for these parameters."""
    return METHODS["SLCP"](models, seed, preset).set_params(**changes)


def gaussian_law(bandwidth: Any) -> KernelLaw:
    """The Gaussian kernel, on one thread: tasks share the cores."""
    return KernelLaw("gaussian", bandwidth=bandwidth, n_jobs=1)


def measured(
    name: str, model: Any, split: Split, prediction: Array, simulation: Simulation, draw: bool
) -> Row:
    """The row of a method with what only a simulation tells.

    ``conditional_gap`` is the mean of |P(covered | x) - 0.9| over test rows; ``profile`` has the
    mean coverage in bins of the first feature. ``draw`` adds the bounds at a few rows.
    """
    row, sets = try_method(name, model, split, prediction)
    if sets is None:
        return row
    known, x = simulation.coverage(split.test.X, sets.hulls), split.test.X[:, 0]
    row["length_in_own_units"] = row["length"]
    row["length"] = row["length"] and row["length"] / np.abs(split.train.y).mean()
    row["conditional_gap"] = np.abs(known - LEVEL).mean()
    row["profile"] = [known[here].mean() for here in bins(x)]
    if draw:
        row["lower"], row["upper"] = sets.hulls[evenly(x)].round(4).T
    return row


def bins(x: Array) -> list[NDArray[np.intp]]:
    """Rows of each bin of x; bins have equally many."""
    return np.array_split(np.argsort(x), N_BINS)


def evenly(x: Array) -> NDArray[np.intp]:
    """Rows at even steps in the order of x."""
    return np.argsort(x)[np.linspace(0, len(x) - 1, min(N_DRAWN, len(x))).astype(int)]


def means_table(rows: list[Row], places: Sequence[str]) -> list[Row]:
    """Means over repeats of what is measured, a row for each method and place."""
    table = []
    found = dict.fromkeys((*(row[p] for p in places), row["method"]) for row in rows)
    for *values, method in found:
        where = dict(zip(places, values, strict=True))
        mine = select(rows, **where, method=method)
        entry: Row = {**where, "method": method}
        for field in ("length", "coverage", "conditional_gap", "infinite", "seconds"):
            mean = over_repeats(mine, field)
            entry[field] = mean and mean.value
        table.append(entry)
    return table


def oracle_row(simulation: Simulation, split: Split) -> Row:
    """The length of the intervals between the true 5 % and 95 % quantiles."""
    low, high = simulation.quantile(split.test.X, TAILS).T
    return {
        "method": "true quantiles",
        "length": (high - low).mean() / np.abs(split.train.y).mean(),
        "coverage": LEVEL,
        "conditional_gap": 0.0,
    }


def draw_figure(rows: list[Row], name: str, methods: Sequence[str], preset: Preset) -> Any:
    """What draws the bands of methods on a simulation, and their coverage along x, into a path."""
    bands, profiles = {}, {}
    for method in methods:
        mine = select(rows, dataset=name, method=method)
        kept = [row for row in mine if row["repeat"] == DRAWN and row.get("lower")]
        if kept:
            bounds = [kept[0]["lower"], kept[0]["upper"]]
            bands[method] = np.array(bounds, dtype=np.float64).T
            profiles[method] = mean_profile(mine)
    return partial(_draw, load_simulation(name), preset, bands, profiles)


def mean_profile(rows: list[Row]) -> Array:
    """Mean over repeats of the coverage in each bin."""
    profiles = np.array([row["profile"] for row in rows if "profile" in row], dtype=np.float64)
    return np.asarray(profiles.mean(axis=0))


def _draw(
    simulation: Simulation,
    preset: Preset,
    bands: Mapping[str, Array],
    profiles: Mapping[str, Array],
    path: Path,
) -> None:
    from matplotlib.figure import Figure

    from localconformal.plots import plot_bands
    from localconformal.plots.canvas import add_legend, name_axes
    from localconformal.plots.style import IDEAL, INK, clean, method_colours

    test = drawn_rows(simulation, DRAWN, preset).test
    rows = evenly(test.X[:, 0])
    oracle = simulation.quantile(test.X[rows], TAILS)
    low, high = _view(oracle)
    figure = Figure(figsize=(4.0 * (len(bands) + 1), 3.8), layout="constrained")
    *panels, last = figure.subplots(1, len(bands) + 1, squeeze=False)[0]
    colours = method_colours(len(bands))
    for ax, colour, (method, bounds) in zip(panels, colours, bands.items(), strict=True):
        # None of the store, which was infinite.
        whole = np.where(np.isnan(bounds), [-np.inf, np.inf], bounds)
        plot_bands(
            test.X[rows, 0], test.y[rows], {method: whole}, oracle=oracle, colours=[colour], ax=ax
        )
        ax.set_title(method, fontsize=10, color=INK)
        ax.set_ylim(low, high)
    middles = [test.X[here, 0].mean() for here in bins(test.X[:, 0])]
    for colour, (method, profile) in zip(colours, profiles.items(), strict=True):
        last.plot(middles, profile, color=colour, label=method)
    last.axhline(LEVEL, color=INK, ls=IDEAL, lw=1.0)
    name_axes(last, "x", "known coverage at x, mean over repeats")
    add_legend(last, loc="best")
    clean(last)
    figure.savefig(path, dpi=110)


def _view(oracle: Array) -> tuple[float, float]:
    """An axis that shows the true quantiles with room to spare; outliers may lie outside."""
    low, high = float(oracle.min()), float(oracle.max())
    room = 0.25 * (high - low)
    return low - room, high + room
