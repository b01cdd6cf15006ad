"""What the figures were measured on."""

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = [
    "localconformal",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "mapie",
    "crepes",
    "conditionalconformal",
]


def cpu_model():
    """Name of the processor, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe():
    """Machine, versions, threads, load."""
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {package: installed(package) for package in PACKAGES},
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "load_average": list(os.getloadavg()),
    }
