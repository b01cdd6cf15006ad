"""The audit: parts that agree with the metrics, awkward rows, and what may be passed."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from audit_data import LEVEL, oracle, planted
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, fisher_exact
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score

from localconformal import SplitConformalRegressor, metrics
from localconformal.audit import audit, compare
from localconformal.audit.audit import accuracy
from localconformal.audit.cells import _holm, _rest_gaps, _rest_p_values
from localconformal.metrics.intervals import coverage_p_values
from registry import ci_but

X, Y, INTERVALS = ORACLE = oracle(1_000, 3)
COVERED = (INTERVALS[:, 0] <= Y) & (INTERVALS[:, 1] >= Y)
#: So few that no rules are looked for, which takes longest.
FEW = oracle(70, 0)


@pytest.fixture(scope="module")
def found():
    return audit(*ORACLE, "weather", random_state=7)


@given(st.integers(1, 400), st.floats(0, 1), st.floats(0.05, 0.99))
def test_p_values_are_the_doubled_tail_and_agree_with_the_band(n, share, level):
    k = round(share * n)
    p_value = float(coverage_p_values(k, n, level))
    tails = [binomtest(k, n, level, side).pvalue for side in ("less", "greater")]
    assert p_value == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-9)
    lower, upper = metrics.binomial_band(k, n)
    if min(abs(level - lower), abs(level - upper)) > 1e-9:
        assert (p_value < 0.05) == (level < lower or level > upper)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_stepwise_procedure_rejects(p_values):
    adjusted, m = _holm(p_values), len(p_values)
    steps, rejected = np.sort(p_values) <= 0.05 / np.arange(m, 0, -1), np.empty(m, dtype=bool)
    rejected[np.argsort(p_values, kind="stable")] = np.logical_and.accumulate(steps)
    near = np.isclose(adjusted, 0.05)
    assert np.array_equal((adjusted <= 0.05)[~near], rejected[~near])
    assert np.all(adjusted >= p_values)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))
def test_p_values_against_the_rest_are_those_of_fishers_exact_test(n, others, share, other_share):
    k, other_k = round(share * n), round(other_share * others)
    table = [[k, n - k], [other_k, others - other_k]]
    tails = [fisher_exact(table, side).pvalue for side in ("less", "greater")]
    whole = k + other_k, n + others
    assert float(_rest_p_values(k, n, *whole)) == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6)
    assert float(_rest_gaps(k, n, *whole)) == pytest.approx(k / n - other_k / others)
    # A part without other rows differs from none.
    assert _rest_p_values(k, n, k, n) == 1.0
    assert np.isnan(_rest_gaps(k, n, k, n))


def test_bins_part_the_rows_and_are_ranked_and_adjusted_as_one_family(found):
    assert {cell.by for cell in found.features} == set(X.columns)
    for by in X.columns:
        cells = [cell for cell in found.features if cell.by == by]
        assert sum(cell.n for cell in cells) == len(Y)
        assert round(sum(cell.n * cell.coverage for cell in cells)) == COVERED.sum()
        assert sorted(cell.position for cell in cells) == list(range(len(cells)))
    p_values = [cell.p_value for cell in found.features]
    assert p_values == sorted(p_values)
    assert np.allclose([cell.adjusted_p_value for cell in found.features], _holm(p_values))


def test_a_bin_counts_the_rows_its_text_names(found):
    cells = {cell.text: cell for cell in found.features}
    named = {text: X.eval(text) for text in cells if "hour" in text}
    assert len(named) > 3
    named |= {"e is missing": X["e"].isna(), "weather = snow": X["weather"] == "snow"}
    for text, rows in named.items():
        assert (cells[text].n, cells[text].coverage) == (rows.sum(), COVERED[rows].mean())
        assert cells[text].mean_length == pytest.approx(np.ptp(INTERVALS[rows], axis=1).mean())


@pytest.mark.nightly
def test_no_part_of_oracle_intervals_raises_many_alarms():
    alarms = dict.fromkeys(("rules", "features", "groups", "sizes"), 0)
    for seed in range(60):
        found = audit(*oracle(300, seed), "weather", random_state=seed)
        for part in alarms:
            alarms[part] += any(one.adjusted_p_value <= 0.05 for one in getattr(found, part))
    assert max(alarms.values()) <= binom.ppf(0.99, 60, 0.05), alarms


def test_groups_are_those_of_the_metric_and_are_named_in_many_ways():
    X, y, intervals = FEW
    both = ["weather", "holiday"]
    cells = audit(X, y, intervals, both).groups
    for by in both:
        expected = metrics.group_coverage(y, intervals, X[by])
        ours = [cell for cell in cells if cell.by == by]
        assert [cell.label for cell in ours] == [str(group) for group in expected.group]
        for name in ("n", "coverage", "gap", "lower", "upper"):
            assert [getattr(cell, name) for cell in ours] == getattr(expected, name).tolist()
    p_values = [cell.p_value for cell in cells]
    assert np.allclose([cell.adjusted_p_value for cell in cells], _holm(p_values))
    columns, named = {name: X[name] for name in both}, {name: name for name in both}
    for groups in (tuple(both), X[both], pl.from_pandas(X[both]), named, columns):
        assert audit(X, y, intervals, groups).groups == cells
    by_place = audit(X.to_numpy(), y, intervals, ["x6", "x7"]).groups
    assert [cell.n for cell in by_place] == [cell.n for cell in cells]
    few = audit(X[:2], y[:2], intervals[:2], ["a", "b"]).groups
    assert [cell.text for cell in few] == ["group = a", "group = b"]
    renamed = audit(X, y, intervals, {"sky": X["weather"]}).groups
    assert [cell.text for cell in renamed] == ["sky = clear", "sky = rain", "sky = snow"]


def test_sizes_and_summary_are_those_of_the_metrics(found):
    expected = metrics.size_stratified_coverage(Y, INTERVALS)
    for name in ("n", "coverage", "lower", "upper"):
        assert [getattr(cell, name) for cell in found.sizes] == getattr(expected, name).tolist()
    summary, slab = found.summary, metrics.worst_slab_coverage(Y, INTERVALS, X, random_state=7)
    assert summary.coverage == metrics.coverage(Y, INTERVALS)
    assert summary.interval_score == metrics.interval_score(Y, INTERVALS, LEVEL)
    assert summary.hsic_p_value == metrics.hsic(Y, INTERVALS, random_state=7).p_value
    assert summary.excess_risk_l1 == metrics.excess_risk(Y, INTERVALS, X, random_state=7).l1
    assert (summary.worst_slab_coverage, summary.worst_slab_n) == (slab.coverage, slab.n)
    assert found.slab.columns == slab.columns


def test_failures_are_what_is_significant():
    found = audit(*planted(5_000, 9)[:3], "weather")
    failures = found.failures()
    assert {"rules", "features", "groups"} <= {one.part for one in failures}
    assert all(one.adjusted_p_value <= 0.05 for one in failures)
    assert set(found.failures(1e-6)) <= set(failures)
    n_all = sum(len(getattr(found, part)) for part in ("rules", "features", "groups", "sizes"))
    assert (len(found.failures(1.0)), found.failures(1.0)[-1].part) == (n_all + 1, "slab")
    assert len(found.frame("failures")) == len(failures)
    with pytest.raises(ValueError, match="one of summary, rules"):
        found.frame("nonsense")


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_slab_is_a_failure_exactly_when_its_band_leaves_the_target_out(factor):
    found = audit(X, Y, factor * INTERVALS)
    named = [one for one in found.failures() if one.part == "slab"]
    assert bool(named) == (not found.slab.lower <= LEVEL <= found.slab.upper) == (factor != 1.0)
    assert all(one.is_under == (found.slab.coverage < LEVEL) for one in named)


PARTS = ["summary", "rules", "features", "groups", "sizes", "slab", "failures", "notes"]


def plain(n):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    return X, y, np.tile([-1.645, 1.645], (n, 1)) * rng.uniform(0.9, 1.1, size=(n, 1))


def notes(*args, **more):
    found = audit(*args, **more)
    for part in PARTS:
        found.frame(part)
    assert found._repr_html_()
    return str(found)


@pytest.mark.parametrize("n", ci_but([1, 79, 80], [1, 2, 3, 30, 79, 80]))
def test_few_rows(n):
    said = notes(*plain(n))
    assert f"so few rows ({n})" in said
    assert ("Rules were not searched for" in said) == (n < 80)
    # Of more rows, chance decides whether one that did not find the slab lies in it.
    assert n > 1 or "no rows were left to measure it on" in said


A, A_Y, A_BOUNDS = plain(300)
THIRD = np.where(np.arange(300) % 3, 1.0, np.nan)[:, None]
AWKWARD = {
    "have their own bin in x0 (100), x1 (100)": {"X": A * THIRD},
    "all rows hold the same value: x0": {"X": A * [np.nan, 1, 1]},
    "order the rows like another column: x1 (as x0)": {"X": A[:, [0, 0]] * [1, 2]},
    "no label has enough rows: name": {"X": pd.DataFrame({"name": np.arange(300).astype(str)})},
    "All intervals have the same length": {"intervals": A[:, :1] + [-2.0, 2.0]},
    "100 %  the finite ones are - long": {"intervals": 0 * A_BOUNDS + [-np.inf, np.inf]},
    "33 %  cover nothing": {"intervals": np.where(THIRD > 0, A_BOUNDS, -A_BOUNDS)},
    "coverage is the same in all rows": {"intervals": 0 * A_BOUNDS + [9.0, 8.0]},
}


@pytest.mark.parametrize("said", AWKWARD)
def test_awkward_rows_are_audited_and_told_of(said):
    assert said in notes(**{"X": A, "y": A_Y, "intervals": A_BOUNDS} | AWKWARD[said])


def test_infinite_bounds():
    X, y, intervals = plain(300)
    intervals[:30] = [5.0, np.inf]
    intervals[30:33] = [-np.inf, np.inf]
    assert re.search("infinite +11 %", notes(X, y, intervals))
    found = audit(X, y, intervals)
    assert found.summary.mean_length == np.inf
    assert found.summary.mean_finite_length == np.diff(intervals[33:], axis=1).mean()
    assert found.sizes[-1].label == "infinite"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [np.nan] * 70}, "^y: got NaN or infinity"),
        ({"y": np.zeros(5)}, r"^y: got shape \(5,\)"),
        ({"intervals": np.zeros((70, 2, 3))}, "3 levels; expected one level"),
        ({"confidence_level": [0.8, 0.9]}, "as the intervals have"),
        ({"n_calibration": 0}, "n_calibration=0"),
        ({"y_pred": [1.0]}, "one per row"),
        ({"groups": {"c": [1, 2]}}, "one label per row"),
        ({"groups": np.zeros((70, 2))}, "as a frame or a dict"),
        ({"groups": ["a", "no such column"]}, r"of the 8 columns of X \(a, b, c, d,"),
        ({"groups": {"c": "no such column"}}, r"one of the 8 columns of X \(a, b, c, d, e, hour"),
    ],
)
def test_what_is_refused(change, message):
    given = dict(zip(("X", "y", "intervals"), FEW, strict=True)) | change
    with pytest.raises(ValueError, match=message):
        audit(**given)


class Foreign:
    """Returns predictions beside the intervals, takes no level and tells none."""

    def predict_interval(self, X):
        return np.zeros(len(X)), np.tile([[-2.0], [2.0]], (len(X), 1, 1))


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = X[:, 0] + rng.normal(size=400)
    model = SplitConformalRegressor(LinearRegression(), confidence_level=0.8, random_state=0)
    return model.fit(X[:200], y[:200]), X[200:], y[200:]


@pytest.mark.parametrize("level", [None, 0.95])
def test_an_estimator_is_asked_at_its_own_level_unless_told(fitted, level):
    model, X, y = fitted
    told = {} if level is None else {"confidence_level": level}
    given, known = model.predict_interval(X, **told), {"confidence_level": level or 0.8}
    assert str(audit(X, y, model, **told)) == str(audit(X, y, given, **known))
    asked, expected = compare({"a": model}, X, y, **told), compare({"a": given}, X, y, **known)
    # Bounds alone do not say how far they move.
    assert str(replace(asked, methods=(replace(asked.methods[0], movement=math.nan),))) == str(
        expected
    )


def test_predictions_are_put_aside_and_a_level_that_nobody_tells_is_asked_for():
    X, y, intervals = FEW
    expected = str(audit(X, y, intervals))
    for passed in (intervals[:, :, None], (y, intervals), (y, intervals[:, :, None])):
        assert str(audit(X, y, passed)) == expected
    for call in (
        lambda **level: audit(X, y, Foreign(), **level).summary,
        lambda **level: compare({"a": Foreign(), "b": intervals}, X, y, **level).methods[0].summary,
    ):
        found = call(confidence_level=[0.95])
        assert (found.confidence_level, found.mean_length) == (0.95, 4.0)
        with pytest.raises(ValueError, match=r"Foreign has no .* pass confidence_level="):
            call()


def bins_of(X, n=70):
    return audit(X, np.zeros(n), np.tile([-1.0, 1.0], (n, 1))).features


def test_polars_pandas_and_arrays_agree_and_columns_have_names_of_their_own():
    X, *rest = oracle(200, 3)
    table = X.assign(weather=X["weather"].astype(str))
    assert str(audit(table, *rest)) == str(audit(pl.from_pandas(table), *rest))
    numbers = X[list("abcde")]
    framed, plain = audit(numbers, *rest), audit(numbers.to_numpy(), *rest)
    assert [c.p_value for c in framed.features] == [c.p_value for c in plain.features]
    assert {c.by for c in plain.features} == set(plain.slab.columns) == {f"x{j}" for j in range(5)}
    a = FEW[0]["a"]
    for name, series in (("a", a), ("a", pl.Series("a", a)), ("x0", a.rename(None)), ("x0", [*a])):
        assert {cell.by for cell in bins_of(series)} == {name}
    table = FEW[0][list("abcd")].set_axis([1, "1", ("a", 2), " "], axis=1)
    names = {cell.by for cell in audit(table, *FEW[1:], groups=1).features}
    assert names == {"1 (column 0)", "1 (column 1)", "('a', 2)", "  (column 3)"}


def test_numbers_that_floats_cannot_tell_apart_are_said_and_times_are_dates():
    ids = 2**60 + np.arange(60) % 2
    for held in (ids, pd.Series(ids), pl.Series(ids)):
        said = notes(held, np.zeros(60), np.tile([-1.0, 1.0], (60, 1)))
        assert "Left out because float64 cannot tell their numbers apart: x0." in said
        assert "same value" not in said
    steps = np.arange(70)
    days, spans = np.datetime64("2024-01-01", "ns") + steps.astype("m8[D]"), steps * 10**9
    table = pd.DataFrame({"day": days, "span": pd.to_timedelta(spans[::-1])})
    assert bins_of(table.astype(object)) == bins_of(table)
    assert "day <= 2024-01-18" in {cell.text for cell in bins_of(table)}


N = 1_200
HOUR = np.arange(N) % 24
LOST = np.random.default_rng(2).random(N) < 0.2


def found_in(column, where, **more):
    """The audit of rows that fail where told; a slab holds a tenth of the rows at least."""
    X = pd.DataFrame({"it": column, **more})
    return audit(X, np.where(where, 9.0, 0.0), np.tile([-1.0, 1.0], (N, 1)))


SLABS = {
    "it = 3": (HOUR // 6, HOUR >= 18),
    "it 3 to 3.2857": (HOUR / 7, HOUR >= 21),
    "it 2024-03-22 to 2024-03-24": (np.datetime64("2024-03-01") + HOUR, HOUR >= 21),
    "it = True": (HOUR < 6, HOUR < 6),
    "it = False": (HOUR < 6, HOUR >= 6),
    "it = night": (np.array(["night", "morning", "day", "day"])[HOUR // 6], HOUR < 6),
    "it is missing": (np.where(LOST, np.nan, HOUR), LOST),
    "it 20 to 23": (np.where(LOST, np.nan, HOUR), ~LOST & (HOUR >= 20)),
    "all rows": (np.ones(N), HOUR < 0),
}


@pytest.mark.parametrize("text", ci_but(["it = 3", "it = night", "it is missing"], SLABS))
def test_slabs_along_columns_of_every_kind(text):
    assert found_in(*SLABS[text]).slab_text == text


def test_a_slab_has_the_rows_and_the_bounds_that_are_said():
    where = (HOUR >= 16) & (HOUR <= 18)
    found = found_in(HOUR, where)
    assert found.slab_text == "it 16 to 18"
    assert "Worst slab: it 16 to 18: " in str(found)
    assert "it 16 to 18" in found._repr_html_()
    slab = found.slab
    assert slab.n + slab.found_n == where.sum()
    ends = slab.center[0] + slab.scale[0] * np.array([slab.low, slab.high])
    np.testing.assert_allclose(ends, [16, 18])


GAMMA = np.random.default_rng(0).gamma(1.0, 3.0, 500)
OUTLIER = np.array([0.0] * 9 + [100.0])


@pytest.mark.parametrize(
    ("y", "y_pred", "is_poor"),
    [
        (GAMMA, GAMMA + 0.1, False),
        (GAMMA, np.full(500, GAMMA.mean()), True),
        (1e200 * GAMMA, -1e200 * GAMMA, True),
        (OUTLIER, np.array([0.0] * 9 + [1.0]), True),
        (OUTLIER, np.array([11.0] * 9 + [60.0]), True),
    ],
)
def test_errors_are_those_of_scikit_learn_and_of_a_constant_no_less(y, y_pred, is_poor):
    found, unit = accuracy(y, y_pred), y.max()
    assert found.r2 == pytest.approx(r2_score(y / unit, y_pred / unit), abs=1e-12)
    assert found.mae == pytest.approx(mean_absolute_error(y, y_pred))
    assert found.constant_mae <= min(np.abs(y - at).mean() for at in np.linspace(0, unit, 200))
    assert ("no better than a constant" in found.warning) == is_poor


def test_one_value_has_no_r2_and_predictions_of_other_rows_are_refused():
    same = accuracy(np.ones(5), np.ones(5))
    assert (np.isnan(same.r2), same.warning) == (True, "")
    with pytest.raises(ValueError, match="y_pred: got shape"):
        accuracy(GAMMA, np.full(500, np.nan))


def test_texts_from_data_have_one_line_each():
    rng, evil = np.random.default_rng(0), "<script>alert(1)</script>"
    label = rng.choice([evil, "x\n\ny"], 2_000)
    y = rng.normal(size=2_000) * np.where(label == evil, 2.0, 1.0)
    found = audit(pd.DataFrame({evil: label}), y, np.tile([-1.645, 1.645], (2_000, 1)))
    lines = str(found).splitlines()
    assert any(line.strip().startswith(f"{evil} = {evil}: ") for line in lines)
    assert not any(line == "y" or line.startswith("y:") for line in lines)


def test_the_calibration_set_may_explain_the_coverage():
    X, y, intervals = oracle(5_000, 0)
    alone, known, off = (
        audit(X[["a"]], y, factor * intervals, n_calibration=n)
        for factor, n in ((1.06, None), (1.06, 300), (1.3, 300))
    )
    assert alone.summary.p_value < 0.05
    assert np.isnan(alone.summary.expected_lower)
    assert "off the target" in str(alone)
    assert "off the target" in str(off)
    expected = known.summary.expected_lower, known.summary.expected_upper
    assert expected == metrics.coverage_band(300, 5_000, 0.9)
    assert "consistent with a calibration set of 300 rows" in str(known)
    assert "the draw of the calibration set can explain" in known.notes[0]


def test_one_side():
    X, y, intervals = oracle(600, 1)
    upper = np.column_stack([np.full(600, -np.inf), intervals[:, 1]])
    found = audit(X, y, upper, confidence_level=0.95)
    assert found.summary.is_one_sided
    assert not audit(X, y, intervals).summary.is_one_sided
    text = str(found)
    assert re.search("mean length +none +one-sided", text)
    assert "Each interval has one bound" in text
    assert not re.search(r"^ *infinite", text, re.MULTILINE)
    # Parts of the rows are judged as with two sides: an upper bound or the interval above it.
    wide = np.column_stack([np.full(600, -1e6), intervals[:, 1]])
    same = audit(X, y, wide, confidence_level=0.95).features
    assert [cell.p_value for cell in found.features] == [cell.p_value for cell in same]
    upper[:60, 1] = np.inf
    assert re.search("infinite +10 % +have no finite bound", str(audit(X, y, upper)))
