"""Ablations: mini-batches, bandwidths, capacity."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    LEVEL,
    Arm,
    Case,
    Experiment,
    Line,
    Output,
    Preset,
    Row,
    Split,
    Task,
    cases_of,
)
from benchmarks.tables import Mean, excess, means_table, over_repeats, ratio, relative, select
from localconformal.datasets import SIMULATIONS
from localconformal.laws import DistanceQuantile, KernelLaw
from paper.data import real_split, simulated_split
from paper.methods import named_arms, share_models, slcp
from paper.models import (
    FAMILIES,
    NETWORK,
    RUNNING,
    Family,
    Models,
    choose_network,
    model_cases,
)
from paper.released import KNN, MEAN, RBF, ReleasedSLCP, Slips
from paper.tables import EXACT, OTHER_SETS, REAL
from paper.verdicts import (
    NEGLIGIBLE,
    SHARED_ROWS,
    below,
    between,
    change_lines,
    compared,
    length_and_coverage,
    printed,
    within_factor,
)

SIMULATED = ("sim1", "sim2", "sim3")
#: The paper's 16, and those of them that are what the paper had.
ALL, SAME = (*REAL, *SIMULATED), (*EXACT, *SIMULATED)
#: Rows of a real set and fresh rows of a simulation to test on, at most, where rows are capped.
MOST_ROWS, MOST_TEST_ROWS = 3_000, 2_000
QUICKEST = "ridge"
#: The rule of the authors' code, and one that looks at the scores.
AS_IN_CODE = "SLCP, median-log"
BANDWIDTHS = {AS_IN_CODE: "median-log", "SLCP, cross-validated": "cv"}


def sets_of(preset: Preset) -> tuple[str, ...]:
    """Data sets of an ablation."""
    return ALL if preset.is_broad else ("concrete", "sim2")


def models_of(preset: Preset) -> tuple[str, ...]:
    """Families of base models."""
    return RUNNING if preset.is_broad else (QUICKEST,)


def ablation_cases(preset: Preset) -> list[Case]:
    """A task for each data set, model and repeat."""
    return model_cases(preset, dataset=sets_of(preset), model=models_of(preset))


def split_of(dataset: str, repeat: int, preset: Preset) -> Split:
    """Rows of a real data set or of a simulation."""
    if dataset in SIMULATIONS:
        tested = preset.test_rows if preset.is_whole else min(preset.test_rows, MOST_TEST_ROWS)
        return simulated_split(SIMULATIONS[dataset], repeat, preset.simulated_rows, tested)
    most = None if preset.max_rows is None else min(preset.max_rows, MOST_ROWS)
    return real_split(dataset, repeat, most)


def ablation_task(case: Case, preset: Preset) -> Task:
    """Rows of a task, and base models that remember."""
    split, family = split_of(case["dataset"], case["repeat"], preset), FAMILIES[case["model"]]
    return share_models(case, preset, split, family, "ablation", answers=True)


def on_quantiles(task: Task, name: str, **law: Any) -> Arm:
    """SLCP on quantile models with a kernel law of these parameters."""
    return Arm(name, slcp(task.models.quantile, "quantile", KernelLaw(n_jobs=1, **law), task.seed))


def other_bandwidths(task: Task) -> list[Arm]:
    """SLCP on quantile models with other bandwidths than the paper's median."""
    return [on_quantiles(task, name, bandwidth=rule) for name, rule in BANDWIDTHS.items()]


def same_sets(rows: Iterable[Row]) -> list[Row]:
    """Rows of data sets that are what the paper had; those of images have no data set."""
    return [row for row in rows if row.get("dataset") in (None, *SAME)]


def notes_of(preset: Preset) -> list[str]:
    """Which data sets and models were run."""
    used, families = sets_of(preset), models_of(preset)
    most = "" if preset.is_whole else f", at most {MOST_ROWS:,} rows of a real set, drawn anew"
    return [
        f"{len(used)} of the paper's 16 data sets: {', '.join(used)}{most}.",
        f"Base models: {', '.join(families)}; {preset.repeats} repeats, {preset.network_repeats} "
        "with networks.",
        *filter(None, [FAMILIES[NETWORK].left_out]),
        "Lengths are means of finite ones, the response divided by its mean absolute value; "
        "means are over data sets, standard errors over repeats. Changes of the length are judged "
        f"on the {len(SAME)} sets that are what the paper had.",
        SHARED_ROWS,
    ]


