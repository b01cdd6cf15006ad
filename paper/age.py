"""Age from faces: the paper's deep model, its methods by group, and its two ablations."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import FunctionTransformer

from benchmarks.harness import (
    LEVEL,
    Arm,
    Case,
    Experiment,
    Line,
    Output,
    Preset,
    Row,
    Rows,
    Sets,
    Split,
    Task,
    cases_of,
    seed_of,
    try_arm,
)
from benchmarks.tables import below_bands, difference, means_table, over_repeats, select
from localconformal.io.files import write_whole
from localconformal.laws import DistanceQuantile, KernelLaw
from localconformal.metrics import binomial_band, interval_score
from localconformal.quantiles import Array
from localconformal.regressors import (
    CDSplitRegressor,
    ConformalizedQuantileRegressor,
    LVDRegressor,
    MADSplitRegressor,
    SplitConformalRegressor,
)
from paper.ablations import ALL_ROWS, MEDIAN, against_base, law_of, percents, quantiles
from paper.data import cache_folder
from paper.faces import FITTED, HELD, POOL, SOURCES, UNKNOWN, Images, halves, parts_of
from paper.methods import Make, on, slcp
from paper.models import FAMILIES, LEVELS
from paper.tables import OVERALL, UNPROMISED, by_group
from paper.verdicts import length_and_coverage, length_difference, printed

CACHE_VARIABLE = "LOCALCONFORMAL_CACHE"
#: Raised when a change makes kept weights or features wrong.
VERSION = 1


@dataclass(frozen=True)
class TrainingPlan:
    """AdamW with a one-cycle schedule on flipped and shifted images."""

    epochs: int = 10
    #: Rows of a step; the last ones of an epoch are spread over its other steps.
    batch_size: int = 64
    #: At the top of the cycle.
    learning_rate: float = 0.003
    weight_decay: float = 0.01
    #: Most pixels by which an image is moved, in each direction.
    shift: int = 4
    #: Draws the order of the rows, the flips and shifts, and dropout.
    seed: int = 0


@dataclass(frozen=True)
class Setting:
    """Which images, which network, and how both of its heads are trained."""

    source: str
    #: Residual blocks of each stage: every stage but the first halves the sides of the image, and
    #: doubles the channels, of which the first has ``width``.
    blocks: tuple[int, ...]
    width: int
    #: Units of the hidden layer and of the embedding, with dropout before both.
    head: tuple[int, int]
    dropout: float
    plan: TrainingPlan
    quantile_epochs: int
    #: Levels of a network that is trained for quantiles; None is one for the mean.
    levels: tuple[float, ...] | None = None
    #: Names the draw of the first weights.
    weights: str = "weights"

    @property
    def folder(self) -> Path:
        """Where weights and features of this setting are kept."""
        text = json.dumps([VERSION, asdict(self)], sort_keys=True)
        root = os.environ.get(CACHE_VARIABLE)
        name = f"age-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return (Path(root) if root else cache_folder()) / name


#: ResNet-34 with the paper's head. The paper starts from ImageNet's weights and drops half of the
#: head's units; from scratch, in ten epochs, that much dropout only slows the training down.
FACES = Setting("faces", (3, 4, 6, 3), 64, (512, 16), 0.2, TrainingPlan(seed=1), 100)
#: To see that everything runs: seconds, and no face.
TINY = Setting(
    "made", (1, 1), 8, (32, 16), 0.0, TrainingPlan(epochs=8, batch_size=32, shift=1, seed=1), 20
)
#: Trained networks: the first has no name, as its rows were stored before there were others. Each
#: takes about an hour of a core, and is kept when it is trained.
FIRST, SECOND, END_TO_END = None, "second training", "trained for quantiles"


#: A sentence, where a package is missing; else nothing.
LEFT_OUT = FAMILIES["neural_net"].left_out.replace("neural network", "age model")


def setting_of(preset: Preset, network: str | None = FIRST) -> Setting:
    """The setting of a preset and a network."""
    first = TINY if preset.only_runs else FACES
    if network == SECOND:
        return replace(first, plan=replace(first.plan, seed=2), weights="second weights")
    return first if network is FIRST else replace(first, levels=LEVELS)


@dataclass(frozen=True)
class AgeFeatures:
    """What the network says of every image, n of them."""

    #: (n, 16)
    embedding: Array
    #: Or the median, of a network that is trained for quantiles.
    mean: Array
    #: (n, 3) at 0.05, 0.5 and 0.95, in this order.
    quantiles: Array
    age: Array
    #: "fitted", "held" or "pool".
    parts: NDArray[np.str_]
    #: The last layer: mean, or median, = offset + relu(embedding) weights.
    weights: Array
    offset: float
    groups: dict[str, NDArray[np.str_]]
    #: How the network was trained.
    facts: dict[str, Any]


# Tasks of one setting follow each other.
@lru_cache(maxsize=1)
def age_features(setting: Setting) -> AgeFeatures:
    """From the cache, or by training; a training that was killed goes on."""
    # PyTorch depends on it, so it is there wherever this runs.
    from filelock import FileLock

    setting.folder.mkdir(parents=True, exist_ok=True)
    path = setting.folder / "features.npz"
    # Tasks that run side by side must not train the same network; the others wait.
    with FileLock(setting.folder / "training.lock"):
        if not path.exists():
            arrays = make_features(setting, SOURCES[setting.source]())
            write_whole(path, lambda part: np.savez(part, **arrays))
    return read_features(path)


def make_features(setting: Setting, images: Images) -> dict[str, Any]:
    """Train the network, and run it over all images."""
    import torch

    from paper.age_network import ImageNetwork, read_images, train_images

    parts = parts_of(len(images.age))
    training = parts != POOL
    generator = torch.Generator().manual_seed(seed_of("age", setting.weights))
    network = ImageNetwork(generator, setting)
    pixels = torch.from_numpy(images.pixels)
    history = train_images(
        network,
        pixels[torch.from_numpy(training)],
        torch.from_numpy(images.age[training].astype(np.float32)),
        torch.from_numpy(parts[training] == HELD),
        setting.plan,
        setting.folder / "checkpoint.pt",
    )
    reading = read_images(network, pixels)
    unit, readout, hidden = network.unit.item(), network.readout, reading.hidden.numpy()
    # Of three quantiles the middle one is the point.
    place = len(setting.levels) // 2 if setting.levels else 0
    if setting.levels is None:
        quantiles = frozen_quantiles(setting, hidden, images.age, training)
    else:
        quantiles = reading.output.numpy()
    best = min(history, key=lambda row: row["held_loss"])
    facts = {"epochs": len(history), "best_epoch": best["epoch"], "held_mae": best["held_mae"]}
    facts["training_seconds"] = history[-1]["seconds"]
    return {
        "hidden": hidden,
        "embedding": reading.embedding.numpy(),
        "mean": network.centres(reading.output).numpy(),
        "quantiles": quantiles,
        "age": images.age,
        "parts": parts,
        "weights": unit * readout.weight.detach().numpy()[place],
        "offset": network.centre.item() + unit * readout.bias[place].item(),
        "facts": json.dumps(facts),
        **{f"group {name}": values for name, values in images.groups.items()},
    }


def frozen_quantiles(
    setting: Setting, hidden: Array, age: Array, training: NDArray[np.bool_]
) -> Array:
    """A quantile head on the frozen trunk: hidden -> 16 -> ReLU -> 3, by the pinball loss."""
    from paper.networks import Network

    head = Network(
        LEVELS,
        setting.head[1:],
        batch_size=256,
        max_epochs=setting.quantile_epochs,
        random_state=seed_of("age", "quantiles"),
    ).fit(hidden[training], age[training])
    return np.asarray(head.predict(hidden, quantiles=LEVELS))


def read_features(path: Path) -> AgeFeatures:
    """Features from their file; those of the hidden layer stay there."""
    try:
        with np.load(path) as file:
            names = ("embedding", "mean", "quantiles", "age", "weights")
            groups = [name for name in file.files if name.startswith("group ")]
            return AgeFeatures(
                **{name: file[name].astype(np.float64) for name in names},
                parts=file["parts"],
                offset=float(file["offset"]),
                groups={name.removeprefix("group "): file[name] for name in groups},
                facts=json.loads(str(file["facts"])),
            )
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(
            f"{path} could not be read as features ({type(error).__name__}); remove it, and they "
            "are made again from the weights beside it."
        ) from error


#: Reference images: which parts of the training images they are.
ALL_TRAINING, HELD_OUT = "all training images", "training images held out"


@dataclass(frozen=True)
class Head:
    """offset + relu(x) weights: the network's last layer, fitted already.

    Examples
    --------
    >>> Head(np.array([1.0, 2.0]), 0.5).predict(np.array([[3.0, -1.0]]))
    array([3.5])
    """

    weights: Array
    offset: float

    def predict(self, X: Any) -> Array:
        """Embeddings (n, 16) -> (n,), each row by itself."""
        return np.einsum("ij,j->i", np.maximum(X, 0.0), self.weights) + self.offset


@dataclass(frozen=True)
class Method:
    """How it is made from frozen models; what it is fitted on; what its rows are."""

    make: Make
    reference: str = HELD_OUT
    view: str = "embedding"


def with_law(law: KernelLaw, reference: str = ALL_TRAINING) -> Method:
    """The paper's Algorithm 1 with this law in the embedding."""
    return Method(lambda model, seed, preset: slcp(model.mean, "residual", law, seed), reference)


