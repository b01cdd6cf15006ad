"""From rows to means with standard errors, and from those to tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from benchmarks.harness import VERDICTS, Line, Output, Row
from localconformal.io.files import write_together
from localconformal.metrics import coverage_band


class Mean(NamedTuple):
    """A mean, its standard error (None for one repeat), and how many repeats are behind it."""

    value: float
    error: float | None
    repeats: int

    @property
    def margin(self) -> float:
        """Half of the 95 % interval of Student's t; 0 for one repeat, which has no error."""
        if self.error is None:
            return 0.0
        return float(stdtrit(self.repeats - 1, 0.975)) * self.error


def select(rows: Iterable[Row], **fields: Any) -> list[Row]:
    """Rows with these fields."""
    return [row for row in rows if all(row.get(name) == value for name, value in fields.items())]


def over_repeats(rows: Iterable[Row], value: str | Callable[[Row], Any]) -> Mean | None:
    """Mean over data sets within each repeat, then over repeats, whose spread is the error.

    Repeats that lack a data set that others have are left out, so that all means are over the
    same sets; rows without the value do not count. None where no repeat has them all.

    Examples
    --------
    >>> rows = [{"repeat": r, "dataset": d, "length": r + d} for r in (0, 1) for d in (1, 2)]
    >>> over_repeats(rows, "length")
    Mean(value=2.0, error=0.5, repeats=2)
    """
    get = value if callable(value) else lambda row: row.get(value)
    by_repeat: dict[Any, dict[Any, float]] = {}
    for row in rows:
        found = get(row)
        if found is not None:
            by_repeat.setdefault(row["repeat"], {})[row.get("dataset")] = float(found)
    every = {name for sets in by_repeat.values() for name in sets}
    whole = [np.mean(list(sets.values())) for sets in by_repeat.values() if sets.keys() == every]
    if not whole:
        return None
    error = float(np.std(whole, ddof=1) / np.sqrt(len(whole))) if len(whole) > 1 else None
    return Mean(float(np.mean(whole)), error, len(whole))


def in_per_cent(share: Mean | None) -> Mean | None:
    """A mean of shares, times 100."""
    if share is None:
        return None
    error = None if share.error is None else 100.0 * share.error
    return Mean(100.0 * share.value, error, share.repeats)


def below_bands(rows: Iterable[Row], level: float) -> list[Row]:
    """For each method, in how many cells coverage lies below its Beta-binomial band.

    A cell is one method on one split. By chance one in 40 is below its own 95 % band; the strict
    band divides the 5 % by the method's number of cells, so that none should be below it.
    """
    cells: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("coverage") is not None and "n_calibration" in row:
            cells.setdefault(row["method"], []).append(row)
    return [
        {
            "method": method,
            "cells": len(mine),
            "mean coverage": float(np.mean([row["coverage"] for row in mine])),
            "below 95 % band": count_below(mine, level, 0.95),
            "above": count_below(mine, level, 0.95, above=True),
            "below strict band": count_below(mine, level, 1.0 - 0.05 / len(mine)),
        }
        for method, mine in cells.items()
    ]


def count_below(cells: list[Row], level: float, probability: float, above: bool = False) -> int:
    """Cells whose coverage is below (or above) the band of this probability."""
    count = 0
    for row in cells:
        low, high = coverage_band(row["n_calibration"], row["n_test"], level, probability)
        count += row["coverage"] > high if above else row["coverage"] < low
    return count


def paired(rows: Iterable[Row], first: str, second: str, value: str) -> list[Row]:
    """Rows of the difference first - second of two methods, wherever both have a value."""
    known: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        place = (row.get("dataset"), row.get("model"), row["repeat"])
        known.setdefault(place, {})[row["method"]] = row
    found = []
    for both in known.values():
        a, b = (both.get(name, {}).get(value) for name in (first, second))
        if a is not None and b is not None:
            found.append({**both[first], "difference": a - b})
    return found


def difference(rows: Iterable[Row], first: str, second: str, value: str) -> Mean | None:
    """The mean difference of two methods on the same splits."""
    return over_repeats(paired(rows, first, second, value), "difference")


def log_ratio(rows: Iterable[Row], first: str, second: str) -> Mean | None:
    """100 log of a ratio of lengths on the same splits, about per cent.

    It has no unit, and in a mean of logarithms each data set counts alike.
    """
    logs = [{**row, "length": row.get("length") and np.log(row["length"])} for row in rows]
    return in_per_cent(difference(logs, first, second, "length"))


