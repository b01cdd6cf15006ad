"""`explain_width` on `two_of_fifty`: do its parts add up, and does it find the two features?

``python -m benchmarks.explain`` writes benchmarks/results/explain.json. The scale of the noise
depends on the first two of fifty features. A row counts as found when the two largest parts of its
width, by size, are those of these two. Each seed draws training rows, and 100 new ones to explain.
Close to 1/2 a feature's true part is zero, so any error ranks others before it: a row is clear
when both true parts are at least a fiftieth of the mean width. Cells that are there already are
kept.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import describe_machine
from benchmarks.quality.datasets import two_of_fifty
from localconformal import SLCPRegressor

RESULTS = Path(__file__).parent / "results" / "explain.json"
#: Rows and law -> seeds: most where a fit is quick.
SEEDS = {(5_000, "auto"): 40, (5_000, "forest"): 3, (20_000, "auto"): 3, (50_000, "auto"): 3}
N_NEW, TRUE = 100, {0, 1}
#: Least true part of a feature in a clear row, as a share of the mean width.
CLEAR = 0.02


def is_clear(X):
    """Whether both true parts of the width z (1 + 4 x_1 x_2), up to a factor z, are not small.

    Against a uniform background the part of x_1 is 2 (x_1 - 1/2) (x_2 + 1/2), and that of x_2
    likewise; the mean width is 2.
    """
    first, second = X[:, 0] - 0.5, X[:, 1] - 0.5
    least = np.minimum(np.abs(first * (second + 1.0)), np.abs(second * (first + 1.0)))
    return 2.0 * least >= CLEAR * 2.0


def one(n, law, seed):
    """The figures of one fit and 100 explained rows."""
    X, y = two_of_fifty.sample(n, random_state=2 * seed)
    new, _ = two_of_fifty.sample(N_NEW, random_state=2 * seed + 1)
    start = time.perf_counter()
    model = SLCPRegressor(law=law, random_state=seed).fit(X, y)
    fitted = time.perf_counter()
    found = model.explain_width(new)
    explained = time.perf_counter()
    lower, upper = model.predict_interval(new).T
    parts = found.iloc[:, :-2].to_numpy()
    top = np.argsort(-np.abs(parts), axis=1)[:, :2]
    others = np.abs(parts[:, 2:]).max(axis=1)
    hit, clear = np.array([set(row.tolist()) == TRUE for row in top]), is_clear(new)
    alone = model.explain_width(new[7:8]).to_numpy()[0]
    return {
        "rows": n,
        "law": law,
        "seed": seed,
        "found": int(hit.sum()),
        "clear": int(clear.sum()),
        "found_of_clear": int((hit & clear).sum()),
        "largest_gap": float(np.abs(parts.sum(axis=1) + found["base"] - (upper - lower)).max()),
        "alone_gap": float(np.abs(alone - found.to_numpy()[7]).max()),
        "mean_part_of_the_two": float(np.abs(parts[:, :2]).mean()),
        "mean_largest_part_of_others": float(others.mean()),
        "fit_seconds": fitted - start,
        "explain_seconds": explained - fitted,
    }


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    known = {(row["rows"], row["law"], row["seed"]) for row in rows}
    cells = [(*cell, seed) for cell, seeds in SEEDS.items() for seed in range(seeds)]
    for cell in cells:
        if cell not in known:
            rows.append(one(*cell))
            rows.sort(key=lambda row: cells.index((row["rows"], row["law"], row["seed"])))
            told = {"command": "OMP_NUM_THREADS=1 python -m benchmarks.explain"}
            told |= {"machine": describe_machine(), "new_rows": N_NEW, "rows": rows}
            RESULTS.write_text(json.dumps(told, indent=1) + "\n")
            print(cell, flush=True)


if __name__ == "__main__":
    main()
