"""What the appendix's two scenarios share: scores from the truth, with a local law and without.

Where the base model is the truth there is nothing left to localize. The paper says that SLCP then
does no harm "no matter what kernel or bandwidth": each bandwidth is compared on the same rows with
the same method without a local law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.paper._said import below
from localconformal.experiments.paper._simulated import (
    drawn_rows,
    gaussian_law,
    means_table,
    measured,
    oracle_row,
    repeats_of,
    slcp_with,
)
from localconformal.experiments.paper._truth import load, true_models
from localconformal.experiments.presets import Preset
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import Mean, in_per_cent, over_repeats, paired, select
from localconformal.laws.bandwidth import DistanceQuantile

#: The same method without localization.
NONE = "no local law"
#: The paper's bandwidth, that of its code, the narrowest of its ablation, and two that shrink.
LAWS: dict[str, Any] = {
    NONE: "uniform",
    "median": gaussian_law("median"),
    "median-log": gaussian_law("median-log"),
    "0.1 quantile": gaussian_law(DistanceQuantile(0.1)),
    "rate": gaussian_law("rate"),
    "cv": gaussian_law("cv"),
}
#: Points of coverage, and per cent of the length, that a method may add and do no harm.
HARMLESS_GAP, HARMLESS_LENGTH = 0.5, 1.0


@dataclass(frozen=True)
class Scenario:
    """One of the two: which simulations, and which score is taken from the truth."""

    title: str
    score: str
    simulations: tuple[str, ...]
    said: str

    def experiment(self) -> Experiment:
        """The experiment of this scenario."""
        return Experiment(self.title, self.cases, self.run, self.report)

    def cases(self, preset: Preset) -> list[Case]:
        """One task a simulation and repeat."""
        return [
            {"dataset": name, "repeat": repeat}
            for repeat in repeats_of(preset)
            for name in self.simulations
        ]

    def run(self, case: Case, preset: Preset) -> list[Row]:
        """Every law on the same rows and scores."""
        name, repeat = case["dataset"], case["repeat"]
        simulation = load(name)
        split = drawn_rows(simulation, repeat, preset)
        seed = seed_of("method", self.title, name, repeat)
        models, prediction = true_models(name, split, seed, preset)
        scored = {
            "score": self.score,
            "estimator": models.quantile if self.score == "quantile" else models.mean,
        }
        tried = {
            law_name: slcp_with(models, seed, preset, law=law, **scored)
            for law_name, law in LAWS.items()
        }
        return [
            oracle_row(simulation, split),
            *(
                measured(method, model, split, prediction, simulation, draw=False)
                for method, model in tried.items()
            ),
        ]

    def report(self, rows: list[Row], preset: Preset) -> Output:
        """What each law adds to the gap and to the length, on each simulation."""
        lines: list[Line] = []
        for name in dict.fromkeys(case["dataset"] for case in self.cases(preset)):
            here = select(rows, dataset=name)
            for law in LAWS:
                if law != NONE:
                    lines += self._lines(here, name, law)
        notes = [
            f"Scores from the true {'quantiles' if self.score == 'quantile' else 'mean'} of the "
            "simulation: nothing is left to localize.",
            "The paper prints no number: a law does no harm if it adds no more than "
            f"{HARMLESS_GAP} points to the mean distance of the coverage at x from 90 %, and no "
            f"more than {HARMLESS_LENGTH:g} % to the length, each with its 95 % margin.",
            f"All are the paper's Algorithm 1, on Gaussian kernels; {NONE}: equal weights.",
        ]
        table = means_table(rows, ("dataset",))
        return Output(lines, {"Means over repeats": table}, notes=notes)

    def _lines(self, rows: list[Row], name: str, law: str) -> list[Line]:
        of = {"simulation": name, "law": law}
        gap = in_per_cent(over_repeats(paired(rows, law, NONE, "conditional_gap"), "difference"))
        length = in_per_cent(self._relative_length(rows, law))
        gap_of = {**of, "quantity": "added conditional gap, points"}
        length_of = {**of, "quantity": "added length, %"}
        return [
            below(gap_of, gap, HARMLESS_GAP, self.said),
            below(length_of, length, HARMLESS_LENGTH, self.said),
        ]

    def _relative_length(self, rows: list[Row], law: str) -> Mean | None:
        base = {row["repeat"]: row.get("length") for row in select(rows, method=NONE)}

        def added(row: Row) -> float | None:
            known, length = base.get(row["repeat"]), row.get("length")
            return None if not known or length is None else length / known - 1.0

        return over_repeats(select(rows, method=law), added)
