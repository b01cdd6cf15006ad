"""From the rows of experiments to what they say about each claim of the paper.

Every number in a sentence is computed from rows. A function takes `Results` and returns a
`Finding`; without rows it says "not run".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from localconformal.experiments.claims_checks import FOR, UNCLEAR, Check, Finding, finding, less
from localconformal.experiments.claims_results import Results
from localconformal.experiments.claims_words import (
    AUTO,
    SLCP,
    auto_sentence,
    by,
    difference,
    distinct,
    over_models,
    per_cent_longer,
    say,
)
from localconformal.experiments.experiment import Row
from localconformal.experiments.objective import LEVEL
from localconformal.experiments.paper import capacity, simulations, table1, table3
from localconformal.experiments.paper._subgroups import OVERALL
from localconformal.experiments.summary import below_bands, in_per_cent, over_repeats, select

SUBGROUPS = ("star", "bike", "meps21")
#: Fewest test rows of a group whose coverage counts.
FEWEST = 30
CODE = simulations.CODE


def shorter_than(where: str, rows: list[Row], other: str) -> list[Check]:
    """SLCP's mean length against another method's.

    Means are of finite lengths: a method that leaves its hardest rows infinite is not shorter.
    """
    what = f"length of SLCP minus {other}'s"
    checks = less(where, what, difference(rows, SLCP, other, "length"))
    if (share := table1.infinite_share(select(rows, method=other))) == 0.0:
        return checks
    what += f", {share:.1f} % of which are infinite and left out"
    return [
        replace(check, what=what, outcome=FOR if check.outcome == FOR else UNCLEAR)
        for check in checks
    ]


def shortest(results: Results) -> Finding:
    """Shortest intervals at valid coverage: Tables 1 and 3."""
    real, simulated = results.rows("table1"), results.rows("table3")
    checks: list[Check] = []
    for model, rows in by(real, "model").items():
        for other in table1.methods_of(model):
            if other not in (SLCP, *table1.BESIDE):
                checks += shorter_than(model, rows, other)
    for name, rows in by(simulated, "dataset").items():
        for other in table3.COMPARED[:-1]:
            checks += shorter_than(name, rows, other)
    return finding(
        checks,
        [
            *(shortest_sentence(model, rows) for model, rows in by(real, "model").items()),
            validity_sentence(real),
            auto_sentence(by(real, "model"), "length", "the mean length in Table 1"),
            auto_sentence(by(simulated, "dataset"), "length", "the mean length in Table 3"),
        ],
    )


def shortest_sentence(model: str, rows: list[Row]) -> str | None:
    """SLCP's length and coverage, and on how many data sets it is the shortest of the paper's.

    Methods with infinite intervals there are not among them.
    """
    length = over_repeats(select(rows, method=SLCP), "length")
    covered = in_per_cent(over_repeats(select(rows, method=SLCP), "coverage"))
    if length is None or covered is None:
        return None
    wins, sets = 0, by(rows, "dataset")
    for here in sets.values():
        means = {m: select(here, method=m) for m in table1.COMPARED}
        known = {
            method: mean.value
            for method, mine in means.items()
            if (mean := over_repeats(mine, "length")) and table1.infinite_share(mine) == 0.0
        }
        wins += min(known, key=lambda method: known[method]) == SLCP if known else 0
    return (
        f"On {model} SLCP is {say(length)} long at {say(covered)} % coverage, and the shortest of "
        f"the paper's methods on {wins} of {len(sets)} data sets."
    )


def validity_sentence(rows: list[Row]) -> str | None:
    """Whether SLCP's coverage is what chance allows."""
    found = below_bands(select(rows, method=SLCP), LEVEL)
    if not found:
        return None
    return (
        f"Its coverage is below the 95 % band of a valid method in {found[0]['below 95 % band']} "
        f"of {found[0]['cells']} splits, and below the band for all of them together in "
        f"{found[0]['below strict band']}."
    )


def misspecified(results: Results) -> Finding:
    """Robust to misspecification: linear quantiles on curved data, and small networks."""
    linear = select(results.rows("simulations"), model="ridge")
    checks: list[Check] = []
    for name, rows in by(linear, "dataset").items():
        for method, words in ((SLCP, "linear model"), (f"{SLCP} {CODE}", "linear, code's h")):
            cqr, mine = select(rows, method="CQR"), select(rows, method=method)
            where = f"{name}, {words}"
            checks += less(where, "length against CQR's, %", per_cent_longer(mine, cqr))
            gap = in_per_cent(difference(rows, method, "CQR", "conditional_gap"))
            checks += less(where, "conditional gap minus CQR's, points", gap)
    networks = results.rows("capacity")
    for hidden in (size for size in capacity.SIZES if size <= capacity.LARGE):
        rows = select(networks, hidden=hidden)
        ours = per_cent_longer(select(rows, method=SLCP), select(rows, method="CQR"))
        checks += less(f"network, {hidden} hidden", "length against CQR's, %", ours)
    shown = simulations.FIGURES["misspecified"].dataset
    figure = select(linear, dataset=shown)
    return finding(
        checks,
        [
            figure_sentence(figure, shown),
            auto_sentence({shown: figure}, "length", "the mean length with the linear model"),
            auto_sentence(
                {shown: figure}, "conditional_gap", "the conditional gap in points", 100.0
            ),
        ],
    )


