"""The exact engine: the weights of all references, at the speed of the exponential.

The law at x is a running sum of n weights in the order of V, at the cost of n distances and n
exponentials.

::

    references    sorted by V, stored in blocks of 512, column by column: a column of a block is
                  2 kB and stays in the first cache
    first pass    u^2 of a block -> its minimum -> weights relative to it -> one sum per block
                  (an online maximum: no weight underflows for lack of a common scale)
    then          block sums on the common scale of the row's nearest reference; prefix sums
    second pass   only in the one block that contains a level: position inside it

* Distances are sums of squared differences: nothing cancels, and LLVM vectorises the loop.
* exp is a polynomial for the fraction of the exponent and an integer shift for the rest: the C
  library's scalar exp cannot be vectorised.
* The order of a sum is fixed: `dot` adds in lanes, on every machine.
* The law is the same in `_locate` and `_mass_up_to`: at the last reference of a block the prefix
  sum, inside the block a running sum capped by it. So quantiles and CDF are exact inverses.
* A query row uses only itself and the references: batches and threads change no bit.

Precision. float32 coordinates, centred and in units of h, have an error of about 8 R^2 eps in u^2,
with R the largest norm. Up to R^2 = `_FLOAT32_REACH` that is 2e-4 in a squared distance of order
one, far below what moves a quantile by more than a rank. References or rows further out use
float64, and so do compact kernels, which have an edge. Sums are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped_tools
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from localconformal.engine import FLAT, NO_MASS, Engine, jit, run_in_threads
from localconformal.quantiles import EDGE_GUARD, Array

#: Numbers of the kernels in compiled code.
_CODES = {"gaussian": 0, "boxcar": 1, "epanechnikov": 2}
_FLOAT32_REACH = 500.0
#: Query rows a thread takes at a time, and pairs that make another thread worthwhile.
_CHUNK_ROWS, _PAIRS_PER_THREAD = 256, 2_000_000
_cgutils: Any = untyped_tools
#: Parallel running sums of `dot`.
_LANES = 64
#: Up to this many numbers, a minimum is found one by one.
_FEW = 8


@intrinsic
def _dot(typing_context: Any, a: Any, b: Any) -> Any:
    """a.b of two contiguous vectors of one precision: in lanes, added by halves, then the rest."""
    if not (a == b and isinstance(a, types.Array) and a.ndim == 1 and a.layout == "C"):
        raise TypingError(f"dot of {a} and {b}; expected two contiguous vectors of one precision")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.intp)
        step, one = ir.Constant(word, _LANES), ir.Constant(word, 1)
        lanes = ir.VectorType(context.get_value_type(a.dtype), _LANES)
        arrays = [context.make_array(a)(context, builder, arg) for arg in args]
        size = builder.extract_value(arrays[0].shape, 0)
        whole = builder.sub(size, builder.srem(size, step))

        def add_product(total: Any, j: Any, kind: Any) -> None:
            places = [builder.gep(array.data, [j]) for array in arrays]
            vectors = [builder.bitcast(place, kind.as_pointer()) for place in places]
            x, y = (builder.load(one, align=a.dtype.bitwidth // 8) for one in vectors)
            builder.store(builder.fadd(builder.load(total), builder.fmul(x, y)), total)

        sums = _cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * _LANES))
        with _cgutils.for_range_slice(builder, ir.Constant(word, 0), whole, step, word) as (j, _):
            add_product(sums, j, lanes)
        total = _cgutils.alloca_once_value(builder, _add_lanes(builder, builder.load(sums)))
        with _cgutils.for_range_slice(builder, whole, size, one, word) as (j, _):
            add_product(total, j, lanes.element)
        return builder.load(total)

    return a.dtype(a, b), codegen


#: The name that loops call; the compiler passes two vectors.
dot: Any = _dot


def _add_lanes(builder: Any, sums: Any) -> Any:
    """The sum of the lanes of a vector: its second half is added to the first until one is left."""
    count = _LANES
    while count > 1:
        count //= 2
        kind = ir.VectorType(ir.IntType(32), count)
        low = builder.shuffle_vector(sums, sums, ir.Constant(kind, list(range(count))))
        high = builder.shuffle_vector(sums, sums, ir.Constant(kind, list(range(count, 2 * count))))
        sums = builder.fadd(low, high)
    return builder.extract_element(sums, ir.Constant(ir.IntType(32), 0))


@jit(inline="always")
def smallest(values: Any, aside: Any) -> Any:
    """The minimum, by halves, which can be vectorised; overwrites ``aside``."""
    half = (len(values) + 1) // 2
    for j in range(half):
        aside[j] = min(values[j], values[len(values) - half + j])
    while half > _FEW:
        n = half
        half = (n + 1) // 2
        for j in range(n - half):
            aside[j] = min(aside[j], aside[half + j])
    least = aside[0]
    for j in range(1, half):
        least = min(least, aside[j])
    return least


@intrinsic
def _power_of_two32(typing_context: Any, exponent: Any) -> Any:
    """2^exponent as float32, by setting the exponent's bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(32)
        biased = builder.add(args[0], ir.Constant(word, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(word, 23)), ir.FloatType())

    return types.float32(types.int32), codegen


