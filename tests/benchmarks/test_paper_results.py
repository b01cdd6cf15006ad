"""The committed tables of the paper's experiments are what their stores say, cell by cell."""

from pathlib import Path

import pytest

from localconformal.experiments import PRESETS, experiment_names, load_experiment
from localconformal.experiments.claims import write_claims
from localconformal.experiments.claims_results import Results
from localconformal.experiments.render import markdown
from localconformal.experiments.runner import finished

# Without the networks, reports say that they were left out.
pytest.importorskip("skorch")

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results" / "paper" / "standard"
RESULTS = Results(FOLDER, PRESETS["standard"])


@pytest.mark.parametrize("name", experiment_names())
def test_every_task_was_run_and_none_failed(name):
    experiment = load_experiment(name)
    records = finished(RESULTS.records(name))
    assert len(records) == len(experiment.cases(RESULTS.preset))
    rows = RESULTS.rows(name)
    assert rows
    assert not [row for row in rows if "failed" in row]


@pytest.mark.parametrize("name", experiment_names())
def test_every_cell_is_backed_by_rows(name):
    written = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert markdown(load_experiment(name).title, RESULTS.output(name)) == written


def test_the_page_is_what_the_stores_say(tmp_path):
    for ending in ("md", "html"):
        page = write_claims(FOLDER, RESULTS.preset, tmp_path / f"paper.{ending}")
        assert page.read_bytes() == (FOLDER / f"paper.{ending}").read_bytes()
