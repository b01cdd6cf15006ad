"""A better point model inside the law: the law of what several models together leave over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from localconformal.laws.blend_models import default_models
from localconformal.laws.changed import Change, ChangedLaw, check_residual
from localconformal.laws.embedding import Scaled, fit_embedding
from localconformal.laws.once import Once
from localconformal.laws.outputs import Outputs, Predict
from localconformal.laws.simplex import prune, simplex_weights
from localconformal.models import fit_model, predict_column
from localconformal.parallel import FEW_ROWS, in_threads
from localconformal.quantiles import Array, typical_size
from localconformal.splitting import fold_rows

N_FOLDS = 3
#: Models below this weight are left out: they cost more than they bring.
MIN_WEIGHT = 0.05
#: Features further out than this many standard deviations count as this far.
FARTHEST = 5.0


class ShiftedLaw(ChangedLaw):
    """V = m(x) - mu(x) + W: the law of the residual of a blend m of several point models.

    Where other models know more of y than the regressor's own, its residuals have a local mean
    that a law can learn: m is the convex combination of mu and the models here that has the
    least absolute error at rows they have not seen. The interval moves to where y is; `predict`
    remains the regressor's own.

    Parameters
    ----------
    law : str or law, default=None
        Law of W; None is the uniform law.
    models : mapping of str to estimators, default=None
        Point models to blend, fed with standardised features. None is a network, kernel ridge,
        boosting and extra trees.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for each core.

    Attributes
    ----------
    weights_ : dict
        Weight of each model in the blend; "point" is the regressor's own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.linspace(0, 1, 90)[:, None]
    >>> law = ShiftedLaw(models={"line": LinearRegression()}, random_state=0).fit(X, 3 * X[:, 0])
    >>> law.quantile([[0.5]], [0.5]).round(2)
    array([[1.5]])
    """

    def __init__(
        self,
        law: Any = None,
        models: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.law = law
        self.models = models
        self.random_state = random_state
        self.n_jobs = n_jobs

    def change(self, X: Any, v: Array, outputs: Outputs, seed: int) -> Change:
        """Location m - mu, scale 1."""
        check_residual(v, outputs, type(self).__name__)
        models = default_models(seed) if self.models is None else check_models(self.models)
        blend, reference = fit_blend(models, X, outputs, seed, self.n_jobs)
        located = Once(blend)
        shifted = replace(
            outputs,
            predict=located,
            reference=reference,
            predict_spread=None,
            reference_spread=None,
        )
        at = Shift(located, outputs.predict, blend.weights)
        return Change(reference - outputs.reference, np.ones(len(v)), at, shifted)

    @property
    def weights_(self) -> dict[str, float]:
        """Weight of each model in the blend."""
        check_is_fitted(self, "change_")
        at: Any = self.change_.at
        return dict(at.weights)


@dataclass(frozen=True)
class Blend:
    """m(x): mu(x) and other models, averaged with fixed weights; a model is its folds' mean."""

    point: Predict
    view: Scaled
    models: dict[str, list[Any]]
    weights: dict[str, float]
    centre: float
    unit: float
    n_jobs: int | None = None

    def __call__(self, X: Any) -> Array:
        """(n,) predictions."""
        total = self.weights["point"] * self.point(X)
        points = clip(self.view.transform(X)) if self.models else None
        tasks = [(name, model) for name, folds in self.models.items() for model in folds]
        asked = [partial(predict_column, model, points) for _, model in tasks]
        answers = in_threads(asked, self.n_jobs if len(X) > FEW_ROWS else 1)
        for (name, _), answer in zip(tasks, answers, strict=True):
            share = self.weights[name] / len(self.models[name])
            total = total + share * (self.centre + self.unit * answer)
        return np.asarray(total)


@dataclass(frozen=True)
class Shift:
    """Location m(x) - mu(x), scale 1."""

    blend: Predict
    point: Predict
    weights: dict[str, float]

    def __call__(self, X: Any) -> tuple[Array, Array]:
        """(n,) each."""
        point = self.point(X)
        return self.blend(X) - point, np.ones(len(point))


def fit_blend(
    models: Mapping[str, Any], X: Any, outputs: Outputs, seed: int, n_jobs: int | None
) -> tuple[Blend, Array]:
    """The blend, and its predictions at the reference rows by models that have not seen them."""
    y = outputs.response
    view, points = fit_embedding(None, X, y, None)
    points = clip(points)
    # In units of their own, y of any size is learned alike.
    centre = float(np.median(y))
    unit = typical_size(y - centre)
    target = (y - centre) / unit
    folds = fold_rows(len(y), N_FOLDS, seed) if len(y) > 1 else []
    places = [(name, rest, fold) for name in models for rest, fold in folds]
    fits = [
        partial(fit_model, models[name], points[rest], target[rest]) for name, rest, _ in places
    ]
    fitted: dict[str, list[Any]] = {}
    held_out = {"point": outputs.reference}
    for (name, _, fold), part in zip(places, in_threads(fits, n_jobs), strict=True):
        fitted.setdefault(name, []).append(part)
        table = held_out.setdefault(name, np.empty(len(y)))
        table[fold] = centre + unit * predict_column(part, points[fold])
    weights = blend_weights(held_out, y)
    kept = {name: fitted[name] for name in weights if name != "point"}
    reference = sum(weight * held_out[name] for name, weight in weights.items())
    weights = {"point": 0.0, **weights}
    blend = Blend(outputs.predict, view, kept, weights, centre, unit, n_jobs)
    return blend, np.asarray(reference)


def blend_weights(predictions: dict[str, Array], y: Array) -> dict[str, float]:
    """Weights by absolute error, the small ones left out."""
    table = np.stack(list(predictions.values()))[:, :, None]
    weights = simplex_weights(table, y, np.array([0.5]))
    kept = prune(weights, MIN_WEIGHT)
    return {name: float(w) for name, w in zip(predictions, kept, strict=True) if w > 0.0}


def clip(points: Array) -> Array:
    """Points within a box: models of any kind stay sane far outside."""
    return np.clip(points, -FARTHEST, FARTHEST)


def check_models(models: Any) -> Mapping[str, Any]:
    """Estimators by name, or refused."""
    named = isinstance(models, Mapping) and all(hasattr(m, "fit") for m in models.values())
    if not named or "point" in models:
        raise ValueError(
            f"models is {models!r}; estimators by name, such as {{'ridge': Ridge()}}, were "
            "expected, none of them called 'point', which is the regressor's own."
        )
    return models
