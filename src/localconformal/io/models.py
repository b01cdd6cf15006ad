"""Fitted models as files that hold data, never code."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import sklearn

from localconformal import __version__
from localconformal.io.checks import (
    PLAIN,
    check_fields,
    check_inside,
    check_leaves,
    check_nodes,
    check_numbers,
    check_trees,
    drop_caches,
    is_own,
    parts_of,
    without_requests,
)
from localconformal.io.files import write_whole
from localconformal.models import shown

#: Modules of this library whose classes a fitted model is made of. Those that read or write files,
#: or call what they are given, are none of them.
OWN_MODULES = (
    "adjustments",
    "calibration",
    "default_model",
    "densities",
    "distributed.known",
    "engine",
    "laws",
    "models",
    "regressors",
    "scores",
    "selection",
    "workflow.columns",
    "workflow.model",
    "workflow.preparation",
)
FOREIGN_TYPES = frozenset(
    {
        "collections.OrderedDict",
        # Of one function alone, which `nodes` checks.
        "functools.partial",
        "localconformal.io.models.Flat",
        "localconformal.io.models.Shared",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMRegressor",
        # A function, of the forest law: its leaves come as they are.
        "numpy.asarray",
        "numpy.dtype",
        # Losses and bins of gradient boosting: only later versions of skops know them.
        "sklearn._loss.link.IdentityLink",
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogLink",
        "sklearn._loss.loss.AbsoluteError",
        "sklearn._loss.loss.HalfGammaLoss",
        "sklearn._loss.loss.HalfPoissonLoss",
        "sklearn._loss.loss.HalfSquaredError",
        "sklearn._loss.loss.HuberLoss",
        "sklearn._loss.loss.PinballLoss",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        # A function that gradient boosting applies to columns with categories.
        "sklearn.utils.validation.check_array",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBRegressor",
    }
)


def is_allowed(name: str) -> bool:
    """Whether a model file may name this type.

    Examples
    --------
    >>> is_allowed("localconformal.calibration.Calibration")
    True
    >>> is_allowed("localconformal.calibration.np"), is_allowed("os.system")
    (False, False)
    >>> is_allowed("localconformal.distributed.computing.Call")
    False
    """
    return name in FOREIGN_TYPES or is_own_class(name)


def is_own_class(name: str) -> bool:
    """Whether the name is that of a class that one of our modules defines; no function is."""
    module, _, attribute = name.rpartition(".")
    package, _, inside = module.partition(".")
    homes = (home for home in OWN_MODULES if f"{inside}.".startswith(f"{home}."))
    if package != "localconformal" or not any(homes):
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module


DIGEST = "localconformal.sha256"


def sealed(data: bytes) -> bytes:
    """A zip file with the digest of its entries added.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("schema.json", "{}")
    >>> has_digest(file.getvalue()), has_digest(sealed(file.getvalue()))
    (False, True)
    """
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(DIGEST, content_digest(archive))
    return file.getvalue()


def has_digest(data: bytes) -> bool:
    """Whether the zip file has a digest, and all is as it says; a ValueError if it is not.

    Every entry is read, so that the check sums of the zip file are compared too.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        expected = content_digest(archive)
        if DIGEST not in archive.namelist():
            return False
        if archive.read(DIGEST).decode("ascii", "replace") != expected:
            raise ValueError("its content does not have the digest that it was written with")
    return True


def content_digest(archive: zipfile.ZipFile) -> str:
    """SHA-256 of the names and contents of all entries but the digest, in hexadecimal."""
    names = sorted(archive.namelist())
    if len(set(names)) < len(names):
        raise ValueError("it holds two entries of the same name")
    whole = sha256()
    for name in names:
        if name != DIGEST:
            # Of fixed length each, so that no name can pass for a content.
            whole.update(sha256(name.encode()).digest())
            whole.update(sha256(archive.read(name)).digest())
    return whole.hexdigest()


STAMP = "localconformal.json"
#: 0 had no stamp, and is otherwise the same.
FORMAT = 1


