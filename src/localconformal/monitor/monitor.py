"""Is a deployed model still covering? Rows are taken in as they arrive."""

from __future__ import annotations

import math
import threading
from copy import deepcopy
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from localconformal.frames import make_frame
from localconformal.monitor.band import anytime_band
from localconformal.monitor.scoring import (
    calibration_codes,
    check_model,
    has_one_cell,
    miss_shares,
    model_level,
    score_rows,
)
from localconformal.monitor.state import (
    NOT_WHOLE,
    model_digest,
    read_state,
    stream_content,
    stream_from,
    write_state,
)
from localconformal.monitor.stream import new_stream, tallies_of


@dataclass(frozen=True)
class RunningCoverage:
    """Share of the rows so far that were covered.

    Attributes
    ----------
    coverage : float
        NaN before the first row.
    lower, upper : float
        Band of the mean chance to be covered, given the past of each row. It holds at all rows of
        the stream at once with the monitor's ``probability``, whatever the stream does.
    n_covered, n : int
    """

    coverage: float
    lower: float
    upper: float
    n_covered: int
    n: int

    def __str__(self) -> str:
        """In percent, with the band."""
        if self.n == 0:
            return "no rows yet"
        return f"{self.coverage:.1%} of {self.n:,} rows [{self.lower:.1%}, {self.upper:.1%}]"


@dataclass(frozen=True)
class Alarm:
    """Rows have ceased to look like the calibration rows.

    Attributes
    ----------
    row : int
        At which the alarm came, counted from 1 since the last `reset`.
    log_martingale : float
        The evidence there, as a natural logarithm.
    """

    row: int
    log_martingale: float

    def __str__(self) -> str:
        """What to do about it."""
        return (
            f"alarm at row {self.row:,}: rows no longer look like the calibration rows; call "
            "model.conformalize with recent rows, then monitor.reset()"
        )


