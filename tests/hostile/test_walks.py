"""Random walks over the public interface find no answer that it does not promise.

Each answer is a correct result, or an error and warnings of a list; no input is changed, and a
failed call leaves the old state or none.
"""

import linecache
import pickle
import re
import tempfile
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings, stateful
from hypothesis import strategies as st
from sklearn import exceptions
from sklearn.base import clone
from walk_inputs import QUICK, Table, mostly, some_params, tables

import localconformal
from localconformal.io import load_model, save_model
from registry import ESTIMATORS, light

#: Whose refusals pass for ours: they validate rows, or are the base model that the user chose.
#: joblib raises again what threads of ours met, without the lines that led there.
AUTHORS = ("/sklearn/", "/joblib/", "walk_inputs.py")
ALLOWED_WARNINGS = [
    (UserWarning, "(intervals|quantiles) are infinite"),
    (UserWarning, "calibration rows are identical to training rows"),
    (UserWarning, "Some inputs do not have OOB scores"),
    (UserWarning, "X does not have valid feature names|X has feature names, but"),
    (exceptions.DataConversionWarning, "A column-vector y was passed"),
    (exceptions.ConvergenceWarning, ""),
    (exceptions.UndefinedMetricWarning, ""),
]
PACKAGE = str(Path(localconformal.__file__).parent)


def check_error(error):
    """One that a user may meet, raised on purpose by our last line, or by whom that called."""
    assert isinstance(error, (ValueError, TypeError, exceptions.NotFittedError)), repr(error)
    author, line = "", ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE):
            author, line = "", linecache.getline(path, number).strip()
        elif line and not author:
            author = path
    if author:
        assert any(known in author for known in AUTHORS), f"{error!r} of {author} at {line}"
    elif line:
        assert line.startswith("raise"), f"not raised on purpose: {error!r} at {line}"
        assert re.fullmatch(".{1,1000}", str(error)), f"not one sentence: {error!r}"


def check_warning(warning):
    """One of the list, or a base model's own: about its numbers, or about what it will change."""
    said, others = warning.message, not warning.filename.startswith(PACKAGE)
    its_own = isinstance(said, (RuntimeWarning, DeprecationWarning, FutureWarning)) and others
    known = any(isinstance(said, kind) and re.search(t, str(said)) for kind, t in ALLOWED_WARNINGS)
    assert known or its_own, f"{said!r} at {warning.filename}:{warning.lineno}"


def check_numbers(values, shape, warned=True):
    """float64 of this shape without NaN, infinite only with a word of it."""
    assert isinstance(values, np.ndarray)
    assert (values.dtype, values.shape) == (np.float64, shape)
    assert not np.isnan(values).any(), "NaN without a word"
    assert warned or not np.isinf(values).any(), "infinite without a warning"


def check_intervals(values, shape, warned):
    """lower <= upper, nested where there are several levels."""
    check_numbers(values, shape, warned)
    lower, upper = values[:, 0], values[:, 1]
    assert np.all(lower <= upper), "a lower bound lies above its upper one"
    assert np.all(lower < np.inf), "an interval lies at infinity"
    assert np.all(upper > -np.inf), "an interval lies at infinity"
    if values.ndim == 3:
        assert np.all(lower[:, 1:] <= lower[:, :-1]), "not nested"
        assert np.all(upper[:, 1:] >= upper[:, :-1]), "not nested"


def fingerprint(values):
    """What must not change in an input; pandas may rearrange how a frame holds it."""
    of_frame = isinstance(values, pd.DataFrame)
    return pickle.dumps((str(values.dtypes), values.to_csv()) if of_frame else values)


LEVELS = mostly(
    [None, 0.9, 0.3, 1e-13, [0.5], [0.2, 0.6, 0.95]],
    [0, 1.0, -1, 2, np.nan, "high", [], [0.5, None], [[0.5]], 1j],
)
#: Whether rows are of the kind and width of those at fit.
SAME = mostly([True], [False], times=4)


def of_levels(level):
    return (len(level),) if isinstance(level, list) else ()


def fitted_with(method="predict"):
    return stateful.precondition(
        lambda self: self.fitted is not None and hasattr(self.model, method)
    )


