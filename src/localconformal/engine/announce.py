"""A word on the terminal while the compiler works: once on a machine, for some seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

#: Seconds after which a wait is explained; loading from the disk cache takes less.
PATIENCE = 1.0
#: The line of stages (`localconformal.progress`), which may be there, is cleared first.
CLEAR = "\r\x1b[K"
WORDS = "localconformal: compiling the engine, once on this machine; it takes some seconds ...\n"


@contextmanager
def compiling() -> Iterator[None]:
    """Explain a long wait on a terminal; silent elsewhere, and when everything is cached."""
    if not (sys.stderr is not None and sys.stderr.isatty()):
        yield
        return
    timer = Timer(PATIENCE, _say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say() -> None:
    sys.stderr.write(CLEAR + WORDS)
    sys.stderr.flush()
