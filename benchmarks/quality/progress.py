"""How far the run is, on stderr: a bar on a terminal, else a line a task."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def describe(record):
    """One line about a record."""
    name = f"{record['dataset']} seed {record['seed']} {record['method']}"
    if record["status"] != "done":
        return f"{name}: {record['status']}, {record['error']}"
    score = record["interval_score"]
    shown = "inf" if score is None else f"{score:.4g}"
    return f"{name}: score {shown}, coverage {record['coverage']:.3f}"


class Lines:
    """A line a task, with the time left."""

    def start(self, waiting, total):
        self.waiting, self.count, self.began = waiting, 0, time.monotonic()
        print(f"{waiting} of {total} tasks to run", file=sys.stderr, flush=True)

    def done(self, record):
        self.count += 1
        pace = (time.monotonic() - self.began) / self.count
        left = pace * (self.waiting - self.count) / 60
        head = f"[{self.count}/{self.waiting}, {left:.0f} min left]"
        print(head, describe(record), file=sys.stderr, flush=True)

    def stop(self):
        """Nothing stays open."""


class Bar:
    """A bar with the time left; what went wrong stays above it."""

    def start(self, waiting, total):
        columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        self.bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self.task = self.bar.add_task("quality", total=waiting)
        self.bar.start()

    def done(self, record):
        if record["status"] != "done":
            self.bar.console.print(describe(record), markup=False)
        text = f"{record['dataset']} {record['method']}"
        self.bar.update(self.task, advance=1, description=text)

    def stop(self):
        self.bar.stop()


def make_progress():
    return Bar() if sys.stderr.isatty() else Lines()
