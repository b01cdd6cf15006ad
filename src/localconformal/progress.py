"""What is being done: lines for a log, and one line on a terminal.

Stages are logged by the logger ``localconformal`` at level INFO, and go nowhere unless a program
asks for them. Where it does not, and standard error is a terminal, the stages under way stand there
on one line, which is gone when all are over.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from localconformal.text import UNSEEN

logger = logging.getLogger("localconformal")
logger.addHandler(logging.NullHandler())

CLEAR = "\r\x1b[K"


class _Stage:
    """Something that takes its time, and the step of it that has begun."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name, self.total = name, total
        self.step, self.begun, self.start = "", 0, time.perf_counter()

    def begin(self, step: str) -> None:
        self.step, self.begun = step, self.begun + 1
        logger.info("%s", self)
        _show()

    def __str__(self) -> str:
        if not self.step:
            return self.name
        count = f"{self.begun}/{self.total}" if self.total else str(self.begun)
        return f"{self.name} {count}: {self.step}" if self.name else f"{count} {self.step}"


_under_way: list[_Stage] = []


def _show() -> None:
    """Write the line again: on a terminal of the first process, unless the same is logged."""
    if (
        sys.stderr is not None
        and sys.stderr.isatty()
        and os.environ.get("TERM") != "dumb"
        and multiprocessing.parent_process() is None
        and not logger.isEnabledFor(logging.INFO)
    ):
        words = UNSEEN.sub(" ", " > ".join(filter(None, map(str, _under_way))))
        shown = " ".join(words.split())[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"{CLEAR}{shown}\r" if shown else CLEAR)
        sys.stderr.flush()


@contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Say what is being done while it is; the value is to be called with each step begun.

    The name is empty where the steps, of which there are ``total``, say it all.

    Examples
    --------
    >>> with stage("choose a law", 2) as step:
    ...     step("forest")
    ...     step("kernel")
    """
    under_way = _Stage(name, total)
    if name:
        logger.info("%s", name)
    _under_way.append(under_way)
    _show()
    try:
        yield under_way.begin
    finally:
        _under_way.remove(under_way)
        _show()
        if name:
            logger.info("%s: %.1f s", name, time.perf_counter() - under_way.start)
