"""Names that are not among those to choose from."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: str, choices: Iterable[str]) -> ValueError:
    """The error to raise: what came, what was probably meant, and what there is.

    Examples
    --------
    >>> unknown("method", "slpc", ["slcp", "split"])
    ValueError("There is no method 'slpc'; did you mean slcp? Choose one of slcp, split.")
    """
    known = list(choices)
    near = get_close_matches(name.lower(), known, n=1)
    end = f"did you mean {near[0]}? Choose" if near else "choose"
    return ValueError(f"There is no {kind} {name!r}; {end} one of {', '.join(known)}.")
