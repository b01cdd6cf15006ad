"""What is declared to be supported is what the sessions of the noxfile install."""

import ast
import re
import sys
from importlib.metadata import version
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from declared_versions import (
    FRAMES,
    MODEL_FILES,
    ROOT,
    oldest_versions,
    project,
    python_versions,
)
from localconformal.io.models import OLDEST_SKOPS

#: Imported under another name than the one that is declared, or brought by what is declared.
DECLARED_AS = {
    "sklearn": "scikit-learn",
    "llvmlite": "numba",
    "markupsafe": "jinja2",
    "distributed": "dask",
    "PIL": "matplotlib",
    "filelock": "torch",
}
#: Models that the user brings.
NOT_OURS = {"xgboost"}
#: Extras of those who work on the library itself.
FOR_DEVELOPERS = {"docs", "test", "test-all"}

NOXFILE = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def session_source(name):
    """The text of one session, with its decorator."""
    decorated = r"^@nox\.session[^\n]*\ndef {name}\(.*?(?=^@|^def |\Z)"
    return re.search(decorated.format(name=name), NOXFILE, re.M | re.S)[0]


def declared():
    """Every requirement, as the installer reads it: name -> its lowest version."""
    extras = project()["optional-dependencies"].values()
    found = {}
    for requirement in map(Requirement, [*chain(*extras), *project()["dependencies"]]):
        for clause in requirement.specifier:
            if clause.operator == ">=":
                found[requirement.name] = clause.version
    return found


def imported(path):
    """Packages that a module imports, wherever in it, under the names that are declared."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            yield DECLARED_AS.get(top, top)


def brought_by(*extras):
    """Names that these extras install, those of the extras within them included."""
    texts = chain.from_iterable(project()["optional-dependencies"][name] for name in extras)
    found = set()
    for requirement in map(Requirement, texts):
        inner = requirement.name == project()["name"]
        found |= brought_by(*requirement.extras) if inner else {requirement.name}
    return found


def test_every_import_is_declared():
    used = {name for path in (ROOT / "src").rglob("*.py") for name in imported(path)}
    used -= {*sys.stdlib_module_names, project()["name"], *NOT_OURS}
    core = {Requirement(text).name for text in project()["dependencies"]}
    users = set(project()["optional-dependencies"]) - FOR_DEVELOPERS
    assert used <= core | brought_by(*users)


def test_the_extra_all_is_every_extra_for_users_but_torch():
    users = set(project()["optional-dependencies"]) - FOR_DEVELOPERS - {"all", "torch"}
    assert brought_by("all") == brought_by(*users)
    assert "torch" not in brought_by("all")


def test_every_dependency_declares_its_lowest_version():
    core = {Requirement(text).name for text in project()["dependencies"]}
    assert core <= set(oldest_versions())
    assert set(oldest_versions()) == core | set(FRAMES) | set(MODEL_FILES)


def test_the_oldest_session_installs_the_declared_minimum():
    assert oldest_versions() == {name: declared()[name] for name in oldest_versions()}
    pins = 'f"{name}=={version}" for name, version in oldest_versions().items()'
    assert pins in session_source("oldest")
    assert not re.search(r"[=<>]=\s*\d", NOXFILE), "a version stands in the noxfile too"


def test_a_frame_has_one_lowest_version():
    for name, requirements in project()["optional-dependencies"].items():
        for requirement in map(Requirement, requirements):
            if requirement.name in FRAMES:
                lowest = str(requirement.specifier).removeprefix(">=")
                assert lowest == oldest_versions()[requirement.name], name


def test_what_is_refused_at_run_time_is_what_is_declared():
    assert Version(oldest_versions()["skops"]).release == OLDEST_SKOPS


def test_every_supported_python_has_a_session():
    assert f">={python_versions()[0]}" == project()["requires-python"]
    assert "python=PYTHONS)" in session_source("tests")
    assert "python=PYTHONS[0])" in session_source("oldest")


def test_sessions():
    names = {node.name for node in ast.parse(NOXFILE).body if isinstance(node, ast.FunctionDef)}
    assert names >= {"tests", "oldest", "newest", "nightly", "lint", "types", "docs"}


@pytest.mark.parametrize("name", sorted(oldest_versions()))
def test_nothing_older_is_in_use(name):
    assert Version(version(name)) >= Version(oldest_versions()[name])
