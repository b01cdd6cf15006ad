"""From the rows of experiments to what they say about each claim of the paper.

Every number in a sentence is computed from rows. A function takes `Results` and returns a
`Finding`; without rows it says "not run".
"""

from __future__ import annotations

import numpy as np

from localconformal.experiments.claims_checks import Check, Finding, finding, less
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
from localconformal.experiments.paper._ablation import AS_IN_CODE
from localconformal.experiments.paper._subgroups import OVERALL
from localconformal.experiments.summary import in_per_cent, over_repeats, select

#: Experiment -> what its rows are called.
SUBGROUPS = {"star": "star", "bike": "bike", "meps21": "meps21 (stand-in)"}
#: Promises no coverage, so that its distance from the level is no matter of adapting.
NO_PROMISE = "LVD"
#: Most hidden units of a network that counts as too small.
SMALL = 16
#: Fewest test rows of a group whose coverage counts.
FEWEST = 30
CODE = simulations.CODE


def misspecified(results: Results, as_in_code: bool = False) -> Finding:
    """Robust to misspecification: linear quantiles on curved data, and small networks.

    With the bandwidth of the paper's text, or with that of its code.
    """
    linear = select(results.rows("simulations"), model="ridge")
    method = f"{SLCP} {CODE}" if as_in_code else SLCP
    checks: list[Check] = []
    for name, rows in by(linear, "dataset").items():
        cqr, mine = select(rows, method="CQR"), select(rows, method=method)
        where = f"{name}, linear model"
        checks += less(where, "length against CQR's, %", per_cent_longer(mine, cqr))
        gap = in_per_cent(difference(rows, method, "CQR", "conditional_gap"))
        checks += less(where, "conditional gap minus CQR's, points", gap)
    networks = results.rows("capacity")
    for hidden in (size for size in capacity.SIZES if size <= SMALL):
        rows = select(networks, hidden=hidden)
        mine = select(rows, method=AS_IN_CODE if as_in_code else SLCP)
        ours = per_cent_longer(mine, select(rows, method="CQR"))
        checks += less(f"network, {hidden} hidden", "length against CQR's, %", ours)
    shown = simulations.FIGURES["misspecified"].dataset
    figure = {shown: select(linear, dataset=shown)}
    return finding(
        checks,
        [
            figure_sentence(figure[shown], shown),
            "A shorter interval is no proof that it adapts; the conditional gap asks for that.",
            "Table 1 here has the paper's median only." if as_in_code else None,
            auto_sentence(figure, "length", "the mean length with the linear model"),
            auto_sentence(figure, "conditional_gap", "the conditional gap in points", 100.0),
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
        f"On {name}, whose lengths are nearest to those of the paper's figure, CQR is {cqr} long "
        f"and SLCP {text} with the bandwidth that the paper describes, the median; with the "
        f"narrower one of its code SLCP is {code}."
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
    groups = {words: group_gaps(results.rows(name)) for name, words in SUBGROUPS.items()}
    for name, rows in groups.items():
        for other in distinct(rows, "method"):
            if other not in (SLCP, AUTO, NO_PROMISE):
                gap = in_per_cent(difference(rows, SLCP, other, "gap"))
                checks += less(name, f"mean gap of groups minus {other}'s, points", gap)
    return finding(
        checks,
        [
            correlation_sentence(table1.exact(results.rows("table1"))),
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
        "The paper's own measure is the correlation of length and coverage, which it wants "
        "high; it is 0 where coverage is the same whatever the length. Its mean size on the exact "
        f"data sets of Table 1 is {', '.join(parts)}."
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
    auto = auto_sentence({"all shifts": rows}, "gap", "the distance in points", 100.0)
    return finding(checks, [shift_sentence(strongest), auto])


def shift_sentence(rows: list[Row]) -> str:
    """Coverage of every method, and how much of it comes from infinite intervals."""
    parts = []
    for method, mine in by(rows, "method").items():
        covered = in_per_cent(over_repeats(mine, "coverage"))
        share = table1.infinite_share(mine)
        words = f" ({share:.1f} % of its intervals infinite)" if share else ""
        parts += [f"{method} {covered.value:.1f} %{words}"] if covered else []
    return f"Coverage under the strongest shift: {', '.join(parts)}."
