"""Awkward rows: each is handled, and said."""

import numpy as np
import pandas as pd
import pytest

from localconformal.audit import audit

PARTS = ["summary", "rules", "features", "groups", "sizes", "slab", "failures", "notes"]


def rows(n, d=3, seed=0):
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


@pytest.mark.parametrize("n", [1, 2, 3, 7, 30, 79, 80, 99])
def test_few_rows(n):
    X, y, intervals = rows(n)
    said = notes(X, y, intervals)
    assert f"so few rows ({n})" in said
    assert ("Rules were not looked for" in said) == (n < 80)


def test_one_row_has_no_slab():
    assert "No row was left to report the worst slab on" in notes(*rows(1))


def test_missing_values():
    X, y, intervals = rows(300)
    X[::3, 1], X[0, 2], X[:, 0] = np.nan, np.inf, np.nan
    said = notes(X, y, intervals)
    assert "a bin of their own in x1 (100), x2 (1)" in said
    assert "all rows hold the same value: x0" in said


def test_one_class_of_group():
    X, y, intervals = rows(300)
    found = audit(X, y, intervals, groups=["a"] * 300)
    assert len(found.groups) == 1
    assert "All rows are in one group, group = a" in " ".join(found.notes)


def test_small_groups():
    X, y, intervals = rows(300)
    assert "fewer than 30 rows" in notes(X, y, intervals, ["a"] * 290 + ["b"] * 10)


def test_constant_lengths():
    X, y, _ = rows(300)
    centre = X[:, :1]
    said = notes(X, y, np.hstack([centre - 2.0, centre + 2.0]))
    assert "All intervals are of one length" in said
    assert "correlation of length and coverage is undefined" in said


def test_infinite_bounds():
    X, y, intervals = rows(300)
    intervals[:30, 1] = np.inf
    intervals[30:33] = [-np.inf, np.inf]
    found = audit(X, y, intervals)
    assert "11 % of the intervals are infinite" in notes(X, y, intervals)
    assert found.summary.mean_length == np.inf
    assert np.isfinite(found.summary.mean_finite_length)
    assert found.sizes[-1].label == "infinite"
    assert notes(X, y, np.tile([-np.inf, np.inf], (300, 1)))


def test_empty_intervals():
    X, y, intervals = rows(300)
    intervals[:30] = [1.0, -1.0]
    assert "10 % of the intervals are empty" in notes(X, y, intervals)
    assert "coverage is the same in all rows" in notes(X, y, np.tile([9.0, 8.0], (300, 1)))


def test_constant_and_repeated_columns():
    X, y, intervals = rows(300)
    table = pd.DataFrame({"a": X[:, 0], "same": 1.0, "twice": 2 * X[:, 0]})
    said = notes(table, y, intervals)
    assert "all rows hold the same value: same" in said
    assert "ordered as by another column: twice (as a)" in said
    assert {cell.by for cell in audit(table, y, intervals).features} == {"a"}
    assert audit(table[["same"]], y, intervals).features == ()


def test_identifiers_are_left_out():
    X, y, intervals = rows(600)
    table = pd.DataFrame({"a": X[:, 0], "name": [f"id {i}" for i in range(600)]})
    assert "no label has enough rows: name" in notes(table, y, intervals)


def test_names_that_are_no_texts():
    X, y, intervals = rows(300, d=4)
    table = pd.DataFrame(X, columns=[1, "1", ("a", 2), " "])
    names = {cell.by for cell in audit(table, y, intervals, groups=1).features}
    assert names == {"1 (column 0)", "1 (column 1)", "('a', 2)", "  (column 3)"}


def test_many_rows_are_drawn_from(monkeypatch):
    monkeypatch.setattr("localconformal.audit.summary.MAX_RISK_ROWS", 500)
    X, y, intervals = rows(1_000)
    found = audit(X, y, intervals)
    assert found.summary.excess_risk_n == 500
    assert "learned from 500 rows drawn at random" in " ".join(found.notes)
    assert sum(cell.n for cell in found.features if cell.by == "x0") == 1_000


@pytest.mark.ci
def test_a_million_rows():
    said = notes(*rows(1_000_000, d=5))
    for part in ("Rules were found on 50,000", "worst slab was found on 10,000", "HSIC sees"):
        assert part in said
    assert "excess risk was learned from 100,000" in said


def test_a_single_column():
    X, y, intervals = rows(300)
    for column in (X[:, 0], list(X[:, 0]), pd.Series(X[:, 0])):
        assert {cell.by for cell in audit(column, y, intervals).features} == {"x0"}


def test_one_level_with_an_axis_of_its_own():
    X, y, intervals = rows(300)
    assert str(audit(X, y, intervals[:, :, None])) == str(audit(X, y, intervals))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [np.nan] * 300}, "NaN or infinity"),
        ({"intervals": np.zeros((300, 2, 3))}, "3 levels; one level was expected"),
        ({"intervals": np.zeros((300, 3))}, r"\(n, 2\)"),
        ({"groups": "no such column"}, r"a column of X was expected \(x0, x1, x2\)"),
        ({"groups": ["a", "b"]}, "one label for each row"),
        ({"confidence_level": 1.0}, r"in \(0, 1\)"),
        ({"X": np.zeros((5, 2))}, "5 rows"),
        ({"X": np.zeros((300, 2, 2))}, r"\(n, d\) was expected"),
        ({"y_pred": [1.0]}, "one for each row"),
    ],
)
def test_what_is_refused(change, message):
    given = dict(zip(("X", "y", "intervals"), rows(300), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        audit(**given)


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="one of summary, rules"):
        audit(*rows(30)).frame("nonsense")


@pytest.mark.parametrize("n", [20, 60, 400])
@pytest.mark.parametrize("half_width", [0.1, 1.6, 9.0])
def test_few_values_of_few_features_are_audited(n, half_width):
    """No tree may find anything to split, and then there is no region."""
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)])
    found = audit(X, rng.normal(size=n), np.tile([-half_width, half_width], (n, 1)))
    assert found.summary.n == n
