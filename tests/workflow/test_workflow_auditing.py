import json

import numpy as np
import pandas as pd
import pytest

from localconformal.audit import audit
from localconformal.io.tables import TableError
from localconformal.text import plain_data as plain
from localconformal.workflow.auditing import audit_record, audit_table

N = 800
NAMES = {"y": "y", "lower": "low", "upper": "high"}


@pytest.fixture
def table():
    """Intervals that are too short where x > 0.75."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=N)
    return pd.DataFrame(
        {
            "x": x,
            "g": np.where(rng.uniform(size=N) < 0.5, "a", "b"),
            "y": rng.normal(size=N) * np.where(x > 0.75, 2.5, 1.0),
            "low": -1.645,
            "high": 1.645,
        }
    )


def test_it_is_the_audit_of_the_library(table):
    found = audit_table(table, **NAMES, groups=["g"])
    direct = audit(
        table[["x", "g"]], table["y"], table[["low", "high"]].to_numpy(), {"g": table["g"]}
    )
    assert str(found.audit) == str(direct)
    assert list(found.X) == ["x", "g"]


def test_named_features_are_the_only_ones(table):
    found = audit_table(table, **NAMES, features=["g"])
    assert {cell.by for cell in found.audit.features} == {"g"}


def test_no_other_column_still_audits(table):
    found = audit_table(table[["y", "low", "high"]], **NAMES)
    assert found.audit.summary.n == len(table)
    assert list(found.X) == ["row"]
    assert "order of its rows" in found.notes[0]


def test_rows_with_a_missing_number_are_left_out_and_said(table):
    table.loc[:9, "y"] = np.nan
    table.loc[5:14, "low"] = np.nan
    found = audit_table(table, **NAMES)
    assert found.audit.summary.n == len(found.y) == len(found.intervals) == len(table) - 15
    assert f"15 of {N:,} rows were left out" in found.notes[0]
    assert found.notes[0] in audit_record(found)["notes"]


def test_numbers_written_as_text_are_numbers(table):
    found = audit_table(table.astype({"y": str, "low": "category"}), **NAMES)
    np.testing.assert_allclose(found.y, table["y"])


def test_infinite_bounds_are_bounds(table):
    table.loc[:, "low"] = -np.inf
    found = audit_table(table, **NAMES)
    assert found.audit.summary.share_infinite == 1.0


def test_the_record_is_plain_data(table):
    record = json.loads(json.dumps(plain(audit_record(audit_table(table, **NAMES, groups=["g"])))))
    assert record["summary"]["n"] == len(table)
    assert any("x > 0.7" in failure["text"] for failure in record["failures"])
    assert {"rules", "features", "groups", "sizes", "slab", "notes"} <= set(record)


@pytest.mark.parametrize(
    ("change", "names", "sentence"),
    [
        (lambda t: t, {"y": "Y"}, "no column 'Y'; did you mean 'y'"),
        (lambda t: t, {"lower": "y"}, "three different columns"),
        (lambda t: t.assign(y="high"), {}, "'y' holds 'high'"),
        (lambda t: t.assign(low=True), {}, "'low' holds"),
        (lambda t: t.assign(y=np.nan), {}, "no row has a number"),
        (lambda t: t.assign(y=np.inf), {}, "infinite"),
        (lambda t: t.assign(low=9.0), {}, "swap"),
    ],
)
def test_what_cannot_be_audited_is_one_sentence(table, change, names, sentence):
    with pytest.raises(TableError, match=sentence) as stop:
        audit_table(change(table), **{**NAMES, **names})
    assert "\n" not in str(stop.value)


@pytest.mark.parametrize("written", ["%d/%m/%Y", "%Y%m%dT%H%M%S", "%Y-%m-%d"])
def test_days_are_told_as_dates_however_they_are_written(table, written):
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.floor(700 * table["x"]), unit="D")
    found = audit_table(table.drop(columns="x").assign(sold=days.dt.strftime(written)), **NAMES)
    assert found.X["sold"].equals(days.rename("sold"))
    assert any("sold > 2021" in cell.text for cell in found.audit.features)
