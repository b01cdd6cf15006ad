"""The bars that the library sets itself, and whether the records meet them."""

import numpy as np

from benchmarks.quality.datasets import SIMULATIONS
from benchmarks.quality.methods import OURS
from benchmarks.quality.summary import conditional_gaps, geometric_mean, outside_bands

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
    low = sum(one["strictly_below"] for one in bands.values())
    plain = sum(one["below"] for one in bands.values())
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


def verdicts(frame, scores):
    """All lines that the records allow."""
    return [
        *coverage(frame),
        *against_best_peer(scores),
        *against_cqr(scores),
        *regret(scores),
        *conditional(frame),
    ]
