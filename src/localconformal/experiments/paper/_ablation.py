"""What the ablations share: data sets and base models, and a variant relative to another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from localconformal.datasets import SIMULATIONS
from localconformal.experiments.experiment import Case, Row
from localconformal.experiments.models import FAMILIES, Models, SharedModel, SharedQuantiles
from localconformal.experiments.paper.table1 import REAL
from localconformal.experiments.presets import Preset
from localconformal.experiments.rows import Split, real_split, simulated_split
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import over_repeats, select
from localconformal.laws import KernelLaw
from localconformal.regressors import SLCPRegressor

SIMULATED = ("sim1", "sim2", "sim3")
#: The paper's 16, and those of them that a preset with capped rows uses.
ALL, FEW = (*REAL, *SIMULATED), ("bike", "concrete", "sim2")
#: Rows of a real set, at most, where rows are capped.
MOST_ROWS = 3_000
QUICKEST, NETWORK = "ridge", "neural_net"
#: Repeats with ``law="auto"``, on the quickest model, where not everything is run.
AUTO_REPEATS = 2
#: The rule of the authors' code, and one that looks at the scores.
AS_IN_CODE = "SLCP, median-log"
BANDWIDTHS = {AS_IN_CODE: "median-log", "SLCP, cross-validated": "cv"}


def is_whole(preset: Preset) -> bool:
    """Whether the preset uses every row, and hence every data set and model."""
    return preset.max_rows is None


def is_broad(preset: Preset) -> bool:
    """Whether the preset leaves out no setting of an ablation."""
    return preset.datasets is None


def sets_of(preset: Preset) -> tuple[str, ...]:
    """Data sets of an ablation."""
    return ALL if is_whole(preset) else preset.keep(FEW) + (() if is_broad(preset) else ("sim2",))


def models_of(preset: Preset) -> tuple[str, ...]:
    """Families of base models: the quickest, those that take seconds, or all."""
    if not is_broad(preset):
        return (QUICKEST,)
    running = tuple(name for name, family in FAMILIES.items() if not family.left_out)
    return running if is_whole(preset) else tuple(name for name in running if name != NETWORK)


def ablation_cases(preset: Preset) -> list[Case]:
    """A task for each data set, model and repeat, which changes last."""
    return [
        {"dataset": dataset, "model": model, "repeat": repeat}
        for repeat in range(preset.repeats)
        for dataset in sets_of(preset)
        for model in models_of(preset)
    ]


def split_of(dataset: str, repeat: int, preset: Preset) -> Split:
    """Rows of a real data set or of a simulation."""
    if dataset in SIMULATIONS:
        sizes = (preset.simulated_rows, preset.simulated_rows, preset.test_rows)
        return simulated_split(SIMULATIONS[dataset], repeat, sizes)
    most = None if preset.max_rows is None else min(preset.max_rows, MOST_ROWS)
    return real_split(dataset, repeat, most)


class Remembering(RegressorMixin, BaseEstimator):
    """A model that answers again what it was asked before.

    Variants of a method ask the same base model about the same rows: its predictions should
    cost time once, and no variant should look slower for having come first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(4.0)[:, None]
    >>> model = Remembering(LinearRegression()).fit(X, X[:, 0])
    >>> model.predict(X) is model.predict(X.copy())
    True
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Remembering:
        """Fit the model and forget all answers."""
        self.fitted_ = clone(self.model).fit(X, y)
        self.answers_: dict[str, Any] = {}
        return self

    def predict(self, X: Any, quantiles: Any = None) -> Any:
        """As the model does."""
        asked = {} if quantiles is None else {"quantiles": quantiles}
        # A copy, as the same rows with other strides have another hash.
        key = joblib.hash((np.array(X, order="C"), asked))
        if key not in self.answers_:
            self.answers_[key] = self.fitted_.predict(X, **asked)
        return self.answers_[key]


def remembering(models: Models) -> Models:
    """The same models, with `Remembering` around the mean and the quantiles."""
    mean, quantile = (Remembering(shared.model) for shared in (models.mean, models.quantile))
    return replace(
        models,
        mean=SharedModel("mean", mean, models.memory),
        quantile=SharedQuantiles("quantile", quantile, models.memory),
    )


def prepared(case: Case, preset: Preset) -> tuple[Split, Models, int]:
    """Rows, base models that remember, and the seed of all methods of a task."""
    dataset, model, repeat = case["dataset"], case["model"], case["repeat"]
    split = split_of(dataset, repeat, preset)
    seed = seed_of("method", "ablation", dataset, model, repeat)
    models = FAMILIES[model].make(split.train.X, split.train.y, seed, preset)
    return split, remembering(models), seed


def with_auto(case: Case, preset: Preset) -> bool:
    """Whether the task also runs ``law="auto"``, whose search takes longer than all else."""
    return is_whole(preset) or (case["model"] == QUICKEST and case["repeat"] < AUTO_REPEATS)


def slcp(model: Any, score: str, law: KernelLaw, seed: int) -> SLCPRegressor:
    """The paper's Algorithm 1 with scores of training rows in sample, and this law."""
    return SLCPRegressor(
        model,
        score=score,
        law=law,
        reference="train",
        sides="union",
        calibration_size=None,
        random_state=seed,
        n_jobs=1,
    )


def other_bandwidths(models: Models, seed: int) -> dict[str, SLCPRegressor]:
    """SLCP on quantile models with other bandwidths than the paper's median."""
    return {
        name: slcp(models.quantile, "quantile", KernelLaw(bandwidth=rule, n_jobs=1), seed)
        for name, rule in BANDWIDTHS.items()
    }


def relative(rows: Iterable[Row], base: Iterable[Row], field: str) -> list[Row]:
    """Rows with ``relative``: their field over that of the base row of the same task."""
    known = {_task(row): row.get(field) for row in base}
    return [
        {**row, "relative": row[field] / known[_task(row)]}
        for row in rows
        if row.get(field) is not None and known.get(_task(row))
    ]


def _task(row: Row) -> tuple[Any, ...]:
    return row.get("dataset"), row.get("model"), row["repeat"]


def table_of(rows: list[Row], keys: tuple[str, ...], fields: tuple[str, ...]) -> list[Row]:
    """Means over repeats of the fields, a row for each combination of the keys."""
    table = []
    for place in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        found = dict(zip(keys, place, strict=True))
        mine = select(rows, **found)
        means = {field: over_repeats(mine, field) for field in fields}
        failed = [row["failed"] for row in mine if "failed" in row]
        values = {field: mean and mean.value for field, mean in means.items()}
        table.append({**found, **values, "failed": failed[0][:100] if failed else ""})
    return table


def notes_of(preset: Preset) -> list[str]:
    """Which data sets and models were run."""
    used, families = sets_of(preset), models_of(preset)
    return [
        f"{len(used)} of the paper's 16 data sets: {', '.join(used)}.",
        f"Base models: {', '.join(families)}.",
        *(
            [FAMILIES[NETWORK].left_out or "Networks are run by the preset full only."]
            if NETWORK not in families
            else []
        ),
        *(
            []
            if is_whole(preset)
            else [f"SLCP-auto is run on {QUICKEST} only, in {AUTO_REPEATS} repeats."]
        ),
        "Lengths are means of finite ones, the response divided by its mean absolute value; "
        "means are over data sets, standard errors over repeats.",
    ]
