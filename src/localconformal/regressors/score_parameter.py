"""An estimator whose constructor argument ``score`` lives beside scikit-learn's ``score`` method.

The interface names the conformity score ``score=``; scikit-learn names its R^2 method
``score(X, y)``. Both are contracts. So the argument is kept under its name in the instance's
dictionary, where ``get_params``, ``set_params``, ``clone`` and ``repr`` find it, and reading
``model.score`` gives the method, which ``GridSearchCV`` and ``cross_val_score`` call.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

from sklearn.base import RegressorMixin


class ScoreParameter:
    """Data descriptor: assignment stores the argument, reading gives the R^2 method."""

    def __get__(self, instance: Any, owner: type) -> Any:
        """``RegressorMixin.score``, bound to the instance."""
        method = RegressorMixin.score
        return method if instance is None else MethodType(method, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        """Keep the constructor's argument."""
        vars(instance)["score"] = value


class WithScoreParameter:
    """Mixin for estimators with a ``score=`` argument."""

    score = ScoreParameter()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this estimator and, where ``deep``, of the parts in it.

        Parameters
        ----------
        deep : bool, default=True

        Returns
        -------
        dict
        """
        params: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        part = params["score"] = vars(self)["score"]
        if deep and hasattr(part, "get_params") and not isinstance(part, type):
            params.update({f"score__{name}": value for name, value in part.get_params().items()})
        return params
