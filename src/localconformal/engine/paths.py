"""The path engine: exact thresholds for coverage over every shift in a class of functions.

Given are scores S_1..S_n and points phi_1..phi_n, whose span contains the constant. With one more
row (S, phi), the dual of quantile regression is to maximise the sum of eta_i S_i over the n + 1
rows, such that the sum of eta_i phi_i is 0 and -alpha <= eta_i <= 1 - alpha. S is accepted if its
eta is below 1 - alpha, hence up to a threshold S*(phi) (Gibbs, Cherian and Candes, 2025). With
eta_{n+1} = e,

    V(e) = max sum_i eta_i S_i  such that  sum_i eta_i phi_i = -e phi,

is concave, and S* = -V'(e-) at e = 1 - alpha: phi'beta, with beta the multipliers of the last
piece before it. So no search is needed: from one solution at e = 0, plain quantile regression,
each new row follows e to 1 - alpha along its own phi.

One loop does everything. A basis is d rows whose residuals S_i - phi_i'beta are zero; the others
have eta at the bound given by the sign of their residual. A step:

* leaving: e grows until the first eta of the basis reaches a bound (Harris: among near ties, the
  one with the largest coefficient); from then on that row has a sign, and beta moves along a line;
* entering: the first residual on that line to become zero. If there is none, no eta is feasible
  beyond e, and S* = +inf.

Cost: d^2 and about a hundred residuals per step, and about d / 2 steps per row, for any n. Points
are orthonormal, phi_1 phi_1' + .. = n I, so |phi_i'(beta - beta_0)| <= |phi_i| |beta - beta_0|:
rows in the order of |residual| / |phi_i| at beta_0 are read until no later one can have reached 0.

* The same loop finds the solution at e = 0: any basis and any eta inside the bounds are optimal for
  some other right-hand side b, and the loop moves b to 0. On nested samples, each four times as
  large as the last, few rows change their sign.
* Ties: each row has a second score, an arbitrary number, which decides if the first are equal.
  (phi'beta, phi'gamma), of both, increases lexicographically with every step: nothing cycles.
* Exact up to rounding, which may only enlarge: thresholds are moved up by 4e-12 of the range of
  scores, and e = 1 - alpha counts as reached within 1e-9, as ranks do in `quantiles`.
* A row's answer depends only on its own phi and the solution at e = 0: the same bits in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from localconformal.engine import jit, run_in_threads
from localconformal.quantiles import RANK_GUARD, Array
from localconformal.rows import row_hashes

#: Columns that add less than this to the span of the previous ones are no new direction; a new row
#: may violate a relation between columns by this much.
_RANK, _OUTSIDE = 1e-9, 1e-7
#: Residuals below the first share of the largest score count as zero; so do coefficients below the
#: other two.
_TIE, _PIVOT, _COEFFICIENT = 1e-12, 1e-10, 1e-11
#: A threshold is moved up by this many ties per unit of its coefficients.
_SLACK = 4.0
#: Steps after which the inverse is recomputed, and after which rows are sorted again at e = 0.
_SWEEP, _RESORT = 64, 200
_REACHED, _INFEASIBLE, _UNFINISHED = 0, 1, 2
#: Rows of the first sample per dimension, and its least size; how much larger the next one is.
_SAMPLE_EACH, _SAMPLE, _GROWTH = 20, 500, 4
#: Rows whose residuals are computed side by side: each has its own sums, never reordered.
_LANES = 4
#: New rows that a thread takes at a time, and rows that make another thread worthwhile.
_CHUNK_ROWS, _ROWS_PER_THREAD = 512, 256


# ---- the loop -----------------------------------------------------------------------------------

# Below, ``held`` is (S, second scores, points, the order's bound rho, tie, alpha), which do not
# change, and ``state`` is (signs, basis, inverse, multipliers, eta, coefficients).


@jit()
def _dot(a: Any, b: Any) -> float:
    """a'b, as four parallel sums: each addition to a single sum would wait for the previous one."""
    s0 = s1 = s2 = s3 = 0.0
    whole = len(a) - len(a) % 4
    for m in range(0, whole, 4):
        s0 += a[m] * b[m]
        s1 += a[m + 1] * b[m + 1]
        s2 += a[m + 2] * b[m + 2]
        s3 += a[m + 3] * b[m + 3]
    for m in range(whole, len(a)):
        s0 += a[m] * b[m]
    return (s0 + s1) + (s2 + s3)


