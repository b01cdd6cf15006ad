"""Versions of Python and packages: for model files, reports and benchmarks."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

#: Packages that results depend on.
PACKAGES = ("localconformal", "numpy", "scipy", "scikit-learn", "numba")


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Package -> version, Python first; packages that are not installed are left out.

    Examples
    --------
    >>> list(versions(["scikit-learn", "no such package"]))
    ['python', 'scikit-learn']
    """
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
