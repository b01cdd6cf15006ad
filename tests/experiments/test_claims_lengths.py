"""Which of two methods is shorter, where that can be said."""

import numpy as np

from localconformal.experiments.claims_checks import AGAINST, FOR, UNCLEAR, UNFAIR, decided
from localconformal.experiments.claims_lengths import explained, shorter_than


def length_rows(**methods):
    """Rows of methods: length, share of infinite ones, coverage."""
    rng = np.random.default_rng(0)
    return [
        {
            "dataset": "a",
            "model": "m",
            "repeat": repeat,
            "method": method,
            "length": float(length + 0.001 * rng.normal()),
            "infinite": infinite,
            "coverage": coverage,
        }
        for repeat in range(5)
        for method, (length, infinite, coverage) in methods.items()
    ]


def test_a_method_that_leaves_rows_infinite_is_not_shorter():
    rows = length_rows(SLCP=(2.0, 0.0, 0.9), LCP=(1.0, 0.1, 0.9), CQR=(1.0, 0.0, 0.9))
    found = {other: decided(shorter_than("m", rows, other))[0] for other in ("LCP", "CQR")}
    assert found["CQR"].outcome == AGAINST
    assert found["LCP"].outcome == UNFAIR
    assert "10.0 % of LCP's are infinite" in found["LCP"].what


def test_a_length_that_coverage_explains_is_not_against_a_method():
    """1.045 times the length is what 91.5 % take instead of 90 % where errors are normal."""
    longer = np.exp(explained(0.915, 0.9) / 100)
    for length, outcome in ((longer, UNCLEAR), (longer * 1.1, AGAINST), (longer / 1.1, FOR)):
        rows = length_rows(SLCP=(length, 0.0, 0.915), CQR=(1.0, 0.0, 0.9))
        assert decided(shorter_than("m", rows, "CQR"))[0].outcome == outcome
