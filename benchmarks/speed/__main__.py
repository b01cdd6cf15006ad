"""Run all parts, or those named on the command line, and keep the results.

Parts that are not named keep the figures of the run before.
"""

import json
import os
import sys
from pathlib import Path

# Two threads for gradient boosting and for the engine alike; before any of them is loaded.
os.environ["OMP_NUM_THREADS"] = "2"

from benchmarks.speed import (
    audit,
    auto,
    bars,
    baselines,
    dask_graph,
    engines,
    forest,
    machine,
    networks,
    out_of_core,
    peers,
    plot,
    processes,
    table,
    whole,
)

RESULTS = Path(__file__).parents[1] / "results"
PARTS = {
    "bars": lambda: {
        "exact": bars.exact_against_exp_and_naive(),
        "sketch": bars.sketch_against_point_model(),
    },
    "engines": engines.time_methods,
    "flatness": engines.time_flatness,
    "errors": engines.measure_errors,
    "first_call": processes.first_calls,
    "memory": processes.peak_memory,
    "whole": whole.time_whole,
    "peers": peers.time_peers,
    "forest": forest.time_forest,
    "auto": auto.time_auto,
    "audit": audit.time_audit,
    "baselines": baselines.time_baselines,
    "predict_csv": table.predict_large_csv,
    "networks": networks.time_networks,
    "dask": out_of_core.time_out_of_core,
    "dask_graph": dask_graph.measure_graphs,
}


def main(names):
    """Run, print and write."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"There is no part {', '.join(unknown)}; choose among {', '.join(PARTS)}.")
    file = RESULTS / "speed.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results.setdefault("machine", {})
    for name in names or PARTS:
        before = machine.describe()
        results[name] = PARTS[name]()
        results["machine"][name] = before
        print(name, json.dumps(results[name], indent=1), flush=True)
        RESULTS.mkdir(exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
    if {"engines", "bars", "peers"} <= set(results):
        plot.draw(results, RESULTS / "speed.png")


if __name__ == "__main__":
    main(sys.argv[1:])
