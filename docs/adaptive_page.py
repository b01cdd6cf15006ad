"""The image of docs/guide/adaptive.md: that of examples/plot_adaptive.py."""

import runpy
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
DOCS = Path(__file__).parent

if __name__ == "__main__":
    drawn = runpy.run_path(str(DOCS.parent / "examples" / "plot_adaptive.py"))
    drawn["plt"].savefig(DOCS / "images" / "adaptive.png", dpi=100)
