"""What the public interface may answer: a correct result, or an error and warnings of a list."""

from __future__ import annotations

import linecache
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse
from sklearn.exceptions import (
    ConvergenceWarning,
    DataConversionWarning,
    NotFittedError,
    UndefinedMetricWarning,
)

import localconformal

#: The errors that a user may meet; NotFittedError is one of the former two in scikit-learn.
ALLOWED_ERRORS = (ValueError, TypeError, NotFittedError)
#: Whose refusals pass for ours: they validate rows, or are the base model that the user chose.
BASE_MODELS = ("sklearn", "fuzz_inputs.py")
#: joblib raises again what threads of ours met, without the lines that led there.
ALLOWED_AUTHORS = ("localconformal", "joblib", *BASE_MODELS)
#: The warnings that a user may meet.
ALLOWED_WARNINGS: list[tuple[type[Warning], str]] = [
    (UserWarning, "intervals are infinite"),
    (UserWarning, "quantiles are infinite"),
    (UserWarning, "calibration rows are identical to training rows"),
    (DataConversionWarning, "A column-vector y was passed"),
    (ConvergenceWarning, ""),
    (UndefinedMetricWarning, ""),
    (UserWarning, "Some inputs do not have OOB scores"),
    (UserWarning, "X does not have valid feature names"),
    (UserWarning, "X has feature names, but"),
]
#: Seconds of computing that a step may take, and seconds of any kind: waiting on a busy machine
#: is no hang.
DEADLINES = [
    (signal.ITIMER_PROF, signal.SIGPROF, 20.0),
    (signal.ITIMER_REAL, signal.SIGALRM, 300.0),
]
PACKAGE = str(Path(localconformal.__file__).parent)
#: What calls, or passes a warning on, and is nobody's author.
WALKER_FILES = ("fuzzing.py", "fuzz_everything.py", "fuzz_outcomes.py")
WALKERS = {str(Path(__file__).with_name(name)) for name in WALKER_FILES}
PASSERS_ON = {*WALKERS, warnings.__file__}


class Defect(AssertionError):
    """An answer that the interface does not promise."""


class Hang(BaseException):
    """A step that does not end; no ``except Exception`` on the way catches it."""


def refuse(said: str, error: BaseException | None = None) -> None:
    """Say that this is a defect."""
    raise Defect(said) from error


@contextmanager
def within_deadline() -> Iterator[None]:
    """`Hang` after too long, where signals can be had: in the main thread of Unix."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGPROF"):
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise Hang(f"{signal.Signals(number).name}: a step did not end within {DEADLINES}")

    before = {number: signal.signal(number, ring) for _, number, _ in DEADLINES}
    for timer, _, seconds in DEADLINES:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer, number, _ in DEADLINES:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


# ---- errors and warnings ---------------------------------------------------------------------


def check_error(error: Exception) -> None:
    """One of the list, raised on purpose; ours in one sentence."""
    if not isinstance(error, ALLOWED_ERRORS):
        refuse(f"{type(error).__name__} is no documented error: {error}", error)
    author, line = origin(traceback.walk_tb(error.__traceback__))
    if author not in ALLOWED_AUTHORS:
        refuse(f"an error of {author} came through: {error!r} at {line}", error)
    if author != "localconformal":
        return
    if not line.startswith("raise"):
        refuse(f"an error that nobody raised on purpose: {error!r} at {line}", error)
    text = str(error)
    if not text or "\n" in text or len(text) > 1_000:
        refuse(f"an error is not one sentence: {error!r}", error)


def origin(frames: Iterable[tuple[Any, int]]) -> tuple[str, str]:
    """Who spoke: whoever our last line called, or that line itself; and our last line."""
    author, line = "the caller", ""
    for frame, number in frames:
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE):
            author, line = "localconformal", linecache.getline(path, number).strip()
        elif author in ("localconformal", "the caller") and path not in PASSERS_ON:
            author = package_of(path)
    return author, line


def package_of(path: str) -> str:
    """The installed package that a file belongs to, or the file's name."""
    found = re.search(r"(?:site|dist)-packages/(\w+)", path)
    return found[1] if found else Path(path).name


