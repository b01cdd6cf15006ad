"""Run what has no record yet and write the tables."""

import os

# One thread for each job, before anything is imported that starts threads.
os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
from contextlib import nullcontext
from pathlib import Path

import joblib

from benchmarks.harness import run_experiment
from benchmarks.quality import plot, tables
from benchmarks.quality.datasets import DATASETS
from benchmarks.quality.experiment import Setting, name_of, quality
from benchmarks.quality.methods import BASES, METHODS
from benchmarks.quality.summary import read_records
from benchmarks.told import told

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


def on_cluster(address):
    """joblib's backend: this machine's processes, or the workers of a cluster."""
    if address is None:
        return nullcontext()
    from distributed import Client

    Client(address)
    return joblib.parallel_config("dask")


def main(arguments=None):
    """Run, then write; ``--tables-only`` writes those of a run that was interrupted."""
    asked = parse(arguments)
    if not asked.tables_only:
        setting = Setting(asked.base, asked.max_rows)
        experiment = quality(asked.datasets, asked.methods, asked.seeds)
        with told() as progress, on_cluster(asked.cluster):
            name = name_of(setting)
            run_experiment(name, experiment, setting, asked.results, asked.jobs, progress)
    records = read_records(asked.results)
    (asked.results / "quality.md").write_text(tables.markdown(records))
    plot.draw(records, asked.results / "quality.png")


if __name__ == "__main__":
    main()
