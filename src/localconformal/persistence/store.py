"""Save and load."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from localconformal.files import write_whole
from localconformal.models import shown
from localconformal.persistence.allowed import is_allowed
from localconformal.persistence.digest import has_digest, sealed
from localconformal.persistence.fields import check_fields
from localconformal.persistence.leaves import check_leaves
from localconformal.persistence.nodes import check_nodes
from localconformal.persistence.numbers import check_numbers
from localconformal.persistence.outside import check_inside, drop_caches, without_requests
from localconformal.persistence.sharing import Flat, flatten, restore
from localconformal.persistence.stamp import FORMAT, Stamp, own_stamp, read_stamp, stamped
from localconformal.persistence.trees import check_trees, parts_of

#: Fast, and half the size.
COMPRESSION = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}
#: What a model may raise whose parts do not fit each other.
MISFITS = (AttributeError, IndexError, KeyError, OverflowError, TypeError)
#: Earlier ones run code that a crafted file brings.
OLDEST_SKOPS = (0, 12)
#: Why a model with a network in it is no file.
NETWORK = "it holds a network of PyTorch, whose layers are code that no file of this kind has"


class ModelFileError(ValueError):
    """A file that is no model of this library, or a model that cannot be a file; one sentence."""


def skops_io() -> Any:
    """skops.io of a version that is safe, or an error that says what to install."""
    try:
        found = str(import_module("skops").__version__)
        check_skops(found)
        return import_module("skops.io")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Model files need skops, which this installation lacks: run "
            "pip install 'localconformal[cli]'."
        ) from error


def check_skops(version: str) -> None:
    """Refuse versions that would run code of a crafted file.

    Examples
    --------
    >>> check_skops("0.12.0"), check_skops("1.0")
    (None, None)
    >>> check_skops("0.11.0")
    Traceback (most recent call last):
        ...
    localconformal.persistence.store.ModelFileError: skops 0.11.0 is installed, with which a \
crafted model file can run code; 0.12 or later is needed: run pip install 'skops>=0.12'.
    """
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_SKOPS:
        needed = ".".join(map(str, OLDEST_SKOPS))
        raise ModelFileError(
            f"skops {version} is installed, with which a crafted model file can run code; "
            f"{needed} or later is needed: run pip install 'skops>={needed}'."
        )


def save_model(model: Any, path: str | Path) -> Path:
    """Write a fitted estimator to a skops file; it is whole or not there.

    Parameters
    ----------
    model : fitted estimator
        Of this library; or a scikit-learn model, to be the base model of a command.
    path : str or Path
        Folders that are missing are made.

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
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise ModelFileError(
            f"{shown(model)[:80]} came to be saved, which is no estimator; one with predict was "
            "expected."
        )
    skops = skops_io()
    try:
        check_inside(model)
        data = sealed(stamped(bytes(skops.dumps(flatten(without_requests(model)), **COMPRESSION))))
        unknown = refused_types(model_types(data))
        if not unknown:
            check_nodes(data)
    except Exception as error:
        why = NETWORK if any(map(is_network, parts_of(model))) else one_line(error)
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved ({why}); use models and settings "
            "without functions of your own, or pickle it yourself."
        ) from error
    if unknown:
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved: it holds {', '.join(unknown)}, which a model "
            "file may not name; use another model of scikit-learn, LightGBM or XGBoost, or pickle "
            "it yourself."
        )
    return data


def is_network(part: Any) -> bool:
    """Whether the object is one of PyTorch's or skorch's, or of a class derived from theirs."""
    homes = {kind.__module__.partition(".")[0] for kind in type(part).__mro__}
    return not homes.isdisjoint({"torch", "skorch"})


def model_types(data: bytes) -> list[str]:
    """Types in a model file that skops wants to be told, for its ``trusted=``."""
    return list(skops_io().get_untrusted_types(data=data))


def refused_types(names: list[str]) -> list[str]:
    """Types that are on no list."""
    return [name for name in names if not is_allowed(name)]


