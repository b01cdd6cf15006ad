"""Doctests that need PyTorch are left out, by name, where it is not installed."""

from importlib.util import find_spec

TORCH = "src/localconformal/torch"
collect_ignore_glob = [] if find_spec("torch") else [f"{TORCH}/*.py"]


def pytest_report_header():
    """Say what is left out."""
    return [f"{TORCH}: doctests left out, torch is not installed"] if collect_ignore_glob else []
