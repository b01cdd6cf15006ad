"""How fast is this machine? SLCP on its engines beside the same formula in plain NumPy.

Each law is fitted inside `SLCPRegressor` on the same simulated rows. The base model is a line and
its time is left out: what is timed is the law's fit, the calibration on `N_CALIBRATION` rows, and
``predict_interval`` of rows not seen before. "NumPy" is the kernel law on the reference engine, the
oracle that every faster engine is tested against, so that its row and the kernel's answer the
same question. Compiled loops are loaded before the clock runs.
"""

from __future__ import annotations

import math
import os
import platform
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from localconformal.laws import ForestLaw, KernelLaw
from localconformal.laws.base import BaseLaw
from localconformal.quantiles import Array
from localconformal.regressors import SLCPRegressor

NUMPY = "NumPy"
SIZES = (1_000, 5_000, 25_000)
N_FEATURES = 10
N_CALIBRATION, N_QUERIES = 1_000, 10_000
#: (query, reference) pairs that plain NumPy is timed on: half a second or so.
NUMPY_PAIRS = 10_000_000
#: Predictions are timed so often, and the least time counts: the others were disturbed.
REPEATS = 3
N_WARM_UP = 4_000
#: Fewer rows have no neighbourhood to speak of, more are for benchmarks with time.
LEAST_ROWS, MOST_ROWS = 100, 1_000_000
MOST_FEATURES = 1_000

LAWS: dict[str, BaseLaw] = {
    NUMPY: KernelLaw(engine="reference", random_state=0),
    "kernel": KernelLaw(random_state=0),
    "forest": ForestLaw(random_state=0),
}


@dataclass(frozen=True)
class Timing:
    """What one law took on one number of rows.

    Attributes
    ----------
    law : str
        "NumPy", "kernel" or "forest".
    engine : str
        What the law ran on; "auto" of the kernel law chooses it.
    rows : int
        Reference rows behind the law.
    fit_seconds, calibrate_seconds : float
    nanoseconds_per_prediction : float
    times_faster : float
        A prediction of plain NumPy on as many rows, over one of this law.
    """

    law: str
    engine: str
    rows: int
    fit_seconds: float
    calibrate_seconds: float
    nanoseconds_per_prediction: float
    times_faster: float


def time_laws(
    sizes: Sequence[int] = SIZES,
    *,
    n_features: int = N_FEATURES,
    on_step: Callable[[str], None] = lambda name: None,
) -> tuple[Timing, ...]:
    """Time every law on every number of rows.

    Parameters
    ----------
    sizes : sequence of int, default=(1_000, 5_000, 25_000)
        Rows that the laws learn from.
    n_features : int, default=10
    on_step : callable
        Called with the name of each step as it begins: `count_steps` of them.

    Returns
    -------
    tuple of Timing

    Examples
    --------
    >>> timings = time_laws([100], n_features=1)
    >>> [timing.law for timing in timings]
    ['NumPy', 'kernel', 'forest']
    >>> timings[0].times_faster
    1.0
    """
    check_sizes(sizes, n_features)
    on_step("warm-up")
    for law in LAWS.values():
        time_law(law, min(N_WARM_UP, max(sizes)), 10, n_features)
    timings: list[Timing] = []
    for n in sizes:
        numpy_cost = math.nan
        for name, law in LAWS.items():
            on_step(f"{name}, {n:,} rows")
            engine, fit, calibrate, cost = time_law(law, n, count_queries(name, n), n_features)
            if name == NUMPY:
                numpy_cost = cost
            timings.append(Timing(name, engine, n, fit, calibrate, cost, numpy_cost / cost))
    return tuple(timings)


def count_steps(sizes: Sequence[int]) -> int:
    """How often `time_laws` announces a step."""
    return 1 + len(sizes) * len(LAWS)


def count_queries(law: str, n: int) -> int:
    """Predictions to time: many, but no more than small tables and plain NumPy have time for."""
    return min(N_QUERIES, 20 * n, NUMPY_PAIRS // n if law == NUMPY else N_QUERIES)


def check_sizes(sizes: Sequence[int], n_features: int) -> None:
    """Sizes that can be timed, or one sentence."""
    wrong = [n for n in sizes if not LEAST_ROWS <= n <= MOST_ROWS]
    if wrong or not sizes:
        raise ValueError(
            f"rows are {list(sizes)}; numbers from {LEAST_ROWS:,} to {MOST_ROWS:,} were expected."
        )
    if not 1 <= n_features <= MOST_FEATURES:
        raise ValueError(
            f"features are {n_features}; a number from 1 to {MOST_FEATURES:,} was expected."
        )


def time_law(
    law: BaseLaw, n: int, queries: int, n_features: int
) -> tuple[str, float, float, float]:
    """Engine, seconds to fit, seconds to calibrate, nanoseconds per prediction."""
    X, y = draw_rows(n + N_CALIBRATION, n_features, "fit")
    Q, _ = draw_rows(queries, n_features, "query")
    model = SLCPRegressor(
        LinearRegression(), law=law, calibration_size=N_CALIBRATION, random_state=0
    ).fit(X, y)
    cost = 1e9 * least_seconds(lambda: model.predict_interval(Q)) / queries
    seconds = model.fit_report_["seconds"]
    report = getattr(model.law_.laws[0], "engine_report_", None)
    engine = "leaves" if report is None else report.engine
    return engine, seconds["law"], seconds["calibrate"], cost


def least_seconds(work: Callable[[], object]) -> float:
    """The least wall time of some repeats."""
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def draw_rows(n: int, n_features: int, name: str) -> tuple[Array, Array]:
    """Gaussian features X (n, d), and y (n,) whose noise grows with |x0|; the name is the seed."""
    rng = np.random.default_rng(zlib.crc32(f"{name}-{n}-{n_features}".encode()))
    X = rng.normal(size=(n, n_features))
    return X, X[:, -1] + rng.normal(size=n) * (0.3 + np.abs(X[:, 0]))


def describe_machine() -> dict[str, Any]:
    """What the figures were measured on, as JSON can say it."""
    from importlib.metadata import version

    from localconformal import __version__

    packages = ("numpy", "scipy", "scikit-learn", "numba")
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {"localconformal": __version__} | {name: version(name) for name in packages},
    }
