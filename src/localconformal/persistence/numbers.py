"""Numbers from a file that fit each other, checked before intervals are made of them.

A calibration or an engine whose arrays were exchanged for others would answer all the same: NaN
scores make NaN bounds, and compiled loops read past the end of arrays that are too short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from localconformal.calibration import Calibration
from localconformal.engine.exact import BLOCK, ExactEngine
from localconformal.engine.kernels import KernelWeights
from localconformal.engine.neighbors import KernelNeighbors, NearestNeighbors, NeighborEngine
from localconformal.engine.reference import ReferenceEngine
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.laws.neighbors import NeighborWeights
from localconformal.persistence.sharing import is_own
from localconformal.persistence.trees import parts_of

#: What engines hold their references in.
ENGINE_PARTS = (KernelNeighbors, KernelWeights, NearestNeighbors, NeighborWeights, Sketch)


def check_numbers(model: Any) -> None:
    """Calibrations and engines within the model are sound, or a ValueError.

    Examples
    --------
    >>> from localconformal.laws.uniform import UniformEngine
    >>> check_numbers([UniformEngine(np.array([1.0, 2.0]))])
    >>> check_numbers([UniformEngine(np.array([1.0, np.nan]))])
    Traceback (most recent call last):
        ...
    ValueError: v of UniformEngine holds NaN
    """
    for part in parts_of(model):
        is_engine = is_own(part) and hasattr(part, "quantiles") and hasattr(part, "v")
        if is_engine or isinstance(part, (Calibration, *ENGINE_PARTS)):
            refuse_nan(part)
        if isinstance(part, Calibration):
            check_calibration(part)
        elif is_engine:
            check_engine(part)


def refuse_nan(part: Any) -> None:
    """No number that the object holds is NaN: what it computes would be NaN too."""
    for name, value in vars(part).items():
        is_real = isinstance(value, (float, np.floating)) or (
            isinstance(value, np.ndarray) and value.dtype.kind == "f"
        )
        if is_real and np.isnan(value).any():
            raise ValueError(f"{name} of {type(part).__name__} holds NaN")


def check_calibration(found: Calibration) -> None:
    """V is (n, S), with a cell and a place in the local laws for each row."""
    n = len(found.V)
    rows = [len(one) for one in found.F.rows if isinstance(one, np.ndarray)]
    if found.V.shape != (n, found.rule.n_sides) or {len(found.cells), found.F.n, *rows} != {n}:
        raise ValueError("the calibration scores do not fit their rows")


def check_engine(engine: Any) -> None:
    """Reference scores (n,) ascend, and there is a row for each."""
    v = engine.v
    if v.ndim != 1 or len(v) == 0 or np.any(np.diff(v) < 0):
        raise ValueError("the reference scores of a law are not in order")
    if not fills(engine, len(v)):
        raise ValueError("a law has other reference rows than scores")


def fills(engine: Any, n: int) -> bool:
    """Whether an engine has what its loops read: n references, in the shape they expect."""
    found = (fit for kind, fit in SHAPES.items() if isinstance(engine, kind))
    return next(found, has_references)(engine, n)


def has_references(engine: Any, n: int) -> bool:
    """Rows in an array of their own; an engine without any needs none."""
    return len(getattr(engine, "references", engine.v)) == n


def has_blocks(engine: ExactEngine, n: int) -> bool:
    """Rows in blocks, the last one padded."""
    size = min(BLOCK, n)
    shape = (-(-n // size), len(engine.centre), size)
    return all(one is None or one.shape == shape for one in (engine.wide, engine.narrow))


def has_landmarks(engine: SketchEngine, n: int) -> bool:
    """Sums at each of n edges and r landmarks."""
    r = engine.sketch.columns.shape[1]
    vectors = (engine.squares, engine.mean_vector, engine.size_vector)
    return engine.A.shape == (n, r) and {len(one) for one in vectors} == {r}


#: Engine -> whether it has the rows of n scores.
SHAPES: dict[type, Callable[[Any, int], bool]] = {
    ExactEngine: has_blocks,
    SketchEngine: has_landmarks,
    NeighborEngine: lambda engine, n: len(engine.neighbors.points) == n,
    ReferenceEngine: lambda engine, n: len(getattr(engine.weigh, "references", engine.v)) == n,
}