def load_model(path: str | Path) -> Any:
    """Read a model file. Nothing is unpickled, and no type is made that is not on our list.

    The file carries a SHA-256 digest of its content: one that was damaged or edited is refused.
    It tells the version that wrote it, too: files of earlier formats load, those of later ones are
    refused.
    The digest is no signature. Whoever means to deceive can write one that fits; such a file brings
    no code, but its intervals can be wrong: load models from people you trust.
    What leads out of a model does not come with it: caches on disk (``memory=``) are dropped, which
    changes no result; callbacks, and settings that name files or hosts, are refused.

    Parameters
    ----------
    path : str or Path
        Of a file from `save_model`; or of a scikit-learn model that skops wrote, which has no
        digest.

    Returns
    -------
    fitted estimator

    Raises
    ------
    ModelFileError
        The file is missing, not whole, altered, of a later format, or names another type.
    """
    path = Path(path)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise ModelFileError(f"{path} {state}; give the path of a model file (.skops).")
    if not zipfile.is_zipfile(path):
        raise ModelFileError(
            f"{path} is not a whole model file; make it again (save_model, or localconformal run)."
        )
    # Before reading: that it is missing is no fault of the file.
    skops_io()
    data = path.read_bytes()
    stamp = Stamp()
    try:
        stamp = read_stamp(data)
        check_format(path, stamp)
        is_sealed = has_digest(data)
        types = model_types(data)
        unknown = refused_types(types)
        if not unknown:
            check_nodes(data)
    except ModelFileError:
        raise
    except Exception as error:
        raise altered(path, error, stamp) from error
    if unknown:
        raise ModelFileError(
            f"{path} names {one_line(', '.join(unknown))}, which no model file of this library "
            "may; it was not loaded."
        )
    return construct(path, data, types, is_sealed, stamp)


def check_format(path: Path, stamp: Stamp) -> None:
    """The file is of a format that is known here."""
    if not 0 <= stamp.format <= FORMAT:
        raise ModelFileError(
            f"{path} was written by {one_line(str(stamp) or 'another version')} in format "
            f"{one_line(stamp.format, 12)}; formats up to {FORMAT} can be read by {own_stamp()}: "
            "install a later version, or make the model again."
        )


def construct(path: Path, data: bytes, types: list[str], is_sealed: bool, stamp: Stamp) -> Any:
    """The model of a file whose types are all on the list."""
    try:
        loaded = skops_io().loads(data, trusted=types)
        if isinstance(loaded, Flat) and not is_sealed:
            raise ValueError("its digest is missing")
        model = restore(loaded) if isinstance(loaded, Flat) else loaded
        drop_caches(model)
        for check in (check_fields, check_trees, check_leaves, check_numbers):
            check(model)
    except ImportError as error:
        raise ModelFileError(
            f"{path} needs {one_line(error.name or 'a package')}, which is not installed; install "
            "it."
        ) from error
    except Exception as error:
        raise altered(path, error, stamp) from error
    try:
        check_inside(model)
    except ValueError as error:
        raise ModelFileError(
            f"{path} was not loaded: {one_line(error)}; save the model without that setting."
        ) from error
    return model


@contextmanager
def reading_model(path: str | Path) -> Iterator[None]:
    """Around predictions of a loaded model: parts that do not fit each other are the file's fault.

    `AttributeError`, `IndexError`, `KeyError`, `OverflowError` and `TypeError` become a
    `ModelFileError`. A file that was crafted with a digest that fits comes this far; errors about
    the table (`ValueError`) pass.

    Examples
    --------
    >>> with reading_model("model.skops"):
    ...     [0.5][2**30]
    Traceback (most recent call last):
        ...
    localconformal.persistence.store.ModelFileError: model.skops was altered, or written by \
another version (list index out of range); make it again.
    """
    try:
        yield
    except MISFITS as error:
        raise altered(Path(path), error) from error


def altered(path: Path, error: Exception, stamp: Stamp | None = None) -> ModelFileError:
    """The sentence about a file that is not as this version writes it."""
    if stamp is not None and stamp.versions and stamp != own_stamp():
        return ModelFileError(
            f"{path} was written by {one_line(stamp)} and does not load with {own_stamp()} "
            f"({one_line(error)}); make it again, or install the versions it was written by."
        )
    return ModelFileError(
        f"{path} was altered, or written by another version ({one_line(error)}); make it again."
    )


def one_line(said: Any, width: int = 160) -> str:
    """What an exception or a file says: on one line, not endless, and shown but not obeyed.

    Examples
    --------
    >>> print(one_line("two\\nlines, \\x1b[31mred"))
    two lines, \\x1b[31mred
    """
    text = " ".join(str(said).split()).rstrip(".") or type(said).__name__
    text = text if len(text) <= width else f"{text[:width]}..."
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
