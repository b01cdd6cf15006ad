"""Curves over a setting, one a method, with the 95 % margins of their means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localconformal.experiments.summary import Mean


@dataclass(frozen=True)
class Curves:
    """What a figure shows: name -> [(place, mean)], its axes, and a level to be reached."""

    curves: dict[str, list[tuple[float, Mean]]]
    x_label: str
    y_label: str
    level: float | None = None
    log: bool = False

    def draw(self, path: Path) -> None:
        """As a PNG into the path."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, points in self.curves.items():
            places = [place for place, _ in points]
            spread = [mean.margin for _, mean in points]
            axes.errorbar(
                places, [mean.value for _, mean in points], spread, marker="o", ms=3, label=name
            )
        if self.level is not None:
            axes.axhline(self.level, color="0.5", lw=1, ls="--")
        if self.log:
            axes.set_xscale("log", base=2)
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        axes.legend(frameon=False)
        figure.savefig(path, format="png", dpi=120)


def curves_of(
    names: Iterable[str], places: Sequence[float], find: Callable[[str, float], Mean | None]
) -> dict[str, list[tuple[float, Mean]]]:
    """For each name the places with their means, where there is one."""
    found = {name: [(place, find(name, place)) for place in places] for name in names}
    return {
        name: [(place, mean) for place, mean in points if mean is not None]
        for name, points in found.items()
    }
