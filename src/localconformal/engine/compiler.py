"""The compiler, and sums in an order that it cannot change.

A sum of floating-point numbers depends on its order. Vector instructions need an order of their
own, and "fast maths" lets the compiler choose one; but what it chooses depends on the code around
a loop, so that a process that compiles the loop and one that loads it from the cache would differ
in the last bits. Here the order is written down: `dot` adds in lanes, side by side.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils as untyped_tools
from numba.core.errors import TypingError
from numba.extending import intrinsic

cgutils: Any = untyped_tools
#: Running sums of `dot`, side by side.
LANES = 64
#: Numbers among which a minimum is looked for one after the other.
FEW = 8


def jit(inline: str = "never") -> Any:
    """numba's compiler, without fast maths, cached on disk where there is a folder to write to."""
    options: dict[str, Any] = {"inline": inline, "nogil": True, "error_model": "numpy"}

    def decorate(function: Any) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:
            # No cache folder can be written to: every process compiles for itself.
            return njit(**options)(function)

    return decorate


@intrinsic
def _dot(typing_context: Any, a: Any, b: Any) -> Any:
    """a.b of two contiguous vectors of one precision: in lanes, these by halves, then the rest."""
    if not (a == b and isinstance(a, types.Array) and a.ndim == 1 and a.layout == "C"):
        raise TypingError(f"dot of {a} and {b}; expected two contiguous vectors of one precision")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = context.get_value_type(types.intp)
        step, one = ir.Constant(word, LANES), ir.Constant(word, 1)
        lanes = ir.VectorType(context.get_value_type(a.dtype), LANES)
        arrays = [context.make_array(a)(context, builder, arg) for arg in args]
        size = builder.extract_value(arrays[0].shape, 0)
        whole = builder.sub(size, builder.srem(size, step))

        def add_product(total: Any, j: Any, kind: Any) -> None:
            places = [builder.gep(array.data, [j]) for array in arrays]
            x, y = (
                builder.load(builder.bitcast(place, kind.as_pointer()), align=a.dtype.bitwidth // 8)
                for place in places
            )
            builder.store(builder.fadd(builder.load(total), builder.fmul(x, y)), total)

        sums = cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * LANES))
        with cgutils.for_range_slice(builder, ir.Constant(word, 0), whole, step, word) as (j, _):
            add_product(sums, j, lanes)
        total = cgutils.alloca_once_value(builder, _add_lanes(builder, builder.load(sums)))
        with cgutils.for_range_slice(builder, whole, size, one, word) as (j, _):
            add_product(total, j, lanes.element)
        return builder.load(total)

    return a.dtype(a, b), codegen


#: What loops call: the compiler gives it two vectors.
dot: Any = _dot


def _add_lanes(builder: Any, sums: Any) -> Any:
    """The lanes of one vector added up: the second half to the first, until one is left."""
    count = LANES
    while count > 1:
        count //= 2
        kind = ir.VectorType(ir.IntType(32), count)
        low = builder.shuffle_vector(sums, sums, ir.Constant(kind, list(range(count))))
        high = builder.shuffle_vector(sums, sums, ir.Constant(kind, list(range(count, 2 * count))))
        sums = builder.fadd(low, high)
    return builder.extract_element(sums, ir.Constant(ir.IntType(32), 0))


@jit(inline="always")
def smallest(values: Any, aside: Any) -> Any:
    """The minimum, by halves, which vector instructions can follow; ``aside`` is written to."""
    half = (len(values) + 1) // 2
    for j in range(half):
        aside[j] = min(values[j], values[len(values) - half + j])
    while half > FEW:
        n = half
        half = (n + 1) // 2
        for j in range(n - half):
            aside[j] = min(aside[j], aside[half + j])
    least = aside[0]
    for j in range(1, half):
        least = min(least, aside[j])
    return least