def curves(
    names: Iterable[str],
    places: Sequence[float],
    find: Callable[[str, float], Mean | None],
    x_label: str,
    y_label: str,
    level: float | None = None,
    log: bool = False,
) -> Callable[[Path], None]:
    """What draws, for each name, the means at the places where there is one, as a PNG."""
    found = {name: [(place, find(name, place)) for place in places] for name in names}

    def draw(path: Path) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, points in found.items():
            known = [(place, mean.value, mean.margin) for place, mean in points if mean]
            at, values, spread = zip(*known, strict=True) if known else ((), (), ())
            axes.errorbar(at, values, spread, marker="o", ms=3, label=name)
        if level is not None:
            axes.axhline(level, color="0.5", lw=1, ls="--")
        if log:
            axes.set_xscale("log", base=2)
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.legend(frameon=False)
        figure.savefig(path, format="png", dpi=120)

    return draw


ALL_ROWS = 100
#: variant -> (base model, score, kernel, its name in expected.json)
VARIANTS = {
    "SLCP-KNN": ("quantile", "quantile", "boxcar", "slcp_knn"),
    "SLCP-RBF": ("quantile", "quantile", "gaussian", "slcp_rbf"),
    "SLCP-mean": ("mean", "residual", "gaussian", "slcp_mean"),
}
#: With the bandwidth of the authors' code, whose law follows the rows more closely: the share that
#: the paper finds enough, and all.
NARROW, NARROW_PERCENTS = "SLCP-RBF, median-log", (30, ALL_ROWS)
#: The paper says that below 10 % intervals become obviously longer, and with 30 % not much: a share
#: below 10 %, that of the advice, and the per cent of the length that lie between the two.
TINY_SHARE, ADVISED, OBVIOUS = 3, 30, 5.0
#: The authors' released code -> (base model, what it does, what of it is kept, its name in
#: expected.json). Only the last is valid: the mismatch alone makes local quantiles noise, but
#: noise that calibration and new rows share.
RELEASED = {
    "released code, KNN": ("quantile", KNN, Slips(), "slcp_knn"),
    "released code, RBF": ("quantile", RBF, Slips(), "slcp_rbf"),
    "released code, mean": ("mean", MEAN, Slips(), "slcp_mean"),
    "released code, RBF, indices right": ("quantile", RBF, Slips(mismatched=False), "slcp_rbf"),
    "released code, RBF, drawn once": ("quantile", RBF, Slips(redrawn=False), "slcp_rbf"),
}
#: Rows of a mini-batch by default in the released code; for lengths beside Table 1.
CODE_ROWS = 300
DEFAULT_SIZE = f"{CODE_ROWS} rows"
NO_TARGET = (
    "the paper names no base model here, and its released code gives a mini-batch the residuals "
    "of other rows"
)
#: The least of so many timings counts; ratios of seconds may be so many times the paper's, or
#: as much less.
TIMINGS, TIME_FACTOR = 3, 1.5
#: Repeats with timings.
TIMED = 5
OTHER_EXPERIMENT = "The age model's rows of the paper's table belong to another experiment."


def percents() -> list[int]:
    """Shares of the training rows, in per cent."""
    return list(printed()["table_batch"]["percent"])


def law_of(kernel: str, percent: int, bandwidth: str = "median") -> KernelLaw:
    """The law on a mini-batch, which is drawn once, at fit; the exact engine on all rows."""
    batch = {"engine": "minibatch", "batch_size": percent / 100}
    engine = {"engine": "exact"} if percent == ALL_ROWS else batch
    return KernelLaw(kernel, bandwidth=bandwidth, n_jobs=1, **engine)


