"""All methods on one table: the same splits, the same kind of base model, ranked."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from localconformal.audit import Comparison, compare
from localconformal.io.tables import about
from localconformal.models import take_rows
from localconformal.quantiles import Array
from localconformal.workflow.messages import one_line
from localconformal.workflow.methods import find_method, named_methods
from localconformal.workflow.model import Settings, TableModel, fit_table_model
from localconformal.workflow.running import Task, known_rows
from localconformal.workflow.standings import Seconds, Standing, rank_methods

MOST_REPEATS = 100


@dataclass(frozen=True, eq=False)
class Attempt:
    """A method that worked on a split: model, intervals (n_test, 2), time, its own warnings."""

    model: TableModel
    intervals: Array
    seconds: Seconds
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Trial:
    """One split: raw test rows (n_test, d), their y, and what became of each method."""

    test: Any
    y: Array
    n_fit: int
    attempts: dict[str, Attempt]
    failed: dict[str, str]


@dataclass(frozen=True, eq=False)
class TableComparison:
    """Methods on one table.

    Attributes
    ----------
    standings : tuple of Standing
        The methods that worked on every split, the best first.
    failed : dict of method -> why, in one sentence
    confidence_level : float
    repeats : int
        Splits.
    first : Trial
        The first split.
    comparison : Comparison
        Of the methods that worked, on the first split.
    notes : tuple of str
        What was done to the table, and what the methods warned of on the first split.
    """

    standings: tuple[Standing, ...]
    failed: dict[str, str]
    confidence_level: float
    repeats: int
    first: Trial
    comparison: Comparison
    notes: tuple[str, ...]

    @property
    def best(self) -> Attempt:
        """The method ranked first, on the first split."""
        return self.first.attempts[self.standings[0].method]


def default_methods() -> tuple[str, ...]:
    """Short names of all methods that need no further input.

    Examples
    --------
    >>> "weighted" in default_methods()
    False
    """
    return tuple(method.name for method in named_methods() if method.needs_more is None)


def compare_table(
    table: Any,
    task: Task,
    methods: Sequence[str] = (),
    *,
    repeats: int = 1,
    source: str = "The table",
    on_step: Callable[[str], None] = lambda name: None,
) -> TableComparison:
    """Fit every method on the same rows, test it on the same others, and rank.

    The first split is that of `run_table` with the same task. A method that fails is said to have,
    and does not stop the others.

    Parameters
    ----------
    table : pandas frame
    task : Task
        Its settings hold for every method but for the method itself; the first level counts.
    methods : sequence of str, default=()
        Names as in `find_method`; none is `default_methods`.
    repeats : int, default=1
        Splits; each has its own seed.
    source : str, default="The table"
        What messages call the table.
    on_step : callable
        Called with the name of each step as it begins: `count_steps` of them.

    Returns
    -------
    TableComparison

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.uniform(size=400), "z": rng.normal(size=400)})
    >>> table["y"] = table["x"] * rng.normal(size=400)
    >>> task = Task("y", Settings(model="linear"))
    >>> found = compare_table(table, task, ["split", "mondrian"])
    >>> [standing.rank for standing in found.standings]
    [1, 2]
    """
    names = check_request(methods, repeats)
    with about(source):
        rows = known_rows(table, task, source)
    trials = [
        try_methods(
            rows.table,
            rows.y,
            names,
            replace(task, settings=replace(task.settings, features=rows.features, seed=seed)),
            on_step,
        )
        for seed in split_seeds(task.settings.seed, repeats)
    ]
    on_step("measuring")
    return measure_trials(trials, names, task.settings, rows.notes)


def count_steps(methods: Sequence[str], repeats: int) -> int:
    """How often `compare_table` announces a step."""
    return len(methods or default_methods()) * repeats + 1


def check_request(methods: Sequence[str], repeats: int) -> list[str]:
    """Short names of the methods, each once, or one sentence."""
    if not 1 <= repeats <= MOST_REPEATS:
        raise ValueError(f"repeats is {repeats}; a number from 1 to {MOST_REPEATS} was expected.")
    return list(dict.fromkeys(find_method(name).name for name in methods or default_methods()))


def split_seeds(seed: int, repeats: int) -> list[int]:
    """A seed for each split, the first the one given; more of them begin with the same ones."""
    others = np.random.SeedSequence(seed).spawn(repeats - 1)
    return [seed, *(int(other.generate_state(1)[0] // 2) for other in others)]


def try_methods(
    rows: Any, y: Array, names: Sequence[str], task: Task, on_step: Callable[[str], None]
) -> Trial:
    """Every method on one split, which the seed of the settings decides as in `run_table`."""
    settings = task.settings
    fit, held = task.split(len(y), settings.seed)
    trial = Trial(take_rows(rows, held), y[held], len(fit), {}, {})
    to_fit = take_rows(rows, fit)
    for name in names:
        on_step(name)
        # Whatever goes wrong in one method is said of it, and the others go on.
        try:
            trial.attempts[name] = attempt(
                replace(settings, method=name), to_fit, y[fit], trial.test, task.time is not None
            )
        except Exception as error:
            trial.failed[name] = one_line(str(error)) or type(error).__name__
    return trial


def attempt(settings: Settings, rows: Any, y: Array, test: Any, in_order: bool) -> Attempt:
    """Fit and predict, how long each takes, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        start = time.perf_counter()
        model = fit_table_model(rows, y, settings, in_order=in_order)
        fitted = time.perf_counter()
        intervals = model.predict_interval(test, settings.levels[0])
        seconds = Seconds(fitted - start, time.perf_counter() - fitted)
    # Other categories are those of packages below, and mean nothing to who reads the ranking.
    said = (str(warning.message) for warning in caught if warning.category is UserWarning)
    return Attempt(model, intervals, seconds, tuple(dict.fromkeys(map(one_line, said))))


