"""Run all parts, or those named on the command line, and keep the results.

Parts that are not named keep the figures of the run before.
"""

import json
import os
import sys
from pathlib import Path

# Two threads for gradient boosting and for the engine alike; before any of them is loaded.
os.environ["OMP_NUM_THREADS"] = "2"

from matplotlib.figure import Figure

from benchmarks.harness import describe_machine
from benchmarks.speed import audit, auto, engines, laws, networks, out_of_core, peers, table

RESULTS = Path(__file__).parents[1] / "results"
PARTS = {
    "bars": lambda: {
        "exact": engines.exact_against_exp_and_naive(),
        "sketch": engines.sketch_against_point_model(),
    },
    "engines": engines.time_methods,
    "flatness": engines.time_flatness,
    "errors": engines.measure_errors,
    "whole": laws.time_whole,
    "peers": peers.time_peers,
    "forest": lambda: [laws.time_size(n) for n in laws.SIZES],
    "auto": auto.time_auto,
    "audit": audit.time_audit,
    "baselines": peers.time_baselines,
    "predict_csv": table.predict_large_csv,
    "networks": networks.time_networks,
    "dask": out_of_core.time_out_of_core,
}


def draw(results, path):
    """Seconds by size of the engines, and of whole intervals by this library and peers."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, one in results["engines"].items():
        curve(left, name, one, "seconds_for_n_queries")
    predict = results["bars"]["sketch"]["predict_seconds"]["half_of_one_thread"]
    left.axhline(predict, color="grey", lw=1, ls=":", label="boosting predicts $10^6$ rows")
    left.set(title="n local quantiles from n references (d = 10)", ylabel="seconds")
    for name, one in results["peers"].items():
        curve(right, name, one, "predict_seconds")
    right.set(title="predict_interval of n rows, calibrated on n")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="n")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=90)


def curve(axes, name, one, key):
    """One method's seconds, with its growth exponent."""
    sizes = [point["n"] for point in one["sizes"]]
    growth = one["growth_exponent"]
    label = name if growth is None else f"{name}, $n^{{{growth:.1f}}}$"
    axes.plot(sizes, [point[key] for point in one["sizes"]], "o-", ms=4, label=label)


def main(names):
    """Run, print and write."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"There is no part {', '.join(unknown)}; choose among {', '.join(PARTS)}.")
    file = RESULTS / "speed.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results.setdefault("machine", {})
    for name in names or PARTS:
        before = describe_machine()
        results[name] = PARTS[name]()
        results["machine"][name] = before
        print(name, json.dumps(results[name], indent=1), flush=True)
        RESULTS.mkdir(exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
    if {"engines", "bars", "peers"} <= set(results):
        draw(results, RESULTS / "speed.png")


if __name__ == "__main__":
    main(sys.argv[1:])
