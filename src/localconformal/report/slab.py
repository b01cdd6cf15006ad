"""The worst slab, in words and as the weights of its direction."""

from __future__ import annotations

from typing import Any

from localconformal.audit import Audit
from localconformal.report.plain import CONDITIONS, LABEL, say_band, short
from localconformal.text import say_level, say_rows, say_share

MAX_WEIGHTS = 10


def describe_slab(audit: Audit) -> dict[str, Any]:
    """The worst slab in words, and the weights of its direction."""
    slab, confidence_level = audit.slab, audit.summary.confidence_level
    frame = sorted(zip(slab.columns, slab.direction, strict=True), key=lambda one: -abs(one[1]))
    used = [(short(name, LABEL), float(weight)) for name, weight in frame if weight != 0]
    lines = [
        "Of all slabs, that is, ranges of a weighted sum of features, the one that covers least "
        f"holds {short(audit.slab_text, CONDITIONS)}."
    ]
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
