"""Stored tasks run again: each must give the rows that the store has.

Networks are trained in float32, in thousands of steps that build on each other: on a processor
that rounds otherwise they come out as other networks. So their tasks are run again only on the
processor that the store names for them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    Case,
    Preset,
    about,
    finished,
    key,
    perform,
    processor,
    read_store,
)
from paper import EXPERIMENTS, load_experiment
from paper.models import NETWORK

#: How far numbers may be apart, relative to their size: sums in another order differ in their last
#: digits, and a chosen law may then end its search elsewhere.
CLOSE, CLOSE_AUTO, AUTO = 1e-9, 1e-2, "SLCP-auto"


def chosen(
    preset: Preset, folder: Path, share: float, seed: int, within: float | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """A random share of the finished tasks of each experiment, one at least, with their names.

    Tasks of networks that another processor trained are left out.

    ``within``: only of those that took at most so many seconds.
    """
    rng, found = np.random.default_rng(seed), []
    for name in EXPERIMENTS:
        path = folder / f"{name}.jsonl"
        records = finished(read_store(path, about(name, load_experiment(name), preset))).values()
        quick = [
            one
            for one in records
            if (within is None or one["seconds"] <= within)
            and (one["made"]["cpu"] == processor() or not has_networks(name, one["case"]))
        ]
        count = math.ceil(share * len(quick))
        places = sorted(rng.choice(len(quick), count, replace=False)) if quick else []
        found += [(name, quick[place]) for place in places]
    return found


def has_networks(name: str, case: Case) -> bool:
    """Whether a task of this experiment trains networks.

    Examples
    --------
    >>> has_networks("table1", {"model": "ridge"}), has_networks("capacity", {"hidden": 1})
    (False, True)
    """
    return name == "age" or "hidden" in case or case.get("model") == NETWORK


def again(name: str, record: dict[str, Any], preset: Preset) -> list[str]:
    """Run the task of a record again; what differs, in words."""
    experiment = load_experiment(name)
    # Seeds depend on the order of a case's fields, which a store sorts.
    cases = {key(case): case for case in experiment.cases(preset)}
    case = cases.get(key(record["case"]), record["case"])
    new = perform(experiment, case, preset, 0)
    if new["error"] is not None:
        return [new["error"]]
    return row_differences(record["rows"], new["rows"])


def row_differences(stored: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[str]:
    """Where rows differ, but for times.

    Examples
    --------
    >>> row_differences([{"length": 1.0, "seconds": 2}], [{"length": 1.0, "seconds": 3}])
    []
    >>> row_differences([{"method": "SLCP", "length": 1.0}], [{"method": "SLCP", "length": 1.1}])
    ['SLCP: length was 1.0, is 1.1']
    """
    if len(stored) != len(new):
        return [f"{len(stored)} rows stored; got {len(new)}"]
    found = []
    for old, one in zip(stored, new, strict=True):
        tolerance = CLOSE_AUTO if old.get("method") == AUTO else CLOSE
        for field in old.keys() | one.keys():
            a, b = old.get(field), one.get(field)
            if "seconds" not in field and not alike(a, b, tolerance):
                found.append(f"{old.get('method', 'row')}: {field} was {a}, is {b}")
    return found


def alike(a: Any, b: Any, tolerance: float) -> bool:
    """Equal, and numbers to the tolerance.

    Examples
    --------
    >>> alike([1.0, None], [1.0 + 1e-12, None], 1e-9), alike(1.0, None, 1e-9)
    (True, False)
    """
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, (float, int)):
        return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return bool(a == b)
