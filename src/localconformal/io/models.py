"""Fitted models as files that hold data, never code.

The format is skops: a zip file of arrays and a JSON tree that names a type at each place. Every
type named must be on the list here; what is made of them is looked at (`localconformal.io.checks`)
before compiled loops follow it. SECURITY.md says what this guards against, and what not.
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

#: Earlier ones run code that a crafted file brings.
OLDEST_SKOPS = (0, 12)
#: Entry that tells the versions of these that wrote a file.
STAMP, STAMPED = "localconformal.json", ("localconformal", "scikit-learn")

#: Modules of this library whose classes a fitted model is made of; none of them reads or writes
#: files, or calls what it is given.
_OWN_MODULES = (
    *("adjustments", "columns", "composition", "conditional", "corrections", "cross"),
    *("default_model", "densities", "engine", "laws", "models", "preparation", "quantiles"),
    *("regressors", "scores"),
    *("tabular.model", "torch.tensors"),
)
#: Module -> what else a file may name of it, beyond scikit-learn's estimators, NumPy and SciPy,
#: which skops knows. Only later versions of it know the losses and bins of gradient boosting.
_FURTHER = {
    "collections": "OrderedDict",
    # Of one function alone, which `check_nodes` looks at.
    "functools": "partial",
    "lightgbm.basic": "Booster",
    "lightgbm.sklearn": "LGBMRegressor",
    "localconformal.distributed.estimator": "KnownCalibration",
    "localconformal.io.models": "Flat Shared",
    # asarray is a function, of the forest law: its leaves come as they are.
    "numpy": "asarray dtype",
    "sklearn._loss.link": "IdentityLink Interval LogLink",
    "sklearn._loss.loss": "AbsoluteError HalfGammaLoss HalfPoissonLoss HalfSquaredError HuberLoss "
    "PinballLoss",
    "sklearn.compose._column_transformer": "_RemainderColsList make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    # Trees, which `check_model` looks at, and what gradient boosting does to categories.
    "sklearn.tree._tree": "Tree",
    "sklearn.utils.validation": "check_array",
    "xgboost.core": "Booster",
    "xgboost.sklearn": "XGBRegressor",
}
FURTHER_TYPES = {f"{home}.{name}" for home, names in _FURTHER.items() for name in names.split()}


class ModelFileError(ValueError):
    """A file that is no model of this library, or a model that cannot be a file; one sentence."""


def save_model(model: Any, path: str | Path) -> Path:
    """Write a fitted estimator to a skops file; it is whole or not there.

    Parameters
    ----------
    model : fitted estimator
        Of this library; or a scikit-learn model, to be the base model of a command.
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
    """The content of a model file; refused if `load_model` would not take it."""
    if isinstance(model, type) or not hasattr(model, "predict"):
        got = f"got {one_line(repr(model), 80)}; expected a fitted estimator, with predict"
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
            why = "it holds a network of PyTorch, whose layers are code that no such file has"
        remedy = "use models and settings without functions of your own, or pickle it yourself"
        raise ModelFileError(f"{name} cannot be saved ({why}); {remedy}.") from error
    if unknown:
        why = f"it holds {', '.join(unknown)}, which a model file may not name"
        remedy = "use another model of scikit-learn, LightGBM or XGBoost, or pickle it yourself"
        raise ModelFileError(f"{name} cannot be saved: {why}; {remedy}.")
    return data


def load_model(path: str | Path) -> Any:
    """Read a model file. Nothing is unpickled, and no type is made that is not on our list.

    A file that was damaged, or that another version wrote and this one cannot read, is refused.
    Somebody who edits a file on purpose can make a model whose intervals are wrong, though not one
    that brings code: load models from people you trust. Caches on disk (``memory=``) are dropped,
    which changes no result; callbacks, and settings that name files or hosts, are refused. The
    error is a `ModelFileError`. A scikit-learn model that skops wrote is read too.
    """
    path = Path(path)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise ModelFileError(f"{path} {state}; give the path of a model file (.skops).")
    if not zipfile.is_zipfile(path):
        again = "make it again (save_model, or localconformal run)"
        raise ModelFileError(f"{path} is not a whole model file; {again}.")
    # Before reading: that it is missing is no fault of the file.
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
            f"{path} was altered or damaged, or does not suit this version ({_said(error)})"
            f"{_other_versions(data, '; {}')}; make it again."
        ) from error
    if unknown:
        raise ModelFileError(
            f"{path} names {one_line(', '.join(unknown))}, which no model file of this library "
            f"may; it was not loaded{_other_versions(data, ' ({})')}."
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
    """In this form, that others than those here wrote a file; empty where it does not tell."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            stamps = json.loads(archive.read(STAMP)), versions(STAMPED)
        written, own = (", ".join(f"{name} {stamp[name]}" for name in stamp) for stamp in stamps)
    except Exception:
        # Of a file that is refused for another reason already, this is a courtesy.
        return ""
    said = f"it was written by {one_line(written)}, and this is {own}"
    return "" if written == own else form.format(said)


def _said(error: Exception) -> str:
    return one_line(error).rstrip(".") or type(error).__name__


def skops_io() -> Any:
    """skops.io of a version that is safe, or an error that says what to install."""
    try:
        version = str(import_module("skops").__version__)
        module = import_module("skops.io")
    except ModuleNotFoundError as error:
        remedy = "run pip install 'localconformal[cli]'"
        raise ModuleNotFoundError(f"Model files need skops, which is missing: {remedy}.") from error
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_SKOPS:
        needed = ".".join(map(str, OLDEST_SKOPS))
        danger = f"skops {version} is installed, with which a crafted model file can run code"
        raise ModelFileError(f"{danger}; run pip install 'skops>={needed}'.")
    return module


def is_allowed(name: str) -> bool:
    """Whether a file may name it: on the list, or a class (no function) that our modules define."""
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


# skops writes an object again at every place that holds it, and a fitted law holds the point model
# at dozens of places: as a tree it is ten times itself. So a model is taken apart first: its
# objects stand in a list, and in their places their positions in it.


@dataclass(frozen=True)
class Shared:
    """In the place of an object that stands elsewhere: its position there."""

    position: int


@dataclass(frozen=True, eq=False)
class Flat:
    """A model whose objects stand in a list, the model itself first."""

    parts: list[Any]


def _flatten(model: Any) -> Flat:
    """The model with each of its objects standing once; the model itself is not changed."""
    parts: list[Any] = []
    # With the objects, which are thereby kept alive, so that no other gets the id of one.
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
