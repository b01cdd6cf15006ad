"""What methods cost: seconds against rows, a fixed mini-batch, and more than one level."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.harness import (
    Arm,
    Case,
    Experiment,
    Line,
    Output,
    Preset,
    Row,
    Rows,
    Task,
    calibrated,
    cases_of,
    predict_sets,
    seed_of,
)
from benchmarks.tables import Mean, excess, in_per_cent, means_table, over_repeats, ratio, select
from localconformal import ConformalizedQuantileRegressor, KernelLaw
from localconformal.datasets import load_simulation
from localconformal.metrics.intervals import tied_lengths
from localconformal.quantiles import Array
from paper.ablations import models_of, split_of
from paper.methods import named_arms, share_models, slcp
from paper.models import FAMILIES, UNTUNED, Memory, SharedQuantiles, model_cases
from paper.simulations import drawn_rows
from paper.verdicts import TOLERANCES, below, between, compared

#: The paper compares methods on the simulations of Izbicki et al. where it speaks of their cost.
SIMULATION = "heteroscedastic"
SLOWER = ("LCP", "CDSplit")
OTHERS = ("CQR", "MADSplit", "DistSplit", "LVD")
#: Rows to train on and as many to calibrate on, and those of a preset with capped rows.
RUN_TIME_SIZES, FEW_SIZES = (200, 500, 2_000, 4_000, 8_000), (500, 2_000, 8_000)
RUN_TIME_TEST_ROWS = 1_000
#: Repeats, at most: seconds differ little from one to the next, and draws hardly matter.
RUN_TIME_REPEATS = 5
#: Fields of a row: all, to train and calibrate, to predict; and two of them in words.
SECONDS = ("seconds", "calibration_seconds", "prediction_seconds")
QUANTITIES = {"seconds": "seconds", "prediction_seconds": "seconds of prediction"}
#: Slower methods run so often, and the least time counts: what base models a first run fits and
#: predicts, the others find.
TIMINGS = 2


def run_time_sizes_of(preset: Preset) -> tuple[int, ...]:
    """Numbers of rows."""
    if not preset.is_broad:
        return RUN_TIME_SIZES[:1]
    return RUN_TIME_SIZES if preset.is_whole else FEW_SIZES


def run_time_task(case: Case, preset: Preset) -> Task:
    """Rows of one size, so that ratios are within one process; models that remember."""
    test_rows = min(RUN_TIME_TEST_ROWS, preset.test_rows)
    sizes = replace(preset, simulated_rows=case["size"], test_rows=test_rows)
    split = drawn_rows(load_simulation(SIMULATION), case["repeat"], sizes)
    return share_models(case, preset, split, UNTUNED, "run_time", answers=True)


def least_seconds(task: Task, arm: Arm) -> list[Row]:
    """The least of a few timings, to train and calibrate, and to predict: processor seconds."""
    found: list[tuple[float, ...]] = []
    for _ in range(TIMINGS):
        start = time.process_time()
        model = calibrated(clone(arm.model), task.split)
        ready = time.process_time()
        predict_sets(model, task.split.test)
        done = time.process_time()
        found.append((done - start, ready - start, done - ready))
    return [{"method": arm.method, **dict(zip(SECONDS, min(found), strict=True))}]


def run_time_report(rows: list[Row], preset: Preset) -> Output:
    """Seconds relative to SLCP's, at each size."""
    lines: list[Line] = []
    for n in run_time_sizes_of(preset):
        here = select(rows, size=n)
        for name in (*SLOWER, *OTHERS):
            for field, words in QUANTITIES.items():
                of = {"rows": str(n), "method": name, "quantity": f"{words} relative to SLCP"}
                ours = ratio(select(here, method=name), select(here, method="SLCP"), field)
                lines.append(
                    between(of, ours, 1.0, math.inf, "the paper says slower")
                    if name in SLOWER
                    else compared(of, None, ours, "length")
                )
    notes = [
        f"Simulation {SIMULATION}, 20 features, forests; so many rows to train on, as many to "
        f"calibrate on, {min(RUN_TIME_TEST_ROWS, preset.test_rows)} to predict. Processor seconds, "
        "without those of the base models that methods share; ratios are within one task.",
        f"At most {RUN_TIME_REPEATS} repeats: seconds hardly depend on the rows that are drawn.",
        "The paper says that LCP and CD-Split need more extensive computation, and prints no "
        "seconds.",
        "LCP is this library's exact algorithm, O(n log n) per prediction, not the search over "
        "levels and responses that the paper has in mind. Its seconds are in part those of the "
        "search for its bandwidth, CD-Split's those of a forest for its densities, and LVD's those "
        "of learning its metric: seconds of prediction are without them.",
        "SLCP's law is plain NumPy up to 3,000 training rows and compiled code beyond, so that "
        "its seconds of prediction fall from 2,000 rows to 8,000, and ratios of sizes below and "
        "above 3,000 rows are not of one engine.",
    ]
    table = means_table(rows, ("size", "method"), SECONDS)
    return Output(lines, {"Seconds, means over repeats": table}, notes=notes)


