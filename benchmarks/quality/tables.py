"""From records to Markdown, with the bars that the library sets itself."""

import numpy as np

from benchmarks.quality import THREADS
from benchmarks.quality.datasets import SIMULATIONS
from benchmarks.quality.methods import METHODS, OURS, PEERS
from benchmarks.quality.summary import (
    Ratio,
    Scores,
    conditional_gaps,
    geometric_mean,
    in_order,
    outside_bands,
    regimes,
)

MISSING = "–"
BEST_PEER, AIM, WORST = 0.92, 0.90, 1.05
FIT, PREDICT = 3.0, 1.5
CQR, TWO_OF_FIFTY = "mapie-cqr", "two_of_fifty"


def line(text, value, bar, met):
    return f"- {text}: {value} (bar {bar}): **{'met' if met else 'not met'}**"


def against_best_peer(scores, method):
    """Over all sets, over files alone, and the worst set."""
    ratios = scores.ratios(method, scores.best_peer)
    if not ratios:
        return []
    mean, bar = geometric_mean(ratios), f"{BEST_PEER}, aim {AIM:.2f}"
    told = f"{shown(mean, True)} over {len(ratios)} sets"
    real = geometric_mean({k: v for k, v in ratios.items() if k not in SIMULATIONS})
    if real is not None:
        told += f", {real.mean:.3f} without simulations"
    head = line(f"geometric mean {method} / best peer", told, bar, mean.mean <= BEST_PEER)
    worst = max(ratios, key=lambda name: ratios[name].mean)
    # With one seed there is no standard error, and the bar itself is the limit.
    above = [k for k, v in ratios.items() if v.mean - 2 * np.nan_to_num(v.error) > WORST]
    told = f"{worst} {shown(ratios[worst], True)}; above the bar: {', '.join(above) or 'none'}"
    text = f"worst set of {method} / best peer"
    return [head, line(text, told, f"{WORST} by two standard errors", not above)]


def against_cqr(scores):
    mean = geometric_mean(scores.ratios("auto", lambda _: CQR))
    return [f"- geometric mean auto / {CQR}: {shown(mean, True)}"] if mean else []


COSTS = {"fit_seconds": FIT, "fit_processor_seconds": FIT}
COSTS |= {"predict_seconds": PREDICT, "predict_processor_seconds": PREDICT}


def cost_ratios(frame, method):
    """Cost -> geometric mean over data sets of its ratio to MAPIE's CQR; None where there is none.

    Per data set by the least of the seeds: what else ran on the machine only adds.
    """
    found = {}
    for cost in COSTS:
        least = frame.pivot_table(index="dataset", columns="method", values=cost, aggfunc="min")
        known = {method, CQR} <= set(least)
        ratios = (least[method] / least[CQR]).dropna() if known else {}
        found[cost] = geometric_mean({name: Ratio(one, 0.0) for name, one in ratios.items()})
    return found


def costs(frame):
    """The bars on time."""
    return [
        line(f"auto / {CQR}, {cost.replace('_', ' ')}", f"{ratio.mean:.2f}", bar, ratio.mean <= bar)
        for (cost, ratio), bar in zip(
            cost_ratios(frame, "auto").items(), COSTS.values(), strict=True
        )
        if ratio is not None
    ]


def coverage(frame):
    """Below the band that is corrected for the number of cells: no method of ours, ever."""
    bands = {name: one for name, one in outside_bands(frame).items() if name in OURS}
    if not bands:
        return []
    cells = sum(one["cells"] for one in bands.values())
    low = sum(one["below strict band"] for one in bands.values())
    plain = sum(one["below 95 % band"] for one in bands.values())
    shown = f"{low} of {cells} ({plain} below the plain 95 % band, {cells / 40:.0f} expected)"
    text = "cells of our methods below their Bonferroni coverage band"
    return [line(text, shown, "0", low == 0)]


def conditional(frame):
    gaps = conditional_gaps(frame, TWO_OF_FIFTY)
    if "auto" not in gaps:
        return []
    told = f"{gaps['auto']:.4f}" + (f", {CQR} {gaps[CQR]:.4f}" if CQR in gaps else "")
    return [f"- {TWO_OF_FIFTY}, mean conditional gap of auto: {told}"]


def number(value, digits=3):
    return MISSING if value is None or np.isnan(value) else f"{value:.{digits}f}"


