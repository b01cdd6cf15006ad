"""The user's own adjustment: how its inverses are found, and what is refused."""

import numpy as np
import pytest

from localconformal import KernelLaw, MonotoneAdjustment, Plain, UniformLaw
from localconformal.adjustments.base import BaseAdjustment
from localconformal.adjustments.monotone import LADDER, MemoSide, first_true
from localconformal.laws import SidedLaw

LEVELS = np.array([[0.9, 0.6], [0.8, 0.95]])


@pytest.fixture(scope="module")
def local():
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(60, 1)), rng.normal(size=(60, 2))
    return SidedLaw.fit(KernelLaw(bandwidth=0.5), X, V, None).at(rng.normal(size=(7, 1)))


def test_only_the_plain_adjustment_needs_no_law():
    assert BaseAdjustment.uses_law
    assert MonotoneAdjustment(np.add).uses_law
    assert not Plain().uses_law


ROOTS = np.array(
    [LADDER[0] / 2, LADDER[-2] * 3, -3e20, -7.0, -1.0, -1e-5, 1e-5, 0.3, 1.0, 7.0, 1e5, 3e20]
)


@pytest.mark.parametrize("strict", [False, True])
def test_the_first_place_where_a_condition_holds_is_found_from_above(strict):
    roots = np.concatenate([ROOTS, LADDER[1:-1:7]])
    found = first_true(lambda z: z > roots if strict else z >= roots, len(roots))
    assert np.all(found > roots if strict else found >= roots)
    # Around zero the bracket is as narrow as the lowest rung asks, elsewhere relative.
    assert np.all(found - roots <= 1e-10 * np.maximum(np.abs(roots), LADDER[LADDER > 0][0]) * 1.01)


def test_conditions_that_always_or_never_hold_end_at_the_ends():
    assert np.all(first_true(lambda z: np.ones(3, dtype=bool), 3) == LADDER[0])
    assert np.all(first_true(lambda z: np.zeros(3, dtype=bool), 3) == np.inf)
    beyond = first_true(lambda z: z >= 2.0 * LADDER[-1], 3)
    assert np.all(beyond == np.inf)


def test_rows_are_bisected_each_by_itself():
    roots = np.array([-np.inf, 0.25, 1e9, np.inf])
    together = first_true(lambda z: z >= roots, 4)
    for i, root in enumerate(roots):
        assert together[i] == first_true(lambda z, root=root: z >= root, 1)[0]


def test_conditions_are_asked_at_numbers_only():
    roots = np.array([-np.inf, -1.0, 3.0, LADDER[-1], np.inf])

    def holds(z):
        assert np.all(np.isfinite(z))
        return z >= roots

    first_true(holds, 5)


def test_the_ladder_is_symmetric_and_reaches_as_far_as_it_says():
    np.testing.assert_array_equal(LADDER, -LADDER[::-1])
    assert np.all(np.diff(LADDER) > 0)
    assert LADDER[-1] == 4.0**58
    assert LADDER[LADDER > 0][0] == 4.0**-60


def test_few_questions_are_enough():
    asked = []
    first_true(lambda z: asked.append(1) or z >= 0.3, 1)
    assert len(asked) < 60


def test_infinite_corrections_accept_everything_whatever_m(local):
    own = MonotoneAdjustment(lambda v, F, theta: theta - v)
    theta = np.array([[np.inf, 1.0], [0.5, np.inf]])
    T = own.threshold(theta, local, LEVELS)
    assert np.all(T[:, [0, 1], [0, 1]] == np.inf)
    np.testing.assert_allclose(T[:, [0, 1], [1, 0]], [[1.0, 0.5]] * 7, rtol=1e-9)


def test_a_threshold_is_just_where_m_turns_negative(local):
    own = MonotoneAdjustment(lambda v, F, theta: 2.0 * theta + F.quantile(F.level) - v)
    theta = np.random.default_rng(1).normal(size=(7, 2, 2))
    expected = 2.0 * theta + local.quantile(LEVELS)
    T = own.threshold(theta, local, LEVELS)
    assert np.all(expected <= T)
    np.testing.assert_allclose(T, expected, rtol=1e-9)


