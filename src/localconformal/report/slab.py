"""The worst slab, in words and as the weights of its direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localconformal.metrics import WorstSlab
from localconformal.report.plain import LABEL, say_band, say_level, say_rows, say_share, short

MAX_WEIGHTS = 10


def describe_slab(slab: WorstSlab, confidence_level: float) -> dict[str, Any]:
    """The worst slab in words, and the weights of its direction."""
    frame = sorted(zip(slab.columns, slab.direction, strict=True), key=lambda one: -abs(one[1]))
    used = [(short(name, LABEL), float(weight)) for name, weight in frame if weight != 0]
    lines = [say_slab(slab, used)]
    if slab.n:
        lines.append(
            f"Of {say_rows(slab.n)} in it that did not find it {say_share(slab.coverage)} "
            f"({say_band(slab)}) are covered; the target is {say_level(confidence_level)}. Of the "
            f"{say_rows(slab.found_n)} that found it {say_share(slab.found_coverage)} were, which "
            "is low by construction."
        )
    else:
        lines.append("No other row lies in it, so that nothing can be said of its coverage.")
    shown = used[:MAX_WEIGHTS]
    chart = {
        "kind": "bars",
        "title": "Weights of its direction",
        "lead": "Of the features in units of their standard deviation.",
        "note": f"The {MAX_WEIGHTS} largest of {len(used):,}." if len(used) > MAX_WEIGHTS else "",
        "options": [
            {
                "label": "",
                "columns": {"label": [n for n, _ in shown], "weight": [w for _, w in shown]},
            }
        ],
    }
    return {"lines": lines, "chart": chart if len(used) > 1 else None}


def say_slab(slab: WorstSlab, used: Sequence[tuple[str, float]]) -> str:
    """Which rows it holds."""
    sought = "Of all slabs, that is, ranges of a weighted sum of features, "
    if len(used) == 1:
        name = used[0][0]
        low, high = sorted((used[0][1] * slab.low, used[0][1] * slab.high))
        return (
            f"{sought}the one that covers least is along a single column, {name}, from {low:.3g} "
            f"to {high:.3g} standard deviations of its mean."
        )
    return (
        f"{sought}the one that covers least lies along a direction of {len(used)} columns, from "
        f"{slab.low:.3g} to {slab.high:.3g}."
    )
