"""Laws of the local laws, for any reference rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from localconformal import KernelLaw, NeighborsLaw
from localconformal.adjustments import ADJUSTMENTS, make_adjustment
from localconformal.engine.kernels import KERNELS
from localconformal.laws import SidedLaw

SETTINGS = settings(max_examples=40, deadline=None)
COORDINATE = st.floats(-100, 100) | st.integers(-2, 2).map(float)
# Six decimals: below the smallest normal number, no relative rounding bound can hold.
SCORE = st.floats(-50, 50).map(lambda v: round(v, 6)) | st.integers(-2, 2).map(float)
LAW = st.one_of(
    st.builds(
        KernelLaw,
        kernel=st.sampled_from(sorted(KERNELS)),
        bandwidth=st.sampled_from(["median", "median-log", "rate", 1e-3, 0.5, 1e3]),
        min_effective_samples=st.sampled_from([1, 3, 20]),
        random_state=st.just(0),
    ),
    st.builds(NeighborsLaw, n_neighbors=st.integers(1, 10)),
)


@st.composite
def references(draw):
    n = draw(st.integers(1, 20))
    return draw(arrays(float, (n, 2), elements=COORDINATE)), draw(arrays(float, n, elements=SCORE))


QUERIES = arrays(float, (4, 2), elements=COORDINATE)


@given(LAW, references(), QUERIES)
@SETTINGS
def test_one_by_one_equals_a_batch(law, data, X):
    law.fit(*data)
    for ask in (law.mean, law.effective_sample_size, lambda X: law.quantile(X, [0.1, 0.9])):
        alone = np.concatenate([ask(X[i : i + 1]) for i in range(len(X))])
        np.testing.assert_array_equal(ask(X), alone)


@given(LAW, references(), QUERIES)
@SETTINGS
def test_laws_are_finite_and_within_the_scores(law, data, X):
    law.fit(*data)
    quantiles = law.quantile(X, [0.05, 0.5, 0.95])
    assert np.isin(quantiles, data[1]).all()
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    slack = 1e-9 * (1 + np.abs(data[1]).max())
    assert np.all((law.mean(X) >= data[1].min() - slack) & (law.mean(X) <= data[1].max() + slack))
    assert np.all(law.effective_sample_size(X) <= len(data[1]) * (1 + 1e-9))


@given(LAW, references(), QUERIES, st.floats(0, 1), SCORE)
@SETTINGS
def test_the_law_of_inverses_holds(law, data, X, t, v):
    law.fit(*data)
    upper = law.upper_quantile(X, [t])[:, 0]
    left = law.cdf(X, np.full(len(X), v), side="left")
    assert np.all(v <= upper[left <= t])
    assert np.all(left[v <= upper] <= t + 2e-12)


@given(references(), QUERIES, st.randoms(use_true_random=False))
@SETTINGS
def test_permuting_the_references_changes_nothing(data, X, random):
    order = random.sample(range(len(data[1])), len(data[1]))
    one = KernelLaw(bandwidth=0.5).fit(*data)
    other = KernelLaw(bandwidth=0.5).fit(data[0][order], data[1][order])
    np.testing.assert_allclose(one.mean(X), other.mean(X), rtol=1e-6, atol=1e-6)


@given(references(), QUERIES, st.sampled_from([2.0**-7, 2.0, 1024.0]))
@SETTINGS
def test_scaling_the_scores_scales_the_law(data, X, c):
    one = KernelLaw(bandwidth=0.5).fit(*data)
    scaled = KernelLaw(bandwidth=0.5).fit(data[0], c * data[1])
    np.testing.assert_array_equal(scaled.quantile(X, [0.1, 0.9]), c * one.quantile(X, [0.1, 0.9]))
    np.testing.assert_allclose(scaled.mean(X), c * one.mean(X), rtol=1e-12, atol=1e-300)


@given(
    st.sampled_from(sorted(ADJUSTMENTS)),
    LAW,
    references(),
    QUERIES,
    arrays(float, (4, 2), elements=SCORE),
    st.floats(-3, 3),
)
@SETTINGS
def test_p_at_most_theta_implies_v_at_most_the_threshold(name, law, data, X, v, theta):
    V = np.column_stack([-data[1], data[1]])
    adjustment, F = make_adjustment(name).fit(V), SidedLaw.fit(law, data[0], V, None).at(X)
    levels = np.array([[0.95], [0.9]])
    p = adjustment.score(v, F, levels)
    for limit in (np.full((2, 1), theta), p[0], p):
        T = adjustment.threshold(limit, F, levels)
        assert np.all((v[:, :, None] <= T)[p <= limit])
