import numpy as np
import pytest

from localconformal.datasets import SIMULATIONS, load_simulation, shifted_simulation
from localconformal.metrics import coverage, mean_length

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
every_simulation = pytest.mark.parametrize("simulation", SIMULATIONS.values(), ids=SIMULATIONS)


@every_simulation
def test_oracle_quantiles_are_those_of_many_draws(simulation):
    points, _ = simulation.sample(5, random_state=0)
    for x in points:
        X = np.tile(x, (40_000, 1))
        y = simulation.draw_response(np.random.default_rng(1), X)
        # Five standard errors of the share of draws below a quantile.
        below = (y[:, None] <= simulation.quantile(X[:1], LEVELS)).mean(axis=0)
        np.testing.assert_allclose(below, LEVELS, atol=5 * 0.5 / np.sqrt(len(y)))
        assert abs(y.mean() - simulation.mean(X[:1])[0]) <= 5 * y.std() / np.sqrt(len(y))


@every_simulation
def test_the_distribution_function_inverts_the_quantiles(simulation):
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    X, _ = simulation.sample(50, random_state=None)
    np.testing.assert_array_equal(before, np.random.get_state()[1])
    assert simulation.quantile(X, 0.5).shape == (50, 1)
    quantiles = simulation.quantile(X, LEVELS)
    for level, at in zip(LEVELS, quantiles.T, strict=True):
        np.testing.assert_allclose(simulation.cdf(X, at), level, atol=1e-6)
    np.testing.assert_allclose(simulation.coverage(X, quantiles[:, [0, -1]]), 0.9, atol=1e-6)
    np.testing.assert_array_equal(simulation.coverage(X, quantiles[:, [-1, 0]]), 0.0)


@every_simulation
def test_quantiles_increase_and_cover_and_the_seed_fixes_the_sample(simulation):
    X, y = simulation.sample(3_000, random_state=2)
    quantiles = simulation.quantile(X, LEVELS)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert coverage(y, quantiles[:, [0, -1]]) == pytest.approx(0.9, abs=0.025)
    first, second, other = (simulation.sample(50, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert not np.array_equal(first[1], other[1])


#: Mean lengths of the ideal intervals that the two papers print.
PRINTED = {"sim1": 1.216, "sim2": 1.234, "sim3": 2.46, "bimodal": 5.2}
PRINTED |= {"heteroscedastic": 8.2, "heteroscedastic_plus_one": 11.5}


@pytest.mark.parametrize("name", PRINTED)
def test_oracle_mean_lengths_are_those_printed(name):
    simulation, of_paper = load_simulation(name), name.startswith("sim")
    X = np.linspace(0, 5, 5_001)[:, None] if of_paper else simulation.sample(2_000, 0)[0]
    ideal = simulation.quantile(X, [0.05, 0.95])
    assert mean_length(None, ideal) == pytest.approx(PRINTED[name], rel=0.01 if of_paper else 0.05)


def test_a_shift_moves_features_and_keeps_the_law_of_the_response():
    X = np.linspace(-1, 1, 9)[:, None]
    plain, moved = load_simulation("covariate_shift"), shifted_simulation(0.1)
    np.testing.assert_array_equal(plain.quantile(X, LEVELS), moved.quantile(X, LEVELS))
    assert np.abs(moved.sample(500, 0)[0]).mean() > np.abs(plain.sample(500, 0)[0]).mean() + 0.2


def test_what_is_no_simulation_is_refused():
    with pytest.raises(ValueError, match=r"no simulation 'sim9'.*sim1"):
        load_simulation("sim9")
    for a in (0.0, -1.0, 1.5):
        with pytest.raises(ValueError, match="got a="):
            shifted_simulation(a)
