"""Experiments: seeds from names, splits, a resumable store, and a runner."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import subprocess
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from localconformal.metrics.intervals import _correlation, tied_lengths
from localconformal.quantiles import Array
from localconformal.versions import PACKAGES, versions


def seed_of(*names: str | int | float) -> int:
    """A seed below 2^31 that these names, in this order, always have.

    Examples
    --------
    >>> seed_of("bike", 0) == seed_of("bike", 0), seed_of("bike", 0) == seed_of("bike", 1)
    (True, False)
    """
    text = "/".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 2**31


@dataclass(frozen=True)
class Preset:
    """Sizes that experiments share; each takes the fields that mean something to it."""

    name: str
    #: Random splits, or draws of a simulation.
    repeats: int
    #: The same with networks, whose training takes most of the time.
    network_repeats: int
    #: Rows of a real data set that are used, drawn anew for each repeat; None is all of them.
    max_rows: int | None
    #: Real data sets that are used, where an experiment has many; None is all of them.
    datasets: tuple[str, ...] | None
    #: Rows of a simulation to train on; as many calibrate where an experiment has no other rule.
    simulated_rows: int
    #: Fresh rows of a simulation to test on.
    test_rows: int
    #: Most epochs of a network.
    epochs: int
    #: Too small for verdicts: it checks that everything runs.
    only_runs: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every row is used, and hence every data set and model."""
        return self.max_rows is None

    @property
    def is_broad(self) -> bool:
        """Whether no setting of an ablation is left out."""
        return self.datasets is None

    def keep(self, datasets: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the data sets that this preset uses."""
        return tuple(name for name in datasets if self.datasets is None or name in self.datasets)


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("smoke", 2, 2, 300, ("concrete", "yacht"), 200, 300, 5, only_runs=True),
        Preset("standard", 20, 10, 8_000, None, 1_000, 5_000, 100),
        Preset("full", 20, 20, None, None, 2_000, 5_000, 1_000),
    )
}


#: What one task is about: names and numbers, which JSON can hold.
Case = dict[str, Any]
#: What a task found, a row for each method or the like: names and numbers.
Row = dict[str, Any]

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
#: Of a direction: the whole interval is so near to 0 that it does not matter.
EQUAL = "no difference"
#: More repeats might decide; something else than chance differs; the paper prints no number.
UNDECIDED, CANNOT, OURS = "undecided", "cannot be compared", "not in the paper"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, EQUAL, UNDECIDED, CANNOT, OURS)


@dataclass(frozen=True)
class Line:
    """One number of the paper beside ours.

    ``of`` says what it is (for instance model, method, quantity); ``error`` is the standard error
    of ours; ``reason`` is why the verdict is so, in one line.
    """

    of: dict[str, str]
    paper: float | None
    ours: float | None
    error: float | None
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class Output:
    """What an experiment says: lines beside the paper's, tables of its own, figures, notes."""

    lines: list[Line]
    #: Title -> rows; numbers that the paper does not print.
    tables: dict[str, list[Row]] = field(default_factory=dict)
    #: File name -> function that draws it into the path it is given.
    figures: dict[str, Callable[[Path], None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Rows:
    """X (n, d), y (n,), and the group of each row (n,) as text."""

    X: Array
    y: Array
    groups: NDArray[np.str_]


@dataclass(frozen=True)
class Split:
    """Three disjoint parts; ``unit`` is what responses were divided by."""

    train: Rows
    calibration: Rows
    test: Rows
    unit: float = 1.0


@dataclass(frozen=True)
class Task:
    """What all arms of a case share: rows, base models, a seed, and predictions at test rows.

    ``prediction`` are the shared mean model's: the error that lengths should follow is the same
    for all methods. ``known`` is what else an experiment knows, such as the simulation.
    """

    case: Case
    preset: Preset
    split: Split
    models: Any
    seed: int
    prediction: Array
    known: Any = None


class Arm(NamedTuple):
    """A method to try, unfitted, and fields that its rows carry."""

    method: str
    model: Any
    fields: Row = MappingProxyType({})  # type: ignore[assignment]


@dataclass(frozen=True)
class Experiment:
    """A table or figure, as a value: which splits, which arms on each, and what is said of them."""

    title: str
    #: The splits, each a dict of names and numbers. They run in any order, in any process.
    cases: Callable[[Preset], list[Case]]
    #: A function of its arguments alone: seeds come from `seed_of`.
    task: Callable[[Case, Preset], Task]
    arms: Callable[[Task], list[Arm]]
    #: From the rows of all finished cases, which carry the fields of their case; a method that
    #: failed has ``failed`` and no figures.
    report: Callable[[list[Row], Preset], Output]
    #: Rows of an arm: one, of the arm fitted, calibrated and measured.
    attempt: Callable[[Task, Arm], list[Row]] = lambda task, arm: [try_arm(task, arm)[0]]
    #: Rows of no arm.
    beside: Callable[[Task], list[Row]] = lambda task: []
    #: Raised when a change makes stored rows wrong: those of other versions are set aside.
    version: int = 1

    def run(self, case: Case, preset: Preset) -> list[Row]:
        """Rows of one case."""
        task = self.task(case, preset)
        rows = self.beside(task)
        for arm in self.arms(task):
            rows += [{**row, **arm.fields} for row in self.attempt(task, arm)]
        return rows


def try_arm(task: Task, arm: Arm) -> tuple[Row, Sets | None]:
    """`try_method` of an arm on the rows of its task."""
    return try_method(arm.method, arm.model, task.split, task.prediction)


def cases_of(repeats: int, **places: Iterable[Any]) -> list[Case]:
    """Every combination of the places, the repeat changing last.

    A run that is stopped early then leaves whole tables of fewer repeats.

    Examples
    --------
    >>> cases_of(2, dataset=["bike"])
    [{'dataset': 'bike', 'repeat': 0}, {'dataset': 'bike', 'repeat': 1}]
    """
    return [
        {**dict(zip(places, chosen, strict=True)), "repeat": repeat}
        for repeat, *chosen in product(range(repeats), *places.values())
    ]


FORMAT = "localconformal-experiment"
#: Raised whenever the lines mean something else.
FORMAT_VERSION = 1


def encode(record: dict[str, Any]) -> bytes:
    """A line: checksum, blank, JSON.

    Examples
    --------
    >>> decode(encode({"a": 1})[:-1])
    {'a': 1}
    >>> decode(b"00000000 {}") is None
    True
    """
    text = json.dumps(record, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode(line: bytes) -> dict[str, Any] | None:
    """The content of a line without its end; None where the checksum does not hold."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    found = json.loads(text)
    return found if isinstance(found, dict) else None


def read_store(path: Path, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The whole records of a store that is about this; none of a file that is not there.

    A store of another experiment, version, preset or format is refused: its records mean
    something else.
    """
    if not path.exists():
        return []
    first, *lines = path.read_bytes().split(b"\n")
    # As it reads when it comes back from JSON: lists, no tuples.
    wanted = json.loads(json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, **about}))
    head = decode(first) or {}
    if {name: head.get(name) for name in wanted} != wanted:
        raise ValueError(
            f"{path} is a store of another version or preset, or no store; move it away, or choose "
            "another folder."
        )
    # Records of earlier versions do not say where they were made: where the store was begun.
    begun = {name: head.get("made", {}).get(name, "") for name in ("cpu", "commit")}
    return [{"made": begun, **record} for record in map(decode, lines) if record is not None]


class Store:
    """Finished tasks on disk, a line each behind a header: what is there is done.

    A line is on the disk before its task counts as done. A run that is killed while it writes
    leaves a line without its end, which is cut off; that task, and those of lines whose checksums
    do not hold, run again. ``about`` is what the records depend on: the experiment, its version
    and the preset.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        if not whole:
            head = {"format": FORMAT, "format_version": FORMAT_VERSION, **about}
            self._write({**head, "made": {"commit": commit(), **describe_machine()}})
        self.records = read_store(path, about)

    def _write(self, record: dict[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(encode(record))
            file.flush()
            os.fsync(file.fileno())

    def append(self, record: dict[str, Any]) -> None:
        """Add one record, and return when it is on the disk."""
        self._write(record)
        self.records.append(record)


def describe_machine() -> dict[str, Any]:
    """What figures are measured on: machine, versions, threads, load."""
    peers = ["mapie", "crepes", "conditionalconformal", "quantile-forest", "catboost", "lightgbm"]
    peers += ["torch", "skorch"]
    known = versions([*PACKAGES, *peers])
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": known.pop("python"),
        "packages": known,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "load_average": list(os.getloadavg()),
    }


@lru_cache
def processor() -> str:
    """The processor by its name."""
    cpu_info = Path("/proc/cpuinfo")
    lines = cpu_info.read_text().splitlines() if cpu_info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


@lru_cache
def commit() -> str:
    """The commit of this tree, or an empty text outside of a clone."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


#: Seconds between two looks at whether the run that a worker belongs to still lives.
LOOK_EVERY = 1.0


class Progress:
    """Told how a run goes on; the methods of this one do nothing."""

    def start(self, experiment: str, waiting: int, total: int) -> None:
        """So many of all tasks have no record yet."""

    def done(self, case: Case, error: str | None) -> None:
        """A task is in the store; or it, or some of its methods, failed."""

    def say(self, sentence: str) -> None:
        """Something that the user should know."""


def run_experiment(
    name: str,
    experiment: Experiment,
    preset: Preset,
    folder: Path,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Output:
    """Run what is missing of an experiment and report.

    The store is ``<name>.jsonl`` in the folder; a run that was killed goes on from it. Tasks run
    ``n_jobs`` at a time in joblib's backend: ``joblib.parallel_config("dask")`` around the call
    runs them on a cluster.
    """
    told = progress or Progress()
    store = Store(folder / f"{name}.jsonl", about(name, experiment, preset))
    cases = experiment.cases(preset)
    known = finished(store.records)
    waiting = [case for case in cases if key(case) not in known]
    told.start(name, len(waiting), len(cases))
    for record in execute(experiment, waiting, preset, n_jobs):
        # A task that failed runs again next time: the cause may have been fixed.
        if record["error"] is None:
            store.append(record)
        problem = record["error"] or failed_methods(record["rows"])
        if problem is not None:
            told.say(f"{name} {' '.join(map(str, record['case'].values()))} failed: {problem}")
        told.done(record["case"], problem)
    return report(experiment, cases, store.records, preset)


#: Fields of a preset on which no record depends: more repeats extend a store.
HOW_MANY = ("repeats", "network_repeats")


def about(name: str, experiment: Experiment, preset: Preset) -> dict[str, Any]:
    """What the records of a store depend on."""
    sizes = {field: value for field, value in asdict(preset).items() if field not in HOW_MANY}
    return {"experiment": name, "version": experiment.version, "preset": sizes}


def failed_methods(rows: list[Row]) -> str | None:
    """Which methods of a finished task failed, and why; None where none did.

    Examples
    --------
    >>> failed_methods([{"method": "LVD", "failed": "ValueError: few rows"}, {"method": "SLCP"}])
    'LVD: ValueError: few rows'
    """
    return "; ".join(f"{row['method']}: {row['failed']}" for row in rows if "failed" in row) or None


def report(
    experiment: Experiment, cases: list[Case], records: list[dict[str, Any]], preset: Preset
) -> Output:
    """The output of the finished tasks among these cases, in the order of the cases."""
    known = finished(records)
    rows = [
        {**case, **row} for case in cases if key(case) in known for row in known[key(case)]["rows"]
    ]
    output = experiment.report(rows, preset)
    repeats = repeats_done(cases, known)
    missing = len(cases) - sum(repeats.values())
    fewest, most = min(repeats.values(), default=0), max(repeats.values(), default=0)
    notes = [
        f"{missing} of {len(cases)} tasks did not finish, and are left out: there are {fewest} to "
        f"{most} repeats of each case."
    ]
    lines = [withheld(line) for line in output.lines] if preset.only_runs else output.lines
    return replace(output, lines=lines, notes=[*output.notes, *(notes if missing else [])])


def repeats_done(cases: list[Case], known: dict[str, Any]) -> dict[str, int]:
    """For each case without its repeat, how many repeats of it are finished."""
    repeats: dict[str, int] = {}
    for case in cases:
        place = key({name: value for name, value in case.items() if name != "repeat"})
        repeats[place] = repeats.get(place, 0) + (key(case) in known)
    return repeats


def withheld(line: Line) -> Line:
    """The line without a verdict: a run this small has none to give."""
    if line.verdict in (CANNOT, OURS):
        return line
    return replace(line, verdict=CANNOT, reason="this preset only checks that all runs")


def key(case: Case) -> str:
    """The case as text: equal cases have equal keys."""
    return json.dumps(case, sort_keys=True)


def finished(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Key of a case -> its newest record."""
    return {key(record["case"]): record for record in records}


def execute(
    experiment: Experiment, cases: Iterable[Case], preset: Preset, n_jobs: int
) -> Iterator[dict[str, Any]]:
    """Records of the cases, in the order in which they end."""
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
    yield from pool(delayed(perform)(experiment, case, preset, os.getpid()) for case in cases)


def perform(experiment: Experiment, case: Case, preset: Preset, caller: int) -> dict[str, Any]:
    """One task. Whatever happens becomes a record, which says where: stores outlive machines."""
    follow(caller)
    start = time.perf_counter()
    rows: list[Row] = []
    error = None
    try:
        # A task keeps to its process: what it does in parallel must not go back to a cluster.
        with warnings.catch_warnings(), parallel_config("threading"):
            warnings.simplefilter("ignore")
            rows = [plain(row) for row in experiment.run(case, preset)]
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    seconds, made = time.perf_counter() - start, {"cpu": processor(), "commit": commit()}
    return {"case": case, "rows": rows, "seconds": seconds, "error": error, "made": made}


def plain(value: Any) -> Any:
    """A row, or what is in it, as JSON has it: no NumPy types, None for NaN and infinities."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


_followed: set[int] = set()


def follow(caller: int, leave: Callable[[int], Any] = os._exit) -> None:
    """End this process when the one that started it for the run is gone.

    A run that is killed cannot stop its workers, which would go on and then wait.
    """
    if os.getppid() != caller or caller in _followed:
        return
    _followed.add(caller)

    def watch() -> None:
        while os.getppid() == caller:
            time.sleep(LOOK_EVERY)
        leave(1)

    threading.Thread(target=watch, daemon=True).start()


def normalise(train: Rows, calibration: Rows, test: Rows) -> Split:
    """Features to mean 0 and variance 1, responses to mean absolute value 1, on training rows."""
    centre, spread = train.X.mean(axis=0), train.X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    unit = float(np.abs(train.y).mean()) or 1.0

    def scaled(rows: Rows) -> Rows:
        return Rows((rows.X - centre) / spread, rows.y / unit, rows.groups)

    return Split(scaled(train), scaled(calibration), scaled(test), unit)


LEVEL = 0.9


@dataclass(frozen=True)
class Sets:
    """Prediction sets at test rows: lengths (n,), which rows they cover (n,), hulls (n, 2)."""

    lengths: Array
    covered: NDArray[np.bool_]
    hulls: Array


def timed(work: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What it gives; its wall and processor seconds, the latter of all threads."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, (time.perf_counter() - wall, time.process_time() - processor)


def predict_sets(model: Any, rows: Rows) -> Sets:
    """Regions where the method has them, else intervals."""
    if hasattr(model, "predict_region"):
        region = model.predict_region(rows.X)
        return Sets(region.length, region.contains(rows.y), region.hull)
    bounds = model.predict_interval(rows.X)
    covered = (bounds[:, 0] <= rows.y) & (rows.y <= bounds[:, 1])
    return Sets(tied_lengths(bounds), covered, bounds)


def calibrated(model: Any, split: Split) -> Any:
    """The method trained and calibrated."""
    model.fit(split.train.X, split.train.y)
    return model.conformalize(split.calibration.X, split.calibration.y)


def measure(sets: Sets, y: Array, prediction: Array) -> Row:
    """Length, coverage and two correlations of the length: with coverage, and with the error.

    ``length`` is the mean of the finite ones; ``infinite`` is the share of the others.
    """
    finite = np.isfinite(sets.lengths)
    return {
        "length": sets.lengths[finite].mean() if finite.any() else None,
        "infinite": 1.0 - finite.mean(),
        "coverage": sets.covered.mean(),
        "length_coverage_corr": _correlation(sets.lengths, sets.covered.astype(np.float64)),
        "length_error_corr": _correlation(sets.lengths, np.abs(y - prediction)),
    }


def try_method(name: str, model: Any, split: Split, prediction: Array) -> tuple[Row, Sets | None]:
    """The row of a method on a split, and its sets; a method that fails says why.

    ``prediction`` are the shared mean model's at test rows: the error that lengths should follow
    is the same for all methods.
    """
    start = time.perf_counter()
    try:
        sets = predict_sets(calibrated(model, split), split.test)
    except Exception as problem:
        return {"method": name, "failed": f"{type(problem).__name__}: {problem}"}, None
    row = {"method": name, **measure(sets, split.test.y, prediction)}
    row |= {"n_train": len(split.train.y), "n_calibration": len(split.calibration.y)}
    return {**row, "n_test": len(split.test.y), "seconds": time.perf_counter() - start}, sets
