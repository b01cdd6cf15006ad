"""Thresholds along paths against HiGHS, and against the definition itself."""

import numpy as np
import pytest
from scipy.linalg import qr
from scipy.optimize import linprog
from sklearn.preprocessing import SplineTransformer

from localconformal.engine.paths import Span, ThresholdPath, distinct_rows
from localconformal.quantiles import conformal_quantile

PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
ALPHAS = (0.1, 0.05, 0.2, 1 / 3)


def gaussian(rng, n, d):
    return rng.normal(size=(n, d))


def overlapping(rng, n, d, share=0.3):
    return rng.random((n, d)) < share


def splines(rng, n, d):
    knots = np.linspace(0, 1, max(2, d - 1)).reshape(-1, 1)
    basis = SplineTransformer(knots=knots, degree=2, extrapolation="continue").fit(knots)
    return basis.transform(rng.random((n, 1)))


def extrapolated(rng, n, d):
    """Few rows are far from the others, as new rows will be."""
    return rng.normal(size=(n, d)) * np.exp(2 * rng.normal(size=(n, 1)))


def partition(rng, n, d):
    return rng.integers(0, d, n)[:, None] == np.arange(d)


#: Columns (n, d) beside the constant, by kind; then what becomes of columns, or of scores.
KINDS = {
    "gaussian": gaussian,
    "overlapping groups": overlapping,
    "rare groups": lambda rng, n, d: overlapping(rng, n, d, 3.0 / n),
    "empty groups": lambda rng, n, d: overlapping(rng, n, d) * (np.arange(d) > 0),
    "duplicate groups": lambda rng, n, d: overlapping(rng, n, d)[:, np.arange(d) // 2],
    "partition": partition,
    "splines": splines,
    "extrapolated": extrapolated,
    "ties": overlapping,
    "ties on a line": lambda rng, n, d: np.round(rng.normal(size=(n, d))),
}


def problem(kind, seed, most_rows):
    """Scores, columns, new rows' columns, and alpha."""
    rng = np.random.default_rng([seed, len(kind)])
    n, d, alpha = int(rng.choice([20, 60, most_rows])), int(rng.integers(1, 24)), rng.choice(ALPHAS)
    both = KINDS[kind](rng, n + 4, d).astype(float)
    if kind == "empty groups":
        both[-2:, 0] = 1.0
    columns = np.column_stack([np.ones(n + 4), both])
    scores = np.abs(rng.normal(size=n))
    scores = np.round(scores, 1) if "ties" in kind else scores
    return scores, columns[:n], columns[n:], float(alpha)


def independent(columns):
    """Places of independent columns: HiGHS may stop at a wrong vertex where columns depend."""
    R, order = qr(
        columns / np.maximum(np.abs(columns).max(axis=0), 1e-300), mode="r", pivoting=True
    )
    diagonal = np.abs(np.diag(R))
    return np.sort(order[: np.count_nonzero(diagonal > 1e-9 * diagonal[0])])


def in_span(columns, row):
    found = np.linalg.lstsq(columns.T, row, rcond=None)[0]
    return np.allclose(columns.T @ found, row, atol=1e-6 * (1 + np.abs(row).max()))


def by_linear_program(scores, columns, row, alpha, e):
    """-V'(e-) from the multipliers of the linear program just below e."""
    kept, just = independent(columns), e - 1e-6
    found = linprog(
        -scores,
        A_eq=columns[:, kept].T,
        b_eq=-just * row[kept],
        bounds=(-alpha, 1 - alpha),
        method="highs-ds",
        options=PRECISE,
    )
    if found.status == 2 or not in_span(columns, row):
        return np.inf
    return float(-row[kept] @ found.eqlin.marginals)


def thresholds(scores, columns, new, alpha, e):
    span = Span.of(columns)
    path = ThresholdPath.of(scores, span.points(columns), alpha)
    found = path.thresholds(span.points(new), np.broadcast_to(e, len(new)))
    return np.where(span.holds(new), found, np.copysign(np.inf, e))


def check_kind(kind, seeds, most_rows):
    for seed in seeds:
        scores, columns, new, alpha = problem(kind, seed, most_rows)
        found = thresholds(scores, columns, new, alpha, 1 - alpha)
        expected = [by_linear_program(scores, columns, row, alpha, 1 - alpha) for row in new]
        # What rounding adds may grow with the coefficients of a row far outside.
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7, err_msg=f"{kind} {seed}")


