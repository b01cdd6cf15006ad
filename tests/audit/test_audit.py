"""The audit: parts that agree with the metrics, awkward rows, and what may be passed."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from audit_data import LEVEL, oracle, planted, shifted
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.stats import binom, binomtest, fisher_exact
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score

from localconformal import SplitConformalRegressor
from localconformal.audit import audit, compare
from localconformal.audit.cells import (
    Rows,
    feature_cells,
    group_cells,
    group_partitions,
    read_table,
    stands_out,
)
from localconformal.audit.summary import accuracy
from localconformal.metrics import (
    binomial_band,
    coverage,
    excess_risk,
    group_coverage,
    hsic,
    interval_score,
    size_stratified_coverage,
    worst_slab_coverage,
)
from localconformal.metrics.binomial import coverage_p_values, holm, rest_gaps, rest_p_values
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import lengths
from registry import ci_but, optional

X, Y, INTERVALS = ORACLE = oracle(1_000, 3)


@pytest.fixture(scope="module")
def found():
    return audit(*ORACLE, "weather", random_state=7)


def rows_of(y, intervals):
    return Rows(is_covered(y, intervals), lengths(intervals), LEVEL)


def bins_of(X, y, intervals):
    """The bins alone, without the search for rules and slabs."""
    return feature_cells(read_table(X, len(y)).columns, rows_of(y, intervals))


def groups_of(groups, X=X):
    return group_cells(group_partitions(X, groups, len(Y)), rows_of(Y, INTERVALS))[0]


# ---- p-values and bands ----------------------------------------------------------------------


@given(st.integers(1, 400), st.floats(0, 1), st.floats(0.05, 0.99))
def test_p_values_are_the_doubled_tail_and_agree_with_the_band(n, share, level):
    k = round(share * n)
    p_value = float(coverage_p_values(k, n, level))
    tails = [binomtest(k, n, level, side).pvalue for side in ("less", "greater")]
    assert p_value == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-9)
    lower, upper = binomial_band(k, n)
    if min(abs(level - lower), abs(level - upper)) > 1e-9:
        assert (p_value < 0.05) == (level < lower or level > upper)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_stepwise_procedure_rejects(p_values):
    adjusted = holm(p_values)
    rejected = np.zeros(len(p_values), dtype=bool)
    for step, i in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[i] > 0.05 / (len(p_values) - step):
            break
        rejected[i] = True
    near = np.isclose(adjusted, 0.05)
    assert np.array_equal((adjusted <= 0.05)[~near], rejected[~near])
    assert np.all(adjusted >= p_values)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))
def test_p_values_against_the_rest_are_those_of_fishers_exact_test(n, others, share, other_share):
    k, other_k = round(share * n), round(other_share * others)
    table = [[k, n - k], [other_k, others - other_k]]
    tails = [fisher_exact(table, side).pvalue for side in ("less", "greater")]
    found = rest_p_values(k, n, k + other_k, n + others)
    assert float(found) == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6)
    gap = k / n - other_k / others
    assert float(rest_gaps(k, n, k + other_k, n + others)) == pytest.approx(gap)


def test_a_part_without_other_rows_differs_from_none():
    assert rest_p_values(9, 10, 9, 10) == 1.0
    assert np.isnan(rest_gaps(9, 10, 9, 10))


# ---- bins ------------------------------------------------------------------------------------


def test_bins_part_the_rows_and_are_ranked_and_adjusted_as_one_family(found):
    by_feature = {}
    for cell in found.features:
        by_feature.setdefault(cell.by, []).append(cell)
    assert set(by_feature) == set(X.columns)
    for cells in by_feature.values():
        assert sum(cell.n for cell in cells) == len(Y)
        hits = round(sum(cell.n * cell.coverage for cell in cells))
        assert hits == is_covered(Y, INTERVALS).sum()
        assert sorted(cell.position for cell in cells) == list(range(len(cells)))
    p_values = [cell.p_value for cell in found.features]
    assert p_values == sorted(p_values)
    assert np.allclose([cell.adjusted_p_value for cell in found.features], holm(p_values))


def test_a_bin_counts_the_rows_its_text_names(found):
    covered = is_covered(Y, INTERVALS)
    cells = {cell.text: cell for cell in found.features}
    named = {
        "e is missing": X["e"].isna(),
        "weather = snow": X["weather"] == "snow",
        "holiday = True": X["holiday"],
    }
    for text in cells:
        if "hour" in text and " < " not in text:
            _, sign, bound = text.split()
            named[text] = X["hour"] <= int(bound) if sign == "<=" else X["hour"] > int(bound)
    assert len(named) > 3
    for text, rows in named.items():
        assert cells[text].n == rows.sum()
        assert cells[text].coverage == covered[rows].mean()
        assert cells[text].mean_length == pytest.approx(np.ptp(INTERVALS[rows], axis=1).mean())


def test_where_all_rows_are_off_bins_that_stand_out_come_first():
    found = audit(*shifted(4_000, 0, 0.6)[:3])
    assert found.is_shifted
    apart = [stands_out(cell) for cell in found.features]
    assert apart == sorted(apart, reverse=True)
    assert {cell.by for cell in found.features if stands_out(cell)} == {"a"}
    assert sum(cell.adjusted_p_value <= 0.05 for cell in found.features) > 3 * sum(apart)


@pytest.mark.ci
def test_bins_of_oracle_intervals_raise_few_alarms():
    alarms = 0
    for seed in range(100):
        cells = bins_of(*oracle(300, seed))
        alarms += min(cell.adjusted_p_value for cell in cells) <= 0.05
    assert alarms <= binom.ppf(0.99, 100, 0.05)


def test_rare_labels_share_a_bin():
    label = np.array(["common"] * 950 + [f"rare {i % 20}" for i in range(50)], dtype=object)
    cells = bins_of(pd.DataFrame({"label": label}), Y, INTERVALS)
    assert {(cell.label, cell.n) for cell in cells} == {("common", 950), ("rarer labels", 50)}


# ---- groups ----------------------------------------------------------------------------------


def test_groups_are_those_of_the_metric(found):
    expected = group_coverage(Y, INTERVALS, X["weather"])
    for groups in ("weather", X["weather"], {"weather": X["weather"].to_numpy()}):
        cells = groups_of(groups)
        assert cells == found.groups
        assert {cell.by for cell in cells} == {"weather"}
        assert [cell.label for cell in cells] == list(expected.group)
        for name in ("n", "coverage", "gap", "lower", "upper"):
            assert [getattr(c, name) for c in cells] == getattr(expected, name).tolist()


def test_groups_are_named_in_many_ways_and_are_one_family():
    both = ["weather", "holiday"]
    expected = groups_of({name: X[name] for name in both})
    named = {name: name for name in both}
    for groups in (both, tuple(both), X[both], pl.from_pandas(X[both]), named):
        assert groups_of(groups) == expected
    by_place = groups_of(["x6", "x7"], X.to_numpy())
    assert [cell.n for cell in by_place] == [cell.n for cell in expected]
    cells = groups_of({"sky": X["weather"], "off": X["holiday"]})
    assert [cell.text for cell in cells] == [
        *("sky = clear", "sky = rain", "sky = snow", "off = False", "off = True")
    ]
    p_values = [cell.p_value for cell in cells]
    assert np.allclose([cell.adjusted_p_value for cell in cells], holm(p_values))


def test_labels_win_over_names_where_there_are_as_many():
    y, intervals = np.zeros(2), np.tile([-1.0, 1.0], (2, 1))
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert [cell.text for cell in audit(X, y, intervals, ["a", "b"]).groups] == [
        *("group = a", "group = b")
    ]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros((1_000, 2)), "as a frame, or as a dict"),
        (["a", "no such column"], r"names of columns of X \(a, b, c, d, e, hour, weather, holiday"),
        ({"c": "no such column"}, "a column of X was expected"),
        ({"c": [1, 2]}, "one label for each row"),
        ("no such column", r"a column of X was expected \(a, b, c, d, e, hour, weather, holiday"),
    ],
)
def test_groups_that_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        groups_of(groups)


def test_missing_labels_are_one_group_under_one_name():
    labels = np.array(["a", None, np.nan, pd.NA, "nan"] * 200, dtype=object)
    for groups in (labels, list(labels), pd.Series(labels)):
        assert [(cell.text, cell.n) for cell in groups_of(groups)] == [
            *(("group = a", 200), ("group = nan", 200), ("group is missing", 600))
        ]
    times = np.array(["2024-01-01", "NaT"] * 500, dtype="M8[D]")
    numbers = np.array([1.0, np.nan] * 500)
    for groups in (times, numbers, pl.Series(["x", None] * 500)):
        assert groups_of(groups)[-1].text == "group is missing"
    # A label of that name is not what is missing.
    assert len({cell.label for cell in groups_of(["missing", None] * 500)}) == 2


# ---- the whole -------------------------------------------------------------------------------


def test_sizes_and_summary_are_those_of_the_metrics(found):
    expected = size_stratified_coverage(Y, INTERVALS)
    for name in ("n", "coverage", "lower", "upper"):
        assert [getattr(cell, name) for cell in found.sizes] == getattr(expected, name).tolist()
    summary, slab = found.summary, worst_slab_coverage(Y, INTERVALS, X, random_state=7)
    assert summary.coverage == coverage(Y, INTERVALS)
    assert summary.interval_score == interval_score(Y, INTERVALS, LEVEL)
    assert summary.hsic_p_value == hsic(Y, INTERVALS, random_state=7).p_value
    assert summary.excess_risk_l1 == excess_risk(Y, INTERVALS, X, random_state=7).l1
    assert (summary.worst_slab_coverage, summary.worst_slab_n) == (slab.coverage, slab.n)
    assert found.slab.columns == slab.columns


def test_polars_pandas_and_arrays_agree():
    table = X.assign(weather=X["weather"].astype(str))
    assert str(audit(table, Y, INTERVALS)) == str(audit(pl.from_pandas(table), Y, INTERVALS))
    numbers = X[list("abcde")]
    framed, plain = audit(numbers, Y, INTERVALS), audit(numbers.to_numpy(), Y, INTERVALS)
    assert [c.p_value for c in framed.features] == [c.p_value for c in plain.features]
    assert {c.by for c in plain.features} == {f"x{j}" for j in range(5)}
    assert set(plain.slab.columns) == {f"x{j}" for j in range(5)}


def test_failures_are_what_is_significant():
    found = audit(*planted(5_000, 9)[:3], "weather")
    failures = found.failures()
    assert {"rules", "features", "groups"} <= {one.part for one in failures}
    assert all(one.adjusted_p_value <= 0.05 for one in failures)
    assert set(found.failures(1e-6)) <= set(failures)
    n_all = sum(len(getattr(found, part)) for part in ("rules", "features", "groups", "sizes"))
    assert len(found.failures(1.0)) == n_all + 1
    assert found.failures(1.0)[-1].part == "slab"
    assert len(found.frame("failures")) == len(failures)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_slab_is_a_failure_exactly_when_its_band_leaves_the_target_out(factor):
    found = audit(X, Y, factor * INTERVALS)
    slab, level = found.slab, found.summary.confidence_level
    named = [one for one in found.failures() if one.part == "slab"]
    assert bool(named) == (not slab.lower <= level <= slab.upper)
    assert all(one.is_under == (slab.coverage < level) for one in named)
    assert (factor == 1.0) == (not named)


# ---- awkward rows ----------------------------------------------------------------------------

PARTS = ["summary", "rules", "features", "groups", "sizes", "slab", "failures", "notes"]


def plain(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    return X, y, np.tile([-1.645, 1.645], (n, 1)) * rng.uniform(0.9, 1.1, size=(n, 1))


def notes(*args, **kwargs):
    found = audit(*args, **kwargs)
    for part in PARTS:
        found.frame(part)
    assert str(found)
    assert found._repr_html_()
    return " ".join(found.notes)


@pytest.mark.parametrize("n", ci_but([1, 79, 80], [1, 2, 3, 7, 30, 79, 80, 99]))
def test_few_rows(n):
    X, y, intervals = plain(n)
    said = notes(X, y, intervals)
    assert f"so few rows ({n})" in said
    assert ("Rules were not looked for" in said) == (n < 80)
    # Of more rows, chance decides whether one that did not find the slab lies in it.
    assert n > 1 or "No row was left to report the worst slab on" in said


def test_missing_values():
    X, y, intervals = plain(300)
    X[::3, 1], X[0, 2], X[:, 0] = np.nan, np.inf, np.nan
    said = notes(X, y, intervals)
    assert "a bin of their own in x1 (100), x2 (1)" in said
    assert "all rows hold the same value: x0" in said


def test_one_group_and_small_groups():
    assert "All rows are in one group, group = a" in notes(*plain(300), groups=["a"] * 300)
    assert "fewer than 30 rows" in notes(*plain(300), ["a"] * 290 + ["b"] * 10)


def test_constant_lengths():
    X, y, _ = plain(300)
    centre = X[:, :1]
    said = notes(X, y, np.hstack([centre - 2.0, centre + 2.0]))
    assert "All intervals are of one length" in said
    assert "correlation of length and coverage is undefined" in said


def test_infinite_bounds():
    X, y, intervals = plain(300)
    intervals[:30, 1] = np.inf
    intervals[30:33] = [-np.inf, np.inf]
    found = audit(X, y, intervals)
    assert "11 % of the intervals are infinite" in notes(X, y, intervals)
    assert found.summary.mean_length == np.inf
    assert np.isfinite(found.summary.mean_finite_length)
    assert found.sizes[-1].label == "infinite"
    assert notes(X, y, np.tile([-np.inf, np.inf], (300, 1)))


def test_empty_intervals():
    X, y, intervals = plain(300)
    intervals[:30] = [1.0, -1.0]
    assert "10 % of the intervals are empty" in notes(X, y, intervals)
    assert "coverage is the same in all rows" in notes(X, y, np.tile([9.0, 8.0], (300, 1)))


def test_constant_and_repeated_columns():
    X, y, intervals = plain(300)
    table = pd.DataFrame({"a": X[:, 0], "same": 1.0, "twice": 2 * X[:, 0]})
    said = notes(table, y, intervals)
    assert "all rows hold the same value: same" in said
    assert "ordered as by another column: twice (as a)" in said
    assert {cell.by for cell in audit(table, y, intervals).features} == {"a"}
    assert audit(table[["same"]], y, intervals).features == ()


def test_identifiers_are_left_out():
    X, y, intervals = plain(600)
    table = pd.DataFrame({"a": X[:, 0], "name": [f"id {i}" for i in range(600)]})
    assert "no label has enough rows: name" in notes(table, y, intervals)


def test_names_that_are_no_texts():
    X, y, intervals = plain(300, d=4)
    table = pd.DataFrame(X, columns=[1, "1", ("a", 2), " "])
    names = {cell.by for cell in audit(table, y, intervals, groups=1).features}
    assert names == {"1 (column 0)", "1 (column 1)", "('a', 2)", "  (column 3)"}


def test_many_rows_are_drawn_from(monkeypatch):
    monkeypatch.setattr("localconformal.audit.summary.MAX_RISK_ROWS", 500)
    X, y, intervals = plain(1_000)
    found = audit(X, y, intervals)
    assert found.summary.excess_risk_n == 500
    assert "learned from 500 rows drawn at random" in " ".join(found.notes)
    assert sum(cell.n for cell in found.features if cell.by == "x0") == 1_000


@pytest.mark.nightly
def test_a_million_rows():
    said = notes(*plain(1_000_000, d=5))
    for part in ("Rules were found on 50,000", "worst slab was found on 10,000", "HSIC sees"):
        assert part in said
    assert "excess risk was learned from 100,000" in said


def test_one_level_with_an_axis_of_its_own():
    X, y, intervals = plain(100)
    assert str(audit(X, y, intervals[:, :, None])) == str(audit(X, y, intervals))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [np.nan] * 300}, "^y has NaN or infinity"),
        ({"y": np.full(300, np.inf)}, "^y has NaN or infinity"),
        ({"y": np.zeros(5)}, r"^y has shape \(5,\)"),
        ({"X": None}, "it is None"),
        ({"X": csr_matrix(np.eye(300))}, r"pass X\.toarray\(\)"),
        ({"confidence_level": [0.8, 0.9]}, "as many levels as in intervals"),
        ({"n_calibration": 0}, "n_calibration=0"),
        ({"intervals": np.zeros((300, 2, 3))}, "3 levels; one level was expected"),
        ({"intervals": np.zeros((300, 3))}, r"\(n, 2\)"),
        ({"groups": ["a", "b"]}, "one label for each row"),
        ({"confidence_level": 1.0}, r"in \(0, 1\)"),
        ({"X": np.zeros((5, 2))}, "5 rows"),
        ({"X": np.zeros((300, 2, 2))}, r"\(n, d\) was expected"),
        ({"y_pred": [1.0]}, "one for each row"),
    ],
)
def test_what_is_refused(change, message):
    given = dict(zip(("X", "y", "intervals"), plain(300), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        audit(**given)


def test_an_unknown_part_is_refused(found):
    with pytest.raises(ValueError, match="one of summary, rules"):
        found.frame("nonsense")


@pytest.mark.parametrize("n", ci_but([400], [20, 60, 400]))
@pytest.mark.parametrize("half_width", [0.1, 1.6, 9.0])
def test_few_values_of_few_features_are_audited(n, half_width):
    """No tree may find anything to split, and then there is no region."""
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)])
    found = audit(X, rng.normal(size=n), np.tile([-half_width, half_width], (n, 1)))
    assert found.summary.n == n


# ---- intervals, levels and columns that may be passed -------------------------------------------


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


def test_an_estimator_is_asked_at_its_own_level(fitted):
    model, X, y = fitted
    expected = audit(X, y, model.predict_interval(X), confidence_level=0.8)
    assert str(audit(X, y, model)) == str(expected)
    wider = model.predict_interval(X, confidence_level=0.95)
    expected = audit(X, y, wider, confidence_level=0.95)
    assert str(audit(X, y, model, confidence_level=0.95)) == str(expected)


def test_predictions_beside_the_intervals_are_put_aside():
    X, y, intervals = oracle(100, 0)
    expected = str(audit(X, y, intervals))
    assert str(audit(X, y, (y, intervals))) == expected
    assert str(audit(X, y, (y, intervals[:, :, None]))) == expected
    assert audit(X, y, Foreign(), confidence_level=0.95).summary.confidence_level == 0.95


def test_a_level_that_nobody_tells_is_asked_for(fitted):
    model, X, y = fitted
    for call in (
        lambda: audit(X, y, Foreign()),
        lambda: compare({"foreign": Foreign()}, X, y),
        lambda: compare({"foreign": Foreign(), "ours": model}, X, y),
    ):
        with pytest.raises(ValueError, match=r"Foreign does not say .* pass confidence_level="):
            call()


@pytest.mark.ci
def test_peers_that_keep_their_level_to_themselves_are_not_judged_at_ours(fitted):
    mapie = optional("mapie.regression")
    _, X, y = fitted
    peer = mapie.SplitConformalRegressor(
        LinearRegression().fit(X[:50], y[:50]), confidence_level=0.95, prefit=True
    ).conformalize(X[50:], y[50:])
    with pytest.raises(ValueError, match="pass confidence_level="):
        compare({"peer": peer}, X, y)
    (method,) = compare({"peer": peer}, X, y, confidence_level=0.95).methods
    assert method.summary.confidence_level == 0.95


def test_a_level_in_a_list_is_a_level():
    X, y, intervals = oracle(100, 0)
    assert audit(X, y, intervals, confidence_level=[0.8]).summary.confidence_level == 0.8
    (method,) = compare({"a": intervals}, X, y, confidence_level=[0.8]).methods
    assert method.summary.confidence_level == 0.8


def test_candidates_have_names(fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="candidates is a list; a dict of name"):
        compare([model], X, y)


def test_a_series_keeps_its_name_and_has_one_without():
    a = X["a"].to_numpy()
    for series in (X["a"], pl.Series("a", a)):
        assert {cell.by for cell in bins_of(series, Y, INTERVALS)} == {"a"}
    for series in (X["a"].rename(None), pl.Series(a), a, list(a)):
        assert {cell.by for cell in bins_of(series, Y, INTERVALS)} == {"x0"}


@pytest.mark.parametrize("make", [np.asarray, pd.Series, pl.Series])
def test_whole_numbers_that_floats_cannot_tell_apart_are_not_called_the_same(make):
    ids = make(2**60 + np.arange(60) % 2)
    found = audit(ids, np.zeros(60), np.tile([-1.0, 1.0], (60, 1)), confidence_level=0.9)
    said = " ".join(found.notes)
    assert "Left out, as float64 cannot tell their numbers apart: x0." in said
    assert "same value" not in said


def test_columns_of_objects_are_read_by_their_values():
    n = 60
    y, intervals = np.zeros(n), np.tile([-1.0, 1.0], (n, 1))
    table = pd.DataFrame(
        {
            "flag": np.arange(n) % 2 == 0,
            "day": pd.Series(np.datetime64("2024-01-01", "ns") + np.arange(n).astype("m8[D]")),
            "span": pd.Series(np.arange(n).astype("m8[h]").astype("m8[ns]")),
            "size": np.arange(n) / 7.0,
        }
    )
    texts = [
        [cell.text for cell in bins_of(X, y, intervals)] for X in (table, table.astype(object))
    ]
    assert texts[0] == texts[1] != []


def test_an_array_of_times_is_read_as_times():
    days = np.datetime64("2024-01-01") + np.arange(1_000)
    framed = [cell.text for cell in bins_of(pd.DataFrame({"x0": days}), Y, INTERVALS)]
    assert "x0 <= 2024-04-09" in framed
    for times in (days, days[:, None], pd.DatetimeIndex(days)):
        assert [cell.text for cell in bins_of(times, Y, INTERVALS)] == framed
    spans = bins_of(days - days[0], Y, INTERVALS)
    assert any(cell.text == "x0 <= 99 days, 0:00:00" for cell in spans)


WITHOUT_PANDAS = """
import sys

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

