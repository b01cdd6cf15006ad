"""The page about reliability says what the committed measurements say."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


#: Shares of mutants that tests must notice; 80 % elsewhere.
LEAST_KILLED = {"quantiles": 0.9, "scores": 0.9, "adjustments": 0.9}


def measured(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def fuzz(found):
    assert found["defects"] == 0
    yield f"{found['sequences']:,} sequences of {found['steps']:,} calls"
    yield f"{found['outcomes']['result']:,} results"
    yield f"`{found['command']}`"


def stress(found):
    yield f"`{found['command']}`"
    yield f"{found['cells']} cells"
    yield f"{found['fits']:,} fits"
    for outcome, count in found["outcomes"].items():
        yield f"{count} {outcome}"


def monitor(found):
    yield f"{found['quiet']['streams']:,} of {found['quiet']['rows']:,} rows"
    yield f"{found['quiet']['alarms']} false alarms"


def resources(found):
    for cycles in found["cycles"]:
        yield f"{cycles['megabytes_of_growth_since']} MB"


def mutation(found):
    for package, of in found["packages"].items():
        killed, late, survived = (of["tally"][key] for key in ("killed", "timed out", "survived"))
        yield f"`{of['command']}`"
        share = f"{100 * of['share_killed']:.0f} %"
        nothing = of["survivors_without_a_difference"]
        assert of["share_killed"] >= LEAST_KILLED.get(package, 0.8)
        counts = f"{of['tried']} | {killed} | {late} | {survived}"
        yield f"| {package} | {counts} | {share} | {nothing} |"


@pytest.mark.parametrize("figures", [fuzz, stress, monitor, resources, mutation])
def test_figures_are_those_measured(figures):
    for words in figures(measured(figures.__name__)):
        assert words in PAGE
