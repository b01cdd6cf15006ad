"""What the experiments say about claims that SLCP's intervals are the shortest."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import ndtri

from localconformal.experiments.claims_checks import AGAINST, Check, Finding, finding, less
from localconformal.experiments.claims_results import Results
from localconformal.experiments.claims_words import (
    AUTO,
    DEFAULTS,
    SLCP,
    auto_sentence,
    by,
    difference,
    distinct,
    per_cent_longer,
    say,
    signed,
)
from localconformal.experiments.experiment import Row
from localconformal.experiments.objective import LEVEL
from localconformal.experiments.paper import one_change, run_time, table1, table3
from localconformal.experiments.paper._subgroups import OVERALL
from localconformal.experiments.summary import below_bands, in_per_cent, over_repeats, select


def shorter_than(where: str, rows: list[Row], other: str) -> list[Check]:
    """SLCP's lengths against another method's, beyond what their coverages explain.

    Means are of finite lengths: a method that leaves its hardest rows infinite is not shorter.
    """
    what = f"100 log ratio of lengths, SLCP / {other}"
    shares = [over_repeats(select(rows, method=name), "coverage") for name in (SLCP, other)]
    bound = 0.0
    if shares[0] and shares[1]:
        bound = explained(shares[0].value, shares[1].value)
        what += (
            f"; coverage {100 * shares[0].value:.1f} and {100 * shares[1].value:.1f} %, which "
            f"explains {bound:+.1f}"
        )
    barred: tuple[str, ...] = ()
    if infinite := table1.infinite_share(select(rows, method=other)):
        what += f"; {infinite:.1f} % of {other}'s are infinite and left out"
        barred = (AGAINST,)
    return less(where, what, table1.log_ratio(rows, SLCP, other), bound, barred)


def explained(first: float, second: float) -> float:
    """100 log ratio of the lengths that two coverages take where errors are normal.

    Examples
    --------
    >>> round(explained(0.91, 0.9), 1), explained(1.0, 1.0)
    (3.0, 0.0)
    """
    # A share of 1, of few rows, would ask for an infinite length.
    most = 1.0 - 1e-3
    one, other = (ndtri((1.0 + min(share, most)) / 2.0) for share in (first, second))
    return float(100.0 * np.log(one / other)) if one > 0.0 and other > 0.0 else 0.0


def rivals(model: str) -> list[str]:
    """The paper's other methods."""
    return [name for name in table1.methods_of(model) if name not in (SLCP, *table1.BESIDE)]


def shortest(results: Results) -> Finding:
    """Shortest intervals at valid coverage: Table 1 on its exact data sets, and Table 3."""
    rows, simulated = results.rows("table1"), results.rows("table3")
    exact = table1.exact(rows)
    checks: list[Check] = []
    for model, here in by(exact, "model").items():
        for other in rivals(model):
            checks += shorter_than(model, here, other)
    for name, here in by(simulated, "dataset").items():
        for other in table3.COMPARED[:-1]:
            checks += shorter_than(name, here, other)
    return finding(
        checks,
        [
            *(shortest_sentence(model, here) for model, here in by(exact, "model").items()),
            split_sentence(exact),
            stand_in_sentence(rows),
            validity_sentence(rows),
            constant_sentence(results.rows("one_change")),
            auto_lengths(exact),
            auto_sentence(by(simulated, "dataset"), "length", "the mean length in Table 3"),
            change_sentence(results.rows("one_change")),
            cost_sentence(results.rows("run_time")),
        ],
        superlative=True,
    )


def shortest_sentence(model: str, rows: list[Row]) -> str | None:
    """SLCP's length and coverage, and on how many data sets it is the shortest of the paper's."""
    length = over_repeats(select(rows, method=SLCP), "length")
    covered = in_per_cent(over_repeats(select(rows, method=SLCP), "coverage"))
    if length is None or covered is None:
        return None
    sets = by(rows, "dataset")
    wins = {finite: sum(is_shortest(here, finite) for here in sets.values()) for finite in (0, 1)}
    return (
        f"On {model} SLCP is {say(length)} long at {say(covered)} % coverage, and the shortest of "
        f"the paper's methods on {wins[0]} of {len(sets)} data sets; on {wins[1]} of them if "
        "methods with infinite intervals do not count."
    )


def is_shortest(rows: list[Row], only_finite: int) -> bool:
    """Whether SLCP has the least mean length on a data set, among methods whose mean is one."""
    known = {}
    for method in table1.COMPARED:
        mine = select(rows, method=method)
        mean = over_repeats(mine, "length")
        if mean and not (only_finite and table1.infinite_share(mine)):
            known[method] = mean.value
    return SLCP in known and min(known, key=lambda method: known[method]) == SLCP


def split_sentence(rows: list[Row]) -> str | None:
    """Plain split conformal, which the paper does not have in its table."""
    found = {
        model: table1.log_ratio(here, SLCP, "split") for model, here in by(rows, "model").items()
    }
    parts = [f"{signed(mean, 1)} on {model}" for model, mean in found.items() if mean]
    if not parts:
        return None
    return (
        "SLCP and CQR stand on quantile models, all others on models of the mean: where both are "
        "long, the quantile model is behind it. Against split conformal, which the paper does not "
        f"have in its table, SLCP's ratio is {', '.join(parts)}."
    )


