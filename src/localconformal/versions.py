"""Versions of Python and packages, and the machine: for model files, reports and benchmarks."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: What results depend on.
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


def machine() -> dict[str, str | int | None]:
    """Processor, cores and system, as far as the system tells."""
    cpu_info = Path("/proc/cpuinfo")
    lines = cpu_info.read_text().splitlines() if cpu_info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor()
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system()}