def minibatch_arms(task: Task) -> list[Arm]:
    """Every variant with every share, then the released code; CQR for comparison."""
    is_timed = task.case["repeat"] < TIMED
    spent = law_seconds(task.split, task.models, task.seed) if is_timed else {}

    def arm(name: str, percent: int, base: str, score: str, law: KernelLaw) -> Arm:
        fields = {"percent": percent, **spent.get((name, percent), {})}
        return Arm(name, slcp(getattr(task.models, base), score, law, task.seed), fields)

    tried = [
        arm(name, percent, base, score, law_of(kernel, percent))
        for name, (base, score, kernel, _) in VARIANTS.items()
        for percent in percents()
    ]
    tried += [
        arm(NARROW, percent, "quantile", "quantile", law_of("gaussian", percent, "median-log"))
        for percent in NARROW_PERCENTS
    ]
    tried.append(
        arm("SLCP-RBF", TINY_SHARE, "quantile", "quantile", law_of("gaussian", TINY_SHARE))
    )
    return named_arms(task, ["CQR"]) + tried + released_arms(task)


def released_arms(task: Task) -> list[Arm]:
    """The released code with every share, and with as many rows as it takes by default."""
    sizes: dict[Any, float | int] = {percent: percent / 100 for percent in percents()}
    return [
        Arm(
            name,
            ReleasedSLCP(getattr(task.models, base), kind, size, slips, task.seed),
            {"percent": place},
        )
        for name, (base, kind, slips, _) in RELEASED.items()
        for place, size in {**sizes, DEFAULT_SIZE: CODE_ROWS}.items()
    ]


def law_seconds(split: Split, models: Models, seed: int) -> dict[tuple[str, int], Row]:
    """Processor seconds of the Gaussian law alone: to build it, and to ask it about all rows.

    The bandwidth is that of all rows and is not timed; the least of a few timings counts. A
    mini-batch is asked by the exact engine, whatever its size, for one engine's times to compare.
    """
    train = split.train
    fitted = models.quantile.fit(train.X, train.y)
    upper = fitted.predict(train.X, quantiles=[(1 + LEVEL) / 2])[:, 0]
    v, asked = train.y - upper, np.vstack([split.calibration.X, split.test.X])
    h = KernelLaw(random_state=seed).fit_localizer(train.X, v).bandwidth
    law, found = KernelLaw(bandwidth=h, engine="exact", random_state=seed, n_jobs=1), {}
    for percent in percents():
        # Rows are in random order: the first are as good a mini-batch as any.
        kept, times = slice(max(1, round(percent / 100 * len(v)))), []
        for _ in range(TIMINGS):
            start = time.process_time()
            law.fit(train.X[kept], v[kept])
            built = time.process_time()
            law.quantile(asked, [(1 + LEVEL) / 2])
            times.append((built - start, time.process_time() - built))
        build, ask = np.min(times, axis=0)
        found["SLCP-RBF", percent] = {
            "law_build_seconds": build,
            "law_ask_seconds": ask,
            "law_seconds": build + ask,
        }
    return found


def minibatch_report(rows: list[Row], preset: Preset) -> Output:
    """Length and coverage of each variant and share, relative lengths, relative run time."""
    lines: list[Line] = []
    for model in models_of(preset):
        here = select(rows, model=model)
        for variant, (*_, name) in {**VARIANTS, **RELEASED}.items():
            lines += variant_lines(here, model, variant, name)
        share, whole = (select(here, method=NARROW, percent=p) for p in NARROW_PERCENTS)
        of = {"model": model, "method": NARROW, "share of rows": f"{NARROW_PERCENTS[0]} %"}
        of["quantity"] = "length relative to all rows"
        ours = ratio(same_sets(share), same_sets(whole), "length")
        lines.append(compared(of, None, ours, "relative"))
        lines += share_lines(here, model)
    lines += time_lines(rows)
    fields = ("length", "coverage", "law_build_seconds", "law_ask_seconds", "seconds")
    told = [{"percent": ALL_ROWS, **row} for row in rows]
    tables = {
        "Means over data sets and repeats": means_table(
            told, ("model", "method", "percent"), fields
        ),
        "Lengths by data set: CQR, SLCP, and the released code": by_set_table(told),
    }
    notes = [
        *notes_of(preset),
        "SLCP-KNN: boxcar kernel, and SLCP-RBF: Gaussian kernel, both on quantile models; "
        "SLCP-mean: Gaussian kernel on mean models. A mini-batch is drawn once, at fit.",
        "Run time: processor seconds to build the law and to ask it about calibration and test "
        f"rows, with compiled code. Ratios are within one task, in the first {TIMED} repeats.",
        *RELEASED_NOTES,
        OTHER_EXPERIMENT,
    ]
    return Output(lines, tables, notes=notes)