@jit()
def _leaving(eta: Any, w: Any, alpha: float) -> Any:
    """The first eta, moving by -w per unit of e, to reach a bound, and after how much; -1: none."""
    least, step, largest, p = 0.0, np.inf, 0.0, -1
    for k in range(len(w)):
        least = max(least, abs(w[k]))
    least = _COEFFICIENT * max(1.0, least)
    for k in range(len(w)):
        if abs(w[k]) > least:
            room = eta[k] + alpha if w[k] > 0.0 else 1.0 - alpha - eta[k]
            step = min(step, (max(room, 0.0) + _TIE) / abs(w[k]))
    found = np.inf
    for k in range(len(w)):
        if abs(w[k]) > max(least, largest):
            room = eta[k] + alpha if w[k] > 0.0 else 1.0 - alpha - eta[k]
            if max(room, 0.0) / abs(w[k]) <= step:
                found, largest, p = max(room, 0.0) / abs(w[k]), abs(w[k]), k
    return p, found


@jit(inline="always")
def _fill_sums(points: Any, block: int, line: Any, multipliers: Any, sums: Any) -> None:
    """line'phi and beta'phi of the rows of a block: (2, 4). Scalars, to stay in registers."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
    for m in range(len(line)):
        x0, x1 = points[block, m, 0], points[block, m, 1]
        x2, x3 = points[block, m, 2], points[block, m, 3]
        a0 += line[m] * x0
        a1 += line[m] * x1
        a2 += line[m] * x2
        a3 += line[m] * x3
        b0 += multipliers[0, m] * x0
        b1 += multipliers[0, m] * x1
        b2 += multipliers[0, m] * x2
        b3 += multipliers[0, m] * x3
    sums[0, 0], sums[0, 1], sums[0, 2], sums[0, 3] = a0, a1, a2, a3
    sums[1, 0], sums[1, 1], sums[1, 2], sums[1, 3] = b0, b1, b2, b3


@jit()
def _entering(held: Any, state: Any, line: Any, moved: Any, sums: Any) -> int:
    """The first row whose residual is zero on the line of the multipliers; -1 if none.

    ``moved`` is the distance of the multipliers from those at which the rows were sorted.
    """
    S, _, points, rho, tie, _ = held
    signs, _, _, multipliers, _, _ = state
    far, along, unit = _dot(moved, moved), _dot(moved, line), _dot(line, line)
    enter, nearest, slope, reach = -1, np.inf, 1.0, np.inf
    for block in range(len(points)):
        if rho[_LANES * block] > reach:
            break
        _fill_sums(points, block, line, multipliers, sums)
        for k in range(_LANES):
            i = _LANES * block + k
            x, residual = signs[i] * sums[0, k], signs[i] * (S[i] - sums[1, k])
            if x <= _PIVOT or residual - nearest * x > tie:
                continue
            t = residual / x if residual > tie else 0.0
            nearer = (t - nearest) * x < -tie
            if not nearer:
                own, best = _second(held, state, i) / x, _second(held, state, enter) / slope
                nearer = own < best
            if nearer:
                enter, nearest, slope = i, t, x
                reach = max(far, far + 2.0 * t * along + t * t * unit)
                reach = np.sqrt(max(reach, 0.0)) * (1.0 + RANK_GUARD)
    return enter


@jit()
def _second(held: Any, state: Any, i: int) -> float:
    """The absolute residual of row i in the second scores."""
    point = held[2][i // _LANES, :, i % _LANES]
    return float(state[0][i] * (held[1][i] - _dot(state[3][1], point)))


@jit()
def _exchange(held: Any, state: Any, p: int, enter: int, line: Any, coordinates: Any) -> None:
    """Put row ``enter`` at place p of the basis; update multipliers, inverse, eta and w."""
    S, second, points, _, _, alpha = held
    signs, basis, inverse, multipliers, eta, w = state
    point, d = points[enter // _LANES, :, enter % _LANES], len(basis)
    for k in range(d):
        coordinates[k] = _dot(inverse[k], point)
    slope = _dot(line, point)
    first = (S[enter] - _dot(multipliers[0], point)) / slope
    then = (second[enter] - _dot(multipliers[1], point)) / slope
    for m in range(d):
        multipliers[0, m] += first * line[m]
        multipliers[1, m] += then * line[m]
        inverse[p, m] /= coordinates[p]
    w[p] /= coordinates[p]
    for k in range(d):
        factor = coordinates[k]
        if k != p and factor != 0.0:
            w[k] -= factor * w[p]
            for m in range(d):
                inverse[k, m] -= factor * inverse[p, m]
    # Beta moves so that the residual of the leaving row takes the sign of its bound.
    signs[basis[p]] = -1 if eta[p] <= -alpha else 1
    eta[p] = 1.0 - alpha if signs[enter] > 0 else -alpha
    signs[enter], basis[p] = 0, enter


@jit()
def _sweep(held: Any, state: Any, phi: Any) -> None:
    """Recompute the inverse and everything that depends on it."""
    S, second, points, _, _, _ = held
    _, basis, inverse, multipliers, _, w = state
    rows = np.empty((len(basis), len(basis)))
    for k in range(len(basis)):
        rows[k] = points[basis[k] // _LANES, :, basis[k] % _LANES]
    inverse[:] = np.linalg.inv(rows).T
    multipliers[:] = 0.0
    for k in range(len(basis)):
        w[k] = _dot(inverse[k], phi)
        for m in range(len(basis)):
            multipliers[0, m] += inverse[k, m] * S[basis[k]]
            multipliers[1, m] += inverse[k, m] * second[basis[k]]


@jit()
def _follow(held: Any, state: Any, start: Any, phi: Any, goal: float, log: Any) -> Any:
    """Follow e from 0 to the goal along phi: the outcome, and the number of steps.

    ``start`` (d,) are the multipliers at which rows are sorted; ``log`` records changes of sign.
    """
    alpha = held[5]
    signs, basis, inverse, multipliers, eta, w = state
    d, e = len(basis), 0.0
    line, moved, coordinates = np.empty(d), np.empty(d), np.empty(d)
    sums = np.empty((2, _LANES))
    for k in range(d):
        w[k] = _dot(inverse[k], phi)
    for step in range(len(log) // 2):
        p, further = _leaving(eta, w, alpha)
        if p < 0 or e + further >= goal:
            return _REACHED, step
        e += further
        for k in range(d):
            eta[k] = min(max(eta[k] - further * w[k], -alpha), 1.0 - alpha)
        down = w[p] > 0.0
        eta[p] = -alpha if down else 1.0 - alpha
        for m in range(d):
            line[m] = inverse[p, m] if down else -inverse[p, m]
            moved[m] = multipliers[0, m] - start[m]
        enter = _entering(held, state, line, moved, sums)
        if enter < 0:
            return _INFEASIBLE, step
        log[2 * step, 0], log[2 * step, 1] = basis[p], signs[basis[p]]
        log[2 * step + 1, 0], log[2 * step + 1, 1] = enter, signs[enter]
        _exchange(held, state, p, enter, line, coordinates)
        if step % _SWEEP == _SWEEP - 1:
            _sweep(held, state, phi)
    return _UNFINISHED, len(log) // 2


@jit()
def _walk(held: Any, solved: Any, phis: Any, goals: Any, ups: Any, slack: float, out: Any) -> None:
    """S* of rows (m, d), each from the solution at e = 0; for those with negative e, -phi."""
    S = held[0]
    signs, basis, inverse, multipliers, eta, w = solved
    start, own = multipliers[0], signs.copy()
    log = np.empty((2 * (200 * len(basis) + 2000), 2), np.int64)
    for row in range(len(phis)):
        state = (own, basis.copy(), inverse.copy(), multipliers.copy(), eta.copy(), w.copy())
        code, steps = _follow(held, state, start, phis[row], goals[row], log)
        total = size = 0.0
        for k in range(len(basis)):
            total += state[5][k] * S[state[1][k]]
            size += abs(state[5][k])
        out[row] = ups[row] * (total if code == _REACHED else np.inf) + slack * size
        # If phi overflows float64, or the path does not end, nothing is known.
        if code == _UNFINISHED or np.isnan(out[row]):
            out[row] = np.inf
        for k in range(2 * steps - 1, -1, -1):
            own[log[k, 0]] = log[k, 1]


@jit()
def _times(rows: Any, matrix: Any, out: Any) -> None:
    """out += rows @ matrix, row by row: the last bits of a matrix product depend on the batch."""
    for i in range(len(rows)):
        for m in range(rows.shape[1]):
            x = rows[i, m]
            if x != 0.0:
                for k in range(matrix.shape[1]):
                    out[i, k] += x * matrix[m, k]


# ---- columns ------------------------------------------------------------------------------------


def _product(rows: Array, matrix: Array) -> Array:
    out = np.zeros((len(rows), matrix.shape[1]))
    _times(np.ascontiguousarray(rows), matrix, out)
    return out


@dataclass(frozen=True, eq=False)
class Span:
    """The d independent directions of n rows of p columns, and the relations between columns.

    For a row phi (p,), ``phi @ to_point`` are orthonormal coordinates, and ``phi @ relations`` is 0
    if it satisfies every relation between columns in the n rows. A row of a group without any of
    the n rows does not.
    """

    to_point: Array
    relations: Array

    @classmethod
    def of(cls, columns: Array) -> Span:
        """By a QR decomposition with the largest columns first."""
        n, p = columns.shape
        size = np.sqrt(np.mean(columns**2, axis=0))
        unit = 1.0 / np.where(size > 0.0, size, 1.0)
        R, order = linalg.qr(columns * unit, mode="r", pivoting=True)
        diagonal = np.abs(np.diag(R))
        d = int(np.count_nonzero(diagonal > _RANK * diagonal[0]))
        kept, rest = order[:d], order[d:]
        to_point, relations = np.zeros((p, d)), np.zeros((p, p - d))
        inverse = linalg.solve_triangular(R[:d, :d], np.eye(d))
        to_point[kept] = unit[kept, None] * inverse * np.sqrt(n)
        relations[kept] = -unit[kept, None] * (inverse @ R[:d, d:])
        relations[rest, np.arange(p - d)] = unit[rest]
        return cls(to_point, relations)

    @property
    def dimension(self) -> int:
        """d."""
        return self.to_point.shape[1]

    def points(self, columns: Array) -> Array:
        """Coordinates (m, d) of rows (m, p)."""
        return _product(columns, self.to_point)

    def holds(self, columns: Array) -> NDArray[np.bool_]:
        """Whether rows (m, p) satisfy the relations between columns: (m,)."""
        gap = np.abs(_product(columns, self.relations)).max(axis=1, initial=0.0)
        size = np.abs(_product(columns, np.abs(self.relations))).max(axis=1, initial=0.0)
        return gap <= _OUTSIDE * (1.0 + size)


# ---- thresholds ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ThresholdPath:
    """S* of any row, at one level, from scores (n,) and points (n, d) of a `Span`.

    >>> ones = np.ones((9, 1))
    >>> path = ThresholdPath.of(np.arange(9.0), ones, alpha=0.1)
    >>> path.thresholds(ones[:1], np.array([0.9])).round(6)
    array([8.])
    """

    centre: float
    slack: float
    held: tuple[Any, ...]
    solved: tuple[Any, ...]

    @classmethod
    def of(cls, scores: Array, points: Array, alpha: float, seed: int = 0) -> ThresholdPath:
        """Solve at e = 0, and sort the rows there."""
        n, d = points.shape
        # The constant is in the span: scores may be shifted by any number.
        centre = float(np.median(scores))
        S: Array = scores - centre
        rng = np.random.default_rng(seed)
        tie = _TIE * (float(np.abs(S).max()) or 1.0)
        second, rows = rng.random((n,)), np.arange(n)
        # The row exchanges of Gaussian elimination bring d independent rows to the front.
        _, exchanges = linalg.lu_factor(points)
        for place, row in enumerate(exchanges[:d]):
            rows[[place, row]] = rows[[row, place]]
        rows[d:] = rng.permutation(rows[d:])
        basis, m = np.arange(d), max(_SAMPLE_EACH * d, _SAMPLE)
        while True:
            some = rows if 3 * m > n else rows[:m]
            basis, held, solved = _solve(
                S[some], second[some], points[some], tie, alpha, basis, rng
            )
            if len(some) == n:
                return cls(centre, _SLACK * tie, held, solved)
            m *= _GROWTH

    def thresholds(self, points: Array, u: Array, n_jobs: int | None = 1) -> Array:
        """S* of points (m, d), each with the e in (-alpha, 1 - alpha) at which it stops: (m,)."""
        ups, out = np.where(u >= 0.0, 1.0, -1.0), np.empty(len(points))
        # V'(e-) is the last piece before e on the way up, and the first beyond e on the way down.
        goals, phis = np.abs(u) - ups * RANK_GUARD, points * ups[:, None]

        def work(part: slice) -> None:
            _walk(self.held, self.solved, phis[part], goals[part], ups[part], self.slack, out[part])

        starts = range(0, len(points), _CHUNK_ROWS)
        jobs = [slice(start, start + _CHUNK_ROWS) for start in starts]
        run_in_threads(work, jobs, n_jobs, len(points) // _ROWS_PER_THREAD)
        return out + self.centre


def _solve(
    S: Array, second: Array, points: Array, tie: float, alpha: float, basis: Any, rng: Any
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The optimum at e = 0, from any basis: its basis, and ``held`` and ``state`` there."""
    eta = rng.uniform(-0.9 * alpha, 0.9 * (1.0 - alpha), len(basis))
    log = np.empty((2 * _RESORT, 2), np.int64)
    while True:
        order, held, state = _in_order(S, second, points, tie, alpha, basis)
        signs, at, inverse, multipliers, _, w = state
        above, below = (points[order[signs[: len(S)] == sign]].sum(axis=0) for sign in (1, -1))
        others = above - alpha * (above + below)
        state[4][:] = eta
        # Any eta is optimal for its own right-hand side, which the loop moves to 0.
        rest = others + points[basis].T @ eta
        code, steps = _follow(held, state, multipliers[0].copy(), rest, 1.0, log)
        if code == _REACHED and steps == 0:
            exact = np.clip(-(inverse @ others), -alpha, 1.0 - alpha)
            return basis, held, (signs, at, inverse, multipliers, exact, w)
        if code == _INFEASIBLE:
            raise ArithmeticError("no row enters the basis, though eta = 0 is feasible")
        basis, eta = order[at], state[4]


