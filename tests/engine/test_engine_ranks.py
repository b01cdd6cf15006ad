"""Localized ranks: equal to the definition, whatever rounding says."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from localconformal.corrections import _rank_locally
from localconformal.quantiles import conformal_quantile, conformal_rank
from registry import ci_but

#: Weights are multiples of this, so that the definition can be computed in whole numbers.
UNIT = 2.0**-24


def gaussian(rows, others):
    return np.round(np.exp(-0.5 * np.subtract.outer(rows, others) ** 2) / UNIT) * UNIT


def boxcar(rows, others):
    return (np.abs(np.subtract.outer(rows, others)) <= 1.0).astype(float)


def neighbours(rows, others):
    """Not symmetric: every row has a reach of its own."""
    reach = 0.3 + np.abs(np.sin(5.0 * rows))
    return (np.abs(np.subtract.outer(rows, others)) <= reach[:, None]).astype(float)


def leaning(rows, others):
    """Not symmetric, and of any size."""
    return np.where(np.less.outer(rows, others), gaussian(rows, others), boxcar(rows, others))


def uniform(rows, others):
    return np.ones((len(rows), len(others)))


KERNELS = [gaussian, boxcar, neighbours, leaning, uniform]
ASYMMETRIC = (neighbours, leaning)


def threshold_by_definition(weights, scores, level):
    """Hull of the accepted scores: try one between any two neighbours, and beyond the last.

    ``weights`` are whole numbers, of all pairs of n + 1 rows.
    """
    ends, total = np.append(np.unique(scores), np.inf), weights.sum(axis=1)
    allowed, accepted = max(1, conformal_rank(len(scores), level)) - 1, []
    for tried, end in zip(np.append(ends[:-1] - 1e-9, ends[-2] + 1.0), ends, strict=True):
        V = np.append(scores, tried)
        under = (weights * (V[None, :] < V[:, None])).sum(axis=1)
        # Rows with a smaller local rank than the last, without a division.
        if np.sum(under[:-1] * total[-1] < under[-1] * total[:-1]) <= allowed:
            accepted.append(end)
    return max(accepted)


def in_order(kernel, rows, scores):
    order = np.argsort(scores, kind="stable")
    ranks = _rank_locally(kernel, rows[order], scores[order])
    return partial(ranks.thresholds, kernel, symmetric=kernel not in ASYMMETRIC)


def random_case(seed):
    """Up to 12 rows; two thirds of the cases have ties in scores, half of them in rows too."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 13)
    rows, queries = rng.normal(size=n) * 2.0, rng.normal(size=3) * 2.0
    scores = rng.exponential(size=n)
    if seed % 3:
        scores = np.round(scores * 2.0) / 2.0
    if seed % 2:
        rows, queries = np.round(rows), np.round(queries)
    return rows, scores, queries, np.sort(rng.uniform(0.02, 0.99, size=2))


def definition(kernel, rows, scores, queries, levels, unit=UNIT):
    everyone = [np.append(rows, x) for x in queries]
    weights = [np.round(kernel(all_, all_) / unit).astype(np.int64) for all_ in everyone]
    return [[threshold_by_definition(w, scores, level) for level in levels] for w in weights]


@pytest.mark.parametrize("cases", ci_but([range(60)], [range(60), range(60, 200)]), ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_equal_to_the_definition(kernel, cases):
    for seed in cases:
        rows, scores, queries, levels = random_case(seed)
        answer = in_order(kernel, rows, scores)(queries, levels)
        expected = definition(kernel, rows, scores, queries, levels)
        np.testing.assert_array_equal(answer, expected, err_msg=f"case {seed}")
        if kernel is uniform:
            everywhere = [conformal_quantile(scores, level) for level in levels]
            np.testing.assert_array_equal(answer, np.tile(everywhere, (3, 1)), err_msg=f"{seed}")


def real_gaussian(rows, others):
    return np.exp(-0.5 * np.subtract.outer(rows, others) ** 2)


@pytest.mark.parametrize("ratio", ci_but([3, 1000], [3, 7, 10, 1000]))
def test_ranks_that_tie_but_for_rounding_do_not_count_as_smaller(ratio):
    """Copies of three rows have few local ranks, summed in different orders from 1 and 1/ratio."""

    def kernel(rows, others):
        return np.where(np.equal.outer(rows, others), 1.0, 1.0 / ratio)

    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, scores = rng.integers(0, 3, size=60) * 1.0, rng.integers(0, 8, size=60) * 1.0
        queries, levels = np.arange(3.0), np.arange(1, 61, 3) / 61.0
        expected = definition(kernel, rows, scores, queries, levels, unit=1.0 / ratio)
        answer = in_order(kernel, rows, scores)(queries, levels)
        np.testing.assert_array_equal(answer, expected, err_msg=f"case {seed}")


@pytest.mark.parametrize("kernel", [real_gaussian, neighbours])
def test_one_by_one_equals_batch_in_chunks(kernel, monkeypatch):
    rng = np.random.default_rng(1)
    rows, scores, queries = rng.normal(size=200), rng.exponential(size=200), rng.normal(size=60)
    levels, ranks = np.array([0.3, 0.8, 0.9]), in_order(kernel, rows, scores)
    batch, single = ranks(queries, levels), [ranks(x[None], levels) for x in queries]
    np.testing.assert_array_equal(batch, np.concatenate(single))
    monkeypatch.setattr("localconformal.corrections._CHUNK", 1_000)
    np.testing.assert_array_equal(batch, in_order(kernel, rows, scores)(queries, levels))


def test_thresholds_rise_with_the_level_and_without_any_weight_every_score_is_accepted():
    rng = np.random.default_rng(2)
    ranks = in_order(real_gaussian, rng.normal(size=80), rng.exponential(size=80))
    levels = np.linspace(0.01, 0.99, 40)
    answer = ranks(np.append(rng.normal(size=30), 1e6), levels)
    assert (answer[:, 1:] >= answer[:, :-1]).all()
    assert np.isinf(answer[-1]).all()
