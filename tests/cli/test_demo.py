import json

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from localconformal.cli.app import app
from localconformal.cli.demo_comparison import EDGES, ORACLE, SLCP, SPLIT, compare
from localconformal.cli.demo_rendering import conclusion, table


@pytest.fixture(scope="module")
def comparison():
    return compare(seed=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return CliRunner().invoke(app, ["demo", "--out", str(out)]), out


def test_every_method_covers_about_its_level(comparison):
    for summary in comparison.summaries.values():
        assert summary.coverage == pytest.approx(0.9, abs=0.04)


def test_no_method_beats_the_oracle_and_slcp_comes_close(comparison):
    best = comparison.summaries[ORACLE].interval_score
    scores = {name: summary.interval_score for name, summary in comparison.summaries.items()}
    assert min(scores.values()) == best
    assert scores[SLCP] < 1.1 * best < scores[SPLIT]


def test_slcp_is_more_even_over_the_regions_than_split(comparison):
    unevenness = {name: np.ptp(s.by_region) for name, s in comparison.summaries.items()}
    assert len(comparison.summaries[SLCP].by_region) == len(EDGES) - 1
    assert unevenness[SLCP] < 0.5 * unevenness[SPLIT]


@pytest.mark.ci
def test_the_same_seed_gives_the_same_comparison(comparison):
    again = compare(seed=1)
    for name, intervals in comparison.intervals.items():
        np.testing.assert_array_equal(intervals, again.intervals[name])


@pytest.mark.ci
def test_steps_are_announced_in_order():
    seen = []
    compare(on_step=seen.append)
    assert seen[-1] == "measuring"
    assert SLCP in seen


def test_the_table_has_the_oracle_last_and_fits_eighty_columns(comparison):
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table(comparison))
    lines = capture.get().splitlines()
    named = [line.strip() for line in lines if line.strip().startswith((SLCP, SPLIT, ORACLE))]
    assert named[-1].startswith(ORACLE)
    assert "…" not in capture.get()


def test_the_conclusion_quotes_the_table(comparison):
    assert f"{comparison.summaries[SLCP].mean_length:.2f}" in conclusion(comparison)


def test_the_command_prints_the_table_and_writes_the_plot_and_the_report(run):
    result, out = run
    assert result.exit_code == 0
    for word in ("coverage", "length", "score", SLCP, SPLIT, "CQR", ORACLE):
        assert word in result.stdout
    plot, report = result.stdout.splitlines()[-2:]
    assert plot == f"Plot:   {out / 'demo.png'}"
    assert report == f"Report: {out / 'report.html'}"
    assert sorted(path.name for path in out.iterdir()) == ["demo.png", "report.html"]
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert SPLIT in page
    assert "5,000" in page


@pytest.mark.ci
def test_json_is_all_that_is_printed(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--json", "--out", str(tmp_path)])
    document = json.loads(result.stdout)
    assert document["methods"][SLCP]["coverage"] > 0.85
    assert document["files"]["report"] == str(tmp_path / "report.html")
    assert result.stderr == ""


def test_nothing_but_the_results_is_printed_when_this_is_no_terminal(run):
    result, _ = run
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
