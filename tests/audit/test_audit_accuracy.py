"""How good point predictions are, beside a constant."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

from localconformal.audit.accuracy import accuracy

RNG = np.random.default_rng(0)
Y = RNG.gamma(1.0, 3.0, 500)


@pytest.mark.parametrize("noise", [0.0, 1.0, 30.0])
def test_the_numbers_are_those_of_scikit_learn(noise):
    y_pred = Y + noise * RNG.normal(size=500)
    found = accuracy(Y, y_pred)
    assert found.n == 500
    assert found.r2 == pytest.approx(r2_score(Y, y_pred))
    assert found.mae == pytest.approx(mean_absolute_error(Y, y_pred))
    constants = [np.abs(Y - value).mean() for value in np.linspace(0, 20, 200)]
    assert found.constant_mae <= min(constants)


def test_a_good_model_is_not_warned_of():
    assert accuracy(Y, Y + 0.1).warning == ""


@pytest.mark.parametrize("y_pred", [np.full(500, Y.mean()), np.full(500, Y.mean() + 1.0), -Y])
def test_a_model_no_better_than_a_constant_is_told(y_pred):
    found = accuracy(Y, y_pred)
    assert found.r2 <= 0.0
    assert "By its squared and absolute errors" in found.warning
    assert "no better than a constant" in found.warning


def test_one_measure_may_fail_alone():
    y = np.array([0.0] * 9 + [100.0])
    by_squares = accuracy(y, np.array([0.0] * 9 + [1.0]))
    assert by_squares.r2 < 0.0
    assert by_squares.mae < by_squares.constant_mae
    assert "By its squared errors" in by_squares.warning
    by_size = accuracy(y, np.array([11.0] * 9 + [60.0]))
    assert by_size.r2 > 0.0
    assert by_size.mae > by_size.constant_mae
    assert "By its absolute errors" in by_size.warning


def test_the_unit_does_not_matter_and_one_value_has_no_r2():
    y_pred = Y + RNG.normal(size=500)
    assert accuracy(1e200 * Y, 1e200 * y_pred).r2 == pytest.approx(accuracy(Y, y_pred).r2)
    same = accuracy(np.ones(5), np.ones(5))
    assert np.isnan(same.r2)
    assert same.warning == ""


@pytest.mark.parametrize("y_pred", [np.ones(3), np.full(500, np.nan), np.ones((500, 1))])
def test_predictions_of_other_rows_are_refused(y_pred):
    with pytest.raises(ValueError, match="y_pred has shape"):
        accuracy(Y, y_pred)
