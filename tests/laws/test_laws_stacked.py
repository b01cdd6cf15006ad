"""Several laws averaged: weights on the simplex that are earned, quantiles that are averages."""

import numpy as np
import pytest

from localconformal import KernelLaw, NeighborsLaw, ResponseLaw, ScaledLaw, StackedLaw, UniformLaw

#: Levels at which an average of quantiles is kept as it is.
KNOTS = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 0.9, 0.95])


def rows(n, seed, d=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    return X, np.where(X[:, 0] > 0.5, 5.0, 0.2) * rng.normal(size=n)


def test_the_right_law_gets_most_of_the_weight_and_memory_earns_nothing():
    laws = [UniformLaw(), NeighborsLaw(n_neighbors=60), NeighborsLaw(n_neighbors=1)]
    X, v = rows(400, 0)
    for scores, best in ((v, 1), (np.random.default_rng(0).normal(size=400), 0)):
        law = StackedLaw(laws, random_state=0).fit(X, scores)
        assert np.all(law.weights_ >= 0)
        assert law.weights_.sum() == pytest.approx(1.0)
        assert np.argmax(law.weights_) == np.argmin(law.losses_) == best
        assert law.weights_[2] < 0.1
        # The neighbour of a row, when it is the row itself, knows its score.
        assert (np.argmax(law.losses_), len(law.laws_)) == (2, np.count_nonzero(law.weights_))


def test_quantiles_are_the_weighted_average():
    (X, v), (Q, _) = rows(200, 0), rows(20, 1)
    laws = [UniformLaw(), KernelLaw(bandwidth=0.3, random_state=0), NeighborsLaw(n_neighbors=40)]
    law = StackedLaw(laws, weights=[2, 1, 1]).fit(X, v)
    np.testing.assert_allclose(law.weights_, [0.5, 0.25, 0.25])
    assert not hasattr(law, "losses_")
    parts = [one.fit(X, v) for one in laws]
    average = sum(w * part.quantile(Q, KNOTS) for w, part in zip(law.weights_, parts, strict=True))
    np.testing.assert_allclose(law.quantile(Q, KNOTS), average, atol=1e-8)


@pytest.mark.parametrize("member", ["uniform", "kernel", ResponseLaw(), ScaledLaw()], ids=str)
def test_one_law_alone_is_that_law(member):
    (X, v), (Q, _) = rows(150, 0), rows(20, 1)
    law = StackedLaw([member], random_state=0).fit(X, v)
    (inner,) = law.laws_
    np.testing.assert_allclose(law.quantile(Q, KNOTS), inner.quantile(Q, KNOTS), atol=1e-8)


def test_a_law_without_weight_is_not_kept_and_too_few_rows_share_the_weight():
    law = StackedLaw(["uniform", "neighbors", "kernel"], weights=[0, 3, 0]).fit(*rows(60, 0))
    (inner,) = law.laws_
    assert isinstance(inner, NeighborsLaw)
    law = StackedLaw(["uniform", "kernel"], random_state=0).fit(*rows(5, 0))
    np.testing.assert_array_equal(law.weights_, 0.5)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        *(({"laws": laws}, r"; expected .*\.$") for laws in ([], "kernel", (), 3)),
        *(
            ({"laws": ["uniform", "kernel"], "weights": bad}, "for 2 laws; expected one finite num")
            for bad in ([1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [1, 1, 1])
        ),
    ],
)
def test_stacks_of_nothing_and_bad_weights_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        StackedLaw(**params).fit(*rows(20, 0))


def test_neither_order_nor_unit_matters_and_equal_laws_share():
    laws = [UniformLaw(), NeighborsLaw(n_neighbors=60), KernelLaw(bandwidth=0.2, random_state=0)]
    X, v = rows(200, 0)

    def weights(order, unit=1.0):
        law = StackedLaw([laws[i] for i in order], random_state=0)
        return law.fit(X, unit * v).weights_[np.argsort(order)]

    expected = weights([0, 1, 2])
    np.testing.assert_allclose(weights([2, 0, 1]), expected, atol=1e-6)
    for unit in (2.0**-40, 2.0**40):
        np.testing.assert_allclose(weights([0, 1, 2], unit), expected, atol=1e-6)
    same = StackedLaw([NeighborsLaw(9), NeighborsLaw(9)], random_state=0).fit(X, v)
    np.testing.assert_allclose(same.weights_, 0.5)
