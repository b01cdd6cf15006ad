"""Does a deployed model still cover? Rows are processed as they arrive."""

from __future__ import annotations

import json
import math
import threading
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from localconformal.composition import Calibration
from localconformal.io.files import write_whole
from localconformal.metrics.intervals import is_covered
from localconformal.monitor.martingale import (
    Codes,
    Martingales,
    Part,
    Scored,
    Stream,
    Tally,
    anytime_band,
    grid_codes,
    tallies_of,
)
from localconformal.quantiles import as_levels
from localconformal.regressors.base import (
    BaseConformalRegressor,
    calibration_of,
    check_target,
    intervals_at,
    rows_of,
    training_digest,
)

#: Rows scored at a time.
_ROWS_AT_A_TIME = 1_024
#: Format of the file; raised when its content or the bets change, as wealth is tied to its bets.
_FORMAT = 6


@dataclass(frozen=True)
class RunningCoverage:
    """Share of rows covered so far, NaN before the first row; and a band.

    With 95 % probability the band contains the mean probability of being covered, given the past of
    each row, at all rows of the stream at once.
    """

    coverage: float
    lower: float
    upper: float
    n_covered: int
    n: int

    def __str__(self) -> str:
        if self.n == 0:
            return "no rows yet"
        return f"{self.coverage:.1%} of {self.n:,} rows [{self.lower:.1%}, {self.upper:.1%}]"


@dataclass(frozen=True)
class Alarm:
    """Rows no longer look like the calibration rows.

    ``row`` counts from 1 since the last `reset`; ``log_martingale`` is the evidence there.
    """

    row: int
    log_martingale: float

    def __str__(self) -> str:
        return (
            f"alarm at row {self.row:,}: rows no longer look like the calibration rows; call "
            "model.conformalize with recent rows, then monitor.reset()"
        )


