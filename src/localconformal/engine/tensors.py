"""Engines on PyTorch tensors, for a kernel law with ``device=``: on a GPU where there is one.

::

    Gaussian, 10,000 rows and more    sketch, if its certificate meets the tolerance
    else                              exact

The same laws as those of the compiled engines, decided the same way. Rows come and go as NumPy
arrays; references stay on the device. Every block of query rows has the same shape, the last one
filled up, and rows of a block begin at aligned addresses: how PyTorch cuts up its work then never
depends on the number of queries, and one by one or in a batch a row gets the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from localconformal.engine import dispatch
from localconformal.engine.base import Engine
from localconformal.quantiles import Array

#: Columns come in multiples of this, so that every row of a block is aligned alike.
ALIGNED = 64
#: Query rows of a block at most, and numbers in one of its arrays (16 MB in float64).
MOST_ROWS, CHUNK = 64, 2**21
ENGINES = ("auto", "exact", "sketch", "minibatch")


def load_torch() -> Any:
    """PyTorch, or an error that says what to do."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError(
            "device= needs torch, which this environment lacks: run "
            "pip install 'localconformal[torch]', or leave device=None."
        ) from error


def as_tensor(values: Any, device: str) -> Any:
    """A copy of the numbers on the device."""
    return load_torch().as_tensor(np.array(values), device=device)


def check_device(device: str) -> None:
    """A device that exists and knows float64, or an error that says what to do."""
    torch = load_torch()
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"device is {device!r}, on which PyTorch cannot put float64 numbers ({reason}); "
            "'cpu', 'cuda' or another device it has was expected."
        ) from error


def aligned(n: int) -> int:
    """The next multiple of `ALIGNED`."""
    return -(-n // ALIGNED) * ALIGNED


def blocks(rows: Array, columns: int) -> Iterator[tuple[slice, Array]]:
    """Rows in blocks of one shape, whatever their number; the last is filled up with zeros."""
    size = max(1, min(MOST_ROWS, CHUNK // columns))
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        block = np.zeros((size, rows.shape[1]))
        block[: part.stop - start] = rows[part]
        yield part, block


def squared_distances(rows: Any, columns: Any) -> Any:
    """|x_i - t_j|^2 for rows (m, d) and columns (d, n), feature by feature: (m, n)."""
    squared = rows.new_zeros((len(rows), columns.shape[1]))
    for feature, column in zip(rows.T, columns, strict=True):
        difference = feature[:, None] - column
        squared += difference * difference
    return squared


def build_on_tensors(
    name: str, problem: dispatch.Problem, tolerance: float
) -> tuple[Engine, dispatch.EngineReport]:
    """The engine of this name on tensors, or the one that "auto" chooses, and the report on it."""
    from localconformal.engine.tensor_exact import TensorExactEngine
    from localconformal.engine.tensor_sketch import TensorSketchEngine

    if name not in ENGINES:
        raise ValueError(
            f"engine={name!r} came with device={problem.device!r}; one of {', '.join(ENGINES)} "
            "runs on tensors: choose one, or leave device=None."
        )
    device = str(problem.device)
    check_device(device)
    compiled: Any = None
    reason = "asked for"
    if name == "sketch":
        compiled, report = dispatch.sketch_engine(problem, tolerance)
    elif name == "auto":
        compiled, reason, report = certified_sketch(problem, tolerance)
    if compiled is not None:
        return TensorSketchEngine(compiled, device), replace(
            report, reason=f"{report.reason}; on {device}"
        )
    ordered = problem.by_score()
    engine = TensorExactEngine(
        ordered.v,
        ordered.points,
        ordered.kernel,
        ordered.bandwidth,
        ordered.min_effective_samples,
        device,
    )
    n_bytes = ordered.points.nbytes
    reason = f"{reason}; on {device}"
    return engine, dispatch.EngineReport("exact", reason, len(ordered.v), n_bytes=n_bytes)


def certified_sketch(problem: dispatch.Problem, tolerance: float) -> tuple[Any, str, Any]:
    """A sketch where one serves, else None and why not; and its report."""
    if problem.kernel != "gaussian" or len(problem.v) < dispatch.SKETCH_FROM:
        return None, "a sketch is for Gaussian kernels and many rows", None
    engine, report = dispatch.try_sketch(problem, tolerance, insist=False)
    return engine, report.reason, report
