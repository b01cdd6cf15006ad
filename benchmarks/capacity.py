"""How many rows which method can take: processor time and memory, from 10^3 rows to 10^9.

Run as a program::

    python -m benchmarks.capacity          # measures what is missing, then writes the page
    python -m benchmarks.capacity dask     # the same on a Dask cluster of two processes
    python -m benchmarks.capacity page     # writes the page from the records; measures nothing

Each measurement fits on n rows of ten features and predicts n others in a process of its own, as
``benchmarks.speed.auto`` does, whose records serve for ``SLCPRegressor()``. Finished sizes are kept
in ``results/capacity.json``, and the same command continues after an interruption. Sizes that were
not measured are extrapolated from the two largest that were, N / 10 and N::

    seconds(n) = seconds(N) (n / N)^g,    g = max(1, log10(seconds(N) / seconds(N / 10))),
    gigabytes(n) = gigabytes(N) n / N.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.harness import describe_machine
from benchmarks.speed import auto, out_of_core
from benchmarks.tables import markdown_table
from localconformal import SLCPRegressor, SplitConformalRegressor

RESULTS = Path(__file__).parent / "results"
STORE, PAGE = RESULTS / "capacity.json", RESULTS / "capacity.md"
EXPONENTS = range(3, 10)
DASK_MILLIONS = (1, 5, 50)


def around_boosting(kind, **terms):
    """Fit around gradient boosting; the model and its intervals."""

    def make(X, y):
        estimator = HistGradientBoostingRegressor(random_state=0)
        # With n_jobs=None all work is done by threads of this process, whose time is counted.
        model = kind(estimator, random_state=0, **terms).fit(X, y)
        return model, model.predict_interval

    return make


METHODS = {
    "split": around_boosting(SplitConformalRegressor),
    "kernel": around_boosting(SLCPRegressor, law="kernel"),
    "forest": around_boosting(SLCPRegressor, law="forest"),
}
#: The kernel law on a cluster is ``python -m benchmarks.speed dask``.
ON_DASK = {
    "split": lambda model: SplitConformalRegressor(model, random_state=0),
    "forest": lambda model: SLCPRegressor(model, law="forest", random_state=0),
    "auto": lambda model: SLCPRegressor(model, law="auto", random_state=0),
}


def read():
    """All records so far; those of auto and of the kernel law on Dask are the speed benchmark's."""
    stored = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {"memory": {}, "dask": {}}
    speed = json.loads((RESULTS / "speed.json").read_text("utf-8"))
    return stored, speed


def measure(place, tasks, run, size_of):
    """Run the (name, n) that the store lacks, and keep each as soon as it is there."""
    for name, n in tasks:
        stored, _ = read()
        done = stored[place].setdefault(name, [])
        if n not in [size_of(one) for one in done]:
            done.append({**run(name, n), "machine": describe_machine()})
            done.sort(key=size_of)
            STORE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
            print(place, name, json.dumps(done[-1])[:200], file=sys.stderr, flush=True)


def on_cluster(name, n):
    return out_of_core.time_on_cluster(ON_DASK[name](out_of_core.fitted_line()), n)


def seconds(one):
    """Processor seconds of fit and predict together."""
    return one["fit_processor_seconds"] + one["predict_processor_seconds"]


def at(sizes, n, value, growth=None):
    """The value at n rows, and whether it was measured."""
    known = {one["n"]: value(one) for one in sizes}
    if n in known:
        return known[n], True
    most = max(size for size in known if size // 10 in known)
    if growth is None:
        growth = max(1.0, math.log10(known[most] / known[most // 10]))
    return known[most] * (n / most) ** growth, False


def duration(value):
    """Seconds in the largest unit that leaves a number above one."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if value >= 1.5 * length:
            return f"{value / length:.2g} {unit}"
    return f"{value:.2g} s"


def gigabytes(value):
    """Two digits, without an exponent."""
    return f"{float(f'{value:.2g}'):,g} GB"


def cells(methods, n, value, text, growth=None):
    """A line of the table; what was not measured is in italics."""
    found = {"rows": f"{n:,}"}
    for name, sizes in methods.items():
        number, measured = at(sizes, n, value, growth)
        found[name] = text(number) if measured else f"*{text(number)}*"
    return found


def page(stored, speed):
    """The tables in Markdown."""
    methods = {**stored["memory"], "auto": speed["auto"]["localconformal"]}
    sizes = [10**exponent for exponent in EXPONENTS]
    times = [cells(methods, n, seconds, duration) for n in sizes]
    memory = [
        cells(methods, n, lambda one: one["gigabytes_at_peak"], gigabytes, 1.0) for n in sizes
    ]
    clusters = {"kernel": speed["dask"]["sizes"], **stored["dask"]}
    clustered = [
        {
            "rows": f"{one['rows'] / 1e6:g} million",
            "method": name,
            "fit, s": f"{one['fit_seconds']:.3g}",
            "predict, s": f"{one['predict_seconds']:.3g}",
            "fit + predict, s per million rows": f"{per_million(one):.2f}",
            "peak of a worker, GB": f"{max(one['gigabytes_at_peak_of_workers']):.2f}",
        }
        for name, measured in clusters.items()
        for one in measured
    ]
    return "\n".join(
        [
            "Processor time to fit on n rows and predict n others:\n",
            markdown_table(times),
            "Memory at the peak of the process, data included:\n",
            markdown_table(memory),
            "On a Dask cluster of two worker processes, around a fitted linear model:\n",
            markdown_table(clustered),
        ]
    )


def per_million(one):
    return (one["fit_seconds"] + one["predict_seconds"]) * 1e6 / one["rows"]


def main(arguments=None):
    """Measure what is asked for, then write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["memory", "dask", "page"], default="memory")
    parser.add_argument("--most", type=float, default=1e6, help="largest number of rows")
    args = parser.parse_args(arguments)
    if args.what == "memory":
        sizes = [10**e for e in EXPONENTS if 10**e <= args.most]
        tasks = [(name, n) for n in sizes for name in METHODS]

        def run(name, n):
            return auto.in_fresh_process(name, n, __spec__.name)

        measure("memory", tasks, run, lambda one: one["n"])
    if args.what == "dask":
        sizes = [int(m * 1e6) for m in DASK_MILLIONS if m * 1e6 <= args.most]
        tasks = [(name, n) for name in ON_DASK for n in sizes]
        measure("dask", tasks, on_cluster, lambda one: one["rows"])
    PAGE.write_text(page(*read()), encoding="utf-8")


if __name__ == "__main__":
    main()
