"""A fitted estimator that takes raw tables; methods and base models go by name."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import QuantileRegressor, RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import localconformal
from localconformal.columns import is_missing, name_of
from localconformal.composition import ONE_SIDE, SIDES
from localconformal.explanation import read_explained
from localconformal.io import tables
from localconformal.io.files import write_whole
from localconformal.io.models import load_model
from localconformal.io.tables import TableError, check_columns, table_batches
from localconformal.laws import LAWS
from localconformal.preparation import TablePreparation, as_pandas, read_target
from localconformal.progress import stage
from localconformal.quantiles import Array, required_calibration_size
from localconformal.regressors.base import calibrate_on, rows_of
from localconformal.regressors.methods import methods
from localconformal.rows import Index, check_frame, is_frame, make_frame, split_rows
from localconformal.text import listing, option, say_rows, unknown_choice

#: Short name of a method -> its estimator, such as slcp, split and cqr.
METHODS = {
    re.sub("(Conformal)?Regressor$", "", name).lower().replace("conformalizedquantile", "cqr"): name
    for name in methods()["estimator"]
    # Adaptive intervals are made from a fitted estimator, not from a table.
    if name.endswith("Regressor")
}
#: Methods that equal another one without further input: which one.
NEEDS_MORE = {
    "localized": "is slcp unless it is given a score, a law or an adjustment",
    "weighted": "is split conformal prediction unless it is given weights or new rows",
}
#: Methods whose threshold depends on x, so they need one calibration set.
_OWN_CORRECTION = ("conditional", "weighted")
#: Base models by name; any other name is the path of a model file.
_MODELS = ("default", "hgb", "forest", "linear")
#: Share of the rows not held out that calibrate.
CALIBRATION_SHARE = 0.25
#: With fewer rows to fit, folds are proposed; benchmarks/results/cross.md shows their gain.
_FEW_ROWS = 1_500
_PROPOSAL = (
    "With so few rows, {} is worth trying: it sets no row aside to calibrate. On five small tables "
    "this lowered the interval score of SLCP by 10 % on average; fitting took 10 to 15 times as "
    "long. Coverage of 1 - 2 alpha is then proven; 1 - alpha or a little more is usual."
)
#: Types of dict values that are columns; anything else is the value of a single row.
_COLUMNS = (list, tuple, np.ndarray, pd.Series, pd.Index)


def method_name(name: str) -> str:
    """The short name of a method, given that or the name of its estimator, in any case."""
    known = {estimator.lower(): short for short, estimator in METHODS.items()}
    asked = str(name).strip().lower()
    if asked not in METHODS and asked not in known:
        raise unknown_choice("method", str(name), METHODS)
    return known.get(asked, asked)


def takes(method: str, parameter: str) -> bool:
    """Whether the estimator of a method has a use for this constructor parameter."""
    unused = parameter == "cv" and method in _OWN_CORRECTION
    known = signature(getattr(localconformal, METHODS[method])).parameters
    return parameter in known and not unused


def model_file(name: str) -> Path | None:
    """The file that a model name stands for, if it is not a known name."""
    return None if name in _MODELS else Path(name)


def make_base_model(name: Any, method: str, seed: int) -> Any:
    """The unfitted point model for a method: by name, from a model file, or the one given.

    None, the default, leaves the choice to the method: gradient boosting, or the blend of
    law="auto".

    Gradient boosting takes categories and missing values as they are, and a Pipeline is trusted to;
    other models get an encoder in front.
    """
    quantile, known = method == "cqr", name if isinstance(name, str) else ""
    if known == "default":
        return None
    if known == "hgb":
        options = {"loss": "quantile", "quantile": 0.5} if quantile else {}
        options |= {"categorical_features": "from_dtype", "random_state": seed}
        return HistGradientBoostingRegressor(**options)
    if known == "linear":
        # With standardised columns, this penalty is just enough to make the quantiles unique.
        alphas = [10.0**power for power in range(-3, 4)]
        return _encoded(QuantileRegressor(alpha=1e-4) if quantile else RidgeCV(alphas))
    if known == "forest":
        if quantile:
            needs = "which this method needs; choose hgb or linear"
            raise ValueError(f"the model 'forest' cannot predict quantiles, {needs}.")
        return _encoded(RandomForestRegressor(random_state=seed))
    model, said = name, "the model is"
    if isinstance(name, str | Path):
        if not Path(name).suffix and not Path(name).exists():
            raise unknown_choice("model", str(name), [*_MODELS, "the path of a .skops file"])
        model, said = load_model(name), f"{name} holds"
    if isinstance(model, type) or not (hasattr(model, "get_params") and is_regressor(model)):
        got = "class" if isinstance(model, type) else type(model).__name__
        raise ValueError(f"{said} a {got}; expected a scikit-learn regressor.")
    # Always refitted: rows it has seen before could break the guarantee.
    fresh = clone(model)
    return fresh if isinstance(fresh, Pipeline) else _encoded(fresh)


def _encoded(model: Any) -> Pipeline:
    """The model with an encoder: categories one-hot, missing numbers imputed and flagged."""
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    labels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = make_column_transformer(
        (make_pipeline(imputer, StandardScaler()), make_column_selector(dtype_exclude="category")),
        (labels, make_column_selector(dtype_include="category")),
    )
    return Pipeline([("encode", encoder), ("model", model)])


@dataclass(frozen=True)
class Task:
    """What to do with a table, as in `run_table`; the estimator is set to the first level."""

    target: str = ""
    #: None is slcp, or conditional if there are several columns of groups, which overlap.
    method: Any = None
    model: Any = "default"
    levels: tuple[float, ...] = (0.9,)
    law: str | None = None
    features: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    seed: int = 0
    identifier: str | None = None
    test_size: float = 0.2
    time: str | None = None
    support: tuple[float | None, float | None] | None = None
    integer: bool = False
    sides: str | None = None
    cv: int | str | None = None

    def __post_init__(self) -> None:
        # Normalise the name, so that nothing depends on how it was typed.
        overlap = self.method is None and len(self.groups) > 1
        if overlap and self.law is None:
            object.__setattr__(self, "law", "auto")
        default = "conditional" if overlap else "slcp"
        named = method_name(default if self.method is None else self.method)
        object.__setattr__(self, "method", named)
        _check_share(option("test_size", "--test-size"), self.test_size)
        if self.cv is not None and self.time is not None:
            raise ValueError(
                f"got cv={self.cv!r} and a split by {self.time!r}; folds would train on later rows "
                "than they score: choose one of the two."
            )

    def on_columns(self, table: Any, source: str) -> Task:
        """The task with the columns that the model uses; all named columns must exist."""
        present, own, time = list(table.columns), [self.target], [self.time] if self.time else []
        if self.identifier and self.identifier != table.index.name:
            own.append(self.identifier)
        check_columns([*own, *self.features, *self.groups, *time], present, source)
        if self.time == self.target:
            raise TableError(
                f"rows cannot be split by the target {self.time!r}; choose another column."
            )
        if spoilt := listing(repr(name) for name in self.features if name in own):
            cannot = "the target and the identifier cannot be features: leave them out"
            raise TableError(f"got {spoilt} among the features; {cannot}.")
        if self.target in self.groups:
            raise TableError(f"got the target {self.target!r} among the groups; leave it out.")
        features = self.features or tuple(name for name in present if name not in own)
        if not features:
            raise TableError(f"{source} has no column but {self.target!r}; expected features.")
        return replace(self, features=features)

    def split(self, n: int, share: float | None, seed: int) -> Sequence[Index]:
        """Rows 0..n-1 in two parts, the second with this share; by time, it is the last rows."""
        if self.time is None or share is None:
            return split_rows(n, share, seed)
        return np.split(np.arange(n), [n - math.ceil(share * n)])

    def notes(self, days: Iterable[str], y: Array) -> Iterator[str]:
        """What is assumed for lack of further options; ``days`` are columns of times."""
        found = {
            ("at least 0", "support=(0, None)", "--support '0,'"): self.support is None
            and not (y < 0.0).any(),
            ("a whole number", "integer=True", "--integer"): not (self.integer or (y % 1.0).any()),
        }
        if any(found.values()):
            is_so, told, typed = zip(*(words for words, seen in found.items() if seen), strict=True)
            yield (
                f"Every {self.target!r} is {' and '.join(is_so)}: if no other value is possible, "
                f"{option(' and '.join(told), ' '.join(typed))} would restrict bounds to such "
                "values."
            )
        if self.time is None and (named := listing(map(repr, days))):
            yield (
                f"Rows were split at random, although the table has times ({named}). This assumes "
                "that future rows are like past ones; a split by time "
                f"({option('time=', '--time COLUMN')}) checks on the last rows instead."
            )
        few = len(y) * (1.0 - self.test_size) < _FEW_ROWS
        if self.cv is None and self.time is None and few and takes(self.method, "cv"):
            yield _PROPOSAL.format(option("cv=10", "--cv 10"))
        if self.cv is not None:
            yield (
                "No row was set aside to calibrate; column types and labels were read from all "
                "rows, which the guarantee across folds does not account for."
            )
        if self.method == "mondrian" and not self.groups:
            yield "Without groups, mondrian calibrates within 5 bins of the predictions."
        if self.method == "conditional" and not self.groups:
            yield "Without groups, conditional calibrates over 5 functions of the prediction."
        if self.method == "conditional" and len(self.groups) > 1:
            yield (
                f"The groups of {listing(map(repr, self.groups))} overlap: the method is "
                "conditional, which covers within each of them; slcp covers only on average."
            )
        if self.method in NEEDS_MORE and self.law is None:
            what = f"{self.method} {NEEDS_MORE[self.method]}"
            yield f"The method {what}; none was given here."

    def judged(self, bounds: Array) -> Array:
        """Bounds (n, 2) or (n, 2, L); with one side, the other end is infinite.

        It is the end of `support` otherwise, which was not calibrated.
        """
        judged = np.empty_like(bounds)
        judged[:, 0], judged[:, 1] = -np.inf, np.inf
        asked = ONE_SIDE.get(self.sides or "", slice(None))
        judged[:, asked] = bounds[:, asked]
        return judged

    def regressor(self) -> Any:
        """The unfitted estimator; call `fit`, then `conformalize`."""
        made = getattr(localconformal, METHODS[self.method])(
            make_base_model(self.model, self.method, self.seed),
            calibration_size=None,
            confidence_level=self.levels[0],
            random_state=self.seed,
            support=self.support,
            integer=self.integer,
        )
        if self.method == "conditional":
            # Three in four rows train, so such a group has twice the calibration rows it needs.
            fewest = 6 * required_calibration_size(max(self.levels))
            made.set_params(min_group_rows=fewest)
            # Laws describe signed residuals, and without a sign sides cannot be told apart.
            if self.law is not None or self.sides is not None:
                made.set_params(conformity_score="residual")
        may_choose = self.method == "conditional" or getattr(made, "law", None) is not None
        laws = ["auto", *LAWS] if may_choose else [*LAWS]
        for name, choices in {
            "law": laws,
            "sides": SIDES,
            "cv": ("loo", "a number of folds"),
        }.items():
            if (given := getattr(self, name)) is None:
                continue
            if not takes(self.method, name):
                typed = option(f"{name}={given!r}", f"--{name} {given}")
                said = f"got {typed} for the method {self.method!r}, which has no {name}"
                raise ValueError(f"{said}; leave it out or choose another method.")
            if isinstance(given, str) and given not in choices:
                raise unknown_choice(name.removesuffix("s"), given, choices)
            if isinstance(given, int) and given < 2:
                said = f"{option('cv', '--cv')} is {given}"
                raise ValueError(f"{said}; expected loo or a number of folds, at least 2.")
            made.set_params(**{name: given})
        return made


def as_levels(given: Any, default: tuple[float, ...] = ()) -> tuple[float, ...]:
    """Levels as a tuple without repeats; the default if None or empty."""
    listed = np.asarray(() if given is None else given, dtype=float).ravel().tolist()
    levels = tuple(dict.fromkeys(listed)) or default
    if not levels:
        raise ValueError("got no confidence_level; expected one or more numbers inside (0, 1).")
    for level in levels:
        _check_share(option("confidence_level", "--level"), level)
    return levels


def as_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names as a tuple; a single text is one name."""
    return (given,) if isinstance(given, str) else tuple(given)


