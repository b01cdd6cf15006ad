"""What tests use of inner modules, in one place: oracles, sizes, parts without a public name."""

# ruff: noqa: F401
import numpy as np
import pytest

from localconformal.adjustments import ADJUSTMENTS, make_adjustment
from localconformal.columns import split_columns
from localconformal.densities import DENSITIES, Grid, Sample
from localconformal.densities.base import EVERYWHERE
from localconformal.densities.grid import BINS
from localconformal.densities.histogram import law_mass
from localconformal.engine.choose import ENGINES, FEW, Problem, build_engine
from localconformal.engine.exact import run_in_threads
from localconformal.engine.kernels import KernelWeights
from localconformal.engine.reference import ReferenceEngine
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.intervals import collapse_crossed, crossed, nest, round_up
from localconformal.laws import LAWS, SidedLaw, make_law
from localconformal.laws.features import FeatureEmbedding
from localconformal.laws.leaves import LeafFinder
from localconformal.laws.noise import draw
from localconformal.laws.outputs import Outputs, blank_outputs
from localconformal.models import default_estimator, fit_model, may_share_process
from localconformal.parallel import in_threads
from localconformal.regressors.cdsplit import profiles
from localconformal.regressors.chr import run_mass
from localconformal.regressors.hpdsplit import denser_mass
from localconformal.scores import SCORES, Band, make_score
from localconformal.selection.cost import FEWEST
from localconformal.splitting import fold_rows, split_rows


def embedded(model, X):
    """Rows as the kernel of an LCP, RLCP or LVD model sees them."""
    return model.localizer_.view(X)


def drawn_centres(model, X):
    """The points that a fitted RLCP model draws around embedded rows."""
    points, localizer = embedded(model, X), model.localizer_
    return points + localizer.bandwidth * draw(localizer.kernel, model.noise_seed_, points)


def laws_of(model):
    """The laws of the sides of a fitted model: none, one (of both, a mirrored pair), or two."""
    return model.law_.laws


def law_of(model):
    """The law of the upper side."""
    return laws_of(model)[-1]


def held_on_dask(seed, n):
    """The quarter of n rows on Dask that `fit` calibrates on."""
    from localconformal.distributed.graph import SPLIT, uniforms

    numbers = uniforms(seed, SPLIT, 0, n)
    return np.flatnonzero(numbers <= np.sort(numbers)[int(np.ceil(0.25 * n)) - 1])


def calibrates(model, n):
    """Which of n rows on Dask calibrate a model that was fitted on them."""
    return model.calibration_.find.roles.calibrates(0, n)


def rows_at_a_time(monkeypatch, most):
    """Let models answer so many rows at a time."""
    monkeypatch.setattr("localconformal.regressors.row_parts.ROWS_AT_A_TIME", most)


def seen(law, X):
    """Rows as the models inside a forest law or a learned law see them."""
    return law.view_(X)


def features(X):
    """The columns of a table as points (n, d)."""
    return FeatureEmbedding().fit(X).transform(X)


def told(point, X, v):
    """What a law is told of a point model whose scores v = y - mu are; nothing without one."""
    if point is None:
        return {}
    mu = point(X) if len(X) else np.empty(0)
    return {"outputs": Outputs(point, mu, mu + np.resize(v, len(mu)))}


def local_laws(law, X, V, asked, point=None, more=None):
    """The laws of the columns of V (n, S) at rows, once more (n, S) was added."""
    sided = SidedLaw.fit(law, X, V, told(point, X, V[:, -1]).get("outputs"))
    if more is not None:
        sided.update(X, more)
    return sided.at(asked)


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """Small forests wherever a spread is learned, in the files that import this."""
    with pytest.MonkeyPatch.context() as patch:
        forests = ((20, 5, 0.5), (10, 30, 1.0))
        patch.setattr("localconformal.laws.outputs.SPREAD_FORESTS", forests)
        yield


def fit_score(score, estimator, X, y, **params):
    """The score fitted around a model: it answers point(X), band(X), values(band, y), bounds(.)."""
    return score.fit(estimator, X, y, **params)


def density_of(law, X, v):
    """The density of scores v around a law, on its grid; None is the default law."""
    v = np.asarray(v, dtype=np.float64)
    return DENSITIES["law"](Sample(X, v, blank_outputs(v), 0, n_jobs=1), law)


def fit_adjustment(adjustment, V):
    """The adjustment fitted to reference scores V (n, S)."""
    return adjustment.fit(V)
