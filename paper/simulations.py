"""Figures and claims on simulations, whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import (
    LEVEL,
    Arm,
    Case,
    Experiment,
    Line,
    Output,
    Preset,
    Row,
    Task,
    seed_of,
    try_method,
)
from benchmarks.tables import in_per_cent, over_repeats, paired, select
from localconformal.datasets import (
    Simulation,
    load_simulation,
)
from localconformal.laws import KernelLaw, NeighborsLaw
from localconformal.quantiles import Array
from paper.ablations import (
    SIMULATED,
)
from paper.data import Split, simulated_split
from paper.methods import named_arms, share_models, slcp
from paper.models import FAMILIES
from paper.verdicts import compared, printed, same_direction

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


def slcp_arm(task: Task, name: str, law: Any, score: str = "quantile") -> Arm:
    """The paper's SLCP with this law, on the quantile model or on residuals of the mean."""
    model = task.models.quantile if score == "quantile" else task.models.mean
    return Arm(name, slcp(model, score, law, task.seed))


def gaussian_law(bandwidth: Any) -> KernelLaw:
    """The Gaussian kernel, on one thread: tasks share the cores."""
    return KernelLaw("gaussian", bandwidth=bandwidth, n_jobs=1)


def measured(task: Task, arm: Arm) -> list[Row]:
    """The row of a method with what only a simulation tells.

    ``conditional_gap`` is the mean of |P(covered | x) - 0.9| over test rows; ``profile`` has the
    mean coverage in bins of the first feature; of one repeat there are bounds to draw.
    """
    split = task.split
    row, sets = try_method(arm.method, arm.model, split, task.prediction)
    if sets is None:
        return [row]
    known, x = task.known.coverage(split.test.X, sets.hulls), split.test.X[:, 0]
    row["length_in_own_units"] = row["length"]
    row["length"] = row["length"] and row["length"] / np.abs(split.train.y).mean()
    row["conditional_gap"] = np.abs(known - LEVEL).mean()
    row["profile"] = [known[here].mean() for here in bins(x)]
    if task.case.get("model") and task.case["repeat"] == DRAWN:
        row["lower"], row["upper"] = sets.hulls[evenly(x)].round(4).T
    return [row]


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


def oracle_row(task: Task) -> list[Row]:
    """The length of the intervals between the true 5 % and 95 % quantiles."""
    low, high = task.known.quantile(task.split.test.X, TAILS).T
    length = (high - low).mean() / np.abs(task.split.train.y).mean()
    return [
        {
            "method": "true quantiles",
            "length": length,
            "coverage": LEVEL,
            "conditional_gap": 0.0,
        }
    ]


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
    from localconformal.plots._axes import (
        IDEAL,
        INK,
        add_legend,
        clean,
        method_colours,
        name_axes,
    )

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


#: The paper's rule for the bandwidth, and that of its code, which is 3.7 times narrower here.
TEXT, CODE = "median", "median-log"


@dataclass(frozen=True)
class Figure:
    """A pair of panels of the paper.

    ``printed_as`` goes from a method of ours to the caption in ``expected.json``. The paper does
    not name the simulation: ``dataset`` is the one of three whose lengths are nearest to the
    captions.
    """

    title: str
    model: str
    dataset: str
    baseline: str
    printed_as: dict[str, str]


FIGURES = {
    "forest_mean": Figure(
        "forest of the mean",
        "random_forest",
        "sim2",
        "split",
        {
            "split": "simulation_rf_mean_split",
            "SLCP-mean": "simulation_rf_mean_slcp",
            f"SLCP-mean {CODE}": "simulation_rf_mean_slcp",
        },
    ),
    "quantile_forest": Figure(
        "quantile forest",
        "random_forest",
        "sim1",
        "CQR",
        {
            "CQR": "simulation_rf_quantile_cqr",
            "SLCP": "simulation_rf_quantile_slcp",
            f"SLCP {CODE}": "simulation_rf_quantile_slcp",
        },
    ),
    "misspecified": Figure(
        "linear quantile regression",
        "ridge",
        "sim2",
        "CQR",
        {
            "CQR": "simulation_linear_quantile_cqr",
            "SLCP": "simulation_linear_quantile_slcp",
            f"SLCP {CODE}": "simulation_linear_quantile_slcp",
        },
    ),
}

