"""Save and load."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from localconformal.files import write_whole
from localconformal.persistence.allowed import is_allowed
from localconformal.persistence.sharing import Flat, flatten, restore
from localconformal.persistence.trees import check_trees

#: Fast, and half the size.
COMPRESSION = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}


class ModelFileError(ValueError):
    """A file that is no model of this library, or a model that cannot be a file; one sentence."""


def save_model(model: Any, path: str | Path) -> Path:
    """Write a fitted estimator to a skops file; it is whole or not there.

    Parameters
    ----------
    model : fitted estimator
    path : str or Path

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal import SplitConformalRegressor
    >>> X, y = np.arange(60.0).reshape(-1, 1), np.arange(60.0)
    >>> model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> path = save_model(model, Path(tempfile.mkdtemp()) / "model.skops")
    >>> again = load_model(path)
    >>> bool(np.all(again.predict_interval(X) == model.predict_interval(X)))
    True
    """
    data = model_bytes(model)
    return write_whole(Path(path), lambda part: part.write_bytes(data))


def model_bytes(model: Any) -> bytes:
    """The content of a model file; refused if `load_model` would not take it."""
    import skops.io

    try:
        data = bytes(skops.io.dumps(flatten(model), **COMPRESSION))
        unknown = refused_types(model_types(data))
    except Exception as error:
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved ({one_line(error)}); use models and settings "
            "without functions of your own, or pickle it yourself."
        ) from error
    if unknown:
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved: it holds {', '.join(unknown)}, which a model "
            "file may not name; use models of scikit-learn, LightGBM or XGBoost."
        )
    return data


def model_types(data: bytes) -> list[str]:
    """Types in a model file that skops wants to be told, for its ``trusted=``."""
    import skops.io

    return list(skops.io.get_untrusted_types(data=data))


def refused_types(names: list[str]) -> list[str]:
    """Types that are on no list."""
    return [name for name in names if not is_allowed(name)]


def load_model(path: str | Path) -> Any:
    """Read a model file. Nothing is unpickled, and no type is made that is not on our list.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    fitted estimator

    Raises
    ------
    ModelFileError
        The file is missing, not whole, altered, or names another type.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"{path} does not exist; give the path of a model file (.skops).")
    if not zipfile.is_zipfile(path):
        raise ModelFileError(
            f"{path} is not a whole model file; make it again (save_model, or localconformal run)."
        )
    data = path.read_bytes()
    try:
        check_whole(path)
        types = model_types(data)
    except Exception as error:
        raise altered(path, error) from error
    unknown = refused_types(types)
    if unknown:
        raise ModelFileError(
            f"{path} names {', '.join(unknown)}, which no model file of this library may; it was "
            "not loaded."
        )
    return construct(path, data, types)


def construct(path: Path, data: bytes, types: list[str]) -> Any:
    """The model of a file whose types are all on the list."""
    import skops.io

    try:
        loaded = skops.io.loads(data, trusted=types)
        model = restore(loaded) if isinstance(loaded, Flat) else loaded
        check_trees(model)
    except ImportError as error:
        raise ModelFileError(
            f"{path} needs {error.name or 'a package'}, which is not installed; install it."
        ) from error
    except Exception as error:
        raise altered(path, error) from error
    return model


def check_whole(path: Path) -> None:
    """Every part of the zip file has its check sum."""
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise ValueError(f"the check sum of {broken} is wrong")


def altered(path: Path, error: Exception) -> ModelFileError:
    """The sentence about a file that is not as it was written."""
    return ModelFileError(
        f"{path} was altered, or written by another version ({one_line(error)}); make it again."
    )


def one_line(error: Exception, width: int = 160) -> str:
    """What an exception says, on one line and not endless."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= width else f"{text[:width]}..."
