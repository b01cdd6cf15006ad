"""Run what has no record yet and write the tables."""

import os

from benchmarks.quality import THREADS

# Before anything is imported that starts threads.
os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(THREADS)
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(THREADS)
# Threads that wait actively make boosting many times slower where anything else runs.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import argparse
from pathlib import Path

from benchmarks.harness import run_experiment
from benchmarks.quality import plot, tables
from benchmarks.quality.datasets import DATASETS, LARGE_DATASETS
from benchmarks.quality.experiment import Setting, name_of, quality
from benchmarks.quality.methods import LARGE_PEERS, METHODS, OURS, PEERS
from benchmarks.quality.summary import read_records
from benchmarks.told import told

RESULTS = Path(__file__).parents[1] / "results"


def cap(text):
    return None if text == "all" else int(text)


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("max_rows", type=cap, help='most rows of a data set, or "all"')
    parser.add_argument("--datasets", nargs="+", choices=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    whole = asked.max_rows is None
    asked.datasets = asked.datasets or (LARGE_DATASETS if whole else DATASETS)
    asked.methods = asked.methods or [*OURS, *(LARGE_PEERS if whole else PEERS)]
    return asked


def main(arguments=None):
    """Run, then write; ``--seeds 0`` only writes, after a run that was interrupted."""
    asked = parse(arguments)
    setting = Setting(asked.max_rows)
    experiment = quality(asked.datasets, asked.methods, asked.seeds)
    with told() as progress:
        run_experiment(name_of(setting), experiment, setting, asked.results, 1, progress)
    records = read_records(asked.results)
    (asked.results / "quality.md").write_text(tables.markdown(records))
    plot.draw(records, asked.results / "quality.png")


if __name__ == "__main__":
    main()
