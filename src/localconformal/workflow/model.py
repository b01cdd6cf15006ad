"""A table, a model and its intervals: what `run` fits, saves and `predict` uses."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from localconformal.columns import is_missing
from localconformal.frames import is_frame, make_frame
from localconformal.io.tables import check_columns
from localconformal.quantiles import Array
from localconformal.regressors.base import intervals_frame
from localconformal.regressors.cells import name_of
from localconformal.regressors.mondrian import N_BINS
from localconformal.splitting import split_rows
from localconformal.workflow.base_models import make_base_model
from localconformal.workflow.by_time import CALIBRATION_SHARE, split_in_order
from localconformal.workflow.columns import lost_notes
from localconformal.workflow.methods import find_method
from localconformal.workflow.preparation import Preparation, learn_preparation
from localconformal.workflow.rows import prepared, raw_table

#: Groups decide the cells of this method, and only of this.
CELL_METHOD = "mondrian"


@dataclass(frozen=True)
class Settings:
    """What is to be fitted.

    Attributes
    ----------
    method : str
        Name of `localconformal.workflow.methods`, in any spelling that it takes; kept as the short
        name.
    model : str
        "hgb", "forest", "linear", or the path of a model file.
    levels : tuple of float
        The first is the one the estimator is set to.
    law : str or None
        For methods that have one; None is the method's default.
    features : tuple of str
        Columns that the model sees; none named is all of them.
    groups : tuple of str
        Columns whose labels are the cells of "mondrian".
    seed : int
    """

    method: str = "slcp"
    model: str = "hgb"
    levels: tuple[float, ...] = (0.9,)
    law: str | None = None
    features: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """One spelling of the method, so that nothing depends on how it was typed."""
        object.__setattr__(self, "method", find_method(self.method).name)

    def notes(self) -> tuple[str, ...]:
        """What the method is where it was not given all that it can take."""
        if self.method == CELL_METHOD and not self.groups:
            return (f"Without --groups, mondrian calibrates within {N_BINS} bins of predictions.",)
        needs = find_method(self.method).needs_more
        if needs is None or self.law is not None:
            return ()
        return (f"The method {self.method} {needs}; nothing of the kind was given here.",)


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted estimator that takes raw tables.

    Attributes
    ----------
    preparation : Preparation
    regressor : fitted estimator of this library
    levels : tuple of float
        Answered where no others are asked for.
    cells : tuple of str
        Columns that say in which cell a row is, if cells were calibrated by group.
    target : str
    identifier : str or None
        Column that names rows.
    lost : tuple of (column, number of values)
        Those of the fitted rows that could not be used.
    """

    preparation: Preparation
    regressor: Any
    levels: tuple[float, ...]
    cells: tuple[str, ...] = ()
    target: str = ""
    identifier: str | None = None
    lost: tuple[tuple[str, int], ...] = ()

    @property
    def stored_types(self) -> dict[str, str]:
        """Columns that `predict` reads of a file, and as what."""
        return {**dict.fromkeys(self.cells, "text"), **self.preparation.stored_types}

    def predict_interval(
        self, rows: Any, confidence_level: Any = None, *, output: str = "array"
    ) -> Any:
        """Intervals of raw rows: (n, 2), or (n, 2, L) for a list of levels.

        Parameters
        ----------
        rows : dict, list of dicts, or frame
            As in `predict`.
        confidence_level : float or sequence of float, default=None
            None is the first of ``levels``.
        output : {"array", "frame"}, default="array"
            A frame has the columns ``lower`` and ``upper``, as `predict` names them.
        """
        if output not in ("array", "frame"):
            raise ValueError(f"output is {output!r}; 'array' or 'frame' was expected.")
        X, table = self._read(rows)
        if output == "array":
            return self._intervals(X, table, confidence_level)
        asked = self.levels[0] if confidence_level is None else confidence_level
        levels = np.asarray(asked, dtype=np.float64)
        bounds = self._intervals(X, table, np.atleast_1d(levels))
        return like_rows(intervals_frame(bounds, levels, X), rows)

    def predict(self, rows: Any, levels: float | Sequence[float] = ()) -> Any:
        """Predictions and bounds of raw rows, by name.

        Parameters
        ----------
        rows : dict, list of dicts, or frame
            With the columns that the model was fitted on; others are not looked at. A dict is one
            row, or columns if its values are lists. None and NaN are missing values.
        levels : float or sequence of float, default=()
            None asked for is the model's own.

        Returns
        -------
        frame of n rows
            ``predicted``, ``lower`` and ``upper``; for several levels ``lower_0.9``, ``upper_0.9``
            and so on. pandas, with the index of a pandas frame; polars for polars.

        Examples
        --------
        >>> import pandas as pd
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"size": rng.uniform(size=300), "kind": rng.choice(["a", "b"], 300)})
        >>> y = X["size"].to_numpy() + 0.1 * rng.normal(size=300)
        >>> model = fit_table_model(X, y, Settings(method="split", model="linear"))
        >>> list(model.predict({"size": 0.5, "kind": "a"}))
        ['predicted', 'lower', 'upper']
        """
        X, table = self._read(rows)
        asked = np.atleast_1d(np.asarray(levels, dtype=np.float64)).tolist()
        return like_rows(self.predict_prepared(X, table, asked), rows)

    def predict_prepared(self, X: Any, table: Any, levels: Sequence[float] = ()) -> Any:
        """Predictions and bounds of rows (n, d) that are prepared, beside the raw ones."""
        asked = np.asarray(levels or self.levels, dtype=np.float64)
        intervals = self._intervals(X, table, asked)
        made = intervals_frame(intervals, asked[0] if len(asked) == 1 else asked, X)
        made.insert(0, "predicted", self.regressor.predict(X))
        return made

    def notes(self, lost: Mapping[str, int]) -> tuple[str, ...]:
        """What was done to the table; values lost in fitted rows and in these others together."""
        together = Counter(dict(self.lost)) + Counter(lost)
        return (*self.preparation.notes, *lost_notes(self.preparation.readers, together))

    def _read(self, rows: Any) -> tuple[Any, Any]:
        """Rows as the model takes them (n, d), and as they are; a warning tells what was lost."""
        table = raw_table(rows, self.stored_types)
        read = self.preparation.transform if is_frame(rows) else partial(prepared, self.preparation)
        X, lost = read(table)
        for sentence in lost_notes(self.preparation.readers, lost):
            warnings.warn(sentence, UserWarning, stacklevel=3)
        return X, table

    def _intervals(self, X: Any, table: Any, level: Any) -> Array:
        extra = {"groups": cell_labels(table, self.cells)} if self.cells else {}
        return np.asarray(self.regressor.predict_interval(X, level, **extra))