METHODS = {
    # Gaussian kernel, median bandwidth.
    "SLCP": with_law(KernelLaw(n_jobs=1)),
    "CDSplit": Method(on(CDSplitRegressor)),
    "CQR": Method(on(ConformalizedQuantileRegressor, "quantile"), view="quantiles"),
    "MADSplit": Method(on(MADSplitRegressor)),
    # Its default kernel learns a metric of the features, which are the embedding here.
    "LVD": Method(on(LVDRegressor)),
    "split": Method(on(SplitConformalRegressor)),
}


@dataclass(frozen=True)
class Halved:
    """The features, halved for one repeat."""

    features: AgeFeatures
    calibration: NDArray[np.intp]
    test: NDArray[np.intp]

    @property
    def models(self) -> SimpleNamespace:
        """The frozen models, of embeddings and of columns of quantiles."""
        head = Head(self.features.weights, self.features.offset)
        return SimpleNamespace(mean=head, quantile=SimpleNamespace(predict=np.asarray))

    def split(self, view: str, reference: str) -> Split:
        """Reference, calibration and test rows, in years."""
        parts = self.features.parts
        training = parts == HELD if reference == HELD_OUT else parts != POOL
        X: Array = getattr(self.features, view)
        everyone = np.full(len(parts), "")

        def rows(here: NDArray[np.intp]) -> Rows:
            return Rows(X[here], self.features.age[here], everyone[here])

        return Split(rows(np.flatnonzero(training)), rows(self.calibration), rows(self.test))


