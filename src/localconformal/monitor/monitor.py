"""Is a deployed model still covering? Rows are taken in as they arrive."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from localconformal.frames import make_frame
from localconformal.monitor.band import anytime_band
from localconformal.monitor.scoring import calibration_codes, check_model, miss_shares, score_rows
from localconformal.monitor.state import (
    calibration_digest,
    read_state,
    stream_content,
    stream_from,
    write_state,
)
from localconformal.monitor.stream import new_stream, tallies_of

#: One call after the other changes a stream. Of the module, so that monitors can be pickled.
_TAKING_IN = threading.Lock()


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
        self.reset()

    # ---- taking rows in --------------------------------------------------------------------

    def reset(self) -> CoverageMonitor:
        """Forget the stream and read the model's calibration anew, as after `conformalize`.

        The promise about false alarms starts anew too.
        """
        check_model(self.model)
        self.confidence_level = float(self.model.confidence_level)
        self._calibration = self.model.calibration_
        codes, cells = calibration_codes(self._calibration, self.confidence_level)
        alphas = miss_shares(self._calibration, self.confidence_level)
        self._stream = new_stream(self._seed, dict(tallies_of(codes, cells)), alphas)
        return self

    def update(self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None) -> CoverageMonitor:
        """Take in rows in the order of their arrival; how they are cut into calls is all the same.

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
            If rows are refused, none of them has been taken in. Threads may call at once; their
            rows are taken in one call after the other.
        """
        if self.model.calibration_ is not self._calibration:
            raise ValueError(
                "the model was calibrated anew since this monitor began; call reset() first, which "
                "starts a new stream."
            )
        if float(self.model.confidence_level) != self.confidence_level:
            raise ValueError(
                f"the model's level is {self.model.confidence_level:g} and was "
                f"{self.confidence_level:g} when this monitor began; set it back, or call reset(), "
                "which starts a new stream."
            )
        scored = score_rows(self.model, X, y, groups, self.confidence_level)
        with _TAKING_IN:
            self._stream.extend(scored, -math.log(self.false_alarm))
        return self

    # ---- what it found ---------------------------------------------------------------------

    @property
    def coverage_(self) -> RunningCoverage:
        """Coverage of `predict_interval` at the model's level so far, with its band."""
        k, n = self._stream.n_covered, self._stream.rows
        lower, upper = anytime_band([k], [n], self.probability)
        return RunningCoverage(k / n if n else math.nan, float(lower[0]), float(upper[0]), k, n)

    @property
    def alarm_(self) -> Alarm | None:
        """The first alarm since `reset`, or None."""
        return None if self._stream.alarm is None else Alarm(*self._stream.alarm)

    @property
    def log_martingale_(self) -> float:
        """Natural logarithm of the evidence now; the alarm comes at -log(``false_alarm``)."""
        return self._stream.log_martingale

    @property
    def history_(self) -> Any:
        """The course so far as a frame of at most 257 rows, evenly spread, the last one included.

        Columns ``row``, ``coverage`` with ``lower`` and ``upper``, and ``log_martingale``.
        """
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
        state = f"Coverage {self.coverage_}, target {self.confidence_level:.4g}; "
        if self.alarm_ is not None:
            return f"{state}{self.alarm_}."
        return (
            f"{state}no alarm: the log-martingale is {self.log_martingale_:.1f}, and the alarm "
            f"comes at {-math.log(self.false_alarm):.1f}."
        )

    def __repr__(self) -> str:
        """The summary."""
        return f"<CoverageMonitor: {self.summary()}>"

    # ---- files -----------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the state, not the model, to a small JSON file; it is whole or not there."""
        content = {
            "false_alarm": self.false_alarm,
            "probability": self.probability,
            "confidence_level": self.confidence_level,
            "calibration": self._digest(),
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
            The model that was monitored, itself or loaded again; one with another calibration is
            refused.

        Returns
        -------
        CoverageMonitor
        """
        content = read_state(path)
        monitor = cls(model, false_alarm=content["false_alarm"], probability=content["probability"])
        if content["calibration"] != monitor._digest():
            raise ValueError(
                f"{path} belongs to a model with another calibration or level; pass the model that "
                "was monitored, or start a new monitor."
            )
        monitor._stream = stream_from(path, content, monitor._stream)
        monitor._seed = monitor._stream.seed
        return monitor

    def _digest(self) -> str:
        return calibration_digest(self._stream.calibration, self.confidence_level)


def check_chance(name: str, value: Any) -> float:
    """A number inside (0, 1), or refused."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} is {value!r}; a number inside (0, 1) was expected.")
    return float(value)
