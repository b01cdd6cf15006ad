"""The quality benchmark on a Dask cluster of processes: the same records as on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

distributed = pytest.importorskip("distributed")

from benchmarks.quality.summary import read_records  # noqa: E402

ROOT = Path(__file__).parents[2]


def run(results, *more):
    command = [sys.executable, "-m", "benchmarks.quality", "--datasets", "sim1", "--methods"]
    command += ["split", "forest", "--seeds", "1", "--max-rows", "400", "--jobs", "2"]
    command += ["--results", str(results), *more]
    told = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, env=told, check=True, capture_output=True, timeout=300)


@pytest.mark.ci
def test_a_cluster_gives_the_same_records(tmp_path):
    from distributed import Client, LocalCluster

    run(tmp_path / "here")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        run(tmp_path / "there", "--cluster", cluster.scheduler_address)
    here, there = (figures(tmp_path / name) for name in ("here", "there"))
    assert len(here) == 2
    assert here == there


def figures(folder):
    """What a record says, by its method, but for its seconds."""
    return {
        record["method"]: {name: value for name, value in record.items() if "seconds" not in name}
        for record in read_records(folder)
    }
