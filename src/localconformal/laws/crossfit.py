"""Quantiles of a law at the reference rows themselves, by laws that have not seen them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from localconformal.laws.base import BaseLaw
from localconformal.laws.changed import Change, ChangedLaw
from localconformal.laws.knots import quantiles_of
from localconformal.laws.outputs import Outputs
from localconformal.models import take_rows
from localconformal.quantiles import Array
from localconformal.splitting import Rows

Folds = list[tuple[Rows, Rows]]


def held_out_quantiles(
    law: BaseLaw, X: Any, v: Array, change: Change, levels: Array, folds: Folds
) -> Array:
    """Quantiles of V at each reference row by a law fitted on the other folds: (n, L).

    The change of variable is as it came: it was learned from rows that it has not seen.
    """
    inner = law.inner_law() if isinstance(law, ChangedLaw) else law
    W = change.standardise(v)
    quantiles = _held_out(inner.at_levels(levels), X, W, change.outputs, levels, folds)
    return change.restore_reference(quantiles)


def _held_out(
    law: BaseLaw, X: Any, v: Array, outputs: Outputs, levels: Array, folds: Folds
) -> Array:
    answer = np.empty((len(v), len(levels)))
    for rest, fold in folds:
        known = outputs.held_out(rest, fold)
        fitted = clone(law).fit(take_rows(X, rest), v[rest], outputs=known)
        answer[fold] = quantiles_of(fitted, fitted.rows(take_rows(X, fold)), levels)
    return answer
