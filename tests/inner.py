"""What tests use of inner modules, in one place: oracles, sizes, parts without a public name."""

# ruff: noqa: F401
from localconformal.engine.choose import FEW
from localconformal.laws import SidedLaw
from localconformal.laws.features import FeatureEmbedding
from localconformal.laws.leaves import LeafFinder
from localconformal.laws.noise import draw
from localconformal.regressors.cdsplit import profiles
from localconformal.regressors.chr import run_mass
from localconformal.regressors.hpdsplit import denser_mass


def embedded(model, X):
    """Rows as the kernel of an LCP, RLCP or LVD model sees them."""
    return model.localizer_.view(X)


def drawn_centres(model, X):
    """The points that a fitted RLCP model draws around embedded rows."""
    points, localizer = embedded(model, X), model.localizer_
    return points + localizer.bandwidth * draw(localizer.kernel, model.noise_seed_, points)


def law_of(model):
    """The law of the upper side, or of both where one is the mirror of the other."""
    return model.law_.laws[-1]


def seen(law, X):
    """Rows as the models inside a forest law or a learned law see them."""
    return law.view_(X)


def features(X):
    """The columns of a table as points (n, d)."""
    return FeatureEmbedding().fit(X).transform(X)
