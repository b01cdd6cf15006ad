"""Tables in and out: pandas, polars or plain arrays, told apart in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib import import_module
from typing import Any
from zlib import crc32

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray


def is_frame(X: Any) -> bool:
    """Whether X is a data frame held in memory (pandas, polars, ...)."""
    return bool(nw.dependencies.is_into_dataframe(X))


def check_unmasked(values: Any, name: str) -> None:
    """Hidden entries are refused: whoever reads the array next sees what stands behind the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with {np.count_nonzero(values.mask)} hidden value(s), which "
            "models would read as if they were known; leave these rows out, or fill them."
        )


def check_frame(X: Any) -> Any:
    """A frame with rows, columns and unique names; an array without a mask, or anything else."""
    check_unmasked(X, "X")
    if nw.dependencies.is_into_dataframe(X):
        names = [column.name for column in columns_of(X)]
        if not names or len(X) == 0:
            raise ValueError(
                f"X: got {len(X)} row(s) and {len(names)} column(s), 0 sample(s) or features; "
                "expected at least 1 of each."
            )
    elif hasattr(X, "collect"):
        raise ValueError(
            f"X is a {type(X).__name__}, which holds no rows yet; call X.collect() first."
        )
    return X


def column_names(X: Any) -> list[Any] | None:
    """Names of a frame's columns; None for an array."""
    return [column.name for column in columns_of(X)] if is_frame(X) else None


def columns_of(X: Any) -> list[nw.Series[Any]]:
    """The columns of a frame, whatever their names."""
    try:
        return list(nw.from_native(X, eager_only=True).iter_columns())
    except nw.exceptions.DuplicateError as error:
        raise ValueError("X has repeated column names; rename them to be unique.") from error


def stack_rows(X: Any, others: Any) -> Any:
    """The rows of X above the others, of the kind of X."""
    if not is_frame(X):
        return np.concatenate([np.asarray(X), np.asarray(others)])
    return nw.concat([nw.from_native(X), nw.from_native(others)]).to_native()


def at_ends(
    columns: Mapping[str, Any], first: Sequence[str], last: Sequence[str]
) -> dict[str, Any]:
    """The columns with these at both ends: a narrow terminal leaves out those between.

    >>> list(at_ends({"a": 1, "b": 2, "c": 3, "d": 4}, first=["c"], last=["a"]))
    ['c', 'b', 'd', 'a']
    """
    between = [name for name in columns if name not in (*first, *last)]
    return {name: columns[name] for name in (*first, *between, *last) if name in columns}


def make_frame(columns: Mapping[str, Any], like: Any) -> Any:
    """A frame of these columns: of the kind of ``like``, with its index.

    For arrays and None it is pandas, or polars where only that is installed.
    """
    if not is_frame(like):
        return _installed_frame()(dict(columns))
    native = nw.from_dict(
        dict(columns), backend=nw.get_native_namespace(nw.from_native(like))
    ).to_native()
    if nw.dependencies.is_pandas_dataframe(like):
        native.index = like.index
    return native


def _installed_frame() -> Any:
    """The class of data frames that is there to be used."""
    for name in ("pandas", "polars"):
        try:
            return import_module(name).DataFrame
        except ImportError:
            continue
    raise ImportError(
        "a table of results needs pandas or polars, and neither is installed: run "
        "pip install 'localconformal[plots]', which brings pandas."
    )


def row_hashes(X: Any, *beside: NDArray[np.float64]) -> NDArray[np.uint64]:
    """One 64-bit hash of each row of (X, ...), equal for rows that hold equal values."""
    mixed = np.zeros(len(X), dtype=np.uint64)
    for position, column in enumerate([*_columns(X), *beside]):
        mixed = _mix(mixed ^ (_bits(column) + np.uint64(position)))
    return mixed


def _columns(X: Any) -> list[NDArray[Any]]:
    if is_frame(X):
        return [column.to_numpy() for column in columns_of(X)]
    array = np.asarray(X)
    if array.ndim > 2:
        return [np.array([_digest(row) for row in array])]
    return list(array.reshape(len(array), -1).T)


def _digest(row: NDArray[Any]) -> int:
    """A number for a row of many numbers, such as an image: a column each would take too long."""
    values = row.astype(np.float64) + 0.0
    return int.from_bytes(blake2b(values.tobytes(), digest_size=6).digest(), "little")


def _bits(column: NDArray[Any]) -> NDArray[np.uint64]:
    if column.dtype.kind in "biufM":
        # + 0.0 makes -0.0 and 0.0 the same bits.
        return (column.astype(np.float64) + 0.0).view(np.uint64)
    # crc32, not hash(): the latter differs from one Python process to the next.
    return np.array([crc32(str(value).encode()) for value in column], dtype=np.uint64)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