RELEASED_NOTES = (
    "Released code: what the authors' code computes, on the same models. A mini-batch is drawn "
    "with replacement at every call, its weights go to the errors of other training rows, the "
    "bandwidth comes from the rows that are asked about (median-log), and one correction serves "
    "both sides. Its KNN keeps all rows of the mini-batch, so that nothing is local; its mean "
    "takes the local mean of signed residuals, so that widths are constant. Because calibration "
    "and new rows have different scores, it is not valid. Indices right: the weights go where they "
    "belong, all else as it is. Drawn once: the mismatch stays, but one mini-batch and one "
    "bandwidth serve calibration and new rows, which makes it valid.",
    f"{DEFAULT_SIZE}: the size of the mini-batch by default in the released code.",
)


def by_set_table(rows: list[Row]) -> list[Row]:
    """Mean lengths on each data set, with all rows and with the released code's default."""
    shown = [
        *(select(rows, method=name, percent=ALL_ROWS) for name in ("CQR", "SLCP-RBF", NARROW)),
        *(select(rows, method=name, percent=DEFAULT_SIZE) for name in RELEASED),
    ]
    kept = [row for mine in shown for row in mine]
    return means_table(kept, ("dataset", "model", "method"), ("length", "coverage"), False)


def beside(of: dict[str, str], rows: list[Row], words: str, length: Mean | None) -> list[Line]:
    """A length, told in these words, and coverage, of what the paper does not have."""
    covered = length_and_coverage(of, rows)[1]
    return [compared({**of, "quantity": words}, None, length, "length"), covered]


def variant_lines(rows: list[Row], model: str, variant: str, name: str) -> list[Line]:
    """The paper's two rows of this name beside a variant, and lengths relative to all rows."""
    paper = printed()["table_batch"]
    whole = select(rows, method=variant, percent=ALL_ROWS)
    at_whole = paper[f"{name}_length"][percents().index(ALL_ROWS)]
    lines = []
    for place, percent in enumerate(percents()):
        mine = select(rows, method=variant, percent=percent)
        length, share = paper[f"{name}_length"][place], paper[f"{name}_coverage"][place]
        of = {"model": model, "method": variant, "share of rows": f"{percent} %"}
        lines += length_and_coverage(of, mine, (length, share), NO_TARGET)
        if percent != ALL_ROWS:
            ours = ratio(same_sets(mine), same_sets(whole), "length")
            of = {**of, "quantity": "length relative to all rows"}
            lines.append(compared(of, round(length / at_whole, 3), ours, "relative"))
    return lines


def share_lines(rows: list[Row], model: str) -> list[Line]:
    """The paper's two sentences about the size of the mini-batch."""
    rows = same_sets(rows)
    whole = select(rows, method="SLCP-RBF", percent=ALL_ROWS)
    lines = []
    for percent, low, high, said in (
        (TINY_SHARE, OBVIOUS, math.inf, "the paper says obviously longer below 10 %"),
        (ADVISED, -math.inf, OBVIOUS, "the paper says not much longer"),
    ):
        of = {"model": model, "method": "SLCP-RBF", "share of rows": f"{percent} %"}
        of["quantity"] = "longer than with all rows, %"
        ours = excess(select(rows, method="SLCP-RBF", percent=percent), whole, "length")
        lines.append(between(of, ours, low, high, said))
    return lines


def time_lines(rows: list[Row]) -> list[Line]:
    """Seconds of the law relative to those with the smallest mini-batch."""
    paper = printed()["table_batch"]["relative_run_time"]
    name, least = "SLCP-RBF", percents()[0]
    base = select(rows, method=name, percent=least)
    lines = []
    for percent, value in list(zip(percents(), paper, strict=True))[1:]:
        mine = relative(select(rows, method=name, percent=percent), base, "law_seconds")
        # A data set with one model and with another are two timings.
        apart = [{**row, "dataset": (row["dataset"], row["model"])} for row in mine]
        of = {"model": "all", "method": name, "share of rows": f"{percent} %"}
        of["quantity"] = f"run time relative to {least} %"
        lines.append(within_factor(of, value, over_repeats(apart, "relative"), TIME_FACTOR))
    return lines


