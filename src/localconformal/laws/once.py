"""Predictions shared by the laws of one query.

Members of a stack look at the same point model, blend and spread. Within `one_query` each of
these is computed once; nothing is remembered beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from localconformal.quantiles import Array

#: (function, rows) by identity -> (both, answer); both are kept, so that identities stay theirs.
_known: ContextVar[dict[tuple[int, int], tuple[Any, Array]] | None] = ContextVar(
    "known", default=None
)


@contextmanager
def one_query() -> Iterator[None]:
    """While this lasts, a `Once` asked again about the same rows answers from memory."""
    if _known.get() is not None:
        yield
        return
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


@dataclass(frozen=True, eq=False)
class Once:
    """A function of rows that several laws ask."""

    function: Callable[[Any], Array]

    def __call__(self, X: Any) -> Array:
        """The function's answer."""
        known = _known.get()
        if known is None:
            return self.function(X)
        key = (id(self), id(X))
        if key not in known:
            known[key] = ((self, X), self.function(X))
        return known[key][1]
