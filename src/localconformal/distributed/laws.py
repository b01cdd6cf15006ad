"""The law: chosen on a sample of the reference rows, summed over all of them.

A law is a function of training rows, so that any part of them will do for validity. At most
`LAW_ROWS` reference rows, drawn by position, choose everything that has to be chosen: the view of
the features, the bandwidth, the landmarks, the edges of the scores, or, with "auto", the law.
A kernel law that runs on a sketch is then summed over every reference row,

    S_g = sum over all rows with score in (v_{g-1}, v_g] of k(Z, X_i),

one partial sum a block, added up in a tree. Other laws stay those of the sample.

The sample is a mergeable summary of the scores: the ranks of the edges read off m drawn rows are
all within sqrt(ln(2 / p) / 2m) of those asked for, with probability 1 - p (Dvoretzky, Kiefer,
Wolfowitz; Massart): 0.009 for m = 50,000 and p = 0.001. The sums between the edges are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.distributed.blocks import Blocks, kept_rows, stack_parts
from localconformal.distributed.computing import add_up, compute, held, task
from localconformal.distributed.models import Scorers
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.laws import KernelLaw
from localconformal.quantiles import Array
from localconformal.regressors.composed import Composition, check_scores
from localconformal.regressors.reference import Reference
from localconformal.scores import BaseScore

#: Rows that choose the law, at most: as many as a certificate looks at.
LAW_ROWS = 50_000


@dataclass(frozen=True)
class ScoredRows:
    """Reference rows of a block: X, scores (n, S), responses and folds (n,).

    ``point`` has what models say that have not seen the row, where that is asked for.
    """

    X: Any
    V: Array
    y: Array
    folds: NDArray[np.intp]
    point: Array | None = None


def fit_laws(
    shell: Any, parts: Composition, scorers: Scorers, blocks: Blocks, n_train: int, seed: int
) -> tuple[Any, int]:
    """The shell with its law and adjustment fitted, and the number of rows behind the law."""
    share = LAW_ROWS / (n_train * scorers.share)
    drawn = blocks.map(sample_rows, shell, scorers, share)
    chosen, sampled = compute(
        task(choose_laws, held(shell), drawn, held(parts), seed), task(count_all, drawn)
    )
    n = sampled if share >= 1.0 else sum_sketches(chosen, scorers, blocks)
    return chosen, n or sampled


def score_rows(
    X: Any, y: Array, start: int, shell: Any, scorers: Scorers, share: float
) -> ScoredRows:
    """Reference rows of a block that are in the sample, each scored by who has not seen it."""
    roles = scorers.roles
    flags = ~roles.calibrates(start, len(y)) & roles.drawn(share, start, len(y))
    folds = roles.folds(start, len(y))
    flags &= np.isin(folds, list(scorers.by_fold))
    rows, kept = kept_rows(X, y, flags)
    V = np.empty((len(kept), shell.side_rule_.n_sides))
    for score, mine in by_scorer(scorers, folds[flags]):
        of_fold, y_fold = kept_rows(rows, kept, mine)
        of_fold = shell._check_rows(of_fold)
        raw = check_scores(score.values(score.band(of_fold), y_fold))
        V[mine] = shell.side_rule_.fold(raw)
    return ScoredRows(rows, V, kept, folds[flags])


def by_scorer(scorers: Scorers, folds: NDArray[np.intp]) -> Iterator[tuple[BaseScore, Any]]:
    """Those who score some of the rows, and which."""
    for fold, score in scorers.by_fold.items():
        mine = folds == fold
        if mine.any():
            yield score, mine


def sample_rows(
    X: Any, y: Array, start: int, shell: Any, scorers: Scorers, share: float
) -> ScoredRows:
    """The same with point predictions, which some laws look at."""
    scored = score_rows(X, y, start, shell, scorers, share)
    point = np.empty(len(scored.y))
    for score, mine in by_scorer(scorers, scored.folds):
        point[mine] = score.point(kept_rows(scored.X, scored.y, mine)[0])
    return replace(scored, point=point)


def count_all(parts: list[ScoredRows]) -> int:
    """Rows of all blocks."""
    return sum(len(part.y) for part in parts)


def choose_laws(shell: Any, drawn: list[ScoredRows], parts: Composition, seed: int) -> Any:
    """A copy of the shell with laws fitted to the sample."""
    V = np.concatenate([part.V for part in drawn])
    point, y = (np.concatenate([getattr(part, name) for part in drawn]) for name in ("point", "y"))
    X = stack_parts([part.X for part in drawn])
    fitted = copy(shell)
    fitted._fit_laws(parts, Reference(shell.score_, X, V, point, y), V, seed)
    return fitted


def sum_sketches(shell: Any, scorers: Scorers, blocks: Blocks) -> int:
    """Have sketches of all reference rows where laws run on sketches; how many rows, or 0."""
    laws = shell.law_.laws
    on_sketch = [isinstance(law, KernelLaw) and runs_on_sketch(law) for law in laws]
    if not any(on_sketch):
        return 0
    empty = [emptied(law) if flag else None for law, flag in zip(laws, on_sketch, strict=True)]
    sums = blocks.map(sum_block, shell, scorers, empty)
    (sketches,) = compute(add_up(sums, merge_sketches))
    for law, sketch in zip(laws, sketches, strict=True):
        if sketch is not None:
            set_sketch(law, sketch)
    return next(sketch.n for sketch in sketches if sketch is not None)


def runs_on_sketch(law: Any) -> bool:
    """Whether a sketch answers for the law."""
    return isinstance(law.engine_, SketchEngine)


@dataclass(frozen=True)
class Frame:
    """What a block needs to fill a sketch, without the rows behind its fallback."""

    embedding: Any
    landmarks: Array
    edges: Array
    bandwidth: float


def emptied(law: Any) -> Frame:
    """Landmarks, edges and bandwidth of the law's sketch, without its sums."""
    sketch = law.engine_.sketch
    return Frame(law.embedding_, sketch.landmarks, sketch.edges, sketch.bandwidth)


def sum_block(
    X: Any, y: Array, start: int, shell: Any, scorers: Scorers, empty: list[Frame | None]
) -> list[Sketch | None]:
    """Sketches of the reference rows of one block, one a law."""
    rows = score_rows(X, y, start, shell, scorers, 1.0)
    columns = rows.V.T[-len(empty) :]
    made: list[Sketch | None] = []
    for frame, v in zip(empty, columns, strict=True):
        if frame is None:
            made.append(None)
            continue
        sketch = Sketch(frame.landmarks, frame.edges, frame.bandwidth)
        if len(v):
            sketch.update(frame.embedding.transform(rows.X), np.ascontiguousarray(v), 1)
        made.append(sketch)
    return made


def merge_sketches(parts: list[list[Sketch | None]]) -> list[Sketch | None]:
    """The sketches of all rows together, law by law."""
    merged: list[Sketch | None] = list(parts[0])
    for part in parts[1:]:
        for place, (one, other) in enumerate(zip(merged, part, strict=True)):
            if one is not None and other is not None:
                merged[place] = one.merge(other)
    return merged


def set_sketch(law: Any, sketch: Sketch) -> None:
    """Have the sums of all rows answer; rows that they cannot speak for go to the sample."""
    before = law.engine_
    law.engine_ = SketchEngine(
        sketch, before.fallback_engine, before.min_effective_samples, before.n_jobs
    )
    report = law.engine_report_
    law.engine_report_ = replace(
        report,
        n_references=sketch.n,
        reason=f"{report.reason}; chosen on {report.n_references:,} of {sketch.n:,} rows",
    )