@dataclass(frozen=True)
class Stamp:
    """The number of a format, and package -> version."""

    format: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Packages with their versions, in words."""
        return " with ".join(f"{name} {version}" for name, version in self.versions.items())


def own_stamp() -> Stamp:
    """Of files written here and now.

    Examples
    --------
    >>> list(own_stamp().versions), own_stamp().format == FORMAT
    (['localconformal', 'scikit-learn'], True)
    """
    return Stamp(FORMAT, {"localconformal": __version__, "scikit-learn": sklearn.__version__})


def stamped(data: bytes) -> bytes:
    """A zip file with the stamp added."""
    file, own = io.BytesIO(data), own_stamp()
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(STAMP, json.dumps({"format": own.format, "versions": own.versions}))
    return file.getvalue()


def read_stamp(data: bytes) -> Stamp:
    """The stamp of a zip file, format 0 where there is none; a ValueError if it cannot be read."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if STAMP not in archive.namelist():
            return Stamp()
        content = json.loads(archive.read(STAMP))
    if not isinstance(content, dict) or type(content.get("format")) is not int:
        raise ValueError("its stamp has no number of a format")
    versions = content.get("versions")
    known = versions.items() if isinstance(versions, dict) else ()
    return Stamp(content["format"], {str(name): str(version) for name, version in known})


@dataclass(frozen=True)
class Shared:
    """In the place of an object that stands elsewhere: its position there."""

    position: int


@dataclass(frozen=True, eq=False)
class Flat:
    """A model whose shared parts stand in a list.

    Attributes
    ----------
    root : Any
    parts : list
    """

    root: Any
    parts: list[Any]


def attributes(value: Any) -> dict[str, Any]:
    """What an object of this library is made of."""
    state = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
    return dict(state or {})


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A container of the same kind with its entries changed; other values as they are."""
    if type(value) in (list, tuple):
        return type(value)(change(entry) for entry in value)
    if type(value) is dict:
        return {key: change(entry) for key, entry in value.items()}
    return value


@dataclass
class Flattening:
    """The passage from a model to `Flat`: count who holds what, then write each once."""

    counts: Counter[int] = field(default_factory=Counter)
    #: Kept alive, so that no other object gets an identity that was counted.
    met: list[Any] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    states: dict[int, dict[str, Any]] = field(default_factory=dict)

    def count(self, value: Any) -> None:
        """Count every object from here on, each by the places that hold it."""
        if isinstance(value, PLAIN):
            return
        self.counts[id(value)] += 1
        if self.counts[id(value)] > 1:
            return
        self.met.append(value)
        if is_own(value):
            # Kept, for the second pass must meet the same objects.
            self.states[id(value)] = attributes(value)
            rebuilt(self.states[id(value)], self.count)
        else:
            rebuilt(value, self.count)

    def write(self, value: Any) -> Any:
        """The value with shared objects as their positions."""
        is_container = type(value) in (list, tuple, dict)
        if isinstance(value, PLAIN) or is_container or self.counts[id(value)] == 1:
            return self.write_here(value)
        if id(value) not in self.places:
            self.places[id(value)] = len(self.parts)
            self.parts.append(None)
            self.parts[self.places[id(value)]] = self.write_here(value)
        return Shared(self.places[id(value)])

    def write_here(self, value: Any) -> Any:
        """The value itself: a copy if it is ours, its entries written."""
        if not is_own(value):
            return rebuilt(value, self.write)
        copy = object.__new__(type(value))
        vars(copy).update(rebuilt(self.states[id(value)], self.write))
        return copy


def flatten(model: Any) -> Flat:
    """The model with what is shared standing once; the model itself is not changed.

    Examples
    --------
    >>> shared = {1, 2}
    >>> flat = flatten({"a": [shared, shared]})
    >>> flat.root, len(flat.parts)
    ({'a': [Shared(position=0), Shared(position=0)]}, 1)
    >>> again = restore(flat)
    >>> again["a"][0] is again["a"][1]
    True
    """
    passage = Flattening()
    passage.count(model)
    return Flat(passage.write(model), passage.parts)


def restore(flat: Flat) -> Any:
    """The model of a `Flat`, whose objects are used, not copied."""
    done: set[int] = set()

    def resolve(value: Any) -> Any:
        if isinstance(value, Shared):
            return flat.parts[value.position]
        if not is_own(value):
            return rebuilt(value, resolve)
        if id(value) not in done:
            done.add(id(value))
            vars(value).update(rebuilt(vars(value), resolve))
        return value

    for position, part in enumerate(flat.parts):
        flat.parts[position] = resolve(part)
    return resolve(flat.root)


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
    localconformal.io.models.ModelFileError: skops 0.11.0 is installed, with which a \
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
    localconformal.io.models.ModelFileError: model.skops was altered, or written by \
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
