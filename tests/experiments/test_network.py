"""The paper's network as a family of base models."""

import numpy as np
import pytest

from localconformal.experiments import PRESETS, load_experiment
from localconformal.experiments.models import FAMILIES
from localconformal.experiments.models.network import choose

pytest.importorskip("torch")
pytest.importorskip("skorch")

SMOKE = PRESETS["smoke"]


def test_the_family_runs_where_its_packages_are_installed():
    assert FAMILIES["neural_net"].left_out == ""


def test_networks_are_trained_for_the_epochs_of_the_preset():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    chosen = choose(X, X[:, 0], 1, SMOKE)
    assert chosen.mean.fit(X, X[:, 0]).n_epochs_ <= SMOKE.epochs
    quantiles = chosen.quantile.fit(X, X[:, 0]).predict(X, quantiles=[0.05, 0.5, 1 - 0.05])
    assert np.all(np.diff(quantiles, axis=1) >= 0)


@pytest.mark.slow
def test_a_task_of_table_1_has_every_method_lvd_too():
    table = load_experiment("table1")
    (case,) = [
        case
        for case in table.cases(SMOKE)
        if case == {"dataset": "yacht", "model": "neural_net", "repeat": 0}
    ]
    rows = table.run(case, SMOKE)
    assert "LVD" in [row["method"] for row in rows]
    for row in rows:
        assert "failed" not in row, row
        assert 0.7 <= row["coverage"] <= 1.0, row
    again = table.run(case, SMOKE)
    assert [row["length"] for row in again] == [row["length"] for row in rows]
