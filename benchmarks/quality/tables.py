"""From records to Markdown, with the bars that the library sets itself."""

import numpy as np
import pandas as pd

from benchmarks.quality.datasets import SIMULATIONS
from benchmarks.quality.methods import METHODS, OURS, PEERS
from benchmarks.quality.summary import (
    Scores,
    conditional_gaps,
    configurations,
    done,
    geometric_mean,
    in_order,
    outside_bands,
)

MISSING = "–"
BEST_PEER, STRETCH, CQR, REGRET, WORST = 0.95, 0.90, 0.80, 1.03, 1.05
TWO_OF_FIFTY = "two_of_fifty"


def line(text, value, bar, met):
    return f"- {text}: {value} (bar {bar}): **{'met' if met else 'not met'}**"


def against_best_peer(scores):
    """Over all sets, over files alone, and the worst set."""
    ratios = scores.ratios("auto", scores.best_peer)
    if not ratios:
        return []
    mean, stretch = geometric_mean(ratios), f"{BEST_PEER}, stretch {STRETCH:.2f}"
    shown = f"{mean.mean:.3f} ± {mean.error:.3f} over {len(ratios)} sets"
    real = geometric_mean({k: v for k, v in ratios.items() if k not in SIMULATIONS})
    if real is not None:
        shown += f", {real.mean:.3f} without simulations"
    head = line("geometric mean auto / best peer", shown, stretch, mean.mean <= BEST_PEER)
    # With one seed there is no standard error, and the bar itself is the limit.
    above = {k: v for k, v in ratios.items() if v.mean - 2 * np.nan_to_num(v.error) > WORST}
    names = ", ".join(f"{name} {ratio.mean:.3f}" for name, ratio in above.items()) or "none"
    text = "sets where auto / best peer exceeds the bar by more than two standard errors"
    return [head, line(text, names, f"{WORST}", not above)]


def against_cqr(scores):
    lines = []
    for peer in ("mapie-cqr", "mapie-cqr-asymmetric"):
        mean = geometric_mean(scores.ratios("auto", lambda _, name=peer: name))
        if mean is not None:
            shown = f"{mean.mean:.3f} ± {mean.error:.3f}"
            lines.append(
                line(f"geometric mean auto / {peer}", shown, f"{CQR:.2f}", mean.mean <= CQR)
            )
    return lines


def regret(scores):
    mean = geometric_mean(scores.ratios("auto", scores.best_law))
    if mean is None:
        return []
    text = "geometric mean auto / best single law of ours (chosen with hindsight)"
    # A law that was run on one seed has no standard error, nor then has the mean.
    error = f" ± {mean.error:.3f}" if np.isfinite(mean.error) else ""
    return [line(text, f"{mean.mean:.3f}{error}", REGRET, mean.mean <= REGRET)]


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
    lines = []
    if {"auto", "mapie-cqr"} <= set(gaps):
        shown = f"{gaps['auto']:.4f} against {gaps['mapie-cqr']:.4f}"
        met = gaps["auto"] < gaps["mapie-cqr"]
        lines.append(line(f"{TWO_OF_FIFTY}, gap of auto against mapie-cqr", shown, "below", met))
    if {"auto", "split"} <= set(gaps):
        share = gaps["auto"] / gaps["split"]
        text = f"{TWO_OF_FIFTY}, gap of auto / gap of split"
        lines.append(line(text, f"{share:.3f}", "0.333", share <= 1 / 3))
    return lines


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
        cells = [shown(column.get(dataset), name == "auto") for name, column in columns.items()]
        reference = [reference_of(dataset) or MISSING] if named else []
        rows.append([dataset, *cells, *reference])
    means = [geometric_mean(column) for column in columns.values()]
    sets = len(scores.datasets)
    cells = [
        shown(mean, name == "auto") + ("" if len(column) == sets else f" ({len(column)} sets)")
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
    rows = done(frame)
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


def unfinished_list(frame):
    """What failed or did not finish: the data sets of each method, and a reason."""
    rows = frame[frame["status"] != "done"]
    if not len(rows):
        return "Every task finished.\n"
    return "".join(
        f"- {method} {status} on {', '.join(dict.fromkeys(part['dataset']))} ({len(part)} tasks): "
        f"{part['error'].iloc[0][:150]}\n"
        for (method, status), part in rows.groupby(["method", "status"], sort=False)
    )


def section(title, text, table):
    return f"### {title}\n\n{text}\n\n{table}\n"


def configuration(frame, base, max_rows):
    """All tables of one base model and cap of rows."""
    scores = Scores(frame)
    ours, peers = in_order(scores.methods, OURS), in_order(scores.methods, PEERS)
    laws = [name for name in ours if name != "auto"]
    seeds = frame["seed"].nunique()
    head = f"## Base model: {base}; at most {max_rows} rows; {seeds} seeds\n\n"
    lines = coverage(frame) + against_best_peer(scores) + against_cqr(scores) + regret(scores)
    lines += conditional(frame)
    parts = [head + "\n".join(lines) + "\n\n"] if lines else [head]
    relative = (
        "Interval score divided by that of the best peer of each data set, means of paired "
        "ratios over seeds (± standard error); below 1 is better than every peer."
    )
    parts.append(
        section("Against the best peer", relative, ratio_table(scores, ours, scores.best_peer))
    )
    text = "The peers themselves in the same unit."
    parts.append(section("Peers", text, ratio_table(scores, peers, scores.best_peer)))
    cqr = ratio_table(scores, [*ours, *peers], lambda _: "mapie-cqr", named=False)
    parts.append(section("Against MAPIE's CQR", "Interval score divided by mapie-cqr's.", cqr))
    text = "Interval score of auto divided by that of the best of our laws, chosen with hindsight."
    table = ratio_table(scores, ["auto"], scores.best_law) if "auto" in ours and laws else ""
    parts.append(section("Regret of auto", text, table))
    text = (
        "Over data sets and seeds. One cell in 40 falls below its 95 % band by chance and one in "
        "40 above; discrete responses cover more. The Bonferroni band divides the 5 % by the cells."
    )
    parts.append(section("Coverage", text, coverage_table(frame)))
    text = "Mean |conditional coverage − 0.9| where the scale depends on 2 of 50 features."
    gaps = [[name, number(g, 4)] for name, g in conditional_gaps(frame, TWO_OF_FIFTY).items()]
    gap_table = markdown_table(["method", "gap"], gaps)
    parts.append(section("Conditional coverage, known", text, gap_table))
    text = "Means over the data sets that finished; one thread."
    parts.append(section("Groups, slabs, infinite intervals, seconds", text, detail_table(frame)))
    parts.append(section("Not finished", "Tasks without figures.", unfinished_list(frame)))
    return "".join(parts)


def markdown(records):
    """The whole page."""
    parts = [configuration(part, *key) for key, part in configurations(pd.DataFrame(records))]
    note = (
        "Written by `python -m benchmarks.quality`. 60/20/20 training, calibration and test rows, "
        "the same for every method; 90 %. The meps sets are stand-ins for those of the papers.\n\n"
    )
    return "# Quality of the intervals\n\n" + note + "\n".join(parts)
