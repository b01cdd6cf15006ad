"""The command line: ``localconformal demo`` and what follows, one thin file per command."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

#: What the extra "cli" brings and the core does not.
NEEDED = ("typer", "rich", "matplotlib", "pandas", "pyarrow", "skops")


def main() -> None:
    """Entry point of the ``localconformal`` command."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(
            f"The localconformal command needs {', '.join(missing)}, which is not installed: "
            "run pip install 'localconformal[cli]'."
        )
    # OpenMP reads it when scikit-learn is imported. Threads that wait spin by default: on a busy
    # machine they keep those from the processor that have work, and 10 s of fitting took 200 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from localconformal.cli.app import app

    app()