def measure_trials(
    trials: Sequence[Trial], names: Sequence[str], settings: Settings, notes: tuple[str, ...]
) -> TableComparison:
    """Rank the methods that worked on every split."""
    failed = {name: why for trial in reversed(trials) for name, why in trial.failed.items()}
    kept = [name for name in names if name not in failed]
    if not kept:
        raise ValueError(why_none_worked(failed))
    measured = [measure(trial, kept, settings) for trial in trials]
    seconds = [{name: trial.attempts[name].seconds for name in kept} for trial in trials]
    first = trials[0]
    warned = [
        f"{name}: {text}" for name, tried in first.attempts.items() for text in tried.warnings
    ]
    model = first.attempts[kept[0]].model
    _, lost = model.preparation.transform(first.test)
    return TableComparison(
        standings=rank_methods(measured, seconds, len(first.y) / first.n_fit),
        failed=failed,
        confidence_level=settings.levels[0],
        repeats=len(trials),
        first=first,
        comparison=measured[0],
        notes=(*notes, *model.notes(lost), *warned),
    )


def why_none_worked(failed: Mapping[str, str]) -> str:
    """The reason that all methods share, or each its own."""
    if len(set(failed.values())) == 1:
        return next(iter(failed.values()))
    reasons = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in failed.items())
    return f"No method worked on this table ({reasons})."


def measure(trial: Trial, names: Sequence[str], settings: Settings) -> Comparison:
    """The methods of these names side by side on the test rows of one split."""
    # All methods of a split learned the same preparation, from the same rows.
    X, _ = trial.attempts[names[0]].model.preparation.transform(trial.test)
    return compare(
        {name: trial.attempts[name].intervals for name in names},
        X,
        trial.y,
        confidence_level=settings.levels[0],
        groups={name: trial.test[name] for name in settings.groups} or None,
        random_state=settings.seed,
    )
