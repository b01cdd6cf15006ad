"""Random walks over the public interface find no answer that it does not promise.

A walk makes an estimator and calls it, with tables and parameters of `walk_inputs`, in any order.
Each answer is a correct result, or an error and warnings of a list; no input is changed, and no
failed call leaves a state that is neither the old one nor none at all.
"""

import linecache
import pickle
import re
import sys
import tempfile
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone
from sklearn.exceptions import (
    ConvergenceWarning,
    DataConversionWarning,
    NotFittedError,
    UndefinedMetricWarning,
)
from walk_inputs import QUICK, Table, mostly, some_params, tables

import localconformal
from localconformal.io import load_model, save_model
from registry import ESTIMATORS, light

#: Whose refusals pass for ours: they validate rows, or are the base model that the user chose.
BASE_MODELS = ("sklearn", "walk_inputs.py")
#: joblib raises again what threads of ours met, without the lines that led there.
ALLOWED_AUTHORS = ("localconformal", "joblib", *BASE_MODELS)
ALLOWED_WARNINGS = [
    (UserWarning, "(intervals|quantiles) are infinite"),
    (UserWarning, "calibration rows are identical to training rows"),
    (UserWarning, "Some inputs do not have OOB scores"),
    (UserWarning, "X does not have valid feature names|X has feature names, but"),
    (DataConversionWarning, "A column-vector y was passed"),
    (ConvergenceWarning, ""),
    (UndefinedMetricWarning, ""),
]
PACKAGE = str(Path(localconformal.__file__).parent)
#: What calls, or passes a warning on, and is nobody's author.
PASSERS_ON = {__file__, warnings.__file__}


def refuse(wrong, said, error=None):
    """Say that this is a defect, where it is wrong."""
    if wrong:
        raise AssertionError(said) from error


# ---- errors and warnings ---------------------------------------------------------------------


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


def check_error(error):
    """One that a user may meet, raised on purpose; ours in one sentence."""
    documented = isinstance(error, (ValueError, TypeError, NotFittedError))
    refuse(not documented, f"not documented: {error!r}", error)
    author, line = origin(traceback.walk_tb(error.__traceback__))
    refuse(author not in ALLOWED_AUTHORS, f"an error of {author}: {error!r} at {line}", error)
    if author == "localconformal":
        refuse(not line.startswith("raise"), f"not raised on purpose: {error!r} at {line}", error)
        refuse(not re.fullmatch(".{1,1000}", str(error)), f"not one sentence: {error!r}", error)


@contextmanager
def hearing():
    """Every warning that is given meanwhile: (message, who gave it, our last line)."""
    heard = []

    def listen(message, *details):
        frames = list(reversed(list(traceback.walk_stack(sys._getframe(1)))))
        files = [frame.f_code.co_filename for frame, _ in frames]
        # A thread that the library started has no walker below it, but the library.
        begins = [k for k, file in enumerate(files) if file == __file__]
        begins += [k for k, file in enumerate(files) if file.startswith(PACKAGE)]
        heard.append((message, *origin(frames[begins[0] :] if begins else [])))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = listen
        yield heard


def check_warning(message, author, line):
    """One of the list, or a base model's own: about its numbers, or about what it will change."""
    its_own = isinstance(message, (RuntimeWarning, DeprecationWarning, FutureWarning))
    known = any(
        isinstance(message, kind) and re.search(text, str(message))
        for kind, text in ALLOWED_WARNINGS
    )
    refuse(
        not known and not (its_own and author in BASE_MODELS), f"{message!r} of {author}: {line}"
    )


# ---- results and inputs ----------------------------------------------------------------------


def check_numbers(values, shape, warned=True):
    """float64 of this shape without NaN, infinite only with a word of it."""
    floats = isinstance(values, np.ndarray) and values.dtype == np.float64
    refuse(not floats, f"expected float64; got {type(values).__name__}: {values!r}")
    refuse(values.shape != shape, f"expected the shape {shape}; got {values.shape}")
    refuse(np.isnan(values).any(), "NaN without a word")
    refuse(np.isinf(values).any() and not warned, "infinite without a warning")


def check_intervals(values, shape, warned):
    """lower <= upper, nested where there are several levels."""
    check_numbers(values, shape, warned)
    lower, upper = values[:, 0], values[:, 1]
    refuse(np.any(lower > upper), "a lower bound lies above its upper one")
    refuse(np.any(lower == np.inf) or np.any(upper == -np.inf), "an interval lies at infinity")
    if values.ndim == 3:
        grow = np.all(lower[:, 1:] <= lower[:, :-1]) and np.all(upper[:, 1:] >= upper[:, :-1])
        refuse(not grow, "intervals of rising levels are not nested")


