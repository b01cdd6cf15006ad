"""What may be passed for intervals, for levels and for X; and what is refused, by its name."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from audit_data import oracle
from scipy.sparse import csr_matrix
from sklearn.linear_model import LinearRegression

from localconformal import SplitConformalRegressor
from localconformal.audit import audit, compare


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
    X, y, intervals = oracle(200, 0)
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


def test_peers_that_keep_their_level_to_themselves_are_not_judged_at_ours(fitted):
    mapie = pytest.importorskip("mapie.regression")
    _, X, y = fitted
    peer = mapie.SplitConformalRegressor(
        LinearRegression().fit(X[:50], y[:50]), confidence_level=0.95, prefit=True
    ).conformalize(X[50:], y[50:])
    with pytest.raises(ValueError, match="pass confidence_level="):
        compare({"peer": peer}, X, y)
    (method,) = compare({"peer": peer}, X, y, confidence_level=0.95).methods
    assert method.summary.confidence_level == 0.95


def test_a_level_in_a_list_is_a_level():
    X, y, intervals = oracle(200, 0)
    assert audit(X, y, intervals, confidence_level=[0.8]).summary.confidence_level == 0.8
    (method,) = compare({"a": intervals}, X, y, confidence_level=[0.8]).methods
    assert method.summary.confidence_level == 0.8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(5)}, r"^y has shape \(5,\)"),
        ({"y": np.full(200, np.inf)}, "^y has NaN or infinity"),
        ({"X": None}, "it is None"),
        ({"X": csr_matrix(np.eye(200))}, r"pass X\.toarray\(\)"),
        ({"confidence_level": [0.8, 0.9]}, "as many levels as in intervals"),
        ({"n_calibration": 0}, "n_calibration=0"),
    ],
)
def test_what_is_refused(change, message):
    given = dict(zip(("X", "y", "intervals"), oracle(200, 0), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        audit(**given)


def test_candidates_have_names(fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="candidates is a list; a dict of name"):
        compare([model], X, y)


def test_a_series_keeps_its_name():
    X, y, intervals = oracle(300, 0)
    for series in (X["a"], pl.Series("a", X["a"].to_numpy())):
        assert {cell.by for cell in audit(series, y, intervals).features} == {"a"}
    nameless = (X["a"].rename(None), pl.Series(X["a"].to_numpy()), X["a"].to_numpy())
    for series in nameless:
        assert {cell.by for cell in audit(series, y, intervals).features} == {"x0"}


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
    plain = pd.DataFrame(
        {
            "flag": np.arange(n) % 2 == 0,
            "day": pd.Series(np.datetime64("2024-01-01", "ns") + np.arange(n).astype("m8[D]")),
            "span": pd.Series(np.arange(n).astype("m8[h]").astype("m8[ns]")),
            "size": np.arange(n) / 7.0,
        }
    )
    texts = [
        [cell.text for cell in audit(X, y, intervals, confidence_level=0.9).features]
        for X in (plain, plain.astype(object))
    ]
    assert texts[0] == texts[1] != []


def test_an_array_of_times_is_read_as_times():
    _, y, intervals = oracle(300, 0)
    days = np.datetime64("2024-01-01") + np.arange(300)
    for times in (days, days[:, None], pd.DatetimeIndex(days)):
        cells = audit(times, y, intervals).features
        assert any(cell.text == "x0 <= 2024-01-30" for cell in cells)
    framed = audit(pd.DataFrame({"x0": days}), y, intervals)
    assert [cell.text for cell in cells] == [cell.text for cell in framed.features]
    spans = audit(days - days[0], y, intervals).features
    assert any(cell.text == "x0 <= 29 days, 0:00:00" for cell in spans)


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


def test_a_label_called_missing_has_another_name_than_what_is_missing():
    y, labels = np.zeros(80), np.array(["missing"] * 40 + [None] * 40, dtype=object)
    cells = audit(np.arange(80.0)[:, None], y, np.tile([-1.0, 1.0], (80, 1)), labels).frame(
        "groups"
    )
    assert len(set(cells["label"])) == 2
