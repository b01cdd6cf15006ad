"""Compiled loops of the exact engine: one query row against all references, block by block.

Why it is fast
--------------
The law at x is a running sum of n weights in the order of V. Its cost is n distances and n
exponentials; everything else must stay out of the way.

::

    references, sorted by V, stored block by block, column by column; in float32 centred and in
    units of h, in float64 as they came

        block 0            block 1            block 2
      [ t_1 ... t_B ]    [ ......... ]      [ ......... ]      B = 512: a block of one column is
      [  d columns  ]    [           ]      [           ]      2 kB and stays in the first cache

    first pass    u^2 of a block -> its minimum -> weights relative to it -> one sum a block
                  (an online maximum: no exponential can underflow for lack of a common scale)
    then          block sums on the common scale of the row's nearest reference; prefix sums
    second pass   only in the one block where a level falls: position inside it

* Distances are sums of squared differences, not expanded products: nothing cancels, and the
  loop over the references of a block is one that LLVM turns into vector instructions.
* exp is a polynomial for the fraction of the exponent and an integer shift for the rest: the C
  library's scalar exp costs several times as much, and stops the loop from being vectorised.
* Weights are float32 where coordinates are small enough for it (see `exact`), sums float64.
* A query row looks at nothing but itself and the references, so that batches, threads and
  chunks do not change a bit of its answer.

The law is the same in `locate` and `mass_up_to`: at the last reference of a block the prefix
sum, inside the block a running sum capped by that. So quantiles and CDF are exact inverses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from localconformal.engine.compiler import dot, jit, smallest
from localconformal.engine.kernels import EDGE_GUARD, FLAT, NO_MASS


@intrinsic
def _power_of_two32(typing_context: Any, exponent: Any) -> Any:
    """2^exponent as float32, by writing the exponent's bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        biased = builder.add(args[0], ir.Constant(word, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(word, 23)), ir.FloatType())

    return types.float32(types.int32), codegen


