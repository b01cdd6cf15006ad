"""Fitted models as files that hold data, never code.

The format is skops: a zip file of arrays and a JSON tree that names a type at each node. Every
type must be on the list here, and the objects are checked (`localconformal.io.checks`) before
compiled loops use them. SECURITY.md says what this protects against, and what it does not.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from localconformal.io import checks
from localconformal.io.checks import PLAIN, is_own
from localconformal.io.files import write_whole
from localconformal.text import one_line
from localconformal.versions import versions

#: Earlier versions run code from a crafted file.
OLDEST_SKOPS = (0, 12)
#: Entry with the versions of the packages that wrote a file.
STAMP, STAMPED = "localconformal.json", ("localconformal", "scikit-learn")

#: Modules of this library whose classes a fitted model is made of; none of them reads or writes
#: files, or calls what it is given.
_OWN_MODULES = (
    *("adjustments", "columns", "composition", "conditional", "corrections", "cross"),
    *("default_model", "densities", "engine", "laws", "models", "preparation", "quantiles"),
    *("regressors", "scores"),
    *("tabular.model", "torch.tensors"),
)
#: Module -> names in it that a file may also use, beyond scikit-learn's estimators, NumPy and
#: SciPy, which skops knows. Only later versions of skops know gradient boosting's losses and bins.
_FURTHER = {
    "collections": "OrderedDict",
    # Of a single function, which `check_nodes` checks.
    "functools": "partial",
    "lightgbm.basic": "Booster",
    "lightgbm.sklearn": "LGBMRegressor",
    "localconformal.distributed.estimator": "KnownCalibration",
    "localconformal.io.models": "Flat Shared",
    # asarray is a function, used by the forest law for leaves that need no change.
    "numpy": "asarray dtype",
    "sklearn._loss.link": "IdentityLink Interval LogLink",
    "sklearn._loss.loss": "AbsoluteError HalfGammaLoss HalfPoissonLoss HalfSquaredError HuberLoss "
    "PinballLoss",
    "sklearn.compose._column_transformer": "_RemainderColsList make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    # Trees, which `check_model` checks, and gradient boosting's treatment of categories.
    "sklearn.tree._tree": "Tree",
    "sklearn.utils.validation": "check_array",
    "xgboost.core": "Booster",
    "xgboost.sklearn": "XGBRegressor",
}
FURTHER_TYPES = {f"{home}.{name}" for home, names in _FURTHER.items() for name in names.split()}


class ModelFileError(ValueError):
    """A file that is not a model of this library, or a model that cannot be saved; one sentence."""


def save_model(model: Any, path: str | Path) -> Path:
    """Write a fitted estimator to a skops file, which is complete or absent.

    Parameters
    ----------
    model : fitted estimator
        Of this library; or a scikit-learn model, as the base model of a command.
    path : str or Path

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal import SplitConformalRegressor
    >>> X, y = [[float(x)] for x in range(60)], list(range(60))
    >>> model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> again = load_model(save_model(model, f"{tempfile.mkdtemp()}/model.skops"))
    >>> bool((again.predict_interval(X) == model.predict_interval(X)).all())
    True
    """
    data = model_bytes(model)
    return write_whole(Path(path), lambda part: part.write_bytes(data))


def model_bytes(model: Any) -> bytes:
    """The content of a model file; an error if `load_model` would refuse it."""
    if isinstance(model, type) or not hasattr(model, "predict"):
        got = f"got {one_line(repr(model), 80)}; expected a fitted estimator with predict"
        raise ModelFileError(f"Only models can be saved: {got}.")
    skops, name = skops_io(), type(model).__name__
    try:
        checks.check_inside(model)
        flat = _flatten(checks.without_requests(model))
        # Fast, and half the size.
        file = io.BytesIO(skops.dumps(flat, compression=zipfile.ZIP_DEFLATED, compresslevel=1))
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(STAMP, json.dumps(versions(STAMPED)))
        data = file.getvalue()
        _, unknown = _named_types(data)
    except Exception as error:
        why = _said(error)
        kinds = (kind for part in checks.parts_of(model) for kind in type(part).__mro__)
        if any(kind.__module__.partition(".")[0] in ("torch", "skorch") for kind in kinds):
            why = "it holds a PyTorch network, whose layers are code, which model files exclude"
        remedy = "use models and settings without your own functions, or pickle it yourself"
        raise ModelFileError(f"{name} cannot be saved ({why}); {remedy}.") from error
    if unknown:
        why = f"it holds {', '.join(unknown)}, which a model file may not contain"
        remedy = "use another model from scikit-learn, LightGBM or XGBoost, or pickle it yourself"
        if all(kind.startswith("sklearn.model_selection._split.") for kind in unknown):
            remedy = "fit with a number of folds as cv, or pickle it yourself"
        raise ModelFileError(f"{name} cannot be saved: {why}; {remedy}.")
    return data


def load_model(path: str | Path) -> Any:
    """Read a model file. Nothing is unpickled, and only types on our list are created.

    A damaged file, or one of another version that this one cannot read, is refused with a
    `ModelFileError`. Someone who edits a file on purpose can make a model whose intervals are
    wrong, though not one that runs code: load only models from people you trust. Caches on disk
    (``memory=``) are dropped, which changes no result; callbacks, and settings that name files or
    hosts, are refused. Scikit-learn models saved by skops are read too.
    """
    path = Path(path)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise ModelFileError(f"{path} {state}; give the path of a model file (.skops).")
    if not zipfile.is_zipfile(path):
        again = "write it again (save_model, or localconformal run)"
        raise ModelFileError(f"{path} is not a complete model file; {again}.")
    # Before reading: if skops is missing, the file is not to blame.
    skops = skops_io()
    data = path.read_bytes()
    try:
        types, unknown = _named_types(data)
        loaded = None if unknown else skops.loads(data, trusted=types)
        model = _restore(loaded) if isinstance(loaded, Flat) else loaded
        checks.drop_caches(model)
        checks.check_model(model)
    except ImportError as error:
        lacks = f"needs {one_line(error.name or 'a package')}, which is not installed"
        raise ModelFileError(f"{path} {lacks}; install it.") from error
    except Exception as error:
        raise ModelFileError(
            f"{path} was altered or damaged, or does not fit this version ({_said(error)})"
            f"{_other_versions(data, '; {}')}; write it again."
        ) from error
    if unknown:
        raise ModelFileError(
            f"{path} contains {one_line(', '.join(unknown))}, which model files of this library "
            f"may not; it was not loaded{_other_versions(data, ' ({})')}."
        )
    try:
        checks.check_inside(model)
    except ValueError as error:
        remedy = "save the model without that setting"
        raise ModelFileError(f"{path} was not loaded: {_said(error)}; {remedy}.") from error
    return model


def _named_types(data: bytes) -> tuple[list[str], list[str]]:
    """Types that a file names and skops does not know, and those of them not on our list."""
    types = list(skops_io().get_untrusted_types(data=data))
    unknown = [name for name in types if not is_allowed(name)]
    if not unknown:
        checks.check_nodes(data)
    return types, unknown


def _other_versions(data: bytes, form: str) -> str:
    """In this form, that other versions wrote a file; empty if they are the same or unknown."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            stamps = json.loads(archive.read(STAMP)), versions(STAMPED)
        written, own = (", ".join(f"{name} {stamp[name]}" for name in stamp) for stamp in stamps)
    except Exception:
        # The file is already refused for another reason; this is only a hint.
        return ""
    said = f"it was written by {one_line(written)}; this is {own}"
    return "" if written == own else form.format(said)