sys.meta_path.insert(0, NoPandas())
import numpy as np
import polars as pl
from localconformal.audit import audit, compare

rng = np.random.default_rng(0)
X = pl.DataFrame({"a": rng.normal(size=300), "b": ["x", None, "y"] * 100})
y, intervals = rng.normal(size=300), np.tile([-1.6, 1.6], (300, 1))
found = audit(X, y, intervals, "b")
for part in ("summary", "rules", "features", "groups", "sizes", "slab", "failures", "notes"):
    assert isinstance(found.frame(part), pl.DataFrame), part
assert found.frame("groups")["label"].to_list() == ["x", "y", "(missing)"]
compared = compare({"a": intervals, "b": 2 * intervals}, X, y)
assert compared.frame().height == 2 and compared.differences().height == 3
"""


@pytest.mark.ci
def test_frames_where_only_polars_is_installed():
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True)


# ---- the worst slab in words -----------------------------------------------------------------

N = 1_200


def found_in(column, where, more=None):
    """The audit of rows that fail where told; a slab holds a tenth of the rows at least."""
    X = pd.DataFrame({"it": column} | (more or {}))
    return audit(X, np.where(where, 9.0, 0.0), np.tile([-1.0, 1.0], (N, 1)))


@pytest.fixture(scope="module")
def hour():
    return np.arange(N) % 24


def test_a_range_of_numbers(hour):
    found = found_in(hour, (hour >= 16) & (hour <= 18))
    assert found.slab_text == "it 16 to 18"
    assert "Worst slab: it 16 to 18: " in str(found)
    assert "it 16 to 18" in found._repr_html_()
    inside = np.sum((hour >= 16) & (hour <= 18))
    assert inside == found.slab.n + found.slab.found_n


def test_bounds_are_center_and_scale(hour):
    slab = found_in(hour, hour >= 21).slab
    ends = slab.center[0] + slab.scale[0] * np.array([slab.low, slab.high])
    np.testing.assert_allclose(ends, [21, 23])


#: What is said -> the column and the rows that fail, by the hour.
SLABS = {
    "it = 3": (lambda hour: hour // 6, lambda hour: hour >= 18),
    "it 3 to 3.2857": (lambda hour: hour / 7, lambda hour: hour >= 21),
    "it 2024-03-22 to 2024-03-24": (
        lambda hour: np.datetime64("2024-03-01") + hour,
        lambda hour: hour >= 21,
    ),
    "it = True": (lambda hour: hour < 6, lambda hour: hour < 6),
    "it = False": (lambda hour: hour < 6, lambda hour: hour >= 6),
    "it = night": (
        lambda hour: np.array(["night", "morning", "day", "day"])[hour // 6],
        lambda hour: hour < 6,
    ),
    "all rows": (lambda hour: np.ones(N), lambda hour: hour < 0),
}


@pytest.mark.parametrize("text", SLABS)
def test_columns_of_every_kind(hour, text):
    column, where = SLABS[text]
    assert found_in(column(hour), where(hour)).slab_text == text


def test_missing_values_stand_at_the_mean(hour):
    lost = np.random.default_rng(2).random(N) < 0.2
    known = np.where(lost, np.nan, hour)
    assert found_in(known, lost).slab_text == "it is missing"
    assert found_in(known, ~lost & (hour >= 20)).slab_text == "it 20 to 23"


def test_a_direction_of_several_columns():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, N))
    found = found_in(a, a + b > 1.5, {"b": b})
    heaviest = np.argsort(-np.abs(found.slab.direction))
    named = ", ".join(found.slab.columns[place] for place in heaviest)
    assert found.slab_text == f"a range of a weighted sum of 2 columns, above all {named}"


# ---- point predictions beside a constant ------------------------------------------------------

RNG = np.random.default_rng(0)
GAMMA = RNG.gamma(1.0, 3.0, 500)


@pytest.mark.parametrize("noise", [0.0, 1.0, 30.0])
def test_the_numbers_are_those_of_scikit_learn(noise):
    y_pred = GAMMA + noise * RNG.normal(size=500)
    found = accuracy(GAMMA, y_pred)
    assert found.n == 500
    assert found.r2 == pytest.approx(r2_score(GAMMA, y_pred))
    assert found.mae == pytest.approx(mean_absolute_error(GAMMA, y_pred))
    constants = [np.abs(GAMMA - value).mean() for value in np.linspace(0, 20, 200)]
    assert found.constant_mae <= min(constants)


def test_a_good_model_is_not_warned_of():
    assert accuracy(GAMMA, GAMMA + 0.1).warning == ""


@pytest.mark.parametrize(
    "y_pred", [np.full(500, GAMMA.mean()), np.full(500, GAMMA.mean() + 1.0), -GAMMA]
)
def test_a_model_no_better_than_a_constant_is_told(y_pred):
    found = accuracy(GAMMA, y_pred)
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
    y_pred = GAMMA + RNG.normal(size=500)
    assert accuracy(1e200 * GAMMA, 1e200 * y_pred).r2 == pytest.approx(accuracy(GAMMA, y_pred).r2)
    same = accuracy(np.ones(5), np.ones(5))
    assert np.isnan(same.r2)
    assert same.warning == ""


@pytest.mark.parametrize("y_pred", [np.ones(3), np.full(500, np.nan), np.ones((500, 1))])
def test_predictions_of_other_rows_are_refused(y_pred):
    with pytest.raises(ValueError, match="y_pred has shape"):
        accuracy(GAMMA, y_pred)
