"""``python -m paper [NAME] [--preset] [--jobs] [--out]``: run what is missing, and report.

``--report`` runs nothing: pages of what is finished, while the rest still runs elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import PRESETS, about, read_store, report, run_experiment
from benchmarks.tables import verdict_counts, write_output
from benchmarks.told import told
from paper import EXPERIMENTS, load_experiment

ALL = "all"
#: Exit codes: some tasks failed; interrupted, as the shell has it.
SOME_FAILED, INTERRUPTED = 3, 130


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
    parser.add_argument("--report", action="store_true", help="run nothing: what is finished")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run experiments, write their files, say what came out, and return the exit code."""
    asked = parse(arguments)
    if asked.name is None:
        for name in EXPERIMENTS:
            print(f"{name:<20}{load_experiment(name).title}")
        return 0
    folder = asked.out / asked.preset
    # A folder that cannot be written is told before hours are spent.
    folder.mkdir(parents=True, exist_ok=True)
    with told() as progress:
        for name in EXPERIMENTS if asked.name == ALL else [asked.name]:
            experiment, preset = load_experiment(name), PRESETS[asked.preset]
            if asked.report:
                records = read_store(folder / f"{name}.jsonl", about(name, experiment, preset))
                output = report(experiment, experiment.cases(preset), records, preset)
            else:
                output = run_experiment(name, experiment, preset, folder, asked.jobs, progress)
            first, *_ = write_output(name, experiment.title, output, folder)
            counts = verdict_counts(output.lines).items()
            print(f"{name}: {', '.join(f'{n} {verdict}' for verdict, n in counts)}; {first}")
    return SOME_FAILED if progress.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(
            "Interrupted; what is finished is kept, and the same command goes on.", file=sys.stderr
        )
        sys.exit(INTERRUPTED)