def _said(error: Exception) -> str:
    return one_line(error).rstrip(".") or type(error).__name__


def skops_io() -> Any:
    """skops.io in a safe version, or an error that says what to install."""
    try:
        version = str(import_module("skops").__version__)
        module = import_module("skops.io")
    except ModuleNotFoundError as error:
        remedy = "run pip install 'localconformal[cli]'"
        said = f"Model files need skops, which is not installed: {remedy}."
        raise ModuleNotFoundError(said) from error
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_SKOPS:
        needed = ".".join(map(str, OLDEST_SKOPS))
        danger = f"skops {version} is installed, with which a crafted model file can run code"
        raise ModelFileError(f"{danger}; run pip install 'skops>={needed}'.")
    return module


def is_allowed(name: str) -> bool:
    """Whether a file may name it: on the list, or a class (not a function) of our modules."""
    if name in FURTHER_TYPES:
        return True
    module, _, attribute = name.rpartition(".")
    package, _, inside = module.partition(".")
    homes = (home for home in _OWN_MODULES if f"{inside}.".startswith(f"{home}."))
    if package != "localconformal" or not any(homes):
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module


# skops writes an object again wherever it is referenced, and a fitted law refers to the point model
# dozens of times: as a tree it would be ten times as large. So a model is first taken apart: its
# objects go into a list, and each reference becomes a position in it.


@dataclass(frozen=True)
class Shared:
    """A reference to an object in the list: its position."""

    position: int


@dataclass(frozen=True, eq=False)
class Flat:
    """A model as a list of its objects, the model itself first."""

    parts: list[Any]


def _flatten(model: Any) -> Flat:
    """The model with each of its objects stored once; the model itself is not changed."""
    parts: list[Any] = []
    # Keeps the objects alive, so that no id is reused.
    places: dict[int, tuple[int, Any]] = {}

    def write(value: Any) -> Any:
        if isinstance(value, PLAIN) or type(value) in (list, tuple, dict):
            return _rebuilt(value, write)
        if id(value) not in places:
            place = len(parts)
            places[id(value)] = place, value
            parts.append(value)
            if is_own(value):
                state = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
                parts[place] = object.__new__(type(value))
                vars(parts[place]).update(_rebuilt(dict(state or {}), write))
        return Shared(places[id(value)][0])

    write(model)
    return Flat(parts)


def _restore(flat: Flat) -> Any:
    """The model of a `Flat`, whose objects are used, not copied."""
    done: set[int] = set()

    def resolve(value: Any) -> Any:
        if isinstance(value, Shared):
            return flat.parts[value.position]
        if not is_own(value):
            return _rebuilt(value, resolve)
        if id(value) not in done:
            done.add(id(value))
            vars(value).update(_rebuilt(vars(value), resolve))
        return value

    for position, part in enumerate(flat.parts):
        flat.parts[position] = resolve(part)
    return flat.parts[0]


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A container of the same kind with its entries changed; other values as they are."""
    if type(value) in (list, tuple):
        return type(value)(change(entry) for entry in value)
    if type(value) is dict:
        return {key: change(entry) for key, entry in value.items()}
    return value
