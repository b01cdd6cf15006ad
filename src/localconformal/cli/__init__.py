"""The command line: one thin function per command, such as ``localconformal demo``."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec
from typing import Any

#: Packages that the extra "cli" adds to the core.
NEEDED = ("typer", "rich", "matplotlib", "pandas", "pyarrow", "skops", "jinja2")
#: Requests to end, by other programs or a closed terminal; Windows lacks the second.
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def main() -> None:
    """Entry point of the ``localconformal`` command."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(
            f"The localconformal command needs {', '.join(missing)}, which is not installed: "
            "run pip install 'localconformal[cli]'."
        )
    # OpenMP reads this when scikit-learn is imported. By default waiting threads spin: on a busy
    # machine they take the processor from those that have work, and 10 s of fitting took 200 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for number in _ENDING:
        # nohup ignores one of them; leave that alone.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    from localconformal.cli.app import app

    app()


def _end(number: int, frame: Any) -> None:
    """End as after an error, which removes unfinished files, with the shell's code for signals."""
    for one in (*_ENDING, signal.SIGINT):
        # Ignore signals that arrive while files are being removed.
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)