def _in_order(
    S: Array, second: Array, points: Array, tie: float, alpha: float, basis: Any
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Rows sorted by |residual| / |phi| at the multipliers of a basis, and the state there."""
    both, (n, d) = np.stack([S, second]), points.shape
    inverse = np.ascontiguousarray(np.linalg.inv(points[basis]).T)
    multipliers = both[:, basis] @ inverse
    multipliers += (both[:, basis] - multipliers @ points[basis].T) @ inverse
    residuals = both - multipliers @ points.T
    ties = np.abs(residuals[0]) <= tie
    signs = np.where(np.where(ties, *residuals[::-1]) >= 0.0, 1, -1)
    signs[basis] = 0
    size = np.sqrt(np.einsum("ij,ij->i", points, points))
    rho = np.maximum(np.abs(residuals[0]) - 2.0 * tie, 0.0) / size
    rho[basis] = 0.0
    order = np.argsort(rho, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    # Padding rows of the last block have no sign, and never enter.
    fill = [(0, -n % _LANES)]
    sorted_points = np.pad(points[order], [*fill, (0, 0)]).reshape(-1, _LANES, d)
    blocks = np.ascontiguousarray(sorted_points.swapaxes(1, 2))
    held = (*(np.pad(one[order], fill) for one in both), blocks, np.pad(rho[order], fill))
    state = (np.pad(signs[order], fill), place[basis], inverse, multipliers)
    return order, (*held, tie, alpha), (*state, np.empty(d), np.empty(d))


def distinct_rows(columns: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First row of each kind in (m, p), and each row's kind; all rows if hashes collide."""
    _, first, kind = np.unique(row_hashes(columns), return_index=True, return_inverse=True)
    if np.array_equal(columns[first][kind], columns):
        return first, kind
    return np.arange(len(columns)), np.arange(len(columns))