def relative(rows: Iterable[Row], base: Iterable[Row], field: str) -> list[Row]:
    """Rows with ``relative``: their field over that of the base row of the same task."""

    def task(row: Row) -> tuple[Any, ...]:
        return row.get("dataset"), row.get("model"), row["repeat"]

    known = {task(row): row.get(field) for row in base}
    return [
        {**row, "relative": row[field] / known[task(row)]}
        for row in rows
        if row.get(field) is not None and known.get(task(row))
    ]


def ratio(rows: Iterable[Row], base: Iterable[Row], field: str) -> Mean | None:
    """The mean of a field over that of the base, within tasks."""
    return over_repeats(relative(rows, base, field), "relative")


def excess(rows: Iterable[Row], base: Iterable[Row], field: str) -> Mean | None:
    """By how many per cent a field exceeds that of the base, within tasks."""
    pairs = relative(rows, base, field)
    return in_per_cent(over_repeats(pairs, lambda row: row["relative"] - 1.0))


def means_table(
    rows: Sequence[Row],
    places: Sequence[str] | Mapping[str, str],
    fields: Sequence[str],
    failures: bool = True,
) -> list[Row]:
    """Means over repeats of the fields, a row for each combination of the places.

    ``places`` are fields too, which a mapping renames; the last columns are how many repeats there
    are, and why a method failed.
    """
    table = []
    for values in dict.fromkeys(tuple(row[place] for place in places) for row in rows):
        mine = select(rows, **dict(zip(places, values, strict=True)))
        names = places.values() if isinstance(places, Mapping) else places
        entry: Row = dict(zip(names, values, strict=True))
        means = {field: over_repeats(mine, field) for field in fields}
        entry |= {field: mean and mean.value for field, mean in means.items()}
        entry["repeats"] = max((mean.repeats for mean in means.values() if mean), default=0)
        failed = [row["failed"][:100] for row in mine if "failed" in row]
        table.append({**entry, **({"failed": (failed or [""])[0]} if failures else {})})
    return table


MISSING = "–"


def shown(value: Any) -> str:
    """A cell: three digits after the point at most, a dash for None."""
    if value is None:
        return MISSING
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def with_error(line: Line) -> str:
    """Our value and its standard error."""
    if line.ours is None or line.error is None:
        return shown(line.ours)
    return f"{line.ours:.3f} ± {line.error:.3f}"


def markdown_table(rows: Sequence[Row]) -> str:
    """Columns in the order in which rows first have them."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, ["---"] * len(names)]
    cells += [[shown(row.get(name)) for name in names] for row in rows]
    return "".join("| " + " | ".join(row) + " |\n" for row in cells)


def line_rows(lines: Sequence[Line]) -> list[Row]:
    """Lines as rows to read."""
    return [
        {
            **line.of,
            "paper": line.paper,
            "ours ± standard error": with_error(line),
            "verdict": line.verdict,
            "reason": line.reason,
        }
        for line in lines
    ]


def verdict_counts(lines: Sequence[Line]) -> dict[str, int]:
    """How many lines have each verdict."""
    return {name: sum(line.verdict == name for line in lines) for name in VERDICTS}


def counted(lines: Sequence[Line]) -> str:
    """The verdicts that there are, with their numbers."""
    found = [f"{count} {name}" for name, count in verdict_counts(lines).items() if count]
    return ", ".join(found) or "no lines"


def markdown(title: str, output: Output) -> str:
    """The whole page."""
    parts = [f"# {title}\n", f"{len(output.lines)} lines: {counted(output.lines)}.\n"]
    parts += ["".join(f"- {note}\n" for note in output.notes)] if output.notes else []
    parts += [f"![{name}]({name})\n" for name in output.figures]
    parts += [markdown_table(line_rows(output.lines))] if output.lines else []
    for name, rows in output.tables.items():
        parts.append(f"## {name}\n\n{markdown_table(rows)}")
    return "\n".join(parts)


def write_output(name: str, title: str, output: Output, folder: Path) -> list[Path]:
    """``<name>.md`` and figures into the folder, all or none; all digits are in the store."""
    text = markdown(title, output)
    writers: dict[Path, Callable[[Path], object]] = {
        folder / f"{name}.md": lambda part: part.write_text(text, encoding="utf-8")
    }
    writers.update({folder / figure: draw for figure, draw in output.figures.items()})
    return write_together(writers)
