"""`explain_width` on `two_of_fifty`: do its parts add up, and does it find the two features?

``python -m benchmarks.explain`` writes benchmarks/results/explain.json. The scale of the noise
depends on the first two of fifty features. A row counts as found when the two largest parts of its
width, by size, are those of these two. Each seed draws training rows, and 100 new ones to explain.
Close to 1/2 a feature's true part is zero, so that any error ranks others before it. Cells that are
there already are kept.
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
SIZES, LAWS, SEEDS, N_NEW = (5_000, 20_000, 50_000), ("auto", "forest"), 3, 100
#: Too slow to fit here for what it would tell.
LEFT_OUT = {(50_000, "forest"), (20_000, "forest")}
TRUE = {0, 1}


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
    alone = model.explain_width(new[7:8]).to_numpy()[0]
    return {
        "rows": n,
        "law": law,
        "seed": seed,
        "found": int(sum(set(row.tolist()) == TRUE for row in top)),
        "largest_gap": float(np.abs(parts.sum(axis=1) + found["base"] - (upper - lower)).max()),
        "alone_gap": float(np.abs(alone - found.to_numpy()[7]).max()),
        "mean_part_of_the_two": float(np.abs(parts[:, :2]).mean()),
        "mean_largest_part_of_others": float(others.mean()),
        "fit_seconds": fitted - start,
        "explain_seconds": explained - fitted,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = parser.parse_args().seeds
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    known = {(row["rows"], row["law"], row["seed"]) for row in rows}
    for n in SIZES:
        for law in LAWS:
            for seed in range(seeds):
                if (n, law) in LEFT_OUT or (n, law, seed) in known:
                    continue
                rows.append(one(n, law, seed))
                told = {"command": "OMP_NUM_THREADS=1 python -m benchmarks.explain"}
                told |= {"machine": describe_machine(), "new_rows": N_NEW, "rows": rows}
                RESULTS.write_text(json.dumps(told, indent=1) + "\n")
                print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
