"""From any table to numbers and categories: learned on training rows, a function of the row.

It learns which columns distinguish rows, which strings are times and in what format, and which
labels there are. Nothing is imputed, scaled or encoded here: that is left to the model, and
gradient boosting needs none of it. ``notes_`` lists all decisions. A table in docs/command_line.md
says how each kind of column is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types as kinds
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from localconformal.columns import NUMBER, TIME
from localconformal.io.tables import TEXT, TableError, check_columns, why_no_number
from localconformal.quantiles import Array
from localconformal.rows import check_frame, is_frame
from localconformal.text import listing

#: Most labels distinguished: below the number of categories that gradient boosting accepts.
MOST_LABELS = 200
#: Strings are not labels if more than this share of them differ, and more than this many.
_IDENTIFIER_SHARE, _IDENTIFIER_LABELS = 0.5, 50
#: A column is named like an identifier if its name ends with one of these words, or begins with id.
_IDENTIFIER_WORDS = frozenset(
    ("id", "ids", "index", "idx", "row", "no", "nr", "number", "key", "uid", "identifier")
)
#: The same as one word; not simply any name that ends in "id", as "paid" and "grid" do.
_JOINED_IDENTIFIER = re.compile(
    r"(?:row|record|user|customer|client|patient|person|passenger|member|account|order|product"
    r"|item|session|transaction|house|home)_?id"
)
#: Words, also if only capitals separate them: customerId, CustomerID.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: Whole numbers that could all be days are read as days if the column's name looks like this.
_NAMED_LIKE_A_DAY = re.compile(r"date|day|time|datum|ymd|\bdt\b|_dt$|^dt_", re.IGNORECASE)
#: Spellings of a flag.
_FLAGS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}

_ISO = "ISO8601"
#: A day as eight digits, which may also be a number; read as a day only in these years.
_DAY_NUMBER, _DAY_YEARS = "%Y%m%d", (1900, 2099)
#: Day before month: if all strings fit both orders, the first format that fits is used.
_DATES = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
#: Formats that are tried on strings, in this order.
FORMATS = (_ISO, *(day + clock for day in _DATES for clock in _CLOCKS), "%H:%M:%S", "%H:%M")
#: A string is tried only if it looks like one of those.
_LOOKS_LIKE_TIME = (
    r"^\s*(?:\d{1,4}[-/.:]\d{1,2}|\d{8}(?:T|\s*$)|\d{1,2}[ -][A-Za-z]{3}|[A-Za-z]{3,9} \d{1,2}, )"
)
#: Number of strings that are tried before all of them are.
_TRIED_FIRST = 200
_SECONDS_PER_DAY = 86_400.0
_DAYS = "days"

_CONSTANT = "Left out because all training rows have the same value"


class TablePreparation(TransformerMixin, BaseEstimator):
    """Tables as numbers and categories, learned from training rows.

    Attributes
    ----------
    readers_ : tuple of readers
        One for each column that is used: how `transform` reads it, as plain data.
    notes_ : tuple of str
        What was done, in sentences.

    Examples
    --------
    >>> days = ["2020-01-31", "2020-02-01"]
    >>> table = pd.DataFrame({"day": days, "same": 1, "kind": ["a", "b"]})
    >>> learned = TablePreparation().fit(table)
    >>> learned.notes_[1]
    "Left out because all training rows have the same value: 'same'."
    >>> prepared, lost = learned.read(pd.DataFrame({"day": ["2020-03-01"], "kind": ["z"]}))
    >>> list(prepared), lost
    (['day.days', 'day.month', 'day.day', 'day.weekday', 'kind'], {'kind': 1})
    """

    def fit(self, X: Any, y: Any = None) -> TablePreparation:
        """Learn from training rows, a frame (n, d), how to read such a table."""
        table = as_pandas(X)
        said: dict[str, list[str]] = {}
        learned = {name: _learn_column(table[name]) for name in table.columns}
        for name, (_, reasons) in learned.items():
            for reason in reasons:
                said.setdefault(reason, []).append(repr(str(name)))
        readers = tuple(reader for reader, _ in learned.values() if reader is not None)
        if not readers:
            raise TableError(
                f"none of the columns {listing(map(repr, table.columns))} distinguishes training "
                "rows; expected at least one column with several values."
            )
        self.readers_: tuple[_Reader, ...] = readers
        self.notes_ = tuple(f"{reason}: {listing(names)}." for reason, names in said.items())
        self.n_features_in_ = len(table.columns)
        self.feature_names_in_ = np.asarray(table.columns.map(str), dtype=object)
        return self

    def transform(self, X: Any) -> Any:
        """Numbers and categories, a pandas frame (n, columns made)."""
        return self.read(X)[0]

    def read(self, X: Any) -> tuple[Any, dict[str, int]]:
        """The output of `transform`, and how many values of each column could not be used.

        Columns that are not used are ignored and may be missing.
        """
        check_is_fitted(self)
        table = as_pandas(X)
        check_columns(self.stored_types, list(table.columns), "The table")
        read = {one.name: one.read(table[one.name]) for one in self.readers_}
        made = {name: values for columns, _ in read.values() for name, values in columns.items()}
        lost = {name: count for name, (_, count) in read.items() if count}
        return pd.DataFrame(made, index=table.index), lost

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that `transform` makes."""
        check_is_fitted(self)
        return np.array([name for reader in self.readers_ for name in reader.made], dtype=object)

    @property
    def stored_types(self) -> dict[str, str]:
        """Columns to read from a file, and their kinds: for `localconformal.io.table_batches`."""
        return {reader.name: _KINDS[reader.kind][0] for reader in self.readers_}

    @property
    def day_columns(self) -> dict[str, str]:
        """Columns of days that `transform` makes -> the columns of times they come from."""
        return {f"{one.name}.{_DAYS}": one.name for one in self.readers_ if _DAYS in one.parts}

    def with_dates(self, X: Any) -> Any:
        """The output of `transform` with times instead of days since 1970: audits show dates."""
        times = {name: pd.to_datetime(X[name], unit="D") for name in self.day_columns}
        return X.assign(**times).rename(columns=self.day_columns)

    def lost_notes(self, lost: Mapping[str, int]) -> list[str]:
        """Sentences on values that could not be used."""
        why = {reader.name: reader.lost for reader in self.readers_}
        return [
            f"1 value of {name!r} {why[name]}; it counts as missing."
            if count == 1
            else f"{count:,} values of {name!r} {why[name]}; they count as missing."
            for name, count in lost.items()
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def as_pandas(X: Any) -> Any:
    """A frame as a pandas frame; anything else is an error."""
    if not is_frame(check_frame(X)):
        raise TableError(f"got {type(X).__name__}; expected a frame with named columns.")
    table = nw.from_native(X, eager_only=True).to_pandas()
    if others := [name for name in table.columns if not isinstance(name, str)]:
        raise TableError(
            f"got the column {'name' if len(others) == 1 else 'names'} "
            f"{listing(map(repr, others))}; expected strings: rename them, for example with "
            "table.rename(columns=str)."
        )
    return table


#: Kind of a column -> what a file is read as, and why a value could not be used.
_KINDS = {
    "numbers": (NUMBER, "could not be used (infinite)"),
    "flags": (TEXT, "could not be read as true or false"),
    "labels": (TEXT, "could not be found among the labels of training rows"),
    "times": (TIME, "could not be read as a time"),
}


@dataclass(frozen=True)
class _Reader:
    """How to read a column: its kind, its labels in training rows, or the parts of time used."""

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    time_format: str = ""
    parts: tuple[str, ...] = ()

    @property
    def lost(self) -> str:
        # Training rows may have had rarer labels than those kept.
        most, why = f"the {MOST_LABELS} most frequent labels", _KINDS[self.kind][1]
        return why if len(self.labels) < MOST_LABELS else why.replace("the labels", most)

    @property
    def made(self) -> list[str]:
        return [f"{self.name}.{part}" for part in self.parts] or [self.name]

    def read(self, column: Any) -> tuple[dict[str, Any], int]:
        """The columns made from one, each (n,), and how many of its values could not be read."""
        made = dict(zip(self.made, self._values(column), strict=True))
        is_missing = pd.isna(next(iter(made.values())))
        return made, int(np.count_nonzero(column.notna().to_numpy() & is_missing))

    def _values(self, column: Any) -> list[Any]:
        if self.kind == "times":
            found = _time_parts(self.times(column))
            return [found[part] for part in self.parts]
        if self.kind == "labels":
            texts = _as_texts(column)
            return [pd.Categorical(texts.where(texts.isin(self.labels)), list(self.labels))]
        is_number = kinds.is_numeric_dtype(column) or kinds.is_bool_dtype(column)
        if self.kind == "flags" and not is_number:
            flags = _as_texts(column).str.strip().str.lower().map(_FLAGS)
            return [flags.astype("float64").to_numpy()]
        values = as_floats(column)
        return [np.where(np.isinf(values), np.nan, values)]

    def times(self, column: Any) -> Any:
        """Times without a zone; values that cannot be read are missing."""
        if self.time_format == _DAY_NUMBER:
            column = _day_texts(column)
        elif column.notna().any() and kinds.is_numeric_dtype(column):
            raise TableError(
                f"column {self.name!r} holds numbers; expected times, as in training rows."
            )
        times = _parse_times(column, self.time_format)
        if self.time_format not in (_ISO, _DAY_NUMBER):
            # Days in ISO order are never ambiguous; eight digits may be.
            times = times.fillna(_parse_times(column, _ISO))
        return times


_Learned = tuple[_Reader | None, list[str]]


def _learn_column(column: Any) -> _Learned:
    """The reader of one column, None if it is left out, and notes about it."""
    # With missing values, pandas keeps booleans as objects.
    known = column.dropna().infer_objects()
    if not len(known):
        return None, ["Left out because training rows have no values there"]
    missing = ["Missing values are kept as missing"] if len(known) < len(column) else []
    if known.nunique() == 1 and not missing:
        return None, [_CONSTANT]
    name = str(column.name)
    if kinds.is_bool_dtype(known):
        return _Reader(name, "flags"), ["Read as 1 (true) and 0 (false)", *missing]
    if kinds.is_timedelta64_dtype(known):
        known = known.dt.total_seconds()
    if kinds.is_numeric_dtype(known):
        return _learn_number(name, known, missing)
    if kinds.is_datetime64_any_dtype(known):
        return _learn_time(name, known, _ISO, missing)
    texts = _as_texts(known)
    time_format = _find_format(texts)
    if time_format is not None:
        return _learn_time(name, texts, time_format, missing)
    return _learn_labels(name, texts, missing)


def _learn_number(name: str, known: Any, missing: list[str]) -> _Learned:
    """Numbers, unless they only count the rows, or are days."""
    values = as_floats(known)
    if not missing and np.all(values == values[0]):
        same = "its values differ only beyond the 15 digits or so of a float"
        return None, [f"Left out because {same}"]
    whole = np.isfinite(values) & (np.trunc(values) == values)
    if _names_rows(name) and whole.all() and known.nunique() == len(known):
        numbers = "whole numbers, all different, in a column named like an identifier"
        return None, [f"Left out because it numbers the rows: {numbers}"]
    # Few columns pass the first condition, which is faster than parsing strings.
    is_near = known.between(10_000 * _DAY_YEARS[0], 10_000 * _DAY_YEARS[1] + 9_999).all()
    if not (is_near and _parse_times(_day_texts(known), _DAY_NUMBER).notna().all()):
        return _Reader(name, "numbers"), missing
    if _NAMED_LIKE_A_DAY.search(name):
        return _learn_time(name, _day_texts(known), _DAY_NUMBER, missing)
    said = "Read as numbers, though all could be days such as 20141013 (no date in the name)"
    return _Reader(name, "numbers"), [said, *missing]


def _names_rows(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return (
        name.startswith("Unnamed: ")
        or words[:1] == ["id"]
        or not _IDENTIFIER_WORDS.isdisjoint(words[-1:])
        or _JOINED_IDENTIFIER.fullmatch(name.lower()) is not None
    )


def _learn_time(name: str, known: Any, time_format: str, missing: list[str]) -> _Learned:
    """Times, as the parts that vary."""
    found = _time_parts(_parse_times(known, time_format))
    parts = tuple(part for part, values in found.items() if np.ptp(values) > 0)
    if not parts:
        return None, [_CONSTANT]
    written = "" if time_format == _ISO else f" (written {time_format})"
    said = [f"Read as a time{written}, by its {', '.join(parts)}"]
    if not kinds.is_datetime64_any_dtype(known) and _is_ambiguous(known, time_format):
        said.append(
            "Day and month are ambiguous in all training rows; the day is assumed to come first "
            "(write 2014-10-31 to be clear)"
        )
    return _Reader(name, "times", (), time_format, parts), [*said, *missing]


def _learn_labels(name: str, texts: Any, missing: list[str]) -> _Learned:
    """Labels, the most frequent ones, unless nearly every row has its own."""
    counts, some = texts.value_counts(), texts.iloc[:_TRIED_FIRST]
    said = []
    if sum(why_no_number(text) is not None for text in some) > 0.5 * len(some):
        said.append("Not read as numbers, because of a decimal comma or thousands separators")
    if len(counts) > max(_IDENTIFIER_LABELS, _IDENTIFIER_SHARE * len(texts)):
        why = "most training rows have a different text there, as in an identifier"
        return None, [*said, f"Left out because {why}"]
    # Ties are in the order of labels, so that the order of rows does not matter.
    ordered = sorted(counts.index, key=lambda label: (-counts[label], label))
    labels = tuple(sorted(str(label) for label in ordered[:MOST_LABELS]))
    later = "so other labels in later rows count as missing"
    is_mostly_number = _numbers_in(texts).notna().mean() > 0.5
    why = "although most of the texts are numbers" if is_mostly_number else later
    said.append(f"Read as categories, {why}")
    if len(counts) > MOST_LABELS:
        kept = f"the {MOST_LABELS} most frequent labels are distinguished"
        said.append(f"Only {kept}; the others count as missing")
    return _Reader(name, "labels", labels), [*said, *missing]


def text_among_numbers(column: Any) -> tuple[str, int] | None:
    """The first text in a column of mostly numbers, and its position; None if there is none."""
    if kinds.is_numeric_dtype(column) or kinds.is_datetime64_any_dtype(column):
        return None
    known, is_number = column.notna().to_numpy(), _numbers_in(column).notna().to_numpy()
    texts = np.flatnonzero(known & ~is_number)
    if not 0 < len(texts) < 0.5 * known.sum():
        return None
    return str(column.iloc[texts[0]])[:40], int(texts[0])


def with_times(X: Any) -> Any:
    """The frame with days as times, in whatever format: then audits show dates."""
    read = (_learn_column(X[name])[0] for name in X.columns)
    timed = [one for one in read if one is not None and _DAYS in one.parts]
    return X.assign(**{one.name: one.times(X[one.name]) for one in timed})


def in_time(column: Any) -> tuple[NDArray[Any], list[str]]:
    """Times, or numbers such as years (n,), NaT or NaN if missing; and notes about them."""
    if kinds.is_bool_dtype(column):
        raise TableError(
            f"column {column.name!r} holds flags; expected times or numbers to split by."
        )
    if kinds.is_numeric_dtype(column):
        return as_floats(column), []
    if kinds.is_datetime64_any_dtype(column):
        return _parse_times(column, _ISO).to_numpy(), []
    texts = _as_texts(column)
    time_format = _find_format(texts)
    if time_format is None:
        raise TableError(
            f"column {column.name!r} holds texts such as {str(texts.dropna().iloc[0])[:40]!r}; "
            "expected times in one format, or numbers, to split by."
        )
    said = f"Day and month are ambiguous in all rows of {column.name!r}; "
    is_open = _is_ambiguous(texts.dropna(), time_format)
    notes = [said + "the day is assumed to come first."] if is_open else []
    return _parse_times(texts, time_format).to_numpy(), notes


def read_target(column: Any) -> tuple[Array, NDArray[np.bool_]]:
    """The numbers of a target (n,), and where they are finite; an error for text or a constant."""
    name, values = column.name, as_floats(column, "the target", flags=False)
    known = np.isfinite(values)
    if not known.any():
        raise TableError(f"the target {name!r} has no finite value; expected numbers.")
    if np.ptp(values[known]) > 0:
        return values, known
    if column[known].nunique() > 1:
        low, high = column[known].min(), column[known].max()
        raise TableError(
            f"the target {name!r} goes from {low} to {high}, which are equal to the 16 digits of a "
            "float; expected numbers that differ more: subtract a constant from them first."
        )
    raise TableError(
        f"the target {name!r} is {values[known][0]:g} in every row, so there is nothing to "
        "predict; choose another target."
    )


def as_floats(column: Any, called: str = "column", *, flags: bool = True) -> Array:
    """A column of numbers as floats (n,), NaN if missing; an error if it holds anything else.

    Durations are in seconds. ``called`` is the word for the column in messages; with ``flags``,
    true and false are read as 1 and 0.
    """
    if kinds.is_timedelta64_dtype(found := column.infer_objects()):
        column = found.dt.total_seconds()
    is_flag = kinds.is_bool_dtype(column)
    is_time = kinds.is_datetime64_any_dtype(column)
    if is_time or (is_flag and not flags):
        raise TableError(
            f"{called} {column.name!r} holds {'times' if is_time else 'flags'}; expected numbers: "
            "convert it, or choose another column."
        )
    if not (kinds.is_numeric_dtype(column) or is_flag):
        numbers = _numbers_in(column)
        wrong = column[numbers.isna() & column.notna()]
        if len(wrong):
            first, others = str(wrong.iloc[0]), len(wrong) - 1
            more = f", and {others:,} more text{'s' * (others > 1)} in later rows"
            raise TableError(
                f"{called} {column.name!r} holds {first[:40]!r} (row {wrong.index[0]}, counted "
                f"from 0){more if others else ''}; expected numbers: "
                f"{why_no_number(first) or 'correct it or leave it empty'}."
            )
        column = numbers
    return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan))


