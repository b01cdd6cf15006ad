"""Age from faces: the paper's deep model, its methods by group, and its two ablations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localconformal.datasets.faces import UNKNOWN
from localconformal.experiments.experiment import Case, Experiment, Row
from localconformal.experiments.objective import LEVEL, Sets, try_method
from localconformal.experiments.paper import bandwidth, minibatch
from localconformal.experiments.paper._age_images import FITTED
from localconformal.experiments.paper._age_methods import (
    ALL_TRAINING,
    HELD_OUT,
    METHODS,
    Method,
    Task,
    with_law,
)
from localconformal.experiments.paper._age_model import age_features, setting_of, why_left_out
from localconformal.experiments.paper._age_report import (
    AGES,
    BANDWIDTH,
    BATCH,
    LABEL,
    MODEL,
    PREDICTED,
    REFERENCE,
    printed_length,
    report,
)
from localconformal.experiments.paper._subgroups import OVERALL, by_group
from localconformal.experiments.presets import Preset
from localconformal.experiments.seeds import seed_of
from localconformal.laws import KernelLaw
from localconformal.laws.bandwidth import DistanceQuantile
from localconformal.metrics import interval_score
from localconformal.quantiles import Array

#: Years that end the paper's age groups.
ENDS = (20, 60)


def cases(preset: Preset) -> list[Case]:
    """One task a repeat; none where PyTorch is missing."""
    return [] if why_left_out() else [{"repeat": repeat} for repeat in range(preset.repeats)]


def run(case: Case, preset: Preset) -> list[Row]:
    """The model, every method overall and by group, and variants of SLCP."""
    task = Task.of(age_features(setting_of(preset)), case["repeat"])
    seed = seed_of("method", "age", case["repeat"])
    rows = [model_row(task)]
    for name, method in METHODS.items():
        row, sets = measured(task, name, method, seed, preset)
        rows += [row] if sets is None else [{**row, "group": OVERALL}, *grouped(task, name, sets)]
    for ablation, variants in ablations().items():
        for name, method in variants.items():
            row, _ = measured(task, "SLCP", method, seed, preset)
            rows.append({**row, "ablation": ablation, "variant": name})
    return rows


def model_row(task: Task) -> Row:
    """How the network was trained, and how good its mean is at test images."""
    error = np.abs(task.features.age - task.features.mean)[task.test]
    return {
        "kind": MODEL,
        **task.features.facts,
        "fitted_images": np.sum(task.features.parts == FITTED),
        "mae": error.mean(),
        "within": np.mean(error <= printed_length("SLCP") / 2.0),
    }


def measured(
    task: Task, name: str, method: Method, seed: int, preset: Preset
) -> tuple[Row, Sets | None]:
    """The row of a method on all test images, in years, and its sets."""
    split = task.split(method.view, method.reference)
    model = method.make(task.model(method.view), seed, preset)
    row, sets = try_method(name, model, split, task.features.mean[task.test])
    if sets is not None:
        row["interval_score"] = interval_score(split.test.y, sets.hulls, LEVEL)
    return row, sets


def grouped(task: Task, name: str, sets: Sets) -> list[Row]:
    """Rows of the method for each group of the test images, with the kind of the group."""
    rows = []
    for kind, labels in groups_of(task).items():
        # The first is that of all images again.
        found = by_group(name, sets, labels)[1:]
        rows += [{**row, "kind": kind} for row in found if row["group"] != UNKNOWN]
    return rows


def groups_of(task: Task) -> dict[str, NDArray[np.str_]]:
    """Kind of group -> the group of each test image; those by true age condition on the label."""
    features, test = task.features, task.test
    return {
        **{kind: labels[test] for kind, labels in features.groups.items()},
        PREDICTED: age_groups(features.mean[test]),
        LABEL: age_groups(features.age[test]),
    }


def age_groups(years: Array) -> NDArray[np.str_]:
    """The paper's groups, of ages in years.

    Examples
    --------
    >>> age_groups(np.array([1.0, 20.4, 21.0, 60.0, 61.0])).tolist()
    ['0-20', '0-20', '21-60', '21-60', '>60']
    """
    return np.asarray(AGES)[np.searchsorted(ENDS, np.round(years))]


def ablations() -> dict[str, dict[str, Method]]:
    """SLCP with a share of the training images, another bandwidth, or residuals of new images."""
    return {
        BATCH: {
            f"{percent} %": with_law(minibatch.law_of("gaussian", percent), ALL_TRAINING)
            for percent in minibatch.percents()
        },
        BANDWIDTH: {
            name: with_law(KernelLaw(bandwidth=DistanceQuantile(q), n_jobs=1), ALL_TRAINING)
            for name, q in bandwidth.quantiles().items()
        },
        REFERENCE: {
            reference: with_law(KernelLaw(n_jobs=1), reference)
            for reference in (ALL_TRAINING, HELD_OUT)
        },
    }


EXPERIMENT = Experiment("Age from faces (Table 2)", cases, run, report)
