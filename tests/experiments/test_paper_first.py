"""Ablations, covariate shift and run time: one task each, and what the report makes of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conftest import slow_but
from localconformal.datasets import load_simulation, shifted_simulation
from localconformal.experiments import PRESETS, load_experiment
from localconformal.experiments.experiment import CANNOT, NOT_REPRODUCED, REPRODUCED, VERDICTS
from localconformal.experiments.paper import _networks, _said, covariate_shift, minibatch
from localconformal.experiments.paper._ablation import relative
from localconformal.experiments.render import markdown
from localconformal.experiments.runner import perform
from localconformal.experiments.summary import Mean

NAMES = ("minibatch", "bandwidth", "capacity", "covariate_shift", "run_time")
#: Smaller than smoke, and without its files: the last tasks are simulations.
TINY = replace(PRESETS["smoke"], simulated_rows=150, test_rows=150, epochs=2)


@pytest.fixture(scope="module", params=slow_but(["bandwidth"], NAMES))
def ran(request):
    """The experiment, and the rows of a simulated task put down as two repeats."""
    experiment = load_experiment(request.param)
    case = experiment.cases(TINY)[-1]
    record = perform(request.param, case, TINY, 0)
    assert record["error"] is None
    rows = [{**case, **row, "repeat": r} for r in (0, 1) for row in record["rows"]]
    return experiment, rows


@pytest.mark.slow
def test_every_method_of_a_task_is_measured(ran):
    _, rows = ran
    assert not [row["failed"] for row in rows if "failed" in row]
    for row in rows:
        assert row["method"]
        assert row.get("length", 1.0) > 0
        assert 0 <= row.get("coverage", 0.9) <= 1
        assert row.get("seconds", 1.0) >= 0


def test_the_report_has_a_verdict_and_a_reason_on_every_line(ran):
    experiment, rows = ran
    output = experiment.report(rows, TINY)
    assert output.lines
    assert output.tables
    assert output.notes
    assert all(line.verdict in VERDICTS and line.reason for line in output.lines)
    assert any(line.ours is not None for line in output.lines)
    assert "nan" not in markdown(experiment.title, output)


def test_a_report_without_rows_claims_nothing(ran):
    experiment, _ = ran
    assert {line.verdict for line in experiment.report([], TINY).lines} == {CANNOT}


def test_figures_are_drawn(ran, tmp_path):
    pytest.importorskip("matplotlib")
    experiment, rows = ran
    for name, draw in experiment.report(rows, TINY).figures.items():
        draw(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", NAMES)
def test_cases_differ_and_repeat_last(name):
    for preset in PRESETS.values():
        cases = load_experiment(name).cases(preset)
        assert len({str(case) for case in cases}) == len(cases)
        repeats = [case["repeat"] for case in cases]
        assert repeats == sorted(repeats)
        assert set(repeats) == set(range(preset.repeats))


@pytest.mark.parametrize(
    ("value", "verdict"), [(-1.0, REPRODUCED), (-0.01, CANNOT), (1.0, NOT_REPRODUCED)]
)
def test_a_claim_holds_beyond_its_margin_only(value, verdict):
    assert _said.below({}, Mean(value, 0.1, 5), 0.0, "shorter").verdict == verdict
    assert _said.above({}, Mean(-value, 0.1, 5), 0.0, "longer").verdict == verdict


def test_a_claim_needs_repeats():
    assert _said.below({}, Mean(-1.0, None, 1), 0.0, "shorter").verdict == CANNOT
    assert _said.alike({}, Mean(1.0, None, 1), 1.0, 0.1, "alike").verdict == CANNOT


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (1.05, 0.01, REPRODUCED),
        (1.09, 0.01, CANNOT),
        (1.2, 0.01, NOT_REPRODUCED),
        (1.2, 0.05, CANNOT),
        (1.0, 1.0, CANNOT),
    ],
)
def test_much_alike_is_within_the_bounds_with_its_margin(value, error, verdict):
    assert _said.alike({}, Mean(value, error, 5), 1.0, 0.1, "alike").verdict == verdict


def test_ratios_of_seconds_have_a_factor():
    assert _said.within_factor({}, 12.0, Mean(9.0, 0.1, 5), 1.5).verdict == REPRODUCED
    assert _said.within_factor({}, 12.0, Mean(7.0, 0.1, 5), 1.5).verdict == NOT_REPRODUCED
    assert _said.within_factor({}, None, Mean(7.0, 0.1, 5), 1.5).verdict == CANNOT


def test_relative_pairs_within_a_task():
    rows = [{"dataset": d, "repeat": 0, "length": x} for d, x in (("a", 2.0), ("b", 9.0))]
    base = [{"dataset": "a", "repeat": 0, "length": 4.0}]
    assert [row["relative"] for row in relative(rows, base, "length")] == [0.5]


def test_weights_of_the_shift_are_the_ratio_of_densities():
    rng = np.random.default_rng(0)
    X, _ = load_simulation("covariate_shift").sample(200_000, random_state=rng)
    shifted = shifted_simulation(0.5).draw_features(rng, 200_000)
    weights = covariate_shift.density_ratio(0.5)(X)
    assert np.isclose(weights.mean(), 1.0, atol=0.05)
    assert np.isclose((weights * X[:, 0] ** 2).mean(), (shifted**2).mean(), atol=0.03)


@pytest.mark.parametrize("loss", ["mean", "quantile"])
def test_gradients_of_the_network_are_those_of_its_loss(loss, monkeypatch):
    monkeypatch.setattr(_networks, "DROPOUT", 0.0)
    monkeypatch.setattr(_networks, "DECAY", 0.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    levels = None if loss == "mean" else (0.1, 0.9)
    compute = _networks.Network(4, levels)._loss()
    weights = _networks.first_weights((3, 4, 4, 1 if levels is None else 2), rng)
    found = _networks.gradients(weights, X, y, compute, rng)
    for layer, slope in zip(weights, found, strict=True):
        place = tuple(0 for _ in layer.shape)
        values = []
        for step in (1e-6, -1e-6):
            layer[place] += step
            values.append(compute(_networks.forward(weights, X)[-1], y)[0])
            layer[place] -= step
        assert np.isclose(slope[place], (values[0] - values[1]) / 2e-6, atol=1e-5)


def test_a_quantile_network_learns_the_spread():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 1))
    y = (0.2 + np.abs(X[:, 0])) * rng.normal(size=800)
    network = _networks.Network(16, (0.05, 0.5, 0.95), 40).fit(X, y)
    low, high = network.predict(np.array([[0.0], [0.9]]), quantiles=[0.05, 0.95]).T
    assert (high - low)[0] < (high - low)[1]


def test_a_mini_batch_of_all_rows_is_the_whole_law():
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(200, 2)), rng.normal(size=200)
    whole = minibatch.law_of("gaussian", 100).fit(X, v)
    tenth = minibatch.law_of("gaussian", 10).fit(X, v)
    assert whole.engine_report_.n_references == 200
    assert tenth.engine_report_.n_references == 20
