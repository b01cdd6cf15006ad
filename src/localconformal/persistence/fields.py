"""Objects from a file have the attributes of their class.

A file names a class and some attributes, and the object is made of them without its constructor.
What the class declares must be there: the fields of a dataclass, the parameters of an estimator.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from sklearn.base import BaseEstimator

from localconformal.persistence.sharing import is_own
from localconformal.persistence.trees import parts_of


def check_fields(model: Any) -> None:
    """Every object within the model has what its class declares, or a ValueError.

    Examples
    --------
    >>> from localconformal import AdditiveQuantile, KernelLaw
    >>> check_fields([KernelLaw(), AdditiveQuantile()])
    >>> law = KernelLaw()
    >>> del law.kernel
    >>> check_fields([law])
    Traceback (most recent call last):
        ...
    ValueError: KernelLaw lacks kernel
    """
    for part in parts_of(model):
        lacking = [name for name in declared(part) if not hasattr(part, name)]
        if lacking:
            raise ValueError(f"{type(part).__name__} lacks {', '.join(lacking)}")
        if is_own(part) and is_dataclass(part):
            unknown = [name for name in vars(part) if not is_declared(part, name)]
            if unknown:
                raise ValueError(f"{type(part).__name__} has no attribute {', '.join(unknown)}")


def declared(part: Any) -> list[str]:
    """Names that the class of an object says it has; of classes of others, only scikit-learn's."""
    if is_own(part) and is_dataclass(part):
        return [field.name for field in fields(part)]
    home = type(part).__module__.partition(".")[0]
    if isinstance(part, BaseEstimator) and home in ("localconformal", "sklearn"):
        return list(type(part)._get_param_names())
    return []


def is_declared(part: Any, name: str) -> bool:
    """Whether the class knows the attribute: a field, or a property it keeps."""
    return name in declared(part) or hasattr(type(part), name)
