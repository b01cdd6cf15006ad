"""What the experiments on settings, limits and seconds say about claims of the paper."""

from __future__ import annotations

from localconformal.experiments.claims_checks import Check, Finding, at_most, finding, less, more
from localconformal.experiments.claims_results import Results
from localconformal.experiments.claims_words import (
    AUTO,
    SLCP,
    auto_longer,
    auto_sentence,
    by,
    difference,
    distinct,
    over_models,
    per_cent_longer,
    say,
)
from localconformal.experiments.paper import bandwidth, minibatch, proposition2, run_time
from localconformal.experiments.paper._ablation import relative
from localconformal.experiments.paper._scenarios import HARMLESS_GAP, LAWS, NONE
from localconformal.experiments.paper._subgroups import OVERALL
from localconformal.experiments.summary import in_per_cent, over_repeats, select

#: Per cent by which an interval may be longer and still be as good.
TOLERATED = 5.0


def minibatches(results: Results) -> Finding:
    """A mini-batch of 30 % is enough: lengths within a few per cent of those with all rows."""
    rows = results.rows("minibatch")
    whole, third = minibatch.ALL_ROWS, 30
    checks: list[Check] = []
    for model, here in by(rows, "model").items():
        for variant in minibatch.VARIANTS:
            mine = select(here, method=variant)
            longer = per_cent_longer(select(mine, percent=third), select(mine, percent=whole))
            checks += at_most(
                f"{model}, {variant}",
                f"longer than with all rows, % ({TOLERATED:g} tolerated)",
                longer,
                TOLERATED,
            )
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
    return finding(checks, [said, auto_longer(by(rows, "model"), bandwidth.MEDIAN)])


def deep(results: Results) -> Finding:
    """Scales to deep embeddings: the age model, with its own rows for all test images."""
    rows = select(results.rows("age"), group=OVERALL)
    checks: list[Check] = []
    for other in distinct(rows, "method"):
        if other not in (SLCP, AUTO):
            what = f"length of SLCP minus {other}'s"
            checks += less("age", what, difference(rows, SLCP, other, "length"))
    return finding(checks, [auto_sentence({"age": rows}, "length", "the mean length")])


def asymptotic(results: Results) -> Finding:
    """Asymptotic conditional coverage: the exponent with which the gap falls in n."""
    rows, preset = results.rows("proposition2"), results.preset
    checks: list[Check] = []
    sentences = []
    for name, here in by(rows, "dataset").items():
        for law in ("median", "rate"):
            mine = select(here, method=law)
            what = f"exponent of n in the gap (must be below {proposition2.SLOWEST})"
            exponent = proposition2.exponent_of(mine, preset)
            checks += less(f"{name}, {law}", what, exponent, proposition2.SLOWEST)
            sizes = proposition2.sizes_of(preset)
            ends = [proposition2.gap_at(here, law, n) for n in (sizes[0], sizes[-1])]
            if ends[0] and ends[1]:
                sentences.append(
                    f"On {name} with the bandwidth {law}, the gap goes from {say(ends[0])} to "
                    f"{say(ends[1])} points as rows grow from {sizes[0]} to {sizes[-1]}."
                )
    return finding(checks, sentences)


def harmless(results: Results) -> Finding:
    """No harm where nothing is to be localized: what a local law adds to the conditional gap."""
    checks: list[Check] = []
    for experiment in ("independent_scores", "true_quantiles"):
        for name, rows in by(results.rows(experiment), "dataset").items():
            # Not the true quantiles, which are among the methods and no law.
            for law in (one for one in LAWS if one != NONE):
                added = in_per_cent(difference(rows, law, NONE, "conditional_gap"))
                what = f"added conditional gap, points ({HARMLESS_GAP} tolerated)"
                checks += at_most(f"{name}, {law}", what, added, HARMLESS_GAP)
    return finding(checks, [])


def cheaper(results: Results) -> Finding:
    """LCP and CD-Split take more computation."""
    rows = results.rows("run_time")
    checks: list[Check] = []
    for n, here in by(rows, "size").items():
        for other in run_time.SLOWER:
            ours = run_time.ratio(here, other)
            checks += more(f"{n} rows", f"seconds of {other} over SLCP's", ours, 1.0)
    largest = select(rows, size=distinct(rows, "size")[-1]) if rows else []
    auto = run_time.ratio(largest, AUTO)
    said = auto and f'With law="auto" the largest size takes {say(auto)} times as long as SLCP.'
    return finding(checks, [said])
