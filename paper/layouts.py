"""Lines of the experiments as tables in the paper's own layout, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.harness import CANNOT, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Line, Output, Row
from benchmarks.tables import MISSING
from benchmarks.tables import markdown_table as plain_table
from paper.ablations import VARIANTS, percents, quantiles
from paper.age import BANDWIDTH, BATCH
from paper.models import FAMILIES
from paper.simulations import FIGURES, PRINTED, SIMULATED
from paper.tables import ON_NETWORK_ONLY, SIMULATIONS, TABLE1_COMPARED, TABLE3_COMPARED
from paper.verdicts import LOG_RATIO, WITHOUT, directed, printed

NOT_YET = "This has not been run yet."
MARKS = {REPRODUCED: "✓", NOT_REPRODUCED: "✗", UNDECIDED: "?"}
#: Digits after the point, where fewer would show an error as 0.
MOST_DIGITS = 5
MODEL_NAMES = {"ridge": "Ridge", "random_forest": "Random forest", "neural_net": "Neural net"}


def choose(lines: Iterable[Line], **fields: str) -> list[Line]:
    """Lines with these fields."""
    return [
        line for line in lines if all(line.of.get(name) == value for name, value in fields.items())
    ]


def markdown_table(rows: Sequence[Row]) -> str:
    """The table, or that there is none yet."""
    return plain_table(rows) if rows else f"{NOT_YET}\n"


def value(number: float | None, digits: int = 2) -> str:
    """A number, or a dash; no minus before zeros."""
    return MISSING if number is None else f"{round(number, digits) + 0.0:.{digits}f}"


def amount(line: Line | None, digits: int = 2) -> str:
    """Ours with its standard error, of which one digit is shown at least."""
    if line is None or line.ours is None or line.error is None:
        return value(line and line.ours, digits)
    while line.error and not round(line.error, digits) and digits < MOST_DIGITS:
        digits += 1
    return f"{value(line.ours, digits)} ± {value(line.error, digits)}"


def mark(line: Line) -> str:
    """The sign of a verdict behind a number, if it has one."""
    sign = MARKS.get(line.verdict)
    return f" {sign}" if sign else ""


def one_of(lines: Iterable[Line], **fields: str) -> Line | None:
    """The first line with these fields."""
    return next(iter(choose(lines, **fields)), None)


def where(line: Line) -> str:
    """What a line is about, but for its quantity, in one cell."""
    return ", ".join(text for name, text in line.of.items() if text and name != "quantity")


def line_table(lines: Sequence[Line]) -> str:
    """A row for each line; no column that would say the same everywhere, or nothing."""
    lines = lines if any(line.ours is not None for line in lines) else []
    several = len({line.of["quantity"] for line in lines}) > 1
    in_paper = any(line.paper is not None for line in lines)
    return markdown_table(
        [
            {"where": where(line)}
            | ({"what": line.of["quantity"]} if several else {})
            | ({"paper": value(line.paper)} if in_paper else {})
            | {"ours": amount(line), "verdict": line.verdict}
            | ({"why": caveat(line)} if any(map(caveat, lines)) else {})
            for line in lines
        ]
    )


def caveat(line: Line) -> str:
    """Why a line cannot be compared, or without which data sets it is."""
    return line.reason if line.verdict == CANNOT else "".join(line.reason.partition(WITHOUT)[1:])


def table1_rows(lines: Sequence[Line]) -> list[Row]:
    """Table 1: the paper's number / ours."""
    quantities = {
        "Length": ("length", 2),
        "Coverage": ("coverage, %", 2),
        "Correlation": ("correlation of length and error", 2),
    }
    table = []
    for model in FAMILIES:
        for words, (quantity, digits) in quantities.items():
            row: Row = {"model": MODEL_NAMES[model], "": words}
            for method in (*TABLE1_COMPARED, *ON_NETWORK_ONLY):
                line = one_of(lines, model=model, method=method, quantity=quantity)
                if line is not None:
                    row[method] = (
                        f"{value(line.paper, digits)} / {amount(line, digits)}{mark(line)}"
                    )
            table.append(row)
    return table


def ratio_table(lines: Sequence[Line]) -> str:
    """How much longer SLCP is than others: the paper's, ours, and both verdicts."""
    table = []
    for line in choose(lines, quantity=LOG_RATIO):
        if line.paper is None or line.ours is None:
            continue
        word = "longer" if line.paper > 0 else "shorter"
        way = one_of(lines, **{**line.of, "quantity": directed(LOG_RATIO, word)})
        row = {"": where(line), "paper": f"{line.paper:+.1f}", "ours": amount(line, 1)}
        row |= {"value": line.verdict, "direction": way.verdict if way else MISSING}
        table.append({**row, "why": caveat(line)})
    return markdown_table(table)


CHANGE_COLUMNS = ("model", "method", "length", "coverage", LOG_RATIO, "95 % margin", "repeats")
AGE_METHODS = ("SLCP", "CDSplit", "CQR", "MADSplit", "LVD")


def own_table(
    output: Output, title: str, columns: Sequence[str], methods: Sequence[str] | None = None
) -> str:
    """Columns of a table of an experiment, for some of the methods or for all."""
    rows = [
        row for row in output.tables.get(title, []) if methods is None or row["method"] in methods
    ]
    return markdown_table([{name: row.get(name) for name in columns} for row in rows])


def pair(lines: Sequence[Line], ours: bool, **fields: str) -> str:
    """Length / coverage, the paper's or ours."""
    mine = choose(lines, **fields)
    length = next((one for one in mine if one.of["quantity"].startswith("length")), None)
    share = next((one for one in mine if one.of["quantity"] == "coverage, %"), None)
    if length is None or share is None:
        return MISSING
    if ours:
        return f"{value(length.ours)}{mark(length)} / {value(share.ours, 1)}{mark(share)}"
    return f"{value(length.paper)} / {value(share.paper, 1)}"


