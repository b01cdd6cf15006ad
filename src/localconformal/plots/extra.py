"""What plots need beyond the core: asked for before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Function = Callable[Parameters, Result]


def needs(*packages: str) -> Callable[[Function[Parameters, Result]], Function[Parameters, Result]]:
    """A function that says how to install these packages where they are missing."""

    def guard(made: Function[Parameters, Result]) -> Function[Parameters, Result]:
        @wraps(made)
        def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            if missing := [name for name in packages if find_spec(name) is None]:
                raise ImportError(
                    f"{made.__name__} needs {' and '.join(missing)}, which this environment "
                    "lacks: run pip install 'localconformal[plots]'."
                )
            return made(*args, **kwargs)

        return guarded

    return guard
