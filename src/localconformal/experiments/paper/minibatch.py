"""Mini-batches: the law from a share of the training rows, its length and its run time."""

from __future__ import annotations

import time

import numpy as np

from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.models import Models
from localconformal.experiments.objective import LEVEL, try_method
from localconformal.experiments.paper._ablation import (
    ablation_cases,
    models_of,
    notes_of,
    prepared,
    relative,
    slcp,
    table_of,
    with_auto,
)
from localconformal.experiments.paper._said import within_factor
from localconformal.experiments.presets import Preset
from localconformal.experiments.printed import printed
from localconformal.experiments.rows import Split
from localconformal.experiments.summary import compared, in_per_cent, over_repeats, select
from localconformal.laws import KernelLaw
from localconformal.quantiles import Array

ALL_ROWS = 100
#: variant -> (base model, score, kernel, its name in expected.json)
VARIANTS = {
    "SLCP-KNN": ("quantile", "quantile", "boxcar", "slcp_knn"),
    "SLCP-RBF": ("quantile", "quantile", "gaussian", "slcp_rbf"),
    "SLCP-mean": ("mean", "residual", "gaussian", "slcp_mean"),
}
BASE = {"method": "SLCP-RBF", "percent": ALL_ROWS}
#: With the bandwidth of the authors' code, whose law follows the rows more closely: the share that
#: the paper finds enough, and all.
NARROW, NARROW_PERCENTS = "SLCP-RBF, median-log", (30, ALL_ROWS)
#: Beside them, on all rows.
ENGINES = {"SLCP-RBF, exact": "exact", "SLCP-RBF, sketch": "sketch"}
BESIDE = (*ENGINES, "SLCP-auto")
NO_TARGET = (
    "the paper names no base model here, and its released code gives a mini-batch the residuals "
    "of other rows"
)
#: The least of so many timings counts; ratios of seconds may be so many times the paper's, or
#: as much less.
TIMINGS, TIME_FACTOR = 3, 1.5


def percents() -> list[int]:
    """Shares of the training rows, in per cent."""
    return list(printed()["table_batch"]["percent"])


def law_of(kernel: str, percent: int, bandwidth: str = "median") -> KernelLaw:
    """The law on a mini-batch, which is drawn once, at fit; plain NumPy on all rows."""
    if percent == ALL_ROWS:
        return KernelLaw(kernel, bandwidth=bandwidth, engine="reference", n_jobs=1)
    return KernelLaw(
        kernel, bandwidth=bandwidth, engine="minibatch", batch_size=percent / 100, n_jobs=1
    )


