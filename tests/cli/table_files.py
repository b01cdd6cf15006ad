"""Tables and commands for the tests of the command line."""

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from localconformal.cli.app import app

#: A method and a model that take a moment.
QUICK = ["--method", "split", "--model", "linear"]


def homes(n=400, seed=0):
    """Rows with a number, a label, a date, gaps and a name for each."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(20, 200, n)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    return pd.DataFrame(
        {
            "key": [f"={i}" if i % 2 else f"home {i}" for i in range(n)],
            "size": np.where(rng.uniform(size=n) < 0.05, np.nan, size),
            "region": rng.choice(["north", "south", "east"], n),
            "sold": days.strftime("%Y-%m-%d"),
            "price": 3 * size + 0.5 * size * rng.normal(size=n),
        }
    )


def write(frame, path):
    """The frame as CSV or Parquet, by suffix."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


def call(*arguments):
    """The command's result."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def call_json(*arguments):
    """The document that a command prints with --json, after nothing else."""
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def assert_refused(result, words):
    """One sentence on standard error, nothing on standard output, exit code 2."""
    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert words in result.stderr
