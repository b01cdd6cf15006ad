"""Laws of the order statistics, for any values, weights and levels."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from localconformal.quantiles import (
    MASS_GUARD,
    conformal_quantile,
    upper_weighted_quantile,
    weighted_conformal_quantile,
    weighted_quantile,
)

SETTINGS = settings(max_examples=50, deadline=None)
LEVEL = st.floats(0.0, 1.0)
INSIDE = st.floats(0.01, 0.99)
VALUE = st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float)
LAW = st.lists(
    st.tuples(VALUE, st.floats(1e-3, 1e3) | st.just(0.0)), min_size=1, max_size=30
).filter(lambda law: sum(weight for _, weight in law) > 0)


def arrays(law):
    return (np.array(column) for column in zip(*law, strict=True))


def mass_below(values, weights, v, strict):
    inside = values < v if strict else values <= v
    return weights[inside].sum() / weights.sum()


@given(LAW, LEVEL)
@SETTINGS
def test_the_quantile_is_the_first_value_with_enough_mass(law, level):
    values, weights = arrays(law)
    q = weighted_quantile(values, weights, level)
    if np.isfinite(q):
        assert q in values
        assert mass_below(values, weights, q, strict=False) >= level - 2 * MASS_GUARD
        assert mass_below(values, weights, q, strict=True) <= level + 2 * MASS_GUARD
    else:
        assert q == -np.inf
        assert level <= MASS_GUARD


@given(LAW, LEVEL)
@SETTINGS
def test_the_upper_quantile_is_never_below_the_quantile(law, level):
    values, weights = arrays(law)
    assert weighted_quantile(values, weights, level) <= upper_weighted_quantile(
        values, weights, level
    )


@given(LAW, LEVEL, VALUE)
@SETTINGS
def test_enough_room_below_v_implies_v_at_most_the_upper_quantile(law, level, v):
    values, weights = arrays(law)
    if mass_below(values, weights, v, strict=True) <= level - MASS_GUARD:
        assert v <= upper_weighted_quantile(values, weights, level)


@given(LAW, LEVEL)
@SETTINGS
def test_turning_the_sign_exchanges_the_two_quantiles(law, level):
    values, weights = arrays(law)
    turned = -upper_weighted_quantile(-values, weights, 1.0 - level)
    assert weighted_quantile(values, weights, level) == turned


@given(LAW, LEVEL, st.randoms(use_true_random=False))
@SETTINGS
def test_the_order_of_the_atoms_does_not_matter(law, level, random):
    values, weights = arrays(law)
    order = random.sample(range(len(values)), len(values))
    assert weighted_quantile(values, weights, level) == weighted_quantile(
        values[order], weights[order], level
    )


@given(st.lists(VALUE, min_size=1, max_size=60), INSIDE)
@SETTINGS
def test_enough_scores_lie_at_or_below_the_conformal_quantile(scores, level):
    q = conformal_quantile(scores, level)
    assert np.sum(np.array(scores) <= q) + (q == np.inf) >= (len(scores) + 1) * level - 1e-6
    assert q == weighted_conformal_quantile(scores, np.ones(len(scores)), 1.0, level)


@given(st.lists(VALUE, min_size=1, max_size=60), INSIDE, INSIDE)
@SETTINGS
def test_the_conformal_quantile_grows_with_the_level(scores, one, other):
    low, high = sorted([one, other])
    assert conformal_quantile(scores, low) <= conformal_quantile(scores, high)
