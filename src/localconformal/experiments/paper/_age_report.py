"""What the age experiment says: lines beside the paper's, tables of groups, notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localconformal.experiments.experiment import Line, Output, Row
from localconformal.experiments.objective import LEVEL
from localconformal.experiments.paper import bandwidth, minibatch
from localconformal.experiments.paper._ablation import relative, table_of
from localconformal.experiments.paper._age_methods import METHODS
from localconformal.experiments.paper._age_model import setting_of, why_left_out
from localconformal.experiments.paper._subgroups import OVERALL
from localconformal.experiments.presets import Preset
from localconformal.experiments.printed import printed
from localconformal.experiments.summary import (
    below_bands,
    compared,
    in_per_cent,
    over_repeats,
    paired,
    same_direction,
    select,
)
from localconformal.metrics import binomial_band

TABLE = "table2_age"
#: The paper's age groups, in the order of its table.
AGES = ("0-20", "21-60", ">60")
#: Kinds of rows: the model itself, and groups by prediction and by label.
MODEL, PREDICTED, LABEL = "model", "predicted age", "true age (label-conditional)"
BATCH, BANDWIDTH, REFERENCE = "mini-batch", "bandwidth", "reference scores"
AUTO = "SLCP-auto"
OTHER_DATA = "other images and another network: the paper adds IMDB-WIKI and begins with ImageNet"
BY_LABEL = "groups by the label: no method promises coverage there, and the paper's images differ"


def printed_length(method: str) -> float:
    """The paper's mean length for all images, in years."""
    return float(printed()[TABLE][method][0][0])


def report(rows: list[Row], preset: Preset) -> Output:
    """The table for all images and by label, both ablations, and tables of our own."""
    overall = select(rows, group=OVERALL)
    lines = [
        *value_lines(overall, OVERALL, METHODS, OTHER_DATA),
        *difference_lines(overall),
        *(line for age in AGES for line in label_lines(rows, age)),
        *ablation_lines(rows, BATCH, "table_batch", f"{minibatch.ALL_ROWS} %"),
        *ablation_lines(rows, BANDWIDTH, "table_bandwidth", bandwidth.MEDIAN),
    ]
    groups = [row for row in rows if row.get("kind") not in (None, MODEL, LABEL)]
    tables = {
        "Model": model_table(rows),
        "Coverage": below_bands(overall, LEVEL),
        f"Interval score, and that of {AUTO} minus it": score_table(overall),
        "By group, with bands": banded(groups),
        "By true age: label-conditional, which no method promises": banded(
            select(rows, kind=LABEL)
        ),
        "SLCP by the images behind its law": reference_table(rows),
    }
    return Output(lines, tables, notes=notes(rows, preset))


def value_lines(rows: list[Row], group: str, methods: Iterable[str], cannot: str) -> list[Line]:
    """Length and coverage of each method in a group."""
    paper, place = printed()[TABLE], ("overall", *AGES).index(group)
    lines = []
    for method in methods:
        mine = select(rows, method=method)
        length, share = paper[method][place] if method in paper else (None, None)
        of = {"group": group, "method": method, "variant": ""}
        ours = over_repeats(mine, "length")
        covered = in_per_cent(over_repeats(mine, "coverage"))
        lines += [
            compared({**of, "quantity": "length, years"}, length, ours, "length", cannot),
            # All images are covered as promised, whichever they are; a group by label is not.
            compared(
                {**of, "quantity": "coverage, %"},
                share,
                covered,
                "coverage",
                "" if group == OVERALL else cannot,
            ),
        ]
    return lines


def label_lines(rows: list[Row], age: str) -> list[Line]:
    """The paper's group of this true age."""
    known = [method for method in METHODS if method in printed()[TABLE]]
    return value_lines(select(rows, kind=LABEL, group=age), age, known, BY_LABEL)


def difference_lines(rows: list[Row]) -> list[Line]:
    """Is SLCP shorter than each other method on the same images, as the paper has it?"""
    lines = []
    for method in METHODS:
        if method == "SLCP":
            continue
        known = method in printed()[TABLE]
        paper = printed_length("SLCP") - printed_length(method) if known else None
        of = {
            "group": OVERALL,
            "method": f"SLCP - {method}",
            "variant": "",
            "quantity": "difference in length, years",
        }
        ours = over_repeats(paired(rows, "SLCP", method, "length"), "difference")
        lines.append(same_direction(of, paper and round(paper, 10), ours))
    return lines


def ablation_lines(rows: list[Row], ablation: str, table: str, base: str) -> list[Line]:
    """The paper's two rows of an ablation, and by how much lengths exceed those of the base."""
    paper, here = printed()[table], select(rows, ablation=ablation)
    variants = variants_of(ablation)
    at_base = paper["age_length"][variants.index(base)]
    lines = []
    for variant, length, share in zip(
        variants, paper["age_length"], paper["age_coverage"], strict=True
    ):
        mine = select(here, variant=variant)
        of = {"group": OVERALL, "method": "SLCP", "variant": f"{ablation}, {variant}"}
        ours = over_repeats(mine, "length")
        covered = in_per_cent(over_repeats(mine, "coverage"))
        lines += [
            compared({**of, "quantity": "length, years"}, length, ours, "length", OTHER_DATA),
            compared({**of, "quantity": "coverage, %"}, share, covered, "coverage"),
        ]
        if variant != base:
            pairs = relative(mine, select(here, variant=base), "length")
            longer = in_per_cent(over_repeats(pairs, lambda row: row["relative"] - 1.0))
            of = {**of, "quantity": f"longer than with {base}, %"}
            printed_longer = round(100.0 * (length / at_base - 1.0), 1)
            lines.append(same_direction(of, printed_longer, longer))
    return lines