#: Simulations and models of the figures, each once.
SHOWN = dict.fromkeys((figure.dataset, figure.model) for figure in FIGURES.values())


def simulations_cases(preset: Preset) -> list[Case]:
    """One task a simulation, model and repeat: what the figures show, and the rest beside it."""
    rest = product(SIMULATED, dict.fromkeys(model for _, model in SHOWN))
    places = SHOWN if preset.only_runs else dict.fromkeys([*SHOWN, *rest])
    return [
        {"dataset": name, "model": model, "repeat": repeat}
        for repeat in repeats_of(preset)
        for name, model in places
    ]


def simulated_task(purpose: str, case: Case, preset: Preset) -> Task:
    """Fresh rows of a simulation, and models of a family."""
    name, model, repeat = case["dataset"], case["model"], case["repeat"]
    simulation = load_simulation(name)
    split = drawn_rows(simulation, repeat, preset)
    seed = seed_of("method", purpose, name, model, repeat)
    return share_models(case, preset, split, FAMILIES[model], seed, simulation)


def simulations_arms(task: Task) -> list[Arm]:
    """The paper's methods with both bandwidths, and this library's default, which takes longer."""
    shown = (task.case["dataset"], task.case["model"]) in SHOWN
    arms = named_arms(task, ("split", "CQR", *(["SLCP-auto"] if shown else [])))
    for bandwidth, words in ((TEXT, ""), (CODE, f" {CODE}")):
        law = gaussian_law(bandwidth)
        arms.append(slcp_arm(task, f"SLCP{words}", law))
        arms.append(slcp_arm(task, f"SLCP-mean{words}", law, "residual"))
    return arms


def simulations_report(rows: list[Row], preset: Preset) -> Output:
    """The captions of each figure beside ours, and all methods on all simulations."""
    lines, figures = [], {}
    for name, figure in FIGURES.items():
        here = select(rows, dataset=figure.dataset, model=figure.model)
        lines += simulations_value_lines(here, figure) + simulations_difference_lines(here, figure)
        methods = [*figure.printed_as, "SLCP-auto"]
        if here:
            figures[f"simulations_{name}.png"] = draw_figure(here, figure.dataset, methods, preset)
    notes = [
        "SLCP takes the paper's median bandwidth; median-log is the rule of the authors' code.",
        "The paper does not say which simulation a figure shows: each is compared on the one of "
        "the three whose lengths are nearest to its captions, the reading that favours the paper.",
        "Conditional gap: mean distance of the coverage at x, which is known here, from 90 %; "
        "the paper prints none, so it cannot be compared.",
    ]
    table = means_table(rows, ("dataset", "model"))
    return Output(lines, {"All simulations, means over repeats": table}, figures, notes)


def simulations_value_lines(rows: list[Row], figure: Figure) -> list[Line]:
    """Coverage and length of the captions, and the conditional gap that they lack."""
    lines = []
    for method, caption in figure.printed_as.items():
        covered, length = printed()["figures"][caption]
        mine = select(rows, method=method)
        of = {"figure": figure.title, "simulation": figure.dataset, "method": method}
        share, gap = over_repeats(mine, "coverage"), over_repeats(mine, "conditional_gap")
        lines += [
            compared({**of, "quantity": "length"}, length, over_repeats(mine, "length"), "length"),
            compared({**of, "quantity": "coverage, %"}, covered, in_per_cent(share), "coverage"),
            compared({**of, "quantity": "conditional gap, %"}, None, in_per_cent(gap), "coverage"),
        ]
    return lines