MINIBATCH = Experiment(
    "Mini-batch size", ablation_cases, ablation_task, minibatch_arms, minibatch_report, version=3
)


MEDIAN, LONGER = "quantile 0.5", "longer than with the median, %"
#: Beside the paper's: name -> arguments of the law.
BANDWIDTH_LAWS: dict[str, dict[str, Any]] = {
    "median-log": {"bandwidth": "median-log"},
    "cross-validated": {"bandwidth": "cv"},
}


def quantiles() -> dict[str, float]:
    """Name of a bandwidth of the paper -> quantile of the pairwise distances."""
    return {f"quantile {q:g}": q for q in printed()["table_bandwidth"]["quantile"]}


def bandwidth_arms(task: Task) -> list[Arm]:
    """SLCP on quantile models with every bandwidth."""
    laws = {name: {"bandwidth": DistanceQuantile(q)} for name, q in quantiles().items()}
    laws |= BANDWIDTH_LAWS
    return [on_quantiles(task, name, **law) for name, law in laws.items()]


def bandwidth_report(rows: list[Row], preset: Preset) -> Output:
    """Length and coverage with each bandwidth, and how much longer than with the median."""
    lines: list[Line] = []
    known = printed()["table_bandwidth"]
    paper = known["tabular_length"], known["tabular_coverage"]
    for model in models_of(preset):
        here = select(rows, model=model)
        cannot = OTHER_SETS
        if model != NETWORK:
            cannot = "the paper's length at the median is that of its network, another base model"
        rules = {name: select(here, method=name) for name in quantiles()}
        lines += against_base({"model": model, "bandwidth": ""}, rules, MEDIAN, paper, cannot)
        for name in BANDWIDTH_LAWS:
            of, mine = {"model": model, "bandwidth": name}, select(here, method=name)
            length = excess(same_sets(mine), select(here, method=MEDIAN), "length")
            lines += beside(of, mine, LONGER, length)
    fields = ("length", "coverage", "length_error_corr", "seconds")
    table = means_table(rows, ("model", "method"), fields)
    by_set = means_table(rows, ("dataset", "model", "method"), ("length", "coverage"))
    tables = {"Means over data sets and repeats": table, "By data set": by_set}
    notes = [
        *notes_of(preset),
        "SLCP is Algorithm 1 on quantile models with a Gaussian kernel; a negative per cent is "
        "shorter than with the median.",
        "Beside the paper's: the rule of its code (median-log), and cross-validation.",
        OTHER_EXPERIMENT,
    ]
    return Output(lines, tables, notes=notes)


def against_base(
    of: dict[str, str],
    rows: dict[str, list[Row]],
    base: str,
    paper: tuple[list[float], list[float]],
    cannot: str,
    words: tuple[str, str] = ("length", LONGER),
    cannot_change: str = "",
) -> list[Line]:
    """The paper's lengths and coverages of variants, and how much longer each is than the base.

    The last field of ``of`` begins what a line is about, and the variant ends it.
    """
    *_, field = of
    at_base, lines = dict(zip(rows, paper[0], strict=True))[base], []
    for (name, mine), length, share in zip(rows.items(), *paper, strict=True):
        about = {**of, field: of[field] + name}
        lines += length_and_coverage(about, mine, (length, share), cannot, length=words[0])
        if name != base:
            longer = round(100.0 * (length / at_base - 1.0), 1)
            ours = excess(same_sets(mine), rows[base], "length")
            lines += change_lines({**about, "quantity": words[1]}, longer, ours, cannot_change)
    return lines


BANDWIDTH = Experiment(
    "Bandwidth of the kernel",
    ablation_cases,
    ablation_task,
    bandwidth_arms,
    bandwidth_report,
    version=2,
)


