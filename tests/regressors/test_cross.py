"""``cv=``: intervals across folds, against plain formulas and a peer."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from localconformal import (
    ConditionalConformalRegressor,
    ConformalizedQuantileRegressor,
    DistSplitRegressor,
    KernelLaw,
    LocalizedConformalRegressor,
    MADSplitRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
    cross,
)
from localconformal.rows import Rows
from localconformal.tabular.model import _PROPOSAL
from registry import awkward_data, ci_but, light, optional, smooth_data

X, Y = awkward_data(150, seed=0)
X_NEW = awkward_data(30, seed=9)[0]
LEVELS = [0.5, 0.9]
FOLDS = KFold(5, shuffle=True, random_state=3)
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def plus(lower, upper, alpha):
    """CV+ from the ends (m, n) of all rows: Barber et al. 2021, equation 11."""
    n = lower.shape[1]
    low, high = int(np.floor(alpha * (n + 1) + 1e-9)), int(np.ceil((1 - alpha) * (n + 1) - 1e-9))
    return np.stack([np.sort(lower)[:, low - 1], np.sort(upper)[:, high - 1]], axis=1)


def textbook(estimator, folds, alpha):
    """CV+ of absolute residuals, with a table of all rows."""
    ends = []
    for rest, fold in folds:
        model = estimator.fit(X[rest], Y[rest])
        size = np.abs(Y[fold] - model.predict(X[fold]))
        ends.append(model.predict(X_NEW)[:, None] + size * np.array([[[-1.0]], [[1.0]]]))
    return plus(*np.concatenate(ends, axis=2), alpha)


@pytest.mark.parametrize("cv", ci_but([FOLDS], [FOLDS, "loo"]))
def test_absolute_residuals_are_the_textbook_formula(cv):
    model = SplitConformalRegressor(LinearRegression(), cv=cv).fit(X, Y)
    folds = KFold(len(Y)) if cv == "loo" else cv
    expected = textbook(LinearRegression(), folds.split(X), alpha=0.1)
    np.testing.assert_allclose(model.predict_interval(X_NEW), expected, rtol=0, atol=1e-9)


@pytest.mark.ci
@pytest.mark.parametrize("n_folds", [5, 10, 150])
@pytest.mark.parametrize("estimator", [LinearRegression(), KNeighborsRegressor()])
def test_bounds_equal_those_of_mapie(estimator, n_folds):
    mapie = optional("mapie.regression")
    folds = KFold(n_folds, shuffle=True, random_state=1)
    peer = mapie.CrossConformalRegressor(estimator, confidence_level=LEVELS, cv=folds)
    expected = peer.fit_conformalize(X, Y).predict_interval(X_NEW)[1]
    ours = SplitConformalRegressor(estimator, cv=folds).fit(X, Y)
    for place, level in enumerate(LEVELS):
        found = ours.predict_interval(X_NEW, level)
        np.testing.assert_allclose(found, expected[:, :, place], rtol=0, atol=1e-9)


COMPOSITIONS = {
    "slcp": (SLCPRegressor, {}),
    "union": (SLCPRegressor, {"sides": "union", "upper_share": 0.3}),
    "upper": (SLCPRegressor, {"sides": "upper"}),
    "plain": (LocalizedConformalRegressor, {"adjustment": "plain"}),
    "scaled": (LocalizedConformalRegressor, {"adjustment": "scaled"}),
    "theta": (DistSplitRegressor, {}),
    "response": (DistSplitRegressor, {"conformity_score": "response", "sides": "joint"}),
    "expectation": (LocalizedConformalRegressor, {"adjustment": "additive-expectation"}),
    "absolute": (
        LocalizedConformalRegressor,
        {"conformity_score": "absolute", "adjustment": "multiplicative"},
    ),
    "cqr": (ConformalizedQuantileRegressor, {"method": "asymmetric"}),
    "mad": (MADSplitRegressor, {}),
}
EACH = pytest.mark.parametrize("name", ci_but(["union"], COMPOSITIONS))


def make(name, **options):
    cls, own = COMPOSITIONS[name]
    law = {"law": KernelLaw(bandwidth=0.7)} if "law" in cls().get_params() else {}
    return light(cls, cv=4, **law, **own, **options)


def by_hand(model, level):
    """Order statistics of both ends over a table of all rows."""
    sides, ends, levels = model.parts_.sides, [], np.array([level])
    for fold in model.calibration_.folds:
        p = fold.scores(levels)
        if not sides.separate:
            p = np.broadcast_to(p[:, sides.closed].max(axis=1, keepdims=True), p.shape)
        at = fold.parts.at(Rows(X_NEW))
        ends.append(np.concatenate([at.bounds(one[None], levels) for one in p], axis=2))
    lower, upper = np.moveaxis(np.concatenate(ends, axis=2), 1, 0)
    alphas = sides.shares * (1 - level) if sides.separate else [1 - level] * 2
    each = [plus(lower, upper, alpha) for alpha in alphas]
    found = np.stack([each[0][:, 0], each[1][:, 1]], axis=1)
    crossed = found[:, 0] > found[:, 1]
    found[crossed] = found[crossed].mean(axis=1, keepdims=True)
    return found


@EACH
@pytest.mark.parametrize("probes", [256, 9])
def test_every_composition_is_an_order_statistic_of_ends(name, probes, monkeypatch):
    monkeypatch.setattr(cross, "_PROBES", probes)
    model = make(name).fit(X, Y)
    for level in LEVELS:
        expected = by_hand(model, level)
        np.testing.assert_allclose(model.predict_interval(X_NEW, level), expected, rtol=1e-12)


def test_order_statistics_of_sorted_lists_with_ties(monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(300):
        monkeypatch.setattr(cross, "_PROBES", int(rng.integers(6, 12)))
        values = rng.integers(1, 50)
        sizes = rng.integers(1, 80, size=rng.integers(1, 8))
        lists = [np.sort(rng.integers(0, values, size=size)).astype(float) for size in sizes]
        ranks = rng.integers(1, sum(sizes) + 2, size=(3, 2))
        found = cross.order_statistic(lambda k, at, of=lists: of[k][at], sizes, ranks)
        expected = np.append(np.sort(np.concatenate(lists)), np.inf)[ranks - 1]
        np.testing.assert_array_equal(found, expected)


@EACH
def test_rows_alone_levels_frames_and_files(name, tmp_path):
    model = make(name).fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    new = pd.DataFrame(X_NEW, columns=["a", "b"], index=np.arange(30) * 7)
    several = model.predict_interval(new, [0.9, 0.5])
    alone = [model.predict_interval(new.iloc[[row]], [0.9, 0.5]) for row in range(5)]
    np.testing.assert_allclose(several[:5], np.concatenate(alone), rtol=1e-12, atol=1e-12)
    assert (several[:, 0, 0] <= several[:, 0, 1]).all()
    assert (several[:, 1, 0] >= several[:, 1, 1]).all()
    frame = model.predict_interval(new, output="frame")
    assert list(frame) == ["lower", "upper"]
    assert (frame.index == new.index).all()
    np.testing.assert_array_equal(frame, model.predict_interval(new))
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_interval(new, [0.9, 0.5]), several)
    assert len(model.diagnose(new)) == len(new)


@pytest.mark.ci
@EACH
def test_model_files(name, tmp_path):
    files = optional("localconformal.io.models")
    model = make(name).fit(X, Y)
    again = files.load_model(files.save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict_interval(X_NEW), model.predict_interval(X_NEW))


def test_whole_numbers_and_supports():
    y = np.abs(np.round(Y))
    model = make("slcp", support=(0, 3), integer=True).fit(X, np.minimum(y, 3))
    found = model.predict_interval(X_NEW)
    assert (found % 1 == 0).all()
    assert ((found >= 0) & (found <= 3)).all()


class Counting(LinearRegression):
    """Notes each call of predict."""

    asked = 0

    def predict(self, X):
        type(self).asked += 1
        return super().predict(X)


def test_a_model_is_asked_once_per_query_and_fold():
    model = SLCPRegressor(Counting(), law=KernelLaw(bandwidth=0.7), cv=4, random_state=0).fit(X, Y)
    Counting.asked = 0
    model.predict_interval(X_NEW, LEVELS)
    assert Counting.asked == 4


def test_conformalize_makes_a_split_model_of_it():
    X_cal, y_cal = awkward_data(60, seed=4)
    split = light(SLCPRegressor, calibration_size=None).fit(X, Y).conformalize(X_cal, y_cal)
    crossed = light(SLCPRegressor, cv=4).fit(X, Y)
    assert crossed.guarantee_.proven_level is not None
    np.testing.assert_array_equal(crossed.predict(X_NEW), split.predict(X_NEW))
    crossed.conformalize(X_cal, y_cal)
    np.testing.assert_array_equal(crossed.predict_interval(X_NEW), split.predict_interval(X_NEW))
    assert crossed.guarantee_ == split.guarantee_
    assert crossed.predict_quantiles(X_NEW, LEVELS).shape == (30, 2)


def test_the_guarantee_names_both_levels_and_the_source():
    n, K = len(Y), 5
    promise = light(SLCPRegressor, cv=K).fit(X, Y).guarantee_
    lost = min(2 * (1 - 1 / K) / (n / K + 1), (1 - K / n) / (K + 1))
    assert promise.proven_level == pytest.approx(0.8 - lost)
    assert promise.n_calibration == n
    for said in (f"at least {promise.proven_level:g}", "about 0.9", "Barber"):
        assert said in str(promise)
    leave_one_out = light(SplitConformalRegressor, cv="loo").fit(X[:20], Y[:20])
    assert leave_one_out.guarantee_.proven_level == pytest.approx(0.8)
    # Each side may lose as much.
    apart = light(SLCPRegressor, cv=K, sides="union").fit(X, Y).guarantee_
    assert apart.proven_level == pytest.approx(0.8 - 2 * lost)


def test_the_report_counts_all_rows_twice():
    rows = light(SLCPRegressor, cv=5).fit(X, Y).fit_report_["rows"]
    assert (rows["train"], rows["calibration"]) == (150, 150)


class Weighted(LinearRegression):
    """Rows above zero count twice."""

    def fit(self, X, y):
        return super().fit(X, y, 1.0 + (y > 0))


def test_weights_go_with_their_rows():
    folds = KFold(5)
    model = SplitConformalRegressor(LinearRegression(), cv=folds)
    found = model.fit(X, Y, sample_weight=1.0 + (Y > 0)).predict_interval(X_NEW)
    expected = textbook(Weighted(), folds.split(X), alpha=0.1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


FORESTS = [
    RandomForestRegressor(40, random_state=0),
    BaggingRegressor(LinearRegression(), 40, max_features=1, random_state=0),
]


@pytest.mark.parametrize("forest", ci_but(FORESTS[:1], FORESTS))
@pytest.mark.parametrize("sides", ["joint", "upper"])
def test_out_of_bag_is_the_mean_of_trees_that_have_not_seen_the_row(forest, sides):
    options = {"adjustment": "plain", "sides": sides, "cv": "oob"}
    model = LocalizedConformalRegressor(forest, **options).fit(X, Y)
    trees, bags = model.score_.model_, model.score_.model_.estimators_samples_
    features = getattr(trees, "estimators_features_", [slice(None)] * 40)
    said = [
        [tree.predict(rows[:, columns]) for rows in (X, X_NEW)]
        for tree, columns in zip(trees.estimators_, features, strict=True)
    ]
    lower, upper = np.empty((30, 150)), np.empty((30, 150))
    for row in range(150):
        without = [one for one, bag in zip(said, bags, strict=True) if row not in bag]
        own, new = (np.mean([one[place] for one in without], axis=0) for place in (0, 1))
        size = Y[row] - own[row] if sides == "upper" else abs(Y[row] - own[row])
        lower[:, row], upper[:, row] = new - size, new + size
    expected = plus(lower, upper, 0.1)
    if sides == "upper":
        expected[:, 0] = -np.inf
    np.testing.assert_allclose(model.predict_interval(X_NEW), expected, rtol=1e-9)
    assert model.guarantee_.proven_level == pytest.approx(0.8)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(model)).predict_interval(X_NEW[:1])[0], expected[0], rtol=1e-9
    )


REFUSED = {
    "hold out 45 of 150 rows": (SplitConformalRegressor, {"cv": ShuffleSplit(3, test_size=0.1)}),
    "at least 2 folds and at most one per row": (SplitConformalRegressor, {"cv": 151}),
    "cv='oob' with LinearRegression": (SplitConformalRegressor, {"cv": "oob"}),
    "with a law": (SLCPRegressor, {"cv": "oob", "estimator": RandomForestRegressor(5)}),
    "The 'cv' parameter": (SplitConformalRegressor, {"cv": "ten"}),
    "use more, such as": (
        SplitConformalRegressor,
        {"cv": "oob", "estimator": RandomForestRegressor(2, random_state=0)},
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_makes_no_sense_is_refused_in_a_sentence(message):
    cls, options = REFUSED[message]
    with pytest.raises(ValueError, match=message):
        light(cls, **options).fit(X, Y)


# ---- predictive distribution --------------------------------------------------------------------

SHARES = np.array([0.03, 0.25, 0.5, 0.8, 0.97])


def responses_by_hand(model):
    """The response of each calibration row's place at new rows, by its own fold: (m, n)."""
    tables = []
    for fold in model.calibration_.folds:
        single = light(LocalizedConformalRegressor).fit(X, Y)
        single.parts_, single.calibration_ = fold.parts, fold
        ranks = (np.arange(fold.n) + 1) / (fold.n + 1)
        tables.append(single.predict_quantiles(X_NEW, ranks))
    return np.concatenate(tables, axis=1)


