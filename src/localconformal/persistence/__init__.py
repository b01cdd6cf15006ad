"""Fitted models as files that hold data, never code.

The format is skops: a zip file of arrays and a JSON tree that names a type at each place. Reading
one unpickles nothing. Every type named must be on the list of `allowed`, which is part of this
library; a list beside the file is for people and other programs, and is never asked. A digest in
the file tells whether it holds what was written (`digest` says what that is worth).
"""

from localconformal.persistence.store import (
    ModelFileError,
    load_model,
    model_bytes,
    model_types,
    reading_model,
    save_model,
)

__all__ = [
    "ModelFileError",
    "load_model",
    "model_bytes",
    "model_types",
    "reading_model",
    "save_model",
]
