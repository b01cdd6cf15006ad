"""Reading and writing files: complete or absent; tables; models that hold data, never code.

Names are imported when first used: writing a file needs neither pyarrow nor the engines.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME_OF = {
    **dict.fromkeys(("check_outputs", "write_together", "write_whole"), "files"),
    **dict.fromkeys(("ModelFileError", "load_model", "save_model"), "models"),
    **dict.fromkeys(
        ("TableError", "read_table", "table_batches", "table_columns", "write_table"), "tables"
    ),
}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'localconformal.io' has no attribute {name!r}")
    return getattr(import_module(f"localconformal.io.{_HOME_OF[name]}"), name)
