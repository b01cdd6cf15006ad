"""``law="auto"``: candidates compared by interval score on training rows, the best kept.

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
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from localconformal.laws.base import Law, SidedLaw, UniformLaw, is_mirrored, seeded
from localconformal.laws.blend import ShiftedLaw, default_models
from localconformal.laws.forest import TREES, ForestLaw, default_forest
from localconformal.laws.kernel import KernelLaw
from localconformal.laws.learned import LearnedLaw
from localconformal.laws.stacked import (
    MIN_WEIGHT,
    Fold,
    StackedLaw,
    held_out_quantiles,
    make_folds,
    pinball,
    prune,
    simplex_weights,
)
from localconformal.laws.transformed import ResponseLaw, ScaledLaw, is_residual, with_spread
from localconformal.parallel import asked_jobs
from localconformal.progress import stage
from localconformal.quantiles import Array, conformal_quantile, typical_size
from localconformal.rows import Index, Rows, canonical_order

#: Seconds that a search costs at least, and for a row and a column, on two cores.
_FIXED, _PER_NUMBER = 3.0, 1.4e-4
#: Columns' worth of work that a row costs even without features.
_EXTRA_COLUMNS = 10
#: Default of ``selection_budget``.
BUDGET = 20.0
#: Rows that the default budget always buys: in wide tables fewer rows would save little time, and
#: laws learned from them would be worse than none.
_FLOOR = 4_000
#: A search on fewer rows cannot tell candidates apart.
_FEWEST = 160
#: Columns beyond which distances between features say nothing.
_FEW_COLUMNS = 10
#: Columns beyond which boosting, and forests that look at all of them, take their time.
_WIDE = 60
#: Bandwidth on the standardised (mu, sigma): local, with hundreds of rows near most points.
_OUTPUTS_BANDWIDTH = 0.2
_N_FOLDS = 3
#: A blend must err less than the point model by this share, or the point model stays.
_LEAST_GAIN = 0.01
#: Rows on which candidates are compared at most; what is chosen is fitted on more.
_COMPARED = 2_000
#: Share of their trees with which forests are compared: enough to tell which weighs how much.
_COMPARED_TREES = 0.5
#: The average of all, and what everything must beat: the uniform law of the point model's score.
_STACK, _SPLIT = "stack", "split"
#: Numbers in a row of more than one dimension up to which they are taken for features.
_FLATTENED_UP_TO = 1_000
#: Floor of a correction in local widths, as in `ScaledQuantile`.
_FLOOR_SHARE = 1e-2


@dataclass(frozen=True)
class Task:
    """Reference rows and what is asked of their law.

    ``V`` (n, S) are scores folded by sides and ``levels`` (S,) the local level of each;
    ``adjustment`` names the one that is given, None where the unit of the correction is free.
    """

    rows: Rows
    V: Array
    levels: Array
    adjustment: str | None
    budget: float
    seed: int
    n_jobs: int | None

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return math.prod(self.rows.X.shape[1:])

    def take(self, index: Index) -> Task:
        """On some of the rows."""
        return replace(self, rows=self.rows.take(index), V=self.V[index])


@dataclass(frozen=True)
class Selection:
    """The fitted law, whether corrections are in local widths, and how both were found."""

    law: SidedLaw
    scaled: bool = False
    columns: dict[str, list[Any]] = field(default_factory=dict)
    n_rows: int = 0


@dataclass(frozen=True)
class _Column:
    """One law to find: of scores v (n,), asked for ``levels``."""

    v: Array
    levels: Array


@dataclass(frozen=True)
class _Base:
    """Where the law is looked for: rows whose spread is known, and W = v - location."""

    rows: Rows
    location: Array
    shifted: ShiftedLaw | None
    name: str

    def take(self, index: Index) -> _Base:
        """On some of the rows."""
        return replace(self, rows=self.rows.take(index), location=self.location[index])


@dataclass(frozen=True)
class _Found:
    """The winner for one column: its unfitted law, its correction, and the table."""

    law: Law
    base: _Base
    scaled: bool
    columns: dict[str, list[Any]]


def select(task: Task) -> Selection:
    """Search on as many rows as the budget allows, then fit what was found."""
    check_searchable(task.rows.X)
    n_rows = affordable_rows(task.budget, len(task.V), task.n_features)
    if n_rows == 0:
        return _without_search(task)
    order = canonical_order(task.rows, task.V[:, -1])
    task = task.take(order)
    mirrored = is_mirrored(task.V)
    if not mirrored and task.adjustment is None:
        # Sides with laws of their own must agree on the unit of their corrections.
        task = replace(task, adjustment="additive")
    drawn = task.take(_draw(len(task.V), n_rows, task.seed))
    columns = _columns_of(drawn, mirrored)
    found = [_search(drawn, column) for column in columns]
    with stage("fit the law found"):
        pairs = zip(found, columns, strict=True)
        laws = tuple(_fit_found(one, column) for one, column in pairs)
    table: dict[str, list[Any]] = {}
    for side, one in enumerate(found):
        for name, values in one.columns.items():
            table.setdefault(name, []).extend(values)
        table.setdefault("side", []).extend([side + 2 - len(found)] * len(one.columns["law"]))
    return Selection(SidedLaw(laws, mirrored), found[-1].scaled, table, n_rows)


def check_searchable(X: Any) -> None:
    """Rows of more than one dimension are compared flattened, where that can mean something."""
    shape = X.shape[1:]
    if len(shape) > 1 and math.prod(shape) > _FLATTENED_UP_TO:
        raise ValueError(
            f"got law='auto' with rows of shape {shape}; it compares laws on at most "
            f"{_FLATTENED_UP_TO} numbers per row: give the regressor embedded rows, as those of "
            "TorchEmbedding, or a law such as KernelLaw(embedding=...)."
        )


def affordable_rows(budget: float, n: int, n_features: int) -> int:
    """Rows to search on within the budget: at most n; 0 when too few to be worth it.

    Seconds are estimated from the numbers of rows and columns, not read off a clock: a search
    looks at the same rows on any machine, however busy.

    Examples
    --------
    >>> affordable_rows(20.0, 4_000, 20), affordable_rows(20.0, 1_000_000, 20) < 10_000
    (4000, True)
    >>> affordable_rows(20.0, 100, 20), affordable_rows(1.0, 5_000, 20)
    (0, 0)
    """
    if budget < _FIXED:
        return 0
    rows = (budget - _FIXED) / (_PER_NUMBER * (n_features + _EXTRA_COLUMNS))
    rows = max(rows, _FLOOR * (budget - _FIXED) / (BUDGET - _FIXED))
    return min(int(rows), n) if min(rows, n) >= _FEWEST else 0


def _draw(n: int, count: int, seed: int) -> Index:
    """That many of n rows, in order; all of them when there are no more."""
    if count >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, count, replace=False))


def _without_search(task: Task) -> Selection:
    """Nothing can be compared: a kernel law for few rows, a forest for few seconds."""
    few = len(task.V) < _FEWEST
    law = KernelLaw(bandwidth="cv") if few else ForestLaw()
    fitted = SidedLaw.fit(seeded(law, task.seed, task.n_jobs), task.rows, task.V)
    columns: dict[str, list[Any]] = {
        "law": ["features" if few else "forest"],
        "location": ["point"],
        "correction": ["additive"],
        "interval_score": [np.nan],
        "weight": [1.0],
        "chosen": [True],
        "side": [1],
    }
    return Selection(fitted, columns=columns)


def _columns_of(task: Task, mirrored: bool) -> list[_Column]:
    """The laws to find: one with both levels for mirrored sides, else one per side."""
    if mirrored:
        return [_Column(task.V[:, 1], np.array([1.0 - task.levels[0], task.levels[1]]))]
    return [_Column(v, level[None]) for v, level in zip(task.V.T, task.levels, strict=True)]


def _search(task: Task, column: _Column) -> _Found:
    """The best candidate, or the average of several, at held-out rows."""
    with stage("compare locations"):
        base = _best_location(task, column)
    make = partial(
        _candidate_laws, column.levels, base.name != "", task.n_features, task.seed, task.n_jobs
    )
    laws = make()
    index = _draw(len(column.v), _COMPARED, task.seed)
    some, compared = base.take(index), _Column(column.v[index], column.levels)
    folds = make_folds(some.rows, compared.v - some.location, _N_FOLDS, task.seed, task.n_jobs)
    tables = {_SPLIT: np.tile(np.quantile(compared.v, column.levels), (len(index), 1))}
    tables.update(_held_out(task, make(_COMPARED_TREES), folds, column.levels, some.location))
    stack = np.stack([tables[name] for name in laws])
    weights = prune(simplex_weights(stack, compared.v, column.levels), MIN_WEIGHT)
    tables[_STACK] = np.tensordot(weights, stack, axes=1)
    return _choose(task, compared, base, laws, tables, weights)


def _held_out(
    task: Task, laws: dict[str, Law], folds: list[Fold], levels: Array, location: Array
) -> dict[str, Array]:
    """Quantiles (n, L) of each candidate at rows that its fits have not seen.

    Candidates side by side, each in one thread: small forests gain nothing from more.
    """
    with stage(f"compare laws on {len(location):,} rows", len(laws)) as announce:
        found = held_out_quantiles(laws, folds, levels, task.n_jobs, announce)
    return {name: location[:, None] + table for name, table in found.items()}


def _best_location(task: Task, column: _Column) -> _Base:
    """A blend's residual if that is clearly smaller, else the score as it is.

    The name is "blend" or "point"; "" where the score is no residual.
    """
    rows, v = task.rows, column.v
    base = _Base(rows, np.zeros(len(v)), None, "")
    if len(column.levels) == 2 and is_residual(rows, v):
        left_out = {"boosting"} if task.n_features > _WIDE else set()
        models = {k: m for k, m in default_models(task.seed).items() if k not in left_out}
        shifted = ShiftedLaw(models=models, n_jobs=task.n_jobs)
        changed = shifted.change(rows, v, task.seed)
        location, _ = shifted.terms(changed)
        gains = np.abs(v - location).mean() < (1.0 - _LEAST_GAIN) * np.abs(v).mean()
        base = _Base(changed, location, shifted, "blend") if gains else replace(base, name="point")
    known = with_spread(base.rows, v - base.location, task.seed, task.n_jobs)
    return replace(base, rows=known)


def _choose(
    task: Task,
    column: _Column,
    base: _Base,
    laws: dict[str, Law],
    tables: dict[str, Array],
    weights: Array,
) -> _Found:
    """The lowest interval score, or nearly so."""
    rows = []
    free = task.adjustment is None
    for name, quantiles in tables.items():
        for scaled in (False, True) if free else (False,):
            ready = _corrected(quantiles, column, scaled) if free else quantiles
            rows.append((name, scaled, _interval_score(ready, column)))
    best = min(rows, key=lambda row: row[2] * _handicap(row[0], len(column.v)))
    weight = {_SPLIT: 0.0, _STACK: 1.0, **dict(zip(laws, weights.tolist(), strict=True))}
    order = sorted(rows, key=lambda row: row[2])
    location = base.name or "point"
    columns: dict[str, list[Any]] = {
        "law": [name for name, _, _ in order],
        "location": ["point" if name == _SPLIT else location for name, _, _ in order],
        "correction": [
            task.adjustment or ("scaled" if scaled else "additive") for _, scaled, _ in order
        ],
        "interval_score": [score for _, _, score in order],
        "weight": [weight[name] for name, _, _ in order],
        "chosen": [row == best for row in order],
    }
    return _Found(_chosen_law(best[0], laws, weight, base, task), base, best[1], columns)


def _chosen_law(
    name: str, laws: dict[str, Law], weight: dict[str, float], base: _Base, task: Task
) -> Law:
    """The unfitted law behind a name of the table."""
    if name == _SPLIT:
        return UniformLaw()
    members = [one for one in laws if weight[one] > 0.0] if name == _STACK else [name]
    law = laws[members[0]]
    if len(members) > 1:
        shares = [weight[one] for one in members]
        law = StackedLaw([laws[one] for one in members], shares, random_state=task.seed)
    return law if base.shifted is None else ShiftedLaw(law, random_state=task.seed)


def _handicap(name: str, n: int) -> float:
    """What a candidate must be better by to be chosen.

    Differences of a percent, or more with few rows, are noise, and then the average is the safer
    bet; but nothing is used in place of split conformal that does not beat it.
    """
    return 1.0 if name in (_STACK, _SPLIT) else 1.01 + 10.0 / n


def _fit_found(found: _Found, column: _Column) -> Law:
    """The law fitted on the drawn rows; blend and spread are known already."""
    base = found.base
    if not isinstance(found.law, ShiftedLaw) or base.shifted is None:
        return found.law.fit(base.rows, column.v)
    found.law.model_, found.law.blend_ = base.shifted.model_, base.shifted.blend_
    return found.law.fit_changed(base.rows, column.v)


def _corrected(quantiles: Array, column: _Column, scaled: bool) -> Array:
    """Held-out quantiles (n, L) with the joint correction that these rows ask for.

    The first of two levels is a lower end; one level is an end of its own. The correction is one
    number, so that finding it on the rows that are scored costs nothing worth speaking of.
    """
    v, levels = column.v, column.levels
    sign = np.where(levels > 0.5, 1.0, -1.0)
    excess = sign * (v[:, None] - quantiles)
    unit = np.ones(len(v))
    if scaled:
        unit = np.ptp(quantiles, axis=1) + _FLOOR_SHARE * typical_size(v)
    confidence = 1.0 - float(np.sum(np.minimum(levels, 1.0 - levels)))
    theta = float(conformal_quantile(excess.max(axis=1) / unit, confidence))
    # Too few rows for the level: the quantiles must do as they are.
    theta = theta if np.isfinite(theta) else 0.0
    return np.asarray(quantiles + sign * theta * unit[:, None])


def _interval_score(quantiles: Array, column: _Column) -> float:
    """Pinball losses in the unit of an interval score: length + 2 / alpha x misses."""
    levels = column.levels
    alpha = float(np.sum(np.minimum(levels, 1.0 - levels)))
    return float(pinball(quantiles, column.v, levels)) * 2.0 / alpha


# ---- candidates ---------------------------------------------------------------------------------


def _candidate_laws(
    levels: Array,
    residual: bool,
    n_features: int,
    seed: int,
    n_jobs: int | None,
    share_of_trees: float = 1.0,
) -> dict[str, Law]:
    """Unfitted laws by name; ``residual`` says that the response can be told from the score."""
    grow = _Grow(share_of_trees, seed, n_jobs)
    curves = tuple(sorted({0.25, 0.5, 0.75, *levels.tolist()}))
    laws: dict[str, Law] = {
        "uniform": UniformLaw(),
        "spread": ScaledLaw(),
        "spread x forest": ScaledLaw(ForestLaw(grow.fine())),
        "learned": LearnedLaw(levels=curves),
        "outputs": KernelLaw(bandwidth=_OUTPUTS_BANDWIDTH, embedding="outputs-spread"),
    }
    if n_features <= _WIDE:
        laws["spread x learned"] = ScaledLaw(LearnedLaw(levels=curves))
        laws["coarse forest"] = ForestLaw(grow.coarse())
    if n_features <= _FEW_COLUMNS:
        laws["features"] = KernelLaw(bandwidth="cv")
    if residual and n_features <= _WIDE:
        laws["response learned"] = ResponseLaw(LearnedLaw(levels=curves))
    if residual:
        laws["response forest"] = ResponseLaw(ForestLaw(grow.extra(), target="response"))
    return {name: seeded(law, seed, n_jobs) for name, law in laws.items()}


@dataclass(frozen=True)
class _Grow:
    """Unfitted forests of this share of their trees."""

    share: float
    seed: int
    n_jobs: int | None

    def fine(self) -> RandomForestRegressor | None:
        """A forest law's own; None is all of it, grown as its number of rows asks."""
        if self.share == 1.0:
            return None
        return default_forest(0, self.seed, self.n_jobs, round(self.share * TREES))

    def coarse(self) -> RandomForestRegressor:
        """Large leaves and all columns at each split: for noise that depends smoothly on a few."""
        return self._set(RandomForestRegressor(50, min_samples_leaf=20))

    def extra(self) -> ExtraTreesRegressor:
        """Trees of another kind than the forest law's own."""
        return self._set(ExtraTreesRegressor(100, min_samples_leaf=5, max_features=0.7))

    def _set(self, forest: Any) -> Any:
        return forest.set_params(
            n_estimators=round(self.share * forest.n_estimators),
            n_jobs=asked_jobs(self.n_jobs),
            random_state=self.seed,
        )
