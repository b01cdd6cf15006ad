"""Methods by the paper's names, one file each: ``make(models, seed, preset)`` -> a regressor.

It comes unfitted; `localconformal.experiments.objective.try_method` trains it on the training
rows, calibrates it on the calibration rows and measures it on the test rows.
"""

from collections.abc import Callable
from typing import Any

from localconformal.experiments.methods import (
    cdsplit,
    cqr,
    distsplit,
    lcp,
    lvd,
    madsplit,
    slcp,
    slcp_auto,
    split,
)
from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset

Make = Callable[[Models, int, Preset], Any]

METHODS: dict[str, Make] = {
    "SLCP": slcp.make,
    "CQR": cqr.make,
    "LCP": lcp.make,
    "MADSplit": madsplit.make,
    "MADSplit, code's constant": madsplit.make_as_in_code,
    "DistSplit": distsplit.make,
    "CDSplit": cdsplit.make,
    "LVD": lvd.make,
    "split": split.make,
    "SLCP-auto": slcp_auto.make,
}

__all__ = ["METHODS", "Make"]