def _check_share(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        percent = f", such as {value / 100.0:g}" if 50.0 <= value < 100.0 else ""
        raise ValueError(f"{name} is {value:g}; expected a number inside (0, 1){percent}.")


class Predicted(NamedTuple):
    """What `TableModel.predict_file` wrote: how many rows, and notes on values not used."""

    path: Path
    rows: int
    notes: tuple[str, ...]


class Explained(NamedTuple):
    """What `TableModel.explain_file` wrote, and the mean size of each feature's part."""

    path: Path
    rows: int
    notes: tuple[str, ...]
    sizes: dict[str, float]


class ReadRows(NamedTuple):
    """Raw rows for a regressor: X (n, d), further arguments, and notes on values not used."""

    X: Any
    beside: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted estimator of this library that takes raw tables.

    ``levels`` are used if no others are requested; ``cells`` are the columns whose labels are the
    cells, if calibration was by group; ``identifier`` is the column that identifies rows; ``lost``
    counts, by column, the values of fitted rows that could not be used.
    """

    preparation: TablePreparation
    regressor: Any
    levels: tuple[float, ...]
    cells: tuple[str, ...] = ()
    target: str = ""
    identifier: str | None = None
    lost: tuple[tuple[str, int], ...] = ()
    #: Whether each column has its own groups, which overlap with those of other columns.
    cells_overlap: bool = False

    @property
    def stored_types(self) -> dict[str, str]:
        """Columns that `predict` reads from a file, and their types."""
        return {**dict.fromkeys(self.cells, tables.TEXT), **self.preparation.stored_types}

    @property
    def schema(self) -> dict[str, str]:
        """Columns of a raw row -> "numbers", "flags", "labels" or "times"."""
        kinds = {reader.name: reader.kind for reader in self.preparation.readers_}
        return {**dict.fromkeys(self.cells, "labels"), **kinds}

    def predict_interval(
        self, rows: Any, confidence_level: Any = None, *, output: str = "array"
    ) -> Any:
        """Intervals of raw rows, as in `predict`: (n, 2), or (n, 2, L) for a list of levels.

        The default level is the first of ``levels``. With ``output="frame"`` the columns are named
        as in `predict`.
        """
        X, beside = self._asked(rows)
        made = self.regressor.predict_interval(X, confidence_level, output=output, **beside)
        return made if output == "array" else _like_rows(made, rows)

    def predict(self, rows: Any, confidence_level: float | Sequence[float] = ()) -> Any:
        """Predictions and bounds of raw rows, by name.

        The frame has ``predicted``, ``lower`` and ``upper``; with several levels ``lower_0.9``,
        ``upper_0.9`` and so on. It is pandas, with the index of a pandas input; polars for polars.
        Rows are a frame, a list of dicts, or a dict: one row, or columns if its values are lists.
        None and NaN are missing values. The default levels are ``levels``.
        """
        levels = as_levels(confidence_level, self.levels)
        return _like_rows(self.predict_prepared(*self._asked(rows), levels), rows)

    def predict_prepared(
        self, X: Any, beside: Mapping[str, Any], levels: Sequence[float] = ()
    ) -> Any:
        """Predictions and bounds of rows (n, d) from `read`, as in `predict`."""
        asked = levels or self.levels
        level = asked if len(asked) > 1 else asked[0]
        # The point model is called once for both.
        rows = rows_of(self.regressor, X, beside)
        point = self.regressor.predict(rows)
        made = self.regressor.predict_interval(rows, level, output="frame", **beside)
        made.insert(0, "predicted", point)
        return made

    def explain_width(
        self, rows: Any, background: Any = None, *, confidence_level: float | None = None
    ) -> Any:
        """What each column adds to the width of each interval; see ``regressor.explain_width``.

        Rows are raw, as in `predict`, and so are ``background`` rows. The frame has a column per
        prepared feature (``sold.month`` of the times ``sold``), ``base`` and ``width``.

        Examples
        --------
        >>> table = pd.DataFrame({"size": np.arange(300.0), "price": np.arange(300.0) % 7})
        >>> model = fit_table_model(table, "price", method="split", model="linear")
        >>> list(model.explain_width({"size": 50}))
        ['size', 'base', 'width']
        """
        X, beside = self._asked(rows)
        others = None if background is None else self._asked(background)[0]
        level, explain = confidence_level or self.levels[0], self.regressor.explain_width
        return _like_rows(explain(X, others, confidence_level=level, **beside), rows)

    def predict_file(
        self,
        data: str | Path,
        out: str | Path,
        *,
        confidence_level: float | Sequence[float] = (),
        identifier: str | None = None,
        batch_rows: int = tables.DEFAULT_ROWS,
    ) -> Predicted:
        """Write intervals for a table on disk, batch by batch; the file is complete or absent.

        Parameters
        ----------
        data : str or Path
            A CSV or Parquet file, or a folder of Parquet files; may be larger than memory.
        out : str or Path
            ``.csv`` or ``.parquet``, to hold ``row`` (position in the input, from 0), the
            identifier, and what `predict` returns.
        confidence_level : float or sequence of float, default=()
        identifier : str or None, default=None
            Column that identifies rows; None is the model's, if the table has it.
        batch_rows : int, default=65536
            Rows held in memory at a time.
        """
        levels = as_levels(confidence_level, self.levels)

        def predicted(X: Any, beside: Mapping[str, Any]) -> Any:
            return self.predict_prepared(X, beside, levels)

        identifier = self._identifier(identifier, data)
        check_row_name(identifier, levels)
        return self._write_batches("predict", data, out, predicted, identifier, batch_rows)

    def explain_file(
        self,
        data: str | Path,
        out: str | Path,
        *,
        confidence_level: float | None = None,
        identifier: str | None = None,
        batch_rows: int = tables.DEFAULT_ROWS,
    ) -> Explained:
        """Write `explain_width` of a table on disk, batch by batch, as `predict_file` does.

        The file has ``row``, the identifier, a column per prepared feature, ``base`` and ``width``.
        """
        level = as_levels(confidence_level, self.levels)[0]
        names = self.preparation.get_feature_names_out()
        total, count = np.zeros(len(names)), 0

        def explained(X: Any, beside: Mapping[str, Any]) -> Any:
            nonlocal total, count
            made = self.regressor.explain_width(X, confidence_level=level, **beside)
            # Infinite intervals have no parts.
            parts = read_explained(made)[1]
            known = np.abs(parts[np.isfinite(parts).all(axis=1)])
            total, count = total + known.sum(axis=0), count + len(known)
            return made

        identifier = self._identifier(identifier, data)
        done = self._write_batches("explain", data, out, explained, identifier, batch_rows)
        mean = total / count if count else np.full(len(names), np.nan)
        return Explained(*done, dict(zip(names, mean.tolist(), strict=True)))

    def _identifier(self, asked: str | None, data: str | Path) -> str | None:
        """The column that identifies rows: the one asked for, or the model's if it is there."""
        return asked or (self.identifier if self.identifier in tables.table_columns(data) else None)

    def _write_batches(
        self,
        what: str,
        data: str | Path,
        out: str | Path,
        make: Callable[[Any, Mapping[str, Any]], Any],
        identifier: str | None,
        batch_rows: int,
    ) -> Predicted:
        """Write the frames that ``make`` returns for prepared batches of a table on disk."""
        data, out, lost, done = Path(data), Path(out), Counter[str](), 0
        tables.check_suffix(out)
        named = [] if identifier is None else [identifier]
        check_columns([*named, *self.stored_types], tables.table_columns(data), str(data))

        def batches(step: Callable[[str], None]) -> Iterator[Any]:
            nonlocal done
            # A feature that also identifies rows is read as both.
            beside = table_batches(data, dict.fromkeys(named, tables.NAME), rows=batch_rows)
            read = table_batches(data, self.stored_types, rows=batch_rows)
            for table, names in zip(read, beside if named else repeat({}), strict=False):
                with tables.about(str(data)):
                    X, lost_here = self.preparation.read(table)
                    made = make(X, self.groups_of(table))
                lost.update(lost_here)
                yield with_row_names(made, table.index.to_numpy(), names.get(identifier))
                done += len(made)
                step(say_rows(done))

        with stage(what) as step:
            write_whole(out, lambda part: tables.write_table(batches(step), part))
        return Predicted(out, done, tuple(self.preparation.lost_notes(lost)))

    def notes(self, lost: Mapping[str, int]) -> tuple[str, ...]:
        """What was done to the table; values lost in the fitted rows and in these together."""
        together = Counter(dict(self.lost)) + Counter(lost)
        return (*self.preparation.notes_, *self.preparation.lost_notes(together))

    def read(self, rows: Any) -> ReadRows:
        """Raw rows, as in `predict`, for the methods of ``regressor``.

        Examples
        --------
        >>> table = pd.DataFrame({"size": np.arange(300.0), "price": np.arange(300.0) % 7})
        >>> model = fit_table_model(table, "price", method="split", model="linear")
        >>> X, beside, notes = model.read([{"size": 10.0}, {"size": 20.0}])
        >>> model.regressor.diagnose(X, **beside).shape[0], notes
        (2, [])
        """
        table = _raw_table(rows, self.stored_types)
        X, lost = self.preparation.read(table) if is_frame(rows) else self._read_objects(table)
        return ReadRows(X, self.groups_of(table), self.preparation.lost_notes(lost))

    def _asked(self, rows: Any) -> tuple[Any, dict[str, Any]]:
        """Rows to predict, and further arguments; values that cannot be used give a warning."""
        X, beside, notes = self.read(rows)
        for sentence in notes:
            warnings.warn(sentence, UserWarning, stacklevel=3)
        return X, beside

    def _read_objects(self, table: Any) -> tuple[Any, dict[str, int]]:
        """Prepare a table of objects; a row gives the same alone as among others."""
        # pandas finds one type for a column of objects, which would depend on the other rows. So
        # only rows whose values have the same types are read together.
        kinds: dict[tuple[type, ...], list[int]] = {}
        for position, row in enumerate(table.itertuples(index=False, name=None)):
            kinds.setdefault(tuple(map(type, row)), []).append(position)
        read = [self.preparation.read(table.iloc[at].infer_objects()) for at in kinds.values()]
        lost = sum((Counter(lost_here) for _, lost_here in read), Counter[str]())
        order = np.argsort(np.concatenate(list(kinds.values())))
        return pd.concat([part for part, _ in read]).iloc[order], dict(lost)

    def groups_of(self, table: Any) -> dict[str, Any]:
        """The further arguments of a regressor whose cells are groups."""
        if self.cells_overlap and self.cells:
            return {"groups": pd.DataFrame({c: cell_labels(table, [c]) for c in self.cells})}
        return {"groups": cell_labels(table, self.cells)} if self.cells else {}


def fit_table_model(
    table: Any,
    target: str,
    *,
    method: str | None = None,
    model: Any = "default",
    confidence_level: float | Sequence[float] = 0.9,
    law: str | None = None,
    features: str | Sequence[str] = (),
    groups: str | Sequence[str] = (),
    random_state: int = 0,
    support: tuple[float | None, float | None] | None = None,
    integer: bool = False,
    sides: str | None = None,
    cv: int | str | None = None,
) -> TableModel:
    """Fit a method to a table: prepare and train on some rows, calibrate on the others.

    Parameters
    ----------
    table : pandas or polars frame
    target : str
        Column to predict; rows without a finite value there are left out.
    method : str or None, default=None
        A short name such as "slcp", "cqr", "split", or the name of an estimator. None is "slcp", or
        with several columns of groups, which overlap, "conditional" with the law of "slcp".
    model : str, Path or scikit-learn regressor, default="default"
        "default" leaves the choice to the method; "hgb", "forest", "linear", the path of a model
        file, or a model; your own is refitted.
    confidence_level : float or sequence of float, default=0.9
        Used if no others are requested.
    law : str or None, default=None
        For methods that have one, such as "kernel"; None is the method's default.
    features : str or sequence of str, default=()
        Columns to predict from; if empty, all but the target.
    groups : str or sequence of str, default=()
        Columns whose labels are the cells of "mondrian" (all columns together) or the groups of
        "conditional" (each column by itself).
    random_state : int, default=0
    support : (low, high) or None, default=None
        Range of the target, None for an open end; bounds stay inside.
    integer : bool, default=False
        Whether the target is a whole number; if so, bounds are too.
    sides : str or None, default=None
        For methods that have them, such as "upper"; None is the method's default.
    cv : int, "loo" or None, default=None
        Number of folds, for methods that have them, such as 10: all rows train and calibrate.

    Examples
    --------
    >>> table = pd.DataFrame({"size": np.arange(300.0), "price": np.arange(300.0) % 7})
    >>> model = fit_table_model(table, "price", method="split", model="linear")
    >>> list(model.predict({"size": 50}))
    ['predicted', 'lower', 'upper']
    """
    levels, named, by = as_levels(confidence_level), as_names(features), as_names(groups)
    whole = as_pandas(table)
    task = Task(target, method, model, levels, law, named, by, random_state)
    task = replace(task, support=support, integer=integer, sides=sides, cv=cv)
    task = task.on_columns(whole, "The table")
    y, known = read_target(whole[target])
    return fit_task(whole[known], y[known], task)


def fit_task(X: Any, y: Array, task: Task, new: str | Path | None = None) -> TableModel:
    """Fit a model to rows whose target is known: raw columns of features and groups, y (n,).

    ``new`` is a table to be predicted later: that it has all columns is checked before the fit.
    """
    share = CALIBRATION_SHARE if task.cv is None else None
    train, calibration = task.split(len(y), share, task.seed)
    preparation = TablePreparation().fit(X.iloc[train][list(task.features)])
    # Groups define cells for these methods only.
    overlap = task.method == "conditional"
    cells = task.groups if overlap or task.method == "mondrian" else ()
    about = (task.levels, cells, task.target, task.identifier, (), overlap)
    unfitted = TableModel(preparation, None, *about)
    if new is not None:
        check_columns(unfitted.stored_types, tables.table_columns(new), str(new))
    regressor, together = task.regressor(), Counter[str]()
    # The parts come from one table: equal values are different records.
    for part, learn in ((train, regressor.fit), (calibration, partial(calibrate_on, regressor))):
        if len(part):
            rows, lost = preparation.read(X.iloc[part])
            learn(rows, y[part], **unfitted.groups_of(X.iloc[part]))
            together.update(lost)
    return replace(unfitted, regressor=regressor, lost=tuple(together.items()))


def _raw_table(rows: Any, wanted: Iterable[str]) -> Any:
    """A pandas frame of these rows; from dicts, only the wanted columns, as objects."""
    if isinstance(rows, Mapping):
        check_columns(wanted, list(map(str, rows)), "The row")
        columns = {name: rows[name] for name in wanted}
        lengths = {len(v) if isinstance(v, _COLUMNS) else None for v in columns.values()}
        if len(lengths) > 1:
            got = "got a dict with lists of different lengths, or with lists and single values"
            raise TableError(f"{got}; expected one value per column, or lists of the same length.")
        if lengths == {None}:
            columns = {name: [value] for name, value in columns.items()}
    elif isinstance(rows, Sequence) and rows and all(isinstance(row, Mapping) for row in rows):
        for position, row in enumerate(rows):
            check_columns(wanted, list(map(str, row)), f"Row {position}")
        columns = {name: [row[name] for row in rows] for name in wanted}
    elif is_frame(check_frame(rows)):
        table = as_pandas(rows)
        check_columns(wanted, list(table.columns), "The table")
        return table
    else:
        got = "an empty list" if isinstance(rows, list) and not rows else type(rows).__name__
        raise TableError(f"got {got}; expected a dict, a list of dicts or a frame of raw rows.")
    # Values stay as they are, objects; missing ones are None.
    made = pd.DataFrame({name: list(values) for name, values in columns.items()}, dtype=object)
    return made.where(made.notna(), None)


def _like_rows(made: Any, rows: Any) -> Any:
    """The result as a frame of the same kind as the rows; pandas if they were no frame."""
    if not is_frame(rows):
        return made
    return make_frame({name: made[name].to_numpy() for name in made}, like=rows)


def cell_labels(table: Any, columns: Sequence[str]) -> list[str | None]:
    """One label per row: the text of the column, None if missing; for several, all of them."""
    texts = [list(map(_label_text, table[name])) for name in columns]
    if len(texts) == 1:
        return texts[0]
    # A bar within a name is doubled, so that different labels never give the same text.
    rows = zip(*texts, strict=True)
    return [" | ".join(name_of(text).replace("|", "||") for text in row) for row in rows]


def _label_text(value: Any) -> str | None:
    """A value as text, the same whether it was read as 2, 2.0 or "2", as True or "true"."""
    if is_missing(value):
        return None
    text = f"{value:.15g}" if isinstance(value, float) else str(value)
    return text.lower() if text.lower() in ("true", "false") else text


def check_row_name(name: str | None, levels: Sequence[float]) -> None:
    """Raise a `TableError` if the column that identifies rows is named like a result column."""
    ends = [""] if len(levels) == 1 else [f"_{level:.10g}" for level in levels]
    taken = ["row", "actual", "predicted", *(f"{s}{e}" for e in ends for s in ("lower", "upper"))]
    if name in taken:
        said = f"the column that identifies rows is called {name!r}, like a column of the results"
        raise TableError(f"{said}; rename it, or choose another column.")


def with_row_names(made: Any, rows: NDArray[Any], names: Any | None) -> Any:
    """The frame with the position of each row in the input, and its name, in front.

    An underscore is added to a name that the frame has already, as a feature may.
    """
    named = made.reset_index(drop=True)
    first = {"row": rows} if names is None else {names.name or "index": names.array, "row": rows}
    for name, values in first.items():
        while name in named:
            name += "_"
        named.insert(0, name, values)
    return named