@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_equal_those_of_a_linear_program(kind):
    check_kind(kind, range(1), 60)


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_equal_those_of_a_linear_program_in_many_cases(kind):
    check_kind(kind, range(1, 40), 300)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_equal_those_of_a_linear_program_in_thousands_of_cases(kind):
    check_kind(kind, range(40, 190), 1_000)


def test_scores_are_accepted_exactly_up_to_the_threshold():
    """Quantile regression with the new row among the others: its eta is 1 - alpha beyond S*."""
    for seed in range(2):
        scores, columns, new, alpha = problem("overlapping groups", seed, 60)
        for row, threshold in zip(
            new, thresholds(scores, columns, new, alpha, 1 - alpha), strict=True
        ):
            kept = independent(columns)
            for moved, is_in in ((-1e-6, True), (1e-6, False)) if np.isfinite(threshold) else ():
                found = linprog(
                    -np.append(scores, threshold + moved),
                    A_eq=np.vstack([columns, row])[:, kept].T,
                    b_eq=np.zeros(len(kept)),
                    bounds=(-alpha, 1 - alpha),
                    method="highs-ds",
                    options=PRECISE,
                )
                assert (found.x[-1] < 1 - alpha - 1e-7) == is_in


@pytest.mark.parametrize("kind", ["gaussian", "overlapping groups"])
def test_a_path_may_stop_anywhere_also_below_zero(kind):
    for seed in range(2):
        scores, columns, new, alpha = problem(kind, seed, 100)
        stops = np.random.default_rng(seed).uniform(-alpha, 1 - alpha, len(new))
        found = thresholds(scores, columns, new, alpha, stops)
        for row, stop, one in zip(new, stops, found, strict=True):
            expected = by_linear_program(scores, columns, row, alpha, stop)
            assert one == pytest.approx(expected if stop > 0 or np.isfinite(expected) else -np.inf)


@pytest.mark.parametrize("n", [1, 8, 9, 19, 200])
def test_groups_that_are_apart_have_their_own_conformal_quantile(n):
    rng = np.random.default_rng(n)
    scores, groups = np.round(rng.normal(size=3 * n), 1), np.repeat(np.arange(3), n)
    columns = np.column_stack([np.ones(3 * n), groups[:, None] == np.arange(3)]).astype(float)
    for level in (0.5, 0.9, 0.95):
        found = thresholds(scores, columns, columns[::n], 1 - level, level)
        expected = [conformal_quantile(scores[groups == g], level) for g in range(3)]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_row_alone_has_the_same_bits_in_any_number_of_threads():
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(600), rng.normal(size=(600, 7))])
    new = np.column_stack([np.ones(700), rng.normal(size=(700, 7))])
    span = Span.of(columns)
    path = ThresholdPath.of(rng.normal(size=600), span.points(columns), 0.1)
    batch = path.thresholds(span.points(new), np.full(700, 0.9), n_jobs=2)
    each = [path.thresholds(span.points(row[None]), np.array([0.9])) for row in new]
    np.testing.assert_array_equal(batch, np.concatenate(each))


def test_distinct_rows_are_all_rows():
    rows = np.round(np.random.default_rng(0).normal(size=(200, 2)))
    first, kind = distinct_rows(rows)
    np.testing.assert_array_equal(rows[first][kind], rows)
    assert len(first) == len(np.unique(rows, axis=0))
