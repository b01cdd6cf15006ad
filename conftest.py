"""What is collected: files that belong to another level of tests are not even imported."""

import re
from importlib.util import find_spec

DEFAULT_LEVEL = "not ci and not nightly"
OTHER_LEVEL = re.compile(r"^pytestmark = pytest\.mark\.(ci|nightly)$", re.MULTILINE)
TORCH = ["src/localconformal/torch/*.py", "paper/networks.py", "paper/age_network.py"]
collect_ignore_glob = [] if find_spec("torch") else TORCH
collect_ignore_glob += [] if find_spec("mlflow") else ["src/localconformal/mlflow.py"]


def pytest_report_header():
    """Say what is left out."""
    left_out = ", ".join(collect_ignore_glob)
    return [f"left out without PyTorch or MLflow: {left_out}"] if left_out else []


def pytest_ignore_collect(collection_path, config):
    """PyTorch, Dask and the peers take seconds to import, in every worker."""
    if collection_path.name == "conftest.py":  # several files of one name; none has doctests
        return True
    if config.option.markexpr == DEFAULT_LEVEL and collection_path.suffix == ".py":
        return bool(OTHER_LEVEL.search(collection_path.read_text(encoding="utf-8"))) or None
    return None
