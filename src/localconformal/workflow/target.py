"""The column to predict: numbers, or a sentence on why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.io.tables import TableError
from localconformal.quantiles import Array
from localconformal.workflow.columns import as_floats


@dataclass(frozen=True, eq=False)
class Target:
    """Values of the target (n,), and in which rows they are known and finite (n,)."""

    values: Array
    known: NDArray[np.bool_]

    def notes(self, name: str) -> tuple[str, ...]:
        """A sentence on rows without a value."""
        count = int(np.count_nonzero(~self.known))
        if not count:
            return ()
        return (f"{count:,} of {len(self.known):,} rows have no finite {name!r}: left out.",)


def read_target(column: Any) -> Target:
    """The numbers of a target; texts, flags, times and a constant are refused.

    Examples
    --------
    >>> import pandas as pd
    >>> read_target(pd.Series([1.5, None, 2.0], name="price")).known
    array([ True, False,  True])
    """
    name = column.name
    values = as_floats(column, "the target", flags=False)
    known = np.isfinite(values)
    if not known.any():
        raise TableError(f"the target {name!r} has no finite value; numbers were expected.")
    if np.ptp(values[known]) == 0 and column[known].nunique() > 1:
        low, high = column[known].min(), column[known].max()
        raise TableError(
            f"the target {name!r} goes from {low} to {high}, which are one number to the 16 digits "
            "kept here; expected numbers that differ more: subtract a constant from them first."
        )
    if np.ptp(values[known]) == 0:
        raise TableError(
            f"the target {name!r} is {values[known][0]:g} in every row; there is nothing to "
            "predict: choose another target."
        )
    return Target(values, known)
