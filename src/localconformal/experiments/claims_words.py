"""Means of differences, and the sentences that say them; every number comes from rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from localconformal.experiments.experiment import Row
from localconformal.experiments.paper._ablation import relative
from localconformal.experiments.summary import Mean, in_per_cent, over_repeats, paired, select

SLCP, AUTO = "SLCP", "SLCP-auto"
DEFAULTS = "this library's defaults"


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Values of a field, each once, in the order in which they come."""
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def difference(rows: list[Row], first: str, second: str, field: str) -> Mean | None:
    """Mean of first - second on the same rows."""
    return over_repeats(paired(rows, first, second, field), "difference")


def per_cent_longer(rows: list[Row], base: list[Row], field: str = "length") -> Mean | None:
    """How much longer the intervals of the rows are than those of the base rows of the task."""
    pairs = relative(rows, base, field)
    return in_per_cent(over_repeats(pairs, lambda row: row["relative"] - 1.0))


def say(mean: Mean, digits: int = 2) -> str:
    """A mean and its standard error.

    Examples
    --------
    >>> say(Mean(1.234, 0.056, 5)), say(Mean(1.0, None, 1))
    ('1.23 ± 0.06', '1.00')
    """
    error = "" if mean.error is None else f" ± {mean.error:.{digits}f}"
    return f"{mean.value:.{digits}f}{error}"


def signed(mean: Mean, digits: int = 2) -> str:
    """The same with its sign, for a change."""
    return f"{'+' if mean.value >= 0 else ''}{say(mean, digits)}"


def auto_sentence(
    groups: Mapping[str, list[Row]], field: str, what: str, scale: float = 1.0
) -> str:
    """What the library's defaults change, in each group of rows."""
    parts = []
    for name, rows in groups.items():
        pairs = paired(rows, AUTO, SLCP, field)
        change = over_repeats(pairs, lambda row: scale * row["difference"])
        ours = over_repeats(pairs, lambda row: scale * row[field])
        if change is not None and ours is not None:
            parts.append(f"{ours.value:.2f} on {name} ({signed(change)} from SLCP's)")
    return f"With {DEFAULTS} {what} is " + ", ".join(parts) + "." if parts else ""


def by(rows: list[Row], name: str) -> dict[Any, list[Row]]:
    """Rows by the value of a field."""
    return {value: select(rows, **{name: value}) for value in distinct(rows, name)}


def auto_longer(groups: Mapping[str, list[Row]], base: str, **fields: Any) -> str | None:
    """How the lengths of the defaults differ from those of a base method."""
    parts = []
    for name, rows in groups.items():
        longer = per_cent_longer(select(rows, method=AUTO), select(rows, method=base, **fields))
        if longer:
            parts.append(f"{signed(longer)} % on {name} ({longer.repeats} repeats)")
    return f"Lengths with {DEFAULTS} differ from these by {', '.join(parts)}." if parts else None


def over_models(rows: Iterable[Row]) -> list[Row]:
    """Rows whose data set names the model too: means then are over both."""
    return [{**row, "dataset": f"{row.get('dataset')}, {row.get('model')}"} for row in rows]