TABLE = "table2_age"
#: The paper's age groups, in the order of its table.
AGES = ("0-20", "21-60", ">60")
#: Kinds of rows: the model itself, and groups by prediction and by label.
MODEL, PREDICTED, LABEL = "model", "predicted age", "true age (label-conditional)"
BATCH, BANDWIDTH, REFERENCE, EMBEDDING = (
    "mini-batch",
    "bandwidth",
    "reference scores",
    "embedding",
)
STANDARDISED, AS_IT_IS = "standardised", "as it is"
YEARS = "length, years"
#: The paper averages its age rows over five runs.
MOST_REPEATS = 5
OTHER_DATA = "other images and another network: the paper adds IMDB-WIKI and begins with ImageNet"
NOT_RUN = "not run: the training of this network takes about an hour of a core"
BY_LABEL = "groups by the label: no method promises coverage there, and the paper's images differ"


def printed_length(method: str) -> float:
    """The paper's mean length for all images, in years."""
    return float(printed()[TABLE][method][0][0])


def report(rows: list[Row], preset: Preset) -> Output:
    """The table for all images and by label, both ablations, and tables of our own."""
    # Stored rows may have methods that are no longer tried here.
    rows = [row for row in rows if row.get("method") in (None, *METHODS)]
    first = select(rows, network=FIRST)
    overall, by_label = select(first, group=OVERALL), select(first, kind=LABEL)
    known = [method for method in METHODS if method in printed()[TABLE]]
    lines = value_lines(overall, OVERALL, METHODS, OTHER_DATA) + shorter_lines(overall, known)
    for age in AGES:
        lines += value_lines(select(by_label, group=age), age, known, BY_LABEL)
    lines += ablation_lines(first, BATCH, "table_batch", f"{ALL_ROWS} %")
    lines += ablation_lines(first, BANDWIDTH, "table_bandwidth", MEDIAN)
    lines += other_network_lines(rows)
    groups = [row for row in first if row.get("kind") not in (None, MODEL, LABEL)]
    scored = ("length", "coverage", "interval_score")
    variants = [row for row in rows if row.get("ablation") in (REFERENCE, EMBEDDING)]
    places = ("network", "ablation", "variant")
    everywhere = [{"network": FIRST, **row} for row in rows if row.get("group") == OVERALL]
    tables = {
        "Networks": model_table(rows),
        "Coverage": below_bands(overall, LEVEL),
        "All images, by network": means_table(named(everywhere), ("network", "method"), scored),
        "Interval score, and how much larger it is than SLCP's": score_table(overall),
        "By group, with bands": banded(groups),
        "By true age: label-conditional, which no method promises": banded(by_label),
        "SLCP by the images behind its law, and by its embedding": means_table(
            named(variants), places, scored
        ),
    }
    return Output(lines, tables, notes=notes(first, preset))


