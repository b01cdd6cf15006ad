"""The places of a model file that make skops call something, looked at before skops does.

skops makes objects of types that are on a list, but some of its nodes also call what they name: a
method, a constructor with arguments, the type of a dict's key. A model that `save_model` writes
has none of the first two, and its keys are texts and numbers. What is on the list is thereby made,
and never called, while a file is read.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

#: They call a method or a constructor.
CALLING = ("ConstructorFromReduceNode", "MethodNode", "OperatorFuncNode")
#: What `functools.partial` may wrap: gradient boosting applies it to columns with categories.
WRAPPED = ("FunctionNode", "sklearn.utils.validation", "check_array")


def check_nodes(data: bytes) -> None:
    """Nothing in the file has anything called, or a ValueError.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("schema.json", json.dumps({"__loader__": "MethodNode"}))
    >>> check_nodes(file.getvalue())
    Traceback (most recent call last):
        ...
    ValueError: it has a MethodNode, which would call something
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        schema = json.loads(archive.read("schema.json"))
    known: dict[Any, Any] = {}
    for node in _nodes(schema):
        if node["__loader__"] in CALLING:
            raise ValueError(f"it has a {node['__loader__']}, which would call something")
        # skops takes the first node with an id for all later ones, whatever they say.
        if "__id__" in node and known.setdefault(node["__id__"], _kind(node)) != _kind(node):
            raise ValueError("it has two different objects with the same id")
        if node["__loader__"] == "PartialNode" and _kind(node["content"]["func"]) != WRAPPED:
            raise ValueError("it has a functools.partial of an unknown function")
        for key in _key_types(node):
            if key["__loader__"] != "TypeNode" or key["__module__"] not in ("builtins", "numpy"):
                raise ValueError("it has a dict whose keys would be made by a call")


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
            if "__loader__" in part:
                yield part
        elif isinstance(part, list):
            waiting += part


def _kind(node: Any) -> tuple[Any, ...]:
    return tuple(node.get(name) for name in ("__loader__", "__module__", "__class__"))


def _key_types(node: dict[str, Any]) -> list[Any]:
    """What a dict's keys are made of."""
    types = node.get("key_types")
    if types is None:
        return []
    if _kind(types) != ("ListNode", "builtins", "list"):
        raise ValueError("it has a dict whose keys would be made by a call")
    return list(types["content"])
