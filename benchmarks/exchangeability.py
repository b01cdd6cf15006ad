"""Size and power of `exchangeability_test`: of scores, and of x by a classifier.

``python -m benchmarks.exchangeability`` writes benchmarks/results/exchangeability.json. Every
repeat draws calibration and new rows; one linear model is fitted once. Changes: noise that doubles
the misses of 90 % intervals, and a feature that moves by half a deviation.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from benchmarks.harness import describe_machine
from localconformal import SplitConformalRegressor
from localconformal.audit import exchangeability_test
from localconformal.metrics import binomial_band

RESULTS = Path(__file__).parent / "results" / "exchangeability.json"
LARGER_NOISE = norm.ppf(0.95) / norm.ppf(0.9)
#: Calibration rows and new rows.
SIZES = [(100, 50), (200, 100), (500, 200), (1_000, 500)]
CHANGES = {"noise": {"noise": LARGER_NOISE}, "x": {"moved": 0.5}}


def rows(n, rng, noise=1.0, moved=0.0):
    X = rng.normal(size=(n, 3)) + np.array([moved, 0.0, 0.0])
    return X, X[:, 0] + noise * rng.normal(size=n)


def found(model, n, m, change, repeats, seed):
    """p-values of both tests (repeats, 2), and the power that was said."""
    p, said = np.empty((repeats, 2)), np.empty(repeats)
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        X, y = rows(n, rng)
        model.conformalize(X, y)
        new = rows(m, rng, **change)
        one = exchangeability_test(model, *new, X_calibration=X, random_state=repeat)
        p[repeat], said[repeat] = (one.score_p_value, one.x_p_value), one.power
    return p, float(said.mean())


def shares(p, level=0.05):
    """Share of p-values at most 5 %, with its exact band, of scores and of x."""
    counts, n = (p <= level).sum(axis=0), len(p)
    return {
        name: {"share": count / n, "band_95": [float(end) for end in binomial_band(count, n)]}
        for name, count in zip(("scores", "x"), counts.tolist(), strict=True)
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1_000, help="of the size")
    parser.add_argument("--power", type=int, default=100, help="repeats of each power")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    start = time.perf_counter()
    model = SplitConformalRegressor(LinearRegression(), calibration_size=None, random_state=0)
    model.fit(*rows(500, np.random.default_rng(0)))
    quiet, _ = found(model, 200, 100, {}, args.repeats, seed=1)
    told = {
        "n_calibration": 200,
        "n_new": 100,
        "repeats": args.repeats,
        "at_5_percent": shares(quiet),
    }
    power = []
    for n, m in SIZES:
        for name, change in CHANGES.items():
            p, said = found(model, n, m, change, args.power, seed=2)
            line = {"n_calibration": n, "n_new": m, "change": name, "repeats": args.power}
            power.append(line | {"found": shares(p), "power_said_of_scores": said})
            print(power[-1], flush=True)
    result = {
        "command": f"python -m benchmarks.exchangeability --repeats {args.repeats} "
        f"--power {args.power}",
        "size": told,
        "power": power,
        "seconds": time.perf_counter() - start,
        "machine": describe_machine(),
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
