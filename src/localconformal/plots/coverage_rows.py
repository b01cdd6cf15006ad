"""Coverage of parts of the rows, one line each: a dot, its exact band and the level promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from localconformal.plots.canvas import (
    POINTS_PER_INCH,
    caption,
    make_axes,
    name_axes,
    panel_inches,
    plain,
)
from localconformal.plots.style import (
    IDEAL,
    INK,
    MISS,
    POINT,
    SECOND,
    SMALL_SIZE,
    clean,
    in_percent,
)
from localconformal.text import say_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINES, MAX_LETTERS, LETTERS_PER_INCH = 30, 36, 5.6
UNDER, WITHIN, OVER = "below the level", "band holds the level", "above the level"
#: name -> (colour, marker): told apart without colour too.
VERDICTS = {UNDER: (MISS, "v"), WITHIN: (POINT, "o"), OVER: (SECOND, "^")}


def draw_coverage_rows(
    ax: Axes | None, frame: Any, title: str, probability: float, notes: list[str]
) -> Axes:
    """Lines from the first row of the frame, at the top, to the last.

    The frame has the columns of `group_coverage`: group, n, coverage, lower, upper,
    confidence_level.
    """
    ax = make_axes(ax, (6.4, 1.5 + 0.29 * len(frame)))
    level, place = frame["confidence_level"].iloc[0], np.arange(len(frame))
    named = verdicts(frame)
    for verdict, (colour, marker) in VERDICTS.items():
        chosen = named == verdict
        part = frame[chosen]
        if len(part):
            ax.hlines(place[chosen], part["lower"], part["upper"], color=colour, lw=2.2, alpha=0.6)
            ax.scatter(
                part["coverage"], place[chosen], s=34, color=colour, marker=marker, lw=0, zorder=3
            )
    ax.axvline(level, color=INK, lw=1.0, ls=IDEAL, zorder=0)
    dress(ax, frame, title)
    text = (
        f"Bars: exact {say_level(probability)} bands, each on its own. Dashed: the level, "
        f"{say_level(level)}. Below it ▼: {np.sum(named == UNDER)} of {len(frame)}; above ▲: "
        f"{np.sum(named == OVER)}."
    )
    caption(ax, [text, *notes])
    return ax


def dress(ax: Axes, frame: Any, title: str) -> None:
    """Ticks, names, and how many rows each line rests on."""
    level = frame["confidence_level"].iloc[0]
    low = min(level - 0.02, float(frame["lower"].min()))
    ax.set_xlim(max(low - 0.03 * (1.0 - low), -0.01), 1.0 + 0.01)
    ax.set_ylim(len(frame) - 0.4, -0.6)
    most = int(np.clip(LETTERS_PER_INCH * panel_inches(ax), 8, MAX_LETTERS))
    labels = [plain(label, most) for label in frame["group"]]
    ax.set_yticks(np.arange(len(frame)), labels)
    in_percent(ax.xaxis)
    size = fitting_size(ax, len(frame))
    for place, n in enumerate(frame["n"]):
        write_beside(ax, place, f"{n:,}", size)
    ax.annotate(
        "rows", (1.0, 1.0), (8, 2), "axes fraction", "offset points",
        color=INK, fontsize=SMALL_SIZE, va="bottom",
    )  # fmt: skip
    clean(ax)
    ax.tick_params(axis="y", length=0, labelsize=size)
    ax.locator_params(axis="x", nbins=max(2, int(1.5 * panel_inches(ax))))
    name_axes(ax, "coverage, %", plain(title))


def fitting_size(ax: Axes, n_lines: int) -> float:
    """A font for as many lines as the axes are to hold."""
    points = ax.get_window_extent().height / ax.figure.dpi * POINTS_PER_INCH / n_lines
    return float(np.clip(0.8 * points, 4.0, SMALL_SIZE))


def write_beside(ax: Axes, place: float, text: str, size: float = SMALL_SIZE) -> None:
    """A number to the right of a line, clear of marks at the edge."""
    ax.annotate(
        text, (1.0, place), (8, 0), ("axes fraction", "data"), "offset points",
        va="center", color=INK, fontsize=size, annotation_clip=False,
    )  # fmt: skip


def verdicts(frame: Any) -> Any:
    """Which side of the level each band lies on: (n,) names in `VERDICTS`."""
    level = frame["confidence_level"]
    return np.select([frame["upper"] < level, frame["lower"] > level], [UNDER, OVER], WITHIN)


def most_frequent(frame: Any) -> tuple[Any, list[str]]:
    """The lines that fit, in their order, those of the most rows; and a sentence on the rest."""
    if len(frame) <= MAX_LINES:
        return frame, []
    kept = frame.nlargest(MAX_LINES, "n").index.sort_values()
    said = f"Shown: the {MAX_LINES} of {len(frame):,} with the most rows."
    return frame.loc[kept].reset_index(drop=True), [said]
