"""The colours and lines that all plots share."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING

import numpy as np

from localconformal.text import say_tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

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
    """Only the frame lines that carry a scale, in a quiet colour; numbers as people write them."""
    for axis in (ax.xaxis, ax.yaxis):
        spell_ticks(axis)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        ax.spines[side].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=9, color=FAINT)


def spell_ticks(axis: Axis) -> None:
    """Thousands apart, and no power of ten beside the axis; dates, labels and shares stay."""
    from matplotlib.ticker import Formatter, ScalarFormatter

    def spell(value: float, _: float) -> str:
        steps = np.diff(axis.get_majorticklocs())
        return Formatter.fix_minus(say_tick(value, float(steps.min(initial=np.inf))))

    if isinstance(axis.get_major_formatter(), ScalarFormatter):
        axis.set_major_formatter(spell)


def in_percent(axis: Axis) -> None:
    """Ticks at shares, in per cent."""
    axis.set_major_formatter(lambda share, _: f"{100 * share:g}")
