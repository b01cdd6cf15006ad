import numpy as np
import pytest
from table_files import call, call_json

from localconformal.cli.demo import EDGES, ORACLE, SLCP, SPLIT


@pytest.mark.ci
def test_slcp_is_close_to_the_truth_and_even_over_the_regions_and_the_seed_decides(tmp_path):
    document, again = (call_json("demo", "--seed", 1, "--out", tmp_path) for _ in range(2))
    assert document == again
    methods = document["methods"]
    for row in methods.values():
        assert row["coverage"] == pytest.approx(0.9, abs=0.04)
        assert len(row["by_region"]) == len(EDGES) - 1
    scores = {name: row["interval_score"] for name, row in methods.items()}
    assert min(scores.values()) == scores[ORACLE]
    assert scores[SLCP] < 1.1 * scores[ORACLE] < scores[SPLIT]
    assert np.ptp(methods[SLCP]["by_region"]) < 0.5 * np.ptp(methods[SPLIT]["by_region"])
    assert document["files"]["report"].endswith("report.html")


@pytest.mark.ci
def test_the_command_prints_the_table_and_writes_the_plot_and_the_report(tmp_path):
    out = tmp_path / "new" / "folder"
    result = call("demo", "--out", out)
    # Nothing but the results is printed when this is no terminal.
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert "…" not in result.stdout
    assert result.stdout.splitlines()[-1] == f"Report: {out / 'report.html'}"
    assert sorted(path.name for path in out.iterdir()) == ["demo.png", "report.html"]
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert SPLIT in (out / "report.html").read_text(encoding="utf-8")
