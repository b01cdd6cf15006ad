"""Ablations, covariate shift and run time: one task each, and what the report makes of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.harness import CANNOT, PRESETS, VERDICTS, perform
from benchmarks.tables import markdown
from localconformal.datasets import load_simulation, shifted_simulation
from paper import load_experiment, numpy_networks
from paper.ablations import law_of, relative
from paper.said import density_ratio

NAMES = ("minibatch", "bandwidth", "capacity", "covariate_shift", "run_time")
#: Smaller than smoke, and without its files: the last tasks are simulations.
TINY = replace(PRESETS["smoke"], simulated_rows=150, test_rows=150, epochs=2)


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=[pytest.mark.ci] * (n != "bandwidth")) for n in NAMES],
)
def ran(request):
    """The experiment, and the rows of a simulated task put down as two repeats."""
    experiment = load_experiment(request.param)
    case = experiment.cases(TINY)[-1]
    record = perform(experiment, case, TINY, 0)
    assert record["error"] is None
    rows = [{**case, **row, "repeat": r} for r in (0, 1) for row in record["rows"]]
    return experiment, rows


@pytest.mark.ci
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


def test_relative_pairs_within_a_task():
    rows = [{"dataset": d, "repeat": 0, "length": x} for d, x in (("a", 2.0), ("b", 9.0))]
    base = [{"dataset": "a", "repeat": 0, "length": 4.0}]
    assert [row["relative"] for row in relative(rows, base, "length")] == [0.5]


def test_weights_of_the_shift_are_the_ratio_of_densities():
    rng = np.random.default_rng(0)
    X, _ = load_simulation("covariate_shift").sample(200_000, random_state=rng)
    shifted = shifted_simulation(0.5).draw_features(rng, 200_000)
    weights = density_ratio(0.5)(X)
    assert np.isclose(weights.mean(), 1.0, atol=0.05)
    assert np.isclose((weights * X[:, 0] ** 2).mean(), (shifted**2).mean(), atol=0.03)


@pytest.mark.parametrize("loss", ["mean", "quantile"])
def test_gradients_of_the_network_are_those_of_its_loss(loss, monkeypatch):
    monkeypatch.setattr(numpy_networks, "DROPOUT", 0.0)
    monkeypatch.setattr(numpy_networks, "DECAY", 0.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    levels = None if loss == "mean" else (0.1, 0.9)
    compute = numpy_networks.Network(4, levels)._loss()
    weights = numpy_networks.first_weights((3, 4, 4, 1 if levels is None else 2), rng)
    found = numpy_networks.gradients(weights, X, y, compute, rng)
    for layer, slope in zip(weights, found, strict=True):
        place = tuple(0 for _ in layer.shape)
        values = []
        for step in (1e-6, -1e-6):
            layer[place] += step
            values.append(compute(numpy_networks.forward(weights, X)[-1], y)[0])
            layer[place] -= step
        assert np.isclose(slope[place], (values[0] - values[1]) / 2e-6, atol=1e-5)


def test_a_quantile_network_learns_the_spread():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 1))
    y = (0.2 + np.abs(X[:, 0])) * rng.normal(size=800)
    network = numpy_networks.Network(16, (0.05, 0.5, 0.95), 40).fit(X, y)
    low, high = network.predict(np.array([[0.0], [0.9]]), quantiles=[0.05, 0.95]).T
    assert (high - low)[0] < (high - low)[1]


def test_a_mini_batch_of_all_rows_is_the_whole_law():
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(200, 2)), rng.normal(size=200)
    whole = law_of("gaussian", 100).fit(X, v)
    tenth = law_of("gaussian", 10).fit(X, v)
    assert whole.engine_report_.n_references == 200
    assert tenth.engine_report_.n_references == 20