def fit_table_model(
    X: Any,
    y: Array,
    settings: Settings,
    on_columns: Callable[[Mapping[str, str]], None] = lambda types: None,
    *,
    in_order: bool = False,
) -> TableModel:
    """Split rows, learn the preparation and the model on one part, calibrate on the other.

    Parameters
    ----------
    X : pandas frame of shape (n, d)
        Raw feature columns, and those of the groups.
    y : array of shape (n,)
    settings : Settings
    on_columns : callable
        Called with ``stored_types``, the columns that later rows must have, before the fit.
    in_order : bool, default=False
        The last rows calibrate, instead of random ones.

    Returns
    -------
    TableModel

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"size": rng.uniform(size=300), "kind": rng.choice(["a", "b"], 300)})
    >>> y = X["size"].to_numpy() + 0.1 * rng.normal(size=300)
    >>> model = fit_table_model(X, y, Settings(method="split", model="linear"))
    >>> model.predict_interval(X[:2]).shape
    (2, 2)
    """
    train, calibration = (
        split_in_order(len(y), CALIBRATION_SHARE)
        if in_order
        else split_rows(len(y), CALIBRATION_SHARE, settings.seed)
    )
    preparation = learn_preparation(X.iloc[train][list(settings.features or X.columns)])
    regressor = make_regressor(settings)
    cells = settings.groups if settings.method == CELL_METHOD else ()
    model = TableModel(preparation, regressor, tuple(settings.levels), cells)
    on_columns(model.stored_types)
    lost: Counter[str] = Counter()
    parts = []
    for rows in (train, calibration):
        prepared, lost_here = preparation.transform(X.iloc[rows])
        lost.update(lost_here)
        extra = {"groups": cell_labels(X.iloc[rows], cells)} if cells else {}
        parts.append((prepared, y[rows], extra))
    (X_train, y_train, extra), (X_cal, y_cal, extra_cal) = parts
    regressor.fit(X_train, y_train, **extra)
    # The parts come from one table: alike values are other records, not the same ones.
    regressor._conformalize(X_cal, y_cal, extra_cal.get("groups"), may_repeat=True)
    return replace(model, lost=tuple(lost.items()))


def like_rows(made: Any, rows: Any) -> Any:
    """The answer as a frame of the kind that asked: pandas, unless that was another."""
    if not is_frame(rows):
        return made
    return make_frame({name: made[name].to_numpy() for name in made}, like=rows)


def make_regressor(settings: Settings) -> Any:
    """The unfitted estimator; `conformalize` is to follow its `fit`."""
    method = find_method(settings.method)
    known = method.estimator().get_params()
    if settings.law is not None and "law" not in known:
        raise ValueError(
            f"law={settings.law!r} came with the method {method.name!r}, which has no law; leave "
            "it out or choose another method."
        )
    own = {} if settings.law is None else {"law": settings.law}
    return method.estimator(
        make_base_model(settings.model, method.name, settings.seed),
        confidence_level=settings.levels[0],
        calibration_size=None,
        random_state=settings.seed,
        **own,
    )


def cell_labels(table: Any, columns: Sequence[str]) -> list[str | None]:
    """One label per row: the text of the column, None where missing; of several, their names."""
    check_columns(columns, list(table.columns), "The table")
    texts = [
        [None if is_missing(value) else label_text(value) for value in table[name]]
        for name in columns
    ]
    if len(texts) == 1:
        return texts[0]
    # Names have quotes, which a text of their own would have escaped: no two rows of labels agree.
    return [" | ".join(map(name_of, row)) for row in zip(*texts, strict=True)]


def label_text(value: Any) -> str:
    """A value as text, alike whether it was read as 2, 2.0 or "2", as True or "true"."""
    text = f"{value:.15g}" if isinstance(value, float) else str(value)
    return text.lower() if text.lower() in ("true", "false") else text
