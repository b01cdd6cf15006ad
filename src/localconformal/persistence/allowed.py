"""The types that a model file may name.

skops itself knows scikit-learn's estimators, NumPy and SciPy. Beyond those: the classes of this
library, the trees inside scikit-learn's models (whose contents `trees` checks), what gradient
boosting keeps for categories, and the scikit-learn interfaces of LightGBM and XGBoost.
"""

from __future__ import annotations

from importlib import import_module

#: Modules of this library whose classes a fitted model is made of.
OWN_MODULES = (
    "adjustments",
    "calibration",
    "densities",
    "distributed",
    "engine",
    "laws",
    "models",
    "persistence",
    "regressors",
    "scores",
    "selection",
    "workflow",
)
FOREIGN_TYPES = frozenset(
    {
        "collections.OrderedDict",
        "functools.partial",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMRegressor",
        # A function, of the forest law: its leaves come as they are.
        "numpy.asarray",
        "numpy.dtype",
        "sklearn.compose._column_transformer.make_column_selector",
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
    """
    return name in FOREIGN_TYPES or is_own_class(name)


def is_own_class(name: str) -> bool:
    """Whether the name is that of a class that one of our modules defines; no function is."""
    module, _, attribute = name.rpartition(".")
    package, *inside = module.split(".")
    if package != "localconformal" or not inside or inside[0] not in OWN_MODULES:
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module