RUN_TIME = Experiment(
    "Run time against rows",
    lambda preset: cases_of(min(preset.repeats, RUN_TIME_REPEATS), size=run_time_sizes_of(preset)),
    run_time_task,
    lambda task: named_arms(task, ("SLCP", *SLOWER, *OTHERS)),
    run_time_report,
    least_seconds,
    version=3,
)


#: The law on all training rows and on a batch of fixed size -> rows of the batch, and the power of
#: n with which the paper has the seconds grow, with as many rows to calibrate as to train.
BATCH = 300
LAWS = {"all rows": (None, 2.0), f"a batch of {BATCH} rows": (BATCH, 1.0)}
LAW_SIZES, FEW_LAW_SIZES = (4_000, 8_000, 16_000, 32_000), (500, 1_000)
#: The least of so many timings counts.
LAW_TIMINGS = 3
#: How far from the paper's power ours may be: fixed costs weigh more with few rows.
POWER_MARGIN = 0.2


def law_sizes_of(preset: Preset) -> tuple[int, ...]:
    """Numbers of rows."""
    return LAW_SIZES if preset.is_broad else FEW_LAW_SIZES


def law_task(case: Case, preset: Preset) -> Task:
    """Rows of one size, and no model but the true mean."""
    simulation = load_simulation(SIMULATION)
    sizes = replace(preset, simulated_rows=case["size"], test_rows=1)
    split = drawn_rows(simulation, case["repeat"], sizes)
    seed = seed_of("method", "batch_cost", *case.values())
    return Task(case, preset, split, None, seed, np.empty(0), simulation)


def law_rows(task: Task) -> list[Row]:
    """Processor seconds to build the law and to ask it about all calibration rows.

    The bandwidth is that of all rows and is not timed; one engine for all sizes.
    """
    train, asked = task.split.train, task.split.calibration.X
    v = train.y - task.known.mean(train.X)
    h = KernelLaw(random_state=task.seed).fit_localizer(train.X, v).bandwidth
    law, rows = KernelLaw(bandwidth=h, engine="exact", random_state=task.seed, n_jobs=1), []
    for name, (batch, _) in LAWS.items():
        # Rows are in random order: the first are as good a mini-batch as any.
        kept, found = slice(batch), []
        for _ in range(LAW_TIMINGS):
            start = time.process_time()
            law.fit(train.X[kept], v[kept]).quantile(asked, [0.95])
            found.append(time.process_time() - start)
        rows.append({"method": name, "seconds": min(found)})
    return rows


