"""An output as files: Markdown to read, CSV to compute with, and the figures."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from localconformal.experiments.experiment import NOT_CLEAR, VERDICTS, Line, Output, Row
from localconformal.files import write_together

MISSING, UNCERTAIN = "–", "of these not clear"


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
    """How many lines have each verdict, and of how many our own uncertainty is the reason."""
    counts = {name: sum(line.verdict == name for line in lines) for name in VERDICTS}
    return {**counts, UNCERTAIN: sum(line.reason.startswith(NOT_CLEAR) for line in lines)}


def markdown(title: str, output: Output) -> str:
    """The whole page."""
    counts = ", ".join(f"{n} {name}" for name, n in verdict_counts(output.lines).items())
    parts = [f"# {title}\n", f"{len(output.lines)} lines: {counts}.\n"]
    parts += ["".join(f"- {note}\n" for note in output.notes)] if output.notes else []
    parts += [f"![{name}]({name})\n" for name in output.figures]
    parts += [markdown_table(line_rows(output.lines))] if output.lines else []
    for name, rows in output.tables.items():
        parts.append(f"## {name}\n\n{markdown_table(rows)}")
    return "\n".join(parts)


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """All digits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def csv_rows(lines: Sequence[Line]) -> list[Row]:
    """Lines as rows to compute with."""
    return [
        {
            **line.of,
            "paper": line.paper,
            "ours": line.ours,
            "standard_error": line.error,
            "verdict": line.verdict,
            "reason": line.reason,
        }
        for line in lines
    ]


def write_output(name: str, title: str, output: Output, folder: Path) -> list[Path]:
    """``<name>.md``, ``<name>.csv`` (the lines) and figures into the folder, all or none."""
    text = markdown(title, output)
    writers: dict[Path, Callable[[Path], object]] = {
        folder / f"{name}.md": lambda part: part.write_text(text, encoding="utf-8"),
        folder / f"{name}.csv": partial(write_csv, csv_rows(output.lines)),
    }
    writers.update({folder / figure: draw for figure, draw in output.figures.items()})
    return write_together(writers)