def variants_of(ablation: str) -> Sequence[str]:
    """Names of the settings of an ablation, in the order of the paper's table."""
    if ablation == BATCH:
        return [f"{percent} %" for percent in minibatch.percents()]
    return list(bandwidth.quantiles())


def model_table(rows: list[Row]) -> list[Row]:
    """How the network was trained, and how far off it is."""
    known = select(rows, kind=MODEL)
    fields = ("mae", "within")
    means = {field: over_repeats(known, field) for field in fields}
    return [
        {
            "images that weights were fitted to": row["fitted_images"],
            "epochs": row["epochs"],
            "best epoch": row["best_epoch"],
            "hours of training": row["training_seconds"] / 3600.0,
            "mean absolute error on images held out, years": row["held_mae"],
            "on test images": means["mae"] and means["mae"].value,
            f"share of test images within {printed_length('SLCP') / 2:.2f} years": means["within"]
            and means["within"].value,
        }
        for row in known[:1]
    ]


def score_table(rows: list[Row]) -> list[Row]:
    """Mean interval score of each method, and how auto differs from it on the same images."""
    table = []
    for method in METHODS:
        mine = select(rows, method=method)
        score, infinite = (over_repeats(mine, name) for name in ("interval_score", "infinite"))
        gap = over_repeats(paired(rows, AUTO, method, "interval_score"), "difference")
        table.append(
            {
                "method": method,
                "interval score, years": score and score.value,
                "standard error": score and score.error,
                "difference": gap and gap.value,
                "95 % margin": gap and gap.margin,
                "share infinite": infinite and infinite.value,
            }
        )
    return table


def banded(rows: list[Row]) -> list[Row]:
    """Means over repeats for each group and method, with a band for the coverage of one split."""
    table = table_of(rows, ("kind", "group", "method"), ("n", "length", "coverage"))
    for row in table:
        n = round(row["n"])
        low, high = binomial_band(round(row["coverage"] * n), n)
        row.update({"n": n, "band from": low, "to": high})
        del row["failed"]
    return table


def reference_table(rows: list[Row]) -> list[Row]:
    """SLCP with residuals of images that weights were fitted to, and of images held out."""
    fields = ("length", "coverage", "interval_score")
    return table_of(select(rows, ablation=REFERENCE), ("variant",), fields)


def notes(rows: list[Row], preset: Preset) -> list[str]:
    """What a reader must know."""
    if why_left_out():
        return [why_left_out()]
    return [
        f"{SOURCES[setting_of(preset).source]} Lengths and scores are in years.",
        "60 % of the images train: 85 % of them fit the weights, 15 % choose the epoch and "
        "are the reference images of all methods but SLCP and CQR. The rest is halved into "
        "calibration and test images, anew for each repeat; the network is the same in all of "
        "them, so that standard errors do not tell how another training would end.",
        "SLCP is the paper's: Algorithm 1 on the mean, a Gaussian kernel of the median bandwidth "
        "in the embedding, residuals of the training images. CQR has a quantile head on the "
        "frozen trunk. LVD promises no coverage, and its infinite intervals are left out of "
        "lengths. Interval scores of CDSplit are those of the hulls of its sets.",
        "A band holds the coverage behind the test images of one split with probability 95 %.",
        *why_not_reached(rows),
    ]


#: Source of images -> a sentence.
SOURCES = {
    "faces": "UTKFace, 23,707 faces at 64 x 64 pixels; ResNet-34 trained from nothing.",
    "made": "Made images and a tiny network, to see that everything runs; no faces.",
}


def why_not_reached(rows: list[Row]) -> list[str]:
    """Why the paper's shortest intervals are no target, with our own errors beside them."""
    known = select(rows, kind=MODEL)
    error, within = (over_repeats(known, field) for field in ("mae", "within"))
    if error is None or within is None:
        return []
    length = printed_length("SLCP")
    return [
        f"{length} years at 90 % are not within reach of a split that keeps calibration images "
        f"out of training: normal errors would need a mean absolute error of "
        f"{0.798 * length / 2 / 1.645:.1f} years, on labels that are estimates themselves. Here "
        f"it is {error.value:.1f}, and {100 * within.value:.0f} % of the test images are within "
        f"half that length of their prediction. The paper's own MADSplit, on the same mean model, "
        f"has {printed_length('MADSplit')}. Its released code chooses the checkpoint on the "
        "images that later calibrate, and gives the images of a mini-batch the residuals of "
        "others; its 93,627 images are more than its repository lists."
    ]
