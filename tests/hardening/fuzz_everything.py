"""Random walks over all that an estimator answers: also distributions, regions, files, monitors."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_inputs import Rows, Target, mostly, tables
from fuzz_outcomes import check_numbers, check_quantiles, refuse
from fuzzing import LEVELS, PublicInterface
from hypothesis.stateful import precondition, rule

from localconformal import CoverageMonitor
from localconformal.io.models import load_model, save_model

SAME = mostly([True], [False], times=4)


def answers_with(method: str) -> Any:
    """A rule for fitted estimators that have this method."""
    return precondition(lambda self: self.fitted is not None and hasattr(self.model, method))


class EveryMethod(PublicInterface):
    """One estimator, what it answered last, and what watches it."""

    monitor: CoverageMonitor | None = None

    # ---- distributions -------------------------------------------------------------------------

    @answers_with("predict_quantiles")
    @rule(table=tables(), levels=LEVELS, same=SAME)
    def predict_quantiles(self, table: Any, levels: Any, same: bool) -> None:
        """Quantiles of any rows, at any levels."""
        X = (rows := self.rows_like(table[0], same)).make()
        answer, warned = self.reading(
            "predict_quantiles", lambda: self.model.predict_quantiles(X, levels), X
        )
        if answer is not None:
            several = (len(levels),) if isinstance(levels, list) else ()
            check_quantiles(answer, (rows.n, *several), warned)

    @answers_with("predict_cdf")
    @rule(table=tables(), same=SAME)
    def predict_cdf(self, table: Any, same: bool) -> None:
        """Probabilities of any responses."""
        rows, target = table
        X, y = (rows := self.rows_like(rows, same)).make(), target.make()
        answer, _ = self.reading("predict_cdf", lambda: self.model.predict_cdf(X, y), X, y)
        if answer is not None:
            # One number stands for all rows, and a column of them for a table of one column.
            check_numbers(answer, (rows.n, *np.shape(y)[1:]))
            if np.any(answer < 0) or np.any(answer > 1):
                refuse("a probability outside [0, 1]")

    @answers_with("sample")
    @rule(
        table=tables(),
        n_samples=mostly([1, 3, np.int64(2)], [0, -1, 1.5, "few", None]),
        random_state=mostly([0, None], [-1, "seed"]),
    )
    def sample(self, table: Any, n_samples: Any, random_state: Any) -> None:
        """Draws at any rows, all of them finite."""
        X = (rows := self.rows_like(table[0], True)).make()
        answer, _ = self.reading(
            "sample", lambda: self.model.sample(X, n_samples, random_state=random_state), X
        )
        if answer is not None:
            check_numbers(answer, (rows.n, n_samples))
            if not np.isfinite(answer).all():
                refuse("an infinite draw")

    @answers_with("crps")
    @rule(table=tables())
    def crps(self, table: Any) -> None:
        """A number of at least 0."""
        rows, target = table
        X, y = self.rows_like(rows, True).make(), target.make()
        answer, _ = self.reading("crps", lambda: self.model.crps(X, y), X, y)
        if answer is not None and not answer >= 0:
            refuse(f"the CRPS is {answer!r}")

    # ---- regions -------------------------------------------------------------------------------

    @answers_with("predict_region")
    @rule(table=tables(), level=LEVELS, same=SAME)
    def predict_region(self, table: Any, level: Any, same: bool) -> None:
        """Regions whose hull is the interval, infinite only with a word of it."""
        X = (rows := self.rows_like(table[0], same)).make()
        region, warned = self.reading(
            "predict_region", lambda: self.model.predict_region(X, level), X
        )
        if region is None:
            return
        check_numbers(region.length, (rows.n,))
        if np.isinf(region.length).any() and not warned:
            refuse("an infinite region came without a warning")
        interval, _ = self.reading(
            "predict_interval", lambda: self.model.predict_interval(X, level), X
        )
        if not np.array_equal(region.hull, interval):
            refuse("the hull of a region is not the interval")

    # ---- files ---------------------------------------------------------------------------------

    @precondition(lambda self: find_spec("skops"))
    @rule()
    def through_a_file(self) -> None:
        """An estimator read from its file answers alike and takes over; some cannot be a file."""
        before = self.answers()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skops"
            _, error, _ = self.call("save_model", lambda: save_model(self.model, path))
            if error is not None:
                if path.exists():
                    refuse("a model that cannot be saved left a file", error)
                return
            copy, error, _ = self.call("load_model", lambda: load_model(path))
        if error is not None:
            refuse(f"a saved model cannot be loaded: {error!r}", error)
        self.model, self.monitor = copy, None
        if self.answers() != before:
            refuse("an estimator read from its file answers otherwise")

    # ---- monitors ------------------------------------------------------------------------------

    @precondition(lambda self: self.fitted is not None)
    @rule(false_alarm=mostly([0.01, 0.5], [0.0, 1.0, "never", None]), table=tables())
    def watch(self, false_alarm: Any, table: Any) -> None:
        """A monitor of the estimator as it is, and its first rows."""
        self.monitor, _ = self.reading(
            "CoverageMonitor",
            lambda: CoverageMonitor(self.model, false_alarm=false_alarm, random_state=0),
        )
        if self.monitor is not None:
            self.take_in(self.rows_like(table[0], True), table[1])

    @precondition(lambda self: self.monitor is not None and self.fitted is not None)
    @rule(table=tables(), same=SAME)
    def update(self, table: Any, same: bool) -> None:
        """More rows, whatever has become of the estimator."""
        self.take_in(self.rows_like(table[0], same), table[1])

    def take_in(self, rows: Rows, target: Target) -> None:
        """All rows or none are taken in; the coverage stays within its band."""
        X, y = rows.make(), target.make()
        before = self.seen_by_monitor()
        _, error, _ = self.call("update", lambda: self.monitor.update(X, y), X, y)
        if error is not None and self.seen_by_monitor() != before:
            refuse("a failed update left something behind", error)
        if error is None:
            self.check_monitor(rows, before[1], self.monitor.coverage_)

    def seen_by_monitor(self) -> Any:
        """All that it tells."""
        found = self.monitor.coverage_
        return found.n_covered, found.n, self.monitor.log_martingale_, self.monitor.alarm_

    def check_monitor(self, rows: Rows, before: int, found: Any) -> None:
        """As many rows more as came, and a band around their coverage."""
        if found.n != before + rows.n:
            refuse(f"{rows.n} rows came and {found.n - before} were counted")
        if not 0.0 <= found.lower <= found.coverage <= found.upper <= 1.0:
            refuse(f"the band and the coverage are {found}")
        if not self.monitor.log_martingale_ > -np.inf:
            refuse("the monitor's evidence is no number")
