"""What is declared to be supported is what the sessions of the noxfile install."""

import ast
import re
import sys
from importlib.metadata import version
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import localconformal
from declared_versions import FRAMES, MODEL_FILES, ROOT, oldest_versions, project, python_versions
from localconformal.io.models import OLDEST_SKOPS

#: Imported under another name than the one that is declared, or brought by what is declared.
DECLARED_AS = {"sklearn": "scikit-learn", "llvmlite": "numba", "markupsafe": "jinja2"}
DECLARED_AS |= {"distributed": "dask", "PIL": "matplotlib", "filelock": "torch"}
DECLARED_AS |= {"mlflow": "mlflow-skinny"}
NOT_OURS = {"xgboost"}
FOR_DEVELOPERS = {"docs", "test", "test-all"}

NOXFILE = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def session_source(name):
    decorated = r"^@nox\.session[^\n]*\ndef {name}\(.*?(?=^@|^def |\Z)"
    return re.search(decorated.format(name=name), NOXFILE, re.M | re.S)[0]


def declared():
    """Every requirement, as the installer reads it: name -> its lowest versions, one if agreed."""
    extras, found = project()["optional-dependencies"].values(), {}
    for requirement in map(Requirement, [*chain(*extras), *project()["dependencies"]]):
        lowest = {one.version for one in requirement.specifier if one.operator == ">="}
        found[requirement.name] = found.get(requirement.name, set()) | lowest
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


CORE = {Requirement(text).name for text in project()["dependencies"]}
FOR_USERS = set(project()["optional-dependencies"]) - FOR_DEVELOPERS


@pytest.mark.ci
def test_every_import_is_declared():
    used = {name for path in (ROOT / "src").rglob("*.py") for name in imported(path)}
    used -= {*sys.stdlib_module_names, project()["name"], *NOT_OURS}
    assert used <= CORE | brought_by(*FOR_USERS)


def test_the_extra_all_is_every_extra_for_users_but_torch():
    assert brought_by("all") == brought_by(*FOR_USERS - {"all", "torch"})
    assert "torch" not in brought_by("all")


def test_the_oldest_session_installs_the_declared_minimum():
    oldest = oldest_versions()
    assert set(oldest) == CORE | set(FRAMES) | set(MODEL_FILES)
    for name, lowest in oldest.items():
        assert declared()[name] == {lowest}, name
        assert Version(version(name)) >= Version(lowest), name
    pins = 'f"{name}=={version}" for name, version in oldest_versions().items()'
    assert pins in session_source("oldest")
    assert not re.search(r"[=<>]=\s*\d", NOXFILE), "a version stands in the noxfile too"
    assert Version(oldest["skops"]).release == OLDEST_SKOPS


def test_every_supported_python_has_a_session():
    names = {node.name for node in ast.parse(NOXFILE).body if isinstance(node, ast.FunctionDef)}
    assert names >= {"tests", "oldest", "newest", "nightly", "lint", "types", "docs"}
    assert f">={python_versions()[0]}" == project()["requires-python"]
    assert "python=PYTHONS)" in session_source("tests")
    assert "python=PYTHONS[0])" in session_source("oldest")


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_release_has_one_version_and_one_date():
    version, date = re.search(r"^## \[(\d\S*)\] - (\S+)$", text_of("CHANGELOG.md"), re.M).groups()
    assert re.search(r"^version: (.*)$", text_of("CITATION.cff"), re.M)[1] == version
    assert re.search(r"^date-released: (.*)$", text_of("CITATION.cff"), re.M)[1] == date
    assert (
        re.search(r"^  version: (.*)$", text_of("packaging/conda/recipe.yaml"), re.M)[1] == version
    )
    # Between releases, the version is the next one's, and the changelog has a section for it.
    own = Version(localconformal.__version__)
    assert own > Version(version) if own.is_devrelease else own == Version(version)
    assert own.is_devrelease == ("## [Unreleased]" in text_of("CHANGELOG.md"))


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = text_of("packaging/conda/recipe.yaml")
    run, _, constraints = recipe.partition("  run:\n")[2].partition("  run_constraints:\n")
    conda_names = {"matplotlib": "matplotlib-base"}
    for text, names in ((run, CORE), (constraints, brought_by("cli"))):
        listed = dict(re.findall(r"^    - (\S+) >=(\S+)$", text.partition("\ntests:")[0], re.M))
        assert listed == {conda_names.get(one, one): min(declared()[one]) for one in names}
    oldest_python = re.search(r'^  python_min: "(.*)"$', recipe, re.M)[1]
    assert oldest_python == python_versions()[0]