def simulations_difference_lines(rows: list[Row], figure: Figure) -> list[Line]:
    """SLCP against the baseline on the same rows: is it shorter, as the paper has it?"""
    lines = []
    captions = printed()["figures"]
    for method, caption in figure.printed_as.items():
        if method == figure.baseline:
            continue
        other = captions[figure.printed_as[figure.baseline]]
        difference = round(captions[caption][1] - other[1], 10)
        ours = over_repeats(paired(rows, method, figure.baseline, "length"), "difference")
        of = {
            "figure": figure.title,
            "simulation": figure.dataset,
            "method": f"{method} - {figure.baseline}",
            "quantity": "difference in length",
        }
        # The paper's 0 has no sign.
        lines.append(
            same_direction(of, difference, ours)
            if difference
            else compared(of, None, ours, "length", "the paper prints the same length for both")
        )
    return lines


SIMULATIONS = Experiment(
    "Simulation figures",
    simulations_cases,
    partial(simulated_task, "simulations"),
    simulations_arms,
    simulations_report,
    measured,
    oracle_row,
)


#: Neighbours in the authors' code, and the share of the training rows that they are at most.
NEIGHBOURS, SHARE = 300, 0.3
#: The paper's kernels -> their captions in ``expected.json``. Its text has a boxcar kernel for the
#: first, its code nearest neighbours.
PRINTED = {
    "neighbours": "nn_quantile_knn",
    "boxcar": "nn_quantile_knn",
    "epanechnikov": "nn_quantile_epanechnikov",
    "gaussian": "nn_quantile_rbf",
}
BASELINE = "CQR"


def base_model() -> str:
    """The paper's network where it runs, else the forest."""
    return "random_forest" if FAMILIES["neural_net"].left_out else "neural_net"


def kernels_cases(preset: Preset) -> list[Case]:
    """One task a simulation and repeat."""
    return [
        {"dataset": name, "model": base_model(), "repeat": repeat}
        for repeat in repeats_of(preset)
        for name in (SIMULATED[:1] if preset.only_runs else SIMULATED)
    ]


def kernels_arms(task: Task) -> list[Arm]:
    """CQR, SLCP with each kernel at the median bandwidth, and the code's narrower Gaussian."""
    neighbours = min(NEIGHBOURS, round(SHARE * task.preset.simulated_rows))
    laws = {
        "neighbours": NeighborsLaw(neighbours),
        "boxcar": KernelLaw("boxcar", bandwidth="median", n_jobs=1),
        "epanechnikov": KernelLaw("epanechnikov", bandwidth="median", n_jobs=1),
        "gaussian": gaussian_law("median"),
        "gaussian median-log": gaussian_law("median-log"),
    }
    slcps = [slcp_arm(task, name, law) for name, law in laws.items()]
    return named_arms(task, [BASELINE]) + slcps


def kernels_report(rows: list[Row], preset: Preset) -> Output:
    """The captions beside ours, the bands, and the conditional gap."""
    left_out = FAMILIES["neural_net"].left_out
    cannot = "the paper's base model is a network, ours here a forest" if left_out else ""
    lines, figures = [], {}
    for place, name in enumerate(SIMULATED):
        for kernel, caption in PRINTED.items():
            covered, length = printed()["figures"][caption][place]
            mine = select(rows, dataset=name, method=kernel)
            of = {"simulation": name, "kernel": kernel}
            ours, share = over_repeats(mine, "length"), over_repeats(mine, "coverage")
            lines.append(compared({**of, "quantity": "length"}, length, ours, "length", cannot))
            of["quantity"] = "coverage, %"
            lines.append(compared(of, covered, in_per_cent(share), "coverage", cannot))
        if select(rows, dataset=name):
            figures[f"kernels_{name}.png"] = draw_figure(rows, name, [BASELINE, *PRINTED], preset)
    notes = [
        f"SLCP on quantile models of the kind {base_model()}, at the median bandwidth.",
        "The paper's KNN is a boxcar kernel in its text and nearest neighbours in its code, where "
        "a defect makes it the same for every x; both are here, without the defect.",
        *([left_out] if left_out else []),
    ]
    table = means_table(rows, ("dataset",))
    return Output(lines, {"Means over repeats": table}, figures, notes)


KERNELS = Experiment(
    "Kernels",
    kernels_cases,
    partial(simulated_task, "kernels"),
    kernels_arms,
    kernels_report,
    measured,
    oracle_row,
)