@dataclass(frozen=True)
class Said:
    """A warning, and who gave it."""

    message: Warning
    author: str
    line: str


@contextmanager
def hearing() -> Iterator[list[Said]]:
    """Every warning that is given meanwhile."""
    heard: list[Said] = []

    def listen(message: Any, *details: Any) -> None:
        frames = list(reversed(list(traceback.walk_stack(sys._getframe(1)))))
        files = [frame.f_code.co_filename for frame, _ in frames]
        # A thread that the library started has no walker below it, but the library.
        begin = next((k for k, file in enumerate(files) if file in WALKERS), None)
        if begin is None:
            begin = next(
                (k for k, file in enumerate(files) if file.startswith(PACKAGE)), len(files)
            )
        heard.append(Said(message, *origin(frames[begin:])))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = listen
        yield heard


def check_warning(said: Said) -> None:
    """One of the list, or a base model's own: about its numbers, or about what it will change."""
    its_own = (RuntimeWarning, DeprecationWarning, FutureWarning)
    if isinstance(said.message, its_own) and said.author in BASE_MODELS:
        return
    for category, text in ALLOWED_WARNINGS:
        if isinstance(said.message, category) and text in str(said.message):
            return
    refuse(f"{said.message!r} of {said.author} at {said.line}")


# ---- results ---------------------------------------------------------------------------------


def check_numbers(values: Any, shape: tuple[int, ...]) -> None:
    """float64 of this shape without NaN."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:
        refuse(f"float64 was expected and {type(values).__name__} came: {values!r}")
    if values.shape != shape:
        refuse(f"the shape {shape} was expected and {values.shape} came")
    if np.isnan(values).any():
        refuse("NaN came without a word")


def check_intervals(values: Any, shape: tuple[int, ...], warned: bool) -> None:
    """lower <= upper, nested where there are several levels; infinite only with a word of it."""
    check_numbers(values, shape)
    if np.any(values[:, 0] > values[:, 1]):
        refuse("a lower bound lies above its upper one")
    if np.any(values[:, 0] == np.inf) or np.any(values[:, 1] == -np.inf):
        refuse("an interval lies at infinity")
    several = values if values.ndim == 3 else values[:, :, None]
    lower, upper = several[:, 0], several[:, 1]
    if np.any(lower[:, 1:] > lower[:, :-1]) or np.any(upper[:, 1:] < upper[:, :-1]):
        refuse("intervals of rising levels are not nested")
    if np.isinf(values).any() and not warned:
        refuse("infinite bounds came without a warning")


def check_quantiles(values: Any, shape: tuple[int, ...], warned: bool) -> None:
    """Quantiles of rising levels do not fall; infinite only with a word of it."""
    check_numbers(values, shape)
    if values.ndim == 2 and np.any(values[:, 1:] < values[:, :-1]):
        refuse("quantiles of rising levels cross")
    if np.isinf(values).any() and not warned:
        refuse("infinite quantiles came without a warning")


# ---- inputs ----------------------------------------------------------------------------------


def fingerprint(values: Any) -> Any:
    """What must not change in an input: its bytes, types and names."""
    for kind, look in FINGERPRINTS:
        if isinstance(values, kind):
            return look(values)
    return repr(values)


FINGERPRINTS: list[tuple[Any, Callable[[Any], Any]]] = [
    (np.ndarray, lambda a: (repr(a.tolist()), a.tobytes(), a.dtype, a.shape, a.flags.writeable)),
    (pd.DataFrame, lambda f: (repr(f.values.tolist()), list(f.columns), list(f.dtypes), *f.index)),
    (pd.Series, lambda s: (repr(s.tolist()), s.dtype, list(s.index))),
    (pl.DataFrame, lambda f: (repr(f.rows()), f.schema)),
    (pl.Series, lambda s: (repr(s.to_list()), s.dtype)),
    (sparse.spmatrix, lambda m: (m.data.tobytes(), m.indices.tobytes(), m.shape)),
]