class PublicInterface(stateful.RuleBasedStateMachine):
    """One estimator, and the table of the last fit that went well."""

    model = fitted = None

    def call(self, name, ask, *inputs):
        """(answer, None, warnings) or (None, error, warnings) of one call, found in order."""
        before, answer, error = [fingerprint(given) for given in inputs], None, None
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                answer = ask()
            except Exception as raised:
                check_error(raised)
                error = raised
        for warning in heard:
            check_warning(warning)
        assert [fingerprint(given) for given in inputs] == before, f"{name} changed its input"
        return answer, error, " ".join(str(warning.message) for warning in heard)

    def answers(self):
        """Point predictions and intervals of rows like those at fit, or what each says instead."""
        probe, found = replace(self.fitted or Table(), n=3), []
        for ask in (self.model.predict, self.model.predict_interval):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found.append(ask(probe.X()).tobytes())
                except exceptions.NotFittedError:
                    found.append("unfitted")
                except (ValueError, TypeError) as error:
                    found.append(str(error))
        return tuple(found)

    def reading(self, method, *inputs, **params):
        """The answer of a call that may change nothing, and whether it warned of infinity."""
        before, ask = self.answers(), getattr(self.model, method)
        answer, _, said = self.call(method, lambda: ask(*inputs, **params), *inputs)
        assert self.answers() == before, f"{method} changed what the estimator answers"
        return answer, "infinite" in said

    def like_fitted(self, table, same=True):
        return replace(table, kind=self.fitted.kind, d=self.fitted.d) if same else table

    @stateful.initialize(data=st.data(), kind=st.sampled_from(ESTIMATORS), table=tables(good=True))
    def construct(self, data, kind, table):
        quick = {name: value for name, value in QUICK.items() if name in kind().get_params()}
        self.model = light(kind, **quick | data.draw(some_params(kind)))
        self.fit(table)

    @stateful.rule(data=st.data())
    def set_params(self, data):
        self.model.set_params(**data.draw(some_params(type(self.model))))
        assert self.fitted is not None or not isinstance(self.answers()[0], bytes)

    @stateful.rule(table=tables())
    def fit_again(self, table):
        self.fit(table)

    def fit(self, table):
        """What fails leaves the old state, or none."""
        X, y = table.X(), table.y()
        before, params = self.answers(), joblib.hash(self.model.get_params())
        answer, error, _ = self.call("fit", lambda: self.model.fit(X, y), X, y)
        assert joblib.hash(self.model.get_params()) == params, "fit changed a parameter"
        if error is None:
            assert answer is self.model
            self.fitted = table
        elif self.answers() != before:
            assert self.answers() == ("unfitted", "unfitted"), f"neither old nor none: {error!r}"
            self.fitted = None

    @fitted_with()
    @stateful.rule(table=tables(), same=SAME)
    def conformalize(self, table, same):
        """Other calibration rows; what fails leaves the old ones in force."""
        X, y, before = self.like_fitted(table, same).X(), table.y(), self.answers()
        _, error, _ = self.call("conformalize", lambda: self.model.conformalize(X, y), X, y)
        assert error is None or self.answers() == before, f"changed although it failed: {error!r}"

    @stateful.rule(way=st.sampled_from(["pickle", "file", "clone"]))
    def copy(self, way):
        """A pickle and a file answer alike and take over; a clone has no state."""
        before = self.answers()
        if way == "clone":
            self.model, self.fitted = clone(self.model, safe=False), None
            assert not isinstance(self.answers()[0], bytes), "a clone is fitted"
            return
        pickled = way == "pickle"
        self.model = pickle.loads(pickle.dumps(self.model)) if pickled else self.through_a_file()
        assert self.answers() == before, f"a copy by {way} answers otherwise"

    def through_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skops"
            _, error, _ = self.call("save_model", lambda: save_model(self.model, path))
            return self.model if error is not None else load_model(path)

    @fitted_with()
    @stateful.rule(table=tables(), level=LEVELS, same=SAME)
    def predict(self, table, level, same):
        """Points, intervals that are infinite only with a word of it, and numbers about them."""
        X = self.like_fitted(table, same).X()
        answer, _ = self.reading("predict", X)
        if answer is not None:
            check_numbers(answer, (table.n,))
        answer, warned = self.reading("predict_interval", X, confidence_level=level)
        if answer is not None:
            check_intervals(answer, (table.n, 2, *of_levels(level)), warned)
        answer, _ = self.reading("diagnose", X)
        if answer is not None:
            assert len(answer) == table.n
            assert not np.isnan(np.asarray(answer, dtype=float)).any()

    @fitted_with("predict_cdf")
    @stateful.rule(
        table=tables(),
        levels=LEVELS,
        same=SAME,
        n_samples=mostly([1, 3, np.int64(2)], [0, -1, 1.5, "few", None]),
        seed=mostly([0, None], [-1, "seed"]),
    )
    def predict_distribution(self, table, levels, same, n_samples, seed):
        """Quantiles that do not fall, probabilities and their score, draws that are finite."""
        X, y = self.like_fitted(table, same).X(), table.y()
        answer, warned = self.reading("predict_quantiles", X, levels=levels)
        if answer is not None:
            check_numbers(answer, (table.n, *of_levels(levels)), warned)
            assert answer.ndim == 1 or np.all(np.diff(answer) >= 0), "quantiles cross"
        answer, _ = self.reading("predict_cdf", X, y)
        if answer is not None:
            check_numbers(answer, (table.n, *np.shape(y)[1:]))
            assert np.all((answer >= 0) & (answer <= 1))
        answer, _ = self.reading("crps", X, y)
        assert answer is None or answer >= 0
        answer, _ = self.reading("sample", X, n_samples=n_samples, random_state=seed)
        if answer is not None:
            check_numbers(answer, (table.n, n_samples), warned=False)

    @fitted_with("predict_region")
    @stateful.rule(table=tables(), level=LEVELS, same=SAME)
    def predict_region(self, table, level, same):
        X = self.like_fitted(table, same).X()
        region, warned = self.reading("predict_region", X, confidence_level=level)
        if region is not None:
            check_numbers(region.length, (table.n,), warned)
            hull, _ = self.reading("predict_interval", X, confidence_level=level)
            np.testing.assert_array_equal(region.hull, hull)


@pytest.mark.parametrize(
    "walks",
    [5, pytest.param(100, marks=pytest.mark.ci), pytest.param(900, marks=pytest.mark.nightly)],
)
def test_random_walks(walks):
    chosen = {"max_examples": walks, "stateful_step_count": 12, "deadline": None}
    always = {"derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}
    stateful.run_state_machine_as_test(PublicInterface, settings=settings(**chosen, **always))
