"""The page: hand-written prose of ``page.md`` around tables that are computed from the stores.

No sentence states a result by hand: what depends on an outcome is chosen by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    CANNOT,
    EQUAL,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Line,
    Output,
    Preset,
    Row,
    about,
    decode,
    finished,
    key,
    read_store,
    repeats_done,
    report,
)
from benchmarks.tables import MISSING, verdict_counts
from paper import EXPERIMENTS, load_experiment
from paper.ablations import ALMOST, MOST_ROWS, OBVIOUS, TIME_FACTOR
from paper.age import AGES, own_network, why_not_reached
from paper.claims import AT_LEAST, SLOWEST
from paper.costs import POWER_MARGIN
from paper.data import DATASETS
from paper.layouts import (
    AGE_METHODS,
    CHANGE_COLUMNS,
    NOT_YET,
    amount,
    bandwidth_table,
    batch_table,
    caveat,
    choose,
    figures_of,
    group_tables,
    kernel_part,
    line_table,
    markdown_table,
    own_table,
    pair_table,
    proposition_part,
    ratio_table,
    simulation_part,
    table1_rows,
    table3_rows,
    theorem_table,
    where,
)
from paper.sentences import CLAIM_VERDICTS, CLAIMS, FAILS, HOLDS, IN_PART, Judged, judge
from paper.tables import (
    ALIKE,
    CONSERVATIVE,
    DEFAULT,
    DEFAULTS_COMPARED,
    EXACT,
    ON_EQUAL,
    OVERALL,
    REAL,
    TABLE1_COMPARED,
    WHOLE,
)
from paper.verdicts import NEGLIGIBLE, NEGLIGIBLE_GAP, SHARED_ROWS, TOLERANCES
from paper.why import bandwidth_part, released_part

NETWORK_COLUMNS = ("network", "method", "length", "coverage", "interval_score", "repeats")
PAGE, TEMPLATE = "paper.md", Path(__file__).with_name("page.md")
#: The page of five repeats, whose rule of verdicts was another one: claims, and comparisons.
BEFORE_CLAIMS = {HOLDS: 2, IN_PART: 3, FAILS: 4, UNDECIDED: 2}
BEFORE_LINES = {
    "for": 42,
    "against": 12,
    "no difference": 0,
    "undecided": 94,
    "cannot be compared": 3,
}
#: Verdict of a line -> the word for it as evidence.
AS_EVIDENCE = {
    REPRODUCED: "for",
    NOT_REPRODUCED: "against",
    EQUAL: "no difference",
    UNDECIDED: "undecided",
    CANNOT: "cannot be compared",
}


@dataclass(frozen=True)
class Run:
    """What the store of an experiment holds, and what is said of it."""

    output: Output
    title: str
    rows: list[Row]
    done: int
    planned: int
    #: Of each case, the fewest and the most.
    repeats: tuple[int, int]
    hours: float
    #: Machine and versions of the first task; empty where there is no store.
    made: dict[str, Any]
    #: Processors and commits of the tasks, each once.
    cpus: list[str]
    commits: list[str]

    @property
    def lines(self) -> list[Line]:
        """Lines of the output."""
        return self.output.lines


def read_run(name: str, preset: Preset, folder: Path) -> Run:
    """The run of an experiment as far as its store goes."""
    experiment, path = load_experiment(name), folder / f"{name}.jsonl"
    cases, records = experiment.cases(preset), read_store(path, about(name, experiment, preset))
    known = finished(records)
    repeats = repeats_done(cases, known).values()
    head = decode(path.read_bytes().split(b"\n")[0]) if path.exists() else None
    return Run(
        report(experiment, cases, records, preset),
        experiment.title,
        [{**case, **row} for case in cases for row in known.get(key(case), {"rows": []})["rows"]],
        sum(repeats),
        len(cases),
        (min(repeats, default=0), max(repeats, default=0)),
        sum(record["seconds"] for record in known.values()) / 3600.0,
        (head or {}).get("made", {}),
        *(unique(record["made"][name] for record in known.values()) for name in ("cpu", "commit")),
    )


def unique(names: Iterable[str]) -> list[str]:
    """Those that are not empty, each once, in their order."""
    return list(dict.fromkeys(filter(None, names)))


def read_runs(preset: Preset, folder: Path) -> dict[str, Run]:
    """The runs of all experiments."""
    return {name: read_run(name, preset, folder) for name in EXPERIMENTS}


def page(runs: Mapping[str, Run], preset: Preset) -> str:
    """The prose with everything that is computed."""
    judged = [judge(claim, {name: run.lines for name, run in runs.items()}) for claim in CLAIMS]
    lines = {name: run.lines for name, run in runs.items()}
    table1, table3 = lines["table1"], lines["table3"]
    parts = {
        "answer": answer(judged, runs),
        "sizes": sizes(preset),
        "runs": markdown_table(run_rows(runs)),
        "machine": machine(runs),
        **rules(),
        "shared_rows": SHARED_ROWS,
        "claims": markdown_table([claim_row(one) for one in judged]),
        "before": markdown_table(before_rows(judged)),
        "stand_ins": str(len(REAL) - len(EXACT)),
        "sets": str(len(REAL)),
        "exact": str(len(EXACT)),
        "table1": markdown_table(table1_rows(table1)),
        "table1_ratios": ratio_table(table1),
        "table1_equal": line_table(choose(table1, quantity=ON_EQUAL)),
        "table1_changes": own_table(runs["table1"].output, "One change at a time", CHANGE_COLUMNS),
        "whole": WHOLE,
        "all_rows": own_table(
            runs["all_rows"].output, "Means over repeats", CHANGE_COLUMNS, TABLE1_COMPARED
        ),
        "table2": pair_table(lines["age"], "group", (OVERALL, *AGES), AGE_METHODS, variant=""),
        "networks": own_table(runs["age"].output, "All images, by network", NETWORK_COLUMNS),
        "end_to_end": own_network(runs["age"].rows),
        "age_note": "\n\n".join(why_not_reached(runs["age"].rows)),
        "table3": markdown_table(table3_rows(table3)),
        "table3_ratios": ratio_table(table3),
        "groups": group_tables(lines),
        "simulations": simulation_part(runs["simulations"].output),
        "kernels": kernel_part(runs["kernels"].output),
        "capacity": figures_of(runs["capacity"].output, runs["covariate_shift"].output),
        "batch": batch_table(lines["minibatch"], lines["age"]),
        "bandwidth": bandwidth_table(lines["bandwidth"], lines["age"]),
        "costs": line_table(cost_lines(lines)),
        "proposition2": proposition_part(runs["proposition2"].output),
        "theorem": theorem_table(lines["score_functions"]),
        "released": released_part(runs["minibatch"].output),
        "bandwidths": bandwidth_part(lines["simulations"]),
        "repeats": str(preset.repeats),
        "most": "all rows" if preset.max_rows is None else f"at most {preset.max_rows:,} rows each",
        "missing": ", ".join(name for name in REAL if DATASETS[name].stand_in),
        "epochs": str(preset.epochs),
        "evidence": "\n".join(evidence(one) for one in judged),
        "all_lines": markdown_table(all_lines(runs)),
        "defaults": defaults_part(runs["defaults"]),
    }
    return TEMPLATE.read_text("utf-8").format(**parts)


# ---- the answer, and what was done ---------------------------------------------------------

#: Verdict on the guarantee, and on the comparison with others -> a sentence.
VALID = {
    HOLDS: "SLCP covers as it promises.",
    IN_PART: "SLCP covers as it promises wherever the repeats could decide.",
    FAILS: "SLCP does not cover as it promises everywhere.",
    UNDECIDED: "Whether SLCP covers as it promises is undecided.",
}
SHORTEST = {
    HOLDS: "Its intervals are the shortest, as the paper says.",
    IN_PART: "Its intervals are shorter than those of most other methods, though not of all.",
    FAILS: "Contrary to the paper, its intervals are not generally the shortest on real data.",
    UNDECIDED: "Whether its intervals are generally the shortest on real data is undecided.",
}


OF_SEVERAL = {HOLDS: "hold", IN_PART: "hold in part", FAILS: "do not hold"}
#: Claims that the answer names.
KEY = (
    *("Average coverage (Proposition 1)", "The generalised theorem"),
    *(
        "Asymptotic conditional coverage (Proposition 2), as the bandwidth shrinks",
        "Shortest intervals",
    ),
    *("Shortest intervals, on equal residuals", "Better conditional coverage by correlation"),
    "Better conditional coverage by known coverage and by group",
    "Robust to misspecified models",
    "Robust to misspecified models, with the bandwidth of the authors' code",
    *("Robust under covariate shift", "The median bandwidth is best"),
    *("A mini-batch of 30 % is enough", "By far the shortest on images"),
    *("Cheaper than LCP and CD-Split", "No new model for a new level, and less time"),
)


def answer(judged: Sequence[Judged], runs: Mapping[str, Run]) -> str:
    """One paragraph: what holds, what does not, and how many printed numbers were reproduced."""
    known = {one.claim.title: one.verdict for one in judged}
    lead = [VALID.get(known[KEY[0]], ""), SHORTEST.get(known["Shortest intervals"], "")]
    told, totals = [], []
    for name in CLAIM_VERDICTS:
        titles = [title[0].lower() + title[1:] for title in KEY if known[title] == name]
        told += [f"**{name.capitalize()}:** {'; '.join(titles)}."] if titles else []
        count = sum(verdict == name for verdict in known.values())
        totals += [f"{count} {name if count == 1 else OF_SEVERAL.get(name, name)}"] if count else []
    counts = Counter(
        line.verdict for run in runs.values() for line in run.lines if line.paper is not None
    )
    numbers = (
        f"Of {sum(counts.values()):,} comparisons with printed numbers, some with several models "
        f"and with the arithmetic of the released code, {counts[CANNOT]:,} are not possible or "
        f"were not run; in the others, {counts[REPRODUCED]} numbers are reproduced, "
        f"{counts[NOT_REPRODUCED]} are not, and {counts[UNDECIDED]} are undecided."
    )
    sentences = f"Of all {len(known)} sentences that were judged: {', '.join(totals)}."
    return " ".join([*filter(None, lead), *told, sentences, numbers])


def sizes(preset: Preset) -> str:
    """Repeats and rows of the preset."""
    rows = "all rows" if preset.max_rows is None else f"at most {preset.max_rows:,} rows"
    return (
        f"The preset `{preset.name}` has {preset.repeats} repeats, {preset.network_repeats} where "
        f"networks are trained in many places; {rows} of a real data set, drawn anew for each "
        f"repeat, and at most {MOST_ROWS:,} in `minibatch`, `bandwidth`, `capacity` and `levels`; "
        f"and {preset.simulated_rows:,} rows of a simulation to train on. `all_rows` has one data "
        "set with all of its rows."
    )


def run_rows(runs: Mapping[str, Run]) -> list[Row]:
    """What has been run of each experiment, and from which commits."""
    table = []
    for name, run in runs.items():
        fewest, most = run.repeats
        row = {"experiment": f"`{name}`", "what": run.title}
        row |= {"repeats": str(most) if fewest == most else f"{fewest} to {most}"}
        row |= {"tasks": f"{run.done} of {run.planned}", "core hours": f"{run.hours:.1f}"}
        commits = ", ".join(name[:7] for name in run.commits) or MISSING
        table.append({**row, "commits": commits})
    total = {"experiment": "all", "tasks": str(sum(run.done for run in runs.values()))}
    return [*table, {**total, "core hours": f"{sum(run.hours for run in runs.values()):.1f}"}]


#: Packages that take part.
USED = ("localconformal", "numba", "numpy", "scikit-learn", "scipy", "skorch", "torch")


def machine(runs: Mapping[str, Run]) -> str:
    """Processors, then systems and versions, each once."""
    found: list[str] = []
    for made in filter(None, (run.made for run in runs.values())):
        known = made["packages"].items()
        packages = ", ".join(f"{name} {version}" for name, version in known if name in USED)
        found.append(f"{made['system']}, Python {made['python']}, {packages}.")
    if any(run.done and not run.made for run in runs.values()):
        found.append("A store without a commit was made before stores recorded theirs.")
    cpus = unique(cpu for run in runs.values() for cpu in run.cpus)
    return "\n\n".join([f"Processors: {', '.join(cpus)}.", *unique(found)]) if cpus else NOT_YET


def tolerances() -> str:
    """The table of tolerances in words."""
    length, (_, points) = TOLERANCES["length"][0], TOLERANCES["coverage"]
    return (
        f"{100 * length:g} % of a length, {points:g} point of coverage, "
        f"{TOLERANCES['correlation'][1]:g} of a correlation, and {TOLERANCES['change'][1]:g} % of "
        "the length for how much longer one method or setting is than another"
    )


def rules() -> dict[str, str]:
    """How verdicts are made, in numbers and words."""
    negligible = {"negligible": NEGLIGIBLE, "negligible_gap": NEGLIGIBLE_GAP, "alike": ALIKE}
    numbers = {name: f"{value:g}" for name, value in negligible.items()}
    return {"tolerances": tolerances(), **numbers, "bounds": bounds()}


def bounds() -> str:
    """What words of the paper were taken to mean."""
    return (
        f"a guaranteed coverage is above {AT_LEAST:g} %, an over-conservative one above "
        f"{CONSERVATIVE:g} %; good is at most {100 * TOLERANCES['length'][0]:g} % longer; "
        f"obviously or not much longer is above or below {OBVIOUS:g} %, almost no difference "
        f"within {ALMOST:g} %; no harm is at most {NEGLIGIBLE_GAP:g} points of coverage and "
        f"{NEGLIGIBLE:g} % of the length; a gap vanishes if its power of n is below {SLOWEST:g}; a "
        f"power of n is that of the paper within {POWER_MARGIN:g}, and a run time within a factor "
        f"of {TIME_FACTOR:g}"
    )


# ---- sentences of the paper ----------------------------------------------------------------


def claim_row(one: Judged) -> Row:
    """A claim, its verdict and how many lines say what."""
    counts = one.counts
    row: Row = {"": one.claim.title, "the paper says": one.claim.said, "verdict": one.verdict}
    return row | {word: counts[name] for name, word in AS_EVIDENCE.items()}


def before_rows(judged: Sequence[Judged]) -> list[Row]:
    """How many claims and comparisons were decided on the earlier page, and are on this one."""
    verdicts = Counter(one.verdict for one in judged)
    lines: Counter[str] = Counter()
    for one in judged:
        lines.update(one.counts)
    after = {word: lines[name] for name, word in AS_EVIDENCE.items()}
    table = []
    for when, claims, evidence in (
        ("before: five repeats", BEFORE_CLAIMS, BEFORE_LINES),
        ("this page", verdicts, after),
    ):
        decided = sum(claims.get(name, 0) for name in (HOLDS, IN_PART, FAILS))
        row: Row = {"": when, "sentences": sum(claims.values()), "decided": decided}
        row |= {name: claims.get(name, 0) for name in CLAIM_VERDICTS}
        words = ("for", "against", "no difference")
        row["lines decided"] = f"{sum(evidence[w] for w in words)} of {sum(evidence.values())}"
        table.append(row)
    return table


def evidence(one: Judged) -> str:
    """The lines behind a verdict."""
    head = [f"### {one.claim.title}\n", f"**{one.verdict.capitalize()}.** {one.claim.said}\n"]
    head += [f"{one.claim.beside}\n"] if one.claim.beside else []
    if all(line.ours is None for _, line in one.lines):
        return "\n".join(head)
    rows = [{"from": experiment, **evidence_row(line)} for experiment, line in one.lines]
    return "\n".join([*head, markdown_table(rows)])


def evidence_row(line: Line) -> Row:
    """What a line is about, and what it says; the reason where it is more than a number."""
    row = {"where": where(line), "what": line.of.get("quantity", ""), "ours": amount(line)}
    why = f": {caveat(line)}" if caveat(line) else ""
    return {**row, "says": AS_EVIDENCE[line.verdict] + why}


# ---- theory, costs, released code ----------------------------------------------------------


def cost_lines(lines: Mapping[str, list[Line]]) -> list[Line]:
    """Powers of n in the seconds of the law; mini-batches, other methods, and levels."""
    timed = [one for one in lines["minibatch"] if "run time" in one.of["quantity"]]
    slower = [one for one in lines["run_time"] if one.verdict in AS_EVIDENCE]
    seconds = [one for one in lines["levels"] if "seconds" in one.of["quantity"]]
    return [*lines["batch_cost"], *timed, *slower, *seconds]


# ---- all lines, the default ----------------------------------------------------


def all_lines(runs: Mapping[str, Run]) -> list[Row]:
    """How many lines of each experiment have which verdict."""
    return [
        {"experiment": f"`{name}`", "what": run.title, **verdict_counts(run.lines)}
        for name, run in runs.items()
        if run.done
    ]


def defaults_part(run: Run) -> str:
    """The default beside SLCP, split conformal and CQR."""
    if not run.done:
        return NOT_YET
    columns = ("model", "method", "length", "coverage", "infinite", "seconds", "repeats")
    return (
        "The default of this library has nothing to do with the paper: residuals of a blend of "
        "models, out of fold, and a law that is chosen on training rows. On the splits of Table 1 "
        f"it is `{DEFAULT}`, beside {', '.join(DEFAULTS_COMPARED)}.\n\n"
        f"{own_table(run.output, 'Means over data sets', columns)}\n"
        "The model of a row is that of the other methods: the default brings its own blend. "
        "Lengths as 100 times the logarithm of their ratio, a mean over the data sets that are "
        "what the paper had, in which each counts alike; -50 is a factor of 0.61, and -100 one of "
        f"0.37:\n\n{line_table(run.lines)}"
    )
