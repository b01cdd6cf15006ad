"""The page of measurements, from the committed records: ``python -m benchmarks.measurements``.

Every number on it is read from a file in ``results/``; a test writes it again and compares. The
quality benchmark, the referee's tables and the paper have their own pages.
"""

import json
from pathlib import Path

from benchmarks import capacity
from benchmarks.tables import markdown_table

RESULTS = Path(__file__).parent / "results"
PAGE = RESULTS / "measurements.md"


def record(name):
    """A committed record."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def whole_fits(speed):
    rows = [
        {
            "rows": f"{one['n']:,}",
            "method": {"localconformal": "`SLCPRegressor()`"}.get(name, name),
            "fit, s": f"{one['fit_seconds']:.1f}",
            "predict, s": f"{one['predict_seconds']:.2g}",
            "one row, ms": f"{one['one_row_milliseconds']:.1f}",
            "peak memory, GB": f"{one['gigabytes_at_peak']:.2f}",
            "pickle, MB": f"{one['pickle_megabytes']:.1f}",
        }
        for name, sizes in speed["auto"].items()
        for one in sizes
    ]
    about = "Fit on n rows with ten features, predict n others; two threads on a busy machine."
    return about, markdown_table(rows), "`python -m benchmarks.speed auto`"


def capacities(speed):
    about = (
        "Split conformal, the kernel law and the forest law around gradient boosting, and the "
        "default. Figures in italics are extrapolated, as explained on the page on run time and "
        "sample sizes; the others are measured."
    )
    commands = "`python -m benchmarks.capacity`, `python -m benchmarks.speed auto dask`"
    return about, capacity.page(capacity.read()[0], speed), commands


def peers(speed):
    rows = [
        {
            "method": name,
            "largest n within a minute": f"{one['largest_n']:,}",
            **{f"n = {n:,}, s": total(one["sizes"], n) for n in (1_000, 30_000, 1_000_000)},
        }
        for name, one in speed["peers"].items()
    ]
    about = "Calibrate on n rows and predict n others, all around the same boosted model."
    return about, markdown_table(rows), "`python -m benchmarks.speed peers`"


def total(sizes, n):
    """Seconds at this size, a dash if it was not reached."""
    known = [one["total_seconds"] for one in sizes if one["n"] == n]
    return f"{known[0]:.2g}" if known else "–"


def engines(speed):
    rows = [
        {
            "engine": name,
            **{f"n = {n:,}": quantiles(one["sizes"], n) for n in (10_000, 100_000, 1_000_000)},
            "growth": f"n^{one['growth_exponent']:.1f}",
        }
        for name, one in speed["engines"].items()
    ]
    about = (
        "Seconds for n local quantiles from n reference rows with ten features, two threads. If "
        "that takes long, fewer queries were timed and the result was scaled up.\n\n"
        "![Seconds by size, for engines and whole intervals](speed.png)"
    )
    text = markdown_table(rows) + "\n" + "".join(f"- {fact}\n" for fact in engine_facts(speed))
    return about, text, "`python -m benchmarks.speed`"


def engine_facts(speed):
    """What the table has no column for, as sentences."""
    errors = speed["errors"]
    wrong = "; ".join(
        f"{name} {of['mean']:.4f} and {of['percentile_99']:.4f}"
        for name, of in errors.items()
        if isinstance(of, dict)
    )
    exact, sketch = speed["bars"]["exact"], speed["bars"]["sketch"]
    per_pair, over = exact["nanoseconds_per_pair"], exact["exact_over"]["bare_exp_in_cache"]
    return [
        f"Exact engine, {exact['n']:,} references: {per_pair['exact']:.2f} ns per pair of rows, "
        f"{over:.2f} times a bare float32 exponential in cache; the naive way takes "
        f"{exact['naive_over_exact']:.0f} times as long.",
        f"Sketch, {sketch['n']:,} references and as many queries: "
        f"fit {sketch['fit_seconds']:.1f} s, query {sketch['query_seconds']:.1f} s, "
        f"together {sketch['ratio']['two_threads']:.2f} times the time that boosting with 100 "
        "trees takes to predict these rows. Peak memory "
        f"{speed['memory']['gigabytes_at_peak']:.2f} GB, of which "
        f"{speed['memory']['gigabytes_with_data']:.2f} are data.",
        f"Rank error against the exact law at {errors['n']:,} references, mean and 99th "
        f"percentile: {wrong}.",
        f"First call of a process: {speed['first_call']['warm_pause_seconds']['exact']:.2f} s more "
        f"than the second once the loops are in the cache; on a new machine "
        f"{speed['first_call']['cold_cache']['exact_first']:.0f} s for the exact engine and "
        f"{speed['first_call']['cold_cache']['sketch_first']:.0f} s for the sketch.",
    ]


def quantiles(sizes, n):
    (found,) = [one["seconds_for_n_queries"] for one in sizes if one["n"] == n]
    return capacity.duration(found)


def memory(_):
    found = record("resources")
    rows = {}
    for one in found["predictions"]:
        line = rows.setdefault(one["law"], {"law": one["law"]})
        line[f"{one['rows']:,} rows, MB"] = f"{one['megabytes_at_peak']:.0f}"
    growth = "; ".join(
        f"{one['law']} {one['megabytes_of_growth_since']} MB" for one in found["cycles"]
    )
    about = "Peak of `predict_interval`, with the result but without X, for rows of five numbers."
    text = markdown_table([row for row in rows.values() if len(row) > 2])
    text += f"\nGrowth of the process from the 100th to the 1,000th fit: {growth}.\n"
    return about, text, f"`{found['command']}`"


def networks(speed):
    rows = [
        {
            "network": name,
            "forward pass, s": f"{one['forward_seconds']:.1f}",
            "embedding, prediction and interval, s": f"{one['interval_seconds']:.1f}",
            "ratio": f"{one['interval_over_forward']:.2f}",
        }
        for name, one in speed["networks"].items()
    ]
    about = "10,000 images of 64 x 64 pixels, two threads."
    return about, markdown_table(rows), "`python -m benchmarks.speed networks`"


def tables(speed):
    audit = speed["audit"]
    rows = [
        {
            "rows": f"{int(n):,}",
            "CSV file, GB": f"{one['gigabytes_of_csv']:.2f}",
            "seconds": f"{one['seconds']:.0f}",
            "peak memory, GB": f"{one['gigabytes_at_peak']:.2f}",
        }
        for n, one in speed["predict_csv"].items()
    ]
    about = (
        "`localconformal predict` on a CSV file (linear model, split conformal). An audit of "
        f"{audit['n']:,} rows and {audit['columns']} columns took {audit['seconds']:.1f} s."
    )
    return about, markdown_table(rows), "`python -m benchmarks.speed predict_csv audit`"


def monitor(_):
    found = record("monitor")
    quiet = found["quiet"]
    rows = [
        {
            "calibration rows": f"{one['n_calibration']:,}",
            "unchanged rows before": f"{one['quiet_rows_before']:,}",
            "alarms before the change": one["alarms_before_the_shift"],
            "rows to the alarm, median (quartiles)": "{1:.0f} ({0:.0f} to {2:.0f})".format(
                *one["delay_quartiles"]
            ),
            f"found within {one['found_within']:,} rows": f"{100 * one['share_found']:.0f} %",
        }
        for one in found["shifted"]
    ]
    about = (
        f"{quiet['alarms']} false alarms in {quiet['streams']:,} unchanged streams of "
        f"{quiet['rows']:,} rows, at a stated rate of {100 * quiet['stated_rate']:g} %. Below, "
        "streams whose noise grows so that coverage falls from 90 % to 80 %, 200 per line."
    )
    return about, markdown_table(rows), f"`{found['command']}`"


def stress(_):
    found = record("stress")
    verdicts = ", ".join(f"{count} {outcome}" for outcome, count in found["outcomes"].items())
    lowest = min(found["rows"], key=lambda row: row["coverage"])
    below = (0.9 - lowest["coverage"]) / lowest["standard_error"]
    about = (
        "Mean coverage in per cent at a level of 90 %, over 120 seeds that draw new training, "
        "calibration and test rows (80, 60 and 40; 25 and 25 of the first two with 1,000 "
        f"features). {found['cells']} cells and {found['fits']:,} fits: {verdicts}. A cell fails "
        "if its mean is below 90 % by more than chance explains in all cells together, or if any "
        f"result is NaN, crossed or an error. The lowest mean, {100 * lowest['coverage']:.1f} "
        f"%, is {below:.1f} standard errors below the level."
    )
    return about, (RESULTS / "stress.md").read_text("utf-8"), f"`{found['command']}`"


def mutants(_):
    rows = [
        {
            "package": package,
            "mutants tried": of["tried"],
            **of["tally"],
            "killed or timed out": f"{100 * of['share_killed']:.0f} %",
            "survivors judged to change nothing": of["survivors_without_a_difference"],
        }
        for package, of in record("mutation")["packages"].items()
    ]
    about = (
        "The source is changed in one place, and the package's default tests run until one fails. "
        "In laws and engine a sample of all changes was drawn."
    )
    return about, markdown_table(rows), "`benchmarks/cosmic-ray.toml` says how to repeat it"


def versions(_):
    names = ["numpy", "scipy", "scikit-learn", "numba", "pandas", "polars"]
    rows = [
        {
            "session": f"`{one['command']}`"
            if one["command"].startswith("nox")
            else one["command"],
            "Python": one["python"],
            **{name: one["packages"].get(name) for name in names},
            "passed": f"{one['passed']:,}",
            "skipped": one["skipped"],
        }
        for one in record("versions")["sessions"]
    ]
    return "The oldest declared dependencies, and the newest.", markdown_table(rows), "`nox`"


SECTIONS = {
    "Whole fits": whole_fits,
    "Capacity": capacities,
    "Calibrating and predicting, compared with peers": peers,
    "Local quantiles": engines,
    "Memory of predictions": memory,
    "Networks": networks,
    "Files and audits": tables,
    "The monitor": monitor,
    "Coverage on adversarial data": stress,
    "Mutants": mutants,
    "Versions": versions,
}


def page():
    """The page in Markdown."""
    speed = record("speed")
    machine = speed["machine"]["auto"]
    parts = [
        "Written by `python -m benchmarks.measurements` from the records next to this file, each "
        f"of which states its date, versions and load. Machine: {machine['cores']} cores of an "
        f"{machine['cpu']}, shared with other work, so seconds are only a guide; ratios within one "
        "table are more reliable.\n"
    ]
    for title, section in SECTIONS.items():
        about, text, command = section(speed)
        parts += [f"## {title}\n", f"{about}\n", text, f"Repeat: {command}.\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
