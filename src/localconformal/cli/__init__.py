"""The command line: ``localconformal demo`` and what follows, thin functions, one per command."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec
from typing import Any

#: What the extra "cli" brings and the core does not.
NEEDED = ("typer", "rich", "matplotlib", "pandas", "pyarrow", "skops", "jinja2")
#: Asks to end, from other programs and from a terminal that is closed; Windows lacks the second.
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


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
    for number in _ENDING:
        # nohup has one of them ignored, and that stays.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    from localconformal.cli.app import app

    app()


def _end(number: int, frame: Any) -> None:
    """End as after an error, so that unfinished files are removed; the shell's code for signals."""
    for one in (*_ENDING, signal.SIGINT):
        # What comes while files are removed comes too late.
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)
