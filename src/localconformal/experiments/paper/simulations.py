"""The simulation figures: a forest's mean, quantile forests, and a misspecified linear model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from localconformal.datasets import load_simulation
from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.models import FAMILIES, Models
from localconformal.experiments.paper._simulated import (
    DRAWN,
    SIMULATIONS,
    draw_figure,
    drawn_rows,
    gaussian_law,
    means_table,
    measured,
    oracle_row,
    repeats_of,
    slcp_with,
)
from localconformal.experiments.presets import Preset
from localconformal.experiments.printed import printed
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import (
    compared,
    in_per_cent,
    over_repeats,
    paired,
    same_direction,
    select,
)

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


def cases(preset: Preset) -> list[Case]:
    """One task a simulation, model and repeat: what the figures show, and the rest beside it."""
    rest = product(SIMULATIONS, dict.fromkeys(model for _, model in SHOWN))
    places = SHOWN if preset.only_runs else dict.fromkeys([*SHOWN, *rest])
    return [
        {"dataset": name, "model": model, "repeat": repeat}
        for repeat in repeats_of(preset)
        for name, model in places
    ]


def methods_of(models: Models, seed: int, preset: Preset, with_auto: bool) -> dict[str, Any]:
    """The paper's methods with both bandwidths, and this library's default, which takes longer."""
    names = ("split", "CQR", *(["SLCP-auto"] if with_auto else []))
    made = {name: METHODS[name](models, seed, preset) for name in names}
    for bandwidth, words in ((TEXT, ""), (CODE, f" {CODE}")):
        law = gaussian_law(bandwidth)
        made[f"SLCP{words}"] = slcp_with(models, seed, preset, law=law)
        made[f"SLCP-mean{words}"] = slcp_with(
            models, seed, preset, law=law, estimator=models.mean, score="residual"
        )
    return made


def run(case: Case, preset: Preset) -> list[Row]:
    """All methods on the same rows and fits."""
    name, model, repeat = case["dataset"], case["model"], case["repeat"]
    simulation = load_simulation(name)
    split = drawn_rows(simulation, repeat, preset)
    seed = seed_of("method", "simulations", name, model, repeat)
    models = FAMILIES[model].make(split.train.X, split.train.y, seed, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    tried = methods_of(models, seed, preset, with_auto=(name, model) in SHOWN)
    return [
        oracle_row(simulation, split),
        *(
            measured(method, regressor, split, prediction, simulation, repeat == DRAWN)
            for method, regressor in tried.items()
        ),
    ]


def report(rows: list[Row], preset: Preset) -> Output:
    """The captions of each figure beside ours, and all methods on all simulations."""
    lines, figures = [], {}
    for name, figure in FIGURES.items():
        here = select(rows, dataset=figure.dataset, model=figure.model)
        lines += value_lines(here, figure) + difference_lines(here, figure)
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


def value_lines(rows: list[Row], figure: Figure) -> list[Line]:
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


def difference_lines(rows: list[Row], figure: Figure) -> list[Line]:
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


EXPERIMENT = Experiment("Simulation figures", cases, run, report)
