"""The versions that pyproject.toml declares, for the noxfile and for its test."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest and nox both bring it there
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
#: Tables that come in: no dependency, but the oldest ones are tried too.
FRAMES = ("pandas", "polars", "pyarrow")
#: Reads and writes model files, in an extra; older versions are refused, so the oldest is tried.
MODEL_FILES = ("skops",)


def project(pyproject: Path = ROOT / "pyproject.toml") -> dict[str, Any]:
    return tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]


def python_versions() -> list[str]:
    """Every Python that the classifiers name, the oldest first."""
    named = (re.search(r":: (3\.\d+)$", text) for text in project()["classifiers"])
    return [match[1] for match in named if match]


def lower_bound(requirement: str) -> tuple[str, str] | None:
    """(name, version) of ``name>=version``; None where no lowest version is declared.

    >>> lower_bound("numpy>=1.24"), lower_bound("dask[array]>=2025.1; python_version > '3'")
    (('numpy', '1.24'), ('dask', '2025.1'))
    >>> lower_bound("localconformal[cli]")
    """
    found = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*>=\s*([0-9][0-9.]*)", requirement)
    return (found[1], found[2]) if found else None


def oldest_versions() -> dict[str, str]:
    """Name -> lowest declared version, of every dependency, of frames and of model files."""
    declared = project()
    core = [lower_bound(text) for text in declared["dependencies"]]
    extras = [
        text
        for name in ("plots", "cli", "test")
        for text in declared["optional-dependencies"][name]
    ]
    extra = dict(filter(None, map(lower_bound, extras)))
    return dict(filter(None, core)) | {name: extra[name] for name in (*FRAMES, *MODEL_FILES)}
