"""Which candidate is being tried, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def announcing(count: int, n: int) -> Iterator[Callable[[str], None]]:
    """A function that names the candidate begun, on one line that is gone at the end."""
    show = sys.stderr is not None and sys.stderr.isatty()
    begun: list[str] = []

    def announce(name: str) -> None:
        begun.append(name)
        if show:
            sys.stderr.write(f"\r\x1b[Klaw {len(begun)}/{count} on {n} rows: {name} ")
            sys.stderr.flush()

    try:
        yield announce
    finally:
        if show:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
