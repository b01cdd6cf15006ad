"""Coverage on adversarial data, a small part of ``python -m benchmarks.stress``."""

import pytest

from benchmarks.stress import ONE_SIDE, SCENARIOS, cell, estimators, verdict

pytestmark = pytest.mark.nightly
SEEDS = 25
#: The quick ones see every scenario; each of the others one, by turns.
QUICK = ("MADSplitRegressor", "SLCPRegressor", "SplitConformalRegressor")
CELLS = [(name, scenario) for name in (*QUICK, *ONE_SIDE) for scenario in SCENARIOS]
CELLS += [
    (name, list(SCENARIOS)[turn % len(SCENARIOS)])
    for turn, name in enumerate(n for n in estimators() if n not in (*QUICK, *ONE_SIDE))
]


@pytest.mark.parametrize(("name", "scenario"), CELLS)
def test_coverage_stands_adversarial_data(name, scenario):
    row = cell(name, scenario, SEEDS)
    assert row["problems"] == []
    assert verdict(row, len(CELLS)) in ("as promised", "no promise")
