"""The colours and lines that all plots share."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#2b2d42"
FAINT = "#c9ccd6"
POINT = "#8d93a5"
MISS = "#d62246"
#: Told apart by colour-blind readers too; in the order in which methods are drawn.
METHOD_COLOURS = ("#0f7b6c", "#3566b8", "#e08a1e", "#8e4ea8", "#5b6770")
MAIN, SECOND = METHOD_COLOURS[:2]
#: Of the level that was promised, the diagonal, the true quantiles: what is ideal.
IDEAL = (0, (4, 2))
#: Light for little, dark for much; even in grey and for colour-blind readers.
WEIGHT_COLOURS = "viridis_r"
LABEL_SIZE, SMALL_SIZE = 9.5, 8.5


def method_colours(n: int) -> list[str]:
    """One colour for each of n methods."""
    return list(islice(cycle(METHOD_COLOURS), n))


def clean(ax: Axes) -> None:
    """Only the frame lines that carry a scale, in a quiet colour."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        ax.spines[side].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=9, color=FAINT)
