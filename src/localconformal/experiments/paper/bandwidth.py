"""Bandwidth of the Gaussian kernel: quantiles of the pairwise distances, and other rules."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.objective import try_method
from localconformal.experiments.paper._ablation import (
    NETWORK,
    ablation_cases,
    is_whole,
    models_of,
    notes_of,
    prepared,
    relative,
    slcp,
    table_of,
    with_auto,
)
from localconformal.experiments.presets import Preset
from localconformal.experiments.printed import printed
from localconformal.experiments.summary import (
    Mean,
    compared,
    in_per_cent,
    over_repeats,
    same_direction,
    select,
)
from localconformal.laws import KernelLaw
from localconformal.laws.bandwidth import DistanceQuantile

MEDIAN = "quantile 0.5"
#: Beside the paper's: name -> arguments of the law.
LAWS: dict[str, dict[str, Any]] = {
    "median-log": {"bandwidth": "median-log"},
    "cross-validated": {"bandwidth": "cv"},
    "median, sketch": {"engine": "sketch"},
}
AUTO = "SLCP-auto"


def quantiles() -> dict[str, float]:
    """Name of a bandwidth of the paper -> quantile of the pairwise distances."""
    return {f"quantile {q:g}": q for q in printed()["table_bandwidth"]["quantile"]}


def run(case: Case, preset: Preset) -> list[Row]:
    """SLCP on quantile models with every bandwidth, and the library's default."""
    split, models, seed = prepared(case, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    laws = {name: {"bandwidth": DistanceQuantile(q)} for name, q in quantiles().items()}
    tried: dict[str, Any] = {
        name: slcp(models.quantile, "quantile", KernelLaw(n_jobs=1, **arguments), seed)
        for name, arguments in {**laws, **LAWS}.items()
    }
    if with_auto(case, preset):
        tried[AUTO] = METHODS[AUTO](models, seed, preset)
    return [try_method(name, model, split, prediction)[0] for name, model in tried.items()]


def report(rows: list[Row], preset: Preset) -> Output:
    """Length and coverage with each bandwidth, and how much longer than with the median."""
    lines: list[Line] = []
    for model in models_of(preset):
        here = select(rows, model=model)
        lines += paper_lines(here, model, why_not(model, preset)) + beside_lines(here, model)
    fields = ("length", "coverage", "length_error_corr", "seconds")
    table = table_of(rows, ("model", "method"), fields)
    by_set = table_of(rows, ("dataset", "model", "method"), ("length", "coverage"))
    tables = {"Means over data sets and repeats": table, "By data set": by_set}
    return Output(lines, tables, notes=notes(preset))


def why_not(model: str, preset: Preset) -> str:
    """Why the paper's lengths are no target, if so: at the median they are its network's."""
    if model != NETWORK:
        return "the paper's length at the median is that of its network, another base model"
    return "" if is_whole(preset) else "not all data sets were run"


def paper_lines(rows: list[Row], model: str, cannot: str) -> list[Line]:
    """The numbers of the table, and whether the median is the shortest."""
    paper = printed()["table_bandwidth"]
    at_median = paper["tabular_length"][list(quantiles()).index(MEDIAN)]
    lines = []
    for place, name in enumerate(quantiles()):
        length, share = paper["tabular_length"][place], paper["tabular_coverage"][place]
        mine, of = select(rows, method=name), {"model": model, "bandwidth": name}
        ours = over_repeats(mine, "length")
        covered = in_per_cent(over_repeats(mine, "coverage"))
        lines.append(compared({**of, "quantity": "length"}, length, ours, "length", cannot))
        lines.append(compared({**of, "quantity": "coverage, %"}, share, covered, "coverage"))
        if name != MEDIAN:
            of = {**of, "quantity": "longer than with the median, %"}
            longer = round(100.0 * (length / at_median - 1.0), 1)
            lines.append(same_direction(of, longer, longer_than_median(rows, name)))
    return lines


def beside_lines(rows: list[Row], model: str) -> list[Line]:
    """What the paper does not have."""
    lines = []
    for name in (*LAWS, AUTO):
        of = {"model": model, "bandwidth": name}
        longer = longer_than_median(rows, name)
        covered = in_per_cent(over_repeats(select(rows, method=name), "coverage"))
        of_length = {**of, "quantity": "longer than with the median, %"}
        lines.append(compared(of_length, None, longer, "length"))
        lines.append(compared({**of, "quantity": "coverage, %"}, None, covered, "coverage"))
    return lines


def longer_than_median(rows: list[Row], name: str) -> Mean | None:
    """Per cent that lengths exceed those with the median bandwidth, within tasks."""
    pairs = relative(select(rows, method=name), select(rows, method=MEDIAN), "length")
    return in_per_cent(over_repeats(pairs, lambda row: row["relative"] - 1.0))


def notes(preset: Preset) -> list[str]:
    """What a reader must know."""
    return [
        *notes_of(preset),
        "SLCP is Algorithm 1 on quantile models with a Gaussian kernel; a negative per cent is "
        "shorter than with the median.",
        "Beside the paper's: the rule of its code (median-log), cross-validation, the median "
        "with the sketch engine, and this library's default, which is on mean models.",
        "The age model's rows of the paper's table belong to another experiment.",
    ]


EXPERIMENT = Experiment("Bandwidth of the kernel", ablation_cases, run, report)
