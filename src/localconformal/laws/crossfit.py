"""Quantiles of a law at the reference rows themselves, by laws that have not seen them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from localconformal.laws.base import BaseLaw
from localconformal.laws.knots import quantiles_of
from localconformal.laws.once import one_query
from localconformal.laws.outputs import Outputs, with_spread
from localconformal.models import take_rows
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


def make_folds(X: Any, v: Array, outputs: Outputs, n_folds: int, seed: int) -> list[Fold]:
    """Folds of the reference rows; the spread, if it is known, is learned anew without each."""
    folds = []
    for rest, rows in fold_rows(len(v), n_folds, seed):
        X_rest, known = take_rows(X, rest), outputs.held_out(rest, rows)
        if outputs.reference_spread is not None:
            known = with_spread(known, X_rest, v[rest], seed)
        folds.append(Fold(rows, take_rows(X, rows), X_rest, v[rest], known))
    return folds


def held_out_quantiles(law: BaseLaw, folds: list[Fold], levels: Array) -> Array:
    """Quantiles at each reference row by a law fitted on the other folds: (n, L)."""
    answer = np.empty((sum(len(fold.rows) for fold in folds), len(levels)))
    asked = law.at_levels(levels)
    for fold in folds:
        fitted = clone(asked).fit(fold.X_rest, fold.v_rest, outputs=fold.outputs)
        with one_query():
            answer[fold.rows] = quantiles_of(fitted, fitted.rows(fold.X), levels)
    return answer
