"""Table 3: the simulations of Izbicki et al., on quantile forests."""

from __future__ import annotations

import numpy as np

from localconformal.datasets import load_simulation
from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.models import FAMILIES
from localconformal.experiments.objective import LEVEL, try_method
from localconformal.experiments.presets import Preset
from localconformal.experiments.printed import printed
from localconformal.experiments.rows import simulated_split
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import (
    below_bands,
    compared,
    in_per_cent,
    over_repeats,
    paired,
    same_direction,
    select,
)

#: The scale of the first is |x1| in the experiments of Izbicki et al., 1 + |x1| in a sister
#: repository; the paper does not say which it took.
SIMULATIONS = ("heteroscedastic", "heteroscedastic_plus_one", "bimodal")
COMPARED = ("LCP", "MADSplit", "CQR", "DistSplit", "CDSplit", "SLCP")
BESIDE = ("split", "SLCP-auto")
#: Why a length is no target.
OTHER_UNITS = {
    "heteroscedastic": "the paper's lengths fit no version of this simulation: with the true "
    "quantiles an interval is 8.2 long on average",
    "heteroscedastic_plus_one": "the paper has one heteroscedastic simulation",
}


def cases(preset: Preset) -> list[Case]:
    """One task a simulation and repeat."""
    return [
        {"dataset": name, "repeat": repeat}
        for repeat in range(preset.repeats)
        for name in SIMULATIONS
    ]


def run(case: Case, preset: Preset) -> list[Row]:
    """All methods on the same fresh rows, in the simulation's own units."""
    name, repeat = case["dataset"], case["repeat"]
    simulation = load_simulation(name)
    sizes = (preset.simulated_rows, preset.simulated_rows, preset.test_rows)
    split = simulated_split(simulation, repeat, sizes, scale=False)
    seed = seed_of("method", "table3", name, repeat)
    models = FAMILIES["random_forest"].make(split.train.X, split.train.y, seed, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    tails = [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]
    low, high = simulation.quantile(split.test.X, tails).T
    rows: list[Row] = [{"method": "true quantiles", "length": (high - low).mean()}]
    for method in (*COMPARED, *BESIDE):
        row, sets = try_method(method, METHODS[method](models, seed, preset), split, prediction)
        # A region of several pieces is not its hull.
        if sets is not None and method != "CDSplit":
            known = simulation.coverage(split.test.X, sets.hulls)
            row["conditional_gap"] = np.abs(known - LEVEL).mean()
        rows.append(row)
    return rows


def report(rows: list[Row], preset: Preset) -> Output:
    """Length and coverage of each method, and SLCP's length against that of the others."""
    lines: list[Line] = []
    for name in SIMULATIONS:
        here, paper = select(rows, dataset=name), printed()["table3_synthetic"].get(name, {})
        for method in (*COMPARED, *BESIDE):
            mine = select(here, method=method)
            length, share = paper.get(method, (None, None))
            of = {"simulation": name, "method": method}
            why = OTHER_UNITS.get(name, "")
            ours = over_repeats(mine, "length")
            lines.append(compared({**of, "quantity": "length"}, length, ours, "length", why))
            covered = in_per_cent(over_repeats(mine, "coverage"))
            lines.append(compared({**of, "quantity": "coverage, %"}, share, covered, "coverage"))
        lines += difference_lines(here, name, paper)
    notes = [
        "Forests of the mean and of quantiles; responses in the simulation's own units.",
        "True quantiles: the interval between the 5 % and the 95 % quantile of y given x.",
        "Conditional gap: mean distance of the coverage at x, which is known here, from 90 %.",
    ]
    tables = {"Coverage": below_bands(rows, LEVEL), "Means over repeats": details(rows)}
    return Output(lines, tables, notes=notes)


def difference_lines(rows: list[Row], name: str, paper: dict[str, list[float]]) -> list[Line]:
    """SLCP against each other method of the paper on the same rows."""
    lines = []
    for method in COMPARED[:-1] if paper else ():
        ours = over_repeats(paired(rows, "SLCP", method, "length"), "difference")
        gap = round(paper["SLCP"][0] - paper[method][0], 10)
        of = {"simulation": name, "method": f"SLCP - {method}", "quantity": "difference in length"}
        lines.append(same_direction(of, gap, ours))
    return lines


def details(rows: list[Row]) -> list[Row]:
    """A row for each simulation and method."""
    table = []
    for name, method in dict.fromkeys((row["dataset"], row["method"]) for row in rows):
        mine = select(rows, dataset=name, method=method)
        row: Row = {"simulation": name, "method": method}
        for field in ("length", "coverage", "infinite", "conditional_gap", "seconds"):
            found = over_repeats(mine, field)
            row[field] = found and found.value
        table.append(row)
    return table


EXPERIMENT = Experiment("Table 3: simulations of Izbicki et al.", cases, run, report)
