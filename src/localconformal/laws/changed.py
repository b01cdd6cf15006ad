"""Laws of a transformed score: V = location(x) + scale(x) W, with a law for W.

A score is a change of variable, so that a law of another score is a law of this one: of the
response (location -mu), of the normalised residual (scale sigma), of the residual of a better
point model (location m - mu). Location and scale are learned once, at reference rows by models
that have not seen them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from localconformal.engine.knots import KnotEngine, Knots
from localconformal.laws.base import BaseLaw, check_reference_scores
from localconformal.laws.knots import GRID, knots_of
from localconformal.laws.names import make_law, seeded
from localconformal.laws.outputs import Outputs, blank_outputs, with_spread
from localconformal.laws.uniform import UniformLaw
from localconformal.laws.view import in_canonical_order
from localconformal.quantiles import Array
from localconformal.splitting import Rows


@dataclass(frozen=True)
class Change:
    """V = location + scale W: (n,) each at reference rows, and by a function at any others.

    ``outputs`` is what laws of W may know of the point model.
    """

    location: Array
    scale: Array
    at: Callable[[Any], tuple[Array, Array]]
    outputs: Outputs

    def standardise(self, v: Array) -> Array:
        """W of the reference rows."""
        return np.asarray((v - self.location) / self.scale)

    def restore(self, values: Array, X: Any) -> Array:
        """Quantiles (n, L) of W at the rows of X -> of V."""
        location, scale = self.at(X)
        return np.asarray(location[:, None] + scale[:, None] * values)

    def take(self, rows: Rows) -> Change:
        """For some of the reference rows."""
        return replace(
            self,
            location=self.location[rows],
            scale=self.scale[rows],
            outputs=self.outputs.take(rows),
        )

    def restore_reference(self, values: Array) -> Array:
        """Quantiles (n, L) of W at the reference rows -> of V."""
        return np.asarray(self.location[:, None] + self.scale[:, None] * values)


class ChangedLaw(BaseLaw):
    """The law of V = location(x) + scale(x) W; a subclass says what the change is."""

    def __init__(
        self, law: Any = None, random_state: Any = None, n_jobs: int | None = None
    ) -> None:
        self.law = law
        self.random_state = random_state
        self.n_jobs = n_jobs

    def change(self, X: Any, v: Array, outputs: Outputs, seed: int) -> Change:
        """Learn location and scale from reference rows."""
        raise NotImplementedError

    def at_levels(self, levels: Array) -> BaseLaw:
        """The same with a cheaper law of W, where there is one."""
        law: BaseLaw = clone(self)
        return law.set_params(law=self.inner_law().at_levels(levels))

    def inner_law(self) -> BaseLaw:
        """The unfitted law of W, with this law's seed and threads where it has none."""
        made = UniformLaw() if self.law is None else make_law(self.law)
        return seeded(made, self.random_state, self.n_jobs)

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> ChangedLaw:
        """Learn the change, then the law of W."""
        scores = check_reference_scores(v)
        known = blank_outputs(scores) if outputs is None else outputs
        X, scores, known = in_canonical_order(X, scores, known)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return self.fit_changed(X, scores, self.change(X, scores, known, seed))

    def fit_changed(self, X: Any, v: Array, change: Change) -> ChangedLaw:
        """Fit the law of W under a change that is known already."""
        self.change_ = change
        self.law_ = self.inner_law().fit(X, change.standardise(v), outputs=change.outputs)
        self.engine_ = KnotEngine(GRID)
        return self

    def rows(self, X: Any) -> Knots:
        """The law at each row, as quantiles on the common grid."""
        inner = knots_of(self.law_, X)
        return inner._replace(values=self.change_.restore(inner.values, X))


class ScaledLaw(ChangedLaw):
    """V = sigma(x) W: the law of the score in units of a learned spread.

    sigma is a forest's model of |V|; at reference rows by the trees that have not seen them.

    Parameters
    ----------
    law : str or law, default=None
        Law of W; None is the uniform law, which makes this the normalised residual (MADSplit).
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> law = ScaledLaw(random_state=0).fit(X, X[:, 0] * rng.normal(size=500))
    >>> low, high = law.quantile([[0.1], [0.9]], [0.95])[:, 0]
    >>> bool(low < high)
    True
    """

    def change(self, X: Any, v: Array, outputs: Outputs, seed: int) -> Change:
        """Location 0, scale sigma."""
        known = with_spread(outputs, X, v, seed, self.n_jobs)
        spread, reference = known.predict_spread, known.reference_spread
        assert spread is not None
        assert reference is not None
        return Change(np.zeros(len(v)), reference, SpreadOnly(spread), known)


class ResponseLaw(ChangedLaw):
    """V = Y - mu(x): the law of the response itself, whatever the point model says.

    Parameters
    ----------
    law : str or law, default=None
        Law of Y given x, such as ``LearnedLaw()`` (CQR) or ``ForestLaw(target="response")`` (a
        quantile forest); None is the uniform law.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> X, v = np.zeros((3, 1)), [1.0, 2.0, 3.0]
    >>> ResponseLaw().fit(X, v).quantile(X[:1], [0.5]).round(6)
    array([[2.]])
    """

    def change(self, X: Any, v: Array, outputs: Outputs, seed: int) -> Change:
        """Location -mu, scale 1."""
        check_residual(v, outputs, type(self).__name__)
        # The spread is the residual's, not the response's.
        known = replace(outputs, predict_spread=None, reference_spread=None)
        return Change(-outputs.reference, np.ones(len(v)), MinusPoint(outputs.predict), known)


@dataclass(frozen=True)
class SpreadOnly:
    """Location 0 and a spread."""

    spread: Callable[[Any], Array]

    def __call__(self, X: Any) -> tuple[Array, Array]:
        """(n,) each."""
        scale = self.spread(X)
        return np.zeros(len(scale)), scale


@dataclass(frozen=True)
class MinusPoint:
    """Location -mu(x), scale 1."""

    predict: Callable[[Any], Array]

    def __call__(self, X: Any) -> tuple[Array, Array]:
        """(n,) each."""
        point = self.predict(X)
        return -point, np.ones(len(point))


def is_residual(v: Array, outputs: Outputs) -> bool:
    """Whether the score is y - mu(x)."""
    residual = outputs.response - outputs.reference
    return np.allclose(v, residual, rtol=1e-9, atol=1e-9 * float(np.abs(residual).max()))


def check_residual(v: Array, outputs: Outputs, name: str) -> None:
    """The score is y - mu(x), or refused."""
    if not is_residual(v, outputs):
        raise ValueError(
            f"{name} came with a score other than the residual y - mu(x), from which the response "
            "cannot be told; choose conformity_score='residual', or another law."
        )


def unchanged(v: Array, outputs: Outputs) -> Change:
    """V = W."""
    return Change(np.zeros(len(v)), np.ones(len(v)), ZeroOne(), outputs)


class ZeroOne:
    """Location 0, scale 1."""

    def __call__(self, X: Any) -> tuple[Array, Array]:
        """(n,) each."""
        return np.zeros(len(X)), np.ones(len(X))
