"""Terms of one's own: the classes of docs/extending.md, and their laws.

The page includes these classes from here, so that what it shows is what is tested.
"""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from localconformal import KernelLaw, LocalizedConformalRegressor, UniformLaw
from localconformal.adjustments import Adjustment
from localconformal.composition import Correction
from localconformal.laws import Law, SidedLaw
from localconformal.laws.base import ReferenceEngine, WeightedLaw, reference_rows
from localconformal.metrics import coverage, coverage_band
from localconformal.quantiles import MASS_GUARD, round_up
from localconformal.rows import Rows, as_rows, fit_model, predict_column
from localconformal.scores import Band, Score


class RelativeScore(Score):
    """V = (y - mu(x)) / (floor + |mu(x)|): errors in units of the prediction."""

    def __init__(self, floor=1.0):
        self.floor = floor

    def fit(self, estimator, X, y, *, confidence_level=0.9, random_state=0, fit_params=None):
        self.model_ = fit_model(estimator, as_rows(X).X, y, fit_params)
        return self

    def compute(self, rows):
        mu = predict_column(self.model_, rows.X)
        return Band.around(mu, unit=self.floor + np.abs(mu))


@dataclass(frozen=True)
class SameLabel:
    """1{X_j has the label of x}; everybody, where no reference row has it."""

    labels: np.ndarray

    def __call__(self, asked):
        same = asked[:, None] == self.labels
        alone = ~same.any(axis=1)
        return np.where(alone[:, None], 1.0, same), alone


class LabelLaw(Law):
    """F(v | x) = share of scores up to v among reference rows with the same value in one column."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, v):
        rows, scores = reference_rows(X, v)
        self.engine_ = ReferenceEngine(scores, SameLabel(np.asarray(rows.X)[:, self.column]))
        return self

    def at(self, rows):
        return WeightedLaw(self.engine_, np.asarray(rows.X)[:, self.column])


class ShrunkQuantile(Adjustment):
    """p = v - share Q(tau; F); T = share Q(tau; F) + theta: split conformal at 0, SLCP at 1."""

    def __init__(self, share=0.5):
        self.share = share

    def score(self, V, F, levels):
        return V[:, :, None] - self.share * F.quantile(levels)

    def threshold(self, theta, F, levels):
        return round_up(self.share * F.quantile(levels), theta)


class SameLabelOnly(Correction):
    """theta* of the calibration rows with the same value in one column."""

    def __init__(self, column=0):
        self.column = column

    def keep(self, rows, V):
        return np.asarray(rows.X)[:, self.column]

    def theta(self, calibration, rows, levels):
        asked = np.asarray(rows.X)[:, self.column]
        p, sides = calibration.scores(levels), calibration.parts.sides
        theta = np.full((len(rows), *p.shape[1:]), np.inf)
        for label in np.intersect1d(asked, calibration.kept):
            theta[asked == label] = sides.theta(p[calibration.kept == label], levels)
        return theta


class ByLabelRegressor(LocalizedConformalRegressor):
    """Any score, law and adjustment, with a calibration of its own for each label in column 1."""

    def _method(self, task):
        return replace(super()._method(task), correction=SameLabelOnly(column=1))


OWN = {
    "score": {"conformity_score": RelativeScore(), "law": KernelLaw(random_state=0)},
    "law": {"law": LabelLaw(column=1)},
    "adjustment": {"adjustment": ShrunkQuantile(0.5), "law": KernelLaw(random_state=0)},
    "all": {
        "conformity_score": RelativeScore(),
        "law": LabelLaw(1),
        "adjustment": ShrunkQuantile(0.5),
    },
}


def rows(n, seed):
    """The noise depends on a label (column 1) and grows with the mean."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(1, 5, n), rng.integers(0, 3, n)])
    return X, 3 * X[:, 0] + (0.1 + X[:, 1]) * X[:, 0] * rng.standard_normal(n)


X, Y = rows(800, seed=0)
X_NEW, Y_NEW = rows(2_000, seed=1)


