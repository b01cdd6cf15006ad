"""One plot per file; each draws on the axes it is given and returns its data as a frame.

matplotlib is imported when a plot is drawn, not before; pyplot never is.
"""

from localconformal.plots.bands import bands_frame, plot_bands
from localconformal.plots.comparison import plot_comparison
from localconformal.plots.regions import plot_regions, regions_frame

__all__ = ["bands_frame", "plot_bands", "plot_comparison", "plot_regions", "regions_frame"]
