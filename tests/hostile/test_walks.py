"""Random walks over the public interface find no answer that it does not promise.

A walk makes an estimator and calls it, with rows, responses and parameters of `walk_inputs`, in
any order. Each answer is a correct result or a documented error (`walk_outcomes`), no input is
changed, and no failed call leaves a state that is neither the old one nor none at all.
"""

import pickle
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
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
from sklearn.exceptions import NotFittedError
from walk_inputs import QUICK, Rows, mostly, some_params, tables
from walk_outcomes import (
    check_error,
    check_intervals,
    check_numbers,
    check_quantiles,
    check_warning,
    fingerprint,
    hearing,
    refuse,
)

from localconformal import CoverageMonitor
from localconformal.io import load_model, save_model
from registry import ESTIMATORS, light

LEVELS = mostly(
    [None, 0.9, 0.3, 1e-13, [0.5], [0.2, 0.6, 0.95]],
    [0, 1.0, -1, 2, np.nan, "high", [], [0.5, None], [[0.5]], 1j],
)
#: Whether rows are of the kind and width of those at fit.
SAME = mostly([True], [False], times=4)
#: Rows of the table that was fitted, to ask a state what it says.
PROBE_ROWS = 3


def fitted_with(*methods):
    """A rule for fitted estimators that have these methods."""
    return precondition(
        lambda self: self.fitted is not None and all(hasattr(self.model, one) for one in methods)
    )


