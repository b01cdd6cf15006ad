"""Rows as programs have them: a dict, a list of dicts, or a frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from localconformal.columns import is_missing
from localconformal.frames import check_frame, is_frame
from localconformal.io.tables import TableError, check_columns
from localconformal.workflow.preparation import Preparation

#: Values of a dict that are columns; anything else is the value of one row.
COLUMNS = (list, tuple, np.ndarray, pd.Series, pd.Index)


def raw_table(rows: Any, wanted: Iterable[str]) -> Any:
    """A pandas frame of these rows; of dicts, the columns wanted and no others, as objects.

    Parameters
    ----------
    rows : dict, list of dicts, or frame
        A dict is one row, or columns if its values are lists or arrays.
    wanted : iterable of str
        Columns that must be there.

    Examples
    --------
    >>> raw_table({"size": 3, "kind": "a", "other": 1}, ["size", "kind"]).to_dict("list")
    {'size': [3], 'kind': ['a']}
    >>> raw_table([{"size": 3}, {"sise": 4}], ["size"])
    Traceback (most recent call last):
        ...
    localconformal.io.tables.TableError: Row 1 has no column 'size'; did you mean 'sise'?
    """
    wanted = list(wanted)
    if isinstance(rows, Mapping):
        check_columns(wanted, list(map(str, rows)), "The row" if rows else "An empty row")
        return object_frame(listed({name: rows[name] for name in wanted}))
    if isinstance(rows, Sequence) and rows and all(isinstance(row, Mapping) for row in rows):
        for position, row in enumerate(rows):
            check_columns(wanted, list(map(str, row)), f"Row {position}")
        return object_frame({name: [row[name] for row in rows] for name in wanted})
    if not is_frame(check_frame(rows)):
        got = "an empty list" if isinstance(rows, list) and not rows else type(rows).__name__
        raise TableError(
            f"got {got}; expected a dict, a list of dicts or a frame, with the columns that the "
            "model was fitted on."
        )
    table = nw.from_native(rows, eager_only=True).to_pandas()
    check_columns(wanted, list(table.columns), "The table")
    return table


def listed(row: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A list for each column; lists that are given are all of one length."""
    lengths = {len(value) if isinstance(value, COLUMNS) else None for value in row.values()}
    if len(lengths) > 1:
        raise TableError(
            "got a dict with lists of several lengths, or with lists and single values; expected "
            "one value per column, or lists of the same length."
        )
    return {name: [value] if lengths == {None} else list(value) for name, value in row.items()}


def object_frame(columns: Mapping[str, list[Any]]) -> Any:
    """A frame whose values stay the objects that they are; missing ones are None."""
    known = {
        name: [None if is_missing(value) else value for value in values]
        for name, values in columns.items()
    }
    return pd.DataFrame(known, dtype=object)


def prepared(preparation: Preparation, table: Any) -> tuple[Any, dict[str, int]]:
    """What `Preparation.transform` makes of a table of objects; a row alone is as in company.

    pandas finds one type for a column of objects, which would depend on the other rows. So rows
    whose values are of the same types are read together, and others apart.
    """
    kinds: dict[tuple[type, ...], list[int]] = {}
    for position, row in enumerate(table.itertuples(index=False, name=None)):
        kinds.setdefault(tuple(map(type, row)), []).append(position)
    read = [preparation.transform(table.iloc[at].infer_objects()) for at in kinds.values()]
    lost: Counter[str] = Counter()
    for _, lost_here in read:
        lost.update(lost_here)
    order = np.argsort(np.concatenate(list(kinds.values())))
    return pd.concat([part for part, _ in read]).iloc[order], dict(lost)
