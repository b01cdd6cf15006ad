"""Weights on the simplex by pinball loss."""

from __future__ import annotations

import numpy as np

from localconformal.quantiles import Array

STEPS = 500
#: Size of the first step of the exponentiated gradient, and how soon steps shrink.
FIRST_STEP, SHRINK = 8.0, 0.1
#: Weight of the entropy in units of the best loss over sqrt(n): differences that the rows cannot
#: tell apart leave the weights spread, which averages the candidates' errors.
ENTROPY = 0.25


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
    K, n, _ = predictions.shape
    losses = pinball(predictions, target, levels)
    unit = float(losses.min()) or 1.0
    penalty = ENTROPY / np.sqrt(n)
    weights = np.full(K, 1.0 / K)
    best, kept = np.inf, weights
    for step in range(STEPS):
        mixture = np.tensordot(weights, predictions, axes=1)
        entropy = float(np.sum(weights * np.log(np.maximum(weights, 1e-300))))
        objective = float(pinball(mixture, target, levels)) / unit + penalty * entropy
        if objective < best:
            best, kept = objective, weights
        slope = (mixture > target[:, None]) - levels
        gradient = np.einsum("knl,nl->k", predictions, slope) / (n * unit)
        gradient = gradient + penalty * np.log(np.maximum(weights, 1e-300))
        size = FIRST_STEP / np.sqrt(1.0 + SHRINK * step)
        # Steps are bounded, so that a wild candidate does not throw all weight away at once.
        move = np.clip(size * (gradient - gradient.min()), 0.0, 2.0)
        weights = weights * np.exp(-move)
        weights = weights / weights.sum()
    return kept
