"""What all plots share: axes and their text, colours, rows drawn, one feature on an axis."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle, islice
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from localconformal.audit.cells import say_value
from localconformal.columns import (
    DURATION,
    LABEL,
    MISSING,
    MISSING_NAME,
    TIME,
    Column,
    place_of,
    read_columns,
)
from localconformal.metrics.intervals import is_empty, is_infinite, open_end
from localconformal.quantiles import Array
from localconformal.rows import columns_of, is_frame, table_names
from localconformal.text import one_line, say_rows, say_tick, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

INK = "#2b2d42"
FAINT, POINT, MISS = "#c9ccd6", "#8d93a5", "#d62246"
#: Colours that colour-blind readers can tell apart, in the order in which methods are drawn.
_METHOD_COLOURS = ("#0f7b6c", "#3566b8", "#e08a1e", "#8e4ea8", "#5b6770")
MAIN, SECOND = _METHOD_COLOURS[:2]
#: Line style of ideals: the promised level, the diagonal, the true quantiles.
IDEAL = (0, (4, 2))
#: Light for low, dark for high values; also in grey and for colour-blind readers.
WEIGHT_COLOURS = "viridis_r"
LABEL_SIZE, SMALL_SIZE, POINTS_PER_INCH = 9.5, 8.5, 72.0
#: Mean width of a letter as a share of the font size; also for labels side by side on an axis.
_LETTER, _LETTERS_PER_INCH = 0.54, 14.0
#: More points than this hide one another, and take long to draw.
MAX_POINTS = 5000
#: Labels with their own strip, one unit apart and twice this wide; the others share one.
_MAX_STRIPS, _HALF_STRIP, OTHER_STRIP = 12, 0.38, "other labels"
_SECONDS_PER_DAY = 86_400.0


def method_colours(n: int) -> list[str]:
    """One colour for each of n methods."""
    return list(islice(cycle(_METHOD_COLOURS), n))


def clean(ax: Axes) -> None:
    """Keep only the frame lines with a scale, in a muted colour; numbers as people write them."""
    from matplotlib.ticker import Formatter, ScalarFormatter

    def spell(axis: Axis, value: float, _: float) -> str:
        steps = np.diff(axis.get_majorticklocs())
        return Formatter.fix_minus(say_tick(value, float(steps.min(initial=np.inf))))

    for axis in (ax.xaxis, ax.yaxis):
        # Dates, labels and shares are already formatted.
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_formatter(partial(spell, axis))
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=9, color=FAINT)


def finish(ax: Axes, x: str, y: str, **legend: Any) -> None:
    """A clean frame, names of both axes, and a legend if its options are given."""
    clean(ax)
    name_axes(ax, x, y)
    if legend:
        add_legend(ax, **legend)


def in_percent(axis: Axis) -> None:
    """Ticks at shares, in per cent."""
    axis.set_major_formatter(lambda share, _: f"{100 * share:g}")


def make_axes(ax: Axes | None, size: tuple[float, float] = (6.4, 4.2)) -> Axes:
    """The axes given, or those of a new figure."""
    return make_panels(ax, 1, size)[0]


def make_panels(ax: Any, n: int, size: tuple[float, float], **layout: Any) -> list[Axes]:
    """The n axes given, or n in a row of a new figure that pyplot does not know."""
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        return list(figure.subplots(1, n, squeeze=False, **layout)[0])
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != n:
        raise ValueError(f"ax: got {len(given)} axes; expected {n}: pass figure.subplots(1, {n}).")
    return given


def plain(text: Any, most: int = 32) -> str:
    r"""Text from data for display: on one line, not too long, never as mathematics.

    >>> print(plain("a $x_1$\n b"), plain("_hidden"), plain("long" * 20, most=10))
    a \$x_1\$ b  _hidden longlo…ong
    """
    line = shorten(one_line(text, sys.maxsize) or "(empty)", most)
    # Labels with a leading underscore are left out of legends.
    return (" " if line.startswith("_") else "") + line.replace("$", r"\$")


def caption(ax: Axes, sentences: Sequence[str], n_panels: int = 1) -> None:
    """Write what the plot is based on under the x axes of ``n_panels`` panels, ``ax`` first."""
    if not (text := " ".join(filter(None, sentences))):
        return
    letters = int(n_panels * panel_inches(ax) * POINTS_PER_INCH / (_LETTER * SMALL_SIZE))
    look: dict[str, Any] = {"va": "top", "fontsize": SMALL_SIZE, "color": INK, "gid": "caption"}
    look |= {"xycoords": (ax.yaxis.label, ax.xaxis.label), "textcoords": "offset points"}
    note = ax.annotate(fill(text, max(letters, 24)), (0, 0), (3, -5), annotation_clip=False, **look)

    def room_below(renderer: Any = None) -> Any:
        from matplotlib.transforms import Bbox

        words, axes = note.get_window_extent(renderer), ax.get_window_extent(renderer)
        return Bbox([[axes.x0, words.y0], [axes.x1, words.y1]])

    # The layout should leave room below, not move panels aside.
    note.get_tightbbox = room_below  # type: ignore[method-assign]


def panel_inches(ax: Axes) -> float:
    """How wide the panel of these axes is, including labels."""
    width: float = ax.figure.bbox.width / ax.figure.dpi
    place = ax.get_subplotspec()
    return width if place is None else width * len(place.colspan) / place.get_gridspec().ncols


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Labels of both axes."""
    ax.set_xlabel(x, color=INK, fontsize=LABEL_SIZE)
    ax.set_ylabel(y, color=INK, fontsize=LABEL_SIZE)


