"""Random walks over the public interface: what every estimator keeps, whatever it is fed.

A walk makes an estimator and calls it, with rows, responses and parameters of `fuzz_inputs`, in
any order. Each answer is a correct result or a documented error (`fuzz_outcomes`), no input is
changed, and no failed call leaves a state that is neither the old one nor none at all.
"""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import joblib
import numpy as np
from fuzz_inputs import Rows, Target, mostly, quick_params, some_params, tables
from fuzz_outcomes import (
    check_error,
    check_intervals,
    check_numbers,
    check_warning,
    fingerprint,
    hearing,
    refuse,
    within_deadline,
)
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from registry import ESTIMATORS

LEVELS = mostly(
    [None, 0.9, 0.3, 1e-13, [0.5], [0.2, 0.6, 0.95]],
    [0, 1.0, -1, 2, np.nan, "high", [], [0.5, None], [[0.5]], 1j],
)
#: Rows of the table that was fitted, to ask a state what it says.
PROBE_ROWS = 3
COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "clone": lambda model: clone(model, safe=False),
    "start anew": lambda model: clone(model, safe=False),
}


class PublicInterface(RuleBasedStateMachine):
    """One estimator, and what it answered last."""

    #: Steps by what came of them, over all walks.
    tally: ClassVar[Counter[str]] = Counter()

    model: Any
    #: The rows of the last fit that went well.
    fitted: Rows | None = None

    # ---- calls ---------------------------------------------------------------------------------

    def call(self, name: str, ask: Callable[[], Any], *inputs: Any) -> tuple[Any, Any, list[str]]:
        """(answer, None, warnings) or (None, error, warnings) of one call, found in order."""
        before = [fingerprint(given) for given in inputs]
        answer = error = None
        with hearing() as heard, within_deadline():
            try:
                answer = ask()
            except Exception as raised:
                check_error(raised)
                error = raised
        for said in heard:
            check_warning(said)
        if [fingerprint(given) for given in inputs] != before:
            refuse(f"{name} changed its input")
        self.tally[f"{name}: {type(error).__name__ if error else 'result'}"] += 1
        return answer, error, [str(said.message) for said in heard]

    def answers(self) -> Any:
        """What the state says of rows like those it was fitted to; "unfitted" if that."""
        if self.fitted is None:
            return self.ask_state(Rows("float64", PROBE_ROWS, 2, "plain", 0))
        return self.ask_state(replace(self.fitted, n=PROBE_ROWS))

    def ask_state(self, rows: Rows) -> Any:
        """Point predictions and intervals, or what each says instead."""
        found = []
        for ask in (self.model.predict, self.model.predict_interval):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found.append(ask(rows.make()).tobytes())
                except NotFittedError:
                    found.append("unfitted")
                except (ValueError, TypeError) as error:
                    found.append(str(error))
        return tuple(found)

    def reading(self, name: str, ask: Callable[[], Any], *inputs: Any) -> tuple[Any, bool]:
        """The answer of a call that may change nothing, and whether it warned of infinity."""
        before = self.answers()
        answer, _, said = self.call(name, ask, *inputs)
        if self.answers() != before:
            refuse(f"{name} changed what the estimator answers")
        return answer, any("infinite" in text for text in said)

    def rows_like(self, rows: Rows, same: bool) -> Rows:
        """These rows, in kind and width as at fit where they should be the same."""
        return replace(rows, kind=self.fitted.kind, d=self.fitted.d) if same else rows

    # ---- rules ---------------------------------------------------------------------------------

    @initialize(
        made=st.sampled_from(ESTIMATORS).flatmap(
            lambda kind: st.tuples(st.just(kind), some_params(kind))
        ),
        table=tables(good=True),
    )
    def construct(self, made: Any, table: Any) -> None:
        """An estimator of any kind, given a first table."""
        kind, params = made
        self.model = kind(**{**quick_params(kind), **params})
        self.tally["walks"] += 1
        self.tally[f"walk: {kind.__name__}"] += 1
        self.fit_table(*table)

    @rule(data=st.data(), unknown=mostly([False], [True]))
    def set_params(self, data: Any, unknown: bool) -> None:
        """Other parameters, which a later call may refuse."""
        params = data.draw(some_params(type(self.model)))
        before = self.model.get_params(deep=False)
        wrong = {"no_such_parameter": 1} if unknown else {}
        _, error, _ = self.call("set_params", lambda: self.model.set_params(**wrong, **params))
        if unknown and error is None:
            refuse("an unknown parameter was taken")
        if not unknown:
            now = self.model.get_params(deep=False)
            if any(now[name] is not value for name, value in (before | params).items()):
                refuse("set_params did not set the parameters, or others too")
        if self.fitted is None and isinstance(self.answers()[0], bytes):
            refuse("set_params made an estimator fitted")

    @rule(table=tables())
    def fit(self, table: Any) -> None:
        """Any table; what fails leaves the old state, or none."""
        self.fit_table(*table)

    def fit_table(self, rows: Rows, target: Target) -> None:
        """Fit, and look at what is left."""
        X, y = rows.make(), target.make()
        before, params = self.answers(), joblib.hash(self.model.get_params())
        answer, error, _ = self.call("fit", lambda: self.model.fit(X, y), X, y)
        if joblib.hash(self.model.get_params()) != params:
            refuse("fit changed a parameter")
        if error is None:
            if answer is not self.model:
                refuse("fit did not return the estimator")
            self.fitted = rows
        elif self.answers() != before:
            if self.answers() != ("unfitted", "unfitted"):
                refuse("a failed fit left a state that is neither the old one nor none", error)
            self.fitted = None

    @precondition(lambda self: self.fitted is not None)
    @rule(table=tables(), same=mostly([True], [False], times=4))
    def conformalize(self, table: Any, same: bool) -> None:
        """Other calibration rows; what fails leaves the old ones in force."""
        rows, target = table
        rows = self.rows_like(rows, same)
        X, y = rows.make(), target.make()
        before = self.answers()
        _, error, _ = self.call("conformalize", lambda: self.model.conformalize(X, y), X, y)
        if error is not None and self.answers() != before:
            refuse("a failed conformalize changed what the estimator answers", error)

    @precondition(lambda self: self.fitted is not None)
    @rule(table=tables(), same=mostly([True], [False], times=4))
    def predict(self, table: Any, same: bool) -> None:
        """Point predictions of any rows."""
        X = (rows := self.rows_like(table[0], same)).make()
        answer, _ = self.reading("predict", lambda: self.model.predict(X), X)
        if answer is not None:
            check_numbers(answer, (rows.n,))

    @precondition(lambda self: self.fitted is not None)
    @rule(table=tables(), level=LEVELS, same=mostly([True], [False], times=4))
    def predict_interval(self, table: Any, level: Any, same: bool) -> None:
        """Intervals of any rows, at any levels."""
        X = (rows := self.rows_like(table[0], same)).make()
        answer, warned = self.reading(
            "predict_interval", lambda: self.model.predict_interval(X, level), X
        )
        if answer is not None:
            several = (len(level),) if isinstance(level, list) else ()
            check_intervals(answer, (rows.n, 2, *several), warned)

    @precondition(lambda self: self.fitted is not None)
    @rule(table=tables())
    def diagnose(self, table: Any) -> None:
        """A frame of the kind of X, without gaps."""
        X = (rows := self.rows_like(table[0], True)).make()
        answer, _ = self.reading("diagnose", lambda: self.model.diagnose(X), X)
        if answer is not None:
            if len(answer) != rows.n:
                refuse(f"diagnose has {len(answer)} rows for {rows.n}")
            if np.isnan(np.asarray(answer, dtype=float)).any():
                refuse("NaN in diagnose")

    @rule(way=st.sampled_from(["pickle", "pickle", "clone", "start anew"]))
    def copy(self, way: str) -> None:
        """A pickled estimator answers alike and takes over; a clone has no state."""
        before = self.answers()
        copy, error, _ = self.call(way, lambda: COPIES[way](self.model))
        if error is not None:
            refuse(f"{way} failed: {error!r}", error)
        if way == "pickle":
            self.model = copy
            if self.answers() != before:
                refuse("a pickled estimator answers otherwise")
        if way == "start anew":
            self.model, self.fitted = copy, None
            if any(isinstance(answer, bytes) for answer in self.answers()):
                refuse("a clone is fitted")
