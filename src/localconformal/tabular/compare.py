"""All methods on one table: the same splits, the same kind of base model, ranked."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from localconformal.audit import Comparison, audit, compare
from localconformal.audit.compare import BOTH_FINITE, METRICS, bound_movement, say_splits
from localconformal.io.tables import about
from localconformal.metrics.intervals import mean_bound
from localconformal.preparation import as_pandas
from localconformal.progress import stage
from localconformal.quantiles import Array
from localconformal.report import write_report
from localconformal.rows import take_rows
from localconformal.tabular import model as models
from localconformal.tabular.model import TableModel, Task, as_names
from localconformal.tabular.run import KnownRows, known_rows
from localconformal.text import listing, one_line

#: Maximum number of random splits, and of characters of a reason before it is cut.
_MOST_REPEATS, _LONGEST = 100, 2_000
_ON_SCORE = "The interval score is the mean length plus a penalty for each miss; lower is better."
_ON_BOUNDS = "The interval score of a bound is its pinball loss over alpha; lower is better."
_ON_READING = (
    "The best method was chosen on these test rows; on others its lead will be a little smaller.",
)
#: Numbers of a summary that a ranking shows; the bounds are those of the coverage.
_SHOWN = (
    *("interval_score", "coverage", "lower", "upper", "mean_length", "mean_finite_length"),
    *("share_infinite", "length_coverage_corr", "worst_slab_coverage", "excess_risk_l1"),
)


class _Attempt(NamedTuple):
    """A method that worked on a split: model, intervals (n_test, 2), times, warnings."""

    model: TableModel
    intervals: Array
    fit_seconds: float
    predict_seconds: float
    warnings: tuple[str, ...]


class _Trial(NamedTuple):
    """One split: raw test rows (n_test, d), their y, and the outcome of each method."""

    test: Any
    y: Array
    n_fit: int
    attempts: dict[str, _Attempt]
    failed: dict[str, str]


@dataclass(frozen=True, eq=False)
class Ranking:
    """What `compare_methods` found.

    ``comparison`` has the methods that worked on every split, best first; ``failed`` the reason
    for each of the others; ``trials`` the splits: test rows, models, intervals, times; ``notes``
    say what was done to the table and repeat the methods' warnings on the first split.
    """

    comparison: Comparison
    failed: dict[str, str]
    trials: tuple[_Trial, ...]
    notes: tuple[str, ...]
    random_state: int

    @property
    def confidence_level(self) -> float:
        """The level of all intervals."""
        return self.comparison.methods[0].summary.confidence_level

    @property
    def is_one_sided(self) -> bool:
        """Whether bounds of one side were compared."""
        return self.comparison.methods[0].summary.is_one_sided

    @property
    def on_score(self) -> str:
        """What the interval score is."""
        return _ON_BOUNDS if self.is_one_sided else _ON_SCORE

    def standings(self) -> list[dict[str, Any]]:
        """One row per method, best first: means, seconds, differences from the best."""
        paired = {(row.method, row.metric): row for row in self.comparison.paired()}
        rows = []
        for rank, method in enumerate(self.comparison.ranked, start=1):
            row: dict[str, Any] = {"rank": rank, "method": method.name}
            for name in _SHOWN:
                shown = f"coverage_{name}" if name in ("lower", "upper") else name
                row[shown] = getattr(method.summary, name)
            row["movement"] = method.movement
            tried = [trial.attempts[method.name] for trial in self.trials]
            for spent in ("fit_seconds", "predict_seconds"):
                row[spent] = float(np.mean([getattr(attempt, spent) for attempt in tried]))
            if self.is_one_sided:
                found = [mean_bound(attempt.intervals) for attempt in tried]
                row["mean_bound"] = float(np.mean([math.inf if b is None else b for b in found]))
            for metric in METRICS:
                pair = paired.get((method.name, metric))
                row[f"{metric}_difference"] = 0.0 if pair is None else pair.difference
                for end in ("lower", "upper"):
                    row[f"{metric}_difference_{end}"] = getattr(pair, end, math.nan)
            rows.append(row)
        return rows

    def frame(self) -> pd.DataFrame:
        """The standings as a frame; failed methods come last, with the reason."""
        ranked = pd.DataFrame(self.standings()).astype({"rank": "Int64"})
        failed = pd.DataFrame({"method": list(self.failed), "error": list(self.failed.values())})
        return pd.concat([ranked, failed], ignore_index=True)

    def record(self) -> dict[str, Any]:
        """Everything that was found, as plain data."""
        first, reading = self.trials[0], (say_splits(len(self.trials)), BOTH_FINITE)
        on_comparison = [note for note in self.comparison.notes if note in reading]
        return {
            "confidence_level": self.confidence_level,
            "splits": len(self.trials),
            "rows": {"fit": first.n_fit, "test": len(first.y)},
            "standings": self.standings(),
            "failed": self.failed,
            "notes": [*self.notes, self.on_score, *_ON_READING, *on_comparison],
        }

    def write_report(self, path: str | Path) -> None:
        """Write a page: the audit of the best method on the first split, and the ranking."""
        first, name = self.trials[0], self.comparison.best
        best = first.attempts[name]
        prepared = best.model.preparation.transform(first.test)
        X = best.model.preparation.with_dates(prepared)
        rows: dict[str, Any] = {"X": X, "y": first.y, "intervals": best.intervals}
        rows["random_state"] = self.random_state
        audited = audit(**rows, confidence_level=self.confidence_level)
        write_report(
            replace(audited, notes=(*self.notes, *audited.notes)),
            path,
            **rows,
            model=best.model.regressor,
            title=f"The best of {len(self.comparison.methods)} methods: {name}",
            comparison=self.comparison,
            y_pred=best.model.regressor.predict(prepared),
            group_hint="",
        )


def compare_methods(
    table: Any,
    target: str,
    methods: str | Sequence[str] = (),
    *,
    model: Any = "hgb",
    confidence_level: float = 0.9,
    features: str | Sequence[str] = (),
    test_size: float = 0.2,
    repeats: int = 1,
    random_state: int = 0,
    support: tuple[float | None, float | None] | None = None,
    integer: bool = False,
    sides: str | None = None,
    cv: int | str | None = None,
    source: str = "The table",
) -> Ranking:
    """Fit every method on the same rows, test on the same other rows, and rank.

    The first split is the one of `run_table` with the same settings. A method that fails does not
    stop the others: the reason is in ``failed``.

    Parameters
    ----------
    table, target, model, features, test_size, random_state, support, integer, source
        As in `run_table`; every method uses this model.
    methods : str or sequence of str, default=()
        Names such as "slcp", "cqr", "split"; if empty, all that need no further input and take
        ``sides`` and ``cv``, if these are given.
    sides, cv
        As in `run_table`, for every method.
    confidence_level : float, default=0.9
    repeats : int, default=1
        Random splits; each has its own seed.

    Examples
    --------
    >>> table = pd.DataFrame({"x": np.linspace(0, 1, 400)})
    >>> table["y"] = table["x"] * np.random.default_rng(0).normal(size=400)
    >>> found = compare_methods(table, "y", ["split", "cqr"], model="linear")
    >>> found.comparison.best, found.frame()["rank"].tolist()
    ('cqr', [1, 2])
    """
    if not 1 <= repeats <= _MOST_REPEATS:
        raise ValueError(f"repeats is {repeats}; expected a number from 1 to {_MOST_REPEATS}.")
    needed = [name for name, value in (("sides", sides), ("cv", cv)) if value is not None]
    known = [one for one in models.METHODS if one not in models.NEEDS_MORE]
    able = [one for one in known if all(models.takes(one, name) for name in needed)]
    asked = as_names(methods) or able
    names = list(dict.fromkeys(map(models.method_name, asked)))
    chosen, levels = as_names(features), models.as_levels(confidence_level)
    if len(levels) > 1:
        raise ValueError(f"got {len(levels)} levels; expected one confidence_level to compare at.")
    task = Task(target, "slcp", model, levels, None, chosen, seed=random_state, test_size=test_size)
    task = replace(task, support=support, integer=integer, sides=sides, cv=cv)
    with about(source):
        rows = known_rows(as_pandas(table), task, source)
    with stage("", len(names) * repeats) as step:
        seeds = split_seeds(random_state, repeats)
        trials = tuple(_try_methods(rows, names, seed, step) for seed in seeds)
    failed = {name: why for trial in reversed(trials) for name, why in trial.failed.items()}
    kept = [name for name in names if name not in failed]
    if not kept:
        reasons = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in failed.items())
        shared, *others = set(failed.values())
        raise ValueError(f"No method worked on this table ({reasons})." if others else shared)
    # All methods of a split learn the same preparation from the same rows.
    prepared = [trial.attempts[kept[0]].model.preparation.read(trial.test) for trial in trials]
    options: dict[str, Any] = {"confidence_level": levels[0], "random_state": random_state}
    splits = [
        compare({name: trial.attempts[name].intervals for name in kept}, X, trial.y, **options)
        for trial, (X, _) in zip(trials, prepared, strict=True)
    ]
    splits = [_with_movement(*pair) for pair in zip(splits, trials, strict=True)]
    first = trials[0]
    done = first.attempts[kept[0]].model.notes(prepared[0][1])
    warned = (f"{name}: {said}" for name, one in first.attempts.items() for said in one.warnings)
    together = Comparison.over(splits, len(first.y) / first.n_fit)
    ranked = _in_order(together, [method.name for method in together.ranked])
    left = listing(one for one in known if not methods and one not in able)
    out = [f"Left out, without {' and '.join(needed)}: {left}."] if left else []
    return Ranking(ranked, failed, trials, (*rows.notes, *out, *done, *warned), random_state)


def _with_movement(split: Comparison, trial: _Trial) -> Comparison:
    """Add how far the bounds of each method move, which the intervals alone do not show."""
    methods = []
    for method in split.methods:
        model, level = trial.attempts[method.name].model, method.summary.confidence_level
        moved = bound_movement(model.regressor, model.preparation.transform(trial.test), level)
        methods.append(replace(method, movement=moved))
    return replace(split, methods=tuple(methods))


def _in_order(comparison: Comparison, names: Sequence[str]) -> Comparison:
    named = {method.name: method for method in comparison.methods}
    splits = tuple(_in_order(split, names) for split in comparison.splits)
    return replace(comparison, methods=tuple(named[name] for name in names), splits=splits)


def split_seeds(seed: int, repeats: int) -> list[int]:
    """One seed per split, beginning with the given one; a longer list begins with a shorter."""
    others = np.random.SeedSequence(seed).spawn(repeats - 1)
    return [seed, *(int(other.generate_state(1)[0] // 2) for other in others)]


def _try_methods(
    rows: KnownRows, names: Sequence[str], seed: int, step: Callable[[str], None]
) -> _Trial:
    """Every method on one split, which the seed determines as in `run_table`."""
    fit, held = rows.split(seed)
    trial = _Trial(take_rows(rows.table, held), rows.y[held], len(fit), {}, {})
    to_fit, y = take_rows(rows.table, fit), rows.y[fit]
    for name in names:
        step(name)
        task = replace(rows.task, method=name, seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            start = time.perf_counter()
            # Whatever goes wrong in one method is recorded, and the others go on.
            try:
                model = models.fit_task(to_fit, y, task)
                fitted = time.perf_counter()
                bounds = model.predict_interval(trial.test, task.levels[0])
            except Exception as error:
                trial.failed[name] = one_line(error, _LONGEST) or type(error).__name__
                continue
            seconds = fitted - start, time.perf_counter() - fitted
        # Other categories come from lower packages and mean nothing to a reader of the ranking.
        said = (warning.message for warning in caught if warning.category is UserWarning)
        warned = tuple(dict.fromkeys(one_line(text, _LONGEST) for text in said))
        trial.attempts[name] = _Attempt(model, task.judged(bounds), *seconds, warned)
    return trial
