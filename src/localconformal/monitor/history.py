"""The course of a stream at some of its rows: never many, however long it is."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Points beyond which every other one is dropped.
MOST_POINTS = 256


@dataclass
class History:
    """Points at every ``stride``-th row; the stride doubles when there are too many.

    Parameters
    ----------
    stride : int
    points : list of (row, rows covered so far, log-martingale)
        Rows are counted from 1.
    """

    stride: int = 1
    points: list[tuple[int, int, float]] = field(default_factory=list)

    def add(self, row: int, n_covered: int, log_martingale: float) -> None:
        """Take note of this row, if it is its turn.

        Examples
        --------
        >>> history = History()
        >>> for row in range(1, 1_001):
        ...     history.add(row, row, 0.0)
        >>> history.stride, len(history.points), history.points[-1][0]
        (4, 250, 1000)
        """
        if row % self.stride:
            return
        self.points.append((row, n_covered, log_martingale))
        if len(self.points) > MOST_POINTS:
            self.stride *= 2
            self.points = [point for point in self.points if point[0] % self.stride == 0]


def stride_after(rows: int) -> int:
    """The stride of a history of so many rows, which has a point at each of its multiples.

    Examples
    --------
    >>> [stride_after(rows) for rows in (0, 256, 257, 1_000)]
    [1, 1, 2, 4]
    """
    stride = 1
    while rows // stride > MOST_POINTS:
        stride *= 2
    return stride
