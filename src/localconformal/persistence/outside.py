"""A model from a file keeps to itself: no cache, no callbacks, no files, no network.

A model file brings no code, but some settings of its estimators lead out of the model once it is
fitted or asked: a cache on disk holds pickles, a vectorizer reads the files that its rows name, and
LightGBM takes paths and hosts among its further settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from localconformal.persistence.trees import parts_of

#: Where scikit-learn keeps results on disk, as pickles; without it they are computed again.
CACHE = "memory"
#: Where scikit-learn keeps what `set_fit_request` and its like were told.
REQUESTS = "_metadata_request"
#: Parameter -> its only value that does not lead out.
HARMLESS = {CACHE: None, "callback": None, "callbacks": None, "input": "content"}
#: Settings that a constructor does not name and that may be texts; others could be paths or hosts.
FURTHER_TEXTS = frozenset(
    {
        "boosting",
        "data_sample_strategy",
        "device_type",
        "metric",
        "monotone_constraints_method",
        "tree_learner",
        "updater",
    }
)
#: In the place of an estimator.
STEP_TEXTS = ("drop", "passthrough")
#: Attributes with settings that a constructor does not name, and with those that a search tries.
FURTHER, TRIED = ("_other_params", "kwargs"), ("param_grid", "param_distributions")


def drop_caches(model: Any) -> None:
    """No estimator within the model keeps results on disk; what it computes stays the same.

    Examples
    --------
    >>> from sklearn.pipeline import Pipeline
    >>> model = Pipeline([("last", "passthrough")], memory="folder")
    >>> drop_caches(model)
    >>> model.memory is None
    True
    """
    for part in _estimators(model):
        if vars(part).get(CACHE) is not None:
            setattr(part, CACHE, None)


def without_requests(model: Any) -> Any:
    """The model, or a copy of it, whose estimators request no metadata.

    Requests say what `fit` is to be given. A fitted model has no use for them, and skops, which
    follows them back to their estimator, would not come to an end.
    """
    if not any(REQUESTS in vars(part) for part in _estimators(model)):
        return model
    copied = deepcopy(model)
    for part in _estimators(copied):
        vars(part).pop(REQUESTS, None)
    return copied


def check_inside(model: Any) -> None:
    """No other setting of an estimator within the model leads out of it, or a ValueError.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> check_inside(CountVectorizer())
    >>> check_inside(CountVectorizer(input="filename"))
    Traceback (most recent call last):
        ...
    ValueError: CountVectorizer has input='filename', which leads out of the model
    """
    for part in _estimators(model):
        for name, value, is_named in _settings(part):
            if name in HARMLESS:
                leads_out = not _is(value, HARMLESS[name])
            else:
                leads_out = not is_named and name not in FURTHER_TEXTS and _has_text(value)
            if leads_out:
                said = repr(value) if isinstance(value, (str, bytes)) else type(value).__name__
                raise ValueError(
                    f"{type(part).__name__} has {name}={said}, which leads out of the model"
                )


def _estimators(model: Any) -> Iterator[Any]:
    return (part for part in parts_of(model) if isinstance(part, BaseEstimator))


def _settings(part: Any) -> Iterator[tuple[str, Any, bool]]:
    """Name, value, and whether a constructor names it; without the cache, which is dropped."""
    named = _named(part)
    for name in named & vars(part).keys() - {CACHE}:
        yield name, getattr(part, name), True
    for attribute in FURTHER:
        for name, value in _entries(getattr(part, attribute, None)):
            yield name, value, name in named
    for attribute in TRIED:
        tried = _entries(getattr(part, attribute, None))
        known = {name for inside in _estimators(part) for name in _named(inside)} if tried else {}
        for path, values in tried:
            name = path.rpartition("__")[2]
            for value in values if isinstance(values, (list, tuple, np.ndarray)) else [values]:
                yield name, value, name in known


def _named(part: Any) -> set[str]:
    """Parameters that the constructors of a class and of those above it name."""
    kinds = (kind for kind in type(part).__mro__ if hasattr(kind, "_get_param_names"))
    return {name for kind in kinds for name in kind._get_param_names()}


def _entries(settings: Any) -> list[tuple[str, Any]]:
    """Of a dict, or of each dict in a list."""
    if isinstance(settings, dict):
        return [(str(name), value) for name, value in settings.items()]
    listed = settings if isinstance(settings, (list, tuple)) else ()
    return [entry for one in listed for entry in _entries(one)]


def _is(value: Any, wanted: str | None) -> bool:
    return value is None if wanted is None else isinstance(value, str) and value == wanted


def _has_text(value: Any) -> bool:
    if isinstance(value, (list, tuple, set, np.ndarray)):
        return any(map(_has_text, value))
    return isinstance(value, (str, bytes)) and value not in STEP_TEXTS