@pytest.mark.parametrize("name", ci_but(["slcp"], ["slcp", "plain", "theta", "response", "upper"]))
@pytest.mark.parametrize("probes", [256, 9])
def test_quantiles_are_order_statistics_of_the_folds_own(name, probes, monkeypatch):
    monkeypatch.setattr(cross, "_PROBES", probes)
    model = make(name).fit(X, Y)
    n, table = len(Y), np.sort(responses_by_hand(model), axis=1)
    exact = (n + 1) * SHARES
    ranks = np.where(SHARES < 0.5, np.floor(exact), np.ceil(exact)).astype(int)
    found = model.predict_quantiles(X_NEW, SHARES)
    # One level with few probes is searched for; else all places are read.
    for level, column in zip(SHARES, found.T, strict=True):
        np.testing.assert_allclose(model.predict_quantiles(X_NEW, level), column, rtol=1e-12)
    np.testing.assert_allclose(found, table[:, ranks - 1], rtol=1e-9, atol=1e-9)
    alone = np.concatenate([model.predict_quantiles(X_NEW[[i]], SHARES) for i in range(5)])
    np.testing.assert_allclose(alone, found[:5], rtol=1e-12)
    # Few draws ask each fold for its own, many read all places.
    few, many = (model.sample(X_NEW, k, random_state=0) for k in (1, n))
    for drawn in (few, many):
        apart = np.abs(drawn[:, :, None] - table[:, None]).min(axis=2)
        assert apart.max() < 1e-9


