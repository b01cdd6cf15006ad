"""One change at a time: from SLCP to this library's defaults, and MADSplit's constant.

The defaults differ from the paper's SLCP in the law, the base model and the rows behind the
scores. Each is changed alone here, on the data sets that are exact. MADSplit is run with the
constant of the authors' code, too, since Table 1 takes another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localconformal.experiments.experiment import Case, Experiment, Line, Output, Row
from localconformal.experiments.methods import METHODS
from localconformal.experiments.models import FAMILIES, Models
from localconformal.experiments.objective import LEVEL, try_method
from localconformal.experiments.paper._ablation import is_whole, relative, slcp, table_of
from localconformal.experiments.paper.table1 import EXACT
from localconformal.experiments.presets import Preset
from localconformal.experiments.rows import real_split
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import compared, in_per_cent, over_repeats, select
from localconformal.laws import KernelLaw
from localconformal.metrics import interval_score

#: The base model whose fits take seconds, and the repeats of a preset with capped rows.
MODEL, FEW_REPEATS = "ridge", 3
CONSTANT = "MADSplit, code's constant"


def _arm(base: str, score: str, chosen: bool) -> Callable[[Models, int, Preset], Any]:
    def make(models: Models, seed: int, preset: Preset) -> Any:
        model = slcp(getattr(models, base), score, KernelLaw(n_jobs=1), seed)
        if chosen:
            model.set_params(law="auto", selection_budget=preset.selection_budget)
        return model

    return make


#: Names say what is changed; only the last of them changes the rows behind the scores.
ARMS: dict[str, Callable[[Models, int, Preset], Any]] = {
    "SLCP": METHODS["SLCP"],
    "chosen law": _arm("quantile", "quantile", chosen=True),
    "mean model": _arm("mean", "residual", chosen=False),
    "mean model, chosen law": _arm("mean", "residual", chosen=True),
    "SLCP-auto": METHODS["SLCP-auto"],
    "MADSplit": METHODS["MADSplit"],
    CONSTANT: METHODS[CONSTANT],
}


def cases(preset: Preset) -> list[Case]:
    """A task for each data set and repeat."""
    repeats = preset.repeats if is_whole(preset) else min(preset.repeats, FEW_REPEATS)
    return [
        {"dataset": dataset, "model": MODEL, "repeat": repeat}
        for repeat in range(repeats)
        for dataset in preset.keep(EXACT)
    ]


def run(case: Case, preset: Preset) -> list[Row]:
    """All arms on the same rows and fits."""
    dataset, repeat = case["dataset"], case["repeat"]
    split = real_split(dataset, repeat, preset.max_rows)
    seed = seed_of("method", dataset, MODEL, repeat)
    models = FAMILIES[MODEL].make(split.train.X, split.train.y, seed, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    rows = []
    for name, make in ARMS.items():
        row, sets = try_method(name, make(models, seed, preset), split, prediction)
        if sets is not None:
            row["interval_score"] = interval_score(split.test.y, sets.hulls, LEVEL)
        rows.append(row)
    return rows


def report(rows: list[Row], preset: Preset) -> Output:
    """Length and interval score relative to SLCP's, and coverage."""
    lines: list[Line] = []
    base = select(rows, method="SLCP")
    for name in ARMS:
        mine = select(rows, method=name)
        covered = in_per_cent(over_repeats(mine, "coverage"))
        lines.append(compared({"arm": name, "quantity": "coverage, %"}, None, covered, "coverage"))
        if name != "SLCP":
            for field, words in (("length", "length"), ("interval_score", "interval score")):
                ours = over_repeats(relative(mine, base, field), "relative")
                of = {"arm": name, "quantity": f"{words} relative to SLCP's"}
                lines.append(compared(of, None, ours, "length"))
    used = preset.keep(EXACT)
    notes = [
        f"Base models {MODEL}; {len(used)} data sets, all of them exact: {', '.join(used)}.",
        "SLCP: quantile models, a Gaussian kernel with the median bandwidth, scores of training "
        "rows in sample. Arms change what they name and nothing else; SLCP-auto, this library's "
        "defaults, has a mean model, a chosen law, scores out of fold, and one score for both "
        "sides.",
        f"{CONSTANT}: 1 is added to the predicted size of an error, in units of the mean |y|; "
        "Table 1 adds the median absolute residual.",
        "Relative to SLCP's: the mean over data sets of the ratio within a split. The table of "
        "means below is of the values themselves, so that sets with long intervals weigh more.",
        "The paper has none of this: nothing can be compared with it.",
    ]
    fields = ("length", "interval_score", "coverage", "seconds")
    return Output(lines, {"Means": table_of(rows, ("method",), fields)}, notes=notes)


EXPERIMENT = Experiment("One change at a time", cases, run, report)
