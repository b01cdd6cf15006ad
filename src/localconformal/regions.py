"""Prediction sets that may have gaps: for each row, a union of closed intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.quantiles import Array, Support

_Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class Region:
    """For each of n rows a union of closed intervals, its pieces, in ascending order.

    Every row has at least one piece: as everywhere in this library, an empty set is shown as a
    point, so lengths and hulls are always numbers.

    Parameters
    ----------
    starts : array of shape (pieces,)
        Lower ends of all pieces, row after row; -inf if a piece is unbounded.
    ends : array of shape (pieces,)
        Their upper ends; +inf if a piece is unbounded.
    offsets : array of shape (n + 1,)
        The pieces of row i are at offsets[i]:offsets[i + 1].

    Examples
    --------
    >>> region = Region([0.0, 2.0, 1.0], [1.0, 4.0, np.inf], [0, 2, 3])
    >>> region
    Region(3 pieces of 2 rows)
    >>> region[0]
    [(0.0, 1.0), (2.0, 4.0)]
    >>> region.length
    array([ 3., inf])
    >>> region.contains([1.5, 1.5])
    array([False,  True])
    >>> region.hull
    array([[ 0.,  4.],
           [ 1., inf]])
    """

    starts: Array
    ends: Array
    offsets: _Rows

    def __post_init__(self) -> None:
        for name, kind in (("starts", np.float64), ("ends", np.float64), ("offsets", np.intp)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        if self.starts.shape != self.ends.shape or not np.all(self.starts <= self.ends):
            raise ValueError(
                f"got {len(self.starts)} starts and {len(self.ends)} ends; expected as many ends "
                "as starts, none below its start."
            )
        whole = len(self.offsets) and self.offsets[0] == 0 and self.offsets[-1] == len(self.starts)
        if not whole or not np.all(np.diff(self.offsets) >= 1):
            raise ValueError(
                f"got offsets {self.offsets!r}; expected numbers from 0 to {len(self.starts)}, the "
                "number of pieces, that increase by at least one per row."
            )

    @classmethod
    def of_bins(cls, keep: NDArray[np.bool_], edges: Array) -> Region:
        """The closed bins selected by ``keep`` (n, M), neighbours joined; ``edges`` (M + 1,).

        Examples
        --------
        >>> Region.of_bins(np.array([[True, True, False, True]]), np.arange(5.0))[0]
        [(0.0, 2.0), (3.0, 4.0)]
        """
        padded = np.pad(keep, ((0, 0), (1, 1)))
        row, first = np.nonzero(padded[:, 1:] & ~padded[:, :-1])
        _, last = np.nonzero(padded[:, :-1] & ~padded[:, 1:])
        counts = np.bincount(row, minlength=len(keep))
        return cls(edges[first], edges[last], np.concatenate([[0], np.cumsum(counts)]))

    @classmethod
    def concatenate(cls, regions: Sequence[Region]) -> Region:
        """The rows of all regions, in order; no rows if there are no regions."""
        return cls(
            np.concatenate([[], *(region.starts for region in regions)]),
            np.concatenate([[], *(region.ends for region in regions)]),
            np.cumsum(np.concatenate([[0], *(region.n_pieces for region in regions)])),
        )

    def within(self, support: Support) -> Region:
        """The region cut to a support; a row left empty gets the value nearest its first piece.

        Examples
        --------
        >>> cut = Region([-2.0, 0.5, 3.2], [-1.0, 2.5, 3.4], [0, 2, 3]).within(Support(0, 9, True))
        >>> cut[0], cut[1]
        ([(1.0, 2.0)], [(3.0, 3.0)])
        """
        cut = support.inside(np.stack([self.starts, self.ends], axis=1))
        kept = cut[:, 0] <= cut[:, 1]
        alone = self.offsets[:-1][~self._by_row(np.logical_or, kept)]
        middle = 0.5 * self.starts[alone] + 0.5 * self.ends[alone]
        cut[alone], kept[alone] = support.nearest(middle)[:, None], True
        starts, ends = cut[kept].T
        return Region(starts, ends, np.concatenate([[0], np.cumsum(kept)])[self.offsets])

    @property
    def n_pieces(self) -> _Rows:
        """Number of intervals of each row: (n,)."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> _Rows:
        """The row that each piece belongs to: (pieces,)."""
        return np.repeat(np.arange(len(self)), self.n_pieces)

    @property
    def length(self) -> Array:
        """Total length of each row's pieces: (n,)."""
        return self._by_row(np.add, self.ends - self.starts)

    @property
    def hull(self) -> Array:
        """The smallest interval around each row's pieces: (n, 2)."""
        lower, upper = self._by_row(np.minimum, self.starts), self._by_row(np.maximum, self.ends)
        return np.stack([lower, upper], axis=1)

    def contains(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether y (n,) lies in the region of its row: (n,)."""
        values = np.asarray(y, dtype=np.float64)
        if values.shape != (len(self),):
            raise ValueError(f"y has shape {values.shape}; expected ({len(self)},), one per row.")
        each = values[self.rows]
        return self._by_row(np.logical_or, (self.starts <= each) & (each <= self.ends))

    def _by_row(self, combine: np.ufunc, pieces: NDArray[Any]) -> NDArray[Any]:
        # reduceat does not accept an empty list of indices.
        return combine.reduceat(pieces, self.offsets[:-1]) if len(self) else pieces

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        """(lower, upper) of each piece of one row; or the region of several rows."""
        if isinstance(index, Integral):
            row = range(len(self))[int(index)]
            part = slice(self.offsets[row], self.offsets[row + 1])
            return list(zip(self.starts[part].tolist(), self.ends[part].tolist(), strict=True))
        rows = np.arange(len(self))[index]
        counts = self.n_pieces[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        pieces = np.repeat(self.offsets[rows], counts) + within
        return Region(self.starts[pieces], self.ends[pieces], offsets)

    def __repr__(self) -> str:
        return f"Region({len(self.starts)} pieces of {len(self)} rows)"
