"""Objects that others share, written once.

A model file is a tree, and skops writes an object again at every place that holds it. A fitted
law holds the point model at dozens of places: as a tree it is ten times itself. So the objects of
this library are taken apart first: what is held more than once stands in a list, and a number in
the list's place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Values that are written where they stand.
PLAIN = (str, bytes, int, float, complex, bool, type(None), type, np.dtype, np.generic)


@dataclass(frozen=True)
class Shared:
    """In the place of an object that stands elsewhere: its position there."""

    position: int


@dataclass(frozen=True, eq=False)
class Flat:
    """A model whose shared parts stand in a list.

    Attributes
    ----------
    root : Any
    parts : list
    """

    root: Any
    parts: list[Any]


def is_own(value: Any) -> bool:
    """Whether the value is an object of this library that is made of its attributes."""
    return type(value).__module__.partition(".")[0] == "localconformal" and hasattr(
        value, "__dict__"
    )


def attributes(value: Any) -> dict[str, Any]:
    """What an object of this library is made of."""
    state = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
    return dict(state or {})


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A container of the same kind with its entries changed; other values as they are."""
    if type(value) in (list, tuple):
        return type(value)(change(entry) for entry in value)
    if type(value) is dict:
        return {key: change(entry) for key, entry in value.items()}
    return value


@dataclass
class Flattening:
    """The passage from a model to `Flat`: count who holds what, then write each once."""

    counts: Counter[int] = field(default_factory=Counter)
    #: Kept alive, so that no other object gets an identity that was counted.
    met: list[Any] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    states: dict[int, dict[str, Any]] = field(default_factory=dict)

    def count(self, value: Any) -> None:
        """Count every object from here on, each by the places that hold it."""
        if isinstance(value, PLAIN):
            return
        self.counts[id(value)] += 1
        if self.counts[id(value)] > 1:
            return
        self.met.append(value)
        if is_own(value):
            # Kept, for the second pass must meet the same objects.
            self.states[id(value)] = attributes(value)
            rebuilt(self.states[id(value)], self.count)
        else:
            rebuilt(value, self.count)

    def write(self, value: Any) -> Any:
        """The value with shared objects as their positions."""
        is_container = type(value) in (list, tuple, dict)
        if isinstance(value, PLAIN) or is_container or self.counts[id(value)] == 1:
            return self.write_here(value)
        if id(value) not in self.places:
            self.places[id(value)] = len(self.parts)
            self.parts.append(None)
            self.parts[self.places[id(value)]] = self.write_here(value)
        return Shared(self.places[id(value)])

    def write_here(self, value: Any) -> Any:
        """The value itself: a copy if it is ours, its entries written."""
        if not is_own(value):
            return rebuilt(value, self.write)
        copy = object.__new__(type(value))
        vars(copy).update(rebuilt(self.states[id(value)], self.write))
        return copy


def flatten(model: Any) -> Flat:
    """The model with what is shared standing once; the model itself is not changed.

    Examples
    --------
    >>> shared = np.zeros(3)
    >>> flat = flatten({"a": [shared, shared]})
    >>> flat.root, len(flat.parts)
    ({'a': [Shared(position=0), Shared(position=0)]}, 1)
    >>> again = restore(flat)
    >>> again["a"][0] is again["a"][1]
    True
    """
    passage = Flattening()
    passage.count(model)
    return Flat(passage.write(model), passage.parts)


def restore(flat: Flat) -> Any:
    """The model of a `Flat`, whose objects are used, not copied."""
    done: set[int] = set()

    def resolve(value: Any) -> Any:
        if isinstance(value, Shared):
            return flat.parts[value.position]
        if not is_own(value):
            return rebuilt(value, resolve)
        if id(value) not in done:
            done.add(id(value))
            vars(value).update(rebuilt(vars(value), resolve))
        return value

    for position, part in enumerate(flat.parts):
        flat.parts[position] = resolve(part)
    return resolve(flat.root)
