"""Why an interval is wide: what each feature adds, and which rows count for x.

The width w(x) is a function of the features. A walk starts at a background row b, a training row,
and takes over the features of x one by one in a random order; each step's change of the width
belongs to the feature taken. Averaged over orders and background rows, that is the Shapley value of
the feature (Strumbelj and Kononenko 2014; Lundberg and Lee 2017), and for any orders,

    mean over b of w(b)  +  sum over features of their parts  =  w(x),

since every walk ends at x. Each background row starts two walks, one in an order and one in its
reverse, which cancels much of the noise. Orders and background rows are drawn with the seed of the
fit, independently of the rows explained: a row gets the same answer alone or in a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from localconformal.laws.base import Law, weigh_by
from localconformal.progress import is_seen, stage
from localconformal.quantiles import Array, finish
from localconformal.rows import (
    Index,
    Rows,
    columns_of,
    is_frame,
    make_frame,
    table_names,
    take_rows,
)

#: Background rows a model keeps: most rows, most numbers in them, and the fewest rows in any case.
_MOST_ROWS, _MOST_NUMBERS, _LEAST_ROWS = 64, 800, 4
#: Numbers in the rows whose widths are computed at once, and weights held at once.
_NUMBERS, _WEIGHTS = 2**22, 2**24
_Columns = list[Any]


# ---- background rows ----------------------------------------------------------------------------


def keep_background(X: Any, seed: int) -> tuple[int, _Columns] | None:
    """The seed, and some training rows by column as plain data for model files; None for images."""
    if not is_frame(X) and np.ndim(X) != 2:
        return None
    most = min(_MOST_ROWS, max(_LEAST_ROWS, _MOST_NUMBERS // len(table_names(X))))
    some = np.random.default_rng(seed).permutation(len(X))[:most]
    return seed, _plain_columns(take_rows(X, np.sort(some)))


def _plain_columns(X: Any) -> _Columns:
    if is_frame(X):
        return [_plain(column) for column in columns_of(X)]
    return [np.array(column) for column in np.asarray(X).T]


def _plain(column: nw.Series[Any]) -> Any:
    """An array of numbers or times; else a list of texts, numbers and None."""
    array = column.to_numpy()
    # Integers and booleans with missing values are not floats.
    if array.dtype.kind in "biumM" or (array.dtype.kind == "f" and column.dtype.is_float()):
        return array
    pairs = zip(column.to_list(), column.is_null().to_list(), strict=True)
    values = [None if missing else value for value, missing in pairs]
    known = [isinstance(value, timedelta) for value in values if value is not None]
    if known and all(known):
        return np.array(values, dtype="timedelta64[us]")
    return [value if value is None else _plain_value(value) for value in values]


def _plain_value(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    value = float(value) if isinstance(value, Decimal) else value
    return value if isinstance(value, (str, int, float)) else str(value)


def _joined(column: nw.Series[Any], others: Any) -> nw.Series[Any]:
    """The column with more values appended, in its own dtype if that can hold them."""
    name, backend = column.name, nw.get_native_namespace(column)
    values, zone = _plain(column), getattr(column.dtype, "time_zone", None)
    kinds = [one.dtype.kind for one in (values, others) if isinstance(one, np.ndarray)]
    if len(kinds) == 2 and (kinds[0] == kinds[1] or set(kinds) <= set("biuf")):
        values = np.concatenate([values, others])
    else:
        below = nw.new_series(name, others, backend=backend)
        values = [*column.to_list(), *below.to_list()]
    # A library may refuse values that are not of the column's dtype.
    with suppress(Exception):
        if zone is not None:
            # As arrays, times are in UTC.
            made = nw.new_series(name, values, backend=backend)
            return made.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        if not nw.dependencies.is_pandas_series(native := column.to_native()):
            return nw.new_series(name, values, column.dtype, backend=backend)
        dtype = native.dtype
        if isinstance(dtype, backend.CategoricalDtype):
            # Labels that only background rows have come last, which keeps the codes of the others.
            labels = [*dtype.categories, *backend.Series(values, dtype=object).dropna()]
            dtype = backend.CategoricalDtype([*dict.fromkeys(labels)], dtype.ordered)
        series = backend.Series(values, name=name, dtype=dtype)
        # Otherwise None would silently become False.
        if (series.isna() == backend.isna(np.array(values, dtype=object))).all():
            return nw.from_native(series, series_only=True)
    if nw.dependencies.is_pandas_series(column.to_native()):
        return nw.from_native(backend.Series(values, name=name, dtype=object), series_only=True)
    return nw.from_native(backend.Series(name, values, strict=False), series_only=True)


class _Stack:
    """n rows followed by m background rows, mixed column by column."""

    def __init__(self, X: Any, others: _Columns) -> None:
        self.n, self.frame = len(X), is_frame(X)
        if self.frame:
            self.columns = [_joined(*pair) for pair in zip(columns_of(X), others, strict=True)]
        else:
            kind = object if X.dtype == object else None
            below = np.stack([np.asarray(column, dtype=kind) for column in others], axis=1)
            self.table = np.concatenate([X, below])

    def mix(self, index: Index) -> Any:
        """Rows (k, d) whose j-th values come from the rows index[:, j]."""
        if not self.frame:
            return self.table[index, np.arange(index.shape[1])]
        pairs = zip(self.columns, index.T, strict=True)
        series = [column[np.ascontiguousarray(rows)] for column, rows in pairs]
        backend = nw.get_native_namespace(series[0])
        if nw.dependencies.is_pandas_series(series[0].to_native()):
            # Narwhals would turn categories into text.
            return backend.DataFrame({one.name: one.to_native().array for one in series})
        return nw.from_dict({one.name: one for one in series}, backend=backend).to_native()


# ---- walks --------------------------------------------------------------------------------------


class _Walks:
    """2 m walks from m background rows to x in d steps: an order of the features, and its reverse.

    The points of all walks are numbered: first those between the ends, then the m starts, then x.
    """

    def __init__(self, d: int, m: int, seed: int) -> None:
        orders = np.random.default_rng([seed, d]).permuted(np.tile(np.arange(d), (m, 1)), axis=1)
        #: The step in which a walk takes a feature: (2 m, d).
        self.place = np.argsort(np.concatenate([orders, orders[:, ::-1]]), axis=1)
        walk, step = np.indices((2 * m, d - 1)).reshape(2, -1)
        self.walk = np.concatenate([walk, np.arange(m), [0]])
        self.step = np.concatenate([step + 1, np.zeros(m, dtype=np.intp), [d]])
        self.m, self.d, self.size = m, d, len(self.walk)

    def index(self, row: Index, point: Index, n: int) -> Index:
        """Which of n rows and m others each feature of these points comes from: (k,) -> (k, d)."""
        walk = self.walk[point]
        taken = np.less(self.place[walk], self.step[point][:, None])
        return np.where(taken, row[:, None], n + walk[:, None] % self.m)

    def parts(self, widths: Array) -> tuple[Array, Array]:
        """Widths (n, size) -> the part of each feature (n, d), and the mean of the starts (n,)."""
        n, m, d = len(widths), self.m, self.d
        W = np.empty((n, 2 * m, d + 1))
        W[:, :, 1:d] = widths[:, : -m - 1].reshape(n, 2 * m, d - 1)
        W[:, :, 0], W[:, :, d] = np.tile(widths[:, -m - 1 : -1], 2), widths[:, -1:]
        known = np.asarray(np.isfinite(W).all(axis=2))
        count = known.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            steps = np.where(known[:, :, None], np.diff(W, axis=2), 0.0)
            each = np.take_along_axis(steps, self.place[None], axis=2).sum(axis=1)
            base = np.where(known, W[:, :, 0], 0.0).sum(axis=1)
            return each / count[:, None], base / count


def widths_of(model: Any, rows: Rows, raw: Array, levels: Array) -> Array:
    """Widths (n,) of raw bounds (n, 2, 1); one-sided, the distance of the bound from the point."""
    lower, upper = finish(raw, levels, model._support)[:, :, 0].T
    closed = model.parts_.sides.closed
    if closed.stop - closed.start == 2:
        return np.asarray(upper - lower)
    point = model.parts_.band(rows).point
    return np.asarray(upper - point if closed.start else point - lower)


class WithExplanations:
    """Explanations of widths, for an estimator that has `_rows`, `_bounds` and `parts_`."""

    # None in files of earlier versions and in models of images.
    _background: tuple[int, _Columns] | None = None

    def explain_width(
        self: Any,
        X: Any,
        background: Any = None,
        *,
        confidence_level: float | None = None,
        alpha: float | None = None,
        **beside: Any,
    ) -> Any:
        """What each feature adds to the width of each interval: Shapley values.

        ``base`` is the mean width of background rows; base plus the sum of a row's parts is its
        width. The width of a one-sided interval is the distance of its bound from the point
        prediction. About 100 d widths are computed per row of d features, fewer for d above 50.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        background : array or frame of shape (m, d), default=None
            Rows to compare with, such as those of one region: 2 m d widths per row of X. None is a
            sample of at most 64 training rows, which the model keeps.
        confidence_level, alpha : float, default=None
            At most one of them, alpha = 1 - confidence_level.
        **beside
            ``groups`` or ``weights`` of the rows, if `fit` got them. They are not features:
            background rows take those of the row that is explained.

        Returns
        -------
        frame with one row per row of X (for arrays pandas, or polars if pandas is missing)
            A column per feature (``x0``, ``x1``, ... for arrays), ``base`` and ``width``. Walks
            that meet an infinite interval are left out; if none is left, as for an infinite
            width, the parts and ``base`` are NaN.

        Examples
        --------
        >>> from localconformal import SLCPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(600, 3))
        >>> y = (0.1 + X[:, 1]) * rng.normal(size=600)
        >>> found = SLCPRegressor(law="forest", random_state=0).fit(X, y).explain_width(X[:5])
        >>> list(found.columns)
        ['x0', 'x1', 'x2', 'base', 'width']
        >>> parts = found[["x0", "x1", "x2"]]
        >>> bool(np.allclose(found["base"] + parts.sum(axis=1), found["width"]))
        True
        """
        self._check_calibrated()
        levels = np.atleast_1d(self._levels(confidence_level, alpha, one_for="explain_width"))
        rows = self._rows(X, self._read_beside(beside))
        seed, others = self._background or (0, None)
        if background is not None:
            others = _plain_columns(self._rows(background).X)
        if others is None or np.ndim(rows.X) > 2:
            raise ValueError(
                f"got X of shape {np.shape(X)} and no background rows; expected a table (n, d): "
                "pass some training rows as background=, since models fitted on Dask or by earlier "
                "versions keep none."
            )
        raw, theta = self._bounds(rows, levels)
        self._warn_of_shortage(rows, theta, levels)
        found = _explained(self, rows, levels, others, seed)
        columns = dict(zip(self._columns or table_names(rows.X), found[:-1], strict=True))
        for name, values in {
            "base": found[-1],
            "width": widths_of(self, rows, raw, levels),
        }.items():
            while name in columns:
                name += "_"
            columns[name] = values
        return make_frame(columns, like=X)

    def influential_rows(self: Any, X: Any, among: Any, n_rows: int = 5) -> Any:
        """The rows of ``among`` with the largest weights in the local law at each row of X.

        Weights are shares of all of ``among``: from the kernel between two rows, or from the leaves
        of the forest that they share; in `LCPRegressor` and similar, those of calibration rows.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        among : array or frame of shape (m, d)
            The rows to weight, such as the training rows, which models do not keep.
        n_rows : int, default=5
            Rows to list for each row of X; fewer if no others have weight.

        Returns
        -------
        frame in the library of X, with its index
            ``row``: position in X; ``among``: position in ``among``; ``weight``, largest first.

        Examples
        --------
        >>> from localconformal import KernelLaw, SLCPRegressor
        >>> X = np.arange(60.0)[:, None]
        >>> model = SLCPRegressor(law=KernelLaw("boxcar", bandwidth=0.05), random_state=0)
        >>> found = model.fit(X, np.sin(X[:, 0])).influential_rows([[7.0]], X)
        >>> sorted(found["among"])
        [7]
        """
        check_is_fitted(self)
        rows, others = self._rows(X), self._rows(among)
        weigh, found = weights_between(self), [np.empty((3, 0))]
        for part in gen_batches(len(rows), max(1, _WEIGHTS // len(others))):
            some = np.arange(len(rows))[part]
            W = weigh(rows.take(some), others)
            first = np.argsort(-W, axis=1, kind="stable")[:, :n_rows]
            weight = (
                np.take_along_axis(W, first, axis=1) / np.maximum(W.sum(axis=1), 1e-300)[:, None]
            )
            each = np.stack([np.broadcast_to(some[:, None], first.shape), first, weight])
            found.append(each[:, weight > 0.0])
        row, other, weight = np.concatenate(found, axis=1)
        row, other = row.astype(np.intp), other.astype(np.intp)
        columns = {"row": row, "among": other, "weight": weight}
        return make_frame(columns, like=take_rows(X, row) if is_frame(X) else X)


def read_explained(explained: Any) -> tuple[list[str], Array, Array, Array]:
    """Features, their parts (n, d), bases and widths (n,) from an `explain_width` frame."""
    columns = columns_of(explained) if is_frame(explained) else []
    names = [str(column.name) for column in columns]
    if [name.rstrip("_") for name in names[-2:]] != ["base", "width"]:
        raise ValueError(
            f"got {type(explained).__name__} with last columns {names[-2:]}; expected the output "
            "of model.explain_width(X)."
        )
    table = np.stack([column.to_numpy().astype(np.float64) for column in columns], axis=1)
    return names[:-2], table[:, :-2], table[:, -2], table[:, -1]


def weights_between(model: Any) -> Callable[[Rows, Rows], Array]:
    """Non-negative weights (m, n) of others at rows, from a fitted regressor or law."""
    check_is_fitted(model)
    # The law of the upper side, if there are two.
    laws = [model] if isinstance(model, Law) else model.law_.laws if hasattr(model, "law_") else ()
    if hasattr(model, "localizer_"):
        return partial(weigh_by, model.localizer_)
    if not laws or not isinstance(laws[-1], Law):
        raise ValueError(
            f"got {type(model).__name__}, which has no law with weights on rows; expected a model "
            "such as SLCPRegressor(law='kernel'), or its law."
        )
    return laws[-1].row_weights


def _explained(model: Any, rows: Rows, levels: Array, others: _Columns, seed: int) -> list[Array]:
    """The part of each feature, and the base: d + 1 columns (n,)."""
    n, d, m = len(rows), len(others), len(others[0])
    walks, stack, out = _Walks(d, m, seed), _Stack(rows.X, others), np.empty((n, d + 1))
    # Models predict many points at once; a row with very many features takes several calls.
    most = max(1, min(model.parts_.rows_at_a_time, _NUMBERS // d))
    step = max(1, most // walks.size)

    def asked(flat: Index) -> Array:
        row, point = np.divmod(flat, walks.size)
        beside = None if rows.beside is None else take_rows(rows.beside, row)
        mixed = Rows(stack.mix(walks.index(row, point, n)), beside)
        return widths_of(model, mixed, model._bounds(mixed, levels)[0], levels)

    with _progress(f"{type(model).__name__}: explain_width", -(-n // step)) as say:
        for start in range(0, n, step):
            stop = min(start + step, n)
            say(f"rows {start + 1} to {stop} of {n}")
            flat = np.arange(start * walks.size, stop * walks.size)
            widths = np.concatenate([asked(flat[part]) for part in gen_batches(len(flat), most)])
            out[start:stop, :d], out[start:stop, d] = walks.parts(widths.reshape(-1, walks.size))
    return list(out.T)


def _progress(name: str, steps: int) -> Any:
    """Progress on a terminal, or in the log if it is enabled."""
    if is_seen() or logging.getLogger("localconformal").isEnabledFor(logging.INFO):
        return stage(name, steps)
    return nullcontext(lambda step: None)
