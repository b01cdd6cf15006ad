"""Rows that are not in memory: told apart here, handled by `localconformal.distributed`.

That module comes after this one in the order of layers, and is the only one that knows Dask. So it
is named by a string and loaded when the first Dask collection comes in.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

HANDLER = "localconformal.distributed.estimator"


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask array or frame.

    Examples
    --------
    >>> is_lazy([[1.0]])
    False
    """
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "_meta")


def check_in_memory(X: Any) -> None:
    """X is in memory, or refused: not every method works partition by partition."""
    if is_lazy(X):
        raise ValueError(
            f"X is a Dask {type(X).__name__}, which this method cannot take; call X.compute() "
            "first, for as many rows as memory holds."
        )


def on_dask() -> Any:
    """The functions that fit, calibrate and predict on Dask."""
    return import_module(HANDLER)
