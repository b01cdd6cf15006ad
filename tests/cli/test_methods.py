import json

import pytest
from typer.testing import CliRunner

from localconformal.cli.app import app
from localconformal.workflow.methods import named_methods


def invoke(*args):
    return CliRunner().invoke(app, ["methods", *args])


def test_every_method_is_listed_once():
    result = invoke()
    assert result.exit_code == 0
    first_words = [line.split()[0] for line in result.stdout.splitlines() if line.split()]
    for method in named_methods():
        assert first_words.count(method.name) == 1
    assert "…" not in result.stdout


def test_json_lists_the_same():
    listed = json.loads(invoke("--json").stdout)["methods"]
    assert [one["name"] for one in listed] == [method.name for method in named_methods()]
    assert {"guarantee", "cost", "when", "reference", "parameters"} <= set(listed[0])


@pytest.mark.parametrize("method", named_methods(), ids=lambda method: method.name)
def test_one_method_in_detail(method):
    result = invoke(method.name)
    assert result.exit_code == 0
    for text in (method.facts.estimator, method.facts.guarantee, method.facts.reference):
        assert text in result.stdout
    assert "confidence_level=0.9" in result.stdout
    assert "Parameters\n---" not in result.stdout
    assert json.loads(invoke(method.name, "--json").stdout)["name"] == method.name


def test_an_unknown_method_is_one_sentence():
    result = invoke("slpc")
    assert result.exit_code == 2
    assert "did you mean slcp?" in result.stderr
    assert result.stdout == ""
