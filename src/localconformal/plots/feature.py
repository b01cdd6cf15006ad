"""One feature on an axis: numbers and times at their place, labels and missing values in strips.

A strip is a stretch of the axis for one label, or one of a few numbers that return often; its
rows stand side by side in it. Missing values have a strip of their own, after all else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from localconformal.audit.columns import DURATION, MISSING, Column, read_columns
from localconformal.audit.conditions import say_value
from localconformal.columns import LABEL, TIME
from localconformal.frames import columns_of, is_frame
from localconformal.plots.canvas import panel_inches, plain
from localconformal.plots.style import FAINT, INK, LABEL_SIZE, SMALL_SIZE
from localconformal.quantiles import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Labels with a strip of their own; the others share one.
MAX_STRIPS = 12
NOT_A_STRIP = -1
MISSING_STRIP, OTHER_STRIP = "missing", "other labels"
#: Of the labels of an axis, side by side.
LETTERS_PER_INCH = 14.0
#: Half of the width of a label's strip, of which there is one a unit.
HALF_STRIP = 0.38
#: Where the strip of missing numbers begins and ends, beyond their range, in units of it.
MISSING_BEGINS, MISSING_ENDS = 0.06, 0.14
SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, eq=False)
class Feature:
    """A column of n rows as an axis shows it.

    Attributes
    ----------
    name : str
    kind : "number", "time", "duration" or "label"
    numbers : array of shape (n,)
        Times in days; NaN for labels and missing values.
    strip : array of ints of shape (n,)
        Place among ``strips``; -1 for rows at their number.
    strips : tuple of str
    range : pair of floats
        Ends of all numbers, of rows that were not taken too; (0, 0) where there are none.
    """

    name: str
    kind: str
    numbers: Array
    strip: NDArray[np.intp]
    strips: tuple[str, ...]
    range: tuple[float, float] = (0.0, 0.0)

    def take(self, rows: NDArray[np.intp]) -> Feature:
        """Some of the rows, on the same axis."""
        return replace(self, numbers=self.numbers[rows], strip=self.strip[rows])

    @property
    def values(self) -> NDArray[Any]:
        """What a frame says of each row: a number, a time or the text of a label."""
        if self.kind == LABEL:
            return np.array(self.strips, dtype=object)[self.strip]
        if self.kind == TIME:
            days = np.where(np.isnan(self.numbers), 0.0, self.numbers)
            times = np.rint(days * SECONDS_PER_DAY).astype(np.int64).astype("datetime64[s]")
            times[np.isnan(self.numbers)] = np.datetime64("NaT")
            return times
        return self.numbers

    def strip_ends(self) -> Array:
        """Left and right end of each strip: (strips, 2)."""
        if self.kind == LABEL:
            return np.arange(len(self.strips))[:, None] + np.array([-HALF_STRIP, HALF_STRIP])
        low, high = self.range
        width = (high - low) or 1.0
        ends = high + width * np.array([[MISSING_BEGINS, MISSING_ENDS]])
        return ends[: len(self.strips)]

    def positions(self, order_by: NDArray[Any] | None = None) -> Array:
        """Place of each row on the axis (n,); in a strip, rows by ``order_by``, else as given."""
        place = self.numbers.copy()
        for s, (left, right) in enumerate(self.strip_ends()):
            rows = np.flatnonzero(self.strip == s)
            if order_by is not None:
                rows = rows[np.argsort(order_by[rows], kind="stable")]
            place[rows] = left + (right - left) * (np.arange(len(rows)) + 0.5) / max(len(rows), 1)
        return place


def read_feature(X: Any, n: int, name: str | None = None) -> Feature:
    """One column of n rows: an array (n,) or (n, 1), a series or a frame."""
    column = read_one_column(X, n, name)
    known = column.codes != MISSING
    if column.kind == LABEL or len(column.values) <= MAX_STRIPS < known.sum():
        return label_feature(column)
    numbers = numbers_of(column)
    if column.kind == TIME:
        numbers /= SECONDS_PER_DAY
    strip = np.where(known, NOT_A_STRIP, 0)
    strips = () if known.all() else (MISSING_STRIP,)
    name = f"{column.name} (s)" if column.kind == DURATION else column.name
    ends = (float(np.nanmin(numbers)), float(np.nanmax(numbers))) if known.any() else (0.0, 0.0)
    return Feature(name, column.kind, numbers, strip, strips, ends)


def numbers_of(column: Column) -> Array:
    """The numbers of a column (n,), NaN where missing."""
    return np.append(column.values, np.nan)[column.codes]


def label_feature(column: Column) -> Feature:
    """The frequent labels first, then those that share a strip, then missing ones.

    A few numbers, many times each, are labels in their own order.
    """
    names = column.labels or [say_value(value, column.kind) for value in column.values]
    counts = np.bincount(column.codes[column.codes != MISSING], minlength=1)
    n_own = len(counts) if len(counts) <= MAX_STRIPS else MAX_STRIPS - 1
    labels = [*names, OTHER_STRIP][:n_own]
    strip = np.minimum(column.codes, n_own).astype(np.intp)
    if n_own < len(counts):
        labels.append(OTHER_STRIP)
    if column.n_missing:
        strip[column.codes == MISSING] = len(labels)
        labels.append(MISSING_STRIP)
    return Feature(column.name, LABEL, np.full(len(strip), np.nan), strip, tuple(labels))


def read_one_column(X: Any, n: int, name: str | None = None) -> Column:
    """The column and its name: that of the series or frame, or "x"."""
    table, own_name = as_table(X)
    width = len(columns_of(table))
    if width != 1:
        raise ValueError(
            f"X has {width} columns; one feature, (n,) or (n, 1), was expected: pass one column."
        )
    column = read_columns(table, n)[0]
    return replace(column, name=str(name or own_name or "x"))


def as_table(X: Any) -> tuple[Any, Any]:
    """A frame of what came, and the name of its first column, if it had any."""
    if is_frame(X):
        return X, next((column.name for column in columns_of(X)), None)
    if nw.dependencies.is_into_series(X):
        return nw.from_native(X, series_only=True).to_frame().to_native(), getattr(X, "name", None)
    import pandas as pd

    # A list of labels and missing values is told apart by pandas, not by NumPy.
    array = np.asarray(X, dtype=object if isinstance(X, (list, tuple)) else None)
    if array.ndim not in (1, 2):
        raise ValueError(
            f"X has shape {array.shape}; one feature, (n,) or (n, 1), was expected: pass one "
            "column."
        )
    return pd.DataFrame(array).infer_objects(), None


def pick_feature(X: Any, feature: int | str) -> Feature:
    """A column of an array or frame, by its place or its name."""
    if not is_frame(X):
        if isinstance(feature, str):
            raise ValueError(
                f"feature is {feature!r} and X an array; the place of a column was expected, such "
                "as 0."
            )
        return read_feature(np.asarray(X)[:, feature], len(X), f"x{feature}")
    columns = columns_of(X)
    names = [column.name for column in columns]
    if feature in names:
        place = names.index(feature)
    elif not isinstance(feature, str) and feature < len(names):
        place = int(feature)
    else:
        raise ValueError(f"feature is {feature!r}; a column of X was expected: {names}.")
    return read_feature(columns[place].to_frame().to_native(), len(X))


def dress_axis(ax: Axes, feature: Feature, which: Literal["x", "y"] = "x") -> None:
    """Name, limits and ticks of the axis ("x" or "y") that shows the feature."""
    axis = getattr(ax, f"{which}axis")
    limit = getattr(ax, f"set_{which}lim")
    axis.set_label_text(plain(feature.name), color=INK, fontsize=LABEL_SIZE)
    ends = feature.strip_ends()
    if feature.kind == LABEL:
        most = 12 if which == "x" else 20
        axis.set_ticks(ends.mean(axis=1), [plain(label, most) for label in feature.strips])
        limit(ends.min() - 0.2, ends.max() + 0.2)
        letters = sum(min(len(label), most) + 2 for label in feature.strips)
        if which == "x" and letters > LETTERS_PER_INCH * (panel_inches(ax) - 0.8):
            ax.tick_params(axis="x", rotation=30)
            for label in axis.get_majorticklabels():
                label.set(ha="right", rotation_mode="anchor")
        return
    ax.locator_params(axis=which, nbins=max(3, int(1.3 * panel_inches(ax))))
    low, high = feature.range
    room = 0.03 * (high - low) or 0.5
    limit(low - room, max([high, *ends.ravel()]) + room)
    if feature.kind == TIME:
        name_times(axis)
    if feature.strips:
        axis.set_ticks([tick for tick in axis.get_majorticklocs() if low - room <= tick <= high])
        mark_missing(ax, ends[0], which)


def name_times(axis: Any) -> None:
    """Dates where days since 1970 stand."""
    from matplotlib import dates

    # matplotlib leaves these two without types.
    untyped: Any = dates
    locator = untyped.AutoDateLocator(minticks=3)
    axis.set_major_locator(locator)
    axis.set_major_formatter(untyped.ConciseDateFormatter(locator))


def mark_missing(ax: Axes, ends: Array, which: str) -> None:
    """A line before the strip of missing numbers, and its name where ticks have theirs."""
    left, right = ends
    middle, before = (left + right) / 2.0, left - 0.35 * (right - left)
    if which == "x":
        ax.axvline(before, color=FAINT, lw=0.8, zorder=0)
        place: dict[str, Any] = {"xy": (middle, 0.0), "xycoords": ("data", "axes fraction")}
        place |= {"xytext": (0, -6), "ha": "center", "va": "top"}
    else:
        ax.axhline(before, color=FAINT, lw=0.8, zorder=0)
        place = {"xy": (0.0, middle), "xycoords": ("axes fraction", "data")}
        place |= {"xytext": (-6, 0), "ha": "right", "va": "center"}
    ax.annotate(MISSING_STRIP, textcoords="offset points", color=INK, fontsize=SMALL_SIZE, **place)
