"""Predictions shared by the laws of one query.

Members of a stack look at the same point model, blend and spread, and a point model may look at
the same network as the law around it. Within `one_query` each of these is computed once; nothing
is remembered beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from localconformal.quantiles import Array

#: (what is asked, rows) by identity -> (both, answer); both are kept: identities stay theirs.
_known: ContextVar[dict[Hashable, tuple[Any, Any]] | None] = ContextVar("known", default=None)


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


def ask_once(asked: Any, X: Any, answer: Callable[[], Any], *settings: Hashable) -> Any:
    """What ``asked`` (an object) says of rows X in these settings; from memory when known."""
    known = _known.get()
    if known is None:
        return answer()
    key = (id(asked), id(X), *settings)
    if key not in known:
        known[key] = ((asked, X), answer())
    return known[key][1]


@dataclass(frozen=True, eq=False)
class Once:
    """A function of rows that several laws ask."""

    function: Callable[[Any], Array]

    def __call__(self, X: Any) -> Array:
        """The function's answer."""
        answer: Array = ask_once(self, X, lambda: self.function(X))
        return answer