class PublicInterface(RuleBasedStateMachine):
    """One estimator, what it answered last, and what watches it."""

    model = monitor = None
    #: The rows of the last fit that went well.
    fitted = None

    # ---- calls ---------------------------------------------------------------------------------

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
            check_warning(said)
        refuse([fingerprint(given) for given in inputs] != before, f"{name} changed its input")
        return answer, error, [str(said.message) for said in heard]

    def answers(self):
        """Point predictions and intervals of rows like those at fit, or what each says instead."""
        like = Rows("float64", 0, 2, "plain", 0) if self.fitted is None else self.fitted
        found = []
        for ask in (self.model.predict, self.model.predict_interval):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found.append(ask(replace(like, n=PROBE_ROWS).make()).tobytes())
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
        return answer, any("infinite" in text for text in said)

    def like_fitted(self, rows, same=True):
        """These rows, in kind and width as at fit where they should be the same."""
        return replace(rows, kind=self.fitted.kind, d=self.fitted.d) if same else rows

    # ---- states --------------------------------------------------------------------------------

    @initialize(
        made=st.sampled_from(ESTIMATORS).flatmap(
            lambda kind: st.tuples(st.just(kind), some_params(kind))
        ),
        table=tables(good=True),
    )
    def construct(self, made, table):
        kind, params = made
        quick = {name: value for name, value in QUICK.items() if name in kind().get_params()}
        self.model = light(kind, **quick | params)
        self.fit_table(*table)

    @rule(data=st.data(), unknown=mostly([False], [True]))
    def set_params(self, data, unknown):
        """Other parameters, which a later call may refuse."""
        params = data.draw(some_params(type(self.model)))
        before = self.model.get_params(deep=False)
        wrong = {"no_such_parameter": 1} if unknown else {}
        _, error, _ = self.call("set_params", lambda: self.model.set_params(**wrong, **params))
        refuse(unknown and error is None, "an unknown parameter was taken")
        if not unknown:
            now = self.model.get_params(deep=False)
            kept = all(now[name] is value for name, value in (before | params).items())
            refuse(not kept, "set_params did not set the parameters, or others too")
        made = self.fitted is None and isinstance(self.answers()[0], bytes)
        refuse(made, "set_params made an estimator fitted")

    @rule(table=tables())
    def fit(self, table):
        self.fit_table(*table)

    def fit_table(self, rows, target):
        """What fails leaves the old state, or none."""
        X, y = rows.make(), target.make()
        before, params = self.answers(), joblib.hash(self.model.get_params())
        answer, error, _ = self.call("fit", lambda: self.model.fit(X, y), X, y)
        refuse(joblib.hash(self.model.get_params()) != params, "fit changed a parameter")
        if error is None:
            refuse(answer is not self.model, "fit did not return the estimator")
            self.fitted = rows
        elif self.answers() != before:
            none = self.answers() == ("unfitted", "unfitted")
            refuse(not none, "a failed fit left a state that is neither old nor none", error)
            self.fitted = None

    @fitted_with()
    @rule(table=tables(), same=SAME)
    def conformalize(self, table, same):
        """Other calibration rows; what fails leaves the old ones in force."""
        X, y = self.like_fitted(table[0], same).make(), table[1].make()
        before = self.answers()
        _, error, _ = self.call("conformalize", lambda: self.model.conformalize(X, y), X, y)
        changed = error is not None and self.answers() != before
        refuse(changed, "a failed conformalize changed what the estimator answers", error)

    @rule(way=st.sampled_from(["pickle", "file", "clone", "start anew"]))
    def copy(self, way):
        """A pickle and a file answer alike and take over; a clone has no state."""
        before = self.answers()
        if way == "file":
            copy = self.through_a_file()
        else:
            copies = {"pickle": lambda: pickle.loads(pickle.dumps(self.model))}
            anew = lambda: clone(self.model, safe=False)  # noqa: E731
            copy, error, _ = self.call(way, copies.get(way, anew))
            refuse(error is not None, f"{way} failed: {error!r}", error)
        if way in ("pickle", "file"):
            self.model, self.monitor = copy, None
            refuse(self.answers() != before, f"a copy by {way} answers otherwise")
        elif way == "start anew":
            self.model, self.fitted = copy, None
            refuse(isinstance(self.answers()[0], bytes), "a clone is fitted")

    def through_a_file(self):
        """The estimator read from its file, or itself where it cannot be one."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skops"
            _, error, _ = self.call("save_model", lambda: save_model(self.model, path))
            if error is not None:
                refuse(path.exists(), "a model that cannot be saved left a file", error)
                return self.model
            copy, error, _ = self.call("load_model", lambda: load_model(path))
        refuse(error is not None, f"a saved model cannot be loaded: {error!r}", error)
        return copy

    # ---- answers -------------------------------------------------------------------------------

    @fitted_with()
    @rule(table=tables(), same=SAME)
    def predict(self, table, same):
        rows = self.like_fitted(table[0], same)
        answer, _ = self.reading("predict", rows.make())
        if answer is not None:
            check_numbers(answer, (rows.n,))

    @fitted_with()
    @rule(table=tables(), level=LEVELS, same=SAME)
    def predict_interval(self, table, level, same):
        rows = self.like_fitted(table[0], same)
        answer, warned = self.reading("predict_interval", rows.make(), confidence_level=level)
        if answer is not None:
            several = (len(level),) if isinstance(level, list) else ()
            check_intervals(answer, (rows.n, 2, *several), warned)

    @fitted_with()
    @rule(table=tables())
    def diagnose(self, table):
        rows = self.like_fitted(table[0])
        answer, _ = self.reading("diagnose", rows.make())
        if answer is not None:
            refuse(len(answer) != rows.n, f"diagnose has {len(answer)} rows for {rows.n}")
            refuse(np.isnan(np.asarray(answer, dtype=float)).any(), "NaN in diagnose")

    @fitted_with("predict_quantiles")
    @rule(table=tables(), levels=LEVELS, same=SAME)
    def predict_quantiles(self, table, levels, same):
        rows = self.like_fitted(table[0], same)
        answer, warned = self.reading("predict_quantiles", rows.make(), levels=levels)
        if answer is not None:
            several = (len(levels),) if isinstance(levels, list) else ()
            check_quantiles(answer, (rows.n, *several), warned)

    @fitted_with("predict_cdf", "crps")
    @rule(table=tables(), same=SAME)
    def predict_cdf_and_crps(self, table, same):
        """Probabilities of any responses, and their score."""
        rows, y = self.like_fitted(table[0], same), table[1].make()
        answer, _ = self.reading("predict_cdf", rows.make(), y)
        if answer is not None:
            # One number stands for all rows, and a column of them for a table of one column.
            check_numbers(answer, (rows.n, *np.shape(y)[1:]))
            refuse(np.any((answer < 0) | (answer > 1)), "a probability outside [0, 1]")
        answer, _ = self.reading("crps", rows.make(), y)
        refuse(answer is not None and not answer >= 0, f"the CRPS is {answer!r}")

    @fitted_with("sample")
    @rule(
        table=tables(),
        n_samples=mostly([1, 3, np.int64(2)], [0, -1, 1.5, "few", None]),
        random_state=mostly([0, None], [-1, "seed"]),
    )
    def sample(self, table, n_samples, random_state):
        """Draws at any rows, all of them finite."""
        rows, asked = self.like_fitted(table[0]), {"random_state": random_state}
        answer, _ = self.reading("sample", rows.make(), n_samples=n_samples, **asked)
        if answer is not None:
            check_numbers(answer, (rows.n, n_samples))
            refuse(not np.isfinite(answer).all(), "an infinite draw")

    @fitted_with("predict_region")
    @rule(table=tables(), level=LEVELS, same=SAME)
    def predict_region(self, table, level, same):
        """Regions whose hull is the interval, infinite only with a word of it."""
        rows = self.like_fitted(table[0], same)
        region, warned = self.reading("predict_region", rows.make(), confidence_level=level)
        if region is not None:
            check_numbers(region.length, (rows.n,))
            silent = np.isinf(region.length).any() and not warned
            refuse(silent, "an infinite region without a warning")
            hull, _ = self.reading("predict_interval", rows.make(), confidence_level=level)
            refuse(not np.array_equal(region.hull, hull), "the hull is not the interval")

    # ---- monitors ------------------------------------------------------------------------------

    @fitted_with()
    @rule(
        false_alarm=mostly([0.01, 0.5], [0.0, 1.0, "never", None]),
        anew=st.booleans(),
        table=tables(),
        same=SAME,
    )
    def watch(self, false_alarm, anew, table, same):
        """All rows or none are taken in; the coverage stays within its band."""
        if anew or self.monitor is None:
            make = lambda: CoverageMonitor(self.model, false_alarm=false_alarm)  # noqa: E731
            self.monitor, _, _ = self.call("CoverageMonitor", make)
        if self.monitor is None:
            return
        rows, y = self.like_fitted(table[0], same), table[1].make()
        X, before = rows.make(), self.seen_by_monitor()
        _, error, _ = self.call("update", lambda: self.monitor.update(X, y), X, y)
        after = self.seen_by_monitor()
        refuse(error is not None and after != before, "a failed update left something", error)
        if error is None:
            found = self.monitor.coverage_
            refuse(after[1] != before[1] + rows.n, f"of {rows.n} rows not all were counted")
            inside = 0.0 <= found.lower <= found.coverage <= found.upper <= 1.0
            refuse(not inside, f"the band and the coverage are {found}")
            refuse(not self.monitor.log_martingale_ > -np.inf, "the evidence is no number")

    def seen_by_monitor(self):
        found = self.monitor.coverage_
        return found.n_covered, found.n, self.monitor.log_martingale_, self.monitor.alarm_


@pytest.mark.parametrize(
    "walks",
    [25, pytest.param(100, marks=pytest.mark.ci), pytest.param(900, marks=pytest.mark.nightly)],
)
def test_random_walks(walks):
    chosen = settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=walks,
        stateful_step_count=12,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(PublicInterface, settings=chosen)
