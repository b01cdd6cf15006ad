"""The types that a model file may name.

skops itself knows scikit-learn's estimators, NumPy and SciPy. Beyond those: the classes of this
library, the trees inside scikit-learn's models (whose contents `trees` checks), what gradient
boosting keeps for categories, and the scikit-learn interfaces of LightGBM and XGBoost.
"""

from __future__ import annotations

from importlib import import_module

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
    "persistence.sharing",
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