def run(case: Case, preset: Preset) -> list[Row]:
    """Every variant with every share, then engines on all rows, then the library's default."""
    split, models, seed = prepared(case, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    tried = {
        (name, percent): slcp(getattr(models, base), score, law_of(kernel, percent), seed)
        for name, (base, score, kernel, _) in VARIANTS.items()
        for percent in percents()
    }
    for percent in NARROW_PERCENTS:
        law = law_of("gaussian", percent, "median-log")
        tried[NARROW, percent] = slcp(models.quantile, "quantile", law, seed)
    for name, engine in ENGINES.items():
        law = KernelLaw(engine=engine, n_jobs=1)
        tried[name, ALL_ROWS] = slcp(models.quantile, "quantile", law, seed)
    if with_auto(case, preset):
        tried["SLCP-auto", ALL_ROWS] = METHODS["SLCP-auto"](models, seed, preset)
    spent = law_seconds(split, models, seed)
    return [
        {
            **try_method(name, model, split, prediction)[0],
            "percent": percent,
            **spent.get((name, percent), {}),
        }
        for (name, percent), model in tried.items()
    ]


def law_seconds(split: Split, models: Models, seed: int) -> dict[tuple[str, int], Row]:
    """Processor seconds of the Gaussian law alone: to build it, and to ask it about all rows.

    The bandwidth is that of all rows and is not timed; the least of a few timings counts. A
    mini-batch is asked in plain NumPy, whatever its size, for one engine's times to compare.
    """
    train = split.train
    fitted = models.memory.fit("quantile", models.quantile.model, train.X, train.y)
    upper = fitted.predict(train.X, quantiles=[(1 + LEVEL) / 2])[:, 0]
    v, asked = train.y - upper, np.vstack([split.calibration.X, split.test.X])
    h = KernelLaw(engine="reference", random_state=seed).fit(train.X, v).bandwidth_
    engines = {("SLCP-RBF", percent): "reference" for percent in percents()}
    engines.update({(name, ALL_ROWS): engine for name, engine in ENGINES.items()})
    found = {}
    for (name, percent), engine in engines.items():
        law = KernelLaw(bandwidth=h, engine=engine, random_state=seed, n_jobs=1)
        # Rows are in random order: the first are as good a mini-batch as any.
        kept = slice(max(1, round(percent / 100 * len(v))))
        times = [time_law(law, train.X[kept], v[kept], asked) for _ in range(TIMINGS)]
        build, ask = np.min(times, axis=0)
        found[name, percent] = {
            "law_build_seconds": build,
            "law_ask_seconds": ask,
            "law_seconds": build + ask,
        }
    return found


def time_law(law: KernelLaw, X: Array, v: Array, asked: Array) -> tuple[float, float]:
    """Processor seconds to fit the law, and to find a quantile at every asked row."""
    start = time.process_time()
    law.fit(X, v)
    built = time.process_time()
    law.quantile(asked, [(1 + LEVEL) / 2])
    return built - start, time.process_time() - built


def report(rows: list[Row], preset: Preset) -> Output:
    """Length and coverage of each variant and share, relative lengths, relative run time."""
    lines: list[Line] = []
    for model in models_of(preset):
        here = select(rows, model=model)
        for variant in VARIANTS:
            lines += variant_lines(here, model, variant)
        lines += beside_lines(here, model)
        lines += narrow_lines(here, model)
    lines += time_lines(rows)
    fields = ("length", "coverage", "law_build_seconds", "law_ask_seconds", "seconds")
    table = table_of(rows, ("model", "method", "percent"), fields)
    return Output(lines, {"Means over data sets and repeats": table}, notes=notes(preset))


def variant_lines(rows: list[Row], model: str, variant: str) -> list[Line]:
    """The paper's two rows of a variant, and lengths relative to that with all rows."""
    paper, name = printed()["table_batch"], VARIANTS[variant][-1]
    whole = select(rows, method=variant, percent=ALL_ROWS)
    at_whole = paper[f"{name}_length"][percents().index(ALL_ROWS)]
    lines = []
    for place, percent in enumerate(percents()):
        mine = select(rows, method=variant, percent=percent)
        length, share = paper[f"{name}_length"][place], paper[f"{name}_coverage"][place]
        of = {"model": model, "method": variant, "share of rows": f"{percent} %"}
        ours = over_repeats(mine, "length")
        covered = in_per_cent(over_repeats(mine, "coverage"))
        lines.append(compared({**of, "quantity": "length"}, length, ours, "length", NO_TARGET))
        lines.append(compared({**of, "quantity": "coverage, %"}, share, covered, "coverage"))
        if percent != ALL_ROWS:
            ours = over_repeats(relative(mine, whole, "length"), "relative")
            of = {**of, "quantity": "length relative to all rows"}
            lines.append(compared(of, round(length / at_whole, 3), ours, "length"))
    return lines


def narrow_lines(rows: list[Row], model: str) -> list[Line]:
    """The same question with the bandwidth of the authors' code."""
    share, whole = (select(rows, method=NARROW, percent=percent) for percent in NARROW_PERCENTS)
    ours = over_repeats(relative(share, whole, "length"), "relative")
    of = {"model": model, "method": NARROW, "share of rows": f"{NARROW_PERCENTS[0]} %"}
    return [compared({**of, "quantity": "length relative to all rows"}, None, ours, "length")]


def beside_lines(rows: list[Row], model: str) -> list[Line]:
    """What the paper does not have, relative to SLCP-RBF with all rows."""
    base = select(rows, **BASE)
    lines = []
    for name in BESIDE:
        of = {"model": model, "method": name, "share of rows": f"{ALL_ROWS} %"}
        mine = select(rows, method=name)
        length = over_repeats(relative(mine, base, "length"), "relative")
        covered = in_per_cent(over_repeats(mine, "coverage"))
        of_length = {**of, "quantity": "length relative to SLCP-RBF, all rows"}
        lines.append(compared(of_length, None, length, "length"))
        lines.append(compared({**of, "quantity": "coverage, %"}, None, covered, "coverage"))
    return lines


def time_lines(rows: list[Row]) -> list[Line]:
    """Seconds of the law relative to those with the smallest mini-batch."""
    paper = printed()["table_batch"]["relative_run_time"]
    timed = [("SLCP-RBF", p, value) for p, value in zip(percents(), paper, strict=True)]
    timed += [(name, ALL_ROWS, None) for name in ENGINES]
    least = percents()[0]
    base = select(rows, method="SLCP-RBF", percent=least)
    lines = []
    for name, percent, value in timed[1:]:
        mine = relative(select(rows, method=name, percent=percent), base, "law_seconds")
        # A data set with one model and with another are two timings.
        apart = [{**row, "dataset": (row["dataset"], row["model"])} for row in mine]
        of = {
            "model": "all",
            "method": name,
            "share of rows": f"{percent} %",
            "quantity": f"run time relative to {least} %",
        }
        lines.append(within_factor(of, value, over_repeats(apart, "relative"), TIME_FACTOR))
    return lines


def notes(preset: Preset) -> list[str]:
    """What a reader must know."""
    return [
        *notes_of(preset),
        "SLCP-KNN: boxcar kernel, and SLCP-RBF: Gaussian kernel, both on quantile models; "
        "SLCP-mean: Gaussian kernel on mean models. A mini-batch is drawn once, at fit.",
        "Run time: processor seconds to build the law and to ask it about calibration and test "
        "rows, in plain NumPy for SLCP-RBF; exact and sketch are the compiled engines. Ratios "
        "are within one task.",
        "The age model's rows of the paper's table belong to another experiment.",
    ]


EXPERIMENT = Experiment("Mini-batch size", ablation_cases, run, report, version=2)
