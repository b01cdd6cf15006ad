"""The page and the tables are what the stores say, whatever is in them; tasks can be run again."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import PRESETS, REPRODUCED, Line, Store, about, perform
from paper import EXPERIMENTS, load_experiment
from paper.__main__ import main
from paper.check import again, chosen, row_differences
from paper.layouts import amount, value
from paper.page import PAGE, TEMPLATE, page, read_runs
from paper.sentences import CLAIMS
from paper.why import BY_WHOM, QUANTITY, flatness
from registry import optional

SMOKE, STANDARD = PRESETS["smoke"], PRESETS["standard"]
STORES = Path(__file__).parents[2] / "benchmarks" / "results" / "paper" / "standard"
CHEAP = "independent_scores"


@pytest.mark.ci
def test_the_committed_page_is_what_the_stores_say():
    # Without the networks, reports say that they were left out.
    optional("torch")
    written = (STORES / PAGE).read_text(encoding="utf-8")
    assert page(read_runs(STANDARD, STORES), STANDARD) == written
    # Figures of the page are there.
    for figure in re.findall(r"\]\((\S+\.png)\)", written):
        assert (STORES / figure).exists()


def test_a_page_of_nothing_says_so(tmp_path):
    runs = read_runs(STANDARD, tmp_path)
    text = page(runs, STANDARD)
    assert "**Not all run yet:**" in text
    assert not re.search(r"nan|None|\{|\}", text)
    assert all(f"### {claim.title}\n" in text for claim in CLAIMS)
    assert all(f"| `{name}` |" in text for name in EXPERIMENTS)


def test_the_prose_states_no_result_by_hand():
    """Every number with decimals is a placeholder's, or the paper's arXiv number."""
    prose = TEMPLATE.read_text("utf-8").replace("2206.13092", "")
    assert not re.findall(r"\d\.\d", prose)


def test_one_command_writes_tables_and_page_and_runs_nothing(tmp_path, capsys):
    folder, experiment = tmp_path / "smoke", load_experiment(CHEAP)
    store = Store(folder / f"{CHEAP}.jsonl", about(CHEAP, experiment, SMOKE))
    record = perform(experiment, experiment.cases(SMOKE)[0], SMOKE, 0)
    store.append(record)
    before = store.path.read_bytes()
    assert main(["page", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    assert "1 of 2 tasks" in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == [f"{CHEAP}.jsonl", f"{CHEAP}.md", PAGE]
    assert "did not finish" in (folder / f"{CHEAP}.md").read_text()
    assert store.path.read_bytes() == before
    # A task that is run again gives the stored rows, and one that was changed does not.
    asked = ["check", "--preset", "smoke", "--out", str(tmp_path)]
    assert main(asked) == 0
    assert "1 of 1 tasks are equal" in capsys.readouterr().out
    rows = [{**row, "length": 2 * row["length"]} for row in record["rows"]]
    store.append({**record, "rows": rows})
    assert main(asked) == 3
    said = capsys.readouterr().out
    assert "length was" in said
    assert f"(stored at {record['made']['commit'][:7]})" in said


def test_a_check_takes_a_share_of_each_experiment(tmp_path):
    experiment = load_experiment(CHEAP)
    store = Store(tmp_path / f"{CHEAP}.jsonl", about(CHEAP, experiment, STANDARD))
    for case in experiment.cases(STANDARD):
        store.append({"case": case, "rows": [], "seconds": float(case["repeat"])})
    first, same, other = (chosen(STANDARD, tmp_path, 0.1, seed) for seed in (0, 0, 1))
    assert first == same != other
    assert len(first) == 4
    quick = chosen(STANDARD, tmp_path, 1.0, 0, within=2.0)
    assert {record["case"]["repeat"] for _, record in quick} == {0, 1, 2}
    broken = {"case": {"dataset": "nothing", "repeat": 0}, "rows": []}
    assert "nothing" in again(CHEAP, broken, STANDARD)[0]


def test_a_task_is_run_again_with_the_order_of_its_own_fields(monkeypatch):
    """A store sorts them, and seeds depend on the order."""
    name, case = "proposition2", {"repeat": 0, "size": 4_000, "dataset": "sim2"}
    (own,) = [one for one in load_experiment(name).cases(STANDARD) if one == case]
    monkeypatch.setattr("paper.check.perform", lambda _, case, *rest: {"error": list(case)})
    assert again(name, {"case": case, "rows": []}, STANDARD) == [list(own)] != [list(case)]


def test_rows_are_compared_but_for_times():
    row = {"method": "SLCP", "length": 1.0, "profile": [0.9, None], "seconds": 1.0}
    assert not row_differences([row], [{**row, "length": 1.0 + 1e-12, "law_seconds": 2.0}])
    assert row_differences([row], [{**row, "profile": [0.9, 0.9]}])
    assert row_differences([row], [])
    # The chosen law may end its search elsewhere.
    auto = {**row, "method": "SLCP-auto"}
    assert not row_differences([auto], [{**auto, "length": 1.005}])
    assert row_differences([row], [{**row, "length": 1.005}])


def test_the_mismatch_explains_flat_rows_only_if_right_indices_do_not():
    def lines(right):
        sizes = {"SLCP-RBF": 1.01, "released code, RBF": 1.0, BY_WHOM[2]: right}
        of = {"model": "ridge", "quantity": QUANTITY, "share of rows": "30 %"}
        return [Line({**of, "method": name}, 1.0, r, 0.1, REPRODUCED) for name, r in sizes.items()]

    assert "at most 1.0, 0.0 and 2.0 % longer or shorter" in flatness(lines(1.02))
    assert "does not explain" in flatness(lines(1.02))
    assert "does not explain" not in flatness(lines(0.9))
    assert flatness([]) == ""


def test_numbers_are_shown_without_a_minus_before_zeros():
    line = Line({}, 1.0, -0.001, 0.2, REPRODUCED)
    assert (value(-0.001), value(None)) == ("0.00", "–")
    assert amount(line) == "0.00 ± 0.20"
    assert amount(replace(line, error=None)) == "0.00"
