"""Every experiment: its cases, what it stores, and what it says."""

import json
import os

import pytest

from benchmarks.harness import PRESETS, VERDICTS, key, perform, report
from benchmarks.tables import markdown, verdict_counts, write_output
from paper import EXPERIMENTS, load_experiment
from paper.verdicts import printed

every_experiment = pytest.mark.parametrize("name", EXPERIMENTS)
needs_files = pytest.mark.skipif(
    not os.environ.get("LOCALCONFORMAL_DATA"), reason="LOCALCONFORMAL_DATA is not set"
)


@every_experiment
@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_cases_are_distinct_and_plain(name, preset):
    experiment = load_experiment(name)
    cases = experiment.cases(preset)
    # What needs a package that is not there has none, and its report says which.
    assert cases or "pip install" in report(experiment, [], [], preset).notes[0]
    assert len({key(case) for case in cases}) == len(cases)
    assert json.loads(json.dumps(cases)) == cases


@every_experiment
def test_a_report_of_nothing_compares_nothing(name, tmp_path):
    """A run whose every task failed still writes its table, without a verdict it cannot have."""
    experiment, preset = load_experiment(name), PRESETS["standard"]
    output = report(experiment, experiment.cases(preset), [], preset)
    counts = verdict_counts(output.lines)
    assert counts["reproduced"] == counts["not reproduced"] == 0
    assert "did not finish" in output.notes[-1]
    assert all(line.reason for line in output.lines)
    assert experiment.title in markdown(experiment.title, output)


@needs_files
@pytest.mark.ci
@every_experiment
def test_one_task_of_smoke_runs_and_is_reported(name, tmp_path):
    experiment, preset = load_experiment(name), PRESETS["smoke"]
    cases = experiment.cases(preset)[:1]
    if not cases:
        pytest.skip(f"{name} needs a package that is not installed")
    record = perform(experiment, cases[0], preset, caller=0)
    assert record["error"] is None
    assert not [row for row in record["rows"] if "failed" in row]
    json.dumps(record, allow_nan=False)
    output = report(experiment, cases, [record], preset)
    assert {line.verdict for line in output.lines} <= set(VERDICTS)
    # An exponent takes several tasks, but each has its row in a table.
    assert any(line.ours is not None for line in output.lines) or any(output.tables.values())
    paths = write_output(name, experiment.title, output, tmp_path)
    assert all(path.stat().st_size for path in paths)


def test_the_papers_numbers_are_all_there():
    table = printed()["table1"]
    assert [len(table[model]) for model in ("ridge", "random_forest", "neural_net")] == [6, 6, 7]
    assert printed()["figures"]["simulation_rf_mean_slcp"] == [90.36, 1.27]
