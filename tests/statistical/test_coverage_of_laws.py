"""Quantiles of learned laws: they follow the noise, and cover as often as they say."""

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor

from localconformal import ForestLaw, LearnedLaw
from localconformal.laws.forest import TARGETS

pytestmark = pytest.mark.ci


def rows(n, seed):
    """Scores whose spread follows the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


@pytest.mark.parametrize(
    "law", [LearnedLaw(), *(ForestLaw(target=target) for target in TARGETS)], ids=str
)
def test_laws_of_models_localize(law):
    Q = rows(300, 1)[0]
    law.set_params(random_state=0, n_jobs=1).fit(*rows(600, 0))
    width = np.ptp(law.quantile(Q, [0.1, 0.9]), axis=1)
    wide, narrow = np.abs(Q[:, 0]) > 0.8, np.abs(Q[:, 0]) < 0.2
    assert width[wide].mean() > 1.5 * width[narrow].mean()


def test_levels_beyond_the_learned_curves_cover_about_as_often_as_they_say():
    law = LearnedLaw(QuantileRegressor(alpha=0), levels=(0.25, 0.75), n_jobs=1).fit(*rows(600, 0))
    X, v = rows(2000, 1)
    for level in (0.02, 0.1, 0.9, 0.98):
        assert abs(np.mean(v <= law.quantile(X, [level])[:, 0]) - level) < 0.04
