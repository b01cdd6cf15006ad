"""The law: chosen on a sample of the reference rows, summed over all of them.

A law is a function of training rows, so any subset of them is valid. At most `LAW_ROWS` of them,
drawn by position, determine its view, bandwidth, landmarks and edges. A kernel law that runs on a
sketch is then summed over every reference row, block by block: docs/guide/scale.md says how close
that is. Other laws, including "auto", use the sample only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from localconformal.composition import Method, Parts, Sides
from localconformal.distributed.graph import (
    Blocks,
    Step,
    add_up,
    compute,
    held,
    kept_rows,
    stack_parts,
)
from localconformal.distributed.models import Scorers
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.laws import KernelLaw
from localconformal.quantiles import Array
from localconformal.regressors.base import rows_of
from localconformal.rows import RESPONSE, Curve, Reference, Rows
from localconformal.scores import Band, Score

#: Most rows used to choose the law: as many as a certificate uses.
LAW_ROWS = 50_000


#: Reference rows of a block: X, results of models that have not seen them, responses (n,).
_Scored = tuple[Any, Band, Array]


def fit_laws(
    shell: Any, method: Method, scorers: Scorers, blocks: Blocks, n_train: int, seed: int
) -> Parts:
    """The parts with their law and adjustment fitted, and the number of rows behind the law."""
    share = LAW_ROWS / (n_train * (len(scorers.by_fold) / scorers.roles.n_folds))
    drawn = blocks.map(_score_rows, shell, scorers, share)
    (parts,) = compute(Step(_choose_laws, held(shell), drawn, held((method, scorers.final)), seed))
    n = 0 if share >= 1.0 else _sum_sketches(shell, parts, scorers, blocks)
    return replace(parts, n_reference=n or parts.n_reference)


def _score_rows(
    X: Any, y: Array, start: int, shell: Any, scorers: Scorers, share: float
) -> _Scored:
    """Reference rows of a block in the sample, each scored by a model that has not seen it."""
    roles = scorers.roles
    folds = roles.folds(start, len(y))
    flags = roles.drawn(share, start, len(y)) & np.isin(folds, list(scorers.by_fold))
    rows, kept = kept_rows(X, y, flags)
    band = Band(*np.empty((len(Band._fields), len(kept))))
    for fold, score in scorers.by_fold.items():
        mine = folds[flags] == fold
        if mine.any():
            answer = score(rows_of(shell, kept_rows(rows, kept, mine)[0]))
            for column, values in zip(band, answer, strict=True):
                column[mine] = values
    return rows, band, kept


def _choose_laws(shell: Any, drawn: list[_Scored], terms: tuple[Method, Score], seed: int) -> Parts:
    method, score = terms
    X, bands, responses = zip(*drawn, strict=True)
    band, y = Band(*map(np.concatenate, zip(*bands, strict=True))), np.concatenate(responses)
    rows = Rows(stack_parts(X), model=score, known={score: band, RESPONSE: y})
    reference = Reference(rows, y, score, method.sides, seed, shell.n_jobs)
    return method.learn(reference)


def _sum_sketches(shell: Any, parts: Parts, scorers: Scorers, blocks: Blocks) -> int:
    """Sum sketches over all reference rows if laws run on sketches; number of rows, or 0."""
    empty = [_emptied(law) for law in parts.law.laws]
    if not any(empty):
        return 0
    sums = blocks.map(_sum_block, shell, parts.sides, scorers, empty)
    (sketches,) = compute(add_up(sums, _merge_sketches))
    for law, sketch in zip(parts.law.laws, sketches, strict=True):
        if sketch is not None:
            _set_sketch(law, sketch)
    return next(sketch.n for sketch in sketches if sketch is not None)


#: What a block needs to fill a sketch, without the rows behind its fallback: a view of rows, and
#: how to make an empty sketch.
_Frame = tuple[Curve, Callable[[], Sketch]]


def _emptied(law: Any) -> _Frame | None:
    """The frame of the law's sketch; None if no sketch answers for it."""
    if not (isinstance(law, KernelLaw) and isinstance(law.engine_, SketchEngine)):
        return None
    sketch = law.engine_.sketch
    return law.view_, partial(Sketch, sketch.landmarks, sketch.edges, sketch.bandwidth)


def _sum_block(
    X: Any,
    y: Array,
    start: int,
    shell: Any,
    sides: Sides,
    scorers: Scorers,
    empty: list[_Frame | None],
) -> list[Sketch | None]:
    """Sketches of the reference rows of one block, law by law."""
    X, band, y = _score_rows(X, y, start, shell, scorers, 1.0)
    rows = Rows(X, model=scorers.final, known={scorers.final: band})
    columns = sides.fold(scorers.final.values(band, y)).T[-len(empty) :]
    made: list[Sketch | None] = []
    for frame, v in zip(empty, columns, strict=True):
        sketch = None
        if frame is not None:
            view, make = frame
            sketch = make()
            if len(v):
                sketch.update(view(rows), np.ascontiguousarray(v), 1)
        made.append(sketch)
    return made


def _merge_sketches(parts: list[list[Sketch | None]]) -> list[Sketch | None]:
    return [
        reduce(lambda one, other: one and other and one.merge(other), of_law)
        for of_law in zip(*parts, strict=True)
    ]


def _set_sketch(law: Any, sketch: Sketch) -> None:
    """Use the sums over all rows; rows that they cannot answer fall back on the sample."""
    law.engine_, report = law.engine_.with_sketch(sketch), law.engine_report_
    law.engine_report_ = replace(
        report,
        n_references=sketch.n,
        reason=f"{report.reason}; chosen on {report.n_references:,} of {sketch.n:,} rows",
    )
