"""``python -m paper [NAME] [--preset] [--jobs] [--out]``: run what is missing, and report.

``page`` runs nothing: the tables of what is finished, and the page that puts them together, also
while the rest still runs elsewhere; ``--report`` does so for one table. ``check`` runs a share of
what is finished again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from joblib import Parallel, delayed

from benchmarks.harness import PRESETS, Preset, run_experiment
from benchmarks.tables import counted, write_output
from benchmarks.told import told
from localconformal.io.files import write_together
from paper import EXPERIMENTS, load_experiment
from paper.check import again, chosen
from paper.page import PAGE as FILE
from paper.page import page, read_run, read_runs

ALL, PAGE, CHECK = "all", "page", "check"
#: Exit codes: some tasks failed, or differ from the store; interrupted, as the shell has it.
SOME_FAILED, INTERRUPTED = 3, 130


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m paper",
        description="Run the SLCP paper's experiments beside its printed numbers. What is finished "
        "is kept: a run that was stopped goes on where it was.",
    )
    names = [ALL, PAGE, CHECK, *EXPERIMENTS]
    parser.add_argument("name", nargs="?", choices=names, metavar="NAME")
    parser.add_argument("--preset", choices=list(PRESETS), default="standard")
    parser.add_argument("--jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--out", type=Path, default=Path("localconformal-results"))
    parser.add_argument("--report", action="store_true", help="run nothing: what is finished")
    parser.add_argument("--share", type=float, default=0.1, help="check: share of the tasks")
    parser.add_argument("--seed", type=int, default=0, help="check: which tasks")
    parser.add_argument(
        "--within", type=float, default=None, help="check: seconds that a task took, at most"
    )
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
    preset = PRESETS[asked.preset]
    if asked.name == PAGE:
        return write_pages(preset, folder)
    if asked.name == CHECK:
        return check_tasks(preset, folder, asked)
    with told() as progress:
        for name in EXPERIMENTS if asked.name == ALL else [asked.name]:
            experiment = load_experiment(name)
            if asked.report:
                output = read_run(name, preset, folder).output
            else:
                output = run_experiment(name, experiment, preset, folder, asked.jobs, progress)
            first, *_ = write_output(name, experiment.title, output, folder)
            print(f"{name}: {counted(output.lines)}; {first}")
    return SOME_FAILED if progress.failed else 0


def write_pages(preset: Preset, folder: Path) -> int:
    """Tables and figures of everything that has been run, and the page."""
    runs = read_runs(preset, folder)
    for name, run in runs.items():
        if run.done:
            write_output(name, run.title, run.output, folder)
            print(f"{name}: {run.done} of {run.planned} tasks; {counted(run.lines)}")
    text, path = page(runs, preset), folder / FILE
    write_together({path: lambda part: part.write_text(text, encoding="utf-8")})
    print(path)
    return 0


def check_tasks(preset: Preset, folder: Path, asked: argparse.Namespace) -> int:
    """Run a share of the stored tasks again, and say what differs."""
    tasks, differing = chosen(preset, folder, asked.share, asked.seed, asked.within), 0
    pool = Parallel(n_jobs=asked.jobs, return_as="generator")
    results = pool(delayed(again)(name, record, preset) for name, record in tasks)
    for (name, record), problems in zip(tasks, results, strict=True):
        differing += bool(problems)
        case = " ".join(map(str, record["case"].values()))
        # Where rows differ, what changed since that commit is the first question.
        made = f" (stored at {record['made']['commit'][:7]})" if problems else ""
        said = "; ".join(problems) or "equal"
        print(f"{name} {case}: {said}{made}", flush=True)
    print(f"{len(tasks) - differing} of {len(tasks)} tasks are equal to the store")
    return SOME_FAILED if differing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(
            "Interrupted; what is finished is kept, and the same command goes on.", file=sys.stderr
        )
        sys.exit(INTERRUPTED)
