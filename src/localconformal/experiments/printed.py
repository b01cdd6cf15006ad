"""What the paper prints, as read from ``expected.json``."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def printed() -> dict[str, Any]:
    """Every number of the paper, by table.

    Lengths are means with the response divided by the mean of its absolute value; coverage is
    in per cent, to reach 90.

    Examples
    --------
    >>> printed()["table1"]["ridge"]["SLCP"]
    [2.12, 90.82, 0.45]
    """
    text = files("localconformal.experiments").joinpath("expected.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