def fingerprint(values):
    """What must not change in an input; pandas may rearrange how a frame holds it."""
    of_frame = isinstance(values, pd.DataFrame)
    return pickle.dumps((str(values.dtypes), values.to_csv()) if of_frame else values)


# ---- the walk --------------------------------------------------------------------------------

LEVELS = mostly(
    [None, 0.9, 0.3, 1e-13, [0.5], [0.2, 0.6, 0.95]],
    [0, 1.0, -1, 2, np.nan, "high", [], [0.5, None], [[0.5]], 1j],
)
#: Whether rows are of the kind and width of those at fit.
SAME = mostly([True], [False], times=4)


def of_levels(level):
    return (len(level),) if isinstance(level, list) else ()


def fitted_with(*methods):
    """A rule for fitted estimators that have these methods."""
    return precondition(
        lambda self: self.fitted is not None and all(hasattr(self.model, one) for one in methods)
    )


class PublicInterface(RuleBasedStateMachine):
    """One estimator, and the table of the last fit that went well."""

    model = fitted = None

    def call(self, name, ask, *inputs):
        """(answer, None, warnings) or (None, error, warnings) of one call, found in order."""
        before = [fingerprint(given) for given in inputs]
        answer = error = None
        with hearing() as heard:
            try:
                answer = ask()
            except Exception as raised:
                check_error(raised)
                error = raised
        for said in heard:
            check_warning(*said)
        refuse([fingerprint(given) for given in inputs] != before, f"{name} changed its input")
        return answer, error, " ".join(str(message) for message, *_ in heard)

    def answers(self):
        """Point predictions and intervals of rows like those at fit, or what each says instead."""
        probe, found = replace(self.fitted or Table(), n=3), []
        for ask in (self.model.predict, self.model.predict_interval):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found.append(ask(probe.X()).tobytes())
                except NotFittedError:
                    found.append("unfitted")
                except (ValueError, TypeError) as error:
                    found.append(str(error))
        return tuple(found)

    def reading(self, method, *inputs, **params):
        """The answer of a call that may change nothing, and whether it warned of infinity."""
        before = self.answers()
        ask = getattr(self.model, method)
        answer, _, said = self.call(method, lambda: ask(*inputs, **params), *inputs)
        refuse(self.answers() != before, f"{method} changed what the estimator answers")
        return answer, "infinite" in said

    def like_fitted(self, table, same=True):
        """The table, in kind and width as at fit where it should be the same."""
        return replace(table, kind=self.fitted.kind, d=self.fitted.d) if same else table

    # ---- states --------------------------------------------------------------------------------

    @initialize(data=st.data(), kind=st.sampled_from(ESTIMATORS), table=tables(good=True))
    def construct(self, data, kind, table):
        quick = {name: value for name, value in QUICK.items() if name in kind().get_params()}
        self.model = light(kind, **quick | data.draw(some_params(kind)))
        self.fit(table)

    @rule(data=st.data())
    def set_params(self, data):
        """Other parameters, which a later call may refuse."""
        self.model.set_params(**data.draw(some_params(type(self.model))))
        made = self.fitted is None and isinstance(self.answers()[0], bytes)
        refuse(made, "set_params made an estimator fitted")

    @rule(table=tables())
    def fit_again(self, table):
        self.fit(table)

    def fit(self, table):
        """What fails leaves the old state, or none."""
        X, y = table.X(), table.y()
        before, params = self.answers(), joblib.hash(self.model.get_params())
        answer, error, _ = self.call("fit", lambda: self.model.fit(X, y), X, y)
        refuse(joblib.hash(self.model.get_params()) != params, "fit changed a parameter")
        if error is None:
            refuse(answer is not self.model, "fit did not return the estimator")
            self.fitted = table
        elif self.answers() != before:
            none = self.answers() == ("unfitted", "unfitted")
            refuse(not none, "a failed fit left a state that is neither old nor none", error)
            self.fitted = None

    @fitted_with()
    @rule(table=tables(), same=SAME)
    def conformalize(self, table, same):
        """Other calibration rows; what fails leaves the old ones in force."""
        X, y, before = self.like_fitted(table, same).X(), table.y(), self.answers()
        _, error, _ = self.call("conformalize", lambda: self.model.conformalize(X, y), X, y)
        changed = error is not None and self.answers() != before
        refuse(changed, "a failed conformalize changed what the estimator answers", error)

    @rule(way=st.sampled_from(["pickle", "file", "clone"]))
    def copy(self, way):
        """A pickle and a file answer alike and take over; a clone has no state."""
        before, state = self.answers(), self.fitted
        if way == "file":
            self.model = self.through_a_file()
        else:
            pickled = lambda: pickle.loads(pickle.dumps(self.model))  # noqa: E731
            anew = lambda: clone(self.model, safe=False)  # noqa: E731
            self.model, error, _ = self.call(way, pickled if way == "pickle" else anew)
            refuse(error is not None, f"{way} failed: {error!r}", error)
        self.fitted = None if way == "clone" else state
        if way == "clone":
            refuse(isinstance(self.answers()[0], bytes), "a clone is fitted")
        else:
            refuse(self.answers() != before, f"a copy by {way} answers otherwise")

    def through_a_file(self):
        """The estimator read from its file, or itself where it cannot be one."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skops"
            _, error, _ = self.call("save_model", lambda: save_model(self.model, path))
            if error is not None:
                return self.model
            copy, error, _ = self.call("load_model", lambda: load_model(path))
        refuse(error is not None, f"a saved model cannot be loaded: {error!r}", error)
        return copy

    # ---- answers -------------------------------------------------------------------------------

    @fitted_with()
    @rule(table=tables(), level=LEVELS, same=SAME)
    def predict(self, table, level, same):
        """Points, and intervals that are infinite only with a word of it."""
        X = self.like_fitted(table, same).X()
        answer, _ = self.reading("predict", X)
        if answer is not None:
            check_numbers(answer, (table.n,))
        answer, warned = self.reading("predict_interval", X, confidence_level=level)
        if answer is not None:
            check_intervals(answer, (table.n, 2, *of_levels(level)), warned)

    @fitted_with()
    @rule(table=tables())
    def diagnose(self, table):
        answer, _ = self.reading("diagnose", self.like_fitted(table).X())
        if answer is not None:
            refuse(len(answer) != table.n, f"diagnose has {len(answer)} rows for {table.n}")
            refuse(np.isnan(np.asarray(answer, dtype=float)).any(), "NaN in diagnose")

    @fitted_with("predict_quantiles")
    @rule(table=tables(), levels=LEVELS, same=SAME)
    def predict_quantiles(self, table, levels, same):
        """Quantiles of rising levels do not fall."""
        X = self.like_fitted(table, same).X()
        answer, warned = self.reading("predict_quantiles", X, levels=levels)
        if answer is not None:
            check_numbers(answer, (table.n, *of_levels(levels)), warned)
            refuse(answer.ndim == 2 and np.any(np.diff(answer) < 0), "quantiles cross")

    @fitted_with("predict_cdf", "crps")
    @rule(table=tables(), same=SAME)
    def predict_cdf_and_crps(self, table, same):
        """Probabilities of any responses, and their score."""
        X, y = self.like_fitted(table, same).X(), table.y()
        answer, _ = self.reading("predict_cdf", X, y)
        if answer is not None:
            # One number stands for all rows, and a column of them for a table of one column.
            check_numbers(answer, (table.n, *np.shape(y)[1:]))
            refuse(np.any((answer < 0) | (answer > 1)), "a probability outside [0, 1]")
        answer, _ = self.reading("crps", X, y)
        refuse(answer is not None and not answer >= 0, f"the CRPS is {answer!r}")

    @fitted_with("sample")
    @rule(
        table=tables(),
        n_samples=mostly([1, 3, np.int64(2)], [0, -1, 1.5, "few", None]),
        seed=mostly([0, None], [-1, "seed"]),
    )
    def sample(self, table, n_samples, seed):
        """Draws at any rows, all of them finite."""
        X = self.like_fitted(table).X()
        answer, _ = self.reading("sample", X, n_samples=n_samples, random_state=seed)
        if answer is not None:
            check_numbers(answer, (table.n, n_samples), warned=False)

    @fitted_with("predict_region")
    @rule(table=tables(), level=LEVELS, same=SAME)
    def predict_region(self, table, level, same):
        """Regions whose hull is the interval."""
        X = self.like_fitted(table, same).X()
        region, warned = self.reading("predict_region", X, confidence_level=level)
        if region is not None:
            check_numbers(region.length, (table.n,), warned)
            hull, _ = self.reading("predict_interval", X, confidence_level=level)
            refuse(not np.array_equal(region.hull, hull), "the hull is not the interval")


@pytest.mark.parametrize(
    "walks",
    [20, pytest.param(100, marks=pytest.mark.ci), pytest.param(900, marks=pytest.mark.nightly)],
)
def test_random_walks(walks):
    chosen = {"max_examples": walks, "stateful_step_count": 12, "deadline": None}
    always = {"derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(PublicInterface, settings=settings(**chosen, **always))
