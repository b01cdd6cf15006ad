"""``localconformal predict`` on a CSV file of five million rows: seconds and most memory.

The model is a quick one, so that reading, preparing and writing are what is measured: a linear
model, split conformal. The rows have numbers with gaps, a label and a date. The command runs in a
process of its own, and its peak is read from /proc (Linux).
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, CHUNK, FIT_ROWS = 5_000_000, 250_000, 20_000
LABELS = np.array(["north", "south", "east", "west"])

COMMAND = r"""
import json
from typer.testing import CliRunner
from benchmarks.resources import megabytes
from localconformal.cli.app import app
result = CliRunner().invoke(app, {arguments!r})
assert result.exit_code == 0, result.output
print(json.dumps({{"gigabytes_at_peak": megabytes("VmHWM") / 1024}}))
"""


def table_rows(n, seed):
    """Numbers with gaps, a label, a date, and a response with noise that grows."""
    rng = np.random.default_rng([seed, n])
    a, b, c = rng.uniform(size=(3, n))
    days = np.datetime64("2020-01-01") + rng.integers(0, 1500, n)
    return pd.DataFrame(
        {
            "key": np.arange(n),
            "a": a,
            "b": np.where(b < 0.05, np.nan, b),
            "c": c,
            "region": LABELS[rng.integers(0, len(LABELS), n)],
            "day": days,
            "y": a + c * rng.normal(size=n),
        }
    )


def write_csv(path, n):
    """A file of n rows, written in chunks, without the response."""
    for begun in range(0, n, CHUNK):
        rows = table_rows(min(CHUNK, n - begun), begun + 1).drop(columns="y")
        rows.to_csv(path, mode="a", header=begun == 0, index=False)


def call(*arguments):
    """Seconds and peak of a command in a fresh process."""
    code = COMMAND.format(arguments=[str(argument) for argument in arguments])
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {"seconds": time.perf_counter() - start, **json.loads(done.stdout)}


def predict_large_csv(n=ROWS):
    """The command on n rows, and on a tenth of them: memory should not grow with the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table_rows(FIT_ROWS, 0).to_csv(folder / "fit.csv", index=False)
        options = ["--id", "key", "--method", "split", "--model", "linear"]
        call("run", folder / "fit.csv", "--target", "y", *options, "--out", folder)
        found = {}
        for rows in (n // 10, n):
            data = folder / f"{rows}.csv"
            write_csv(data, rows)
            measured = call("predict", folder / "model.skops", data, "--out", folder / "made.csv")
            with (folder / "made.csv").open("rb") as lines:
                written = sum(1 for _ in lines) - 1
            assert written == rows
            size = data.stat().st_size / 2**30
            found[str(rows)] = {"gigabytes_of_csv": size, **measured}
        return found
