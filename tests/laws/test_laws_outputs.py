"""What the point model says: parts of it, what is remembered, and for how long."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from localconformal.laws.once import Once, one_query
from localconformal.laws.outputs import FLOOR, Outputs, blank_outputs, with_spread


def known(n=10, spread=True):
    sigma = np.arange(n) + 100.0
    return Outputs(
        lambda X: np.asarray(X)[:, 0],
        np.arange(n) + 0.0,
        np.arange(n) + 10.0,
        model="the model",
        predict_spread=(lambda X: np.ones(len(X))) if spread else None,
        reference_spread=sigma if spread else None,
    )


@pytest.mark.parametrize("spread", [False, True])
def test_a_part_has_its_rows_only(spread):
    rows = np.array([7, 2, 3])
    outputs, part = known(spread=spread), known(spread=spread).take(rows)
    np.testing.assert_array_equal(part.reference, outputs.reference[rows])
    np.testing.assert_array_equal(part.response, outputs.response[rows])
    np.testing.assert_array_equal(part.predict([[5.0]]), [5.0])
    assert part.model == "the model"
    if spread:
        np.testing.assert_array_equal(part.reference_spread, outputs.reference_spread[rows])
    else:
        assert part.reference_spread is None


@pytest.mark.parametrize("spread", [False, True])
def test_held_out_rows_are_answered_by_what_was_said_without_them(spread):
    rest, fold = np.array([0, 1, 5, 9]), np.array([8, 2])
    outputs, part = known(spread=spread), known(spread=spread).held_out(rest, fold)
    np.testing.assert_array_equal(part.reference, outputs.reference[rest])
    np.testing.assert_array_equal(part.response, outputs.response[rest])
    # The function at these rows would be another number: it has seen them.
    np.testing.assert_array_equal(part.predict([[5.0], [6.0]]), outputs.reference[fold])
    # The spread has seen the scores of the fold.
    assert part.predict_spread is None
    assert part.reference_spread is None


def test_a_spread_is_positive_out_of_bag_and_learned_once():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    v = np.where(X[:, 0] > 0.5, 5.0, 0.1) * rng.normal(size=300)
    learned = with_spread(blank_outputs(v), X, v)
    assert np.all(learned.reference_spread >= FLOOR * np.median(np.abs(v)))
    low, high = learned.predict_spread([[0.1], [0.9]])
    assert high > 10 * low > 0
    assert with_spread(learned, X, v) is learned
    # A row's own size tells nothing of its spread.
    v[7] = 1e6
    assert with_spread(blank_outputs(v), X, v).reference_spread[7] < 1e5


def test_a_spread_of_zeros_is_positive():
    learned = with_spread(blank_outputs(np.zeros(30)), np.zeros((30, 1)), np.zeros(30))
    assert np.all(learned.reference_spread > 0)
    assert np.all(learned.predict_spread(np.zeros((3, 1))) > 0)


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, value=0.0):
        self.calls, self.value = 0, value

    def __call__(self, X):
        self.calls += 1
        return np.full(len(X), self.value)


def test_an_answer_is_remembered_inside_the_block_only():
    function, X = Counted(), np.zeros((3, 1))
    once = Once(function)
    once(X), once(X)
    assert function.calls == 2
    with one_query():
        once(X), once(X)
        with one_query():
            once(X)
        once(X)
    assert function.calls == 3
    once(X)
    with one_query():
        once(X)
    assert function.calls == 5


def test_only_the_same_object_counts_as_the_same_rows():
    function, X = Counted(), np.zeros((3, 1))
    once, other = Once(function), Once(function)
    with one_query():
        once(X), once(X.copy()), other(X)
        assert function.calls == 3
        # Objects that are gone leave their identities to others.
        for value in range(20):
            assert Once(Counted(value))(X)[0] == value
        for length in range(1, 20):
            assert len(once(np.zeros((length, 1)))) == length


def test_nothing_is_remembered_after_an_error():
    function, X = Counted(), np.zeros((3, 1))
    once = Once(function)

    def fails():
        with one_query():
            once(X)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    once(X)
    assert function.calls == 2


def test_threads_have_memories_of_their_own():
    function, X = Counted(), np.zeros((3, 1))
    once = Once(function)

    def ask(_):
        with one_query():
            return once(X)[0], once(X)[0]

    with ThreadPoolExecutor(4) as pool, one_query():
        once(X)
        assert list(pool.map(ask, range(20))) == [(0.0, 0.0)] * 20
    assert function.calls == 21
