"""How long a training still takes, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

#: Seconds between two changes of the line.
SHOW_EVERY = 1.0
BAR = 24


@contextmanager
def time_left(total: int, done: int) -> Iterator[Callable[[int, str], None]]:
    """A function that is told how many steps are done, and says so on one line.

    The line has a bar, the words that come with the call and the time left, by the speed since
    the start of this run; it is gone at the end. Nothing is written where standard error is no
    terminal.

    Parameters
    ----------
    total : int
        All steps.
    done : int
        Those that an earlier run did.
    """
    show = sys.stderr is not None and sys.stderr.isatty()
    begin = time.monotonic()
    shown = begin

    def tell(steps: int, words: str) -> None:
        nonlocal shown
        now = time.monotonic()
        if show and now - shown >= SHOW_EVERY:
            shown = now
            seconds = (now - begin) / max(1, steps - done) * (total - steps)
            sys.stderr.write(f"\r\x1b[K{line(steps, total, words, seconds)} ")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        if show:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def line(steps: int, total: int, words: str, seconds: float) -> str:
    """The bar, what is done, and the time left.

    Examples
    --------
    >>> line(30, 60, "epoch 3/6", 4000.4)
    '[############            ] 50 % epoch 3/6, 1:06:40 left'
    """
    filled = BAR * steps // total
    bar = "#" * filled + " " * (BAR - filled)
    return f"[{bar}] {100 * steps // total} % {words}, {timedelta(seconds=round(seconds))} left"