def pair_table(
    lines: Sequence[Line], place: str, places: Iterable[str], methods: Iterable[str], **also: str
) -> str:
    """Two rows for each place, the paper's and ours; a column for each method."""
    columns = list(methods)
    return markdown_table(
        [
            {place: here.replace("_", " "), "": "ours" if ours else "paper"}
            | {m: pair(lines, ours, method=m, **{place: here}, **also) for m in columns}
            for here in places
            for ours in (False, True)
        ]
    )


def table3_rows(lines: Sequence[Line]) -> list[Row]:
    """Table 3: length / coverage of each method on each simulation."""
    return [
        {"method": method}
        | {
            f"{name.replace('_', ' ')}, {whose}": pair(
                lines, whose == "ours", simulation=name, method=method
            )
            for name in SIMULATIONS
            for whose in ("paper", "ours")
        }
        for method in TABLE3_COMPARED
    ]


def group_tables(lines: Mapping[str, list[Line]]) -> str:
    """STAR, bike and MEPS."""
    parts = []
    for name, title in (("star", "STAR"), ("bike", "Bike"), ("meps21", "MEPS, panel 21")):
        methods = printed()[f"table_{name}"]["methods"]
        paired = (line for line in lines[name] if line.of["method"] in methods)
        groups = dict.fromkeys(line.of["group"] for line in paired)
        parts.append(f"**{title}**\n\n{pair_table(lines[name], 'group', groups, methods)}")
    return "\n".join(parts)


def figures_of(*outputs: Output) -> str:
    """Figures in place."""
    drawn = [
        f"![{name}]({name})"
        for one in outputs
        if any(line.ours is not None for line in one.lines)
        for name in one.figures
    ]
    return "\n\n".join(drawn) or NOT_YET


def simulation_part(output: Output) -> str:
    """Captions of the paper's figures beside ours."""
    table = [
        {"figure": figure.title, "simulation": figure.dataset, "method": method}
        | {
            whose: pair(output.lines, whose == "ours", figure=figure.title, method=method)
            for whose in ("paper", "ours")
        }
        for figure in FIGURES.values()
        for method in figure.printed_as
    ]
    return f"{figures_of(output)}\n\n{markdown_table(table)}"


def kernel_part(output: Output) -> str:
    """Kernels on the simulations, captions beside ours."""
    table = [
        {"kernel": kernel, "": whose}
        | {n: pair(output.lines, whose == "ours", simulation=n, kernel=kernel) for n in SIMULATED}
        for kernel in PRINTED
        for whose in ("paper", "ours")
    ]
    return f"{figures_of(output)}\n\n{markdown_table(table)}"


def batch_table(lines: Sequence[Line], age: Sequence[Line]) -> str:
    """Mini-batches: the paper's row of each variant, then ours on each base model."""
    shares = {f"{percent} %": {"share of rows": f"{percent} %"} for percent in percents()}
    table = []
    for name in VARIANTS:
        table += whose_rows(lines, {"": name}, {"method": name}, shares)
    images = {f"{percent} %": {"variant": f"{BATCH}, {percent} %"} for percent in percents()}
    return markdown_table(table + image_rows(age, images))


def bandwidth_table(lines: Sequence[Line], age: Sequence[Line]) -> str:
    """Bandwidths: the paper's row, then ours on each base model."""
    places = {f"{q:g}": {"bandwidth": name} for name, q in quantiles().items()}
    images = {f"{q:g}": {"variant": f"{BANDWIDTH}, {name}"} for name, q in quantiles().items()}
    table = whose_rows(lines, {"": "Tabular data"}, {}, places)
    return markdown_table(table + image_rows(age, images))


#: Column -> fields of its lines.
Places = Mapping[str, Mapping[str, str]]


def whose_rows(
    lines: Sequence[Line], head: Row, fields: Mapping[str, str], places: Places
) -> list[Row]:
    """Length / coverage at each place: a row of the paper's, and one for each base model."""
    first, *_ = FAMILIES
    rows = [
        {**head, "whose": "paper"} | at_places(lines, False, {**fields, "model": first}, places)
    ]
    for model in FAMILIES:
        ours = at_places(lines, True, {**fields, "model": model}, places)
        rows.append({**head, "whose": f"ours, {MODEL_NAMES[model].lower()}"} | ours)
    return rows


def image_rows(lines: Sequence[Line], places: Places) -> list[Row]:
    """The same of the age model."""
    return [
        {"": "Age, years", "whose": "ours" if ours else "paper"}
        | at_places(lines, ours, {}, places)
        for ours in (False, True)
    ]


def at_places(
    lines: Sequence[Line], ours: bool, fields: Mapping[str, str], places: Places
) -> dict[str, str]:
    """Length / coverage at each place."""
    return {words: pair(lines, ours, **fields, **here) for words, here in places.items()}


def proposition_part(output: Output) -> str:
    """The exponents, and curves."""
    return f"{figures_of(output)}\n\n{line_table(output.lines)}"


def theorem_table(lines: Sequence[Line]) -> str:
    """Coverage of each score function, and its length relative to SLCP's."""
    table = []
    for line in choose(lines, quantity="coverage, %"):
        row = {name: text for name, text in line.of.items() if name != "quantity"}
        length = one_of(lines, **{**row, "quantity": "length relative to SLCP's"})
        row |= {"coverage, %": amount(line), "covers": line.verdict}
        table.append({**row, "length relative to SLCP's": amount(length, 3)})
    return markdown_table(table)
