"""Files in and out: whole or not there, tables, and fitted models that hold data, never code.

Names are imported when first used: writing a file needs neither pyarrow nor the engines.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "files": ("check_outputs", "write_together", "write_whole"),
    "models": ("ModelFileError", "load_model", "save_model"),
    "tables": ("TableError", "table_columns", "read_table", "table_batches", "write_table"),
}
_HOME_OF = {name: f"localconformal.io.{home}" for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'localconformal.io' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