def named(rows: list[Row]) -> list[Row]:
    """Rows with a name for the first network."""
    return [{**row, "network": row.get("network") or "first training"} for row in rows]


def shorter_lines(rows: list[Row], known: list[str]) -> list[Line]:
    """By how much SLCP is longer than each other method on the same images."""
    of = {"group": OVERALL, "method": "", "variant": ""}
    lines = []
    for method in list(METHODS)[1:]:
        pair = (printed_length("SLCP"), printed_length(method) if method in known else None)
        lines += length_difference(of, rows, "SLCP", method, pair, OTHER_DATA)
    return lines


def other_network_lines(rows: list[Row]) -> list[Line]:
    """The second training of the same network, and CQR with a network of its own."""
    again, own = (select(rows, network=name) for name in (SECOND, END_TO_END))
    lines = []
    for method in METHODS:
        pair = printed()[TABLE].get(method, [(None, None)])[0]
        mine = select(again, group=OVERALL, method=method)
        lines += if_run(OVERALL, method, SECOND, mine, pair)
    for place, group in enumerate((OVERALL, *AGES)):
        by_label = {} if group == OVERALL else {"kind": LABEL}
        mine, pair = select(own, group=group, **by_label), printed()[TABLE]["CQR"][place]
        lines += if_run(group, "CQR", END_TO_END, mine, pair)
    embedded = apart(select(rows, ablation=EMBEDDING))
    for variant in (STANDARDISED, AS_IT_IS):
        mine = select(embedded, variant=variant)
        lines += if_run(OVERALL, "SLCP", f"{EMBEDDING} {variant}", mine, (None, None))
    return lines


def if_run(
    group: str, method: str, variant: str, rows: list[Row], paper: Sequence[float | None]
) -> list[Line]:
    """Length and coverage; that the network was not trained, where there are no rows."""
    of = {"group": group, "method": method, "variant": variant}
    by_label = "" if group == OVERALL else BY_LABEL
    why = (by_label or OTHER_DATA, by_label) if rows else (NOT_RUN, NOT_RUN)
    return length_and_coverage(of, rows, paper, *why, length=YEARS)


def apart(rows: list[Row]) -> list[Row]:
    """Rows whose data set is the network, so that means are over networks first."""
    return [{**row, "dataset": row.get("network")} for row in rows]


def value_lines(rows: list[Row], group: str, methods: Iterable[str], cannot: str) -> list[Line]:
    """Length and coverage of each method in a group."""
    paper, place = printed()[TABLE], (OVERALL, *AGES).index(group)
    lines = []
    for method in methods:
        # All images are covered as promised, whichever they are; a group by label is not.
        cannot_cover = "" if group == OVERALL and method not in UNPROMISED else cannot
        mine, of = select(rows, method=method), {"group": group, "method": method, "variant": ""}
        pair = paper[method][place] if method in paper else (None, None)
        lines += length_and_coverage(of, mine, pair, cannot, cannot_cover, YEARS)
    return lines


def ablation_lines(rows: list[Row], ablation: str, table: str, base: str) -> list[Line]:
    """The paper's two rows of an ablation, and by how much lengths exceed those of the base."""
    here, known = select(rows, ablation=ablation), printed()[table]
    of = {"group": OVERALL, "method": "SLCP", "variant": f"{ablation}, "}
    variants = {name: select(here, variant=name) for name in ablations()[ablation]}
    paper, words = (known["age_length"], known["age_coverage"]), f"longer than with {base}, %"
    return against_base(of, variants, base, paper, OTHER_DATA, (YEARS, words), OTHER_DATA)