class CoverageMonitor:
    """Watch the coverage of a calibrated model while rows arrive, and whether they have changed.

    Every row gets a p-value: the rank of its conformal score among those of the calibration rows
    and of all rows before it. As long as rows are exchangeable with the calibration rows, p-values
    are independent and uniform, and wealth that bets against this is a martingale M with M_0 = 1.
    The alarm comes when M >= 1 / ``false_alarm``; in a stream where nothing changes, however long,
    that happens with probability ``false_alarm`` at most. The band of the coverage raises no alarm:
    coverage given one calibration set differs from the level by chance, without any change.

    Parameters
    ----------
    model : fitted and calibrated estimator
        Its level is the one at the time. It is used, not copied. Not one with weights, whose new
        rows are meant to differ. Where the model calibrates cells apart (Mondrian, LOCART,
        CD-Split), scores are ranked within cells: a change of the cells' shares alone is none.
    false_alarm : float, default=0.01
        Chance of ever an alarm where nothing changes.
    probability : float, default=0.95
        That the band of the coverage holds at all rows.
    random_state : int or None, default=None
        Of the numbers that tell equal scores apart.

    References
    ----------
    Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman, "Retrain or not retrain: conformal
    test martingales for change-point detection", COPA 2021.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal import CoverageMonitor, SplitConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2_000, 1))
    >>> y = X[:, 0] + rng.normal(size=2_000)
    >>> model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> monitor = CoverageMonitor(model, random_state=0)
    >>> new = rng.uniform(size=(500, 1))
    >>> monitor.update(new, new[:, 0] + rng.normal(size=500)).alarm_ is None
    True
    >>> monitor.update(new, new[:, 0] + 1.5 * rng.normal(size=500)).alarm_.row > 500
    True
    """

    def __init__(
        self,
        model: Any,
        *,
        false_alarm: float = 0.01,
        probability: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.false_alarm = check_chance("false_alarm", false_alarm)
        self.probability = check_chance("probability", probability)
        self._seed = int(check_random_state(random_state).randint(2**31 - 1))
        # Whoever changes or reads the stream holds it; while rows are scored nobody does.
        self._lock = threading.RLock()
        self.reset()

    def __getstate__(self) -> dict[str, Any]:
        """Without the lock, and with a stream of its own, for a copy has a lock of its own."""
        with self._lock:
            state = {**vars(self), "_stream": deepcopy(self._stream)}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With a new lock."""
        vars(self).update(state, _lock=threading.RLock())

    # ---- taking rows in --------------------------------------------------------------------

    def reset(self) -> CoverageMonitor:
        """Forget the stream and read the model's calibration anew, as after `conformalize`.

        The promise about false alarms starts anew too.
        """
        check_model(self.model)
        level, calibration = model_level(self.model), self.model.calibration_
        codes, cells = calibration_codes(calibration, level)
        tallies = dict(tallies_of(codes, cells))
        stream = new_stream(self._seed, tallies, miss_shares(calibration, level))
        digest = model_digest(self.model, tallies, level)
        with self._lock:
            self.confidence_level, self._calibration = level, calibration
            self._stream, self._digest = stream, digest
        return self

    def update(self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None) -> CoverageMonitor:
        """Take in rows in the order of their arrival.

        How they are cut into calls is all the same, where the base model predicts a row alone as
        among others.

        Parameters
        ----------
        X : array or frame of shape (n, d)
            One row, (1, d), or many.
        y : array of shape (n,)
        groups : array of shape (n,), default=None
            Cell of each row, for a `MondrianConformalRegressor` whose `fit` was given them.

        Returns
        -------
        self
            If rows are refused, none of them has been taken in. Threads may call at once, also
            `reset` and `save`; their rows are taken in one call after the other.
        """
        while True:
            with self._lock:
                self._check_unchanged()
                stream, level = self._stream, self.confidence_level
            scored = score_rows(self.model, X, y, groups, level)
            with self._lock:
                # A reset since then began another stream, of which these scores are none.
                if self._stream is stream:
                    self._check_unchanged()
                    stream.extend(scored, self._log_limit)
                    return self

    def _check_unchanged(self) -> None:
        """The model calibrates and answers as when the stream began."""
        if self.model.calibration_ is not self._calibration:
            raise ValueError(
                "the model was calibrated anew since this monitor began; call reset() first, which "
                "starts a new stream."
            )
        level = model_level(self.model)
        if level != self.confidence_level:
            raise ValueError(
                f"the model's level is {level:g} and was {self.confidence_level:g} when this "
                "monitor began; set it back, or call reset(), which starts a new stream."
            )

    @property
    def _log_limit(self) -> float:
        return -math.log(self.false_alarm)

    # ---- what it found ---------------------------------------------------------------------

    @property
    def coverage_(self) -> RunningCoverage:
        """Coverage of `predict_interval` at the model's level so far, with its band."""
        with self._lock:
            k, n = self._stream.n_covered, self._stream.rows
        lower, upper = anytime_band([k], [n], self.probability)
        return RunningCoverage(k / n if n else math.nan, float(lower[0]), float(upper[0]), k, n)

    @property
    def alarm_(self) -> Alarm | None:
        """The first alarm since `reset`, or None."""
        alarm = self._stream.alarm
        return None if alarm is None else Alarm(*alarm)

    @property
    def log_martingale_(self) -> float:
        """Natural logarithm of the evidence now; the alarm comes at -log(``false_alarm``)."""
        with self._lock:
            return self._stream.log_martingale

    @property
    def history_(self) -> Any:
        """The course so far as a frame of at most 257 rows, evenly spread, the last one included.

        Columns ``row``, ``coverage`` with ``lower`` and ``upper``, and ``log_martingale``.
        """
        with self._lock:
            stream = self._stream
            points = list(stream.history.points)
            if stream.rows and (not points or points[-1][0] != stream.rows):
                points.append((stream.rows, stream.n_covered, stream.log_martingale))
        row, covered, log = np.array(points, dtype=np.float64).reshape(-1, 3).T
        lower, upper = anytime_band(covered, row, self.probability)
        return make_frame(
            {
                "row": row.astype(np.int64),
                "coverage": covered / row,
                "lower": lower,
                "upper": upper,
                "log_martingale": log,
            },
            like=None,
        )

    def summary(self) -> str:
        """All of it in a sentence or two."""
        with self._lock:
            running, alarm, log = self.coverage_, self.alarm_, self.log_martingale_
            level = self.confidence_level
        state = f"Coverage {running}, target {level:.4g}; "
        if alarm is not None:
            return f"{state}{alarm}."
        return (
            f"{state}no alarm: the log-martingale is {log:.1f}, and the alarm comes at "
            f"{self._log_limit:.1f}."
        )

    def __repr__(self) -> str:
        """The summary."""
        return f"<CoverageMonitor: {self.summary()}>"

    # ---- files -----------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the state, not the model, to a small JSON file; it is whole or not there."""
        with self._lock:
            content = {
                "false_alarm": self.false_alarm,
                "probability": self.probability,
                "confidence_level": self.confidence_level,
                "calibration": self._digest,
                "stream": stream_content(self._stream),
            }
        return write_state(path, content)

    @classmethod
    def load(cls, path: str | Path, model: Any) -> CoverageMonitor:
        """Go on where a saved monitor stopped.

        Parameters
        ----------
        path : str or Path
            Of a file from `save`.
        model : fitted and calibrated estimator
            The model that was monitored, itself or loaded again; one with other training rows,
            another calibration or level is refused.

        Returns
        -------
        CoverageMonitor
        """
        content = read_state(path)
        monitor = cls(model, false_alarm=content["false_alarm"], probability=content["probability"])
        if content["calibration"] != monitor._digest:
            raise ValueError(
                f"{path} belongs to another model, or to one with another calibration or level; "
                "pass the model that was monitored, or start a new monitor."
            )
        if content["confidence_level"] != monitor.confidence_level:
            raise ValueError(f"{path} {NOT_WHOLE}")
        limit, one_cell = monitor._log_limit, has_one_cell(model)
        monitor._stream = stream_from(path, content, monitor._stream, limit, one_cell)
        monitor._seed = monitor._stream.seed
        return monitor


def check_chance(name: str, value: Any) -> float:
    """A number inside (0, 1), or refused."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} is {value!r}; a number inside (0, 1) was expected.")
    return float(value)