@intrinsic
def _power_of_two64(typing_context: Any, exponent: Any) -> Any:
    """2^exponent as float64, for a whole float64: adding 1.5 x 2^52 puts it in the low bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, double = ir.IntType(64), ir.DoubleType()
        shifted = builder.fadd(args[0], ir.Constant(double, 6755399441055744.0))
        biased = builder.add(builder.bitcast(shifted, word), ir.Constant(word, 1023))
        return builder.bitcast(builder.shl(biased, ir.Constant(word, 52)), double)

    return types.float64(types.float64), codegen


def exp(x: Any) -> Any:
    """exp(x) for x <= 0, without a branch: to 3e-6 in float32, to 1e-14 in float64."""
    raise NotImplementedError


@overload(exp)
def _exp_by_precision(x: Any) -> Any:
    return _exp32 if x == types.float32 else _exp64


def _exp64(x: Any) -> Any:
    y = max(x * 1.4426950408889634, -1022.0)
    whole = np.rint(y)
    f = (y - whole) * 0.6931471805599453
    # Taylor polynomial on |f| <= ln 2 / 2: the next term is 6e-15.
    p = ((1.0 / 39916800.0 * f + 1.0 / 3628800.0) * f + 1.0 / 362880.0) * f + 1.0 / 40320.0
    p = (((p * f + 1.0 / 5040.0) * f + 1.0 / 720.0) * f + 1.0 / 120.0) * f + 1.0 / 24.0
    p = (((p * f + 1.0 / 6.0) * f + 0.5) * f + 1.0) * f + 1.0
    return p * _power_of_two64(whole)  # type: ignore[call-arg]


def _exp32(x: Any) -> Any:
    y = max(x * np.float32(1.4426950408889634), np.float32(-126.0))
    whole = np.floor(y)
    f = y - whole
    # Minimax polynomial of 2^f on [0, 1).
    p = (np.float32(1.8775767e-3) * f + np.float32(8.9893397e-3)) * f + np.float32(5.5826318e-2)
    p = ((p * f + np.float32(2.4015361e-1)) * f + np.float32(6.9315308e-1)) * f
    p += np.float32(9.9999994e-1)
    return p * _power_of_two32(np.int32(whole))  # type: ignore[call-arg]


@jit(inline="always")
def squared_distances(x: Any, block: Any, scale: Any, u2: Any) -> None:
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
def weigh(kernel: int, u2: Any, offset: Any, w: Any) -> Any:
    """Weights of one block, the Gaussian relative to that of u^2 = offset."""
    half, one, edge = w.dtype.type(0.5), w.dtype.type(1.0), w.dtype.type(1.0 + EDGE_GUARD)
    zero = w.dtype.type(0.0)
    if kernel == 0:
        for j in range(len(u2)):
            w[j] = exp(half * (offset - u2[j]))
    elif kernel == 1:
        for j in range(len(u2)):
            w[j] = one if u2[j] <= edge else zero
    else:
        for j in range(len(u2)):
            w[j] = max(one - u2[j], zero)


# Below, ``held`` is (blocks, n, kernel, needed, unit), and ``space`` comes from `_space`.


@jit()
def _space(blocks: Any) -> Any:
    """Scratch: u^2 and weights of a block; the prefix sum and smallest u^2 of each block."""
    n_blocks, _, size = blocks.shape
    u2, w = np.empty(size, blocks.dtype), np.empty(size, blocks.dtype)
    return u2, w, np.empty(n_blocks), np.empty(n_blocks, blocks.dtype)


@jit()
def _sum_blocks(x: Any, held: Any, scale: Any, space: Any) -> Any:
    """First pass: fills the smallest u^2 and the prefix sum of each block, on the common scale.

    Returns whether there is enough mass, the effective sample size and the smallest u^2.
    """
    blocks, n, kernel, needed, _ = held
    u2, w, prefix, near = space
    n_blocks, _, size = blocks.shape
    squares, running, nearest = 0.0, 0.0, np.inf
    scaled_squares, ones = np.empty(n_blocks), np.ones(size, u2.dtype)
    for b in range(n_blocks):
        count = min(size, n - b * size)
        part, weight = u2[:count], w[:count]
        squared_distances(x, blocks[b], scale, part)
        low = smallest(part, weight)
        near[b] = low
        weigh(kernel, part, low, weight)
        prefix[b], scaled_squares[b] = dot(weight, ones[:count]), dot(weight, weight)
        nearest = min(nearest, low)
    for b in range(n_blocks):
        factor = _factor(kernel, near[b], nearest)
        running += prefix[b] * factor
        squares += scaled_squares[b] * factor * factor
        prefix[b] = running
    sample = running * running / squares if squares > 0.0 else 0.0
    return sample >= needed and nearest <= NO_MASS and running > 0.0, sample, nearest


@jit()
def _farthest(x: Any, blocks: Any, n: int, u2: Any) -> float:
    """Largest squared distance of one query row: needed only to widen the kernel."""
    n_blocks, _, size = blocks.shape
    farthest = 0.0
    for b in range(n_blocks):
        part = u2[: min(size, n - b * size)]
        squared_distances(x, blocks[b], u2.dtype.type(1.0), part)
        for j in range(len(part)):
            farthest = max(farthest, part[j])
    return farthest


@jit(inline="always")
def _factor(kernel: int, low: Any, nearest: Any) -> float:
    """From the scale of a block to the common scale of the row."""
    return exp(0.5 * (np.float64(nearest) - np.float64(low))) if kernel == 0 else 1.0


@jit()
def _settle(x: Any, held: Any, space: Any) -> Any:
    """First pass at h, or at the fewest doublings of h that are enough.

    Returns the scale, the smallest u^2, the effective sample size, and whether h was doubled.
    """
    blocks, n, _, _, unit = held
    u2 = space[0]
    scale = u2.dtype.type(unit)
    enough, sample, nearest = _sum_blocks(x, held, scale, space)
    if enough:
        return scale, nearest, sample, False
    # Most rows need one or two doublings: gallop up, then bisect.
    most = np.ceil(np.log2(max(FLAT * np.sqrt(unit * _farthest(x, blocks, n, u2)), 2.0)))
    low, high, galloping = 0.0, 1.0, True
    while high - low > 1.0 or galloping:
        middle = high if galloping else np.floor((low + high) / 2.0)
        enough, _, _ = _sum_blocks(x, held, u2.dtype.type(unit * 0.25**middle), space)
        if galloping and not enough and high < most:
            low, high = high, min(2.0 * high, most)
        elif galloping:
            galloping = False
        elif enough:
            high = middle
        else:
            low = middle
    scale = u2.dtype.type(unit * 0.25**high)
    _, sample, nearest = _sum_blocks(x, held, scale, space)
    return scale, nearest, sample, True


@jit(inline="always")
def _open_block(x: Any, held: Any, scale: Any, nearest: Any, b: int, space: Any) -> Any:
    """Recompute the weights of block b for the second pass: how many, their factor, mass before."""
    blocks, n, kernel, _, _ = held
    u2, w, prefix, near = space
    count = min(blocks.shape[2], n - b * blocks.shape[2])
    squared_distances(x, blocks[b], scale, u2[:count])
    weigh(kernel, u2[:count], near[b], w[:count])
    return count, _factor(kernel, near[b], nearest), prefix[b - 1] if b > 0 else 0.0


@jit()
def _walk(w: Any, factor: float, before: float, most: int, wanted: float) -> Any:
    """Add at most ``most`` weights until ``wanted``: how many stayed below it, and their sum.

    One by one: with reordered additions, a longer sum could be smaller.
    """
    running = before
    for j in range(most):
        running += w[j] * factor
        if running >= wanted:
            return j, running
    return most, running


@jit()
def _locate(rows: Any, held: Any, targets: Any, positions: Any) -> None:
    """First reference at which the law reaches each target, a share of the mass: (m, L), or n."""
    size, space = held[0].shape[2], _space(held[0])
    w, prefix = space[1], space[2]
    for i in range(len(rows)):
        scale, nearest, _, _ = _settle(rows[i], held, space)
        opened = -1
        for l in range(targets.shape[1]):
            wanted = targets[i, l] * prefix[-1]
            if wanted > prefix[-1]:
                positions[i, l] = held[1]
                continue
            b = np.searchsorted(prefix, wanted)
            if b != opened:
                count, factor, before = _open_block(rows[i], held, scale, nearest, b, space)
                opened = b
            # The last reference of a block has the prefix sum, which reaches the target.
            inside, _ = _walk(w, factor, before, count - 1, wanted)
            positions[i, l] = b * size + inside


@jit()
def _mass_up_to(rows: Any, held: Any, counts: Any, masses: Any) -> None:
    """Share of the mass on the first ``counts`` (m, k) references: masses (m, k)."""
    size, space = held[0].shape[2], _space(held[0])
    w, prefix = space[1], space[2]
    for i in range(len(rows)):
        scale, nearest, _, _ = _settle(rows[i], held, space)
        opened = -1
        for l in range(counts.shape[1]):
            last = counts[i, l] - 1
            if last < 0:
                masses[i, l] = 0.0
                continue
            b = last // size
            if b != opened:
                count, factor, before = _open_block(rows[i], held, scale, nearest, b, space)
                opened = b
            mass = prefix[b]
            if last - b * size < count - 1:
                _, running = _walk(w, factor, before, last - b * size + 1, np.inf)
                mass = min(running, mass)
            masses[i, l] = mass / prefix[-1]


@jit()
def _moments_of(v: Any, rows: Any, held: Any, _: Any, out: Any) -> None:
    """Means of v and |v|, effective sample size, and whether h was doubled: out (m, 4)."""
    (n_blocks, _, size), space = held[0].shape, _space(held[0])
    w, prefix = space[1], space[2]
    terms, ones = np.empty(size), np.ones(size)
    for i in range(len(rows)):
        scale, nearest, sample, widened = _settle(rows[i], held, space)
        mean, absolute = 0.0, 0.0
        for b in range(n_blocks):
            count, factor, _ = _open_block(rows[i], held, scale, nearest, b, space)
            for j in range(count):
                terms[j] = w[j] * v[b * size + j]
            mean += dot(terms[:count], ones[:count]) * factor
            for j in range(count):
                terms[j] = abs(terms[j])
            absolute += dot(terms[:count], ones[:count]) * factor
        out[i, 0], out[i, 1] = mean / prefix[-1], absolute / prefix[-1]
        out[i, 2], out[i, 3] = sample, widened


class ExactEngine(Engine):
    """Kernel laws of sorted reference scores v (n,) and their rows (n, d), compiled."""

    #: References per block.
    block = 512
    _loops = _locate, _mass_up_to, _moments_of

    def __init__(
        self,
        v: Array,
        references: Array,
        kernel: str,
        bandwidth: float,
        min_effective_samples: float,
        n_jobs: int | None = None,
    ) -> None:
        self.v, self.code, self.bandwidth, self.n_jobs = v, _CODES[kernel], bandwidth, n_jobs
        self.needed = min(min_effective_samples, len(v)) * (1.0 - 1e-6)
        self.centre = references.mean(axis=0)
        scaled = (references - self.centre) / bandwidth
        # Not centred: that would round distances on the edge of a kernel.
        self.wide = _into_blocks(references)
        reach = float(np.einsum("ij,ij->i", scaled, scaled).max())
        narrow_enough = kernel == "gaussian" and reach <= _FLOAT32_REACH
        self.narrow = _into_blocks(scaled).astype(np.float32) if narrow_enough else None

    def _run(self, loop: Callable[..., None], rows: Array, asked: Any, out: Any) -> Any:
        """``out``, filled on chunks of rows, in threads, each at the precision it needs."""
        scaled = (rows - self.centre) / self.bandwidth
        near = np.zeros(len(rows), dtype=bool)
        if self.narrow is not None:
            near = np.einsum("ij,ij->i", scaled, scaled) <= _FLOAT32_REACH
        narrow, wide = (self.narrow, scaled, 1.0), (self.wide, rows, self.bandwidth**-2)
        jobs = [
            (*precision, index[start : start + _CHUNK_ROWS])
            for precision, index in ((narrow, np.flatnonzero(near)), (wide, np.flatnonzero(~near)))
            for start in range(0, len(index), _CHUNK_ROWS)
        ]

        def work(job: Any) -> None:
            blocks, coordinates, unit, index = job
            points = np.ascontiguousarray(coordinates[index], dtype=blocks.dtype)
            answer = np.empty((len(index), *out.shape[1:]), dtype=out.dtype)
            held = (blocks, len(self.v), self.code, self.needed, unit)
            loop(points, held, asked[index], answer)
            out[index] = answer

        run_in_threads(work, jobs, self.n_jobs, len(rows) * len(self.v) // _PAIRS_PER_THREAD)
        return out


def _into_blocks(points: Array) -> Array:
    """(n, d) -> (blocks, d, block), the last one padded; few references make one short block."""
    n, d = points.shape
    size = min(ExactEngine.block, n)
    padded = np.zeros((-(-n // size) * size, d))
    padded[:n] = points
    return np.ascontiguousarray(padded.reshape(-1, size, d).transpose(0, 2, 1))