def model_table(rows: list[Row]) -> list[Row]:
    """How each network was trained, and how far off it is."""
    half, table = printed_length("SLCP") / 2, []
    for network in (FIRST, SECOND, END_TO_END):
        known = select(rows, kind=MODEL, network=network)
        mae, within = (over_repeats(known, field) for field in ("mae", "within"))
        table += [
            {
                "network": network or "first training",
                "images that weights were fitted to": row["fitted_images"],
                "epochs": row["epochs"],
                "best epoch": row["best_epoch"],
                "hours of training": row["training_seconds"] / 3600.0,
                "mean absolute error on images held out, years": row["held_mae"],
                "on test images": mae and mae.value,
                f"share of test images within {half:.2f} years": within and within.value,
            }
            for row in known[:1]
        ]
    return table


def score_table(rows: list[Row]) -> list[Row]:
    """Mean interval score of each method, and how SLCP differs from it on the same images."""
    table = []
    for method in METHODS:
        mine = select(rows, method=method)
        score, infinite = (over_repeats(mine, name) for name in ("interval_score", "infinite"))
        gap = difference(rows, method, "SLCP", "interval_score")
        row = {"method": method, "interval score, years": score and score.value}
        row |= {"standard error": score and score.error, "difference": gap and gap.value}
        row |= {"95 % margin": gap and gap.margin, "share infinite": infinite and infinite.value}
        table.append(row)
    return table


def banded(rows: list[Row]) -> list[Row]:
    """Means over repeats for each group and method, with a band for the coverage of one split."""
    table = means_table(rows, ("kind", "group", "method"), ("n", "length", "coverage"), False)
    for row in table:
        n = round(row["n"])
        low, high = binomial_band(round(row["coverage"] * n), n)
        row.update({"n": n, "band from": low, "to": high})
    return table


def notes(rows: list[Row], preset: Preset) -> list[str]:
    """What a reader must know."""
    if LEFT_OUT:
        return [LEFT_OUT]
    return [
        f"{IMAGES[setting_of(preset).source]} Lengths and scores are in years.",
        "60 % of the images train: 85 % of them fit the weights, 15 % choose the epoch and "
        "are the reference images of all methods but SLCP and CQR. The rest is halved into "
        "calibration and test images, anew for each repeat; the network is the same in all of "
        "them, so that standard errors do not tell how another training would end: the second "
        "training, with other first weights and another order of the images, does.",
        "SLCP is the paper's: Algorithm 1 on the mean, a Gaussian kernel of the median bandwidth "
        "in the embedding, whose coordinates are standardised, residuals of the training images. "
        "CQR has a quantile head on the frozen trunk; trained for quantiles, it has a network of "
        "its own, by the pinball loss from the first step. LVD promises no coverage, and its "
        "infinite intervals are left out of lengths. Interval scores of CDSplit are those of the "
        "hulls of its sets.",
        "A band holds the coverage behind the test images of one split with probability 95 %.",
        *why_not_reached(rows),
    ]


def own_network(rows: list[Row]) -> str:
    """What the quantile loss does to the training: CQR's own network beside the first one."""
    own, first = (select(rows, network=name) for name in (END_TO_END, FIRST))
    errors = [over_repeats(select(one, kind=MODEL), "mae") for one in (own, first)]
    lengths = [
        over_repeats(select(one, group=OVERALL, method=method), "length")
        for one, method in ((own, "CQR"), (first, "CQR"), (first, "SLCP"))
    ]
    known = [f"{mean.value:.1f}" for mean in errors + lengths if mean is not None]
    if len(known) < len(errors + lengths):
        return (
            f"CQR with a network of its own, {END_TO_END} from the first step, has not been run: "
            "the quantile head on the frozen trunk is all that stands for it."
        )
    own_error, error, own_length, length, slcp_length = known
    return (
        f"CQR has a network of its own too, {END_TO_END} from the first step. On test images its "
        f"median has a mean absolute error of {own_error} years, and the mean of the first "
        f"training {error}; this error favours a median. Its intervals are {own_length} years "
        f"long, those of the quantile head on the frozen trunk {length}, and SLCP's {slcp_length}."
    )


#: Source of images -> a sentence.
IMAGES = {
    "faces": "UTKFace, 23,707 faces at 64 x 64 pixels; ResNet-34 trained from scratch.",
    "made": "Made images and a tiny network, to see that everything runs; no faces.",
}


