"""Coverage on adversarial data: every estimator, every scenario, many seeds.

``python -m benchmarks.stress`` writes benchmarks/results/stress.json and stress.md; cells that are
there already, with as many seeds, are kept unless ``--again`` is given. A seed draws
training, calibration and test rows anew, so that a mean over seeds is what the guarantee is about,
exchangeable but dependent rows included. A cell fails if its mean coverage is below 90 % by more
than chance would have it in any of the cells (5 % for all together), if an answer is NaN or
upside down, or if anything but a documented warning is raised.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from scipy.stats import norm
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal
from benchmarks.harness import describe_machine
from benchmarks.tables import markdown_table
from localconformal.metrics import share_infinite

RESULTS = Path(__file__).parent / "results"
LEVEL, N_TEST = 0.9, 40
#: Training and calibration rows, and those where features are many.
ROWS, FEW_ROWS, MANY_FEATURES = (80, 60), (25, 25), 1_000
#: Promise no coverage; shown all the same.
NO_PROMISE = {"LVDRegressor"}


def two_columns(n, rng):
    return rng.normal(size=(n, 2))


def cauchy(n, rng):
    """Noise without a mean, whose scale grows with |x|."""
    X = two_columns(n, rng)
    return X, X[:, 0] + (0.5 + np.abs(X[:, 1])) * rng.standard_cauchy(n)


def atoms(n, rng):
    """A handful of values, so that most scores are tied."""
    X = np.round(two_columns(n, rng))
    return X, np.round(X[:, 0] + 0.7 * rng.normal(size=n))


def zeros(n, rng):
    """99 % zeros, the rest long-tailed."""
    X = two_columns(n, rng)
    return X, np.where(rng.uniform(size=n) < 0.99, 0.0, np.exp(2.0 * rng.normal(size=n)))


def perfect(n, rng):
    """A linear model fits without error: all scores are rounding."""
    X = two_columns(n, rng)
    return X, 3.0 * X[:, 0] - X[:, 1] + 1.0


def exploding(n, rng):
    """The scale spans fifteen orders of magnitude."""
    X = two_columns(n, rng)
    return X, X[:, 0] + np.exp(6.0 * X[:, 1]) * rng.normal(size=n)


def near_duplicates(n, rng):
    """Six columns that differ by rounding."""
    base = rng.normal(size=(n, 1))
    X = base + 1e-10 * rng.normal(size=(n, 6))
    return X, base[:, 0] + (0.3 + np.abs(base[:, 0])) * rng.normal(size=n)


def wide(n, rng):
    """Twenty times as many features as rows."""
    X = rng.normal(size=(n, MANY_FEATURES))
    return X, X[:, 0] + (0.5 + np.abs(X[:, 1])) * rng.normal(size=n)


def common_shock(n, rng):
    """All rows of a seed share a shift and a scale: exchangeable, far from independent."""
    X = two_columns(n, rng)
    shift, scale = 5.0 * rng.normal(), np.exp(rng.normal())
    return X, X[:, 0] + shift + scale * (0.3 + np.abs(X[:, 1])) * rng.normal(size=n)


def urn(n, rng):
    """Polya's urn: a row is new, or the copy of an earlier one."""
    X, y = common_shock(n, rng)
    for row in range(1, n):
        if rng.uniform() < 0.5:
            copied = rng.integers(row)
            X[row], y[row] = X[copied], y[copied]
    order = rng.permutation(n)
    return X[order], y[order]


SCENARIOS = {
    "Cauchy noise": cauchy,
    "atoms": atoms,
    "99 % zeros": zeros,
    "perfect fit": perfect,
    "exploding scale": exploding,
    "near-duplicate columns": near_duplicates,
    "1,000 features, 50 rows": wide,
    "common shock": common_shock,
    "urn with copies": urn,
}


#: One bound, with all of alpha on its side.
ONE_SIDE = {f"SLCPRegressor, {side}": side for side in ("upper", "lower")}
#: Beside the kernel law that every estimator with a law has: the others, in one of them.
OTHER_LAWS = {
    "SLCPRegressor, forest": localconformal.ForestLaw(
        RandomForestRegressor(20, min_samples_leaf=5)
    ),
    "SLCPRegressor, neighbors": localconformal.NeighborsLaw(),
    "SLCPRegressor, learned": localconformal.LearnedLaw(QuantileRegressor(alpha=0)),
}


def estimators():
    """Every regressor of the library by name: those exported, other laws, and one side."""
    exported = [name for name in localconformal.__all__ if name.endswith("Regressor")]
    return [*exported, *OTHER_LAWS, *ONE_SIDE]


def make(name):
    """The estimator with linear models and, where it has a law, a cross-validated kernel."""
    cls = getattr(localconformal, name.split(",")[0])
    known = cls().get_params()
    given = {
        "estimator": QuantileRegressor(alpha=0) if "method" in known else LinearRegression(),
        "spread_estimator": LinearRegression(),
        "law": OTHER_LAWS.get(name, localconformal.KernelLaw(bandwidth="cv")),
        "random_state": 0,
        "n_jobs": 1,
    }
    given |= {"sides": ONE_SIDE[name]} if name in ONE_SIDE else {}
    used = {key: value for key, value in given.items() if key in known}
    return clone(cls(**used, calibration_size=None))


