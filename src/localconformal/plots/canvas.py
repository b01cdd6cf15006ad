"""Axes of a figure of their own, the words on them, and what fits between their edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from localconformal.metrics.size import is_empty, lengths
from localconformal.plots.style import INK, LABEL_SIZE, SMALL_SIZE
from localconformal.quantiles import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Mean width of a letter, as a share of the size of the font.
LETTER = 0.54
POINTS_PER_INCH = 72.0
CAPTION = "caption"


def make_axes(ax: Axes | None, size: tuple[float, float] = (6.4, 4.2)) -> Axes:
    """The axes given, or those of a new figure, which pyplot does not know of."""
    return make_panels(None if ax is None else [ax], 1, size)[0]


def make_panels(ax: Any, n: int, size: tuple[float, float], **layout: Any) -> list[Axes]:
    """The n axes given, or n in a line of a new figure."""
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        return list(figure.subplots(1, n, squeeze=False, **layout)[0])
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != n:
        raise ValueError(
            f"ax has {len(given)} axes; {n} were expected: pass figure.subplots(1, {n}), or None."
        )
    return given


def plain(text: Any, most: int = 32) -> str:
    r"""Text from data as it is to be read: in one line, not too long, never as mathematics.

    Examples
    --------
    >>> print(plain("a $x_1$\n b"), plain("_hidden"), plain("long" * 20, most=10))
    a \$x_1\$ b  _hidden longlongl…
    """
    line = " ".join(str(text).split()) or "(empty)"
    # No font has a picture of them, and no SVG may hold some of them.
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    line = line if len(line) <= most else line[: most - 1] + "…"
    # Labels with a leading underscore are left out of legends.
    return (" " if line.startswith("_") else "") + line.replace("$", r"\$")


def caption(ax: Axes, sentences: Sequence[str], n_panels: int = 1) -> None:
    """What the picture rests on, under the x axis, from the left of the y axis' label on.

    It is as wide as ``n_panels`` panels of the figure: those from ``ax`` on.
    """
    text = " ".join(sentence for sentence in sentences if sentence)
    if not text:
        return
    letters = int(n_panels * panel_inches(ax) * POINTS_PER_INCH / (LETTER * SMALL_SIZE))
    note = ax.annotate(
        fill(text, max(letters, 24)),
        xy=(0.0, 0.0),
        xycoords=(ax.yaxis.label, ax.xaxis.label),
        xytext=(3, -5),
        textcoords="offset points",
        va="top",
        fontsize=SMALL_SIZE,
        color=INK,
        gid=CAPTION,
        annotation_clip=False,
    )
    # The layout is to keep room below, not to move panels aside for it.
    note.get_tightbbox = partial(room_below, note, ax)  # type: ignore[method-assign]


def panel_inches(ax: Axes) -> float:
    """How wide the panel of these axes is, labels and all."""
    width: float = ax.figure.bbox.width / ax.figure.dpi
    place = ax.get_subplotspec()
    return width if place is None else width * len(place.colspan) / place.get_gridspec().ncols


def room_below(note: Any, ax: Axes, renderer: Any = None) -> Any:
    """The height of a caption, within the width of its axes."""
    from matplotlib.transforms import Bbox

    words, axes = note.get_window_extent(renderer), ax.get_window_extent(renderer)
    return Bbox([[axes.x0, words.y0], [axes.x1, words.y1]])


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Labels of both axes."""
    ax.set_xlabel(x, color=INK, fontsize=LABEL_SIZE)
    ax.set_ylabel(y, color=INK, fontsize=LABEL_SIZE)


def add_legend(ax: Axes, **options: Any) -> None:
    """A quiet legend, where anything has a name."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles, labels, frameon=False, fontsize=SMALL_SIZE, labelcolor=INK, **options)


def extent(*values: Array) -> tuple[float, float]:
    """The ends of an axis on which all finite values fit, with a little room."""
    finite = [v[np.isfinite(v)] for v in map(np.ravel, values)]
    known = np.concatenate(finite)
    if len(known) == 0:
        return -1.0, 1.0
    low, high = float(known.min()), float(known.max())
    # Halved before the difference: the ends may be as far apart as numbers go.
    room = 0.1 * (high / 2.0 - low / 2.0) or 0.5 * max(1.0, abs(high))
    return low - room, high + room


def drawable(bounds: Array, low: float, high: float) -> Array:
    """Bounds (n, 2) cut to the axis; missing where the interval is empty."""
    cut = np.clip(bounds, low, high)
    cut[is_empty(bounds)] = np.nan
    return cut


def say_odd(bounds: Array, infinite: str = "drawn to the edge") -> str:
    """A sentence on intervals (n, 2) that are infinite or empty, if any are."""
    endless, empty = int(np.isinf(lengths(bounds)).sum()), int(is_empty(bounds).sum())
    return " ".join(
        f"{count:,} of {len(bounds):,} intervals {'is' if count == 1 else 'are'} {what}."
        for count, what in ((endless, f"infinite, {infinite}"), (empty, "empty, and not drawn"))
        if count
    )
