"""What the public interface may answer: a correct result, or an error and warnings of a list."""

import linecache
import re
import sys
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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
BASE_MODELS = ("sklearn", "walk_inputs.py")
#: joblib raises again what threads of ours met, without the lines that led there.
ALLOWED_AUTHORS = ("localconformal", "joblib", *BASE_MODELS)
ALLOWED_WARNINGS = [
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
PACKAGE = str(Path(localconformal.__file__).parent)
#: What calls, or passes a warning on, and is nobody's author.
WALKERS = {str(Path(__file__).with_name(name)) for name in ("test_walks.py", "walk_outcomes.py")}
PASSERS_ON = {*WALKERS, warnings.__file__}


class Defect(AssertionError):
    """An answer that the interface does not promise."""


def refuse(wrong, said, error=None):
    """Say that this is a defect, where it is wrong."""
    if wrong:
        raise Defect(said) from error


# ---- errors and warnings ---------------------------------------------------------------------


def check_error(error):
    """One of the list, raised on purpose; ours in one sentence."""
    kind, text = type(error).__name__, str(error)
    refuse(not isinstance(error, ALLOWED_ERRORS), f"{kind} is not documented: {text}", error)
    author, line = origin(traceback.walk_tb(error.__traceback__))
    refuse(author not in ALLOWED_AUTHORS, f"an error of {author}: {error!r} at {line}", error)
    if author == "localconformal":
        refuse(not line.startswith("raise"), f"not raised on purpose: {error!r} at {line}", error)
        sentence = text and "\n" not in text and len(text) <= 1_000
        refuse(not sentence, f"an error is not one sentence: {error!r}", error)


def origin(frames):
    """Who spoke: whoever our last line called, or that line itself; and our last line."""
    author, line = "the caller", ""
    for frame, number in frames:
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE):
            author, line = "localconformal", linecache.getline(path, number).strip()
        elif author in ("localconformal", "the caller") and path not in PASSERS_ON:
            package = re.search(r"(?:site|dist)-packages/(\w+)", path)
            author = package[1] if package else Path(path).name
    return author, line


class Said(NamedTuple):
    """A warning, and who gave it."""

    message: Warning
    author: str
    line: str


@contextmanager
def hearing():
    """Every warning that is given meanwhile."""
    heard = []

    def listen(message, *details):
        frames = list(reversed(list(traceback.walk_stack(sys._getframe(1)))))
        files = [frame.f_code.co_filename for frame, _ in frames]
        # A thread that the library started has no walker below it, but the library.
        begins = [k for k, file in enumerate(files) if file in WALKERS]
        begins += [k for k, file in enumerate(files) if file.startswith(PACKAGE)]
        heard.append(Said(message, *origin(frames[begins[0] :] if begins else [])))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = listen
        yield heard


def check_warning(said):
    """One of the list, or a base model's own: about its numbers, or about what it will change."""
    its_own = isinstance(said.message, (RuntimeWarning, DeprecationWarning, FutureWarning))
    known = any(
        isinstance(said.message, category) and text in str(said.message)
        for category, text in ALLOWED_WARNINGS
    )
    passes = known or (its_own and said.author in BASE_MODELS)
    refuse(not passes, f"{said.message!r} of {said.author} at {said.line}")


# ---- results and inputs ----------------------------------------------------------------------


def check_numbers(values, shape):
    """float64 of this shape without NaN."""
    floats = isinstance(values, np.ndarray) and values.dtype == np.float64
    refuse(not floats, f"expected float64; got {type(values).__name__}: {values!r}")
    refuse(values.shape != shape, f"expected the shape {shape}; got {values.shape}")
    refuse(np.isnan(values).any(), "NaN without a word")


def check_quantiles(values, shape, warned):
    """Quantiles of rising levels do not fall; infinite only with a word of it."""
    check_numbers(values, shape)
    refuse(values.ndim == 2 and np.any(np.diff(values) < 0), "quantiles of rising levels cross")
    refuse(np.isinf(values).any() and not warned, "infinite quantiles without a warning")


def check_intervals(values, shape, warned):
    """lower <= upper, nested where there are several levels; infinite only with a word of it."""
    check_numbers(values, shape)
    lower, upper = values[:, 0], values[:, 1]
    refuse(np.any(lower > upper), "a lower bound lies above its upper one")
    refuse(np.any(lower == np.inf) or np.any(upper == -np.inf), "an interval lies at infinity")
    if values.ndim == 3:
        grow = np.all(lower[:, 1:] <= lower[:, :-1]) and np.all(upper[:, 1:] >= upper[:, :-1])
        refuse(not grow, "intervals of rising levels are not nested")
    refuse(np.isinf(values).any() and not warned, "infinite bounds without a warning")


#: What must not change in an input: its bytes, types and names.
FINGERPRINTS = [
    (np.ndarray, lambda a: (repr(a.tolist()), a.tobytes(), a.dtype, a.shape, a.flags.writeable)),
    (pd.DataFrame, lambda f: (repr(f.values.tolist()), list(f.columns), list(f.dtypes), *f.index)),
    (pd.Series, lambda s: (repr(s.tolist()), s.dtype, list(s.index))),
    (pl.DataFrame, lambda f: (repr(f.rows()), f.schema)),
    (pl.Series, lambda s: (repr(s.to_list()), s.dtype)),
    (sparse.spmatrix, lambda m: (m.data.tobytes(), m.indices.tobytes(), m.shape)),
    (object, repr),
]


def fingerprint(values):
    return next(look(values) for kind, look in FINGERPRINTS if isinstance(values, kind))
