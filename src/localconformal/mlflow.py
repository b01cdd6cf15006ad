"""Models of this library in MLflow: a pyfunc that returns `predict_interval(output="frame")`.

The pyfunc stores a model file (`localconformal.io.save_model`): nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mlflow import models, pyfunc

from localconformal.io.models import load_model
from localconformal.io.models import save_model as write_model
from localconformal.versions import versions

__all__ = ["log_model", "save_model"]

#: Installed where the model is served: scikit-learn's trees differ between versions.
_NEEDED = {"localconformal": "[mlflow]", "numpy": "", "scikit-learn": ""}


def save_model(model: Any, path: str | Path, input_example: Any, **options: Any) -> None:
    """Write a fitted model to a folder that `mlflow.pyfunc.load_model` reads.

    Parameters
    ----------
    model : fitted estimator, or `TableModel`
        Anything that `localconformal.io.save_model` accepts.
    path : str or Path
        Folder that does not exist yet.
    input_example : frame or array of shape (n, d)
        A few rows like those to be predicted; the signature is inferred from them and from their
        intervals, with the parameter ``confidence_level``. MLflow has no categorical type: for
        categories pass a `TableModel`, which takes text.
    **options
        As in `mlflow.pyfunc.save_model`, such as ``extra_pip_requirements=["lightgbm"]``.

    Examples
    --------
    >>> from mlflow import pyfunc
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal import SplitConformalRegressor
    >>> X, y = np.arange(60.0)[:, None], np.arange(60.0)
    >>> model = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model", X[:5])
    ...     served = pyfunc.load_model(f"{folder}/model")
    >>> served.predict(X).equals(model.predict_interval(X, output="frame"))
    True
    >>> list(served.predict(X, params={"confidence_level": [0.5, 0.8]}))
    ['lower_0.5', 'upper_0.5', 'lower_0.8', 'upper_0.8']
    """
    with TemporaryDirectory() as folder:
        pyfunc.save_model(str(path), **_described(model, folder, input_example, options))


def log_model(model: Any, name: str, input_example: Any, **options: Any) -> Any:
    """Log a fitted model, as `save_model` would write it, to the active run of MLflow.

    ``options`` and the return value are those of `mlflow.pyfunc.log_model`; an option is, for
    example, ``registered_model_name=``.
    """
    with TemporaryDirectory() as folder:
        return pyfunc.log_model(name=name, **_described(model, folder, input_example, options))


def _described(model: Any, folder: str, example: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for MLflow: the model as a file in the folder, its inputs and outputs."""
    served, known, example = (
        _Intervals(model),
        versions(_NEEDED),
        _without_categories(model, example),
    )
    params = {"confidence_level": served.levels}
    return {
        "loader_module": __name__,
        "data_path": str(write_model(model, Path(folder) / "model.skops")),
        "input_example": example,
        "signature": models.infer_signature(example, served.predict(example), params),
        "pip_requirements": [f"{name}{_NEEDED[name]}=={known[name]}" for name in _NEEDED],
        **options,
    }


def _without_categories(model: Any, example: Any) -> Any:
    """The example with categories as text, which models of tables take; MLflow has no such type."""
    kinds = example.select_dtypes("category") if hasattr(example, "select_dtypes") else ()
    if len(names := list(kinds)) and not hasattr(model, "schema"):
        raise ValueError(
            f"got input_example with categories in {', '.join(map(repr, names))}, a type that "
            "MLflow does not have; expected numbers and text: fit with `fit_table_model`, whose "
            "models take text."
        )
    return example.astype(dict.fromkeys(names, object)) if names else example


class _Intervals:
    """The interface that MLflow calls; ``levels`` are used if no others are requested."""

    def __init__(self, model: Any) -> None:
        self._model = model
        regressor = getattr(model, "regressor", model)
        self.levels = np.atleast_1d(regressor.confidence_level).tolist()

    def get_raw_model(self) -> Any:
        """The model itself, with all its methods."""
        return self._model

    def predict(self, rows: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Bounds by name, in a frame as from `predict_interval`."""
        asked = list((params or {}).get("confidence_level", self.levels))
        # In the form the model was given: one number, or a list.
        level = None if asked == self.levels else asked if len(asked) > 1 else asked[0]
        return self._model.predict_interval(rows, level, output="frame")


def _load_pyfunc(path: str) -> _Intervals:
    """Called by MLflow with the path of the model file."""
    return _Intervals(load_model(path))
