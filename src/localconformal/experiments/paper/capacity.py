"""Model capacity: interval lengths against the hidden size of the network."""

from __future__ import annotations

from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.objective import try_method
from localconformal.experiments.paper._ablation import (
    AS_IN_CODE,
    BANDWIDTHS,
    is_broad,
    is_whole,
    other_bandwidths,
    relative,
    split_of,
    table_of,
)
from localconformal.experiments.paper._curves import Curves, curves_of
from localconformal.experiments.paper._networks import network_family
from localconformal.experiments.paper._said import alike, below
from localconformal.experiments.presets import Preset
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import Mean, over_repeats, select

#: The authors' code goes from 1 to 1024, on simulation 2.
SIZES = tuple(2**power for power in range(11))
#: Above this hidden size the paper sees almost no difference between SLCP and CQR.
LARGE = 32
COMPARED = ("split", "CQR", "SLCP")
#: SLCP as the paper describes it, and with the bandwidth of its code.
READINGS = ("SLCP", AS_IN_CODE)
#: How near, relative to the other, counts as almost no difference.
ALMOST = 0.05


def sizes_of(preset: Preset) -> tuple[int, ...]:
    """Hidden sizes; the two largest take longer than all others together."""
    if not is_broad(preset):
        return (1, 64)
    return SIZES if is_whole(preset) else SIZES[:-2]


def sets_of(preset: Preset) -> tuple[str, ...]:
    """Simulation 2, as in the authors' code; all simulations where time is no matter."""
    return ("sim1", "sim2", "sim3") if is_whole(preset) else ("sim2",)


def cases(preset: Preset) -> list[Case]:
    """A task for each hidden size."""
    return [
        {"dataset": dataset, "hidden": hidden, "repeat": repeat}
        for repeat in range(preset.repeats)
        for dataset in sets_of(preset)
        for hidden in sizes_of(preset)
    ]


def run(case: Case, preset: Preset) -> list[Row]:
    """Split conformal on the mean network, CQR and SLCP on the quantile network."""
    dataset, hidden, repeat = case["dataset"], case["hidden"], case["repeat"]
    split = split_of(dataset, repeat, preset)
    seed = seed_of("method", "capacity", dataset, hidden, repeat)
    models = network_family(hidden).make(split.train.X, split.train.y, seed, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    tried = {name: METHODS[name](models, seed, preset) for name in COMPARED}
    tried.update(other_bandwidths(models, seed))
    return [try_method(name, model, split, prediction)[0] for name, model in tried.items()]


def report(rows: list[Row], preset: Preset) -> Output:
    """SLCP's length relative to the others', at each hidden size."""
    lines: list[Line] = []
    for hidden in sizes_of(preset):
        here = select(rows, hidden=hidden)
        lines += [
            line_of(here, hidden, reading, other)
            for reading in READINGS
            for other in ("CQR", "split")
        ]
    table = table_of(rows, ("dataset", "hidden", "method"), ("length", "coverage", "seconds"))
    figure = Curves(curves(rows, preset), "hidden size", "mean length", log=True)
    notes = [
        f"Data: {', '.join(sets_of(preset))}. The paper says all data sets; the authors' code "
        "runs simulation 2.",
        "The paper shows a figure and prints no value: lines are about what it says.",
        "Networks of two hidden layers with dropout, trained with Adam for at most "
        f"{preset.epochs} epochs; split conformal is on the mean network, CQR and SLCP "
        "(Algorithm 1, median bandwidth) on the quantile network. Beside it SLCP with the "
        "bandwidth of the authors' code (median-log), and with a cross-validated one.",
    ]
    tables = {"Means over repeats": table}
    return Output(lines, tables, {"capacity.png": figure.draw}, notes)


def line_of(rows: list[Row], hidden: int, reading: str, other: str) -> Line:
    """Shorter than both with few units; much like CQR with many, and still shorter than split."""
    pairs = relative(select(rows, method=reading), select(rows, method=other), "length")
    ours = over_repeats(pairs, "relative")
    of = {"hidden size": str(hidden), "quantity": f"length of {reading} relative to {other}"}
    if other == "CQR" and hidden > LARGE:
        return alike(of, ours, 1.0, ALMOST, "the paper says almost no difference")
    return below(of, ours, 1.0, "the paper says shorter")


def curves(rows: list[Row], preset: Preset) -> dict[str, list[tuple[float, Mean]]]:
    """Mean length over the hidden size."""

    def length(name: str, hidden: float) -> Mean | None:
        return over_repeats(select(rows, method=name, hidden=hidden), "length")

    return curves_of((*COMPARED, *BANDWIDTHS), sizes_of(preset), length)


EXPERIMENT = Experiment("Model capacity", cases, run, report)