class CoverageMonitor:
    """Watch the coverage of a calibrated model as rows arrive, and detect when they change.

    Every row gets a p-value: the rank of its conformal score among those of the calibration rows
    and of all rows before it. As long as rows are exchangeable with the calibration rows, p-values
    are independent and uniform, and wealth that bets against this is a martingale M with M_0 = 1.
    The alarm is raised when M >= 1 / ``false_alarm``; in a stream where nothing changes, however
    long, that happens with probability at most ``false_alarm``. The band of the coverage raises no
    alarm: given one calibration set, coverage differs from the level by chance, without any change.

    Parameters
    ----------
    model : fitted and calibrated estimator
        Used without a copy, at its current level. Not one with weights, whose new rows are meant to
        differ. If the model calibrates cells separately (Mondrian, LOCART, CD-Split), scores are
        ranked within cells: a change in the shares of cells alone raises no alarm.
    false_alarm : float, default=0.01
        Probability of ever raising an alarm if nothing changes.
    random_state : int or None, default=None
        Seed for breaking ties between scores.

    Notes
    -----
    If the two sides are calibrated separately (``sides="union"``), each is watched, and the alarm
    is raised when the wealth of either reaches 2 / ``false_alarm``. `LCPRegressor`, `RLCPRegressor`
    and `LVDRegressor` weight the calibration rows differently for each new row, so the raw score is
    watched instead. Rows of a cell without calibration rows are ranked among themselves: only a
    later change within the cell is found.

    References
    ----------
    Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman, "Retrain or not retrain: conformal
    test martingales for change-point detection", COPA 2021.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal import CoverageMonitor, SplitConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(2_500, 1)), rng.normal(size=2_500)
    >>> model = SplitConformalRegressor(LinearRegression(), random_state=0)
    >>> monitor = CoverageMonitor(model.fit(X[:2_000], y[:2_000]), random_state=0)
    >>> monitor.update(X[2_000:], y[2_000:]).alarm_ is None
    True
    >>> monitor.update(X[2_000:], 1.5 * y[2_000:]).alarm_.row > 500
    True
    """

    def __init__(self, model: Any, *, false_alarm: float = 0.01, random_state: Any = None) -> None:
        chance: Any = false_alarm
        if not isinstance(chance, Real) or not 0.0 < float(chance) < 1.0:
            raise ValueError(f"got false_alarm={chance!r}; expected a number inside (0, 1).")
        self.model, self.false_alarm = model, float(chance)
        self._seed = int(check_random_state(random_state).randint(2**31 - 1))
        # Held while the stream is read or changed, but not while rows are scored.
        self._lock = threading.RLock()
        self.reset()

    def __getstate__(self) -> dict[str, Any]:
        """With its own stream, because a copy has its own lock."""
        with self._lock:
            return {**vars(self), "_lock": None, "_stream": deepcopy(self._stream)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def reset(self) -> CoverageMonitor:
        """Start a new stream, with a new guarantee, and read the model's calibration again."""
        calibration, level = _calibration_to_watch(self.model), level_of(self.model)
        tallies, rule = tallies_of(*calibration_codes(calibration, level)), calibration.parts.sides
        alphas = (1.0 - level) * (rule.shares if rule.separate else np.ones(1))
        stream = Stream(self._seed, tallies, alphas, Martingales.start(len(alphas)))
        # Not only of the scores, which another model may share.
        digest = digest_of([level, training_digest(self.model), _tallies_as_lists(tallies)])
        with self._lock:
            self.confidence_level, self._calibration = level, calibration
            self._stream, self._digest = stream, digest
        return self

    def update(self, X: Any, y: ArrayLike, *, groups: ArrayLike | None = None) -> CoverageMonitor:
        """Add rows X (n, d), y (n,) in the order of their arrival; on an error, none is added.

        ``groups`` (n,) are cells, for a `MondrianConformalRegressor` whose `fit` was given them.
        How rows are divided into calls makes no difference if the base model predicts a row the
        same alone as among others. Several threads may call this, `reset` and `save` at once.
        """
        while True:
            with self._lock:
                self._check_unchanged()
                stream, level = self._stream, self.confidence_level
            scored = score_rows(self.model, X, y, groups, level)
            with self._lock:
                # A reset since then began another stream; these scores do not belong to it.
                if self._stream is stream:
                    self._check_unchanged()
                    stream.extend(scored, -math.log(self.false_alarm))
                    return self

    def _check_unchanged(self) -> None:
        """Check that the calibration and level are those of the start of the stream."""
        if self.model.calibration_ is not self._calibration:
            raise ValueError("the model was recalibrated; call reset() to begin a new stream.")
        if (level := level_of(self.model)) != self.confidence_level:
            was = f"the model's level is {level:g} and was {self.confidence_level:g}"
            raise ValueError(f"{was}; set it back, or call reset() to begin a new stream.")

    @property
    def coverage_(self) -> RunningCoverage:
        """Coverage of `predict_interval` at the model's level so far, with its band."""
        with self._lock:
            k, n = self._stream.n_covered, self._stream.rows
        lower, upper = anytime_band([k], [n])
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

    def summary(self) -> str:
        """The state in a sentence or two."""
        with self._lock:
            running, alarm, log = self.coverage_, self.alarm_, self.log_martingale_
            level = self.confidence_level
        quiet = f"no alarm: the log-martingale is {log:.1f}, and the alarm comes at "
        state = alarm or f"{quiet}{-math.log(self.false_alarm):.1f}"
        return f"Coverage {running}, target {level:.4g}; {state}."

    def __repr__(self) -> str:
        return f"<CoverageMonitor: {self.summary()}>"

    def save(self, path: str | Path) -> Path:
        """Write the state, not the model, to a small JSON file, which is complete or absent."""
        content = self.state()
        text = json.dumps({"content": content, "sha256": digest_of(content)})
        return write_whole(Path(path), lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | Path, model: Any) -> CoverageMonitor:
        """Continue a monitor from `save`, which must belong to this model."""
        return cls.restore(model, _read_state(path), source=str(path))

    def state(self) -> dict[str, Any]:
        """What `save` writes: numbers and text, a copy that later rows do not change."""
        content: dict[str, Any] = {"format": _FORMAT, "false_alarm": self.false_alarm}
        with self._lock:
            held = {"calibration": self._digest, "stream": _stream_content(self._stream)}
            return content | held

    @classmethod
    def restore(
        cls, model: Any, state: dict[str, Any], *, source: str = "state"
    ) -> CoverageMonitor:
        """A monitor that continues from `state`; ``source`` is its name in errors."""
        if (found := state.get("format")) != _FORMAT:
            was = f"{source} has the format {found!r}"
            raise ValueError(f"{was}; expected {_FORMAT}: start a new monitor.")
        monitor = cls(model, false_alarm=state["false_alarm"])
        if state["calibration"] != monitor._digest:
            raise ValueError(
                f"{source} belongs to another model, or to another calibration or level of it; "
                "pass the model that was monitored, or start a new monitor."
            )
        monitor._stream = _read_stream(state["stream"])
        monitor._seed = monitor._stream.seed
        return monitor


# ---- what a model must provide ------------------------------------------------------------------
# The score of a row is the adjusted one, p(V, F) at the model's level: a function of training rows
# and that row alone, as the guarantee requires, computed in the same way as for calibration.


def _calibration_to_watch(model: Any) -> Calibration:
    """The calibration of a model whose new rows should look like its calibration rows."""
    if not isinstance(model, BaseConformalRegressor):
        raise ValueError(
            f"got model={model!r}; expected a fitted estimator of localconformal, which is the "
            "regressor of a table model."
        )
    calibration = calibration_of(model)
    if model.guarantee_.EXCHANGEABLE not in model.guarantee_.assumptions:
        raise ValueError(
            f"the new rows of a {type(model).__name__} with weights are expected to differ from "
            "its calibration rows; monitor an estimator without weights."
        )
    return calibration


def level_of(model: BaseConformalRegressor) -> float:
    """The level of the model's intervals, if it is one number inside (0, 1)."""
    level = as_levels(model.confidence_level, "confidence_level")
    if level.ndim:
        given = f"the model's confidence_level is {model.confidence_level!r}"
        raise ValueError(f"{given}; expected one number, because a monitor watches one level.")
    return float(level)


def calibration_codes(calibration: Calibration, level: float) -> tuple[Codes, NDArray[Any]]:
    """Scores on the grid (n, C) and cells (n,) of the rows of a calibration."""
    scores, parts = calibration.scores(np.array([level]))[:, :, 0], calibration.parts
    if not parts.sides.separate:
        scores = parts.sides.together(scores)
    return grid_codes(scores), np.array([str(cell) for cell in parts.correction.cells(calibration)])


def score_rows(model: BaseConformalRegressor, X: Any, y: Any, groups: Any, level: float) -> Scored:
    """New rows, scored like calibration rows; the model does not change."""
    # Models with groups check for themselves whether they know labels.
    if groups is not None and type(model).beside != "groups":
        got = f"got groups for a {type(model).__name__}, which does not use labels"
        raise ValueError(f"{got}; leave them out, or monitor a MondrianConformalRegressor.")
    beside = None if groups is None else {"groups": groups}
    rows, target, levels = rows_of(model, X, beside), check_target(y), np.array([level])
    check_consistent_length(rows.X, target)
    parts = []
    for part, some in rows.parts(_ROWS_AT_A_TIME):
        codes, cells = calibration_codes(Calibration.of(model.parts_, some, target[part]), level)
        bounds = intervals_at(model, some, levels)[:, :, 0]
        parts.append((codes, cells, is_covered(target[part], bounds)))
    return Scored(*(np.concatenate(column) for column in zip(*parts, strict=True)))


# ---- the state as JSON: numbers and text, never code -------------------------------------------
# One digest covers the content, so a truncated or edited file is refused; another the model.


def digest_of(content: Any) -> str:
    """SHA-256 of plain data."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _tallies_as_lists(tallies: dict[Part, Tally]) -> list[list[Any]]:
    """Column, cell, codes and counts of each, in one order."""
    ordered = sorted(tallies.items())
    return [[*part, tally.codes.tolist(), tally.counts.tolist()] for part, tally in ordered]


def _stream_content(stream: Stream) -> dict[str, Any]:
    """What a stream holds, as a copy, which later rows do not change."""
    wealth, logs = stream.martingales.wealth.tolist(), stream.martingales.logs.tolist()
    held = {"seen": _tallies_as_lists(stream.seen), "alphas": stream.alphas.tolist()}
    return {**vars(stream), **held, "martingales": [wealth, logs]}


def _read_stream(content: dict[str, Any]) -> Stream:
    seen = {}
    for column, cell, *tally in content["seen"]:
        seen[column, cell] = Tally(*(np.array(one, dtype=np.int64) for one in tally))
    read = {"seen": seen, "martingales": Martingales(*map(np.array, content["martingales"]))}
    read |= {"alphas": np.array(content["alphas"])}
    return Stream(**{**content, **read, "alarm": content["alarm"] and tuple(content["alarm"])})


def _read_state(path: str | Path) -> dict[str, Any]:
    """The content of a file from `save`, or a ValueError in one sentence."""
    path = Path(path)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {state}; give the path of a file from CoverageMonitor.save.")
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        content = whole["content"]
        is_whole = isinstance(content, dict) and whole["sha256"] == digest_of(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_whole = False
    if not is_whole:
        altered = f"{path} is not a complete state of a CoverageMonitor, or was altered"
        raise ValueError(f"{altered}; start a new monitor, or restore the file.")
    return dict(content)
