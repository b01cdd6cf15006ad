"""The paper's theory on simulations, whose truth is known: scenarios, rates, score functions."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import product
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
    Task,
    cases_of,
)
from benchmarks.tables import (
    Mean,
    difference,
    excess,
    in_per_cent,
    means_table,
    over_repeats,
    ratio,
    select,
)
from localconformal import LocalizedConformalRegressor
from localconformal.laws import DistanceQuantile
from paper.ablations import SIMULATED, curves
from paper.methods import share_models
from paper.models import HOMOSCEDASTIC, HOMOSCEDASTIC_ONE, load, truth
from paper.simulations import (
    CODE,
    FOREST,
    LINEAR,
    MEASURED,
    TEXT,
    drawn_rows,
    gaussian_law,
    measured,
    oracle_row,
    repeats_of,
    simulated_task,
    slcp_arm,
)
from paper.verdicts import NEGLIGIBLE, NEGLIGIBLE_GAP, TOLERANCES, below, between, compared


class Shrinking:
    """h = median distance x n^(-1 / (2 + d)): shrinks as the proof asks of a Lipschitz law."""

    def choose(self, problem: Any) -> float:
        """The shrunk median of the pairwise distances."""
        n, d = problem.points.shape
        return float(problem.distance_quantile(0.5) * n ** (-1.0 / (2.0 + d)))


#: The same method without localization.
NONE = "no local law"
#: The paper's bandwidth, that of its code, the narrowest of its ablation, and two that shrink.
SCENARIOS_LAWS: dict[str, Any] = {
    NONE: "uniform",
    "median": gaussian_law("median"),
    "median-log": gaussian_law("median-log"),
    "0.1 quantile": gaussian_law(DistanceQuantile(0.1)),
    "rate": gaussian_law(Shrinking()),
    "cv": gaussian_law("cv"),
}


def scenario(title: str, score: str, simulations: tuple[str, ...], said: str) -> Experiment:
    """Every law on the same rows, with this score taken from the truth of the simulations."""

    def task(case: Case, preset: Preset) -> Task:
        simulation = load(case["dataset"])
        split = drawn_rows(simulation, case["repeat"], preset)
        return share_models(case, preset, split, truth(simulation.name), title, known=simulation)

    def report(rows: list[Row], preset: Preset) -> Output:
        lines: list[Line] = []
        for name in simulations:
            here = select(rows, dataset=name)
            for law in list(SCENARIOS_LAWS)[1:]:
                of = {"simulation": name, "law": law}
                gap = in_per_cent(difference(here, law, NONE, "conditional_gap"))
                length = excess(select(here, method=law), select(here, method=NONE), "length")
                gap_of = {**of, "quantity": "added conditional gap, points"}
                lines.append(below(gap_of, gap, NEGLIGIBLE_GAP, said))
                length_of = {**of, "quantity": "added length, %"}
                lines.append(below(length_of, length, NEGLIGIBLE, said))
        notes = [
            f"Scores from the true {'quantiles' if score == 'quantile' else 'mean'} of the "
            "simulation: nothing is left to localize.",
            "The paper prints no number: a law does no harm if it adds no more than "
            f"{NEGLIGIBLE_GAP} points to the mean distance of the coverage at x from 90 %, and no "
            f"more than {NEGLIGIBLE:g} % to the length, each with its 95 % margin.",
            f"All are the paper's Algorithm 1, on Gaussian kernels; {NONE}: equal weights.",
        ]
        table = means_table(rows, ("dataset", "method"), MEASURED, False)
        return Output(lines, {"Means over repeats": table}, notes=notes)

    return Experiment(
        title,
        lambda preset: cases_of(repeats_of(preset), dataset=simulations),
        task,
        lambda task: [slcp_arm(task, name, law, score) for name, law in SCENARIOS_LAWS.items()],
        report,
        measured,
        oracle_row,
    )


INDEPENDENT_SCORES = scenario(
    "Scores independent of x",
    "residual",
    (HOMOSCEDASTIC_ONE, HOMOSCEDASTIC),
    "the paper says that localization does no harm",
)
TRUE_QUANTILES = scenario(
    "Scores from the true quantiles",
    "quantile",
    SIMULATED,
    "the paper says that the local quantile is about 0",
)


#: One feature, and twenty of which one matters.
PROPOSITION2_SIMULATIONS = ("sim2", "heteroscedastic")
#: The paper's bandwidth, one that shrinks as the proof asks, and none.
PROPOSITION2_LAWS: dict[str, Any] = {
    "median": gaussian_law("median"),
    "rate": gaussian_law(Shrinking()),
    "no local law": "uniform",
}
#: Where the proof applies and its rate, n^(-1 / 3), is one that these sizes can show.
JUDGED = ("sim2", "rate")
#: Why the other places cannot judge the proposition, by their bandwidth.
OUTSIDE = {
    "median": "outside the proposition, whose proof asks for a bandwidth that shrinks",
    "rate": "with 20 features the proof has -1/22 in the limit, which these sizes are far from",
}
PROPOSITION2_SIZES = (250, 500, 1_000, 2_000, 4_000, 8_000)
#: With gap ~ n^b, a b above this needs more than a thousand times the rows to halve the gap.
SLOWEST = -0.1


def proposition2_sizes_of(preset: Preset) -> tuple[int, ...]:
    """Rows to train on, and as many to calibrate on."""
    return PROPOSITION2_SIZES[:2] if preset.only_runs else PROPOSITION2_SIZES


def proposition2_task(case: Case, preset: Preset) -> Task:
    """Models that know the truth, so that only the local law is at stake."""
    simulation = load(case["dataset"])
    split = drawn_rows(simulation, case["repeat"], replace(preset, simulated_rows=case["size"]))
    family = truth(simulation.name)
    return share_models(case, preset, split, family, "proposition2", known=simulation)


def proposition2_report(rows: list[Row], preset: Preset) -> Output:
    """The gap at each size, the exponent with which it falls, and curves."""
    lines: list[Line] = []
    for name in PROPOSITION2_SIMULATIONS:
        for law in ("median", "rate"):
            of = {"simulation": name, "bandwidth": law}
            of["quantity"] = "exponent of n in the conditional gap"
            exponent = exponent_of(select(rows, dataset=name, method=law), preset)
            lines.append(
                below(of, exponent, SLOWEST, "the paper says that the gap vanishes")
                if (name, law) == JUDGED
                else compared(of, None, exponent, "length", OUTSIDE[law])
            )

    def gap(name: str, law: str, n: float) -> Mean | None:
        here = select(rows, dataset=name, method=law, size=n)
        return in_per_cent(over_repeats(here, "conditional_gap"))

    words = ("rows to train on", "mean distance of coverage at x from 90 %, points")
    figures = {
        f"proposition2_{name}.png": curves(
            PROPOSITION2_LAWS, proposition2_sizes_of(preset), partial(gap, name), *words, log=True
        )
        for name in PROPOSITION2_SIMULATIONS
    }
    notes = [
        "Conditional gap: mean distance of the coverage at x, which is known here, from 90 %; "
        "residuals from the true mean, as many rows to calibrate as to train.",
        f"The gap is taken to fall like n^b; the claim is met if b is below {SLOWEST}, beyond the "
        "95 % margin: above it, halving the gap takes more than a thousand times the rows.",
        "The median bandwidth does not shrink with n, so that the proof does not apply to it; "
        "the rate is h = median x n^(-1 / (2 + d)), with which the proof has b = -1 / (2 + d): "
        "with 20 features, halving the gap then takes 2^22 times the rows.",
    ]
    places = {"dataset": "simulation", "size": "rows", "method": "bandwidth"}
    fields = ("conditional_gap", "length", "coverage", "seconds")
    table = means_table(rows, places, fields, False)
    return Output(lines, {"Means over repeats": table}, figures, notes)


def exponent_of(rows: list[Row], preset: Preset) -> Mean | None:
    """The slope of log gap over log n, mean over repeats."""
    sizes = proposition2_sizes_of(preset)
    slopes = []
    for repeat in dict.fromkeys(row["repeat"] for row in rows):
        mine = [row for row in select(rows, repeat=repeat) if row.get("conditional_gap")]
        gaps = {row["size"]: row["conditional_gap"] for row in mine}
        if len(gaps) == len(sizes):
            slope = np.polyfit(np.log(list(gaps)), np.log(list(gaps.values())), 1)[0]
            slopes.append({"repeat": repeat, "slope": slope})
    return over_repeats(slopes, "slope")


PROPOSITION2 = Experiment(
    "Proposition 2: conditional coverage against n",
    lambda preset: cases_of(
        repeats_of(preset), dataset=PROPOSITION2_SIMULATIONS, size=proposition2_sizes_of(preset)
    ),
    proposition2_task,
    lambda task: [slcp_arm(task, name, law, "residual") for name, law in PROPOSITION2_LAWS.items()],
    proposition2_report,
    measured,
    version=2,
)


#: The paper's score functions m(v, F, theta), and the one without a law, which is split conformal.
ADDITIVE, SPLIT = "additive quantile (SLCP)", "no law (split)"
FUNCTIONS = {
    ADDITIVE: "additive",
    "multiplicative quantile": "multiplicative",
    "additive expectation": "additive-expectation",
    "theta-quantile": "theta",
    SPLIT: "plain",
}
NO_LAW = "none"
#: Conformity scores V: |y - mu(x)|, or its two signs with half of the miscoverage each.
SCORES = {"absolute": "absolute residual", "residual": "residual, each sign"}
#: The theorem says at least 90 %; as near as coverages are compared anywhere.
AT_LEAST = 100.0 * LEVEL - TOLERANCES["coverage"][1]


def bandwidths_of(name: str) -> tuple[str, ...]:
    """The paper's and its code's, where a score function has a law."""
    return (NO_LAW,) if name == SPLIT else (TEXT, CODE)


def score_function_arms(task: Task) -> list[Arm]:
    """Every score function with both scores, at each bandwidth."""
    return [
        Arm(
            name,
            LocalizedConformalRegressor(
                task.models.mean,
                conformity_score=score,
                law="uniform" if bandwidth == NO_LAW else gaussian_law(bandwidth),
                adjustment=adjustment,
                reference="train",
                sides="union",
                calibration_size=None,
                random_state=task.seed,
                n_jobs=1,
            ),
            {"score": words, "bandwidth": bandwidth},
        )
        for name, adjustment in FUNCTIONS.items()
        for score, words in SCORES.items()
        for bandwidth in bandwidths_of(name)
    ]


def numbers(task: Task, arm: Arm) -> list[Row]:
    """The row of a method without what only figures need."""
    drawn = ("profile", "lower", "upper")
    return [
        {name: value for name, value in row.items() if name not in drawn}
        for row in measured(task, arm)
    ]


def score_functions_report(rows: list[Row], preset: Preset) -> Output:
    """Whether each score function covers, and its length relative to the first one's."""
    lines: list[Line] = []
    for name, words in product(FUNCTIONS, SCORES.values()):
        for bandwidth in bandwidths_of(name):
            here = select(apart(rows), score=words)
            mine = select(here, method=name, bandwidth=bandwidth)
            of = {"score function": name, "score": words, "bandwidth": bandwidth}
            covered = in_per_cent(over_repeats(mine, "coverage"))
            covered_of = {**of, "quantity": "coverage, %"}
            lines.append(between(covered_of, covered, AT_LEAST, math.inf, SAID))
            if name != ADDITIVE:
                known = TEXT if bandwidth == NO_LAW else bandwidth
                base = select(here, method=ADDITIVE, bandwidth=known)
                length_of = {**of, "quantity": "length relative to SLCP's"}
                lines.append(compared(length_of, None, ratio(mine, base, "length"), "length"))
    places = {"dataset": "simulation", "model": "model", "score": "score", "bandwidth": "bandwidth"}
    table = means_table(rows, {**places, "method": "score function"}, MEASURED, False)
    notes = [
        "The generalised theorem: with theta_i = p(V_i, F_i) of calibration rows and theta* their "
        "conformal quantile, C(x) = {y : p(V(x, y), F_x) <= theta*} covers with at least 90 %, for "
        "any m that is monotone. The paper's statement of C has the inequality the other way "
        "round; this is the reading that its proof supports.",
        "Means and forests fitted to the training rows; V of training rows in sample, as in "
        "Algorithm 1; Gaussian kernels. Lines are means over three simulations and two models.",
        f"A coverage is as the theorem says if it is above {AT_LEAST:g} %, beyond its 95 % margin. "
        "Two signs have half of the miscoverage each, so that they cover a little more.",
        "Additive expectation with the two signs has one width for all rows: it moves intervals "
        "and does not widen them. The theta-quantile has values beyond the largest training score "
        "told apart by their distance from it: with ranks alone, intervals could be infinite.",
    ]
    return Output(lines, {"Means over repeats": table}, notes=notes)


SAID = "the paper's theorem says at least 90 %"


def apart(rows: list[Row]) -> list[Row]:
    """Rows whose data set is the simulation with the model: each is a place of its own."""
    return [{**row, "dataset": f"{row['dataset']}, {row['model']}"} for row in rows]


SCORE_FUNCTIONS = Experiment(
    "Score functions of the generalised theorem",
    lambda preset: cases_of(repeats_of(preset), dataset=SIMULATED, model=(LINEAR, FOREST)),
    partial(simulated_task, "score_functions"),
    score_function_arms,
    score_functions_report,
    numbers,
)
