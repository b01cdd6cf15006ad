"""Each plot returns the axes it drew on and a frame of what it drew.

Every plot takes plain arrays or frames and ``ax=None``: None makes a figure of its own
(``ax.figure.savefig(...)``), with room for the caption under the axes; in a figure of yours, make
it with ``layout="constrained"``. matplotlib is imported when a plot is drawn, not before; pyplot
never is.
"""

from localconformal.plots.bands import plot_bands, plot_comparison, plot_regions
from localconformal.plots.coverage import (
    plot_calibration,
    plot_feature_coverage,
    plot_group_coverage,
    plot_methods,
)
from localconformal.plots.rows import plot_length_error, plot_local_weights, plot_sorted

__all__ = [
    "plot_bands",
    "plot_calibration",
    "plot_comparison",
    "plot_feature_coverage",
    "plot_group_coverage",
    "plot_length_error",
    "plot_local_weights",
    "plot_methods",
    "plot_regions",
    "plot_sorted",
]
