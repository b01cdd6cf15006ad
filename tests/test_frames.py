"""Frames of any kind in and out, and row hashes that know equal rows."""

import subprocess
import sys
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from declared_versions import project
from localconformal.rows import columns_of, is_frame, row_hashes

COLUMNS = {"a": [1.5, -0.0, 3.0], "b": ["x", "y", "x"], "c": [True, False, True]}


def test_frames_are_recognised_and_their_columns_read():
    for kind in (pd.DataFrame, pl.DataFrame):
        assert is_frame(kind(COLUMNS))
        assert [column.to_list() for column in columns_of(kind(COLUMNS))] == [*COLUMNS.values()]
    assert not any(is_frame(other) for other in (np.zeros((2, 2)), [[1.0]], pd.Series([1.0])))
    numbered = pd.DataFrame(np.arange(6).reshape(2, 3), columns=[0, 1, "z"])
    assert [column.to_list() for column in columns_of(numbered)] == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(ValueError, match="repeated column names; rename"):
        columns_of(pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]))


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {names!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import numpy as np
from localconformal import SplitConformalRegressor, methods
from localconformal.audit import audit

y, x = np.random.default_rng(0).normal(size=(2, 60))
X = x[:, None]
model = SplitConformalRegressor(random_state=0).fit(X, y)
found = audit(X, y, model.predict_interval(X))
for ask in (
    methods,
    lambda: found.frame("summary"),
    lambda: model.diagnose(X),
    lambda: model.predict_interval(X, output="frame"),
):
    try:
        print(type(ask()).__module__.split(".")[0])
    except ImportError as error:
        print(error)
"""


def in_a_process_without(*names):
    """What models and audits of arrays say where these libraries cannot be imported."""
    command = [sys.executable, "-c", WITHOUT.format(names=names)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


@pytest.mark.ci
def test_without_pandas_arrays_are_answered_in_polars_and_without_both_the_extra_is_named():
    assert in_a_process_without("pandas") == ["polars"] * 4
    plots = project()["optional-dependencies"]["plots"]
    assert any(requirement.startswith("pandas") for requirement in plots)
    refused = in_a_process_without("pandas", "polars")
    assert len(refused) == 4
    assert all("pip install 'localconformal[plots]'" in line for line in refused)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_equal_rows_have_equal_hashes_and_others_do_not(kind):
    table = {**COLUMNS, "d": [datetime(2020, 1, 1), datetime(2021, 1, 1), datetime(2020, 1, 1)]}
    frame = kind({name: [*values, values[0]] for name, values in table.items()})
    hashes = row_hashes(frame, np.array([1.0, 2.0, 3.0, 1.0]))
    assert (hashes[0], len(set(hashes.tolist()))) == (hashes[3], 3)


def test_hashes_follow_values_not_representation():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 5, (50, 3)).astype(float), rng.normal(size=50)
    same = [np.asfortranarray(X), X.astype(np.float32), X.tolist(), pd.DataFrame(X)]
    for other in (*same, np.where(X == 0.0, -0.0, X)):
        np.testing.assert_array_equal(row_hashes(other, y), row_hashes(X, y))
    # Every column, its place and y are seen.
    X, y = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]), np.array([0.0, 0.0, 1.0])
    assert len(set(row_hashes(X, y).tolist())) == 3
    assert len(row_hashes(np.zeros((4, 2, 2)), np.zeros(4))) == 4
