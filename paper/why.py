"""Why the paper differs: its table of mini-batches and its figure by the authors' released code."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness import LEVEL, NOT_REPRODUCED, REPRODUCED, Line, Output, Row
from paper.ablations import ALL_ROWS, DEFAULT_SIZE, RELEASED, VARIANTS, percents
from paper.layouts import MODEL_NAMES, NOT_YET, amount, choose, mark, markdown_table, one_of, value
from paper.models import FAMILIES
from paper.simulations import CODE, FIGURES
from paper.verdicts import TOLERANCES, printed

QUANTITY = "length relative to all rows"
#: SLCP, and the released code without and with its indices right.
BY_WHOM = ("SLCP-RBF", "released code, RBF", "released code, RBF, indices right")


def released_part(output: Output) -> str:
    """What the released code does to the paper's table of mini-batches, and to lengths."""
    table = []
    rows_of = {name: variant for variant, (*_, name) in VARIANTS.items()}
    found: dict[str, list[Line]] = {}
    for variant, (*_, name) in {**VARIANTS, **RELEASED}.items():
        for model in FAMILIES:
            mine = choose(output.lines, method=variant, model=model, quantity=QUANTITY)
            known = {line.of["share of rows"]: line for line in mine if line.ours is not None}
            row = {"the paper's row": rows_of[name], "": variant, "model": MODEL_NAMES[model]}
            row |= {
                s: f"{value(line.paper)} / {amount(line)}{mark(line)}" for s, line in known.items()
            }
            table += [row] if known else []
            found.setdefault("SLCP" if variant in VARIANTS else "the released code", []).extend(
                mine
            )
    if not table:
        return NOT_YET
    told = [
        f"{sum(line.verdict == REPRODUCED for line in mine)} of {len(mine)} by {name}"
        for name, mine in found.items()
    ]
    means = output.tables["Means over data sets and repeats"]
    columns = ("model", "method", "length", "coverage", "repeats")
    shown = [
        row
        for row in means
        if row["percent"] == (DEFAULT_SIZE if row["method"] in RELEASED else ALL_ROWS)
    ]
    return (
        "Each cell is the paper's / our length relative to that with all rows. Of these numbers, "
        f"{' and '.join(told)} are reproduced. {jump(output.lines)} "
        f"{flatness(output.lines)}\n\n{markdown_table(table)}\n"
        "Lengths and coverage with all rows, and of the released code with the batch that it takes "
        "by default; the paper prints "
        f"{printed()['table_batch']['slcp_rbf_length'][-1]} for SLCP-RBF with all rows. "
        f"{undercovering(shown)} {mismatch(shown)}\n\n"
        f"{markdown_table([{name: row[name] for name in columns} for row in shown])}"
    )


def undercovering(rows: Sequence[Row]) -> str:
    """How often the released code, and SLCP and CQR, cover less than the tolerance allows."""
    least = LEVEL - TOLERANCES["coverage"][1] / 100.0
    groups: dict[bool, list[bool]] = {True: [], False: []}
    for row in rows:
        groups[row["method"] in RELEASED].append((row["coverage"] or 1.0) < least)
    released, others = (f"{sum(low)} of {len(low)}" for low in groups.values())
    return (
        f"In these rows the released code covers less than {100 * least:g} % in {released} places, "
        f"SLCP and CQR in {others}."
    )


def jump(lines: Sequence[Line]) -> str:
    """How much longer SLCP-RBF is with the smallest mini-batch, by whom, on each base model."""
    share, told, paper = f"{percents()[0]} %", [], None
    for model in FAMILIES:
        fields = {"model": model, "share of rows": share, "quantity": QUANTITY}
        found = [one_of(lines, method=name, **fields) for name in BY_WHOM]
        if all(line is not None and line.ours is not None for line in found):
            paper = found[0].paper
            mine, released, right = (value(line.ours) for line in found)
            told.append(f"{mine}, {released} and {right} on {MODEL_NAMES[model].lower()}")
    if not told:
        return ""
    return (
        f"With {share} of the rows the paper's SLCP-RBF is {value(paper)} times as long as with "
        "all of them; here SLCP, the released code, and the released code with its indices right "
        f"are {'; '.join(told)}."
    )


def flatness(lines: Sequence[Line]) -> str:
    """Whether rows of the table are flat beyond the smallest batch, with and without mismatch."""
    worst = {}
    for name in BY_WHOM:
        mine = choose(lines, method=name, quantity=QUANTITY)
        known = [one for one in mine if one.of["share of rows"] != f"{percents()[0]} %"]
        worst[name] = max((100.0 * abs(one.ours - 1.0) for one in known if one.ours), default=None)
    if None in worst.values():
        return ""
    told = "{:.1f}, {:.1f} and {:.1f} %".format(*worst.values())
    said = (
        f"From {percents()[1]} % of the rows on, the three are at most {told} longer or shorter "
        "than with all of them"
    )
    if max(worst[name] for name in (BY_WHOM[0], BY_WHOM[2])) < 100.0 * TOLERANCES["relative"][0]:
        said += ": rows are flat with the right indices too, so the mismatch does not explain them"
    return f"{said}."


def mismatch(rows: Sequence[Row]) -> str:
    """What the mismatch does to the length, and whether it explains the printed one."""
    length = {(row["model"], row["method"]): row["length"] for row in rows}
    paper, told, near = printed()["table_batch"]["slcp_rbf_length"][-1], [], 0
    for model in FAMILIES:
        wrong, right = (length.get((model, name)) for name in BY_WHOM[1:])
        if wrong and right:
            told.append(f"{100.0 * (wrong / right - 1.0):+.1f} % on {MODEL_NAMES[model].lower()}")
            near += abs(wrong - paper) <= TOLERANCES["length"][0] * paper
    if not told:
        return ""
    return (
        f"The mismatch changes the length by {', '.join(told)}; with it, {near} of {len(told)} "
        "are within the tolerance of the printed length."
    )


def bandwidth_part(lines: Sequence[Line]) -> str:
    """Whether a figure of the paper has the bandwidth of its text or that of its code."""
    figure = FIGURES["misspecified"]
    text, code = (
        one_of(lines, figure=figure.title, method=name, quantity="length")
        for name in (figure.method, f"{figure.method} {CODE}")
    )
    if text is None or code is None or text.ours is None or code.ours is None:
        return ""
    known = (
        f"On the misspecified model of the simulations the paper prints a length of "
        f"{value(text.paper)} for SLCP. With the bandwidth that the paper describes, the median, "
        f"it is {amount(text)} here, and with the narrower one of its code {amount(code)}"
    )
    if (text.verdict, code.verdict) == (NOT_REPRODUCED, REPRODUCED):
        return f"{known}: the figure fits the bandwidth of the code, not that of the text."
    return f"{known}."
