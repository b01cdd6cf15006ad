"""The README's code runs, and its first two shell blocks are the demo and the tests."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.ci
def test_python_blocks_run_one_after_the_other():
    namespace = {}
    assert blocks("python")
    for number, source in enumerate(blocks("python"), start=1):
        exec(compile(source, f"README.md, python block {number}", "exec"), namespace)


@pytest.mark.parametrize(
    ("position", "extra", "command"),
    [(0, "cli", ".venv/bin/localconformal demo"), (1, "test", ".venv/bin/python -m pytest")],
)
def test_first_shell_blocks_set_up_everything_and_run(position, extra, command):
    source = blocks("bash")[position]
    steps = ["python3 -m venv .venv", f"pip install -q -e '.[{extra}]'", command]
    places = [source.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)


def test_tests_run_with_one_openmp_thread():
    assert "OMP_NUM_THREADS=1" in blocks("bash")[1]


def test_the_first_shell_block_comes_within_a_screen():
    assert README[: README.index("```bash")].count("\n") < 20


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_links_into_the_repository_lead_somewhere(target):
    assert target.startswith("https://") or (ROOT / target).is_file()


def test_the_picture_is_small():
    assert (ROOT / "docs" / "images" / "demo.png").stat().st_size < 150_000


def test_every_public_estimator_is_in_the_table():
    from localconformal import regressors

    for name in regressors.__all__:
        if name.endswith("Regressor"):
            assert f"| `{name}` |" in README
