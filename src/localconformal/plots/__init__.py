"""Each plot returns the axes it drew on and a frame of what it drew.

``ax=None`` makes a new figure (``ax.figure.savefig(...)``); make your own with
``layout="constrained"``, which leaves room for the caption. matplotlib is imported only when a plot
is drawn, pyplot never.
"""

from localconformal.plots.bands import plot_bands, plot_comparison
from localconformal.plots.coverage import (
    plot_calibration,
    plot_feature_coverage,
    plot_group_coverage,
    plot_methods,
)
from localconformal.plots.rows import (
    plot_length_error,
    plot_local_weights,
    plot_sorted,
    plot_width,
)

__all__ = [
    "plot_bands",
    "plot_calibration",
    "plot_comparison",
    "plot_feature_coverage",
    "plot_group_coverage",
    "plot_length_error",
    "plot_local_weights",
    "plot_methods",
    "plot_sorted",
    "plot_width",
]