def markdown_table(head, rows):
    """The first column is text, the others numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in [head, rule, *rows]) + "\n"


def shown(ratio, with_error=False):
    if ratio is None:
        return MISSING
    if with_error and not np.isnan(ratio.error):
        return f"{ratio.mean:.3f} ± {ratio.error:.3f}"
    return f"{ratio.mean:.3f}"


def ratio_table(scores, methods, reference_of, named=True):
    """A row a data set, a column a method, geometric means below; auto with standard errors."""
    columns = {name: scores.ratios(name, reference_of) for name in methods}
    rows = []
    for dataset in scores.datasets:
        cells = [
            shown(column.get(dataset), name.startswith("auto")) for name, column in columns.items()
        ]
        reference = [reference_of(dataset) or MISSING] if named else []
        rows.append([dataset, *cells, *reference])
    means = [geometric_mean(column) for column in columns.values()]
    sets = len(scores.datasets)
    cells = [
        shown(mean, name.startswith("auto"))
        + ("" if len(column) == sets else f" ({len(column)} sets)")
        for mean, (name, column) in zip(means, columns.items(), strict=True)
    ]
    rows.append(["geometric mean", *cells, *([""] if named else [])])
    return markdown_table(["data set", *methods, *(["relative to"] if named else [])], rows)


def coverage_table(frame):
    counts = ("cells", "below 95 % band", "above", "below strict band")
    rows = [
        [name, number(one["mean coverage"]), *(one[count] for count in counts)]
        for name, one in outside_bands(frame).items()
    ]
    head = ["method", "mean coverage", "cells", "below 95 % band", "above", "below Bonferroni band"]
    return markdown_table(head, rows)


def detail_table(frame):
    """Times, infinite intervals, worst group and worst slab: means over data sets and seeds."""
    rows = frame
    names = {"infinite_share": 4, "worst_group_gap": 3, "worst_slab_coverage": 3}
    names |= {"fit_seconds": 2, "predict_seconds": 3}
    # Over data sets first: the number of seeds that finished may differ between them.
    columns = rows[list(names)].astype(float)
    by_set = columns.groupby([rows["method"], rows["dataset"]]).mean()
    means = by_set.groupby("method").mean()
    lines = [
        [method, *(number(means.loc[method, name], digits) for name, digits in names.items())]
        for method in in_order(means.index, METHODS)
    ]
    head = ["method", "infinite", "worst-group gap", "worst-slab coverage", "fit s", "predict s"]
    return markdown_table(head, lines)


def cost_table(frame):
    """Times as ratios to those of MAPIE's CQR; megabytes of the pickle, the mean and the most."""
    megabytes = (frame["pickle_bytes"] / 2**20).groupby(frame["method"]).agg(["mean", "max"])
    rows = []
    for method in in_order(megabytes.index, METHODS):
        times = [shown(ratio) for ratio in cost_ratios(frame, method).values()]
        rows.append([method, *times, *(number(size, 1) for size in megabytes.loc[method])])
    head = ["method", "fit", "fit, processor", "predict", "predict, processor"]
    return markdown_table([*head, "MB", "most MB"], rows)


def section(title, text, table):
    return f"### {title}\n\n{text}\n\n{table}\n"


def regime(frame, cap):
    """All tables of one cap of rows."""
    scores = Scores(frame)
    ours, peers = in_order(scores.methods, OURS), in_order(scores.methods, PEERS)
    rows = "all rows" if cap == "all" else f"at most {int(cap):,} rows"
    busy = f"load average {frame['load_average'].median():.1f}"
    head = f"## {rows.capitalize()}; seeds: {frame['seed'].nunique()}; {busy}\n\n"
    lines = coverage(frame)
    for name in ("auto", "auto-boosting"):
        lines += against_best_peer(scores, name)
    lines += against_cqr(scores) + costs(frame) + conditional(frame)
    gaps = [[name, number(g, 4)] for name, g in conditional_gaps(frame, TWO_OF_FIFTY).items()]
    parts = [
        head + "\n".join(lines) + "\n\n",
        section(
            "Against the best peer",
            "Interval score divided by that of the best peer of each data set, means of paired "
            "ratios over seeds (± standard error); below 1 is better than every peer.",
            ratio_table(scores, ours, scores.best_peer),
        ),
        section(
            "Peers",
            "The peers themselves in the same unit.",
            ratio_table(scores, peers, scores.best_peer),
        ),
        section(
            "Cost",
            "Seconds and processor seconds over those of MAPIE's CQR, geometric means over data "
            f"sets of the least of the seeds; size of the pickle. Threads: {THREADS} each.",
            cost_table(frame),
        ),
        section(
            "Coverage",
            "Over data sets and seeds. One cell in 40 falls below its 95 % band by chance and one "
            "in 40 above; discrete responses cover more. The Bonferroni band divides the 5 % by "
            "the cells.",
            coverage_table(frame),
        ),
        section(
            "Conditional coverage, known",
            "Mean |conditional coverage − 0.9| where the scale depends on 2 of 50 features.",
            markdown_table(["method", "gap"], gaps),
        ),
        section(
            "Groups, slabs, infinite intervals, seconds",
            "Means over the data sets.",
            detail_table(frame),
        ),
    ]
    return "".join(parts)


def markdown(records):
    """The whole page."""
    parts = [regime(part, cap) for cap, part in regimes(records)]
    note = (
        "Written by `python -m benchmarks.quality`. 60/20/20 training, calibration and test rows, "
        "the same for every method; 90 %. `auto` is `SLCPRegressor()`; the other laws, and "
        "`auto-boosting`, are around gradient boosting, which is the model of the peers that take "
        "one. The best peer of a data set is chosen with hindsight. The meps sets are stand-ins "
        "for those of the papers.\n\n"
    )
    return "# Quality of the intervals\n\n" + note + "\n".join(parts)