def test_quantiles_without_a_law_are_the_textbook_formula():
    model = LocalizedConformalRegressor(LinearRegression(), adjustment="plain", cv=FOLDS).fit(X, Y)
    ends = []
    for rest, fold in FOLDS.split(X):
        line = LinearRegression().fit(X[rest], Y[rest])
        ends.append(line.predict(X_NEW)[:, None] + Y[fold] - line.predict(X[fold]))
    place = int(np.ceil(0.8 * (len(Y) + 1)))
    expected = np.sort(np.concatenate(ends, axis=1))[:, place - 1]
    np.testing.assert_allclose(model.predict_quantiles(X_NEW, 0.8), expected, rtol=0, atol=1e-9)


def test_the_distribution_function_inverts_the_quantiles_and_samples_follow_it():
    model = make("slcp").fit(X, Y)
    q = model.predict_quantiles(X_NEW, SHARES)
    apart = 1e-6 * np.ptp(Y)
    up, down = model.predict_cdf(X_NEW, q + apart), model.predict_cdf(X_NEW, q - apart)
    below = SHARES < 0.5
    assert np.all(np.where(below, up > SHARES, up >= SHARES))
    assert np.all(np.where(below, down <= SHARES, down < SHARES + 1 / len(Y)))
    drawn = model.sample(X_NEW, 4_000, random_state=0)
    shares = np.mean(drawn[:, :, None] <= q[:, None], axis=1)
    assert np.abs(shares - SHARES).max() < 0.05
    near = np.abs(drawn[:, :400, None] - drawn[:, None, 400:800]).mean() / 2.0
    by_sample = np.abs(drawn[: len(X_NEW)] - Y[: len(X_NEW), None]).mean() - near
    assert model.crps(X_NEW, Y[: len(X_NEW)]) == pytest.approx(by_sample, rel=0.05)
    assert "at most 2 t" in model.guarantee_.predictive


