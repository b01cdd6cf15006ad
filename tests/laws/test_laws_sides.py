"""A mirrored pair of laws equals two laws fitted separately."""

import numpy as np
import pytest

from localconformal import KernelLaw, NeighborsLaw, UniformLaw
from localconformal.laws import SidedLaw

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
    """The mirrored law and its two separately fitted sides, at some rows."""
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(100, 2)), rng.integers(-5, 6, 100).astype(float)
    queries, V = rng.normal(size=(20, 2)), np.column_stack([-v, v])
    law = LAWS[request.param]
    mirrored = SidedLaw.fit(law, X, V, None)
    assert mirrored.mirrored
    separate = SidedLaw(tuple(type(law)(**law.get_params()).fit(X, c) for c in V.T), False)
    return mirrored.at(queries), separate.at(queries)


def test_quantiles_agree_on_both_sides(pair):
    mirrored, separate = pair
    for ask in ("quantile", "upper_quantile"):
        got, expected = getattr(mirrored, ask)(LEVELS), getattr(separate, ask)(LEVELS)
        assert got.shape == (20, 2, 5)
        np.testing.assert_array_equal(got, expected, err_msg=ask)


def test_levels_by_row_agree_on_both_sides(pair):
    mirrored, separate = pair
    levels = np.random.default_rng(1).random((20, 2, 3))
    for ask in ("quantile", "upper_quantile"):
        np.testing.assert_array_equal(
            getattr(mirrored, ask)(levels), getattr(separate, ask)(levels), err_msg=ask
        )


@pytest.mark.parametrize("side", ["right", "left"])
def test_cdfs_agree_on_both_sides_also_at_atoms(pair, side):
    mirrored, separate = pair
    V = np.random.default_rng(2).integers(-6, 7, (20, 2)) / 1.0
    for shift in (0.0, 0.25, -0.25):
        got, expected = mirrored.cdf(V + shift, side), separate.cdf(V + shift, side)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_means_sizes_and_flags_agree(pair):
    mirrored, separate = pair
    for absolute in (False, True):
        np.testing.assert_allclose(
            mirrored.mean(absolute), separate.mean(absolute), rtol=1e-12, atol=1e-12
        )
    np.testing.assert_allclose(mirrored.effective_sample_size(), separate.effective_sample_size())
    np.testing.assert_array_equal(mirrored.fallback(), separate.fallback())


def test_one_side_answers_in_plain_vectors(pair):
    for local in pair:
        for index in range(2):
            side = local.side(index, 0.95)
            assert side.level == 0.95
            levels = np.full((2, 1), 0.3)
            np.testing.assert_array_equal(side.quantile(0.3), local.quantile(levels)[:, index, 0])
            vector = np.full(20, 0.3)
            np.testing.assert_array_equal(side.quantile(vector), side.quantile(0.3))
            np.testing.assert_array_equal(
                side.upper_quantile(0.3), local.upper_quantile(levels)[:, index, 0]
            )
            np.testing.assert_array_equal(
                side.cdf(1.0, "left"), local.cdf(np.ones((20, 2)), "left")[:, index]
            )
            np.testing.assert_array_equal(side.mean(), local.mean()[:, index])


def test_columns_that_are_no_mirror_get_their_own_laws():
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    sided = SidedLaw.fit(KernelLaw(bandwidth=0.7), X, V, None)
    assert not sided.mirrored
    for index in range(2):
        alone = KernelLaw(bandwidth=0.7).fit(X, V[:, index])
        np.testing.assert_array_equal(sided.at(X).mean()[:, index], alone.mean(X))


def test_one_column_gives_one_law():
    X = np.random.default_rng(0).normal(size=(50, 2))
    local = SidedLaw.fit(UniformLaw(), X, np.abs(X[:, :1]), None).at(X)
    assert local.quantile(np.array([[0.5]])).shape == (50, 1, 1)
    assert local.side(0, 0.9).quantile(0.5).shape == (50,)