def why_not_reached(rows: list[Row]) -> list[str]:
    """Why the paper's shortest intervals are no target, with our own errors beside them."""
    known = select(rows, kind=MODEL, network=FIRST)
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


#: Years that end the paper's age groups.
ENDS = (20, 60)


def age_task(case: Case, preset: Preset) -> Task:
    """What is known are the features, halved; each arm has a view and reference images."""
    features = age_features(setting_of(preset, case.get("network")))
    images = Halved(features, *halves(features.parts, case["repeat"]))
    seed, mean = seed_of("method", "age", case["repeat"]), features.mean[images.test]
    split = images.split("embedding", HELD_OUT)
    return Task(case, preset, split, images.models, seed, mean, images)


def age_arms(task: Task) -> list[Arm]:
    """Every method, and variants of SLCP; of a network of quantiles CQR alone."""
    if task.case.get("network") == END_TO_END:
        return [Arm("CQR", METHODS["CQR"])]
    return [Arm(name, method) for name, method in METHODS.items()] + [
        Arm("SLCP", method, {"ablation": ablation, "variant": name})
        for ablation, variants in ablations().items()
        for name, method in variants.items()
    ]


def age_model(task: Task) -> list[Row]:
    """How the network was trained, and how good its mean is at test images."""
    features = task.known.features
    error = np.abs(features.age[task.known.test] - task.prediction)
    within = np.mean(error <= printed_length("SLCP") / 2.0)
    fitted = np.sum(features.parts == FITTED)
    told = {"fitted_images": fitted, "mae": error.mean(), "within": within}
    return [{"kind": MODEL, **features.facts, **told}]


def age_attempt(task: Task, arm: Arm) -> list[Row]:
    """A method on all test images, in years; overall and by group where it is no variant."""
    images, method = task.known, arm.model
    split = images.split(method.view, method.reference)
    model = method.make(task.models, task.seed, task.preset)
    row, sets = try_arm(replace(task, split=split), arm._replace(model=model))
    if sets is None:
        return [row]
    row["interval_score"] = interval_score(split.test.y, sets.hulls, LEVEL)
    if arm.fields:
        return [row]
    return [{**row, "group": OVERALL}, *grouped(images, arm.method, sets)]


def grouped(images: Halved, name: str, sets: Sets) -> list[Row]:
    """Rows of the method for each group of the test images, with the kind of the group."""
    features = images.features
    by_age = {PREDICTED: age_groups(features.mean), LABEL: age_groups(features.age)}
    rows = []
    for kind, labels in {**features.groups, **by_age}.items():
        # The first is that of all images again.
        found = by_group(name, sets, labels[images.test])[1:]
        rows += [{**row, "kind": kind} for row in found if row["group"] != UNKNOWN]
    return rows


def age_groups(years: Array) -> NDArray[np.str_]:
    """The paper's groups, of ages in years.

    Examples
    --------
    >>> age_groups(np.array([1.0, 20.4, 21.0, 60.0, 61.0])).tolist()
    ['0-20', '0-20', '21-60', '21-60', '>60']
    """
    return np.asarray(AGES)[np.searchsorted(ENDS, np.round(years))]


def ablations() -> dict[str, dict[str, Method]]:
    """SLCP with fewer images, another bandwidth, residuals of new images, another embedding."""
    return {
        BATCH: {f"{share} %": with_law(law_of("gaussian", share)) for share in percents()},
        BANDWIDTH: {
            name: with_law(KernelLaw(bandwidth=DistanceQuantile(q), n_jobs=1))
            for name, q in quantiles().items()
        },
        REFERENCE: {name: with_law(KernelLaw(n_jobs=1), name) for name in (ALL_TRAINING, HELD_OUT)},
        EMBEDDING: {
            STANDARDISED: with_law(KernelLaw(n_jobs=1)),
            # A transformer's points are taken as they are.
            AS_IT_IS: with_law(KernelLaw(embedding=FunctionTransformer(), n_jobs=1)),
        },
    }


def age_cases(preset: Preset) -> list[Case]:
    """A task for each repeat, network by network; none where PyTorch is missing."""
    repeats = 0 if LEFT_OUT else min(preset.repeats, MOST_REPEATS)
    return cases_of(repeats) + [
        case for name in (SECOND, END_TO_END) for case in cases_of(repeats, network=[name])
    ]


AGE = Experiment(
    "Age from faces (Table 2)",
    age_cases,
    age_task,
    age_arms,
    report,
    age_attempt,
    age_model,
)
