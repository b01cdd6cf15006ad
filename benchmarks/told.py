"""How far a run is: a bar with the time left on a terminal, sentences on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from benchmarks.harness import Case, Progress


class Told(Progress):
    """Each sentence once, above the bar; counts the tasks that failed."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.said, self.failed = bar, set[str](), 0

    def start(self, experiment: str, waiting: int, total: int) -> None:
        """How many tasks are left."""
        self.say(f"{experiment}: {waiting} of {total} tasks left to run.")
        self.task = self.bar.add_task(experiment, total=total, completed=total - waiting)

    def done(self, case: Case, error: str | None) -> None:
        """One less."""
        self.failed += error is not None
        self.bar.update(self.task, advance=1)

    def say(self, sentence: str) -> None:
        """Above the bar."""
        if sentence not in self.said:
            self.said.add(sentence)
            self.bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def told() -> Iterator[Told]:
    """A progress while it is shown."""
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        yield Told(bar)
