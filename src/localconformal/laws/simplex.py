"""Weights on the simplex by pinball loss."""

from __future__ import annotations

import numpy as np

from localconformal.quantiles import Array

STEPS = 500
#: Size of the first step of the exponentiated gradient, and how soon steps shrink.
FIRST_STEP, SHRINK = 8.0, 0.1
#: Weight of the entropy in units of the best loss over n: differences that few rows cannot tell
#: apart leave the weights spread, which averages the candidates' errors.
ENTROPY = 30.0
#: Candidates get no weight whose loss exceeds the best by this share, and by this number over n:
#: few rows do not tell who is hopeless.
HOPELESS, HOPELESS_ROWS = 0.15, 30.0
# Weights count as no smaller than this in logarithms.
SMALLEST = 1e-12


def pinball(predictions: Array, target: Array, levels: Array) -> Array:
    """Mean pinball loss over rows, summed over levels: (..., n, L), (n,), (L,) -> (...)."""
    error = target[:, None] - predictions
    return np.maximum(levels * error, (levels - 1.0) * error).mean(axis=-2).sum(axis=-1)


def simplex_weights(predictions: Array, target: Array, levels: Array) -> Array:
    """w >= 0 with sum 1 that minimises the pinball loss of sum_k w_k predictions_k.

    Exponentiated gradient with a small entropy term; the best iterate is kept.

    Parameters
    ----------
    predictions : array of shape (K, n, L)
        Candidates' quantiles at rows that they have not seen.
    target : array of shape (n,)
    levels : array of shape (L,)

    Returns
    -------
    array of shape (K,)

    Examples
    --------
    >>> target = np.arange(100.0)
    >>> good, bad = target[:, None], np.zeros((100, 1))
    >>> simplex_weights(np.stack([good, bad]), target, np.array([0.5])).round(2)
    array([1., 0.])
    """
    losses = pinball(predictions, target, levels)
    slack = HOPELESS + HOPELESS_ROWS / len(target)
    hopeful = losses <= (1.0 + slack) * losses.min()
    weights = np.zeros(len(losses))
    weights[hopeful] = descend(predictions[hopeful], target, levels, losses[hopeful])
    return weights


def descend(predictions: Array, target: Array, levels: Array, losses: Array) -> Array:
    """The best iterate of the exponentiated gradient, from equal weights: (K,)."""
    n = len(target)
    # The least loss above 0, so that the scale of the target does not matter.
    unit = float(np.min(losses, initial=np.inf, where=losses > 0.0))
    unit = unit if np.isfinite(unit) else 1.0
    penalty = min(ENTROPY / n, 0.3)
    weights = np.full(len(losses), 1.0 / len(losses))
    best, kept = np.inf, weights
    for step in range(STEPS):
        mixture = np.tensordot(weights, predictions, axes=1)
        logarithm = np.log(np.maximum(weights, SMALLEST))
        objective = float(pinball(mixture, target, levels)) / unit
        objective += penalty * float(np.sum(weights * logarithm))
        if objective < best:
            best, kept = objective, weights
        slope = (mixture > target[:, None]) - levels
        gradient = np.einsum("knl,nl->k", predictions, slope) / (n * unit) + penalty * logarithm
        size = FIRST_STEP / np.sqrt(1.0 + SHRINK * step)
        # Steps are bounded, so that a wild candidate does not throw all weight away at once.
        move = np.clip(size * (gradient - gradient.min()), 0.0, 2.0)
        weights = weights * np.exp(-move)
        weights = weights / weights.sum()
    return kept


def prune(weights: Array, least: float) -> Array:
    """Weights below the least become 0; the rest sum to 1."""
    kept = np.where(weights >= min(least, weights.max()), weights, 0.0)
    return np.asarray(kept / kept.sum())
