"""``python -m paper [NAME] [--preset] [--jobs] [--out]``: run what is missing, and report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from benchmarks.harness import PRESETS, Case, Preset, Progress, run_experiment
from benchmarks.tables import verdict_counts, write_output
from paper import EXPERIMENTS, load_experiment

ALL = "all"
#: Exit codes: some tasks failed; interrupted, as the shell has it.
SOME_FAILED, INTERRUPTED = 3, 130


class Told(Progress):
    """A bar with the time left on a terminal; sentences on standard error, each once."""

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
            self.bar.console.print(sentence, markup=False, highlight=False)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m paper",
        description="Run the SLCP paper's experiments beside its printed numbers. What is finished "
        "is kept: a run that was stopped goes on where it was.",
    )
    parser.add_argument("name", nargs="?", choices=[ALL, *EXPERIMENTS], metavar="NAME")
    parser.add_argument("--preset", choices=list(PRESETS), default="standard")
    parser.add_argument("--jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--out", type=Path, default=Path("localconformal-results"))
    return parser.parse_args(arguments)


def run_one(name: str, preset: Preset, folder: Path, jobs: int, told: Told) -> None:
    """Run an experiment, write its files and say what came out."""
    experiment = load_experiment(name)
    output = run_experiment(name, experiment, preset, folder, jobs, told)
    first, *_ = write_output(name, experiment.title, output, folder)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in verdict_counts(output.lines).items())
    print(f"{name}: {counts}; {first}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    asked = parse(arguments)
    if asked.name is None:
        for name in EXPERIMENTS:
            print(f"{name:<20}{load_experiment(name).title}")
        return 0
    folder = asked.out / asked.preset
    # A folder that cannot be written is told before hours are spent.
    folder.mkdir(parents=True, exist_ok=True)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        told = Told(bar)
        for name in EXPERIMENTS if asked.name == ALL else [asked.name]:
            run_one(name, PRESETS[asked.preset], folder, asked.jobs, told)
    return SOME_FAILED if told.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(
            "Interrupted; what is finished is kept, and the same command goes on.", file=sys.stderr
        )
        sys.exit(INTERRUPTED)
