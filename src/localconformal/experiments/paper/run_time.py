"""Run time: LCP and CD-Split against SLCP, which the paper says they are slower than."""

from __future__ import annotations

import time

from localconformal.datasets import load_simulation
from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.models import Family, Models, Unfitted
from localconformal.experiments.models.forest import QuantileForest, grow
from localconformal.experiments.objective import calibrated, predict_sets
from localconformal.experiments.paper._ablation import (
    is_broad,
    is_whole,
    relative,
    remembering,
    table_of,
)
from localconformal.experiments.paper._said import above
from localconformal.experiments.presets import Preset
from localconformal.experiments.rows import Split, simulated_split
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import Mean, compared, over_repeats, select
from localconformal.quantiles import Array

#: The paper says so where it compares methods on the simulations of Izbicki et al.
SIMULATION = "heteroscedastic"
SLOWER = ("LCP", "CDSplit")
OTHERS = ("CQR", "MADSplit", "DistSplit", "SLCP-auto")
#: Least rows of a leaf: nothing is tuned where only seconds count.
LEAF_ROWS = 5
#: Rows to train on and as many to calibrate on, and those of a preset with capped rows.
SIZES, FEW_SIZES = (200, 500, 2_000, 4_000, 8_000), (500, 2_000, 8_000)
TEST_ROWS = 1_000
#: Field of a row -> what it is.
QUANTITIES = {"seconds": "seconds", "prediction_seconds": "seconds of prediction"}
#: Slower methods run so often, and the least time counts: what base models a first run fits and
#: predicts, the others find.
TIMINGS = 2


def sizes_of(preset: Preset) -> tuple[int, ...]:
    """Numbers of rows."""
    if not is_broad(preset):
        return SIZES[:1]
    return SIZES if is_whole(preset) else FEW_SIZES


def cases(preset: Preset) -> list[Case]:
    """A task for each size, so that ratios are within one process."""
    return [
        {"size": size, "repeat": repeat}
        for repeat in range(preset.repeats)
        for size in sizes_of(preset)
    ]


def run(case: Case, preset: Preset) -> list[Row]:
    """Processor seconds of each method beyond those of the base models that they share."""
    n, repeat = case["size"], case["repeat"]
    sizes = (n, n, min(TEST_ROWS, preset.test_rows))
    split = simulated_split(load_simulation(SIMULATION), repeat, sizes, scale=False)
    seed = seed_of("method", "run_time", n, repeat)
    models = remembering(FORESTS.make(split.train.X, split.train.y, seed, preset))
    return [
        {"method": name, **least_seconds(name, models, split, seed, preset)}
        for name in ("SLCP", *SLOWER, *OTHERS)
    ]


def untuned(X: Array, y: Array, seed: int, preset: Preset) -> Unfitted:
    """Forests of the mean and of quantiles."""
    forest = grow(LEAF_ROWS, seed)
    return Unfitted(forest, QuantileForest(forest), forest)


FORESTS = Family("untuned_forest", untuned)


def least_seconds(name: str, models: Models, split: Split, seed: int, preset: Preset) -> Row:
    """The least of a few timings, to train and calibrate, and to predict."""
    found: list[Row] = []
    for _ in range(TIMINGS):
        start = time.process_time()
        model = calibrated(METHODS[name](models, seed, preset), split)
        ready = time.process_time()
        predict_sets(model, split.test)
        done = time.process_time()
        found.append(
            {
                "seconds": done - start,
                "calibration_seconds": ready - start,
                "prediction_seconds": done - ready,
            }
        )
    return min(found, key=lambda row: row["seconds"])


def report(rows: list[Row], preset: Preset) -> Output:
    """Seconds relative to SLCP's, at each size."""
    lines: list[Line] = []
    for n in sizes_of(preset):
        here = select(rows, size=n)
        for name in (*SLOWER, *OTHERS):
            for field, words in QUANTITIES.items():
                of = {"rows": str(n), "method": name, "quantity": f"{words} relative to SLCP"}
                lines.append(line_of(of, ratio(here, name, field)))
    fields = ("seconds", "calibration_seconds", "prediction_seconds")
    notes = [
        f"Simulation {SIMULATION}, 20 features, forests; so many rows to train on, as many to "
        f"calibrate on, {min(TEST_ROWS, preset.test_rows)} to predict. Processor seconds, without "
        "those of the base models that methods share; ratios are within one task.",
        "The paper says that LCP and CD-Split need more extensive computation, and prints no "
        "seconds.",
        "LCP is this library's exact algorithm, O(n log n) a prediction, not the search over "
        "levels and responses that the paper has in mind. Its seconds are in part those of the "
        "search for its bandwidth, and CD-Split's those of a forest for its densities: seconds of "
        "prediction are without them. SLCP-auto's are those of its search for a law, whose budget "
        f"is {preset.selection_budget:g} s by an estimate for two cores; here it has one.",
        "SLCP's law is plain NumPy up to 3,000 training rows and compiled code beyond, so that "
        "its seconds of prediction fall from 2,000 rows to 8,000, and ratios of sizes below and "
        "above 3,000 rows are not of one engine.",
    ]
    table = table_of(rows, ("size", "method"), fields)
    return Output(lines, {"Seconds, means over repeats": table}, notes=notes)


def ratio(rows: list[Row], name: str, field: str = "seconds") -> Mean | None:
    """Seconds over SLCP's."""
    pairs = relative(select(rows, method=name), select(rows, method="SLCP"), field)
    return over_repeats(pairs, "relative")


def line_of(of: dict[str, str], ours: Mean | None) -> Line:
    """Verdicts for what the paper says is slower; the others have none."""
    if of["method"] in SLOWER:
        return above(of, ours, 1.0, "the paper says slower")
    return compared(of, None, ours, "length")


EXPERIMENT = Experiment("Run time of LCP and CD-Split", cases, run, report, version=2)