def test_all_of_a_stretch_on_which_m_is_zero_is_accepted(local):
    own = MonotoneAdjustment(lambda v, F, theta: np.floor(theta) - np.ceil(v))
    T = own.threshold(np.full((2, 2), 2.5), local, LEVELS)
    assert np.all(T >= 2.0)
    np.testing.assert_allclose(T, 2.0, rtol=1e-9)
    p = own.score(np.full((7, 2), 1.5), local, LEVELS)
    np.testing.assert_allclose(p, 2.0, rtol=1e-9)


def test_what_is_no_function_is_refused(local):
    with pytest.raises(ValueError, match=r"m is 3; a function m\(v, F, theta\) was expected"):
        MonotoneAdjustment(3).fit(np.zeros((5, 2)))


@pytest.mark.parametrize("m", [lambda v, F, t: 1.0, lambda v, F, t: np.ones((len(v), 1))])
def test_answers_of_another_shape_are_refused(m, local):
    with pytest.raises(ValueError, match=r"m\(v, F, theta\) returned .*one number a row"):
        MonotoneAdjustment(m).score(np.zeros((7, 2)), local, LEVELS)


@pytest.mark.parametrize("m", [lambda v, F, t: t + v, lambda v, F, t: np.cos(9 * v) + t - v])
def test_what_rises_in_v_at_a_calibration_row_is_refused(m, local):
    V = np.random.default_rng(2).normal(size=(7, 2))
    with pytest.raises(ValueError, match=r"rises in v or falls in theta"):
        MonotoneAdjustment(m).score(V, local, LEVELS)


class Counting:
    """A side's law that counts what it is asked."""

    level = 0.7

    def __init__(self):
        self.asked = []

    def answer(self, *question):
        self.asked.append(question)
        return np.full(3, float(len(self.asked)))

    def quantile(self, t):
        return self.answer("Q", t)

    def upper_quantile(self, t):
        return self.answer("Q+", t)

    def cdf(self, v, side):
        return self.answer("F", side)

    def mean(self, absolute):
        return self.answer("E", absolute)


def test_a_number_is_asked_once_and_a_vector_each_time():
    side = Counting()
    memo, vector = MemoSide(side), np.full(3, 0.5)
    for _ in range(2):
        assert memo.quantile(0.5)[0] == 1.0
        assert memo.upper_quantile(0.5)[0] == 2.0
        assert memo.quantile(0.6)[0] == 3.0
        assert memo.mean()[0] == 4.0
        assert memo.mean(absolute=True)[0] == 5.0
    assert side.asked[3:] == [("E", False), ("E", True)]
    assert memo.quantile(vector)[0] == 6.0
    assert memo.quantile(vector)[0] == 7.0
    assert memo.upper_quantile(vector)[0] == 8.0
    assert memo.upper_quantile(vector)[0] == 9.0
    memo.cdf(vector)
    memo.cdf(vector, side="left")
    assert side.asked[-2:] == [("F", "right"), ("F", "left")]
    assert memo.level == 0.7


def test_a_user_s_function_sees_one_side_and_its_level(local):
    seen = []

    def m(v, F, theta):
        seen.append(F.level)
        np.testing.assert_array_equal(F.mean(), local.mean()[:, seen_side(F)])
        return theta - v

    def seen_side(F):
        return int(F.level in LEVELS[1])

    MonotoneAdjustment(m).threshold(np.zeros((2, 2)), local, LEVELS)
    assert set(seen) == set(LEVELS.ravel())


def test_one_side_alone_has_one_column():
    V = np.arange(5.0)[:, None]
    F = SidedLaw.fit(UniformLaw(), np.zeros((5, 1)), V, None).at(np.zeros((3, 1)))
    own = MonotoneAdjustment(lambda v, F, theta: F.quantile(F.level) + theta - v)
    T = own.threshold(np.zeros((1, 1)), F, np.array([[0.5]]))
    np.testing.assert_allclose(T, np.full((3, 1, 1), 2.0), rtol=1e-9)
