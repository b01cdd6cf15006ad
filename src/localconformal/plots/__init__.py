"""One plot per file; each returns the axes it drew on and a frame of what it drew.

Every plot takes plain arrays or frames and ``ax=None``: None makes a figure of its own
(``ax.figure.savefig(...)``), with room for the caption under the axes; in a figure of yours, make
it with ``layout="constrained"``. matplotlib is imported when a plot is drawn, not before; pyplot
never is.
"""

from localconformal.plots.bands import bands_frame, plot_bands
from localconformal.plots.calibration import plot_calibration
from localconformal.plots.comparison import plot_comparison
from localconformal.plots.feature_coverage import plot_feature_coverage
from localconformal.plots.group_coverage import plot_group_coverage
from localconformal.plots.length_error import plot_length_error
from localconformal.plots.local_weights import plot_local_weights
from localconformal.plots.methods import plot_methods
from localconformal.plots.regions import plot_regions, regions_frame
from localconformal.plots.sorted_intervals import plot_sorted

__all__ = [
    "bands_frame",
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
    "regions_frame",
]