def figure_sentence(rows: list[Row], name: str) -> str | None:
    """The lengths of the paper's figure with the bandwidth of its text and of its code."""
    found = {
        method: over_repeats(select(rows, method=method), "length")
        for method in ("CQR", SLCP, f"{SLCP} {CODE}")
    }
    known = [say(mean) for mean in found.values() if mean]
    if len(known) < len(found):
        return None
    cqr, text, code = known
    return (
        f"On {name}, the paper's figure, CQR is {cqr} long and SLCP {text} with the bandwidth that "
        f"the paper describes, the median; with the narrower one of its code SLCP is {code}."
    )


def conditional(results: Results) -> Finding:
    """Better conditional coverage: known coverage at x in simulations, groups of real rows."""
    checks: list[Check] = []
    simulated = results.rows("table3")
    for name, rows in by(simulated, "dataset").items():
        for other in (*table3.COMPARED[:-1], "split"):
            gap = in_per_cent(difference(rows, SLCP, other, "conditional_gap"))
            checks += less(name, f"conditional gap minus {other}'s, points", gap)
    figures = results.rows("simulations")
    for name, model in dict.fromkeys((row["dataset"], row["model"]) for row in figures):
        rows = select(figures, dataset=name, model=model)
        gap = in_per_cent(difference(rows, SLCP, "CQR", "conditional_gap"))
        checks += less(f"{name}, {model}", "conditional gap minus CQR's, points", gap)
    groups: dict[str, list[Row]] = {name: group_gaps(results.rows(name)) for name in SUBGROUPS}
    for name, rows in groups.items():
        for other in distinct(rows, "method"):
            if other not in (SLCP, AUTO):
                gap = in_per_cent(difference(rows, SLCP, other, "gap"))
                checks += less(name, f"mean gap of groups minus {other}'s, points", gap)
    return finding(
        checks,
        [
            correlation_sentence(results.rows("table1")),
            auto_sentence(
                by(simulated, "dataset"), "conditional_gap", "the conditional gap in points", 100.0
            ),
            auto_sentence(groups, "gap", "the mean gap of groups in points", 100.0),
        ],
    )


def group_gaps(rows: list[Row]) -> list[Row]:
    """For each method and repeat, the mean over groups of the distance of coverage from 90 %.

    Groups count by their rows, and not at all if these are few.
    """
    found = []
    for method, repeat in dict.fromkeys((row["method"], row["repeat"]) for row in rows):
        mine = [
            row
            for row in select(rows, method=method, repeat=repeat)
            if row.get("group", OVERALL) != OVERALL and row["n"] >= FEWEST
        ]
        if mine:
            gaps = [abs(row["coverage"] - LEVEL) for row in mine]
            gap = np.average(gaps, weights=[row["n"] for row in mine])
            found.append({"method": method, "repeat": repeat, "gap": float(gap)})
    return found


def correlation_sentence(rows: list[Row]) -> str | None:
    """The paper's own measure of conditional coverage."""
    means = {
        method: over_repeats(
            over_models(select(rows, method=method)),
            lambda row: row.get("length_coverage_corr") and abs(row["length_coverage_corr"]),
        )
        for method in (SLCP, "CQR", AUTO)
    }
    parts = [f"{say(mean, 3)} for {method}" for method, mean in means.items() if mean]
    if not parts:
        return None
    return (
        "The correlation of length and coverage, which is 0 where coverage is the same for all "
        "lengths and which the paper wants high, has in Table 1 a mean size of "
        + ", ".join(parts)
        + "."
    )


def shifted(results: Results) -> Finding:
    """Robust under covariate shift: distance from 90 % over all shifts, and under the strongest."""
    rows = [row for row in results.rows("covariate_shift") if row["dataset"] != "a = 1"]
    strongest = select(rows, dataset=distinct(rows, "dataset")[0]) if rows else []
    checks: list[Check] = []
    for where, here in (("all shifts", rows), ("strongest shift", strongest)):
        for other in ("split", "CQR"):
            gap = in_per_cent(difference(here, SLCP, other, "gap"))
            checks += less(where, f"distance from 90 % minus {other}'s, points", gap)
    parts = [
        f"{method} {mean.value:.1f} %"
        for method in distinct(strongest, "method")
        if (mean := in_per_cent(over_repeats(select(strongest, method=method), "coverage")))
    ]
    said = "Coverage under the strongest shift: " + ", ".join(parts) + "."
    auto = auto_sentence({"all shifts": rows}, "gap", "the distance in points", 100.0)
    return finding(checks, [said, auto])