def batch_cost_report(rows: list[Row], preset: Preset) -> Output:
    """With which power of n the seconds of the law grow."""
    lines = []
    for name, (_, power) in LAWS.items():
        of = {"law on": name, "quantity": "power of n in the seconds"}
        ours = power_of(select(rows, method=name), law_sizes_of(preset))
        said = f"the paper says {power:g}"
        lines.append(between(of, ours, power - POWER_MARGIN, power + POWER_MARGIN, said))
    notes = [
        "The paper says that the law costs O(training rows x calibration rows), and with a batch "
        "of fixed size only O(calibration rows). Here n rows train and n calibrate: that is n^2 "
        "and n.",
        f"Simulation {SIMULATION}, 20 features. Processor seconds to build the law and to ask it "
        "about the calibration rows, with one engine, which computes every weight; the power is "
        "the slope of log seconds over log n.",
    ]
    table = means_table(rows, ("size", "method"), ("seconds",))
    return Output(lines, {"Seconds, means over repeats": table}, notes=notes)


def power_of(rows: list[Row], sizes: Sequence[int]) -> Mean | None:
    """The slope of log seconds over log n, mean over repeats that have all sizes."""
    slopes = []
    for repeat in dict.fromkeys(row["repeat"] for row in rows):
        spent = {row["size"]: row["seconds"] for row in select(rows, repeat=repeat)}
        if len(spent) == len(sizes):
            slope = np.polyfit(np.log(list(spent)), np.log(list(spent.values())), 1)[0]
            slopes.append({"repeat": repeat, "slope": slope})
    return over_repeats(slopes, "slope")


BATCH_COST = Experiment(
    "Cost of the law against rows, at a fixed batch",
    lambda preset: cases_of(min(preset.repeats, RUN_TIME_REPEATS), size=law_sizes_of(preset)),
    law_task,
    lambda task: [],
    batch_cost_report,
    beside=law_rows,
)


#: Levels that are asked of each method, and the one that quantile models are fitted for.
ASKED, FITTED_AT = (0.5, 0.7, 0.8, 0.9, 0.95), 0.9
LEVELS_SETS, FEW_SETS = ("bike", "community", "concrete", "sim2"), ("concrete", "sim2")
REFITTED, ONCE, ON_MEANS, ON_QUANTILES = (
    "CQR, refitted",
    "CQR, one fit",
    "SLCP on means",
    "SLCP on quantiles",
)
LEVELS_METHODS = (ON_MEANS, ON_QUANTILES, ONCE, REFITTED)


def levels_sets_of(preset: Preset) -> tuple[str, ...]:
    """Data sets."""
    return LEVELS_SETS if preset.is_broad else FEW_SETS


def levels_task(case: Case, preset: Preset) -> Task:
    """Models of a family that share nothing: each method fits its own, so that seconds count."""
    split = split_of(case["dataset"], case["repeat"], preset)
    seed = seed_of("method", "levels", *case.values())
    models = FAMILIES[case["model"]].choose(split.train.X, split.train.y, seed, preset)
    return Task(case, preset, split, models, seed, np.empty(0))


def levels_arms(task: Task) -> list[Arm]:
    """SLCP and CQR from one fit for all levels, and CQR with a fit for each."""
    mean, quantile, seed = task.models.mean, task.models.quantile, task.seed
    # A model that answers any level, such as a forest, is found again and not refitted.
    memory = Memory()
    refits = [SharedQuantiles(at_level(quantile, level), memory) for level in ASKED]
    models = {
        ON_MEANS: [slcp(mean, "residual", KernelLaw(n_jobs=1), seed)],
        ON_QUANTILES: [slcp(quantile, "quantile", KernelLaw(n_jobs=1), seed)],
        ONCE: [cqr(quantile, FITTED_AT, seed)],
        REFITTED: [cqr(model, level, seed) for model, level in zip(refits, ASKED, strict=True)],
    }
    return [Arm(name, mine) for name, mine in models.items()]


def cqr(model: Any, level: float, seed: int) -> ConformalizedQuantileRegressor:
    """CQR whose quantile model is fitted for this level."""
    shared = {"calibration_size": None, "random_state": seed, "n_jobs": 1}
    return ConformalizedQuantileRegressor(model, confidence_level=level, **shared)


def at_level(model: Any, level: float) -> Any:
    """The quantile model for this level, where it has levels; else it answers any."""
    if "levels" not in model.get_params():
        return model
    tail = (1.0 - level) / 2.0
    return clone(model).set_params(levels=(tail, 0.5, 1.0 - tail))


