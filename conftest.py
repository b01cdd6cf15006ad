"""Doctests that need PyTorch are left out, by name, where it is not installed."""

from importlib.util import find_spec

TORCH = ["src/localconformal/torch/*.py", "paper/networks.py", "paper/age_network.py"]
collect_ignore_glob = [] if find_spec("torch") and find_spec("skorch") else TORCH


def pytest_report_header():
    """Say what is left out."""
    left_out = ", ".join(collect_ignore_glob)
    return [f"left out without PyTorch and skorch: {left_out}"] if left_out else []
