"""Sessions for every supported Python, and for the oldest and newest of what is depended on.

``nox -l`` lists them, ``nox -s oldest`` runs one. A Python that the machine lacks is skipped. The
versions are those of pyproject.toml: none is written here.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nox

sys.path.append(str(Path(__file__).parent / "tests"))

from declared_versions import oldest_versions, python_versions

PYTHONS = python_versions()
#: To run tests, whatever their version.
RUNNERS = ("hypothesis", "pytest", "pytest-xdist")
#: Tests that need nothing but the core, frames and model files.
CORE_TESTS = (
    "tests/contracts",
    "tests/test_properties.py",
    "tests/hostile/test_walks.py",
    "tests/io",
    "tests/test_frames.py",
    "tests/test_quantiles.py",
    "tests/test_splitting.py",
    "tests/test_versions.py",
)
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The default tests, with what they need."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", *session.posargs, env=ONE_THREAD)


@nox.session(python="3.11")
def nightly(session: nox.Session) -> None:
    """What takes minutes: long walks, stress, kills, memory, all of the paper at its smallest."""
    session.install("-e", ".[test-all]")
    session.run("python", "-m", "pytest", "-m", "nightly", *session.posargs, env=ONE_THREAD)
    session.notify("oldest")
    session.notify("newest")


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """The lowest declared version of each dependency, on the oldest Python."""
    run_core_tests(session, [f"{name}=={version}" for name, version in oldest_versions().items()])


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """The newest version of each dependency that this Python can have."""
    run_core_tests(session, ["--upgrade", *oldest_versions()])


def run_core_tests(session: nox.Session, dependencies: list[str]) -> None:
    """The tests that need no extras, with these dependencies."""
    session.install(*dependencies, *RUNNERS)
    session.install("--no-deps", "-e", ".")
    command = ("python", "-m", "pytest", "-n", "0", *CORE_TESTS)
    session.run(*command, *session.posargs, env=ONE_THREAD)


@nox.session(python=PYTHONS)
def release(session: nox.Session) -> None:
    """The wheel and the sdist, built, checked, installed and used outside of the clone."""
    session.install("build", "twine")
    built = Path(session.create_tmp()).resolve() / "dist"
    shutil.rmtree(built, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(built))
    session.run("python", "-m", "twine", "check", "--strict", *map(str, built.iterdir()))
    session.run("python", "benchmarks/release.py", str(built), *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style."""
    session.install("ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly."""
    session.install("-e", ".[test-all]")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, where a warning is an error, and its links."""
    session.install("-e", ".[docs]")
    pages = str(Path(session.create_tmp()) / "html")
    build = ("-W", "--keep-going", "-q", "-b", "html", "docs", pages)
    session.run("python", "-m", "sphinx", *build, env=ONE_THREAD)
    session.run("python", "docs/check_links.py", pages)