@intrinsic
def _power_of_two64(typing_context: Any, exponent: Any) -> Any:
    """2^exponent as float64 of a whole float64: adding 1.5 x 2^52 leaves it in the low bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, double = ir.IntType(64), ir.DoubleType()
        shifted = builder.fadd(args[0], ir.Constant(double, 6755399441055744.0))
        biased = builder.add(builder.bitcast(shifted, word), ir.Constant(word, 1023))
        return builder.bitcast(builder.shl(biased, ir.Constant(word, 52)), double)

    return types.float64(types.float64), codegen


def _exp(x: Any) -> Any:
    """exp(x) for x <= 0, without a branch: in float32 to 3e-6, in float64 to 1e-14."""
    raise NotImplementedError


@overload(_exp)
def _exp_by_precision(x: Any) -> Any:
    return _exp32 if x == types.float32 else _exp64


def _exp64(x: Any) -> Any:
    y = max(x * 1.4426950408889634, -1022.0)
    whole = np.rint(y)
    f = (y - whole) * 0.6931471805599453
    # Taylor polynomial on |f| <= ln 2 / 2: the next term is 6e-15.
    p = 1.0 / 39916800.0
    p = p * f + 1.0 / 3628800.0
    p = p * f + 1.0 / 362880.0
    p = p * f + 1.0 / 40320.0
    p = p * f + 1.0 / 5040.0
    p = p * f + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f + 1.0
    p = p * f + 1.0
    return p * _power_of_two64(whole)  # type: ignore[call-arg]


def _exp32(x: Any) -> Any:
    y = max(x * np.float32(1.4426950408889634), np.float32(-126.0))
    whole = np.floor(y)
    f = y - whole
    # Minimax polynomial of 2^f on [0, 1).
    p = np.float32(1.8775767e-3)
    p = p * f + np.float32(8.9893397e-3)
    p = p * f + np.float32(5.5826318e-2)
    p = p * f + np.float32(2.4015361e-1)
    p = p * f + np.float32(6.9315308e-1)
    p = p * f + np.float32(9.9999994e-1)
    return p * _power_of_two32(np.int32(whole))  # type: ignore[call-arg]


@jit(inline="always")
def _squared_distances(x: Any, block: Any, scale: Any, u2: Any) -> None:
    """Squared distances to one block, times ``scale``: 4^-k / h^2 after k doublings of h."""
    d, size = block.shape[0], u2.shape[0]
    for j in range(size):
        u2[j] = 0
    k = 0
    # Five columns at a time: the accumulator is loaded and stored a fifth as often.
    while k + 5 <= d:
        x0, x1, x2, x3, x4 = x[k], x[k + 1], x[k + 2], x[k + 3], x[k + 4]
        t0, t1, t2, t3, t4 = block[k], block[k + 1], block[k + 2], block[k + 3], block[k + 4]
        for j in range(size):
            e0, e1, e2, e3, e4 = x0 - t0[j], x1 - t1[j], x2 - t2[j], x3 - t3[j], x4 - t4[j]
            u2[j] += e0 * e0 + e1 * e1 + e2 * e2 + e3 * e3 + e4 * e4
        k += 5
    while k + 2 <= d:
        x0, x1, t0, t1 = x[k], x[k + 1], block[k], block[k + 1]
        for j in range(size):
            e0, e1 = x0 - t0[j], x1 - t1[j]
            u2[j] += e0 * e0 + e1 * e1
        k += 2
    if k < d:
        x0, t0 = x[k], block[k]
        for j in range(size):
            u2[j] += (x0 - t0[j]) * (x0 - t0[j])
    if scale != 1:
        for j in range(size):
            u2[j] *= scale


@jit(inline="always")
def _weigh(kernel: int, u2: Any, offset: Any, w: Any) -> Any:
    """Weights of one block, the Gaussian relative to that of u^2 = offset."""
    half, one, edge = w.dtype.type(0.5), w.dtype.type(1.0), w.dtype.type(1.0 + EDGE_GUARD)
    zero = w.dtype.type(0.0)
    if kernel == 0:
        for j in range(len(u2)):
            w[j] = _exp(half * (offset - u2[j]))
    elif kernel == 1:
        for j in range(len(u2)):
            w[j] = one if u2[j] <= edge else zero
    else:
        for j in range(len(u2)):
            w[j] = max(one - u2[j], zero)


@jit()
def _sum_blocks(
    x: Any, blocks: Any, n: int, kernel: int, scale: Any, u2: Any, w: Any, prefix: Any, near: Any
) -> Any:
    """First pass over the references of one query row.

    Fills ``near`` (the smallest u^2 of each block) and ``prefix`` (mass up to the end of each
    block, on the common scale); returns the effective sample size and the smallest u^2.
    """
    n_blocks, _, size = blocks.shape
    squares = 0.0
    nearest = np.inf
    scaled_squares, ones = np.empty(n_blocks), np.ones(size, u2.dtype)
    for b in range(n_blocks):
        count = min(size, n - b * size)
        part, weight = u2[:count], w[:count]
        _squared_distances(x, blocks[b], scale, part)
        low = smallest(part, weight)
        near[b] = low
        _weigh(kernel, part, low, weight)
        prefix[b], scaled_squares[b] = dot(weight, ones[:count]), dot(weight, weight)
        nearest = min(nearest, low)
    running = 0.0
    for b in range(n_blocks):
        factor = _factor(kernel, near[b], nearest)
        running += prefix[b] * factor
        squares += scaled_squares[b] * factor * factor
        prefix[b] = running
    sample = running * running / squares if squares > 0.0 else 0.0
    return sample, nearest


@jit()
def _farthest(x: Any, blocks: Any, n: int, u2: Any) -> float:
    """Largest squared distance of one query row: only rows that need a wider kernel ask for it."""
    n_blocks, _, size = blocks.shape
    farthest = 0.0
    for b in range(n_blocks):
        part = u2[: min(size, n - b * size)]
        _squared_distances(x, blocks[b], u2.dtype.type(1.0), part)
        for j in range(len(part)):
            farthest = max(farthest, part[j])
    return farthest


@jit(inline="always")
def _factor(kernel: int, low: Any, nearest: Any) -> float:
    """From the scale of a block to the common scale of the row."""
    return _exp(0.5 * (np.float64(nearest) - np.float64(low))) if kernel == 0 else 1.0


@jit()
def _settle(
    x: Any,
    blocks: Any,
    n: int,
    kernel: int,
    needed: float,
    unit: float,
    u2: Any,
    w: Any,
    prefix: Any,
    near: Any,
) -> Any:
    """First pass at h, or at the least doubling of h that is enough; returns the scale, nearest."""
    scale = u2.dtype.type(unit)
    sample, nearest = _sum_blocks(x, blocks, n, kernel, scale, u2, w, prefix, near)
    if sample >= needed and nearest <= NO_MASS and prefix[-1] > 0.0:
        return scale, nearest, sample, False
    # Most rows need one or two doublings: gallop up, then bisect.
    most = np.ceil(np.log2(max(FLAT * np.sqrt(unit * _farthest(x, blocks, n, u2)), 2.0)))
    low, high, galloping = 0.0, 1.0, True
    while high - low > 1.0 or galloping:
        middle = high if galloping else np.floor((low + high) / 2.0)
        scale = u2.dtype.type(unit * 0.25**middle)
        sample, nearest = _sum_blocks(x, blocks, n, kernel, scale, u2, w, prefix, near)
        enough = sample >= needed and nearest <= NO_MASS and prefix[-1] > 0.0
        if galloping and not enough and high < most:
            low, high = high, min(2.0 * high, most)
        elif galloping:
            galloping = False
        elif enough:
            high = middle
        else:
            low = middle
    scale = u2.dtype.type(unit * 0.25**high)
    sample, nearest = _sum_blocks(x, blocks, n, kernel, scale, u2, w, prefix, near)
    return scale, nearest, sample, True


@jit(inline="always")
def _open_block(
    x: Any, blocks: Any, n: int, kernel: int, scale: Any, b: int, near: Any, u2: Any, w: Any
) -> Any:
    """Weights of block b again, for the second pass."""
    count = min(blocks.shape[2], n - b * blocks.shape[2])
    _squared_distances(x, blocks[b], scale, u2[:count])
    _weigh(kernel, u2[:count], near[b], w[:count])
    return count


@jit()
def _walk(w: Any, factor: float, before: float, most: int, wanted: float) -> Any:
    """Add weights until ``wanted``, at most so many: how many stayed below it, and their sum.

    One by one: were the additions reordered, a longer sum could come out smaller.
    """
    running = before
    for j in range(most):
        running += w[j] * factor
        if running >= wanted:
            return j, running
    return most, running


@jit()
def locate(
    rows: Any,
    blocks: Any,
    n: int,
    kernel: int,
    needed: float,
    unit: float,
    targets: Any,
    positions: Any,
) -> None:
    """First reference at which the law reaches each target: positions (m, L); n where none is.

    Targets are masses in units of the total: (m, L).
    """
    n_blocks, _, size = blocks.shape
    u2, w = np.empty(size, blocks.dtype), np.empty(size, blocks.dtype)
    prefix, near = np.empty(n_blocks), np.empty(n_blocks, blocks.dtype)
    for i in range(len(rows)):
        x = rows[i]
        scale, nearest, _, _ = _settle(x, blocks, n, kernel, needed, unit, u2, w, prefix, near)
        opened = -1
        for l in range(targets.shape[1]):
            wanted = targets[i, l] * prefix[-1]
            if wanted > prefix[-1]:
                positions[i, l] = n
                continue
            b = np.searchsorted(prefix, wanted)
            if b != opened:
                count = _open_block(x, blocks, n, kernel, scale, b, near, u2, w)
                factor = _factor(kernel, near[b], nearest)
                opened = b
            before = prefix[b - 1] if b > 0 else 0.0
            # The last reference of a block holds the prefix sum, which reaches the target.
            inside, _ = _walk(w, factor, before, count - 1, wanted)
            positions[i, l] = b * size + inside


@jit()
def mass_up_to(
    rows: Any,
    blocks: Any,
    n: int,
    kernel: int,
    needed: float,
    unit: float,
    counts: Any,
    masses: Any,
) -> None:
    """Share of the mass on the first ``counts`` (m, k) references: masses (m, k)."""
    n_blocks, _, size = blocks.shape
    u2, w = np.empty(size, blocks.dtype), np.empty(size, blocks.dtype)
    prefix, near = np.empty(n_blocks), np.empty(n_blocks, blocks.dtype)
    for i in range(len(rows)):
        x = rows[i]
        scale, nearest, _, _ = _settle(x, blocks, n, kernel, needed, unit, u2, w, prefix, near)
        opened = -1
        for l in range(counts.shape[1]):
            last = counts[i, l] - 1
            if last < 0:
                masses[i, l] = 0.0
                continue
            b = last // size
            if b != opened:
                count = _open_block(x, blocks, n, kernel, scale, b, near, u2, w)
                factor = _factor(kernel, near[b], nearest)
                opened = b
            before = prefix[b - 1] if b > 0 else 0.0
            mass = prefix[b]
            if last - b * size < count - 1:
                _, running = _walk(w, factor, before, last - b * size + 1, np.inf)
                mass = min(running, mass)
            masses[i, l] = mass / prefix[-1]


@jit()
def moments(
    rows: Any, blocks: Any, n: int, kernel: int, needed: float, unit: float, v: Any, out: Any
) -> None:
    """Mean of v, effective sample size, and whether h was doubled: out (m, 3)."""
    n_blocks, _, size = blocks.shape
    u2, w = np.empty(size, blocks.dtype), np.empty(size, blocks.dtype)
    prefix, near = np.empty(n_blocks), np.empty(n_blocks, blocks.dtype)
    terms, ones = np.empty(size), np.ones(size)
    for i in range(len(rows)):
        x = rows[i]
        scale, nearest, sample, widened = _settle(
            x, blocks, n, kernel, needed, unit, u2, w, prefix, near
        )
        total = 0.0
        for b in range(n_blocks):
            count = _open_block(x, blocks, n, kernel, scale, b, near, u2, w)
            for j in range(count):
                terms[j] = w[j] * v[b * size + j]
            total += dot(terms[:count], ones[:count]) * _factor(kernel, near[b], nearest)
        out[i, 0], out[i, 1], out[i, 2] = total / prefix[-1], sample, widened
