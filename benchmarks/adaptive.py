"""Adaptive intervals on streams that drift: localized beside global, and beside MAPIE's ACI.

``python -m benchmarks.adaptive`` writes benchmarks/results/adaptive.json. The streams: noise that
depends on x and grows threefold, five draws; and bike in the order of time, two years of hourly
counts of which the first third trains and calibrates. Ten rows are predicted, then their labels
come. "Global" is split conformal: one width for all rows.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from mapie.conformity_scores import AbsoluteConformityScore
from mapie.regression import TimeSeriesRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.harness import describe_machine
from localconformal import AdaptiveIntervals, SLCPRegressor, SplitConformalRegressor
from localconformal.metrics import coverage, interval_score, mean_length

RESULTS = Path(__file__).parent / "results" / "adaptive.json"
LEVEL, BATCH, GAMMA, WINDOW = 0.9, 10, 0.005, 500


def drifting(seed, n=5_000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    spread = (0.2 + 2 * X[:, 0] ** 2) * np.linspace(1.0, 3.0, n)
    return X, np.sin(4 * X[:, 1]) + X[:, 2] + spread * rng.normal(size=n), 2_000


def bike():
    table = pd.read_parquet(Path(os.environ["LOCALCONFORMAL_DATA"]) / "bike.parquet")
    when = pd.to_datetime(table["datetime"])
    X = table.drop(columns=["datetime", "casual", "registered", "count"]).astype(float)
    X = X.assign(hour=when.dt.hour, day=when.dt.day_of_week, month=when.dt.month, year=when.dt.year)
    order = np.argsort(when.to_numpy(), kind="stable")
    return X.to_numpy(float)[order], table["count"].to_numpy(float)[order], len(table) // 3


def base_model():
    return HistGradientBoostingRegressor(max_iter=60, random_state=0)


class MapieACI:
    """MAPIE's time series regressor, called as ours is."""

    def __init__(self, X, y):
        cut = int(0.75 * len(y))
        model = base_model().fit(X[:cut], y[:cut])
        score = AbsoluteConformityScore(sym=True)
        self.model = TimeSeriesRegressor(model, method="aci", cv="prefit", conformity_score=score)
        self.model.fit(X[cut:], y[cut:])

    def predict_interval(self, X):
        options = {"confidence_level": LEVEL, "allow_infinite_bounds": True}
        return self.model.predict(X, **options)[1][:, :, 0]

    def update(self, X, y):
        self.model.adapt_conformal_inference(X, y, gamma=GAMMA, confidence_level=LEVEL)


class Static:
    """The model as it is."""

    def __init__(self, model):
        self.predict_interval = model.predict_interval

    def update(self, X, y):
        pass


def contenders(X, y):
    split = SplitConformalRegressor(base_model(), confidence_level=LEVEL, random_state=0).fit(X, y)
    local = SLCPRegressor(base_model(), law="forest", confidence_level=LEVEL, random_state=0)
    local.fit(X, y)
    yield "global, static", Static(split)
    yield "global, aci", AdaptiveIntervals(split, "aci", step=GAMMA)
    yield "global, aci, window", AdaptiveIntervals(split, "aci", step=GAMMA, window=WINDOW)
    yield "global, tracking", AdaptiveIntervals(split)
    yield "MAPIE, aci", MapieACI(X, y)
    yield "local, static", Static(local)
    yield "local, tracking", AdaptiveIntervals(local)
    yield "local, aci, window", AdaptiveIntervals(local, "aci", step=GAMMA, window=WINDOW)
    yield "local, dtaci, window", AdaptiveIntervals(local, "dtaci", window=WINDOW)
    yield "local, rolling", AdaptiveIntervals(local, "rolling", window=WINDOW)


def follow(model, X, y):
    """Intervals (n, 2) of rows that arrive in batches, and the seconds that it took."""
    found, start = [], time.perf_counter()
    for t in range(0, len(y), BATCH):
        rows = slice(t, t + BATCH)
        # MAPIE stops where alpha_t asks for more than the calibration rows can tell.
        try:
            found.append(model.predict_interval(X[rows]))
            model.update(X[rows], y[rows])
        except ValueError:
            break
    return np.concatenate(found)[: len(y)], time.perf_counter() - start


def judge(X, y, n_fit):
    """One line for each contender on one stream."""
    lines = {}
    for name, model in contenders(X[:n_fit], y[:n_fit]):
        intervals, seconds = follow(model, X[n_fit:], y[n_fit:])
        finite, late = np.isfinite(intervals).all(axis=1), y[n_fit : n_fit + len(intervals)]
        kept = intervals[finite], late[finite]
        lines[name] = {
            "rows_answered": len(late) / len(y[n_fit:]),
            "coverage": float(coverage(late, intervals)),
            "infinite": float(1.0 - finite.mean()),
            "interval_score": float(interval_score(late, intervals, LEVEL)),
            "interval_score_of_finite_rows": float(interval_score(kept[1], kept[0], LEVEL)),
            "mean_finite_length": float(mean_length(kept[1], kept[0])),
            "milliseconds_per_row": 1_000.0 * seconds / len(late),
        }
        if isinstance(model, AdaptiveIntervals):
            promise = model.guarantee_
            missed = promise.n_missed / promise.n
            lines[name] |= {"bound": promise.bound, "off_by": abs(missed - (1.0 - LEVEL))}
    return lines


def mean_lines(runs):
    return {
        name: {key: float(np.mean([run[name][key] for run in runs])) for key in line}
        for name, line in runs[0].items()
    }


def ratio(lines):
    """Localized tracking on all rows over the better global ACI on those that it leaves finite."""
    theirs = [lines["global, aci"], lines["global, aci, window"]]
    best = min(line["interval_score_of_finite_rows"] for line in theirs)
    return lines["local, tracking"]["interval_score"] / best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    runs = [judge(*drifting(seed)) for seed in range(args.draws)]
    streams = {"drifting": mean_lines(runs), "bike by time": judge(*bike())}
    found = {
        "command": f"python -m benchmarks.adaptive --draws {args.draws}",
        "settings": {"level": LEVEL, "batch": BATCH, "gamma": GAMMA, "window": WINDOW},
        "ratios": {name: ratio(lines) for name, lines in streams.items()},
        "streams": streams,
        "seconds": time.perf_counter() - start,
        "machine": describe_machine(),
    }
    # JSON has no infinity and no NaN.
    text = json.dumps(found, indent=1).replace("Infinity", "null").replace("NaN", "null")
    args.out.write_text(text + "\n", encoding="utf-8")
    for name, lines in streams.items():
        print(name, "ratio", round(found["ratios"][name], 3))
        for each, line in lines.items():
            print(f"  {each:22}", {key: round(value, 4) for key, value in line.items()})


if __name__ == "__main__":
    main()