@pytest.mark.ci
def test_quantiles_across_folds_cover_about_their_level():
    above = []
    for seed in range(60):
        A, b = smooth_data(120, seed)
        new, y = smooth_data(200, 1_000 + seed)
        model = light(SLCPRegressor, cv=5, law=KernelLaw()).fit(A, b)
        above.append(np.mean(y[:, None] > model.predict_quantiles(new, [0.1, 0.5, 0.9]), axis=0))
    assert np.abs(np.mean(above, axis=0) - [0.9, 0.5, 0.1]).max() < 0.025


def test_what_folds_do_not_give_is_refused_in_a_sentence():
    bags = SLCPRegressor(RandomForestRegressor(50), adjustment="plain", cv="oob", random_state=0)
    with pytest.raises(ValueError, match="gives only intervals; use cv=10, or call conformalize"):
        bags.fit(X, Y).predict_quantiles(X_NEW, 0.5)
    points = SplitConformalRegressor(RandomForestRegressor(50), cv="oob", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="use LocalizedConformalRegressor with a score other"):
        points.predict_quantiles(X_NEW, 0.5)
    assert "alpha, is for the worst case (jackknife+" in str(points.guarantee_)
    model = light(SLCPRegressor, cv=4).fit(X, Y)
    assert "minus a little for folds, is for the worst case (CV+" in str(model.guarantee_)
    monitor = optional("localconformal.monitor")
    with pytest.raises(ValueError, match="with cv=; call conformalize"):
        monitor.CoverageMonitor(model)


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        ([1, 2], r"got cv=\[1, 2\], which does not split the rows"),
        (GroupKFold(3), r"'groups' .*list\(GroupKFold\(5\)\.split"),
        (iter([]), "whose 0 folds hold out 0 of"),
    ],
)
def test_folds_that_do_not_split_the_rows_are_refused_in_a_sentence(cv, words):
    with pytest.raises(ValueError, match=words):
        light(SplitConformalRegressor, cv=cv).fit(X, Y)


