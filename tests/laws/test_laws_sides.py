"""Two sides of a score: a mirrored pair equals two laws, and sides belong to their rows."""

import numpy as np
import pytest

from inner import Rows, SidedLaw
from localconformal import KernelLaw, NeighborsLaw, UniformLaw

LAWS = {
    "kernel": KernelLaw(bandwidth=0.5, random_state=0),
    "boxcar": KernelLaw("boxcar", bandwidth=0.5, random_state=0),
    "cv": KernelLaw(bandwidth="median-log", random_state=0),
    "neighbors": NeighborsLaw(n_neighbors=9),
    "uniform": UniformLaw(),
}
LEVELS = np.array([[0.05, 0.5, 0.95, 1.0, 0.0], [0.9, 0.5, 0.05, 1.0, 0.0]])


@pytest.fixture(params=LAWS)
def pair(request):
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(100, 2)), rng.integers(-5, 6, 100).astype(float)
    queries, V = rng.normal(size=(20, 2)), np.column_stack([-v, v])
    law = LAWS[request.param]
    mirrored = SidedLaw.fit(law, Rows(X), V)
    assert mirrored.mirrored
    separate = SidedLaw(tuple(type(law)(**law.get_params()).fit(X, c) for c in V.T), False)
    return mirrored.at(Rows(queries)), separate.at(Rows(queries))


def test_answers_agree_on_both_sides_also_at_atoms(pair):
    mirrored, separate = pair
    for levels in (LEVELS, np.random.default_rng(1).random((20, 2, 3))):
        for ask in ("quantile", "upper_quantile"):
            got, expected = getattr(mirrored, ask)(levels), getattr(separate, ask)(levels)
            assert got.shape == (20, 2, levels.shape[-1])
            np.testing.assert_array_equal(got, expected, err_msg=ask)
    V = np.random.default_rng(2).integers(-6, 7, (20, 2)) / 1.0
    for side in ("right", "left"):
        for at in (V, V + 0.25, V - 0.25):
            np.testing.assert_allclose(mirrored.cdf(at, side), separate.cdf(at, side), atol=1e-12)
    np.testing.assert_allclose(mirrored.moments(), separate.moments(), atol=1e-12)


def test_columns_that_are_no_mirror_get_their_own_laws():
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    sided = SidedLaw.fit(KernelLaw(bandwidth=0.7), Rows(X), V)
    assert not sided.mirrored
    for index in range(2):
        alone = KernelLaw(bandwidth=0.7).fit(X, V[:, index])
        np.testing.assert_array_equal(sided.at(Rows(X)).mean()[:, index], alone.mean(X))
