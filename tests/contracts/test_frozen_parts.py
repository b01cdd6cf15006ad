"""What is frozen by fit stays so: parts of laws and engines cannot be written to."""

import inspect
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import iter_modules

import localconformal.engine
import localconformal.laws

PARTS = [
    kind
    for package in (localconformal.engine, localconformal.laws)
    for module in iter_modules(package.__path__, f"{package.__name__}.")
    for kind in vars(import_module(module.name)).values()
    if inspect.isclass(kind) and kind.__module__ == module.name and is_dataclass(kind)
]


def test_parts_of_laws_and_engines_cannot_be_changed_after_fit():
    assert len(PARTS) > 20
    assert not [kind.__name__ for kind in PARTS if not kind.__dataclass_params__.frozen]
