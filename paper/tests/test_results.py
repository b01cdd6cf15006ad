"""The committed tables of the paper's experiments are what their stores say, cell by cell."""

from pathlib import Path

import pytest

from benchmarks.harness import PRESETS, about, finished, read_store, report
from benchmarks.tables import markdown
from paper import EXPERIMENTS, load_experiment

# Without the networks, reports say that they were left out.
pytest.importorskip("skorch")

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results" / "paper" / "standard"
STANDARD = PRESETS["standard"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_task_was_run_none_failed_and_every_cell_is_backed_by_rows(name):
    experiment = load_experiment(name)
    records = read_store(FOLDER / f"{name}.jsonl", about(name, experiment, STANDARD))
    cases = experiment.cases(STANDARD)
    assert len(finished(records)) == len(cases)
    assert not [row for record in records for row in record["rows"] if "failed" in row]
    written = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert markdown(experiment.title, report(experiment, cases, records, STANDARD)) == written