def at_all_levels(task: Task, arm: Arm) -> list[Row]:
    """A row for each level, with the seconds that all of them took together."""
    start, bounds = time.process_time(), []
    for model in arm.model:
        asked = [model.confidence_level] if len(arm.model) > 1 else list(ASKED)
        found = calibrated(model, task.split).predict_interval(task.split.test.X, asked)
        bounds += list(np.moveaxis(found, 2, 0))
    spent = time.process_time() - start
    return [
        {"method": arm.method, "level": level, "seconds": spent, **figures(task.split.test, mine)}
        for level, mine in zip(ASKED, bounds, strict=True)
    ]


def figures(test: Rows, bounds: Array) -> Row:
    """Length and coverage of intervals (n, 2)."""
    lengths = tied_lengths(bounds)
    finite = np.isfinite(lengths)
    covered = (bounds[:, 0] <= test.y) & (test.y <= bounds[:, 1])
    length = lengths[finite].mean() if finite.any() else None
    return {"length": length, "infinite": 1.0 - finite.mean(), "coverage": covered.mean()}


def levels_report(rows: list[Row], preset: Preset) -> Output:
    """Coverage at each level, and seconds and lengths relative to CQR with a fit for each."""
    lines: list[Line] = []
    for model in models_of(preset):
        here = select(rows, model=model)
        base = select(here, method=REFITTED)
        for name in LEVELS_METHODS:
            of, mine = {"model": model, "method": name}, select(here, method=name)
            for level in ASKED:
                lines += level_lines(of, level, mine, base)
            if name in (ON_MEANS, ON_QUANTILES):
                # Every level has the seconds of all of them.
                first = {"level": ASKED[0]}
                spent = ratio(select(mine, **first), select(base, **first), "seconds")
                of |= {"level": "all five", "quantity": f"seconds relative to {REFITTED}"}
                lines.append(below(of, spent, 1.0, SAID))
    notes = [
        "The paper says that CQR needs a new model for each level, and SLCP none. All methods have "
        f"one split; levels {', '.join(f'{100 * level:g} %' for level in ASKED)}.",
        f"{REFITTED}: a quantile model for each level. {ONCE}: quantiles of {100 * FITTED_AT:g} % "
        "and another correction for each level. SLCP (Algorithm 1): one model of the mean, or of "
        f"the quantiles of {100 * FITTED_AT:g} %, and one law.",
        "Processor seconds of all five levels together, to train, to calibrate and to predict.",
        "A quantile forest answers every level from one fit, so that CQR on it is not refitted "
        "either.",
        "SLCP's intervals are nested: each is the hull with those of lower levels.",
    ]
    places = ("model", "method", "level")
    table = means_table(rows, places, ("length", "coverage", "infinite", "seconds"))
    return Output(lines, {"Means over data sets and repeats": table}, notes=notes)


def level_lines(of: dict[str, str], level: float, rows: list[Row], base: list[Row]) -> list[Line]:
    """Coverage of a method at a level, and how much longer it is than the base."""
    asked, mine = 100.0 * level, select(rows, level=level)
    of = {**of, "level": f"{asked:g} %"}
    covered, low = in_per_cent(over_repeats(mine, "coverage")), asked - TOLERANCES["coverage"][1]
    said = f"the guarantee is {asked:g} % at least"
    lines = [between({**of, "quantity": "coverage, %"}, covered, low, math.inf, said)]
    if of["method"] != REFITTED:
        of["quantity"] = f"longer than {REFITTED}, %"
        longer = excess(mine, select(base, level=level), "length")
        lines.append(compared(of, None, longer, "length"))
    return lines


SAID = "the paper says that SLCP needs no new model for a new level"
LEVELS = Experiment(
    "More than one level from one fit",
    lambda preset: model_cases(preset, dataset=levels_sets_of(preset), model=models_of(preset)),
    levels_task,
    levels_arms,
    levels_report,
    at_all_levels,
)
