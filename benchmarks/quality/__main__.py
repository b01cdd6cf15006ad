"""Run what has no record yet and write the tables."""

import os

# One thread for each job, before anything is imported that starts threads.
os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
from pathlib import Path

from benchmarks.quality import plot, runner, tables
from benchmarks.quality.datasets import DATASETS
from benchmarks.quality.methods import METHODS
from benchmarks.quality.methods.models import BASES
from benchmarks.quality.progress import make_progress
from benchmarks.quality.store import Store
from benchmarks.speed import machine

RESULTS = Path(__file__).parents[1] / "results"


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--base", choices=list(BASES), default="boosting")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-rows", type=int, default=8_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cluster", help="Dask scheduler that runs the jobs, as tcp://host:8786")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tables-only", action="store_true")
    return parser.parse_args(arguments)


def write_tables(records, results):
    (results / "quality.md").write_text(tables.markdown(records))
    plot.draw(records, results / "quality.png")


def main(arguments=None):
    """Run, then write; ``--tables-only`` writes those of a run that was interrupted."""
    asked = parse(arguments)
    asked.results.mkdir(parents=True, exist_ok=True)
    if not asked.tables_only:
        found = json.dumps(machine.describe(), indent=1)
        (asked.results / "quality_machine.json").write_text(found + "\n")
        tasks = runner.plan(asked.base, asked.datasets, asked.methods, asked.seeds, asked.max_rows)
        progress = make_progress()
        try:
            with runner.make_pool(asked.jobs, asked.cluster) as pool:
                runner.execute(tasks, asked.results, pool, asked.jobs, progress)
        finally:
            progress.stop()
    write_tables(Store(asked.results / "quality.jsonl").records, asked.results)


if __name__ == "__main__":
    main()
