"""Which candidate is being tried, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


def announced(candidates: Mapping[str, T], n: int) -> Iterator[tuple[str, T]]:
    """The items one by one, each announced on one line that is gone at the end."""
    show = sys.stderr is not None and sys.stderr.isatty()
    try:
        for step, (name, candidate) in enumerate(candidates.items(), start=1):
            if show:
                sys.stderr.write(f"\r\x1b[Klaw {step}/{len(candidates)} on {n} rows: {name} ")
                sys.stderr.flush()
            yield name, candidate
    finally:
        if show:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