def one_seed(name, scenario, seed):
    """Coverage and share of infinite intervals, or what went wrong."""
    n_train, n_calibration = FEW_ROWS if scenario == "1,000 features, 50 rows" else ROWS
    rng = np.random.default_rng([seed, list(SCENARIOS).index(scenario)])
    X, y = SCENARIOS[scenario](n_train + n_calibration + N_TEST, rng)
    before = X.tobytes() + y.tobytes()
    cuts = [n_train, n_train + n_calibration]
    (X_train, X_cal, X_test), (y_train, y_cal, y_test) = np.split(X, cuts), np.split(y, cuts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What the library says to its users, and what scikit-learn says of its own models.
        warnings.simplefilter("ignore", UserWarning)
        try:
            model = make(name).fit(X_train, y_train).conformalize(X_cal, y_cal)
            lower, upper = model.predict_interval(X_test).T
        except Exception as problem:
            return {"problem": f"{type(problem).__name__}: {problem}"}
    if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
        return {"problem": "NaN or upside down"}
    if X.tobytes() + y.tobytes() != before:
        return {"problem": "input changed"}
    return {
        "coverage": float(np.mean((lower <= y_test) & (y_test <= upper))),
        "infinite": share_infinite(None, np.stack([lower, upper], axis=1)),
    }


def cell(name, scenario, seeds):
    """Means over seeds, and how far coverage is from 90 % in standard errors."""
    found = [one_seed(name, scenario, seed) for seed in range(seeds)]
    problems = [one["problem"] for one in found if "problem" in one]
    known = [one["coverage"] for one in found if "coverage" in one]
    row = {"estimator": name, "scenario": scenario, "seeds": seeds, "problems": problems[:3]}
    row["failed_seeds"] = len(problems)
    if known:
        row["coverage"] = float(np.mean(known))
        row["standard_error"] = float(np.std(known, ddof=1) / np.sqrt(len(known)))
        row["infinite"] = float(np.mean([one["infinite"] for one in found if "infinite" in one]))
    return row


def verdict(row, cells):
    """Whether a cell is as promised."""
    if row["failed_seeds"] or "coverage" not in row:
        return "problem"
    far = norm.isf(0.05 / cells) * row["standard_error"]
    low = row["coverage"] < LEVEL - far
    return ("no promise" if row["estimator"] in NO_PROMISE else "too low") if low else "as promised"


def dashboard(rows):
    """Coverage in per cent, an estimator a line; what is not as promised is marked."""
    table = []
    for name in dict.fromkeys(row["estimator"] for row in rows):
        line = {"estimator": name}
        for row in rows:
            if row["estimator"] == name:
                share = f"{100 * row['coverage']:.1f}" if "coverage" in row else "–"
                mark = "" if row["verdict"] == "as promised" else f" ({row['verdict']})"
                line[row["scenario"]] = share + mark
        table.append(line)
    return table


def stored(seeds):
    """What an earlier run wrote with as many seeds: seconds, and rows by cell."""
    file = RESULTS / "stress.json"
    found = json.loads(file.read_text()) if file.exists() else {"seconds": 0.0, "rows": []}
    kept = {(r["estimator"], r["scenario"]): r for r in found["rows"] if r["seeds"] == seeds}
    return found["seconds"] if kept else 0.0, kept


def write(known, cells, seeds, seconds):
    """The cells that are known, in their order; what is missing is run next time."""
    rows = [known[one] for one in cells if one in known]
    for row in rows:
        row["verdict"] = verdict(row, len(cells))
    outcomes = [row["verdict"] for row in rows]
    summary = {
        "command": f"OMP_NUM_THREADS=1 python -m benchmarks.stress --seeds {seeds}",
        "machine": describe_machine(),
        "seconds": seconds,
        "fits": len(rows) * seeds,
        "cells": len(rows),
        "outcomes": {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)},
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "stress.json").write_text(json.dumps(summary, indent=1) + "\n")
    (RESULTS / "stress.md").write_text(markdown_table(dashboard(rows)))
    print(summary["outcomes"], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true")
    told = parser.parse_args()
    start = time.perf_counter()
    cells = [(name, scenario) for name in estimators() for scenario in SCENARIOS]
    seconds, known = (0.0, {}) if told.again else stored(told.seeds)
    new = [one for one in cells if one not in known]
    found = joblib.Parallel(told.jobs, return_as="generator")(
        joblib.delayed(cell)(name, scenario, told.seeds) for name, scenario in new
    )
    for one, row in zip(new, found, strict=True):
        known[one] = row
        write(known, cells, told.seeds, seconds + time.perf_counter() - start)


if __name__ == "__main__":
    main()
