"""What tests use of inner modules, in one place: oracles, sizes, parts without a public name."""

# ruff: noqa: F401
from types import SimpleNamespace

import numpy as np
import pytest

from localconformal.adjustments import ADJUSTMENTS, make_adjustment
from localconformal.columns import Features, split_columns
from localconformal.corrections import DRAWS
from localconformal.densities import _BINS as BINS
from localconformal.densities import _EVERYWHERE as EVERYWHERE
from localconformal.densities import _denser_mass as denser_mass
from localconformal.densities import _Grid as Grid
from localconformal.densities import _law_mass as law_mass
from localconformal.densities import _profiles as profiles
from localconformal.densities import _run_mass as run_mass
from localconformal.engine import FEW, run_in_threads
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.laws import LAWS, SidedLaw, kernel, make_law
from localconformal.laws.auto import _weights as weights_of_readings
from localconformal.laws.base import ReferenceEngine
from localconformal.laws.forest import _LeafWeights as LeafWeights
from localconformal.laws.kernel import KERNELS, KernelWeights, NeighborWeights
from localconformal.laws.kernel import _build_engine as build_engine
from localconformal.models import default_estimator
from localconformal.quantiles import crossed, finish, round_up
from localconformal.rows import _SMALL_FIT as SMALL_FIT
from localconformal.rows import RESPONSE, Curve, Reference, Rows, fit_model, fold_rows, split_rows
from localconformal.scores import SCORES, Band, make_score

#: What a user may ask a kernel law for.
ENGINES = ("auto", "exact", "sketch", "minibatch")


def Problem(points, v, *given, **named):
    """What an engine is built from, of reference rows in any order."""
    order = np.argsort(v, kind="stable")
    return kernel.Problem(points[order], v[order], *given, **named)


def build_oracle(of):
    """The NumPy engine of a kernel law for this problem."""
    weights = KernelWeights(of.points, of.kernel, of.bandwidth, of.min_effective_samples)
    return ReferenceEngine(of.v, weights)


def embedded(model, X):
    """Rows as the kernel of an LCP, RLCP or LVD model sees them."""
    return model.localizer_.view(Rows(X))


def drawn_centres(model, X):
    """The points that a fitted RLCP model draws around embedded rows."""
    points, localizer = embedded(model, X), model.localizer_
    draws = DRAWS[localizer.kernel](model.parts_.correction.seed_, points)
    return points + localizer.bandwidth * draws


def laws_of(model):
    """The laws of the sides of a fitted model: none, one (of both, a mirrored pair), or two."""
    return model.law_.laws


def law_of(model):
    return laws_of(model)[-1]


def held_on_dask(seed, n):
    """The quarter of n rows on Dask that `fit` calibrates on."""
    from localconformal.distributed.graph import SPLIT, uniforms

    numbers = uniforms(seed, SPLIT, 0, n)
    return np.flatnonzero(numbers <= np.sort(numbers)[int(np.ceil(0.25 * n)) - 1])


def calibrates(model, n):
    """Which of n rows on Dask calibrate a model that was fitted on them."""
    *_, roles, _ = model.calibration_.find.args
    return roles.calibrates(0, n)


def rows_at_a_time(monkeypatch, most):
    """Let models answer so many rows at a time."""
    monkeypatch.setattr("localconformal.composition.ROWS_AT_A_TIME", most)


def seen(law, X):
    """Rows as the models inside a forest law or a learned law see them."""
    return law.view_(Rows(X))


def features(X):
    """The columns of a table as points (n, d)."""
    return Features().fit(X).transform(X)


class PointModel(Curve):
    """mu(x) given by a function, where a fitted score would speak of the rows."""

    def __init__(self, point):
        self.point = point

    def compute(self, rows):
        return Band.around(np.asarray(self.point(rows.X), dtype=float))


def told(point, X, v):
    """Reference rows that know a point model, whose scores v = y - mu are; X itself without one."""
    if point is None or not len(X):
        return X
    rows = Rows(X, model=PointModel(point))
    rows.known[RESPONSE] = rows.point + np.resize(v, len(X))
    return rows


def local_laws(law, X, V, asked, point=None):
    """The laws of the columns of V (n, S) at rows."""
    rows = told(point, X, V[:, -1])
    sided = SidedLaw.fit(law, rows if isinstance(rows, Rows) else Rows(rows), V)
    return sided.at(Rows(asked))


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """Small forests wherever a spread is learned, in the files that import this."""
    with pytest.MonkeyPatch.context() as patch:
        forests = ((20, 5, 0.5), (10, 30, 1.0))
        patch.setattr("localconformal.laws.transformed._SPREAD_FORESTS", forests)
        yield


def fit_adjustment(adjustment, V):
    """The adjustment with its constants learned from reference scores (n, S)."""
    return adjustment.fit(SimpleNamespace(sizes=np.asarray(V, dtype=float)))
