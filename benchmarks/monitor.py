"""The promises of `CoverageMonitor`: false alarms in quiet streams, and delay after a shift.

``python -m benchmarks.monitor`` writes benchmarks/results/monitor.json. One model is fitted; each
stream has a calibration set and rows of its own, for the promise is an average over both. After
the shift the noise is 1.28 times as large, so that intervals made for 90 % cover 80 %. Streams run
side by side through the monitor's own parts, which is faster than one by one.
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
from localconformal.metrics import binomial_band
from localconformal.monitor.martingale import (
    RANKED_AT_A_TIME,
    Martingales,
    Tally,
    anytime_band,
    p_values,
)
from localconformal.monitor.monitor import calibration_codes, score_rows

RESULTS = Path(__file__).parent / "results" / "monitor.json"
LEVEL, FALSE_ALARM = 0.9, 0.01
QUIET = {"n_calibration": 200, "rows": 5_000}
#: Calibration rows, and quiet rows before the shift.
SHIFTS = [(200, 0), (200, 1_000), (1_000, 0), (1_000, 1_000)]
ROWS_AFTER = 2_000
#: Rows from one look at the band to the next.
BAND_EVERY = 25
LARGER_NOISE = norm.ppf(0.95) / norm.ppf(0.9)


def rows(n, rng, noise=1.0):
    X = rng.uniform(size=(n, 2))
    return X, X[:, 0] + noise * rng.normal(size=n)


def fitted_model():
    model = SplitConformalRegressor(
        LinearRegression(), confidence_level=LEVEL, calibration_size=None, random_state=0
    )
    return model.fit(*rows(1_000, np.random.default_rng(0)))


def one_stream(model, n_calibration, parts, rng):
    """p-values and whether covered, (n,) each, for parts of so many rows and so much noise."""
    model.conformalize(*rows(n_calibration, rng))
    seen = Tally()
    seen.add(calibration_codes(model.calibration_, LEVEL)[0][:, 0])
    X, y = map(np.concatenate, zip(*(rows(n, rng, noise) for n, noise in parts), strict=True))
    scored = score_rows(model, X, y, None, LEVEL)
    p = []
    for codes in np.split(scored.codes[:, 0], range(RANKED_AT_A_TIME, len(y), RANKED_AT_A_TIME)):
        p.append(p_values(seen, codes, 1.0 - rng.random(len(codes))))
        seen.add(codes)
    return np.concatenate(p), scored.covered


def many_streams(model, n_calibration, parts, n_streams, seed):
    """Row of the alarm (S,), inf without one; and rows covered so far (n, S)."""
    made = [
        one_stream(model, n_calibration, parts, np.random.default_rng([seed, stream]))
        for stream in range(n_streams)
    ]
    p, covered = (np.stack(column, axis=1) for column in zip(*made, strict=True))
    martingales, alpha = Martingales.start(n_streams), np.full(n_streams, 1.0 - LEVEL)
    blocks = np.split(p, range(RANKED_AT_A_TIME, len(p), RANKED_AT_A_TIME))
    logs = np.concatenate([martingales.bet(block, alpha) for block in blocks])
    reached = logs >= -np.log(FALSE_ALARM)
    alarms = np.where(reached.any(axis=0), reached.argmax(axis=0) + 1.0, np.inf)
    return alarms, np.cumsum(covered, axis=0)


def quiet_streams(model, n_streams):
    """How many streams raise the alarm, and in how many the band leaves the level out."""
    parts = [(QUIET["rows"], 1.0)]
    found, covered = many_streams(model, QUIET["n_calibration"], parts, n_streams, seed=1)
    alarms, n = int(np.isfinite(found).sum()), np.arange(1, QUIET["rows"] + 1)[::BAND_EVERY]
    left = 0
    for course in covered[::BAND_EVERY].T:
        lower, upper = anytime_band(course, n)
        left += bool(np.any((lower > LEVEL) | (upper < LEVEL)))
    return {
        **QUIET,
        "streams": n_streams,
        "stated_rate": FALSE_ALARM,
        "alarms": alarms,
        "rate": alarms / n_streams,
        "rate_band_95": binomial_band(alarms, n_streams),
        "share_where_the_band_leaves_the_level": left / n_streams,
    }


def shifted_streams(model, n_streams):
    """Quartiles of the delay for each size of calibration set and number of quiet rows."""
    found = []
    for n_calibration, quiet in SHIFTS:
        parts = [(quiet, 1.0), (ROWS_AFTER, LARGER_NOISE)]
        alarms, _ = many_streams(model, n_calibration, parts, n_streams, seed=2)
        delays = alarms - quiet
        after = delays[delays > 0]
        quartiles = np.quantile(after, [0.25, 0.5, 0.75], method="inverted_cdf")
        found.append(
            {
                "n_calibration": n_calibration,
                "quiet_rows_before": quiet,
                "streams": n_streams,
                "alarms_before_the_shift": int(np.sum(delays <= 0)),
                "found_within": ROWS_AFTER,
                "share_found": float(np.mean(np.isfinite(after))),
                # JSON has no infinity: null is "not found".
                "delay_quartiles": [q if np.isfinite(q) else None for q in quartiles.tolist()],
            }
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", type=int, default=1_000, help="quiet streams")
    parser.add_argument("--shifted", type=int, default=200, help="streams for each shift")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    start, model = time.perf_counter(), fitted_model()
    found = {
        "command": f"python -m benchmarks.monitor --quiet {args.quiet} --shifted {args.shifted}",
        "quiet": quiet_streams(model, args.quiet),
        "shifted": shifted_streams(model, args.shifted),
        "seconds": time.perf_counter() - start,
        "machine": describe_machine(),
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: found[name] for name in ("quiet", "shifted", "seconds")}, indent=1))


if __name__ == "__main__":
    main()