def test_a_splitter_in_a_model_file_is_refused_with_the_remedy(tmp_path):
    models = optional("localconformal.io.models")
    model = light(SplitConformalRegressor, cv=KFold(4)).fit(X, Y)
    with pytest.raises(models.ModelFileError, match="a number of folds as cv"):
        models.save_model(model, tmp_path / "model.skops")


def test_too_few_rows_for_the_level_are_infinite_and_say_so():
    model = light(SplitConformalRegressor, cv="loo").fit(X[:8], Y[:8])
    with pytest.warns(UserWarning, match="needs at least 9"):
        assert np.isinf(model.predict_interval(X_NEW)).all()


@pytest.mark.ci
@parametrize_with_checks(
    [light(SLCPRegressor, cv=2), light(SplitConformalRegressor, cv=2)],
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.ci
def test_the_default_law_across_folds():
    X_auto, y_auto = smooth_data(160, seed=1)
    model = SLCPRegressor(cv=3, effort="low", random_state=0).fit(X_auto[:120], y_auto[:120])
    lower, upper = model.predict_interval(X_auto[120:]).T
    assert np.mean((lower <= y_auto[120:]) & (y_auto[120:] <= upper)) > 0.7


def interpolating(n, rng):
    """As many columns as rows: least squares is as unstable as it gets."""
    X = rng.normal(size=(n, 40))
    return X, X[:, 0] + rng.normal(size=n)


def copies(n, rng):
    """Pairs of equal rows: a nearest neighbour knows those of other folds by heart."""
    X = np.repeat(rng.normal(size=(n, 2)), 2, axis=0)
    order = rng.permutation(2 * n)[:n]
    return X[order], np.repeat(rng.standard_cauchy(n), 2)[order]


ADVERSARIAL = {
    "interpolating": (LinearRegression(), interpolating),
    "copies": (KNeighborsRegressor(1), copies),
}


@pytest.mark.ci
@pytest.mark.parametrize("cv", [2, 5, pytest.param("loo", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_coverage_is_at_least_what_is_proven_on_adversarial_data(name, cv):
    estimator, draw = ADVERSARIAL[name]
    rng, n, found = np.random.default_rng(0), 40, []
    for _ in range(100):
        X_all, y_all = draw(n + 20, rng)
        model = SplitConformalRegressor(estimator, cv=cv, confidence_level=0.8, random_state=0)
        lower, upper = model.fit(X_all[:n], y_all[:n]).predict_interval(X_all[n:]).T
        found.append(np.mean((lower <= y_all[n:]) & (y_all[n:] <= upper)))
    error = np.std(found) / np.sqrt(len(found))
    # Six cells, each within 3.5 standard errors: together below one in a thousand.
    assert np.mean(found) >= model.guarantee_.proven_level - 3.5 * error


@pytest.mark.nightly
@pytest.mark.parametrize("cls", [SplitConformalRegressor, SLCPRegressor, DistSplitRegressor])
def test_coverage_is_near_the_level_on_ordinary_data(cls):
    found = []
    for seed in range(60):
        X_all, y_all = smooth_data(500, seed)
        law = {"law": KernelLaw(bandwidth="median")} if "law" in cls().get_params() else {}
        model = light(cls, cv=5, **law).fit(X_all[:100], y_all[:100])
        lower, upper = model.predict_interval(X_all[100:]).T
        found.append(np.mean((lower <= y_all[100:]) & (y_all[100:] <= upper)))
    error = np.std(found) / np.sqrt(len(found))
    assert 0.9 - 3 * error <= np.mean(found) <= 0.93 + 3 * error


def test_the_proposal_says_what_was_measured():
    rows = pd.DataFrame(json.loads((RESULTS / "cross.json").read_text())["tables"])
    cross, split = (
        rows[rows["method"] == one].set_index(["table", "repeat"]) for one in ("cross", "split")
    )
    scores = (cross["score"] / split["score"]).groupby("table").mean()
    seconds = [one["fit_seconds"].groupby("table").mean() for one in (cross, split)]
    times = seconds[0] / seconds[1]
    assert f"by {100 * (1 - np.exp(np.log(scores).mean())):.0f} % on average" in _PROPOSAL
    assert f"fitting took {times.min():.0f} to {times.max():.0f} times as long" in _PROPOSAL


@pytest.mark.ci
def test_rows_on_dask_are_predicted_and_not_fitted():
    array = optional("dask.array")
    model = make("slcp").fit(X, Y)
    lazy = array.from_array(X_NEW, chunks=(10, 2))
    found = model.predict_interval(lazy, LEVELS).compute()
    np.testing.assert_allclose(found, model.predict_interval(X_NEW, LEVELS), rtol=1e-12)
    with pytest.raises(ValueError, match="cv=4 with Dask rows"):
        make("slcp").fit(lazy, array.from_array(Y[:30], chunks=10))


def test_a_threshold_at_each_x_has_no_folds():
    model = ConditionalConformalRegressor(LinearRegression(), cv=4)
    with pytest.raises(ValueError, match="cv=4 with ConditionalConformalRegressor"):
        model.fit(X, Y)


@pytest.mark.parametrize("law", ["kernel", pytest.param("auto", marks=pytest.mark.ci)])
def test_what_scores_a_fold_has_not_seen_its_responses(law):
    """Other responses of a fold change no bit of the parts that score it, at any row."""
    folds = KFold(4, shuffle=True, random_state=0)
    held, moved = next(folds.split(X))[1], Y.copy()
    moved[held] += 100.0
    levels, theta = np.array([0.9]), np.zeros((1, 2, 1))
    estimator = None if law == "auto" else LinearRegression()

    def bounds(y):
        model = SLCPRegressor(estimator, law=law, cv=folds, random_state=0).fit(X, y)
        return [one.parts.at(Rows(X_NEW)).bounds(theta, levels) for one in model.calibration_.folds]

    before, after = bounds(Y), bounds(moved)
    np.testing.assert_array_equal(after[0], before[0])
    assert all(np.any(one != other) for one, other in zip(after[1:], before[1:], strict=True))


def test_out_of_bag_one_row_is_as_in_a_batch_to_the_last_bit():
    forest = RandomForestRegressor(60, random_state=0)
    model = SplitConformalRegressor(forest, cv="oob", random_state=0).fit(X, Y)
    alone = np.concatenate([model.predict_interval(X_NEW[[i]]) for i in range(len(X_NEW))])
    np.testing.assert_array_equal(alone, model.predict_interval(X_NEW))


def test_out_of_bag_members_may_take_text():
    """A label that stands for the sign of a column gives the bounds of that sign."""
    signs = np.sign(X[:, :1]) > 0
    text = pd.DataFrame({"a": X[:, 1], "b": np.where(signs[:, 0], "u", "v")})
    encoder = make_column_transformer((OneHotEncoder(drop="first"), [1]), remainder="passthrough")
    bags = {"n_estimators": 40, "random_state": 0}
    found, plain = (
        SplitConformalRegressor(BaggingRegressor(one, **bags), cv="oob", random_state=0).fit(Z, Y)
        for one, Z in (
            (make_pipeline(encoder, LinearRegression()), text),
            (LinearRegression(), np.column_stack([1.0 - signs[:, 0], X[:, 1]])),
        )
    )
    Z = np.column_stack([1.0 - signs[:, 0], X[:, 1]])
    np.testing.assert_allclose(found.predict_interval(text), plain.predict_interval(Z), rtol=1e-9)
