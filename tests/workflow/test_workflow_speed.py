import json

import numpy as np
import pytest

from localconformal.workflow.speed import (
    LAWS,
    NUMPY,
    count_steps,
    describe_machine,
    draw_rows,
    time_laws,
)

SIZES = (100, 200)


@pytest.fixture(scope="module")
def timed():
    steps = []
    return time_laws(SIZES, n_features=3, on_step=steps.append), steps


def test_every_law_is_timed_at_every_size(timed):
    timings, steps = timed
    assert [(t.rows, t.law) for t in timings] == [(n, law) for n in SIZES for law in LAWS]
    assert len(steps) == count_steps(SIZES)
    for timing in timings:
        assert timing.fit_seconds > 0
        assert timing.calibrate_seconds > 0
        assert timing.nanoseconds_per_prediction > 0


def test_the_ratio_is_that_of_the_costs_beside_plain_numpy(timed):
    timings, _ = timed
    base = {t.rows: t.nanoseconds_per_prediction for t in timings if t.law == NUMPY}
    for timing in timings:
        expected = base[timing.rows] / timing.nanoseconds_per_prediction
        assert timing.times_faster == pytest.approx(expected)
    assert all(t.engine == "reference" for t in timings if t.law == NUMPY)


def test_rows_are_the_same_every_time_and_new_for_queries():
    np.testing.assert_array_equal(draw_rows(50, 2, "fit")[0], draw_rows(50, 2, "fit")[0])
    assert not np.isin(draw_rows(50, 2, "fit")[0], draw_rows(50, 2, "query")[0]).any()


def test_the_machine_is_plain_data():
    machine = json.loads(json.dumps(describe_machine()))
    assert {"cores", "python", "versions"} <= set(machine)


@pytest.mark.parametrize(
    ("sizes", "n_features"), [([], 3), ([10], 3), ([10**9], 3), ([500], 0), ([500], 10**6)]
)
def test_sizes_that_make_no_sense_are_one_sentence(sizes, n_features):
    with pytest.raises(ValueError, match="expected"):
        time_laws(sizes, n_features=n_features)