def own(kind=LocalizedConformalRegressor, **parts):
    return kind(LinearRegression(), random_state=0, **parts)


@pytest.mark.parametrize("name", [*OWN, "correction"])
def test_coverage_is_kept_also_row_by_row_and_after_a_pickle(name):
    by_label = {"kind": ByLabelRegressor, "law": "kernel"}
    model = clone(own(**OWN.get(name, by_label))).fit(X, Y)
    low, high = coverage_band(200, len(Y_NEW), 0.9, probability=0.999)
    assert low <= coverage(Y_NEW, model.predict_interval(X_NEW)) <= high
    together = model.predict_interval(X_NEW[:20])
    again = pickle.loads(pickle.dumps(model))
    alone = np.vstack([again.predict_interval(X_NEW[[i]]) for i in range(20)])
    np.testing.assert_allclose(alone, together, rtol=1e-12)


def test_the_score_and_its_bounds_are_inverses():
    score = RelativeScore().fit(LinearRegression(), X, Y)
    band, T = score(Rows(X_NEW)), np.random.default_rng(2).normal(size=(len(X_NEW), 2, 1))
    lower, upper = score.bounds(band, T)[:, :, 0].T
    inside = np.column_stack([lower <= Y_NEW, upper >= Y_NEW])
    np.testing.assert_array_equal(inside, score.values(band, Y_NEW) <= T[:, :, 0])


def test_the_law_is_that_of_its_label_and_of_all_rows_for_a_new_label():
    law, label = LabelLaw(1).fit(X, Y), X[:, 1] == 2
    for asked, rows in ([1.0, 2.0], label), ([1.0, 7.0], np.full(len(X), True)):
        expected = UniformLaw().fit(X[rows], Y[rows])
        v = np.linspace(-3, 30, 25)[None]
        for t in (0.1, 0.5, 0.9):
            upper = law.upper_quantile([asked], [t])
            np.testing.assert_array_equal(upper, expected.upper_quantile([asked], [t]))
            left = law.cdf([asked], v, side="left")
            np.testing.assert_array_equal(left <= t + MASS_GUARD, v <= upper)
        assert law.fallback([asked]).all() == rows.all()


def test_p_at_most_theta_implies_v_at_most_the_threshold():
    v = np.round(np.random.default_rng(4).normal(size=len(X)), 1)
    V, levels = np.column_stack([-v, v]), np.array([[0.95], [0.95]])
    F = SidedLaw.fit(LabelLaw(1), Rows(X), V).at(Rows(X))
    adjustment = ShrunkQuantile(1 / 3)
    p = adjustment.score(V, F, levels)
    for theta in p[:20]:
        assert np.all((V[:, :, None] <= adjustment.threshold(theta[None], F, levels))[p <= theta])


@pytest.mark.parametrize(("share", "name"), [(1.0, "additive"), (0.0, "plain")])
def test_the_ends_of_the_adjustment_are_those_of_the_library(share, name):
    law = KernelLaw(random_state=0)
    ours = own(adjustment=ShrunkQuantile(share), law=law).fit(X, Y).predict_interval(X_NEW)
    theirs = own(adjustment=name, law=law).fit(X, Y).predict_interval(X_NEW)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_correction_covers_within_each_label_and_is_infinite_for_a_new_one():
    model = own(kind=ByLabelRegressor, adjustment="plain").fit(X, Y)
    intervals, labels = model.predict_interval(X_NEW), X_NEW[:, 1]
    counts = [np.count_nonzero(model.calibration_.kept == label) for label in range(3)]
    for label, n in enumerate(counts):
        mine = labels == label
        low, high = coverage_band(n, mine.sum(), 0.9, probability=0.999)
        assert low <= coverage(Y_NEW[mine], intervals[mine]) <= high
    with pytest.warns(UserWarning, match="infinite"):
        assert np.isinf(model.predict_interval([[1.0, 7.0]])).all()
