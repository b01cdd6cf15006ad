"""What the experiments on settings, limits and seconds say about claims of the paper."""

from __future__ import annotations

from localconformal.experiments.claims_checks import Check, Finding, finding, less, more
from localconformal.experiments.claims_lengths import cost_sentence
from localconformal.experiments.claims_results import Results
from localconformal.experiments.claims_words import (
    auto_longer,
    by,
    difference,
    distinct,
    over_models,
    per_cent_longer,
    say,
)
from localconformal.experiments.experiment import Row
from localconformal.experiments.paper import bandwidth, minibatch, proposition2, run_time
from localconformal.experiments.paper._ablation import relative
from localconformal.experiments.paper._scenarios import HARMLESS_GAP, LAWS, NONE
from localconformal.experiments.presets import Preset
from localconformal.experiments.summary import Mean, in_per_cent, over_repeats, select

#: Per cent by which an interval may be longer and still be as good.
TOLERATED = 5.0
NO_DEFAULTS = (
    "This library's defaults have no part here: scores come from the truth, and only the kernel's "
    "bandwidth is asked about."
)


def minibatches(results: Results) -> Finding:
    """A mini-batch of 30 % is enough: lengths within a few per cent of those with all rows."""
    rows = results.rows("minibatch")
    whole, third = minibatch.ALL_ROWS, 30
    checks: list[Check] = []
    for model, here in by(rows, "model").items():
        for variant in (*minibatch.VARIANTS, minibatch.NARROW):
            mine = select(here, method=variant)
            longer = per_cent_longer(select(mine, percent=third), select(mine, percent=whole))
            what = f"longer than with all rows, % ({TOLERATED:g} tolerated)"
            checks += less(f"{model}, {variant}", what, longer, TOLERATED)
    everywhere = over_models(rows)
    timed = select(everywhere, method="SLCP-RBF")
    part, base = select(timed, percent=third), select(timed, percent=whole)
    time = over_repeats(relative(part, base, "law_seconds"), "relative")
    sketch = select(everywhere, method="SLCP-RBF, sketch")
    sketch_time = over_repeats(relative(sketch, base, "law_seconds"), "relative")
    sketch_length = per_cent_longer(sketch, base)
    return finding(
        checks,
        [
            f"On {len(distinct(rows, 'dataset'))} of the paper's 16 data sets. At the median "
            "bandwidth most rows are near every x, so that few of them tell as much: this asks "
            f"little of a mini-batch. {minibatch.NARROW}, with the bandwidth of the authors' code, "
            "asks more.",
            time and f"The law then takes {say(time)} of the time that it takes with all rows.",
            sketch_time
            and sketch_length
            and f"The sketch, which keeps all rows, takes {say(sketch_time)} of it, with lengths "
            f"that differ by {say(sketch_length)} %.",
            auto_longer(by(rows, "model"), "SLCP-RBF", percent=whole),
        ],
    )


def best_bandwidth(results: Results) -> Finding:
    """The median is the best bandwidth: any other quantile gives longer intervals."""
    rows = results.rows("bandwidth")
    checks: list[Check] = []
    for model, here in by(rows, "model").items():
        for name in bandwidth.quantiles():
            if name != bandwidth.MEDIAN:
                longer = bandwidth.longer_than_median(here, name)
                checks += more(f"{model}, {name}", "longer than with the median, %", longer)
    beside = []
    for name in bandwidth.LAWS:
        for model, here in by(rows, "model").items():
            longer = bandwidth.longer_than_median(here, name)
            beside += [f"{name} {say(longer)} % on {model}"] if longer else []
    said = "Other rules differ from the median by: " + ", ".join(beside) + "." if beside else None
    auto = auto_longer(by(rows, "model"), bandwidth.MEDIAN)
    return finding(checks, [said, auto], superlative=True)


def asymptotic(results: Results) -> Finding:
    """Asymptotic conditional coverage: the exponent with which the gap falls in n."""
    rows, preset = results.rows("proposition2"), results.preset
    checks: list[Check] = []
    sentences = []
    for name, here in by(rows, "dataset").items():
        for law in ("median", "rate"):
            exponent = proposition2.exponent_of(select(here, method=law), preset)
            if (name, law) == proposition2.JUDGED:
                what = f"exponent of n in the gap ({proposition2.SLOWEST} or less)"
                checks += less(f"{name}, {law}", what, exponent, proposition2.SLOWEST)
                why = ""
            else:
                why = f" Not judged: {proposition2.why_outside(name, law)}."
            if exponent:
                sentences.append(gap_sentence(here, name, law, preset, exponent) + why)
    return finding(checks, [*sentences, NO_DEFAULTS])


def gap_sentence(rows: list[Row], name: str, law: str, preset: Preset, exponent: Mean) -> str:
    """How the gap falls from the least to the most rows."""
    sizes = proposition2.sizes_of(preset)
    ends = [proposition2.gap_at(rows, law, n) for n in (sizes[0], sizes[-1])]
    words = " to ".join(say(mean) for mean in ends if mean)
    return (
        f"On {name} with the bandwidth {law}, the gap goes from {words} points as rows grow from "
        f"{sizes[0]} to {sizes[-1]}: exponent {say(exponent)}."
    )


def harmless(results: Results) -> Finding:
    """No harm where nothing is to be localized: what a local law adds to the conditional gap."""
    checks: list[Check] = []
    for experiment in ("independent_scores", "true_quantiles"):
        for name, rows in by(results.rows(experiment), "dataset").items():
            # Not the true quantiles, which are among the methods and no law.
            for law in (one for one in LAWS if one != NONE):
                added = in_per_cent(difference(rows, law, NONE, "conditional_gap"))
                what = f"added conditional gap, points ({HARMLESS_GAP} tolerated)"
                checks += less(f"{name}, {law}", what, added, HARMLESS_GAP)
    return finding(checks, [NO_DEFAULTS], superlative=True)


def cheaper(results: Results) -> Finding:
    """LCP and CD-Split take more computation."""
    rows = results.rows("run_time")
    checks: list[Check] = []
    for n, here in by(rows, "size").items():
        for other in run_time.SLOWER:
            for field, words in run_time.QUANTITIES.items():
                ours = run_time.ratio(here, other, field)
                checks += more(f"{n:,} rows", f"{words} of {other} over SLCP's", ours, 1.0)
    caveat = (
        "LCP's seconds are in part those of the search for its bandwidth, which SLCP's median does "
        "not need, and LCP is this library's exact algorithm, which is quicker than the published "
        "one. SLCP's law is plain NumPy up to 3,000 rows and compiled code beyond."
    )
    return finding(checks, [caveat, cost_sentence(rows)])
