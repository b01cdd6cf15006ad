"""Quantiles of a law at the reference rows themselves, by laws that have not seen them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from localconformal.laws.base import BaseLaw
from localconformal.laws.knots import quantiles_of
from localconformal.laws.once import one_query
from localconformal.laws.outputs import Outputs, with_spread
from localconformal.models import take_rows
from localconformal.parallel import in_threads
from localconformal.quantiles import Array
from localconformal.splitting import Rows, fold_rows


@dataclass(frozen=True)
class Fold:
    """Some reference rows, to be answered by laws of the rest."""

    rows: Rows
    X: Any
    X_rest: Any
    v_rest: Array
    outputs: Outputs


def make_folds(
    X: Any, v: Array, outputs: Outputs, n_folds: int, seed: int, n_jobs: int | None
) -> list[Fold]:
    """Folds of the reference rows; the spread, if it is known, is learned anew without each."""
    folds = []
    for rest, rows in fold_rows(len(v), n_folds, seed):
        X_rest, known = take_rows(X, rest), outputs.held_out(rest, rows)
        if outputs.reference_spread is not None:
            known = with_spread(known, X_rest, v[rest], seed, n_jobs)
        folds.append(Fold(rows, take_rows(X, rows), X_rest, v[rest], known))
    return folds


def held_out_quantiles(
    laws: Mapping[str, BaseLaw],
    folds: list[Fold],
    levels: Array,
    n_jobs: int | None,
    announce: Callable[[str], None] = lambda name: None,
) -> dict[str, Array]:
    """Quantiles at each reference row by laws fitted on the other folds: (n, L) for each law.

    A task is a law and a fold, so that no core waits for one that has a law left.
    """
    asked = {name: law.at_levels(levels) for name, law in laws.items()}
    n = sum(len(fold.rows) for fold in folds)
    found = {name: np.empty((n, len(levels))) for name in laws}

    def answer(name: str, fold: Fold) -> None:
        if fold is folds[0]:
            announce(name)
        fitted = clone(asked[name]).fit(fold.X_rest, fold.v_rest, outputs=fold.outputs)
        with one_query():
            found[name][fold.rows] = quantiles_of(fitted, fitted.rows(fold.X), levels)

    in_threads([partial(answer, name, fold) for name in laws for fold in folds], n_jobs)
    return found
