"""The kernel figures: SLCP with three kernels on quantile networks, simulations 1 to 3."""

from __future__ import annotations

from typing import Any

from localconformal.datasets import load_simulation
from localconformal.experiments.experiment import Case, Experiment, Output, Row
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
from localconformal.experiments.summary import compared, in_per_cent, over_repeats, select
from localconformal.laws import KernelLaw, NeighborsLaw

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


def cases(preset: Preset) -> list[Case]:
    """One task a simulation and repeat."""
    return [
        {"dataset": name, "model": base_model(), "repeat": repeat}
        for repeat in repeats_of(preset)
        for name in (SIMULATIONS[:1] if preset.only_runs else SIMULATIONS)
    ]


def methods_of(models: Models, seed: int, preset: Preset) -> dict[str, Any]:
    """CQR, SLCP with each kernel at the median bandwidth, and the code's narrower Gaussian."""
    neighbours = min(NEIGHBOURS, round(SHARE * preset.simulated_rows))
    laws = {
        "neighbours": NeighborsLaw(neighbours),
        "boxcar": KernelLaw("boxcar", bandwidth="median", n_jobs=1),
        "epanechnikov": KernelLaw("epanechnikov", bandwidth="median", n_jobs=1),
        "gaussian": gaussian_law("median"),
        "gaussian median-log": gaussian_law("median-log"),
    }
    made = {BASELINE: METHODS[BASELINE](models, seed, preset)}
    return made | {name: slcp_with(models, seed, preset, law=law) for name, law in laws.items()}


def run(case: Case, preset: Preset) -> list[Row]:
    """All kernels on the same rows and fits."""
    name, model, repeat = case["dataset"], case["model"], case["repeat"]
    simulation = load_simulation(name)
    split = drawn_rows(simulation, repeat, preset)
    seed = seed_of("method", "kernels", name, model, repeat)
    models = FAMILIES[model].make(split.train.X, split.train.y, seed, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    return [
        oracle_row(simulation, split),
        *(
            measured(method, regressor, split, prediction, simulation, repeat == DRAWN)
            for method, regressor in methods_of(models, seed, preset).items()
        ),
    ]


def report(rows: list[Row], preset: Preset) -> Output:
    """The captions beside ours, the bands, and the conditional gap."""
    left_out = FAMILIES["neural_net"].left_out
    cannot = "the paper's base model is a network, ours here a forest" if left_out else ""
    lines, figures = [], {}
    for place, name in enumerate(SIMULATIONS):
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


EXPERIMENT = Experiment("Kernels", cases, run, report)