def add_legend(ax: Axes, **options: Any) -> None:
    """An unobtrusive legend, if anything has a name."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles, labels, frameon=False, fontsize=SMALL_SIZE, labelcolor=INK, **options)


def extent(*values: Array) -> tuple[float, float]:
    """The ends of an axis on which all finite values fit, with a little room."""
    known = np.concatenate([v[np.isfinite(v)] for v in map(np.ravel, values)])
    if len(known) == 0:
        return -1.0, 1.0
    low, high = float(known.min()), float(known.max())
    # Halved before subtracting: the difference of the ends could overflow.
    room = 0.1 * (high / 2.0 - low / 2.0) or 0.5 * max(1.0, abs(high))
    return low - room, high + room


def drawable(bounds: Array, low: float, high: float) -> Array:
    """Bounds (n, 2) cut to the axis; NaN if the interval is empty."""
    cut = np.clip(bounds, low, high)
    cut[is_empty(bounds)] = np.nan
    return cut


def say_odd(bounds: Array, infinite: str = "drawn to the edge") -> str:
    """Sentences on intervals (n, 2) that are infinite, empty or one-sided, if any are."""
    endless, empty = int(is_infinite(bounds).sum()), int(is_empty(bounds).sum())
    one = f"All have one bound; they are infinite at the other end, {infinite}. "
    return one * (open_end(bounds) is not None) + " ".join(
        f"{count:,} of {len(bounds):,} intervals {'is' if count == 1 else 'are'} {what}."
        for count, what in ((endless, f"infinite, {infinite}"), (empty, "empty and not drawn"))
        if count
    )


def check_packages(plot: str) -> None:
    """Before anything is computed, say how to install packages that are missing."""
    if missing := " and ".join(n for n in ("matplotlib", "pandas") if find_spec(n) is None):
        how = "run pip install 'localconformal[plots]'"
        raise ImportError(f"{plot} needs {missing}, not installed here: {how}.")


def drawn_rows(n: int, max_points: int, random_state: int) -> NDArray[np.intp]:
    """All rows, or ``max_points`` of them at random, ascending."""
    if max_points < 1:
        raise ValueError(f"max_points: got {max_points}; expected at least 1.")
    if n <= max_points:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, max_points, replace=False))


def say_drawn(n_drawn: int, n: int, which: str = "at random") -> str:
    """A sentence on rows that are counted but not drawn, if there are any."""
    return "" if n_drawn == n else f"{n_drawn:,} of {n:,} rows drawn, {which}."


def say_lost(n: int) -> str:
    """A sentence on rows without the number on the axis, if there are any."""
    return f"Not drawn because the feature is missing: {say_rows(n)}." if n else ""


@dataclass(frozen=True, eq=False)
class Feature:
    """A column of n rows as shown on an axis.

    A strip is a section of the axis for one label, missing ones last, or for one of a few frequent
    numbers; its rows are drawn side by side. ``numbers`` (n,), with times in days, are NaN for
    labels and missing values; ``strip`` (n,) is the index among ``strips``, -1 for rows at their
    number.
    """

    name: str
    kind: str
    numbers: Array
    strip: NDArray[np.intp]
    strips: tuple[str, ...] = ()

    def take(self, rows: NDArray[np.intp]) -> Feature:
        """Some of the rows, on the same axis."""
        return replace(self, numbers=self.numbers[rows], strip=self.strip[rows])

    @property
    def values(self) -> NDArray[Any]:
        """The value of each row for a frame: a number, a time or the text of a label."""
        if self.kind == LABEL:
            return np.array(self.strips, dtype=object)[self.strip]
        if self.kind == TIME:
            lost = np.isnan(self.numbers)
            seconds = np.rint(np.where(lost, 0.0, self.numbers) * _SECONDS_PER_DAY)
            return np.where(lost, np.datetime64("NaT", "s"), seconds.astype("datetime64[s]"))
        return self.numbers

    def positions(self, order_by: NDArray[Any] | None = None) -> Array:
        """Position of each row on the axis (n,), NaN if missing; in a strip by ``order_by``."""
        place = self.numbers.copy()
        for s in range(len(self.strips)):
            rows = np.flatnonzero(self.strip == s)
            if order_by is not None:
                rows = rows[np.argsort(order_by[rows], kind="stable")]
            share = (np.arange(len(rows)) + 0.5) / max(len(rows), 1)
            place[rows] = s + _HALF_STRIP * (2.0 * share - 1.0)
        return place


def read_feature(X: Any, n: int, name: str | None = None) -> Feature:
    """One column of n rows: an array (n,) or (n, 1), a series or a frame."""
    column = read_one_column(X, n, name)
    known = column.codes != MISSING
    numbered = known.any() and column.kind != LABEL
    if numbered and not len(column.values) <= _MAX_STRIPS < known.sum():
        numbers = column.numbers / (_SECONDS_PER_DAY if column.kind == TIME else 1.0)
        name = f"{column.name} (s)" if column.kind == DURATION else column.name
        return Feature(name, column.kind, numbers, np.full(n, -1))
    # Frequent labels, or the few numbers; then labels that share a strip; then missing ones.
    names = column.labels or [say_value(value, column.kind) for value in column.values]
    counts = np.bincount(column.codes[known])
    n_own = len(counts) if len(counts) <= _MAX_STRIPS else _MAX_STRIPS - 1
    labels = [*names, OTHER_STRIP][:n_own] + [OTHER_STRIP] * (n_own < len(counts))
    strip = np.minimum(column.codes, n_own).astype(np.intp)
    if column.n_missing:
        strip[~known] = len(labels)
        labels.append(MISSING_NAME)
    return Feature(column.name, LABEL, np.full(len(strip), np.nan), strip, tuple(labels))


def read_one_column(X: Any, n: int, name: str | None = None) -> Column:
    """The column and its name, from the series or frame, or "x"."""
    columns = read_columns(X, n)
    if len(columns) != 1:
        raise ValueError(f"X: got {len(columns)} columns; expected one feature, (n,) or (n, 1).")
    own_name = table_names(X)[0] if is_frame(X) else getattr(X, "name", None)
    return replace(columns[0], name=str(name or own_name or "x"))


def pick_feature(X: Any, feature: int | str) -> Feature:
    """A column of an array or frame, by position or name."""
    place = place_of(X, feature, "feature")
    if is_frame(X):
        return read_feature(columns_of(X)[place].to_frame().to_native(), len(X))
    return read_feature(np.asarray(X)[:, place], len(X), f"x{place}")


def dress_axis(ax: Axes, feature: Feature) -> None:
    """Name, limits and ticks of the x axis that shows the feature."""
    ax.set_xlabel(plain(feature.name), color=INK, fontsize=LABEL_SIZE)
    if feature.kind == LABEL:
        ax.set_xticks(np.arange(len(feature.strips)), [plain(text, 12) for text in feature.strips])
        ax.set_xlim(-_HALF_STRIP - 0.2, len(feature.strips) - 1.0 + _HALF_STRIP + 0.2)
        letters = sum(min(len(text), 12) + 2 for text in feature.strips)
        if letters > _LETTERS_PER_INCH * (panel_inches(ax) - 0.8):
            ax.tick_params(axis="x", rotation=30)
            for label in ax.xaxis.get_majorticklabels():
                label.set(ha="right", rotation_mode="anchor")
        return
    ax.locator_params(axis="x", nbins=max(3, int(1.3 * panel_inches(ax))))
    low, high = float(np.nanmin(feature.numbers)), float(np.nanmax(feature.numbers))
    room = 0.03 * (high - low) or 0.5
    ax.set_xlim(low - room, high + room)
    if feature.kind == TIME:
        # matplotlib leaves its dates without types.
        dates: Any = import_module("matplotlib.dates")
        ax.xaxis.set_major_locator(locator := dates.AutoDateLocator(minticks=3))
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
