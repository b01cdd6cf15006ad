"""The search: candidates compared by interval score on training rows, the best combination kept.

1. A blend of point models is learned; where it errs less than the regressor's own model, laws
   are those of its residual.
2. Every candidate answers for each training row by fits that have not seen it.
3. Their quantiles are averaged with simplex weights that minimise the pinball loss.
4. Each candidate and the average are scored with each correction; the best is fitted.

Calibration rows take no part, so that the guarantee stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from localconformal.adjustments import AdditiveQuantile, BaseAdjustment, ScaledQuantile
from localconformal.laws import (
    BaseLaw,
    ForestLaw,
    KernelLaw,
    SidedLaw,
    StackedLaw,
    UniformLaw,
    make_law,
    seeded,
)
from localconformal.laws.changed import Change, is_residual, unchanged
from localconformal.laws.crossfit import Fold, held_out_quantiles, make_folds
from localconformal.laws.outputs import Outputs, with_spread
from localconformal.laws.shifted import ShiftedLaw
from localconformal.laws.simplex import prune, simplex_weights
from localconformal.laws.stacked import MIN_WEIGHT
from localconformal.models import take_rows
from localconformal.progress import stage
from localconformal.quantiles import Array
from localconformal.selection.candidates import blend_models, candidate_laws
from localconformal.selection.cost import FEWEST, affordable_rows
from localconformal.selection.scoring import corrected, mean_interval_score
from localconformal.splitting import Rows

N_FOLDS = 3
#: A blend must err less than the point model by this share, or the point model stays.
LEAST_GAIN = 0.01
#: Rows on which candidates are compared at most; what is chosen is fitted on more.
COMPARED = 2_000
#: Share of their trees with which forests are compared: enough to tell which weighs how much.
COMPARED_TREES = 0.5
#: The average of all, and what everything must beat: the uniform law of the point model's score.
STACK, SPLIT = "stack", "split"


def is_auto(law: Any) -> bool:
    """Whether the user leaves the law to us."""
    return isinstance(law, str) and law == "auto"


def select_law(law: Any, random_state: int, n_jobs: int | None = None) -> BaseLaw:
    """An unfitted law from a name or an object, with the regressor's seed where it has none.

    Examples
    --------
    >>> select_law("kernel", random_state=0)
    KernelLaw(random_state=0)
    """
    return seeded(make_law(law), random_state, n_jobs)


@dataclass(frozen=True)
class Task:
    """Reference rows and what is asked of their law.

    ``V`` (n, S) are scores folded by sides and ``levels`` (S,) the local level of each;
    ``adjustment`` is None where it is ours to choose.
    """

    X: Any
    V: Array
    outputs: Outputs
    levels: Array
    adjustment: BaseAdjustment | None
    budget: float
    seed: int
    n_jobs: int | None

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return math.prod(self.X.shape[1:])

    def take(self, rows: Rows) -> Task:
        """On some of the rows."""
        return replace(
            self, X=take_rows(self.X, rows), V=self.V[rows], outputs=self.outputs.take(rows)
        )


@dataclass(frozen=True)
class Selection:
    """The fitted law, the unfitted adjustment, and how they were found, as columns."""

    law: SidedLaw
    adjustment: BaseAdjustment
    columns: dict[str, list[Any]] = field(default_factory=dict)
    rows: int = 0


@dataclass(frozen=True)
class Column:
    """One law to find: of scores v (n,), asked for ``levels``."""

    v: Array
    levels: Array

    def take(self, rows: Rows) -> Column:
        """On some of the rows."""
        return Column(self.v[rows], self.levels)


@dataclass(frozen=True)
class Found:
    """The winner for one column: its unfitted law, its correction, and the table."""

    law: BaseLaw
    change: Change
    scaled: bool
    columns: dict[str, list[Any]]


def select(task: Task) -> Selection:
    """Search on as many rows as the budget allows, then fit what was found."""
    rows = affordable_rows(task.budget, len(task.V), task.n_features)
    if rows == 0:
        return without_search(task)
    mirrored = is_mirrored(task.V)
    if not mirrored and task.adjustment is None:
        # Sides with laws of their own must agree on the unit of their corrections.
        task = replace(task, adjustment=AdditiveQuantile())
    drawn = task.take(draw(len(task.V), rows, task.seed))
    columns = columns_of(drawn, mirrored)
    found = [search(drawn, column) for column in columns]
    with stage("fit the law found"):
        pairs = zip(found, columns, strict=True)
        laws = tuple(fit_found(one, drawn, column) for one, column in pairs)
    adjustment = task.adjustment
    if adjustment is None:
        adjustment = ScaledQuantile() if found[-1].scaled else AdditiveQuantile()
    table: dict[str, list[Any]] = {}
    for side, one in enumerate(found):
        for name, values in one.columns.items():
            table.setdefault(name, []).extend(values)
        table.setdefault("side", []).extend([side + 2 - len(found)] * len(one.columns["law"]))
    return Selection(SidedLaw(laws, mirrored), adjustment, table, rows)


def draw(n: int, count: int, seed: int) -> Rows:
    """That many of n rows, in order; all of them when there are no more."""
    if count >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, count, replace=False))


def without_search(task: Task) -> Selection:
    """Nothing can be compared: a kernel law for few rows, a forest for few seconds."""
    few = len(task.V) < FEWEST
    law = KernelLaw(bandwidth="cv") if few else ForestLaw()
    name = "features" if few else "forest"
    fitted = SidedLaw.fit(seeded(law, task.seed, task.n_jobs), task.X, task.V, task.outputs)
    columns: dict[str, list[Any]] = {
        "law": [name],
        "location": ["point"],
        "correction": ["additive"],
        "interval_score": [np.nan],
        "weight": [1.0],
        "chosen": [True],
        "side": [1],
    }
    return Selection(fitted, task.adjustment or AdditiveQuantile(), columns, 0)


def is_mirrored(V: Array) -> bool:
    """Whether the two sides are one score with its sign turned."""
    return V.shape[1] == 2 and np.array_equal(V[:, 0], -V[:, 1])


def columns_of(task: Task, mirrored: bool) -> list[Column]:
    """The laws to find: one with both levels for mirrored sides, else one a side."""
    if mirrored:
        return [Column(task.V[:, 1], np.array([1.0 - task.levels[0], task.levels[1]]))]
    return [Column(v, level[None]) for v, level in zip(task.V.T, task.levels, strict=True)]


def search(task: Task, column: Column) -> Found:
    """The best candidate, or the average of several, at held-out rows."""
    with stage("compare locations"):
        base, location = best_location(task, column)
    make = partial(
        candidate_laws, column.levels, location != "", task.n_features, task.seed, task.n_jobs
    )
    laws = make()
    rows = draw(len(column.v), COMPARED, task.seed)
    X, some, column = take_rows(task.X, rows), base.take(rows), column.take(rows)
    folds = make_folds(X, some.standardise(column.v), some.outputs, N_FOLDS, task.seed, task.n_jobs)
    tables = {SPLIT: np.tile(np.quantile(column.v, column.levels), (len(rows), 1))}
    tables.update(held_out_tables(task, make(COMPARED_TREES), folds, column.levels, some))
    stack = np.stack([tables[name] for name in laws])
    weights = prune(simplex_weights(stack, column.v, column.levels), MIN_WEIGHT)
    tables[STACK] = np.tensordot(weights, stack, axes=1)
    return choose(task, column, base, location or "point", laws, tables, weights)


def held_out_tables(
    task: Task, laws: dict[str, BaseLaw], folds: list[Fold], levels: Array, change: Change
) -> dict[str, Array]:
    """Quantiles (n, L) of each candidate at rows that its fits have not seen.

    Candidates side by side, each in one thread: small forests gain nothing from more.
    """
    n = sum(len(fold.rows) for fold in folds)
    with stage(f"compare laws on {n:,} rows", len(laws)) as announce:
        found = held_out_quantiles(laws, folds, levels, task.n_jobs, announce)
        return {name: change.restore_reference(table) for name, table in found.items()}


def best_location(task: Task, column: Column) -> tuple[Change, str]:
    """A blend's residual if that is clearly smaller, else the score as it is.

    Returns the change of variable and "blend" or "point"; "" where the score is no residual.
    """
    v, outputs = column.v, task.outputs
    change, name = unchanged(v, outputs), ""
    if len(column.levels) == 2 and is_residual(v, outputs):
        models = blend_models(task.n_features, task.seed)
        law = ShiftedLaw(models=models, n_jobs=task.n_jobs)
        shifted = law.change(task.X, v, outputs, task.seed)
        left = np.abs(shifted.standardise(v)).mean()
        gains = left < (1.0 - LEAST_GAIN) * np.abs(v).mean()
        change, name = (shifted, "blend") if gains else (change, "point")
    W = change.standardise(v)
    known = with_spread(change.outputs, task.X, W, task.seed, task.n_jobs)
    return replace(change, outputs=known), name


def choose(
    task: Task,
    column: Column,
    base: Change,
    location: str,
    laws: dict[str, BaseLaw],
    tables: dict[str, Array],
    weights: Array,
) -> Found:
    """The lowest interval score, or nearly so."""
    rows = []
    free = task.adjustment is None
    for name, quantiles in tables.items():
        for scaled in (False, True) if free else (False,):
            ready = corrected(quantiles, column.v, column.levels, scaled) if free else quantiles
            score = mean_interval_score(ready, column.v, column.levels)
            rows.append((name, scaled, score))
    best = min(rows, key=lambda row: row[2] * handicap(row[0], len(column.v)))
    weight = {SPLIT: 0.0, STACK: 1.0, **dict(zip(laws, weights.tolist(), strict=True))}
    order = sorted(rows, key=lambda row: row[2])
    columns: dict[str, list[Any]] = {
        "law": [name for name, _, _ in order],
        "location": ["point" if name == SPLIT else location for name, _, _ in order],
        "correction": [word(task, scaled) for _, scaled, _ in order],
        "interval_score": [score for _, _, score in order],
        "weight": [weight[name] for name, _, _ in order],
        "chosen": [row == best for row in order],
    }
    return Found(chosen_law(best[0], laws, weight, location, task), base, best[1], columns)


def chosen_law(
    name: str, laws: dict[str, BaseLaw], weight: dict[str, float], location: str, task: Task
) -> BaseLaw:
    """The unfitted law behind a name of the table."""
    if name == SPLIT:
        return UniformLaw()
    members = [one for one in laws if weight[one] > 0.0] if name == STACK else [name]
    law = laws[members[0]]
    if len(members) > 1:
        shares = [weight[one] for one in members]
        law = StackedLaw([laws[one] for one in members], shares, random_state=task.seed)
    return ShiftedLaw(law, random_state=task.seed) if location == "blend" else law


def handicap(name: str, n: int) -> float:
    """What a candidate must be better by to be chosen.

    Differences of a percent, or more with few rows, are noise, and then the average is the safer
    bet; but nothing is used in place of split conformal that does not beat it.
    """
    return 1.0 if name in (STACK, SPLIT) else 1.01 + 10.0 / n


def word(task: Task, scaled: bool) -> str:
    """What the table calls a correction."""
    if task.adjustment is not None:
        return type(task.adjustment).__name__
    return "scaled" if scaled else "additive"


def fit_found(found: Found, task: Task, column: Column) -> BaseLaw:
    """The law fitted on the drawn rows; blend and spread are known already."""
    if isinstance(found.law, ShiftedLaw):
        return found.law.fit_changed(task.X, column.v, found.change)
    return found.law.fit(task.X, column.v, outputs=found.change.outputs)
