"""Point predictions: how good they are, and how they lie to what was observed."""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.audit.accuracy import Accuracy
from localconformal.metrics.coverage import is_covered
from localconformal.quantiles import Array
from localconformal.report.points import draw, one_option, say_drawn

MAX_PREDICTED = 200
#: The axis leaves out this share of the bounds at either end, but no prediction and no y.
OUTER = 0.005


def describe_predictions(found: Accuracy) -> list[str]:
    """How good they are, in sentences."""
    return [text for text in (found.warning, found.text) if text]


def predictions_chart(y: Array, bounds: Array, y_pred: Array, seed: int) -> dict[str, Any]:
    """What was observed against what was predicted, each row with its interval."""
    rows = draw(np.arange(len(y)), MAX_PREDICTED, seed)
    covered, (lower, upper) = is_covered(y, bounds)[rows], bounds[rows].T
    finite = bounds[rows][np.isfinite(bounds[rows])]
    reach = np.quantile(finite, [OUTER, 1.0 - OUTER]) if len(finite) else finite
    seen = np.concatenate([y[rows], y_pred[rows], reach])
    chart = one_option(
        "predictions",
        "Predicted and observed",
        "Each line is the interval of one row, at its prediction; each dot is its y. On the "
        "dashed line they are equal.",
        say_drawn(len(rows), len(y), seed),
        {
            "row": rows,
            "predicted": y_pred[rows],
            "observed": y[rows],
            "lower": lower,
            "upper": upper,
            "covered": covered,
        },
    )
    across = [float(y_pred[rows].min()), float(y_pred[rows].max())]
    return {**chart, "across": across, "ends": [float(seen.min()), float(seen.max())]}