def stand_in_sentence(rows: list[Row]) -> str | None:
    """The same ratios with the stand-ins among the data sets."""
    parts = []
    for model, here in by(rows, "model").items():
        found = {other: table1.log_ratio(here, SLCP, other) for other in rivals(model)}
        ratios = [f"{other} {signed(mean, 1)}" for other, mean in found.items() if mean]
        parts.append(f"{model}: {', '.join(ratios)}")
    stand_ins = [name for name in distinct(rows, "dataset") if name not in table1.EXACT]
    if not stand_ins:
        return None
    return (
        f"Judged on the exact data sets. With the stand-ins ({', '.join(stand_ins)}) too, the "
        f"ratios are, for {'; '.join(parts)}."
    )


def validity_sentence(rows: list[Row]) -> str | None:
    """Whether SLCP's coverage is what chance allows."""
    found = below_bands(select(rows, method=SLCP), LEVEL)
    if not found:
        return None
    return (
        f"SLCP's coverage is below the 95 % band of a valid method in "
        f"{found[0]['below 95 % band']} of {found[0]['cells']} splits, and below the band for all "
        f"of them together in {found[0]['below strict band']}."
    )


def constant_sentence(rows: list[Row]) -> str | None:
    """MADSplit with the constant of the authors' code against ours."""
    ratio = table1.log_ratio(rows, one_change.CONSTANT, "MADSplit")
    if ratio is None:
        return None
    return (
        "MADSplit adds the median residual to its sizes here; with the 1 of the authors' code "
        f"instead, 100 times the logarithm of its lengths changes by {signed(ratio, 1)} on "
        f"{one_change.MODEL}."
    )


def auto_lengths(rows: list[Row]) -> str | None:
    """What the defaults change in Table 1, with both coverages."""
    parts = []
    for model, here in by(rows, "model").items():
        ratio = table1.log_ratio(here, AUTO, SLCP)
        covered = [
            in_per_cent(over_repeats(select(here, method=name), "coverage"))
            for name in (AUTO, SLCP)
        ]
        if ratio and covered[0] and covered[1]:
            parts.append(
                f"{signed(ratio, 1)} on {model}, at {covered[0].value:.1f} % coverage against "
                f"{covered[1].value:.1f} %"
            )
    if not parts:
        return None
    return (
        f"With {DEFAULTS} (a mean model, residuals out of fold, a chosen law) the 100 log ratio "
        f"of lengths to SLCP's on the exact data sets is {'; '.join(parts)}."
    )


def change_sentence(rows: list[Row]) -> str | None:
    """What each of those changes does alone, by a score that counts length and misses."""
    base = select(rows, method=SLCP)
    arms = [name for name in one_change.ARMS if not name.startswith(("MADSplit", "SLCP"))]
    found = {
        name: per_cent_longer(select(rows, method=name), base, "interval_score")
        for name in (*arms, AUTO)
    }
    parts = [f"{name} {signed(mean, 1)} %" for name, mean in found.items() if mean]
    if not parts:
        return None
    sets, repeats = len(distinct(rows, "dataset")), len(distinct(rows, "repeat"))
    return (
        f"One change at a time, on {one_change.MODEL}, {sets} exact data sets and {repeats} "
        "repeats, the interval score (length plus the penalty for misses) differs from SLCP's by, "
        f"as a mean of the ratios: {', '.join(parts)}."
    )


def cost_sentence(rows: list[Row]) -> str | None:
    """What the search for a law costs."""
    sizes = distinct(rows, "size")
    largest = select(rows, size=max(sizes)) if sizes else []
    ratio = run_time.ratio(largest, AUTO)
    spent = over_repeats(select(largest, method=AUTO), "seconds")
    if ratio is None or spent is None:
        return None
    return (
        f"{DEFAULTS.capitalize()} cost more: with {max(sizes):,} rows to train on, the search for "
        f"a law and all that follows take {spent.value:.1f} processor seconds, {ratio.value:.1f} "
        "times SLCP's."
    )


def deep(results: Results) -> Finding:
    """Scales to deep embeddings: the age model, with its own rows for all test images."""
    rows = select(results.rows("age"), group=OVERALL)
    checks: list[Check] = []
    for other in distinct(rows, "method"):
        if other not in (SLCP, AUTO):
            checks += shorter_than("age", rows, other)
    score = difference(rows, AUTO, SLCP, "interval_score")
    return finding(
        checks,
        [
            *deep_sentences(rows, distinct(rows, "method")),
            "Other images than the paper's, and one network, trained here from nothing, in all "
            "repeats: standard errors do not tell how another training would end. The paper's "
            "4.65 years are not within reach of a split that keeps calibration images out of "
            "training; the table of the age model says why.",
            auto_sentence({"age": rows}, "length", "the mean length in years"),
            score and f"Their interval score differs from SLCP's by {signed(score)} years.",
        ],
        superlative=True,
    )


def deep_sentences(rows: list[Row], methods: Iterable[str]) -> list[str]:
    """Lengths of all methods, in years."""
    found = {name: over_repeats(select(rows, method=name), "length") for name in methods}
    parts = [f"{name} {say(mean, 1)}" for name, mean in found.items() if mean]
    return [f"Mean lengths in years: {', '.join(parts)}."] if parts else []