#: The authors' code goes from 1 to 1024, on simulation 2.
CAPACITY_SIZES = tuple(2**power for power in range(11))
CAPACITY_SETS = ("bike", "concrete", *SIMULATED)
#: Above this hidden size the paper sees almost no difference between SLCP and CQR.
LARGE = 32
CAPACITY_COMPARED = ("split", "CQR", "SLCP")
#: SLCP as the paper describes it, and with the bandwidth of its code.
READINGS = ("SLCP", AS_IN_CODE)
#: Rows of a training step.
CAPACITY_BATCH = 64
#: Per cent of the length that count as almost no difference.
ALMOST = 5.0


def capacity_sizes_of(preset: Preset) -> tuple[int, ...]:
    """Hidden sizes; the largest takes as long as all others together."""
    if not preset.is_broad:
        return (1, 64)
    return CAPACITY_SIZES if preset.is_whole else CAPACITY_SIZES[:-1]


def capacity_sets_of(preset: Preset) -> tuple[str, ...]:
    """Simulation 2, as in the authors' code, and others beside it."""
    return CAPACITY_SETS if preset.is_broad else ("sim2",)


def capacity_cases(preset: Preset) -> list[Case]:
    """A task for each hidden size; none where PyTorch is missing."""
    repeats = 0 if FAMILIES[NETWORK].left_out else preset.network_repeats
    return cases_of(repeats, dataset=capacity_sets_of(preset), hidden=capacity_sizes_of(preset))


def capacity_task(case: Case, preset: Preset) -> Task:
    """Networks of one hidden size."""
    hidden, split = case["hidden"], split_of(case["dataset"], case["repeat"], preset)
    choose = partial(choose_network, hidden=(hidden, hidden), batch_size=CAPACITY_BATCH)
    return share_models(case, preset, split, Family(f"network of {hidden}", choose), "capacity")


def capacity_report(rows: list[Row], preset: Preset) -> Output:
    """SLCP's length relative to the others', at each hidden size."""
    lines = [
        capacity_line_of(select(rows, hidden=hidden), hidden, reading, other)
        for hidden in capacity_sizes_of(preset)
        for reading in READINGS
        for other in ("CQR", "split")
    ]
    table = means_table(rows, ("dataset", "hidden", "method"), ("length", "coverage", "seconds"))
    names, sizes = (*CAPACITY_COMPARED, *BANDWIDTHS), capacity_sizes_of(preset)

    def length(name: str, hidden: float) -> Mean | None:
        return over_repeats(select(rows, method=name, hidden=hidden), "length")

    draw = curves(names, sizes, length, "hidden size", "mean length", log=True)
    notes = [
        *filter(None, [FAMILIES[NETWORK].left_out]),
        f"Data: {', '.join(capacity_sets_of(preset))}, of which lengths are averaged; "
        f"{preset.network_repeats} repeats. The paper says all data sets; the authors' code runs "
        "simulation 2 alone.",
        "The paper shows a figure and prints no value: lines are about what it says.",
        "Networks of two hidden layers with dropout, trained with Adam for at most "
        f"{preset.epochs} epochs; split conformal is on the mean network, CQR and SLCP "
        "(Algorithm 1, median bandwidth) on the quantile network. Beside it SLCP with the "
        "bandwidth of the authors' code (median-log), and with a cross-validated one.",
    ]
    return Output(lines, {"Means over repeats": table}, {"capacity.png": draw}, notes)


def capacity_line_of(rows: list[Row], hidden: int, reading: str, other: str) -> Line:
    """Shorter than both with few units; much like CQR with many, and still shorter than split."""
    ours = excess(select(rows, method=reading), select(rows, method=other), "length")
    of = {"hidden size": str(hidden), "method": reading, "quantity": f"longer than {other}, %"}
    if other == "CQR" and hidden > LARGE:
        return between(of, ours, -ALMOST, ALMOST, "the paper says almost no difference")
    return below(of, ours, 0.0, "the paper says shorter", NEGLIGIBLE)


CAPACITY = Experiment(
    "Model capacity",
    capacity_cases,
    capacity_task,
    # Split conformal on the mean network, CQR and SLCP on the quantile network.
    lambda task: named_arms(task, CAPACITY_COMPARED) + other_bandwidths(task),
    capacity_report,
    version=2,
)
