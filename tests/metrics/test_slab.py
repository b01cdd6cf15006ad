"""Worst slabs against all segments; hold-out against the level over repeats."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom

from localconformal.datasets import load_simulation
from localconformal.metrics import worst_slab_coverage
from localconformal.metrics.slab import find_slab, worst_segment


def misses(covered):
    """y and intervals with this coverage."""
    return np.where(covered, 0.0, 2.0), np.tile([-1.0, 1.0], (len(covered), 1))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
def test_the_worst_segment_is_that_of_all_long_enough_ones(seed, share):
    rng = np.random.default_rng(seed)
    covered = rng.random((3, 40)) < share
    breaks = rng.random((3, 41)) < 0.7
    breaks[:, [0, -1]] = True
    brute = min(
        c[i:j].mean()
        for c, may in zip(covered, breaks, strict=True)
        for i in range(40)
        for j in range(i + 6, 41)
        if may[i] and may[j]
    )
    mean, start, end, row = worst_segment(covered, 6, breaks)
    assert mean == pytest.approx(brute)
    assert covered[row, start:end].mean() == pytest.approx(brute)
    assert end - start >= 6
    assert breaks[row, start]
    assert breaks[row, end]
    # Nothing below the minimum is there to be found.
    assert worst_segment(covered, 6, breaks, known=mean)[0] == mean


def test_rows_of_equal_value_are_in_the_slab_together_or_not_at_all():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, size=400).astype(float)
    covered = rng.random(400) < np.array([0.9, 0.9, 0.6, 0.9])[x.astype(int)]
    _, low, high = find_slab(x[:, None], covered, np.ones((1, 1)), 0.1)
    assert (low, high) == (2.0, 2.0)


def test_oracle_intervals_have_their_level_in_the_worst_slab():
    simulation, outside, gaps = load_simulation("sim2"), 0, []
    for repeat in range(60):
        X, y = simulation.sample(600, random_state=repeat)
        ideal = simulation.quantile(X, [0.05, 0.95])
        X = np.hstack([X, np.random.default_rng(repeat).normal(size=(600, 3))])
        slab = worst_slab_coverage(y, ideal, X, n_directions=50, random_state=repeat)
        outside += not slab.lower <= 0.9 <= slab.upper
        gaps.append((slab.coverage - 0.9, slab.found_coverage - 0.9))
    assert outside <= binom.ppf(0.999, 60, 0.05)
    held, found = np.mean(gaps, axis=0)
    error = np.std([gap for gap, _ in gaps]) / np.sqrt(60)
    assert abs(held) < 3.5 * error
    # Without hold-out it is biased.
    assert found < -0.08


def test_a_failure_along_an_axis_or_across_is_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 6))
    for where in (X[:, 3] > 1.0, X[:, 0] + X[:, 1] > 1.5):
        covered = rng.random(4_000) < np.where(where, 0.5, 0.95)
        slab = worst_slab_coverage(*misses(covered), X)
        assert slab.upper < 0.8
        assert float(slab) == slab.coverage
        assert slab.n + slab.found_n <= 4_000


def test_the_direction_names_the_column():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=2_000), "b": rng.normal(size=2_000)})
    covered = rng.random(2_000) < np.where(frame["b"] > 1.0, 0.4, 0.95)
    slab = worst_slab_coverage(*misses(covered), frame, n_directions=20)
    assert slab.columns == ("a", "b")
    assert slab.frame()["column"][0] == "b"
    assert np.linalg.norm(slab.direction) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_labels_times_and_missing_values(kind):
    rng = np.random.default_rng(0)
    n = 2_000
    weather = rng.choice(["rain", "snow", "sun"], size=n)
    hour = rng.normal(size=n)
    columns = {
        "weather": [None if missing else w for w, missing in zip(weather, hour > 2, strict=True)],
        "hour": [None if h > 1.5 else float(h) for h in hour],
        "day": pd.date_range("2024-01-01", periods=n).to_pydatetime().tolist(),
        "flag": (hour > 0).tolist(),
        "none": [None] * n,
        "same": [1e300] * n,
    }
    covered = rng.random(n) < np.where(weather == "snow", 0.5, 0.97)
    # Without random directions a slab is along one column.
    slab = worst_slab_coverage(*misses(covered), kind(columns), n_directions=0)
    assert slab.upper < 0.7
    assert slab.frame()["column"][0] == "weather=snow"
    assert {"hour", "day", "flag", "same", "weather=sun"} < set(slab.columns)


def test_arrays_with_nan_infinity_objects_and_constant_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    X[:, 1] = 3.0
    X[rng.random((800, 4)) < 0.1] = np.nan
    X[0, 0] = np.inf
    covered = rng.random(800) < np.where(X[:, 0] > 0.8, 0.3, 0.95)
    slab = worst_slab_coverage(*misses(covered), X, n_directions=20)
    assert slab.upper < 0.7
    same = worst_slab_coverage(*misses(covered), X.astype(object), n_directions=20)
    assert same.coverage == slab.coverage


def test_few_rows():
    y, intervals = misses(np.array([True, False, True]))
    assert np.isnan(worst_slab_coverage(y[:1], intervals[:1], [[0.0]]).coverage)
    result = worst_slab_coverage(y, intervals, [[0.0], [0.0], [0.0]])
    # All rows are one place, so that the slab holds everything.
    assert (result.n, result.found_n) == (2, 1)


@pytest.mark.parametrize(
    ("X", "options", "told"),
    [
        (np.zeros((3, 1)), {}, "3 rows"),
        (np.zeros(4), {}, r"shape \(4,\)"),
        (np.zeros((4, 0)), {}, "at least one column"),
        (np.zeros((4, 1)), {"delta": 0.0}, "delta=0.0"),
        (np.zeros((4, 1)), {"n_directions": -1}, "n_directions=-1"),
        (np.zeros((4, 1)), {"probability": 1.0}, "probability is 1.0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(X, options, told):
    with pytest.raises(ValueError, match=told):
        worst_slab_coverage(np.zeros(4), np.zeros((4, 2)), X, **options)