def _as_texts(column: Any) -> Any:
    """Values as strings, whole numbers without a decimal point; missing ones stay missing."""
    is_known = column.notna()
    if kinds.is_float_dtype(column):
        column = column.map(lambda value: f"{value:.15g}", na_action="ignore")
    return column.astype("object").where(is_known, None).astype("string")


def _numbers_in(column: Any) -> Any:
    return pd.to_numeric(_as_texts(column), errors="coerce").astype("float64")


def _day_texts(column: Any) -> Any:
    """Days such as 20141013, numbers or strings, as strings; times stay times."""
    return column if kinds.is_datetime64_any_dtype(column) else _as_texts(_numbers_in(column))


def _find_format(texts: Any) -> str | None:
    """The format in which all strings are times, if there is one; missing ones are ignored."""
    known = texts.dropna()
    some = known.iloc[:_TRIED_FIRST]
    if not len(known) or not some.str.contains(_LOOKS_LIKE_TIME).all():
        return None
    # Eight digits are a day of recent years, or none: ISO would accept the year 1234 too.
    for tried in (_DAY_NUMBER,) if some.str.isdigit().all() else FORMATS:
        if _parse_times(some, tried).notna().all() and _parse_times(known, tried).notna().all():
            return tried
    return None


def _is_ambiguous(texts: Any, time_format: str) -> bool:
    """Whether the strings are also valid, but different, with day and month swapped."""
    swapped = time_format.replace("%d", "\0").replace("%m", "%d").replace("\0", "%m")
    if swapped == time_format or swapped not in FORMATS:
        return False
    others = _parse_times(texts, swapped)
    return bool(others.notna().all() and (others != _parse_times(texts, time_format)).any())


def _parse_times(column: Any, time_format: str) -> Any:
    """Strings or times as UTC times without a zone; values that cannot be read are missing."""
    if time_format == _DAY_NUMBER and not kinds.is_datetime64_any_dtype(column):
        column = column.where(column.str.fullmatch(r"\d{8}", na=False))
    parsed = pd.to_datetime(column, format=time_format, errors="coerce", utc=True)
    if time_format == _DAY_NUMBER:
        parsed = parsed.where(parsed.dt.year.between(*_DAY_YEARS))
    return parsed.dt.tz_localize(None)


def _time_parts(times: Any) -> dict[str, Array]:
    """All parts of the times, NaN if missing: part -> (n,)."""
    seconds = (times - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
    parts = {
        _DAYS: seconds / _SECONDS_PER_DAY,
        "month": times.dt.month,
        "day": times.dt.day,
        "weekday": times.dt.day_of_week,
        "hour": np.mod(seconds, _SECONDS_PER_DAY) / 3600.0,
    }
    return {name: part.astype("float64").to_numpy() for name, part in parts.items()}
